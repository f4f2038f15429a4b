# SPDX-License-Identifier: Apache-2.0
"""ISIC-2017: small folders in the published layout, damage one by one, the real 128-px data where present."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from noiseproof.datasets import isic2017
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.registry import get, load

REAL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "isic-128px"


def write_pair(root, prefix, name, size=(60, 40), mask=None):
    pictures, masks = root / f"{prefix}_Data", root / f"{prefix}_Part1_GroundTruth"
    for folder in (pictures, masks):
        folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (180, 120, 90)).save(pictures / f"{name}.jpg", quality=95)
    Image.new("L", size).save(pictures / f"{name}_superpixels.png")
    if mask is None:
        mask = np.zeros((size[1], size[0]), dtype=np.uint8)
        mask[: size[1] // 2] = 255
    Image.fromarray(mask).save(masks / f"{name}_segmentation.png")


@pytest.fixture
def published(tmp_path):
    root = tmp_path / "isic"
    for number in (2, 0, 1):
        write_pair(root, "ISIC-2017_Training", f"ISIC_{number:07}", size=(60 + number, 40))
    write_pair(root, "ISIC-2017_Test_v2", "ISIC_0012086")
    (root / "ISIC-2017_Training_Data" / "ISIC-2017_Training_Data_metadata.csv").write_text(
        "image_id,age,sex\n"
    )
    return root


def test_pictures_and_masks_are_resized_once_and_kept_as_arrays(published, tmp_path):
    folder = get("isic2017", source_folder=published, root=tmp_path / "cache")
    train = load("isic2017", "train", root=tmp_path / "cache")
    assert train.images.shape == (3, 256, 256, 3)
    assert isinstance(train.images, np.memmap)
    assert train.masks.shape == (3, 256, 256)
    assert set(np.unique(train.masks)) == {0, 1}
    assert (train.masks[:, :128] == 1).all()
    assert (train.masks[:, 128:] == 0).all()
    assert train.labels.tolist() == [0, 0, 0]
    assert train.class_names == ("background", "lesion")
    assert np.abs(train.images.astype(int) - [180, 120, 90]).max() <= 3
    assert len(load("isic2017", "test", root=tmp_path / "cache")) == 1
    with pytest.raises(DataError, match="imported without a validation split; it has train, test"):
        load("isic2017", "validation", root=tmp_path / "cache")
    assert sorted(path.name for path in folder.iterdir())[0] == "manifest.json"


def test_validation_where_present_and_folders_one_level_deeper(published, tmp_path):
    write_pair(published, "ISIC-2017_Validation", "ISIC_0001769")
    deeper = tmp_path / "deeper"
    for split, prefix in isic2017.FOLDERS.items():
        (deeper / split).mkdir(parents=True)
        for path in published.glob(f"{prefix}_*"):
            path.rename(deeper / split / path.name)
    get("isic2017-128px", source_folder=deeper, root=tmp_path / "cache")
    assert load("isic2017-128px", "validation", root=tmp_path / "cache").images.shape == (1, 128, 128, 3)


def refuse(published, tmp_path, message, error=BadFileError):
    with pytest.raises(error, match=message):
        get("isic2017", source_folder=published, root=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


def test_a_picture_without_mask(published, tmp_path):
    (published / "ISIC-2017_Training_Part1_GroundTruth" / "ISIC_0000001_segmentation.png").unlink()
    refuse(
        published,
        tmp_path,
        r"ISIC_0000001.jpg: expected its mask .*ISIC_0000001_segmentation.png, found no such",
    )


def test_a_mask_without_picture(published, tmp_path):
    (published / "ISIC-2017_Test_v2_Data" / "ISIC_0012086.jpg").rename(
        published / "ISIC-2017_Test_v2_Data" / "ISIC_0012087.jpg"
    )
    refuse(published, tmp_path, r"ISIC_0012087.jpg: expected its mask")


def test_a_mask_of_another_size(published, tmp_path):
    mask = np.zeros((40, 59), dtype=np.uint8)
    Image.fromarray(mask).save(
        published / "ISIC-2017_Training_Part1_GroundTruth" / "ISIC_0000000_segmentation.png"
    )
    refuse(
        published,
        tmp_path,
        r"ISIC_0000000_segmentation.png: expected the size of its image, 60x40, found 59x40",
    )


def test_a_mask_that_is_not_binary(published, tmp_path):
    mask = np.zeros((40, 60), dtype=np.uint8)
    mask[:, :50] = np.linspace(0, 255, 50)
    Image.fromarray(mask).save(
        published / "ISIC-2017_Training_Part1_GroundTruth" / "ISIC_0000000_segmentation.png"
    )
    refuse(
        published,
        tmp_path,
        r"expected 0 and 255 \(soft edges allowed\), found levels up to 255, 78% of them neither",
    )


def test_a_map_of_classes_is_not_taken_for_a_mask(published, tmp_path):
    mask = np.zeros((40, 60), dtype=np.uint8)
    mask[:10], mask[10:20] = 1, 2
    Image.fromarray(mask).save(
        published / "ISIC-2017_Training_Part1_GroundTruth" / "ISIC_0000000_segmentation.png"
    )
    refuse(published, tmp_path, r"found levels up to 2, 0% of them neither")


def test_soft_edges_are_cut_at_half(published, tmp_path):
    mask = np.zeros((40, 60), dtype=np.uint8)
    mask[:20], mask[20], mask[21] = 255, 200, 60
    Image.fromarray(mask).save(
        published / "ISIC-2017_Training_Part1_GroundTruth" / "ISIC_0000000_segmentation.png"
    )
    get("isic2017", source_folder=published, root=tmp_path / "cache")
    stored = load("isic2017", root=tmp_path / "cache").masks[0]
    assert stored.sum() == 256 * round(256 * 21 / 40)


def test_a_colour_mask(published, tmp_path):
    path = published / "ISIC-2017_Training_Part1_GroundTruth" / "ISIC_0000000_segmentation.png"
    Image.new("RGB", (60, 40)).save(path)
    refuse(published, tmp_path, "expected a mask of one 8-bit channel, found mode RGB")


def test_a_truncated_picture(published, tmp_path):
    path = published / "ISIC-2017_Training_Data" / "ISIC_0000002.jpg"
    path.write_bytes(path.read_bytes()[:-20])
    refuse(published, tmp_path, r"ISIC_0000002.jpg: expected a whole image")


def test_missing_folders(published, tmp_path):
    (published / "ISIC-2017_Test_v2_Data").rename(published / "Test")
    refuse(published, tmp_path, r"expected a folder ISIC-2017_Test_v2_Data/, found none", DataError)


@pytest.mark.skipif(not REAL.is_dir(), reason="the 128-px stand-in for ISIC-2017 is not in ../shared/data")
def test_real_lesions(tmp_path):
    get("isic2017-128px", source_folder=REAL, root=tmp_path)
    train, test = (load("isic2017-128px", split, root=tmp_path) for split in ("train", "test"))
    assert len(train) == 1800
    assert len(test) == 550
    picture = min((REAL / "ISIC-2017_Training_Data").glob("*.jpg"))
    mask = REAL / "ISIC-2017_Training_Part1_GroundTruth" / f"{picture.stem}_segmentation.png"
    with Image.open(picture) as image, Image.open(mask) as levels:
        np.testing.assert_array_equal(
            train.images[0], np.asarray(image.resize((128, 128), Image.Resampling.BILINEAR))
        )
        resized = np.asarray(levels.resize((128, 128), Image.Resampling.NEAREST))
        np.testing.assert_array_equal(train.masks[0], resized >= 128)
    # Lesions are darker than the skin around them; a mask moved against its picture would not show that.
    inside, outside = (
        np.mean(
            [
                image[mask == part].mean()
                for image, mask in zip(train.images[:200], train.masks[:200], strict=True)
            ]
        )
        for part in (1, 0)
    )
    assert outside - inside > 20
    share = train.masks.mean(axis=(1, 2))
    assert 0.1 < share.mean() < 0.35
