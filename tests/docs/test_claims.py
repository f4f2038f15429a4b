# SPDX-License-Identifier: Apache-2.0
"""What docs/reproduce.md says of the paper's conclusions and of lost classes, on runs made up for the purpose."""

from dataclasses import replace

import pytest

from noiseproof.grids import load
from noiseproof.results import Curves, Gathered, Pulls, Result, Summary
from noiseproof.results.table import TableCell


@pytest.fixture(scope="module")
def claims(pages):
    return pages("evidence.claims")


@pytest.fixture(scope="module")
def tables(pages):
    return pages("evidence.table_findings")


@pytest.fixture(scope="module")
def figures(pages):
    return pages("evidence.figure_findings")


@pytest.fixture(scope="module")
def lost(pages):
    return pages("evidence.lost")


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


def test_every_claim_is_of_a_shipped_grid_and_of_methods_that_it_has(claims, tables):
    for claim in claims.CLAIMS:
        load(claim.grid)
    for name in ("cifar10-table", "cifar100-table"):
        labels = {method.label for method in load(name).methods}
        assert labels == {*tables.BASELINES, *tables.OURS, "ANL-CE*"}
    assert {method.label for method in load("isic-table").methods} == {"CE", *tables.ON_MASKS, "ANL-CE"}
    assert "masks-0.7-0.7" in load("isic-table").noises
    assert {"asym-0.4", "dep-0.4", "real", tables.WORST} <= set(load("cifar10-table").noises)
    assert tables.WORST in load("cifar10-parts").noises


def test_every_claim_can_be_judged_on_a_whole_grid(claims):
    """A label or noise that is renamed would make its claim vanish without a word."""
    whole = {claim.grid: complete(claim.grid) for claim in claims.CLAIMS}
    lines = claims.claims_section(whole, str)
    assert sum(line.startswith("| ") and "| from |" not in line for line in lines) == len(claims.CLAIMS)


def test_a_figure_waits_for_all_of_its_runs_and_a_table_does_not(claims):
    figure, whole = complete("overfitting-curves"), complete("cifar10-table")
    assert claims.claims_section({"overfitting-curves": replace(figure, missing=1)}, str) == []
    assert len(claims.claims_section({"cifar10-table": replace(whole, missing=240)}, str)) > 5


def test_without_runs_nothing_is_said(claims):
    nothing = {claim.grid: gathered(claim.grid, []) for claim in claims.CLAIMS}
    assert claims.claims_section(nothing, str) == []
    assert claims.claims_section({}, str) == []
    assert claims.claims_elsewhere({"digits-parts": gathered("digits-parts", [])}, str) == []


def test_grids_like_the_papers_on_other_data_are_asked_the_same(claims):
    whole = {name: complete(name) for name in ("overfitting-curves", "digits-overfitting", "digits-beyond")}
    asked = [line for line in claims.claims_elsewhere(whole, str) if line.startswith("| digits")]
    expected = [line for line in claims.claims_section(whole, str) if line.startswith("| overfitting-curves")]
    assert len(asked) == sum(claim.grid == "overfitting-curves" for claim in claims.CLAIMS) == 7
    assert [line.replace("digits-overfitting", "overfitting-curves") for line in asked] == expected
    unfinished = {"digits-overfitting": replace(whole["digits-overfitting"], missing=1)}
    assert claims.claims_elsewhere(unfinished, str) == []


def test_a_grid_like_one_on_its_own_data_is_not_of_other_data(claims):
    twin = complete("overfitting-curves")
    twin = replace(twin, grid=replace(twin.grid, name="mine", like="overfitting-curves"))
    assert claims.claims_elsewhere({"mine": twin}, str) == []


def test_ahead_of_all_baselines_counts_columns_and_names_the_others(tables):
    check = tables.ahead_of_all(tables.OURS, but=["asym-0.4"])
    ahead = table(ANL_CE=50.4, ANL_FL=52.0)
    assert check(ahead) == tables.Finding("yes", "by more than 0.5 points in 0 of 9")
    assert check(table(ANL_CE=51.0, ANL_FL=52.0)).numbers == "by more than 0.5 points in 9 of 9"
    one_worse = tuple(
        replace(each, score=51.0)
        if (each.method, each.noise) in {("GCE", "clean"), ("GCE", "asym-0.4")}
        else each
        for each in ahead.results
    )
    found = check(replace(ahead, results=one_worse))
    assert found.verdict == "in 8 of 9 columns"
    assert found.numbers.endswith("; clean: ANL-CE 50.40 (1), GCE 51.00 (1)")


