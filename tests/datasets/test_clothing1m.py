# SPDX-License-Identifier: Apache-2.0
"""Clothing-1M from a small folder in the published layout."""

import pytest
from PIL import Image

from noiseproof.datasets import clothing1m
from noiseproof.datasets.errors import BadFileError
from noiseproof.datasets.registry import get, load

CATEGORIES = [
    *("T-Shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Downcoat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
]


@pytest.fixture
def published(tmp_path):
    root = tmp_path / "clothing1M"
    keys = [f"images/{k % 10}/{k % 100:02}/{1000 + k},{k}.jpg" for k in range(12)]
    for key in keys:
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 18)).save(root / key)
    noisy = {key: k % 14 for k, key in enumerate(keys[:8])}
    clean = {key: (3 * k) % 14 for k, key in enumerate(keys[4:])}  # some have both, as in the real set
    write(root, "category_names_eng.txt", CATEGORIES)
    write(root, "noisy_label_kv.txt", [f"{key} {label}" for key, label in noisy.items()])
    write(root, "clean_label_kv.txt", [f"{key} {label}" for key, label in clean.items()])
    write(root, "noisy_train_key_list.txt", keys[:8])
    write(root, "clean_train_key_list.txt", keys[4:6])
    write(root, "clean_val_key_list.txt", keys[6:9])
    write(root, "clean_test_key_list.txt", keys[9:])
    return root


def write(root, name, lines):
    (root / name).write_text("\n".join(lines) + "\n")


def test_train_has_noisy_labels_test_and_validation_clean_ones(published, tmp_path):
    get(clothing1m.NAME, source_folder=published, root=tmp_path / "cache")
    train, test, validation = (
        load("clothing1m", split, root=tmp_path / "cache") for split in ("train", "test", "validation")
    )
    assert train.labels.tolist() == list(range(8))
    assert validation.labels.tolist() == [6, 9, 12]
    assert test.labels.tolist() == [15 % 14, 18 % 14, 21 % 14]
    assert train.class_names == tuple(CATEGORIES)
    assert test.paths[0].relative_to(published.resolve()).as_posix() == "images/9/09/1009,9.jpg"


def test_lists_in_annotations(published, tmp_path):
    (published / "annotations").mkdir()
    for path in published.glob("*.txt"):
        path.rename(published / "annotations" / path.name)
    get("clothing1m", source_folder=published, root=tmp_path / "cache")
    assert len(load("clothing1m", "train", root=tmp_path / "cache")) == 8


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("clean_test_key_list.txt", "images/0/00/unknown.jpg", "a key of clean_label_kv.txt on line 4"),
        ("noisy_label_kv.txt", "images/1/01/1001,1.jpg 14", "a label in 0..13 on line 9, found 14"),
        ("noisy_label_kv.txt", "images/1/01/1001,1.jpg three", "'FILE LABEL' on line 9"),
        ("category_names_eng.txt", "Hat", "expected 14 lines, found 15"),
    ],
)
def test_damaged_lists_are_named(published, tmp_path, name, line, message):
    path = published / name
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadFileError, match=message) as caught:
        get("clothing1m", source_folder=published, root=tmp_path / "cache")
    assert caught.value.path == path


def test_a_missing_picture_is_named(published, tmp_path):
    (published / "images/3/03/1003,3.jpg").unlink()
    with pytest.raises(
        BadFileError, match=r"1003,3.jpg: expected a file \(entry 4 of noisy_train_key_list.txt\)"
    ):
        get("clothing1m", source_folder=published, root=tmp_path / "cache")
