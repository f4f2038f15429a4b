# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from noiseproof.datasets import LabeledData, sheet


def make(shape: tuple[int, int, int], count: int = 5, **more: object) -> LabeledData:
    images = np.full((count, *shape), 200, dtype=np.uint8)
    labels = np.arange(count) % 2
    return LabeledData("mine", "train", labels, ("a", "a very long name of a class"), images=images, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(8, 8, 1), (32, 32, 3), (28, 20, 1), (300, 200, 3)])
def test_any_size_fits(shape: tuple[int, int, int]) -> None:
    page = sheet.draw(make(shape), count=5, columns=3)
    assert page.size == (4 + 3 * 100, 4 + 2 * 114)
    assert page.getpixel((4 + 48, 4 + 48)) == (200, 200, 200)


def test_small_images_keep_their_pixels() -> None:
    images = np.random.RandomState(0).randint(0, 256, (1, 8, 8, 3)).astype(np.uint8)
    data = LabeledData("mine", "train", np.zeros(1, np.int64), ("a",), images=images)
    page = np.asarray(sheet.draw(data, count=1))
    assert np.array_equal(page[4 + 6 : 100 : 12, 4 + 6 : 100 : 12], images[0])


def test_masks_are_tinted() -> None:
    masks = np.zeros((5, 32, 32), np.uint8)
    masks[:, :16] = 1
    page = sheet.draw(make((32, 32, 3), masks=masks), count=1)
    red, green, _ = page.getpixel((52, 20))  # type: ignore[misc]
    assert red > 200 > green
    assert page.getpixel((52, 90)) == (200, 200, 200)


def test_every_class_has_its_tint_and_pixels_without_a_label_are_grey() -> None:
    masks = np.zeros((1, 32, 32), np.uint8)
    masks[:, 8:16], masks[:, 16:24], masks[:, 24:] = 1, 2, 255
    images = np.full((1, 32, 32, 3), 200, dtype=np.uint8)
    data = LabeledData("mine", "train", np.zeros(1, np.int64), ("0", "1", "2"), images=images, masks=masks)
    page = sheet.draw(data, count=1)
    none, first, second, void = (page.getpixel((52, 4 + 12 + 24 * row)) for row in range(4))
    assert none == (200, 200, 200)
    assert first[0] > 200 > first[2]  # type: ignore[index]
    assert second[2] > 200 > second[0]  # type: ignore[index]
    assert len(set(void)) == 1  # type: ignore[arg-type]
    assert void[0] < 150  # type: ignore[index]


def test_captions_show_letters_of_other_languages() -> None:
    """Pillow's own font draws the same box for each of them."""
    font = sheet.caption_font(20)
    drawn = {bytes(font.getmask(letter)) for letter in "öäßéłЖω"}
    assert len(drawn) == 7
    assert sheet.shortened("Gro\u0308ße\n1", font, 200) == "Größe 1"


def test_files_are_opened(tmp_path: Path) -> None:
    Image.new("L", (10, 20), 77).save(tmp_path / "a.png")
    data = LabeledData("mine", "train", np.zeros(1, np.int64), ("a",), paths=(tmp_path / "a.png",))
    assert sheet.draw(data).getpixel((52, 52)) == (77, 77, 77)


def test_classes_take_turns_and_seeds_differ() -> None:
    labels = np.random.RandomState(0).randint(0, 5, 1000)
    chosen = sheet.choose(labels, 20, seed=1)
    assert np.bincount(labels[chosen]).tolist() == [4] * 5
    assert np.array_equal(labels[chosen], np.sort(labels[chosen]))
    assert not np.array_equal(chosen, sheet.choose(labels, 20, seed=2))
    assert len(sheet.choose(labels[:7], 20, seed=1)) == 7