def test_a_column_without_all_baselines_is_not_judged(tables):
    whole = table(ANL_CE=51.0, ANL_FL=52.0)
    some = tuple(each for each in whole.results if (each.method, each.noise) != ("MAE", "real"))
    found = tables.ahead_of_all(tables.OURS)(replace(whole, results=some))
    assert found.numbers.endswith("9 of 9")


@pytest.mark.parametrize(("score", "verdict"), [(49.0, "yes"), (50.5, "no")])
def test_behind_means_all_of_them_behind_all_of_the_others(tables, score, verdict):
    found = tables.behind("asym-0.4", tables.OURS, ("APL", "ALF"))(table(ANL_CE=48.0, ANL_FL=score))
    assert found.verdict == verdict


@pytest.mark.parametrize(("score", "verdict"), [(55.5, "yes"), (54.5, "no")])
def test_a_lead_must_be_as_large_as_the_paper_says(tables, score, verdict):
    found = tables.leads("sym-0.8", "ANL-CE", 5.0)(table(ANL_CE=score))
    assert found.verdict == verdict
    assert found.numbers.endswith(f"{score - 50:+.2f}")


def test_of_a_table_that_is_not_whole_yes_is_not_said(tables):
    ahead = table(ANL_CE=51.0, ANL_FL=52.0)
    one = tuple(each for each in ahead.results if each.noise == "clean")
    assert tables.ahead_of_all(tables.OURS)(replace(ahead, results=one)).verdict == "in 1 of 1 columns"


def test_the_entropy_term_must_help_under_each_of_the_noises(tables):
    check = tables.entropy_helps("asym-0.4", "real")
    better = table(ANL_CE_star=51.0)
    assert check(better).verdict == "yes"
    worse = tuple(
        replace(each, score=49.0) if (each.method, each.noise) == ("ANL-CE*", "real") else each
        for each in better.results
    )
    assert check(replace(better, results=worse)).verdict == "no"


def complete(name):
    """Every run of a grid, all alike, with everything that a line can hold."""
    spread = Pulls((0.25, 0.5, 0.75), ((1.0, 2.0, 3.0),) * 2, ((0.0, 0.1, 0.2),) * 2, (3.0,) * 2, (0.5,) * 2)
    return gathered(
        name,
        [
            run(
                cell.method.label,
                60.0,
                cell.noise,
                cell.seed,
                config=cell.config.as_data(),
                curves=curves([20, 60], [10, 10], [50, 60]),
                predicted_marginals=(0.5, 0.5),
                noise_facts={"label_marginals": [0.6, 0.4]},
                pulls=replace(spread, floored=spread),
            )
            for cell in load(name).cells()
        ],
    )


def curves(clean, flipped, test):
    return Curves(tuple(test), tuple(clean), tuple(flipped))


