# SPDX-License-Identifier: Apache-2.0
"""Noise that lies in a file: every form that is read, and everything that does not fit."""

import csv
import pickle
import warnings

import numpy as np
import pytest

from noiseproof import noise

CLEAN = np.arange(3).repeat(40)
GIVEN = np.where(np.arange(120) % 4 == 0, (CLEAN + 1) % 3, CLEAN)
NAMES = ("ant", "bee", "cat")


def read(path, clean=CLEAN, num_classes=3, class_names=NAMES):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return noise.read_labels(path, clean, num_classes, class_names)


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def lines(labels):
    return "".join(f"{label}\n" for label in labels)


def table(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_what_was_saved_comes_back(tmp_path):
    noisy = noise.symmetric(CLEAN, 0.6, 3, seed=1)
    noisy.save(tmp_path / "noisy.npz")
    assert read(tmp_path / "noisy.npz") == noisy


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, ">i4"])
def test_arrays(tmp_path, dtype):
    np.save(tmp_path / "given.npy", GIVEN.astype(dtype))
    found = read(tmp_path / "given.npy")
    assert found.labels.tolist() == GIVEN.tolist()
    assert found.clean.tolist() == CLEAN.tolist()
    assert found.realised_rate == 0.25  # every fourth
    assert (found.kind, found.rate, found.seed, dict(found.details)) == (
        "file",
        None,
        None,
        {"file": "given.npy"},
    )


def test_texts(tmp_path):
    named = [NAMES[label] for label in GIVEN]
    shuffled = np.random.RandomState(0).permutation(120)
    np.savetxt(tmp_path / "floats.txt", GIVEN)  # writes 2 as 2.000000000000000000e+00
    files = [
        written(tmp_path / "plain.txt", lines(GIVEN)),
        written(tmp_path / "windows.txt", "\ufeff" + "\r\n".join(map(str, GIVEN)) + "\r\n\r\n"),
        written(tmp_path / "names.txt", lines(named)),
        tmp_path / "floats.txt",
        table(tmp_path / "bare.csv", [[label] for label in GIVEN]),
        table(tmp_path / "bare-names.csv", [[name] for name in named]),
        table(tmp_path / "headed.csv", [["noisy"], *([label] for label in GIVEN)]),
        table(
            tmp_path / "audit.csv",
            [["index", "label", "given"], *([i, n, "bee"] for i, n in enumerate(named))],
        ),
        table(tmp_path / "order.csv", [["label", "index"], *([GIVEN[i], i] for i in shuffled)]),
    ]
    for path in files:
        assert read(path).labels.tolist() == GIVEN.tolist(), path.name


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", lines(GIVEN[:-1]), r"a\.txt must hold 120 labels, one a training sample, got 119"),
        ("a.txt", "", "must hold 120 labels, one a training sample, got 0"),
        ("a.txt", lines(GIVEN + 1), "labels from 0 to 2, got 1 to 3; subtract 1"),
        ("a.txt", lines(GIVEN * 5), "labels from 0 to 2, got 0 to 10$"),
        (
            "a.txt",
            lines([*GIVEN[:-1], "dog"]),
            "class indices, or names of classes throughout, got 'dog' as label 119",
        ),
        ("a.txt", lines([*(NAMES[k] for k in GIVEN[1:]), "dog"]), "got 'dog' as label 119"),
        ("a.txt", lines([*GIVEN[:-1], 1.5]), "got '1.5' as label 119"),
        ("a.txt", lines([*GIVEN[:-1], "nan"]), "got 'nan' as label 119"),
        ("a.txt", lines([*GIVEN[:-1], "9" * 5000]), "got '9{60}…' as label 119"),
        ("a.txt", "1" * 200_000, "got 200000 bytes, more than any 120 labels take"),
        (
            "a.csv",
            lines([0, *GIVEN]),
            "must hold 120 labels, one a training sample, got 121",
        ),  # not a heading
        ("a.csv", lines(["ant", *(NAMES[k] for k in GIVEN)]), "must hold 120 labels.*got 121"),
        ("a.csv", "1,2\n3,4\n", "one column, or a heading with one column label.* got '1,2'"),
        ("a.csv", "path,class\n1.png,2\n", "a list of pictures is a data set: noiseproof train csv:FILE"),
        ("a.csv", "index,label\n0,1\n0\n", "must have 2 columns throughout, got 1 in row 2"),
        (
            "a.csv",
            "index,label\n" + "".join(f"{i // 2},0\n" for i in range(120)),
            "each index from 0 to 119 once, got",
        ),
        (
            "a.csv",
            "index,label\n" + "".join(f"{i},0\n" for i in range(100)),
            "got 100 rows with 100 different",
        ),
        ("a.json", "[]", r"files that end in \.npz, \.npy, \.csv, \.txt, got '\.json'"),
        ("a.npy", "not an array", r"a\.npy is not a readable \.npy file"),
        ("a.npz", "not an archive", r"a\.npz is not a readable file of noisy labels"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        read(written(tmp_path / name, text))


def test_arrays_that_do_not_fit(tmp_path):
    path = tmp_path / "a.npy"
    for array, message in (
        (GIVEN.astype(float), r"whole numbers, got dtype float64; save the labels with \.astype\(int\)"),
        (GIVEN[:, None], r"120 labels, one a training sample, got shape \(120, 1\)"),
        (GIVEN[:7], r"got shape \(7,\)"),
        (GIVEN - 1, "from 0 to 2, got -1 to 1"),
    ):
        np.save(path, array)
        with pytest.raises(ValueError, match=message):
            read(path)
    np.save(path, GIVEN)
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="or a part of one"):
        read(path)
    path.write_bytes(whole.replace(b"(120,)", b"(99999999999999,)"))  # a size that no memory holds
    with pytest.raises(ValueError, match=r"a\.npy"):
        read(path)


