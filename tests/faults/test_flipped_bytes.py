# SPDX-License-Identifier: Apache-2.0
"""One flipped bit in what a run left, or in the data it reads: noticed, or without effect; never a wrong result."""

import dataclasses
import random

import numpy as np
import pytest
import torch
from PIL import Image

from noiseproof import datasets, models
from noiseproof.datasets import BadFileError, cache
from noiseproof.models.weight_files import WeightsError
from noiseproof.models.weight_files import read as read_weights
from noiseproof.training import resolve, train
from noiseproof.training.predict import load_trained


def flipped(content, rng, place):
    """The bytes with one bit changed."""
    changed = bytearray(content)
    changed[place] ^= 1 << rng.randrange(8)
    return bytes(changed)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("runs")
    config = resolve("digits", epochs=1, device="cpu", train_size=200, model_options={"hidden": [16]})
    return folder / train(config, folder=folder, quiet=True).id


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_weights(finished, tmp_path):
    """Every byte of the header, and three hundred of the numbers."""
    good = (finished / "weights.safetensors").read_bytes()
    right = read_weights(finished / "weights.safetensors")
    header = 8 + int.from_bytes(good[:8], "little")
    rng = random.Random(0)
    path = tmp_path / "weights.safetensors"
    noticed = {"header": 0, "numbers": 0}
    for place in [*range(header), *(rng.randrange(header, len(good)) for _ in range(300))]:
        path.write_bytes(flipped(good, rng, place))
        try:
            assert same(read_weights(path), right), f"byte {place} made other weights"
        except WeightsError:
            noticed["header" if place < header else "numbers"] += 1
    assert noticed["numbers"] == 300
    # What may pass are letters of what nobody reads: the names of the metadata themselves.
    assert noticed["header"] > header - 60


def test_damaged_weights_are_refused_by_all_that_use_them(finished, tmp_path):
    for name in ("model.json", "weights.safetensors"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    path = tmp_path / "weights.safetensors"
    good = path.read_bytes()
    path.write_bytes(flipped(good, random.Random(1), len(good) - 100))
    for use in (
        lambda: load_trained(tmp_path),
        lambda: models.load_weights(models.create("mlp", 10, in_features=64, hidden=[16]), path),
        lambda: train(resolve("digits", epochs=1, weights=str(path)), folder=tmp_path / "runs", quiet=True),
    ):
        with pytest.raises(
            WeightsError, match=r"checksum differs\); put back a copy, or train the run again"
        ):
            use()


def test_weights_without_a_checksum_are_believed(finished, tmp_path):
    """Those of other programs, and of ours before it wrote any."""
    from safetensors.torch import save_file

    right = read_weights(finished / "weights.safetensors")
    save_file(right, tmp_path / "weights.safetensors", metadata={"format": "pt"})
    assert same(read_weights(tmp_path / "weights.safetensors"), right)


def test_the_description_of_a_model(finished, tmp_path):
    """Every byte of it."""
    (tmp_path / "weights.safetensors").write_bytes((finished / "weights.safetensors").read_bytes())
    good = (finished / "model.json").read_bytes()
    right = load_trained(finished)
    fields = [field.name for field in dataclasses.fields(right) if field.name != "network"]
    rng = random.Random(0)
    refused = 0
    for place in range(len(good)):
        (tmp_path / "model.json").write_bytes(flipped(good, rng, place))
        try:
            found = load_trained(tmp_path)
        except ValueError as error:
            assert "damaged" in str(error)  # noqa: PT017 - which of the bytes pass is not known beforehand
            refused += 1
            continue
        assert all(getattr(found, name) == getattr(right, name) for name in fields), f"byte {place}"
        assert same(found.network.state_dict(), right.network.state_dict())
    assert refused > 0.8 * len(good)  # the rest are spaces between, and the letters of "checksum"


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A set in the cache that is read as Fashion-MNIST is, and a config that trains on it."""
    random_numbers = np.random.RandomState(0)
    arrays = {}
    for split, count in (("train", 64), ("test", 32)):
        arrays[f"{split}_images"] = random_numbers.randint(0, 255, (count, 28, 28, 1)).astype(np.uint8)
        arrays[f"{split}_labels"] = random_numbers.randint(0, 10, count).astype(np.uint8)
    with cache.replacing(tmp_path / "data" / "fashion-mnist") as folder:
        cache.write(folder, arrays, source="made for a test")
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "fashion-mnist"


def test_cached_data(cached, tmp_path):
    config = resolve("fashion-mnist", model="mlp", model_options={}, epochs=1, device="cpu")
    assert train(config, folder=tmp_path / "sound", quiet=True).status == "finished"
    rng = random.Random(0)
    for name in ("train_images", "train_labels", "test_images", "test_labels"):
        path = cached / f"{name}.npy"
        good = path.read_bytes()
        for place in (len(good) - 1, *(rng.randrange(128, len(good)) for _ in range(24))):
            path.write_bytes(flipped(good, rng, place))
            split = name.partition("_")[0]
            with pytest.raises(
                BadFileError, match=rf"{name}.npy: expected sha256 .*data get fashion-mnist --again"
            ):
                datasets.load("fashion-mnist", split)
        with pytest.raises(BadFileError, match="the cache is damaged"):
            train(config, folder=tmp_path / "runs", quiet=True)
        path.write_bytes(good)
    assert train(config, folder=tmp_path / "runs", quiet=True).status == "finished"


def test_the_checksum_is_taken_once_a_file(cached, monkeypatch):
    taken = []
    usual = cache.fingerprint.of_array
    monkeypatch.setattr(cache.fingerprint, "of_array", lambda array: (taken.append(1), usual(array))[1])
    for _ in range(3):
        cache.read_array(cached, "train_images")
    assert len(taken) == 1


def test_a_picture_of_the_users(tmp_path):
    """PNG has checksums of its own; the file is named. JPEG has none, and nobody can tell: the page says so."""
    pixels = np.random.RandomState(0).randint(0, 255, (12, 12, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "good.png")
    good = (tmp_path / "good.png").read_bytes()
    start = good.index(b"IDAT") + 4
    for place in range(start, len(good) - 20, 3):
        (tmp_path / "bad.png").write_bytes(flipped(good, random.Random(place), place))
        with pytest.raises(BadFileError, match=r"bad\.png"):
            datasets.decode.Squash(12, 12).read(tmp_path / "bad.png", np.random.default_rng(0))