def overfitting(**changed):
    """Five epochs of the five methods, as the paper has them."""
    test = {
        "CE": [20, 40, 30, 25, 20],
        "MAE": [20, 40, 45, 46, 47],
        "NCE+RCE": [20, 40, 50, 53, 54],
        "ANL-CE (w/ L2)": [20, 60, 55, 50, 47],
        "ANL-CE (w/ L1)": [20, 40, 50, 64, 63],
    }
    right = {method: [20, 40, 50, 60, 65] for method in test}
    right["NCE+RCE"], right["ANL-CE (w/ L2)"] = [20, 40, 50, 60, 70], [20, 40, 55, 65, 78]
    wrong = {method: [10, 10, 10, 10, 10] for method in test}
    wrong["CE"], wrong["ANL-CE (w/ L2)"] = [15, 35, 45, 55, 62], [10, 9, 9, 15, 20]
    runs = {
        method: run(method, float(scores[-1]), curves=curves(right[method], wrong[method], scores))
        for method, scores in test.items()
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
    assert len(found) == 7


def changed(runs, method, **said):
    results = tuple(replace(each, **said) if each.method == method else each for each in runs.results)
    return replace(runs, results=results)


def test_what_the_curves_do_not_show(figures):
    runs = overfitting()
    better = changed(runs, "MAE", curves=curves([20, 40, 50, 60, 75], [10] * 5, [20, 40, 45, 46, 47]))
    found = figures.fits_better("NCE+RCE", ["MAE"])(better)
    assert (found.verdict, found.numbers) == (
        "no",
        "accuracy on right labels at the end: NCE+RCE 70.0, MAE 75.0",
    )
    assert figures.l1_mitigates(overfitting(MAE=70.0)).verdict == "no"
    steady = changed(runs, "ANL-CE (w/ L2)", score=59.0)
    assert figures.overfits("ANL-CE (w/ L2)")(steady).verdict == "no"
    closing = changed(
        runs, "ANL-CE (w/ L2)", curves=curves([20, 40, 55, 65, 78], [10, 9, 9, 15, 50], [47] * 5)
    )
    assert figures.keeps_apart("ANL-CE (w/ L2)")(closing).verdict == "no"


def test_ce_must_learn_both_alike_all_the_time(figures):
    late = curves([20, 40, 50, 60, 65], [10, 10, 20, 50, 60], [20, 40, 30, 25, 20])
    assert (
        figures.ce_learns_both_alike(changed(overfitting(), "CE", curves=late)).verdict == "at the end only"
    )
    never = curves([20, 40, 50, 60, 65], [10] * 5, [20, 40, 30, 25, 20])
    assert figures.ce_learns_both_alike(changed(overfitting(), "CE", curves=never)).verdict == "no"


def test_mae_is_robust_only_as_long_as_its_test_accuracy_holds(figures):
    facts = {"label_marginals": [0.5, 0.5], "class_names": ["cat", "dog"]}
    falls = changed(overfitting(), "MAE", score=35.0, predicted_marginals=(1.0, 0.0), noise_facts=facts)
    found = figures.moves_apart("MAE")(falls)
    assert found.verdict == "in part"
    assert found.numbers.endswith("test 47.0 at epoch 5, 35.0 at the end; MAE lost dog")
    closing = curves([20, 40, 50, 60, 65], [10, 10, 10, 40, 60], [20, 40, 45, 46, 47])
    assert figures.moves_apart("MAE")(changed(overfitting(), "MAE", curves=closing)).verdict == "no"


def test_marginals_are_compared_with_an_equal_share(figures):
    facts = {"label_marginals": [0.54, 0.46]}
    plain = run("ANL-CE", 77.0, "asym-0.4", predicted_marginals=(0.53, 0.47), noise_facts=facts)
    even = run("ANL-CE*", 81.0, "asym-0.4", predicted_marginals=(0.51, 0.49), noise_facts=facts)
    found = figures.evens_marginals(gathered("marginals", [plain, even]))
    assert found.verdict == "yes"
    assert "+4.0 points in the labels, +3.0 with ANL-CE and +1.0" in found.numbers
    turned = [replace(plain, method="ANL-CE*"), replace(even, method="ANL-CE")]
    assert figures.evens_marginals(gathered("marginals", turned)).verdict == "no"
    other_class = replace(plain, predicted_marginals=(0.47, 0.53))
    assert figures.evens_marginals(gathered("marginals", [other_class, even])).verdict == "no"
    assert figures.evens_marginals(gathered("marginals", [replace(plain, noise_facts={}), even])) is None


def pulls(right, wrong, floored=None):
    return Pulls(
        (0.25, 0.5, 0.75), ((1.0, right, right),), ((0.0, wrong, wrong),), (right,), (wrong + 1,), floored
    )


def test_gradients_are_judged_by_the_formula_only(figures):
    as_trained = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(0.0, 0.0))
    for check in (figures.right_labels_pull, figures.means_lie_between):
        assert check(gathered("gradients", [as_trained])).verdict == "not told yet"
    for right, verdict in ((6e5, "yes"), (5.0, "no")):
        both = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(0.0, 0.0, pulls(right, 1.0)))
        assert figures.right_labels_pull(gathered("gradients", [both])).verdict == verdict
        assert figures.means_lie_between(gathered("gradients", [both])).verdict == "yes"
    told = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(0.0, 0.0, pulls(6e5, 1.0)))
    not_told = run("ANL-CE", 80.0, "sym-0.8", pulls=pulls(0.0, 0.0))
    weak = run("ANL-CE", 80.0, "sym-0.8", pulls=pulls(0.0, 0.0, pulls(5.0, 1.0)))
    assert figures.right_labels_pull(gathered("gradients", [told, not_told])).verdict == "not told yet"
    assert figures.right_labels_pull(gathered("gradients", [told, weak])).verdict == "no"
    without_means = replace(
        told, pulls=replace(told.pulls, floored=replace(told.pulls.floored, clean_mean=()))
    )
    assert figures.means_lie_between(gathered("gradients", [without_means])).verdict == "not told yet"
    turned = run("ANL-CE", 80.0, "sym-0.6", pulls=pulls(0.0, 0.0, pulls(1.0, 5.0)))
    assert figures.means_lie_between(gathered("gradients", [turned])).verdict == "no"


