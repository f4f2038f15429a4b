# SPDX-License-Identifier: Apache-2.0
"""Figures: what is drawn is what was recorded."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.results.making import QUANTILES, gathered_of, grid_of, result_of, shipped

from noiseproof.grids import load
from noiseproof.losses import P_MIN
from noiseproof.report.figures import draw_all, flipping
from noiseproof.report.figures.gradients import _box
from noiseproof.report.noise_maps import noise_facts
from noiseproof.report.panels import HEIGHT, SMALL_HEIGHT, SMALL_WIDTH, large_panel, small_panel


def drawings(gathered):
    return {drawing.key: drawing for drawing in draw_all(gathered)}


def points_of(path):
    """Corners of a path of one curve, summed up from its relative steps."""
    start, _, steps = path.removeprefix("M").partition("l")
    place = np.array([float(v) for v in start.split()])
    moves = np.array([float(v) for v in steps.split()]).reshape(-1, 2)
    return np.vstack([place, place + np.cumsum(moves, axis=0)])


def test_a_panels_line_is_the_recorded_curve():
    cell = grid_of(seeds=(1,)).cells()[0]
    result = result_of(cell, 80.0, epochs=120)
    svg = small_panel([result], 120, "name")
    found = points_of(re.search(r'class="t" d="([^"]+)"', svg)[1])
    x = np.linspace(2, SMALL_WIDTH - 2, 120)
    y = SMALL_HEIGHT - 4 - (SMALL_HEIGHT - 8) * np.array(result.curves.test) / 100
    assert np.abs(found - np.stack([x, y], axis=1)).max() < 0.11  # tenths
    assert "test 80.0" in svg
    assert "Seeds 1." in svg


@pytest.mark.parametrize("panel", [small_panel, large_panel])
def test_a_curve_that_jumps_is_drawn_where_it_is(panel):
    """Steps of every size up and down, 10.5 and 20.3 among them, on which a zero was once lost."""
    random = np.random.default_rng(1)
    values = tuple(random.uniform(0, 100, 400).round(2).tolist())
    result = result_of(grid_of(seeds=(1,)).cells()[0], 80.0, epochs=400)
    curves = result.curves.__class__(values, values, values)
    svg = panel([result.__class__(**{**vars(result), "curves": curves})], 400, "name")
    frame = (8, HEIGHT - 34) if panel is large_panel else (4, SMALL_HEIGHT - 4)
    expected = frame[1] - (frame[1] - frame[0]) * np.array(values) / 100
    for line in "tcf":
        found = points_of(re.search(rf'class="{line}" d="([^"]+)"', svg)[1])
        assert np.abs(found[:, 1] - expected).max() < 0.11


def test_epochs_that_were_not_tested_are_bridged_and_clean_labels_have_no_wrong_ones():
    cell = grid_of(noises=("clean",), seeds=(1,)).cells()[0]
    result = result_of(cell, 80.0, epochs=5)
    curves = result.curves.__class__(
        (None, 20.0, None, None, 80.0), result.curves.clean, result.curves.flipped
    )
    svg = large_panel([result.__class__(**{**vars(result), "curves": curves})], 5, "name")
    assert len(points_of(re.search(r'class="t" d="([^"]+)"', svg)[1])) == 2
    assert 'class="f"' not in svg


def test_every_kind_of_grid_has_its_figure():
    expected = {
        "cifar10-parts": ["curves", "flipping"],
        "overfitting-curves": ["curves", "flipping"],
        "marginals": ["marginals", "curves", "flipping"],
        "regularisers-apl": ["regularisers", "curves", "flipping"],
        "gradients": ["gradients", "curves", "flipping"],
        "alpha-beta-grid": ["alpha-beta", "flipping"],
    }
    for name, keys in expected.items():
        assert list(drawings(shipped(name, epochs=3))) == keys, name


def test_every_figure_says_what_it_shows():
    for name in ("marginals", "gradients", "alpha-beta-grid"):
        for drawing in draw_all(shipped(name, epochs=3)):
            pictures = re.findall(r"<svg[^>]*>(.{0,20})", drawing.markup, re.S)
            hidden = len(re.findall(r'<svg[^>]*aria-hidden="true"', drawing.markup))
            assert sum(text.startswith("<title") for text in pictures) == len(pictures) - hidden
            assert drawing.caption


def test_alpha_beta_has_a_panel_for_each_pair():
    markup = drawings(shipped("alpha-beta-grid", epochs=3))["alpha-beta"].markup
    assert markup.count('class="panel small"') == 25
    assert "<title>α = 0.5, β = 10</title>" in markup


def test_regularisers_describe_strengths_and_levels():
    strengths = {"L2 δ=1e-4": 55.0, "ANL-CE": 61.5}
    gathered = gathered_of(
        load("regularisers-apl"), lambda cell: strengths.get(cell.method.label, 50.0), epochs=2
    )
    markup = drawings(gathered)["regularisers"].markup
    assert "0.0001 gives 55.0" in markup
    assert "ANL-CE: 61.5" in markup
    assert ">1e-7<" in markup


def test_boxes_are_the_recorded_quantiles():
    box = _box(QUANTILES, [10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0])
    assert box == {"med": 13.0, "q1": 12.0, "q3": 14.0, "whislo": 11.0, "whishi": 15.0}


def test_means_are_triangles_where_they_were_recorded():
    gathered = shipped("gradients", epochs=2)
    plain = tuple(
        replace(each, pulls=replace(each.pulls, clean_mean=(), flipped_mean=())) for each in gathered.results
    )
    with_means, without = (
        drawings(each)["gradients"].markup for each in (gathered, replace(gathered, results=plain))
    )
    # One of each kind, epoch and panel: two kinds, two epochs, two noises.
    assert with_means.count("<use") - without.count("<use") == 8


def test_the_formulas_values_have_a_panel_of_their_own_where_they_were_recorded():
    gathered = shipped("gradients", epochs=2)
    higher = tuple(
        replace(
            each,
            pulls=replace(
                each.pulls, floored=replace(each.pulls, clean=tuple((9.0,) * 7 for _ in each.pulls.clean))
            ),
        )
        for each in gathered.results
    )
    before = drawings(gathered)["gradients"].markup
    after = drawings(replace(gathered, results=higher))["gradients"].markup
    assert "by the formula" not in before
    assert after.count("as trained: right labels") == before.count("as trained: right labels") == 2
    assert after.count("by the formula: right labels 9") == 2


def test_flipping_mirrors_at_half_of_a():
    assert flipping.P_MIN == P_MIN
    drawing = drawings(shipped("gradients", epochs=2))["flipping"]
    assert f"A = {-math.log(P_MIN):.2f}" in drawing.markup
    ce_only = gathered_of(grid_of(methods=("ce", "mae")))
    assert "flipping" not in drawings(ce_only)


def test_heat_maps_and_bars_of_noise():
    gathered = gathered_of(grid_of(noises=("clean", "sym-0.6"), seeds=(1, 2)))
    clean, noisy = noise_facts(gathered.results, ("clean", "sym-0.6"))
    assert clean.picture.count("<rect") == 10  # only the diagonal
    assert noisy.picture.count("<rect") == 100
    assert "class 3 given as class 4: 6.7%" in noisy.picture
    assert "class 3 given as class 3: 40.0%" in noisy.picture
    assert (clean.draws, noisy.draws) == (0, 2)
    assert noisy.rates == (0.6, 0.6)
    wide = gathered_of(grid_of(seeds=(1,)), classes=100)
    (bars,) = noise_facts(wide.results, ("sym-0.6",))
    assert bars.picture.count("<rect") == 100
    assert "class 99: 60.0%" in bars.picture


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 50, 120, 1000])
def test_axes_of_epochs_are_readable(epochs):
    cell = grid_of(seeds=(1,)).cells()[0]
    svg = large_panel([result_of(cell, 80.0, epochs=epochs)], epochs, "name")
    marks = [float(x) for x in re.findall(r'class="x" x="([\d.]+)" y="160"', svg)]
    assert 1 <= len(marks) <= 8
    assert all(b - a > 20 for a, b in zip(sorted(marks), sorted(marks)[1:], strict=False))
