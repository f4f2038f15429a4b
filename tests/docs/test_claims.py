# SPDX-License-Identifier: Apache-2.0
"""What docs/reproduce.md says of the paper's conclusions and of lost classes, on runs made up for the purpose."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from noiseproof.grids import load
from noiseproof.results import Curves, Gathered, Pulls, Result

DOCS = Path(__file__).parents[2] / "docs"


def imported(name):
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def claims():
    yield from imported("claims")


@pytest.fixture(scope="module")
def lost():
    yield from imported("lost")


def run(method, score, noise="sym-0.8", seed=1, **said):
    return Result("cifar10", "ce", noise, seed, score, f"{method}{noise}{seed}", method, **said)


def gathered(grid, runs, missing=0):
    return Gathered(load(grid), tuple(runs), expected=len(runs) + missing, missing=missing)


def table(**scores):
    """CIFAR-10's table, one seed: all methods at 50 but those that are named."""
    grid = load("cifar10-table")
    scores = {name.replace("_star", "*").replace("_", "-"): value for name, value in scores.items()}
    return gathered(
        "cifar10-table",
        [
            run(method.label, scores.get(method.label, 50.0), noise)
            for method in grid.methods
            for noise in grid.noises
        ],
    )


def test_every_claim_is_of_a_shipped_grid_and_of_methods_that_it_has(claims):
    for claim in claims.CLAIMS:
        load(claim.grid)
    labels = {method.label for method in load("cifar10-table").methods}
    assert labels == {*claims.BASELINES, *claims.OURS, "ANL-CE*"}


def test_without_runs_nothing_is_said(claims):
    nothing = {claim.grid: gathered(claim.grid, []) for claim in claims.CLAIMS}
    assert claims.claims_section(nothing, str) == []
    assert claims.claims_section({}, str) == []


def test_ahead_of_all_baselines_counts_columns_and_names_the_others(claims):
    check = claims.ahead_of_all_baselines(claims.OURS, but=["asym-0.4"])
    assert check(table(ANL_CE=51.0, ANL_FL=52.0)).verdict == "yes"
    behind = table(ANL_CE=51.0, ANL_FL=52.0)
    one_worse = tuple(
        replace(each, score=60.0)
        if (each.method, each.noise) in {("GCE", "clean"), ("GCE", "asym-0.4")}
        else each
        for each in behind.results
    )
    found = check(replace(behind, results=one_worse))
    assert found.verdict == "in 8 of 9 columns"
    assert found.numbers == "clean: ANL-CE 51.00 (1), GCE 60.00 (1)"


def test_a_column_without_all_baselines_is_not_judged(claims):
    whole = table(ANL_CE=51.0, ANL_FL=52.0)
    some = tuple(each for each in whole.results if (each.method, each.noise) != ("MAE", "real"))
    found = claims.ahead_of_all_baselines(claims.OURS)(replace(whole, results=some))
    assert found.numbers == "all 9 columns"


@pytest.mark.parametrize(("score", "verdict"), [(55.5, "yes"), (54.5, "no")])
def test_a_lead_must_be_as_large_as_the_paper_says(claims, score, verdict):
    found = claims.leads("sym-0.8", "ANL-CE", 5.0)(table(ANL_CE=score))
    assert found.verdict == verdict
    assert found.numbers.endswith(f"{score - 50:+.2f}")


def test_the_entropy_term_must_help_under_each_of_the_noises(claims):
    check = claims.entropy_helps("asym-0.4", "real")
    better = table(ANL_CE_star=51.0)
    assert check(better).verdict == "yes"
    worse = tuple(
        replace(each, score=49.0) if (each.method, each.noise) == ("ANL-CE*", "real") else each
        for each in better.results
    )
    assert check(replace(better, results=worse)).verdict == "no"


def curves(clean, flipped, test):
    return Curves(tuple(test), tuple(clean), tuple(flipped))