def test_regularisers_help_or_do_not(figures):
    labels = {"none": 50.0, "L2 δ=1e-4": 51.0, "Jacobian δ=1e-4": 50.5, "L1 δ=5e-5": 62.0, "L1 δ=1e-7": 50.0}
    runs = [run(label, score) for label, score in labels.items()]
    assert figures.only_l1_helps(gathered("regularisers-anl", runs)).verdict == "yes"
    assert figures.only_l1_helps(gathered("regularisers-anl", runs[:2])) is None
    helped = [replace(each, score=55.0) if each.method.startswith("L2") else each for each in runs]
    assert figures.only_l1_helps(gathered("regularisers-anl", helped)).verdict == "no", "L2 helps as well"
    against = [run("ANL-CE", 62.0), run("L2 δ=1e-4", 54.0), run("L1 δ=1e-5", 58.0)]
    found = figures.stays_below(gathered("regularisers-apl", against))
    assert (found.verdict, found.numbers) == ("yes", "ANL-CE 62.0; NCE+RCE at best 58.0, with L1 δ=1e-5")
    assert (
        figures.stays_below(gathered("regularisers-apl", [*against, run("L1 δ=1e-4", 62.5)])).verdict == "no"
    )


@pytest.mark.parametrize(("last", "verdict"), [(70.0, "yes"), (40.0, "no")])
def test_a_larger_beta_must_fit_better_at_every_alpha(figures, last, verdict):
    runs = [
        run(
            f"α={alpha} β={beta}",
            50.0,
            config={"loss_parameters": {"alpha": alpha, "beta": beta}},
            curves=curves([right], [10.0], [50.0]),
        )
        for alpha, beta, right in ((1.0, 1.0, 50.0), (1.0, 5.0, 60.0), (5.0, 1.0, 55.0), (5.0, 5.0, last))
    ]
    assert figures.beta_fits(gathered("alpha-beta-grid", runs)).verdict == verdict


@pytest.mark.parametrize(
    ("alone", "verdict"), [((57.0, 90.0), "yes"), ((61.0, 90.0), "no"), ((57.0, 80.0), "no")]
)
def test_nnce_alone_falls_behind_at_most_noise_only(tables, alone, verdict):
    runs = [
        run(method, score, noise)
        for noise in load("cifar10-parts").noises
        for method, score in (
            ("ANL-CE", 61.3 if noise == "sym-0.8" else 90.1),
            ("NNCE", alone[noise != "sym-0.8"]),
        )
    ]
    assert tables.nnce_alone(gathered("cifar10-parts", runs)).verdict == verdict
    assert tables.nnce_alone(gathered("cifar10-parts", runs[:2])) is None


