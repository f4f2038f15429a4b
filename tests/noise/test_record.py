# SPDX-License-Identifier: Apache-2.0
"""The record, and its file: kept whole, bound to its data, closed to pickles."""

import copy
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from noiseproof import noise
from noiseproof.noise import NoisyLabels, storage

LABELS = np.random.RandomState(0).randint(0, 5, 400)


def everything():
    images = np.random.RandomState(1).randint(0, 256, (400, 4, 4, 3)).astype(np.uint8)
    return {
        "symmetric": noise.symmetric(LABELS, 0.4, 5, 1),
        "bernoulli": noise.symmetric(LABELS, 0.4, 5, 1, "bernoulli"),
        "asymmetric": noise.asymmetric(LABELS, 0.4, {0: 1}, 1, num_classes=5),
        "transition": noise.from_transition(LABELS, np.full((5, 5), 0.2), 1),
        "instance": noise.instance_dependent(images, LABELS, 0.4, 5, 1),
        "human": noise.from_arrays(LABELS, LABELS, "worse_label", LABELS),
        "open-set": noise.open_set(LABELS, 0.2, 5, 1, num_outside=30),
        "annotators": noise.annotators(LABELS, [0.1, 0.5], 5, 1),
    }


@pytest.fixture(params=everything())
def record(request):
    return everything()[request.param]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "noisy.npz"
    noise.symmetric(LABELS, 0.4, 5, 1).save(path)
    return path


def test_there_and_back(record, tmp_path):
    path = tmp_path / "noisy.npz"
    record.save(path)
    again = NoisyLabels.load(path, clean=LABELS.astype(np.uint8))
    assert again == record
    assert repr(again) == repr(record)
    assert np.array_equal(again.transition, record.transition)


def test_same_record_same_bytes(record, tmp_path):
    for name in ("a.npz", "b.npz"):
        record.save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_copies_and_pickles(record):
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record


def test_arrays_cannot_be_written(record):
    for array in (record.labels, record.clean, record.flipped, record.transition, record.class_rates):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(TypeError):
        record.details["kind"] = "other"
    with pytest.raises(AttributeError):
        record.rate = 0.1


def test_the_caller_keeps_their_array():
    labels = LABELS.copy()
    noisy = noise.symmetric(labels, 0.4, 5, 1)
    labels[:] = 0
    assert np.array_equal(noisy.clean, LABELS)


def test_a_class_without_samples():
    noisy = noise.symmetric([0, 0, 0, 0], 0.5, 3, seed=1)
    assert noisy.transition.tolist() == [[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1]]
    assert noisy.class_rates.tolist() == [0.5, 0.0, 0.0]


def test_another_order_is_refused(saved):
    other = LABELS.copy()
    other[[0, np.argmax(LABELS[0] != LABELS)]] = other[[np.argmax(LABELS[0] != LABELS), 0]]
    for clean in (other, LABELS[::-1]):
        with pytest.raises(ValueError, match=r"noisy\.npz belongs to other clean labels.*another order"):
            NoisyLabels.load(saved, clean=clean)


def test_another_number_is_refused(saved):
    for clean in (LABELS[:-1], np.append(LABELS, 0)):
        message = (
            rf"noisy\.npz belongs to other clean labels: it holds {LABELS.size} labels.* {clean.size} clean"
        )
        with pytest.raises(ValueError, match=message):
            NoisyLabels.load(saved, clean=clean)


def test_a_subset(saved):
    noisy = NoisyLabels.load(saved, clean=LABELS)
    some = np.array([5, 0, 17])
    part = noisy.subset(some)
    assert part.labels.tolist() == noisy.labels[some].tolist()
    assert part.clean.tolist() == LABELS[some].tolist()
    assert (part.kind, part.rate, part.seed) == (noisy.kind, noisy.rate, noisy.seed)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        NoisyLabels.load(tmp_path / "none.npz", clean=LABELS)


def test_the_name_must_end_in_npz(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.npz, got"):
        noise.symmetric(LABELS, 0.4, 5, 1).save(tmp_path / "noisy.npy")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [0, 1, 10, 100, 0.5, 0.9, 0.99])
def test_a_file_cut_short(saved, kept):
    content = saved.read_bytes()
    saved.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(ValueError, match=r"noisy\.npz is not a readable file of noisy labels"):
        NoisyLabels.load(saved, clean=LABELS)


