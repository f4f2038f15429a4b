# SPDX-License-Identifier: Apache-2.0
"""Sentences of docs/reproduce.md and README.md that are computed from a table."""

import doctest
from dataclasses import replace
from pathlib import Path

from noiseproof.grids import load
from noiseproof.results import Gathered, Result, gather, published, read_records, table_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


FACTS = {"label_marginals": [0.5, 0.5], "class_names": ["cat", "dog"]}


def table(scores, seeds=(1, 2, 3), step=1.0, marginals=(0.5, 0.5)):
    """CIFAR-10's table with our means so far from the paper's; seeds lie ``step`` around them."""
    runs = []
    grid = load("cifar10-table")
    for (method, noise), distance in scores.items():
        paper = published(grid.published, method, noise).mean
        for place, seed in enumerate(seeds):
            score = paper + distance + step * (place - (len(seeds) - 1) / 2)
            runs.append(
                Result(
                    "cifar10",
                    "ce",
                    noise,
                    seed,
                    score,
                    f"{method}{noise}{seed}",
                    method,
                    predicted_marginals=marginals,
                    noise_facts=FACTS,
                )
            )
    return table_of(Gathered(grid, tuple(runs)))


def all_cells(distance):
    grid = load("cifar10-table")
    return {(method.label, noise): distance for method in grid.methods for noise in grid.noises}


def test_our_deviations_are_compared_with_the_papers(pages):
    (said,) = pages("evidence.deviations").on_deviations(table(all_cells(0.0), step=1000.0))
    assert "ours is the larger one in 120 of 120 cells" in said
    (said,) = pages("evidence.deviations").on_deviations(table(all_cells(0.0), step=1e-6))
    assert "ours is the larger one in 0 of 120 cells" in said
    assert "0 of the 120 cells within the spread are so only because" in said
    assert pages("evidence.deviations").on_deviations(table(all_cells(0.0), seeds=(1,))) == []


def test_cells_that_owe_their_verdict_to_the_least_tolerance_are_counted(pages):
    few = {("CE", "sym-0.4"): 0.45}  # two standard errors of the paper's 0.21 over three seeds are 0.24
    cells = all_cells(0.0) | few
    (said,) = pages("evidence.deviations").on_deviations(table(cells, step=1e-6))
    assert "1 of the 120 cells within the spread are so only because" in said


def test_seeds_that_are_missing_are_asked_for(pages):
    outside = pages("evidence.outside")
    cells = table({("MAE", "real"): 40.0}, seeds=(2,)).cells
    other = table({("ANL-CE*", "clean"): 40.0, ("CE", "clean"): 40.0}, seeds=(1, 2, 3)).cells
    one = [cells["MAE", "real"], other["ANL-CE*", "clean"]]
    assert outside._more_seeds("cifar10-table", one)[3] == (
        "noiseproof bench cifar10-table --cells MAE@real --seeds 1,3 --records results/cifar10-table.jsonl"
    )
    assert outside._more_seeds("cifar10-table", one[1:]) == []


def test_cells_with_more_seeds_are_named_beside_those_with_one(pages):
    summary = pages("evidence.summary")
    one = table({("MAE", "real"): 40.0}, seeds=(2,)).cells["MAE", "real"]
    three = table({("ANL-CE*", "clean"): 40.0}).cells["ANL-CE*", "clean"]
    assert summary._alone([one]) == ", all with one seed"
    assert summary._alone([one, three]) == ", all but ANL-CE\\* at clean with one seed"
    assert summary._alone([three]) == ""


def test_without_published_numbers_the_spread_over_seeds_is_shown(pages):
    cells = pages("evidence.cells")
    runs = [Result("digits", "ce", "sym-0.2", seed, 60.0 + seed, f"{seed}", "NNCE") for seed in (1, 2, 3)]
    alone = table_of(Gathered(load("digits-parts"), tuple(runs)))
    assert cells.at_a_glance(alone) == [
        "| method | clean | sym-0.2 | sym-0.4 | sym-0.6 | sym-0.8 |",
        "|---|---|---|---|---|---|",
        "| NNCE | – | 62.00 ± 1.00 (3) | – | – | – |",
    ]
    assert cells.not_run(alone) == [
        "Not run yet: 14 of 15 cells. `noiseproof bench digits-parts` trains them.",
        "",
    ]
    compared = cells.at_a_glance(table({("CE", "clean"): 0.25}))
    assert compared[2].startswith("| CE | 90.63 (+0.25) | – |")


def test_runs_that_lost_a_class_are_counted_by_method(pages):
    found = table({("MAE", "real"): 0.0, ("CE", "clean"): 0.0}, marginals=(1.0, 0.0))
    assert found.lost_by_method == {"CE": (3, 3), "MAE": (3, 3)}
    assert pages("readme")._losing(found) == "MAE in 3 of 3 runs, CE in 3 of 3 runs"
    assert pages("evidence.lost")._losing_under(found, "MAE") == "real"
    kept = table({("MAE", "real"): 0.0})
    assert kept.lost_by_method == {"MAE": (0, 3)}
    assert pages("readme")._losing(kept) == ""


def test_runs_that_a_table_has_too_are_counted(pages):
    own = read_records(RESULTS / "marginals.jsonl")
    whole = read_records(RESULTS / "cifar10-table.jsonl")
    shared = pages("evidence.page")._shared
    assert shared("marginals", {"marginals": own, "cifar10-table": whole})[0] == (
        "2 of these 2 runs are also runs of `cifar10-table.jsonl`."
    )
    assert shared("marginals", {"marginals": own, "cifar10-table": []}) == []


def test_reasons_are_given_for_the_runs_that_they_were_written_for(pages):
    """Whoever adds runs has to look at the reasons again; this test tells them."""
    for name, runs in pages("evidence.summary").REASONS:
        found = gather(load(name), files=[RESULTS / f"{name}.jsonl"])
        assert len(found.results) == runs, (
            f"look at what docs/writers/evidence/summary.py says of {name}, and state the new number"
        )


def test_first_epochs_explain_the_table_of_their_own_data_only(pages):
    summary, lost = pages("evidence.summary"), pages("evidence.lost")
    early = Gathered(
        load(lost.GRID),
        tuple(
            Result(
                "cifar10",
                "mae",
                "dep-0.4",
                seed,
                30.0,
                str(seed),
                "MAE",
                predicted_marginals=(1.0, 0.0),
                noise_facts=FACTS,
                config={"epochs": 5},
            )
            for seed in range(1, 9)
        ),
    )
    losing = table(all_cells(0.0) | {("MAE", "dep-0.4"): -60.0}, seeds=(1,), marginals=(1.0, 0.0))
    (item, *_) = summary._disagreement("Table: CIFAR-10", losing, {lost.GRID: early})
    assert "MAE at dep-0.4 (8 of 8" in item
    (item, *_) = summary._disagreement("Table", replace(losing, name="cifar100-table"), {lost.GRID: early})
    assert "8 of 8" not in item


def test_examples_of_the_pages_code_run(pages):
    done = doctest.testmod(pages("evidence.outside"))
    assert done.attempted >= 5
    assert done.failed == 0
