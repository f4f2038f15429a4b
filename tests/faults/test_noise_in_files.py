# SPDX-License-Identifier: Apache-2.0
"""Noise in a file that changes, vanishes or is cut off under a run, is damaged, or cannot be saved."""

import os
import random
import shutil
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.disks import largest_file, read_only, room_left, small_disk
from tests.stopping import StopAfter
from typer.testing import CliRunner

from noiseproof import datasets, noise
from noiseproof.command_line import app
from noiseproof.training import Interrupted, engine, resolve, train
from noiseproof.training.store import Store

TRUE = datasets.load("digits", "train").labels
ENDINGS = (".npz", ".npy", ".txt", ".csv")


def command(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert "Traceback" not in done.output
    return done.exit_code, done.output


def write_noise(path, seed=5):
    made = noise.symmetric(TRUE, 0.4, 10, seed=seed)
    if path.suffix == ".npz":
        made.save(path)
    elif path.suffix == ".npy":
        np.save(path, made.labels)
    else:
        path.write_text("".join(f"{label}\n" for label in made.labels))
    return path


def config_of(path):
    return resolve("digits", noise=f"file:{path}", epochs=3, device="cpu", model_options={"hidden": [16]})


def weights_of(folder, config):
    return load_file(folder / config.run_id / "weights.safetensors")


def same_weights(one, two):
    return all(torch.equal(tensor, two[name]) for name, tensor in one.items())


@pytest.fixture(scope="module", params=ENDINGS)
def begun(request, tmp_path_factory):
    """A file with noise, a run on it that was stopped after an epoch, and the weights where it was not."""
    folder = tmp_path_factory.mktemp("begun")
    path = write_noise(folder / f"noisy{request.param}")
    config = config_of(path)
    train(config, folder=folder / "right", quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "Interruption", lambda: StopAfter(30))
        with pytest.raises(Interrupted):
            train(config, folder=folder / "runs", quiet=True)
    return path, config, folder


def overwrite(path):
    write_noise(path, seed=6)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def empty(path):
    os.truncate(path, 0)


def put_a_folder_there(path):
    path.unlink()
    path.mkdir()


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = (overwrite, truncate, empty, os.unlink, put_a_folder_there, flip_a_bit)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_between_start_and_resume(begun, tmp_path, damage):
    path, config, folder = begun
    runs = tmp_path / "runs"
    shutil.copytree(folder / "runs", runs)
    kept = path.read_bytes()
    with Store(runs) as store:
        before = store.get(config.run_id)
    assert 1 <= len(before.epochs) < 3
    try:
        damage(path)
        code, said = command("train", "--resume", config.run_id, "--folder", runs, "--quiet")
    finally:
        if path.is_dir():
            path.rmdir()
        path.write_bytes(kept)
    assert code == 2, said
    words = said.replace("\n", " ")
    assert path.name in words
    assert "has changed since this run was begun" in words or "no file" in words, said
    assert "ut the file" in words or "ut it back" in words, said
    with Store(runs) as store:
        assert store.get(config.run_id).epochs == before.epochs, "no epoch is lost"
    code, said = command("train", "--resume", config.run_id, "--folder", runs, "--quiet")
    assert code == 0, said
    assert same_weights(weights_of(folder / "right", config), weights_of(runs, config)), "as ever"


def test_the_same_command_on_a_changed_file_is_a_run_of_its_own(begun, tmp_path):
    path, config, _folder = begun
    kept = path.read_bytes()
    try:
        overwrite(path)
        other = config_of(path)
    finally:
        path.write_bytes(kept)
    assert other.run_id != config.run_id
    assert config_of(path) == config


@pytest.mark.parametrize("damage", [overwrite, truncate, os.unlink], ids=lambda damage: damage.__name__)
def test_while_the_data_are_loaded(begun, tmp_path, monkeypatch, damage):
    """After the run has looked whether the file is the same, and before it is read."""
    path, config, _ = begun
    kept, load = path.read_bytes(), engine.load_data

    def damaging(*arguments):
        damage(path)
        return load(*arguments)

    monkeypatch.setattr(engine, "load_data", damaging)
    try:
        with pytest.raises((ValueError, OSError), match=f"{path.name}|no file") as caught:
            train(config, folder=tmp_path, quiet=True)
    finally:
        path.write_bytes(kept)
    assert any(words in str(caught.value) for words in ("has changed", "not a readable", "labels", "no file"))
    with Store(tmp_path) as store:
        assert not [record for record in store.runs() if record.status == "finished"]


class DamageAfter(StopAfter):
    """Ctrl-C is never pressed, but something happens at a step."""

    def __init__(self, steps, damage):
        super().__init__(steps)
        self.damage = damage

    @property
    def requested(self):
        if super().requested and self.damage is not None:
            self.damage()
            self.damage = None
        return False


@pytest.mark.parametrize("damage", [overwrite, empty, os.unlink], ids=lambda damage: damage.__name__)
def test_while_a_run_is_trained_it_has_its_labels_already(begun, tmp_path, monkeypatch, damage):
    path, config, folder = begun
    kept = path.read_bytes()
    watching = DamageAfter(10, lambda: damage(path))
    monkeypatch.setattr(engine, "Interruption", lambda: watching)
    try:
        train(config, folder=tmp_path, quiet=True)
    finally:
        path.write_bytes(kept)
    assert watching.damage is None, "it happened"
    assert same_weights(weights_of(folder / "right", config), weights_of(tmp_path, config))


def small_records(tmp_path):
    clean = np.arange(40) % 4
    masks = np.zeros((5, 6, 7), np.uint8)
    masks[:, 2:4, 2:5] = 1
    labels, shapes = noise.symmetric(clean, 0.5, 4, seed=1), noise.corrupt_masks(masks, 0.6, 0.5, seed=1)
    labels.save(tmp_path / "labels.npz")
    shapes.save(tmp_path / "masks.npz")

    def read_masks(path):
        found = noise.read_masks(path, masks)
        return found.masks.tobytes(), found.kinds.tolist(), found.share, found.strength, found.seed

    return (
        (tmp_path / "labels.npz", lambda path: noise.read_labels(path, clean, 4)),
        (tmp_path / "masks.npz", read_masks),
    )


def flip(path, read, places, seed):
    """Flip one bit at each place: the same record is read, or the file is refused."""
    right, content, drawn = read(path), path.read_bytes(), random.Random(seed)
    outcomes = {"refused": 0, "without effect": 0}
    for place in places or range(len(content)):
        changed = bytearray(content)
        changed[place % len(content)] ^= 1 << drawn.randrange(8)
        path.write_bytes(changed)
        try:
            found = read(path)
        except ValueError:
            outcomes["refused"] += 1
        else:
            assert found == right, f"byte {place} made another record"
            outcomes["without effect"] += 1
    return outcomes


def test_a_flipped_bit_in_every_byte_of_saved_noise(tmp_path):
    for path, read in small_records(tmp_path):
        outcomes = flip(path, read, None, seed=0)
        print(path.name, outcomes)
        assert outcomes["refused"] > outcomes["without effect"]


@pytest.mark.slow
def test_five_thousand_flipped_bits_in_saved_noise(tmp_path):
    for path, read in small_records(tmp_path):
        places = random.Random(2).choices(range(path.stat().st_size), k=5000)
        print(path.name, flip(path, read, places, seed=1))


SAVE = ("noise", "digits", "--kind", "sym", "--rate", "0.4", "--seed", "3", "--out")


def test_saving_on_a_full_disk_keeps_the_file_that_was_there(tmp_path):
    with small_disk(tmp_path / "disk", "64k") as disk:
        path, failed = disk / "noisy.npz", 0
        for size in (0, 1000, 4096, 8192, 60_000):
            write_noise(path, seed=9)
            before = path.read_bytes()
            with room_left(disk, size):
                code, said = command(*SAVE, path)
            if code:
                failed += 1
                assert code == 2
                assert "make room, then give the same command again" in said
                assert str(path) in said
                assert path.read_bytes() == before
            assert os.listdir(disk) == ["noisy.npz"], "nothing unfinished is left"
        assert 1 <= failed < 5
        assert command(*SAVE, path)[0] == 0
        assert noise.read_labels(path, TRUE, 10).seed == 3


def test_saving_where_the_system_takes_no_more_bytes(tmp_path):
    path = write_noise(tmp_path / "noisy.npz", seed=9)
    before = path.read_bytes()
    with largest_file(500):
        code, said = command(*SAVE, path)
    assert code == 2
    assert "no file may become that large there" in said
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["noisy.npz"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
def test_saving_in_a_read_only_folder(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    with read_only(folder):
        code, said = command(*SAVE, folder / "noisy.npz")
    assert code == 2
    assert "read-only or closed to you; change that, or choose another one" in said
    assert str(folder / "noisy.npz") in said


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_saving_by_a_link_writes_what_it_leads_to(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "noisy.npz").symlink_to(tmp_path / "elsewhere" / "kept.npz")
    assert command(*SAVE, tmp_path / "noisy.npz")[0] == 0
    assert (tmp_path / "noisy.npz").is_symlink()
    assert noise.read_labels(tmp_path / "elsewhere" / "kept.npz", TRUE, 10).seed == 3
