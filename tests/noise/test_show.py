# SPDX-License-Identifier: Apache-2.0
"""Pages of noise can be drawn for every kind, and leave matplotlib as it was."""

import matplotlib
import numpy as np
import pytest

from noiseproof import noise
from noiseproof.noise.show import draw_labels, draw_masks

LABELS = np.arange(4).repeat(15)
NAMES = ("ant", "bee", "cow", "dog")
IMAGES = np.random.RandomState(0).randint(0, 256, (60, 8, 8, 3)).astype(np.uint8)


def texts(figure):
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text)}


@pytest.mark.parametrize("images", [None, IMAGES, IMAGES[..., :1], IMAGES[..., 0]])
def test_labels(images, tmp_path):
    noisy = noise.symmetric(LABELS, 0.5, 4, 1)
    figure = draw_labels(noisy, NAMES, images, "animals")
    figure.savefig(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000
    headline = "animals, 60 labels, symmetric noise, rate 0.5, realised 40.00 %, exact-published, seed 1"
    assert headline in texts(figure)
    assert set(NAMES) <= texts(figure)
    assert sum(bool(axes.images) for axes in figure.axes) == (1 if images is None else 21)


def test_open_set_images_have_no_class():
    noisy = noise.open_set(LABELS, 0.2, 4, 1, num_outside=3)
    assert "no class" in texts(draw_labels(noisy, NAMES, IMAGES))


def test_clean_and_many_classes():
    clean = draw_labels(noise.symmetric(LABELS, 0.0, 4, 1), NAMES, IMAGES)
    clean.canvas.draw()
    assert sum(bool(axes.images) for axes in clean.axes) == 1  # the matrix; there is no wrong label to show
    many = draw_labels(
        noise.symmetric(np.arange(100).repeat(5), 0.5, 100, 1), [str(number) for number in range(100)]
    )
    many.canvas.draw()
    (matrix,) = (axes.images[0].get_array() for axes in many.axes if axes.images)
    assert matrix.shape == (100, 100)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_masks(share):
    masks = np.zeros((20, 16, 16), dtype=np.uint8)
    masks[:, 4:12, 4:12] = 1
    images = np.zeros((20, 16, 16, 3), dtype=np.uint8)
    noisy = noise.corrupt_masks(masks, share, 0.5, 1)
    shown = np.minimum(np.bincount(noisy.kinds)[1:], 6).sum()  # six of each corruption, none of what was kept
    assert (shown > 0) == (share > 0)
    for pictures, panels in ((None, 2), (images, 3)):
        figure = draw_masks(noisy, pictures)
        figure.canvas.draw()
        assert sum(bool(axes.images) for axes in figure.axes) == panels * shown


def test_pixels_without_a_label_are_drawn_grey():
    masks = np.zeros((20, 16, 16), dtype=np.uint8)
    masks[:, 4:12, 4:12], masks[:, :2] = 1, 255
    void = masks == 255
    figure = draw_masks(noise.corrupt_masks(masks, 1.0, 0.5, 1, void=255), void=void)
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert shown
    assert all((each[:2] == 0.5).all() and set(np.unique(each[2:])) == {0, 1} for each in shown)


def test_nothing_of_pyplot_is_touched():
    import matplotlib.pyplot as plt

    before = plt.get_fignums(), dict(matplotlib.rcParams)
    draw_labels(noise.symmetric(LABELS, 0.5, 4, 1), NAMES, IMAGES)
    assert (plt.get_fignums(), dict(matplotlib.rcParams)) == before


def test_wrong_sizes():
    noisy = noise.symmetric(LABELS, 0.5, 4, 1)
    with pytest.raises(ValueError, match="class_names must be 4 names, got 3"):
        draw_labels(noisy, NAMES[:3])
    with pytest.raises(ValueError, match=r"images must be one per label \(60\), got 10"):
        draw_labels(noisy, NAMES, IMAGES[:10])