def test_runs_that_recorded_too_little_are_not_judged(figures):
    """Lines that a results file may hold."""
    runs = overfitting()
    none = changed(runs, "MAE", curves=curves([None], [None], [None]))
    for check in (
        figures.moves_apart("MAE"),
        figures.keeps_apart("MAE"),
        figures.fits_better("NCE+RCE", ["MAE"]),
    ):
        assert check(none) is None
        assert check(changed(runs, "MAE", curves=Curves())) is None
    assert figures.ce_learns_both_alike(changed(runs, "CE", curves=Curves())) is None
    assert figures.overfits("MAE")(changed(runs, "MAE", curves=Curves())) is None
    assert figures.beta_fits(gathered("alpha-beta-grid", [run("α", 50.0)])) is None


def test_a_run_with_l1_that_falls_is_not_the_best_way(figures):
    falls = curves([20, 40, 50, 60, 65], [10] * 5, [20, 40, 50, 70, 63])
    assert figures.l1_mitigates(changed(overfitting(), "ANL-CE (w/ L1)", curves=falls)).verdict == "no"


FACTS = {"label_marginals": [0.5, 0.5], "class_names": ["cat", "dog"]}
KEPT, LOST = (0.5, 0.5), (1.0, 0.0)


def early(method, seed, marginals):
    return run(
        method, 60.0, "dep-0.4", seed, predicted_marginals=marginals, noise_facts=FACTS, config={"epochs": 5}
    )


def test_lost_classes_are_told_by_seed_and_at_the_end(lost):
    runs = [early("MAE", 1, LOST), early("MAE", 3, KEPT), early("ANL-CE", 1, LOST), early("ANL-CE", 2, LOST)]
    late = [early("MAE", 1, LOST), early("MAE", 3, KEPT), early("ANL-CE", 1, KEPT)]
    lines = lost.lost_section(gathered(lost.GRID, runs), late)
    assert "| MAE | 1→1, ?, – |" in lines
    assert "| ANL-CE | 1→0, 1, ? |" in lines
    assert "lost at the end: MAE 1 of 1, ANL-CE 0 of 1." in " ".join(lines)
    another = [early("MAE", 1, (0.0, 1.0))]
    assert "lost at the end: MAE 0 of 1." in " ".join(lost.lost_section(gathered(lost.GRID, runs), another))
    assert lost.lost_section(gathered(lost.GRID, [run("MAE", 60.0)]), late) == []


def test_settings_are_compared_where_the_seed_is_the_same(lost):
    runs = [early("MAE", 1, LOST), early("MAE", 2, KEPT), early("PHCE", 1, LOST)]
    others = [early("MAE (float32)", 1, KEPT), early("MAE rotated", 1, LOST), early("MAE rotated", 3, LOST)]
    said = " ".join(lost.lost_section(gathered(lost.GRID, [*runs, *others]), []))
    assert "MAE at dep-0.4 with seed 1 loses 1, 0 as “MAE (float32)” and 1 as “MAE rotated”." in said
    assert "With other settings" not in " ".join(lost.lost_section(gathered(lost.GRID, runs), []))


def cell_of(method, ours=60.0):
    return TableCell(
        method, "dep-0.4", Summary(ours, None, 1), Summary(70.0, 0.5, 3), (early(method, 1, LOST),)
    )


def test_seeds_tell_luck_from_rule(lost):
    losing = {"PHCE": 2, "MAE": 8, "ALF": 4, "GCE": 0}
    runs = [
        early(method, seed, LOST if seed <= count else KEPT)
        for method, count in losing.items()
        for seed in range(1, 9)
    ]
    recorded = gathered(lost.GRID, [*runs, early("SCE", 1, LOST)])
    cells = [cell_of(method) for method in (*losing, "SCE")]
    said = lost.by_seed_in_words([*cells, cell_of("TCE", 80.0)], recorded)
    assert "bad luck: PHCE at dep-0.4 (2 of 8)." in said
    assert "None of them does: GCE at dep-0.4." in said
    assert (
        "luck explains little: MAE at dep-0.4 (8 of 8, 1 to 1 classes) and ALF at dep-0.4 (4 of 8, 0" in said
    )
    assert "Not tried: SCE at dep-0.4 and TCE at dep-0.4 (above the paper" in said
    assert lost.by_seed_in_words([cell_of("CE")], recorded) == ""
    assert lost.by_seed_in_words([cell_of("MAE")], None) == ""
