# SPDX-License-Identifier: Apache-2.0
"""Dice of masks against a formula of sets of pixels, empty masks included."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noiseproof.training.dice import count_pixels, of_each_image, per_image, pooled


def pixels_of(mask, k):
    """A class as a set of places."""
    return {place for place, value in enumerate(mask.ravel().tolist()) if value == k}


def dice_of_sets(predicted, true):
    return (
        100.0
        if not predicted and not true
        else 100 * 2 * len(predicted & true) / (len(predicted) + len(true))
    )


def dice_of_image(predicted, true, classes):
    pairs = [(pixels_of(predicted, k), pixels_of(true, k)) for k in range(1, classes)]
    present = [dice_of_sets(p, t) for p, t in pairs if p or t]
    return sum(present) / len(present) if present else 100.0


@st.composite
def two_masks(draw):
    classes = draw(st.integers(2, 4))
    shape = draw(st.tuples(st.integers(1, 5), st.integers(1, 6), st.integers(1, 6)))
    masks = hnp.arrays("int64", shape, elements=st.integers(0, classes - 1))
    return draw(masks), draw(masks), classes


@settings(max_examples=150)
@given(two_masks())
def test_both_means_are_those_of_sets(case):
    predicted, true, classes = case
    counts = count_pixels(torch.from_numpy(predicted), torch.from_numpy(true), classes)
    images = [dice_of_image(p, t, classes) for p, t in zip(predicted, true, strict=True)]
    assert of_each_image(counts).tolist() == pytest.approx(images)
    assert per_image(counts) == pytest.approx(sum(images) / len(images))
    # Pooled, all images are one large image, in which a class that is nowhere counts as found.
    classes_together = [dice_of_sets(pixels_of(predicted, k), pixels_of(true, k)) for k in range(1, classes)]
    assert pooled(counts) == pytest.approx(sum(classes_together) / len(classes_together))


@settings(max_examples=100)
@given(two_masks(), st.data())
def test_ignored_pixels_and_classes_count_nowhere(case, data):
    predicted, true, classes = case
    ignored = data.draw(st.sampled_from([255, *range(2, classes)]))
    if ignored == 255:
        true[data.draw(hnp.arrays("bool", true.shape))] = 255
    counts = count_pixels(torch.from_numpy(predicted), torch.from_numpy(true), classes, ignored)
    # By hand: where the truth is ignored the prediction is taken out, as a level that is no class.
    seen = np.where(true == ignored, -1, predicted)
    kept = [k for k in range(1, classes) if k != ignored]
    by_class = [dice_of_sets(pixels_of(seen, k), pixels_of(true, k)) for k in kept]
    assert pooled(counts) == pytest.approx(sum(by_class) / len(by_class))
    for p, t, found in zip(seen, true, of_each_image(counts).tolist(), strict=True):
        pairs = [(pixels_of(p, k), pixels_of(t, k)) for k in kept]
        present = [dice_of_sets(*pair) for pair in pairs if any(pair)]
        assert found == pytest.approx(sum(present) / len(present) if present else 100.0)
    if ignored == 255:
        assert torch.equal(counts, count_pixels(torch.from_numpy(predicted), torch.from_numpy(true), classes))


@pytest.mark.parametrize(
    ("predicted", "true", "together", "each"),
    [
        ([[0, 0]], [[0, 0]], 100.0, 100.0),  # empty and rightly so
        ([[1, 0]], [[0, 0]], 0.0, 0.0),
        ([[0, 0]], [[0, 1]], 0.0, 0.0),
        ([[1, 1]], [[1, 1]], 100.0, 100.0),
        ([[1, 0], [0, 0]], [[1, 0], [0, 0]], 100.0, 100.0),
        ([[1, 1], [0, 0]], [[1, 1], [1, 1]], 100 * 4 / 6, 50.0),  # a missed image costs half of the mean
        ([[1, 1, 1, 1], [1, 0, 0, 0]], [[1, 1, 1, 1], [0, 0, 0, 0]], 100 * 8 / 9, 50.0),
    ],
)
def test_edges(predicted, true, together, each):
    counts = count_pixels(torch.tensor(predicted), torch.tensor(true), 2)
    assert pooled(counts) == pytest.approx(together)
    assert per_image(counts) == pytest.approx(each)


def test_small_integers_and_large_images_do_not_overflow():
    masks = torch.ones(3, 600, 600, dtype=torch.uint8)
    counts = count_pixels(masks, masks, 2)
    assert counts.dtype == torch.int64
    assert counts.tolist() == [[[360_000] * 3]] * 3
    assert pooled(counts) == 100.0


def test_masks_of_another_shape_are_refused():
    with pytest.raises(
        ValueError, match=r"predicted: expected the masks' shape \(1, 4, 4\), got \(1, 4, 5\)"
    ):
        count_pixels(torch.zeros(1, 4, 5), torch.zeros(1, 4, 4), 2)