def overfitting(**changed):
    """Five epochs of the five methods, as the paper has them."""
    runs = {
        "CE": run(
            "CE", 20.0, curves=curves([20, 40, 50, 60, 70], [10, 30, 42, 52, 62], [20, 40, 30, 25, 20])
        ),
        "MAE": run(
            "MAE", 47.0, curves=curves([20, 40, 50, 60, 65], [10, 11, 12, 13, 14], [20, 40, 45, 46, 47])
        ),
        "NCE+RCE": run(
            "NCE+RCE", 54.0, curves=curves([20, 40, 50, 60, 70], [10, 9, 9, 9, 9], [20, 40, 50, 53, 54])
        ),
        "ANL-CE (w/ L2)": run(
            "ANL-CE (w/ L2)",
            47.0,
            curves=curves([20, 40, 50, 60, 78], [10, 9, 9, 9, 20], [20, 60, 55, 50, 47]),
        ),
        "ANL-CE (w/ L1)": run(
            "ANL-CE (w/ L1)",
            63.0,
            curves=curves([20, 40, 50, 60, 74], [10, 9, 9, 9, 8], [20, 40, 50, 64, 63]),
        ),
    }
    for method, score in changed.items():
        runs[method] = replace(runs[method], score=score)
    return gathered("overfitting-curves", runs.values())


def test_what_the_curves_show(claims):
    runs = overfitting()
    found = {
        claim.paper: claim.check(runs).verdict
        for claim in claims.CLAIMS
        if claim.grid == "overfitting-curves"
    }
    assert set(found.values()) == {"yes"}
    assert len(found) == 5


def test_what_the_curves_do_not_show(claims):
    assert claims.fits_better("NCE+RCE", "MAE")(overfitting(MAE=60.0)).verdict == "in part"
    assert claims.l1_mitigates(overfitting(MAE=70.0)).verdict == "no"
    steady = overfitting(**{"ANL-CE (w/ L2)": 59.0})
    assert claims.overfits("ANL-CE (w/ L2)")(steady).verdict == "no"
    memorised = replace(overfitting().results[1], method="CE")
    others = [each for each in overfitting().results if each.method != "CE"]
    assert claims.ce_learns_both_alike(gathered("overfitting-curves", [memorised, *others])).verdict == "no"


def test_marginals_are_compared_with_an_equal_share(claims):
    facts = {"label_marginals": [0.14, 0.06]}
    plain = run("ANL-CE", 77.0, "asym-0.4", predicted_marginals=(0.53, 0.47), noise_facts=facts)
    even = run("ANL-CE*", 81.0, "asym-0.4", predicted_marginals=(0.51, 0.49), noise_facts=facts)
    found = claims.evens_marginals(gathered("marginals", [plain, even]))
    assert found.verdict == "yes"
    assert "3.0 with ANL-CE and 1.0" in found.numbers
    turned = [replace(plain, method="ANL-CE*"), replace(even, method="ANL-CE")]
    assert claims.evens_marginals(gathered("marginals", turned)).verdict == "no"


def pulls(right, wrong, floored=None):
    return Pulls(
        (0.25, 0.5, 0.75), ((1.0, right, right),), ((0.0, wrong, wrong),), (right,), (wrong + 1,), floored
    )


def test_gradients_are_judged_by_the_formula_only(claims):
    as_trained = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(0.0, 0.0))
    assert claims.right_labels_pull(gathered("gradients", [as_trained])).verdict == "not told yet"
    for right, verdict in ((6e5, "yes"), (5.0, "no")):
        both = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(0.0, 0.0, pulls(right, 1.0)))
        assert claims.right_labels_pull(gathered("gradients", [both])).verdict == verdict
        assert claims.means_lie_between(gathered("gradients", [both])).verdict == "yes"
    turned = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(1.0, 5.0))
    assert claims.means_lie_between(gathered("gradients", [turned])).verdict == "no"


