# SPDX-License-Identifier: Apache-2.0
"""Animal-10N in its two published forms, raw images and binary records."""

import numpy as np
import pytest
from PIL import Image

from noiseproof.datasets import animal10n
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.registry import get, load


@pytest.mark.parametrize("below", ["", "raw_image"])
def test_raw_images_take_their_label_from_the_name(tmp_path, below):
    root = tmp_path / "published" / below
    for folder, names in (("training", ["7_img_00012.jpg", "0_img_40001.jpg"]), ("testing", ["9_img_1.jpg"])):
        (root / folder).mkdir(parents=True)
        for name in names:
            Image.new("RGB", (64, 64)).save(root / folder / name)
    get(animal10n.NAME, source_folder=tmp_path / "published", root=tmp_path / "cache")
    train = load("animal10n", "train", root=tmp_path / "cache")
    assert [path.name for path in train.paths] == ["0_img_40001.jpg", "7_img_00012.jpg"]
    assert train.labels.tolist() == [0, 7]
    assert train.class_names[7] == "orangutan"
    assert load("animal10n", "test", root=tmp_path / "cache").labels.tolist() == [9]


def records(labels, seed):
    """<id><label><depth x height x width>, as the set's authors write them: 4 + 4 + 3 * 64 * 64 bytes."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (len(labels), 3, 64, 64), dtype=np.uint8)
    parts = [
        number.to_bytes(4, "big") + int(label).to_bytes(4, "big") + pixels[number].tobytes()
        for number, label in enumerate(labels)
    ]
    return pixels, b"".join(parts)


def test_binary_records(tmp_path):
    root = tmp_path / "published"
    root.mkdir()
    contents = {}
    for name, labels, seed in (
        ("data_batch_2", [3, 4], 2),
        ("data_batch_10", [5], 10),
        ("test_batch", [9, 0], 0),
    ):
        contents[name], data = records(labels, seed)
        (root / f"{name}.bin").write_bytes(data)
    get("animal10n", source_folder=root, root=tmp_path / "cache")
    train = load("animal10n", "train", root=tmp_path / "cache")
    assert train.labels.tolist() == [3, 4, 5]  # batch 2 before batch 10
    expected = np.concatenate((contents["data_batch_2"], contents["data_batch_10"])).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(train.images, expected)
    assert load("animal10n", "test", root=tmp_path / "cache").labels.tolist() == [9, 0]


def test_damage_is_named(tmp_path):
    root = tmp_path / "published"
    (root / "training").mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(root / "training" / "10_img_1.jpg")
    with pytest.raises(
        BadFileError, match=r"10_img_1.jpg: expected a name LABEL_....jpg with a label in 0..9"
    ):
        get("animal10n", source_folder=root, root=tmp_path / "cache")

    binary = tmp_path / "binary"
    binary.mkdir()
    _, data = records([3, 77], 1)
    (binary / "data_batch_1.bin").write_bytes(data)
    with pytest.raises(
        BadFileError, match=r"data_batch_1.bin: expected labels in 0..9, found 77 in record 1"
    ):
        get("animal10n", source_folder=binary, root=tmp_path / "cache")
    (binary / "data_batch_1.bin").write_bytes(data[:-1])
    with pytest.raises(BadFileError, match=r"expected whole records of 12296 bytes, found 24591 bytes"):
        get("animal10n", source_folder=binary, root=tmp_path / "cache")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="found neither"):
        get("animal10n", source_folder=tmp_path / "empty", root=tmp_path / "cache")