class _Trap:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.txt", "a.csv", "a.pt", "a.pkl"])
def test_pickles_are_not_read(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps(_Trap()))
    with pytest.raises(ValueError, match=f"a\\{path.suffix}"):
        read(path)
    if path.suffix == ".npy":
        np.save(path, np.array([_Trap()] * 120), allow_pickle=True)
    if path.suffix == ".npz":
        np.savez(path, description=np.array([_Trap()]), labels=GIVEN)
    with pytest.raises(ValueError, match=f"a\\{path.suffix}"):
        read(path)


def test_other_data_classes_and_kinds(tmp_path):
    path = tmp_path / "noisy.npz"
    noise.symmetric(CLEAN, 0.6, 4, seed=1).save(path)
    with pytest.raises(
        ValueError, match=r"made for 4 classes, and the data has 3; make it again with num_classes=3"
    ):
        read(path)
    noise.symmetric(CLEAN, 0.6, 3, seed=1).save(path)
    with pytest.raises(ValueError, match="in another order"):
        read(path, CLEAN[::-1])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="not a readable file of noisy labels"):
        read(path)
    masks = np.zeros((6, 12, 12), dtype=np.uint8)
    masks[:, 3:9, 3:9] = 1
    noise.corrupt_masks(masks, 0.5, 0.5, seed=1).save(path)
    with pytest.raises(ValueError, match=r"no labels in it \(but bits, description, kinds\)"):
        read(path)
    with pytest.raises(
        ValueError, match=r"made for 6×12×12 \(number, height, width\), and these are 5×12×12"
    ):
        noise.read_masks(path, masks[:5])
    np.save(tmp_path / "masks.npy", masks)
    with pytest.raises(ValueError, match=r"masks are read from \.npz files"):
        noise.read_masks(tmp_path / "masks.npy", masks)


def test_masks_come_back_and_their_subset(tmp_path):
    masks = np.zeros((6, 12, 12), dtype=np.uint8)
    masks[:, 3:9, 3:9] = 1
    noisy = noise.corrupt_masks(masks, 0.5, 0.5, seed=1)
    noisy.save(tmp_path / "masks.npz")
    some = np.array([4, 1])
    part = noise.read_masks(tmp_path / "masks.npz", masks).subset(some)
    assert np.array_equal(part.masks, noisy.masks[some])
    assert part.kinds.tolist() == noisy.kinds[some].tolist()


@pytest.mark.parametrize("name", ["none.npz", "none.npy", "none.csv", "none.txt"])
def test_what_is_not_there(tmp_path, name):
    with pytest.raises(FileNotFoundError, match=rf"no file .*{name} to read noise from: there is nothing"):
        read(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(FileNotFoundError, match="there is a folder"):
        read(tmp_path / name)


def test_labels_in_another_order_are_warned_of(tmp_path):
    np.save(tmp_path / "given.npy", np.random.RandomState(0).permutation(GIVEN))
    with pytest.warns(UserWarning, match=r"no more than by chance \(33.3%\): are they of other data"):
        noise.read_labels(tmp_path / "given.npy", CLEAN, 3)
    heavy = noise.symmetric(np.arange(10).repeat(500), 0.8, 10, seed=1)  # 20% right, by chance 10%
    np.save(tmp_path / "heavy.npy", heavy.labels)
    assert read(tmp_path / "heavy.npy", heavy.clean, 10).realised_rate == heavy.realised_rate


def test_names_that_are_numbers_of_other_classes_are_not_taken_for_indices(tmp_path):
    """Folders called 0 to 10 are classes in the order of their names: 10 comes before 2."""
    names = ("0", "1", "10", "2")
    true = np.array([0, 1, 2, 3])
    (tmp_path / "given.csv").write_text("label\n0\n1\n10\n2\n")
    with pytest.raises(ValueError, match="two ways: label 2, '10', is an index, and the name of class 2"):
        noise.read_labels(tmp_path / "given.csv", true, 11, names)
    (tmp_path / "indices.csv").write_text("label\n0\n1\n2\n3\n")
    assert noise.read_labels(tmp_path / "indices.csv", true, 4, names).realised_rate == 0
    (tmp_path / "same.csv").write_text("label\n0\n1\n1\n0\n")
    assert noise.read_labels(tmp_path / "same.csv", true, 4, names).realised_rate == 0.5