def test_regularisers_are_judged_when_all_have_run(claims):
    labels = {"none": 50.0, "L2 δ=1e-4": 51.0, "Jacobian δ=1e-4": 50.5, "L1 δ=5e-5": 62.0, "L1 δ=1e-7": 50.0}
    runs = [run(label, score) for label, score in labels.items()]
    assert claims.only_l1_helps(gathered("regularisers-anl", runs)).verdict == "yes"
    assert claims.only_l1_helps(gathered("regularisers-anl", runs, missing=1)) is None
    helped = [replace(each, score=63.0) if each.method.startswith("L2") else each for each in runs]
    assert claims.only_l1_helps(gathered("regularisers-anl", helped)).verdict == "no"
    against = [run("ANL-CE", 62.0), run("L2 δ=1e-4", 54.0), run("L1 δ=1e-5", 58.0)]
    found = claims.stays_below(gathered("regularisers-apl", against))
    assert (found.verdict, found.numbers) == ("yes", "ANL-CE 62.0; NCE+RCE at best 58.0, with L1 δ=1e-5")
    assert (
        claims.stays_below(gathered("regularisers-apl", [*against, run("L1 δ=1e-4", 62.5)])).verdict == "no"
    )


@pytest.mark.parametrize(("last", "verdict"), [(70.0, "yes"), (40.0, "no")])
def test_a_larger_beta_must_fit_better_at_every_alpha(claims, last, verdict):
    runs = [
        run(
            f"α={alpha} β={beta}",
            50.0,
            config={"loss_parameters": {"alpha": alpha, "beta": beta}},
            curves=curves([right], [10.0], [50.0]),
        )
        for alpha, beta, right in ((1.0, 1.0, 50.0), (1.0, 5.0, 60.0), (5.0, 1.0, 55.0), (5.0, 5.0, last))
    ]
    assert claims.beta_fits(gathered("alpha-beta-grid", runs)).verdict == verdict


@pytest.mark.parametrize(("alone", "verdict"), [((57.0, 90.0), "yes"), ((61.0, 80.0), "no")])
def test_nnce_alone_falls_behind_at_most_noise_only(claims, alone, verdict):
    runs = [run("NNCE", alone[0]), run("ANL-CE", 61.3), run("NNCE", alone[1], "sym-0.2")]
    runs.append(run("ANL-CE", 90.1, "sym-0.2"))
    assert claims.nnce_alone(gathered("cifar10-parts", runs)).verdict == verdict


FACTS = {"label_marginals": [0.5, 0.5], "class_names": ["cat", "dog"]}
KEPT, LOST = (0.5, 0.5), (1.0, 0.0)


def early(method, seed, marginals):
    return run(
        method, 60.0, "dep-0.4", seed, predicted_marginals=marginals, noise_facts=FACTS, config={"epochs": 5}
    )


def test_lost_classes_are_told_by_seed_and_at_the_end(lost):
    runs = [early("MAE", 1, LOST), early("MAE", 2, KEPT), early("ANL-CE", 1, LOST), early("ANL-CE", 2, LOST)]
    late = [early("MAE", 1, LOST), early("MAE", 2, KEPT), early("ANL-CE", 1, KEPT)]
    lines = lost.lost_section(gathered(lost.GRID, runs), late)
    assert "| MAE | 1→1, – |" in lines
    assert "| ANL-CE | 1→0, 1 |" in lines
    assert "lost at the end: MAE 1 of 1, ANL-CE 0 of 1." in " ".join(lines)


def test_the_seeds_of_a_cell_are_compared_with_the_others(lost):
    from noiseproof.results.table import TableCell

    runs = gathered(lost.GRID, [early("MAE", 1, LOST), early("MAE", 2, KEPT), early("MAE", 3, KEPT)])
    cell = TableCell("MAE", "dep-0.4", None, None, (early("MAE", 1, LOST),))
    said = lost.by_seed_in_words([cell], runs)
    assert said.endswith("in the median of 3 seeds: MAE at dep-0.4 1 and 0.")
    assert lost.by_seed_in_words([replace(cell, method="GCE")], runs) == ""
    assert lost.by_seed_in_words([cell], None) == ""
