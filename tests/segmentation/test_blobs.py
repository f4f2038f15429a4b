# SPDX-License-Identifier: Apache-2.0
"""The synthetic data set: the same for everyone, with masks that fit the pictures."""

import numpy as np
import pytest

from noiseproof import datasets
from noiseproof.datasets.augment import recipe_for


@pytest.fixture(scope="module")
def blobs():
    return datasets.load("blobs"), datasets.load("blobs", "test")


def test_sizes_and_classes(blobs):
    for data, count in zip(blobs, (400, 100), strict=True):
        assert data.images.shape == (count, 64, 64, 3)
        assert data.masks.shape == (count, 64, 64)
        assert set(np.unique(data.masks)) == {0, 1}
        assert data.class_names == ("background", "blob")
        share = data.masks.mean(axis=(1, 2))
        assert share.min() > 0.01
        assert share.max() < 0.5


def test_the_same_every_time_and_test_is_not_train(blobs):
    train, test = blobs
    assert datasets.load("blobs").fingerprint == train.fingerprint
    seen = {image.tobytes() for image in train.images}
    assert not any(image.tobytes() in seen for image in test.images)
    again = datasets.load("blobs")
    again.masks[0] = 1  # a caller's copy is the caller's own
    assert datasets.load("blobs").masks[0].mean() < 1


def test_each_blob_is_one_piece_and_darker_than_its_ground(blobs):
    from scipy import ndimage

    train = blobs[0]
    assert all(ndimage.label(mask)[1] == 1 for mask in train.masks)
    grey = train.images.astype(float).mean(axis=3)
    darker = [
        image[mask == 0].mean() - image[mask == 1].mean()
        for image, mask in zip(grey, train.masks, strict=True)
    ]
    assert np.mean(np.array(darker) > 0) > 0.97
    assert np.median(darker) > 10


def test_a_threshold_does_not_find_them(blobs):
    """The task must need more than the darkest pixels, or every loss would do."""
    train = blobs[0]
    grey = train.images.astype(float).mean(axis=3)
    dice = []
    for image, mask in zip(grey, train.masks, strict=True):
        found = image <= np.quantile(image, mask.mean())  # even with the right area
        dice.append(2 * (found & (mask == 1)).sum() / (found.sum() + mask.sum()))
    assert np.mean(dice) < 0.8


def test_it_has_an_augmentation_that_moves_masks():
    assert recipe_for("blobs").name == "isic2017"
