# SPDX-License-Identifier: Apache-2.0
"""Human labels: the official files, files in another order, damaged and hostile ones."""

import os
import pickle

import numpy as np
import pytest
import torch

from noiseproof import noise, torch_files
from noiseproof.noise.human import HUMAN_LABELS, _read


def official(file):
    """True labels of an official file, standing in for those of the data set."""
    entries = _read(file)
    return np.asarray(entries["clean_label"]), entries.get("clean_coarse_label")


@pytest.mark.parametrize(
    ("key", "rate"),
    [
        ("aggre_label", 0.0901),
        ("worse_label", 0.40208),
        ("random_label1", 0.17234),
        ("random_label2", 0.18122),
        ("random_label3", 0.1764),
    ],
)
def test_cifar10n(human_files, key, rate):
    clean, _ = official(human_files["CIFAR-10"])
    noisy = noise.from_file(human_files["CIFAR-10"], key, clean=clean)
    assert noisy.realised_rate == rate
    assert (noisy.kind, noisy.num_classes, noisy.seed, noisy.rate) == ("human", 10, None, None)
    assert dict(noisy.details) == {"file": "CIFAR-10_human.pt", "key": key}
    np.testing.assert_allclose(noisy.transition.sum(axis=1), 1.0)


def test_cifar100n(human_files):
    clean, coarse = official(human_files["CIFAR-100"])
    fine = noise.from_file(human_files["CIFAR-100"], "noisy_label", clean=clean)
    assert round(fine.realised_rate, 4) == 0.4020
    assert fine.num_classes == 100
    super_classes = noise.from_file(human_files["CIFAR-100"], "noisy_coarse_label", clean=coarse)
    assert super_classes.realised_rate == 0.26404
    assert super_classes.num_classes == 20


@pytest.mark.slow
def test_the_file_is_in_the_order_of_cifar10(human_files, cifar10_train):
    noisy = noise.from_file(human_files["CIFAR-10"], "worse_label", clean=cifar10_train[1])
    assert round(noisy.realised_rate, 4) == 0.4021


def test_there_and_back(human_files, tmp_path):
    clean, _ = official(human_files["CIFAR-10"])
    noisy = noise.from_file(human_files["CIFAR-10"], "worse_label", clean=clean)
    noisy.save(tmp_path / "worse.npz")
    assert noise.NoisyLabels.load(tmp_path / "worse.npz", clean=clean) == noisy


def test_another_order_is_refused(human_files):
    clean, _ = official(human_files["CIFAR-10"])
    with pytest.raises(ValueError, match=r"CIFAR-10_human\.pt must be in the order of clean: .* of 50000"):
        noise.from_file(human_files["CIFAR-10"], "worse_label", clean=np.roll(clean, 1))
    with pytest.raises(ValueError, match=r"same data as clean \(49999 labels\), got 50000"):
        noise.from_file(human_files["CIFAR-10"], "worse_label", clean=clean[:-1])


def test_a_key_of_the_other_file(human_files):
    clean, _ = official(human_files["CIFAR-10"])
    with pytest.raises(ValueError, match="has no 'noisy_label'; it holds 'aggre_label'"):
        noise.from_file(human_files["CIFAR-10"], "noisy_label", clean=clean)


def test_an_unknown_key():
    with pytest.raises(
        ValueError, match="key must be one of .* got 'worst_label'; did you mean 'worse_label'"
    ):
        noise.from_file("any.pt", "worst_label", clean=[0])


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="official human labels"):
        noise.from_file(tmp_path / "none.pt", "worse_label", clean=[0])


class Bomb:
    def __reduce__(self):
        return os.system, ("touch bombed",)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("way", ["torch", "pickle", "legacy", "protocol 4"])
def test_a_hostile_file_is_refused(tmp_path, monkeypatch, way):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "hostile.pt"
    content = {"clean_label": Bomb(), "worse_label": Bomb()}
    if way == "torch":
        torch.save(content, file)
    elif way == "legacy":
        torch.save(content, file, _use_new_zipfile_serialization=False)
    else:
        file.write_bytes(pickle.dumps(content, protocol=4 if way == "protocol 4" else 2))
    with pytest.raises(ValueError, match=r"hostile\.pt is not a readable file of human labels"):
        noise.from_file(file, "worse_label", clean=[0, 1])
    assert not (tmp_path / "bombed").exists()


@pytest.mark.parametrize("kept", [0, 1, 200, 0.5, 0.95])
def test_a_file_cut_short(human_files, tmp_path, kept):
    content = human_files["CIFAR-10"].read_bytes()
    short = tmp_path / "short.pt"
    short.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(ValueError, match=r"short\.pt"):
        noise.from_file(short, "worse_label", clean=np.zeros(50_000, dtype=int))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "must hold named label sets, got list"),
        ({"clean_label": [0, 1]}, "has no 'worse_label'"),
        ({"clean_label": [0, 1], "worse_label": [0.5, 1.0]}, "must be integers"),
        ({"clean_label": [0, 1], "worse_label": [0, 10]}, r"must lie in \[0, 10\)"),
        ({"clean_label": [0, 1], "worse_label": torch.tensor([[0, 1]])}, "one-dimensional"),
    ],
)
def test_other_content(tmp_path, content, message):
    file = tmp_path / "other.pt"
    torch.save(content, file)
    with pytest.raises(ValueError, match=message):
        noise.from_file(file, "worse_label", clean=[0, 1])


def test_tensors_are_read_too(tmp_path):
    torch.save({"clean_label": torch.tensor([3, 4]), "worse_label": torch.tensor([3, 5])}, tmp_path / "t.pt")
    assert noise.from_file(tmp_path / "t.pt", "worse_label", clean=[3, 4]).realised_rate == 0.5


def test_the_reader_trusts_no_more_than_it_must():
    assert len(HUMAN_LABELS) == 7
    names = {
        entry[1] if isinstance(entry, tuple) else entry.__name__ for entry in torch_files.array_globals()
    }
    assert names == {
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "ndarray",
        "dtype",
        "Int64DType",
        "encode",
    }