def test_any_changed_byte_is_noticed_or_harmless(saved):
    content, record = saved.read_bytes(), NoisyLabels.load(saved, clean=LABELS)
    for position in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        saved.write_bytes(damaged)
        try:
            read = NoisyLabels.load(saved, clean=LABELS)
        except ValueError:
            continue
        assert read == record  # a byte of zip bookkeeping that no reader looks at


class Bomb:
    def __reduce__(self):
        return os.system, ("touch bombed",)


def test_a_pickle_in_the_file_is_never_opened(saved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.load(saved) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for name in arrays:
        np.savez(saved, **{**arrays, name: np.array([Bomb()], dtype=object)})
        with pytest.raises(ValueError, match="allow_pickle=False"):
            NoisyLabels.load(saved, clean=LABELS)
    saved.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="not a readable file"):
        NoisyLabels.load(saved, clean=LABELS)
    assert not (tmp_path / "bombed").exists()


def rewritten(path, change_description=None, **arrays):
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    if change_description:
        description = json.loads(str(content["description"]))
        change_description(description)
        content["description"] = np.array(json.dumps(description))
    content.update(arrays)
    np.savez(path, **{name: array for name, array in content.items() if array is not None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "there is no labels in it"),
        ({"description": None}, "there is no description in it"),
        ({"more": np.zeros(3)}, "unknown entries: more"),
        ({"labels": np.zeros(400)}, "labels must be int64 of shape"),
        ({"labels": np.zeros(399, dtype=np.int64)}, "labels must be int64 of shape"),
        ({"labels": np.full(400, 7)}, "states 5 classes, and labels go beyond"),
        ({"labels": np.full(400, -1)}, "states 5 classes, and labels go beyond"),
        ({"labels": np.zeros(400, dtype=np.int64)}, "labels do not have the fingerprint"),
        ({"description": np.array("no JSON")}, "description cannot be read"),
        ({"description": np.array("[1]")}, "description cannot be read"),
        ({"description": np.array("{}")}, "description cannot be read"),
        ({"outside": np.zeros(3, dtype=np.int64)}, "outside must be int64 of shape"),
        ({"answers": np.zeros(400, dtype=np.int64)}, "answers must be int64 of shape"),
    ],
)
def test_damaged_content(saved, change, message):
    rewritten(saved, **change)
    with pytest.raises(ValueError, match=message):
        NoisyLabels.load(saved, clean=LABELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=2), "version 1, got 'noisy labels', version 2"),
        (lambda d: d.update(format="noisy masks"), "must hold 'noisy labels'"),
        (lambda d: d.pop("kind"), "lacks a valid kind"),
        (lambda d: d.update(seed="1"), "lacks a valid seed"),
        (lambda d: d.update(num_classes=3), "states 3 classes"),
    ],
)
def test_damaged_description(saved, change, message):
    rewritten(saved, change)
    with pytest.raises(ValueError, match=message):
        NoisyLabels.load(saved, clean=LABELS)


def test_other_files_are_no_records(tmp_path):
    array = tmp_path / "array.npz"
    with open(array, "wb") as file:
        np.save(file, LABELS)
    with pytest.raises(ValueError, match="one bare array"):
        NoisyLabels.load(array, clean=LABELS)
    archive = tmp_path / "archive.npz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("readme.txt", "nothing")
    with pytest.raises(ValueError, match="there is no description, labels in it"):
        NoisyLabels.load(archive, clean=LABELS)


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(*arguments):
        raise OSError("disk full")

    for name in ("fsync", "replace"):
        monkeypatch.setattr(storage.os, name, fail)
        with pytest.raises(OSError, match="disk full"):
            noise.symmetric(LABELS, 0.8, 5, 2).save(saved)
        monkeypatch.undo()
        assert saved.read_bytes() == before
        assert [file.name for file in saved.parent.iterdir()] == ["noisy.npz"]


def test_saving_replaces(saved):
    other = noise.symmetric(LABELS, 0.8, 5, 2)
    other.save(saved)
    assert NoisyLabels.load(saved, clean=LABELS) == other


def test_records_differ_by_how_they_were_made():
    first = noise.symmetric(LABELS, 0.4, 5, 1)
    assert first != noise.symmetric(LABELS, 0.4, 5, 2)
    assert first != noise.symmetric(LABELS, 0.4, 6, 1)
    assert first != "something else"
