# SPDX-License-Identifier: Apache-2.0
"""Corrupted masks as training sees them: properties on blobs, and the sheet that shows them."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from noiseproof import datasets, noise
from noiseproof.command_line import app
from noiseproof.noise.masks import KINDS
from noiseproof.noise.show import draw_masks

SHARES, STRENGTHS = (0.3, 0.5, 0.7), (0.5, 0.7)


@pytest.fixture(scope="module")
def blobs():
    return datasets.load("blobs")


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("share", SHARES)
def test_the_papers_grid(blobs, share, strength):
    noisy = noise.corrupt_masks(blobs.masks, share, strength, seed=1)
    kinds = np.array(KINDS)[noisy.kinds]
    assert (noisy.kinds > 0).sum() == int(share * len(blobs))
    assert np.array_equal(noisy.masks[kinds == "kept"], blobs.masks[kinds == "kept"])
    # One pixel of a small blob's edge is a fifth of its area, of which the nearer step misses half at most.
    foreground = blobs.masks.sum(axis=(1, 2))
    rim = np.sqrt(4 * np.pi * foreground) / foreground
    miss = np.abs(noisy.area_ratios - np.where(kinds == "erode", 1 - strength, 1 + strength))
    for kind in ("erode", "dilate"):
        assert (miss[kinds == kind] <= rim[kinds == kind]).all()
        assert np.mean(miss[kinds == kind]) < 0.08
    off = np.abs(noisy.differences - strength)[kinds == "affine"]
    assert (off <= rim[kinds == "affine"]).all()
    assert np.mean(off) < 0.06


def test_eroded_lies_within_and_dilated_around(blobs):
    noisy = noise.corrupt_masks(blobs.masks, 1.0, 0.6, seed=4)
    kinds = np.array(KINDS)[noisy.kinds]
    assert (noisy.masks[kinds == "erode"] <= blobs.masks[kinds == "erode"]).all()
    assert (noisy.masks[kinds == "dilate"] >= blobs.masks[kinds == "dilate"]).all()
    assert noisy.area_ratios[kinds == "affine"] == pytest.approx(1.0, abs=0.25)  # turned and moved, not grown


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_a_seed_decides_and_kinds_are_even(seed):
    squares = np.zeros((300, 12, 12), dtype=np.uint8)
    squares[:, 4:8, 4:8] = 1
    one, same, other = (noise.corrupt_masks(squares, 1.0, 0.5, s) for s in (seed, seed, seed ^ 1))
    assert np.array_equal(one.masks, same.masks)
    assert not np.array_equal(one.kinds, other.kinds)
    counts = np.bincount(one.kinds, minlength=4)
    assert counts[0] == 0
    # 100 of 300 each are expected, with a deviation of 8.2; five of them are one case in a million.
    assert np.abs(counts[1:] - 100).max() < 5 * 8.2


def test_the_sheet_shows_image_true_and_given(blobs):
    noisy = noise.corrupt_masks(blobs.masks, 0.7, 0.7, seed=1)
    figure = draw_masks(noisy, blobs.images, "blobs")
    assert sum(bool(axes.images) for axes in figure.axes) == 3 * 3 * 2 * 3  # panels, kinds, rows, columns
    titles = [text.get_text() for text in figure.findobj(matplotlib.text.Text)]
    for kind in ("erode", "dilate", "affine"):
        assert sum(title.startswith(f"{kind}: area") for title in titles) == 6
    assert sum(title == "true mask" for title in titles) == 18


def test_the_command_takes_share(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = "noise blobs --kind masks --share 0.7 --strength 0.7 --show sheet.png"
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 0, result.output
    assert "70.00 % of masks differ" in result.output
    assert (tmp_path / "sheet.png").stat().st_size > 50_000
