# SPDX-License-Identifier: Apache-2.0
"""Whether our runs lead to what the paper concludes from its figures.

Each check takes a grid whose runs are all there, and gives None where they recorded too little to tell.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from noiseproof.results import Gathered, Pulls, Result, lost_classes
from noiseproof.results.lost_classes import named
from writers.evidence.finding import NO, YES, Finding

QUARTERS = (0.25, 0.5, 1.0)
"""Of training, at which curves are compared."""

IN_QUARTERS = "after a quarter, half and all of training"

ALIKE = 0.5
"""Right and wrong labels are learned alike where accuracies on them differ by less than so many times what they
differ by with every other loss."""

FALL = 5.0
"""Points of test accuracy below the best, from which on a run has overfitted."""

KEPT = 2.0
"""Points by which a difference may shrink and still count as kept."""

HELP = 2.0
"""Points of test accuracy that a regulariser must add to count as a help."""

STRONGER = 10.0
"""How many times the other median one must be to count as gathered at larger values."""

NEARLY_ALL = 0.95
"""Of the epochs."""


def _by_method(gathered: Gathered) -> dict[str, Result]:
    """The first seed's run of each method."""
    found: dict[str, Result] = {}
    for result in gathered.results:
        found.setdefault(result.method, result)
    return found


def _gaps(result: Result) -> list[float] | None:
    """Accuracy on right labels less that on wrong ones at the quarters; None where either was not recorded."""
    pairs = zip(result.curves.clean, result.curves.flipped, strict=True)
    gaps = [clean - flipped for clean, flipped in pairs if clean is not None and flipped is not None]
    return [gaps[round(share * (len(gaps) - 1))] for share in QUARTERS] if gaps else None


def _right_at_the_end(result: Result) -> float | None:
    """Accuracy on right labels, of which fitting is told."""
    return result.curves.clean[-1] if result.curves.clean else None


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _lost(results: Iterable[Result]) -> str:
    """Which classes these runs lost, for the end of a sentence; empty if none did."""
    said = [f"{result.method} lost {named(lost)}" for result in results if (lost := lost_classes(result))]
    return f"; {', '.join(said)}" if said else ""


def ce_learns_both_alike(gathered: Gathered) -> Finding | None:
    """CE's accuracies on right and on wrong labels stay close, all through training."""
    gaps = {method: _gaps(result) for method, result in _by_method(gathered).items()}
    of_ce = gaps.pop("CE", None)
    others = [each for each in gaps.values() if each is not None]
    if of_ce is None or not others:
        return None
    least = [min(each) for each in zip(*others, strict=True)]
    close = [own < ALIKE * other for own, other in zip(of_ce, least, strict=True)]
    numbers = (
        f"{IN_QUARTERS} they differ by {_listed(of_ce)} points, with other losses by {_listed(least)} or more"
    )
    return Finding(YES if all(close) else "at the end only" if close[-1] else NO, numbers)


def moves_apart(method: str) -> Callable[[Gathered], Finding | None]:
    """Whether right and wrong labels are told apart ever better, and test accuracy holds."""

    def check(gathered: Gathered) -> Finding | None:
        result = _by_method(gathered).get(method)
        gaps = None if result is None else _gaps(result)
        if result is None or gaps is None or result.best is None:
            return None
        fall, words = _fall(result)
        grows = gaps == sorted(gaps)
        verdict = YES if grows and fall <= FALL else "in part" if grows else NO
        return Finding(
            verdict, f"they differ by {_listed(gaps)} points {IN_QUARTERS}; {words}{_lost([result])}"
        )

    return check


def keeps_apart(method: str) -> Callable[[Gathered], Finding | None]:
    """Whether right and wrong labels stay apart in the second half of training."""

    def check(gathered: Gathered) -> Finding | None:
        result = _by_method(gathered).get(method)
        gaps = None if result is None else _gaps(result)
        if gaps is None:
            return None
        _, half, end = gaps
        verdict = YES if end > half - KEPT else NO
        return Finding(verdict, f"{half:.1f} points after half of training, {end:.1f} at the end")

    return check


def fits_better(method: str, others: Sequence[str]) -> Callable[[Gathered], Finding | None]:
    """Whether a loss fits better than others: how many of the right training labels the network agrees with."""

    def check(gathered: Gathered) -> Finding | None:
        runs = _by_method(gathered)
        compared = [runs[each] for each in (method, *others) if each in runs]
        right = [value for each in compared if (value := _right_at_the_end(each)) is not None]
        if len(right) < 1 + len(others):
            return None
        said = ", ".join(f"{run.method} {value:.1f}" for run, value in zip(compared, right, strict=True))
        numbers = f"accuracy on right labels at the end: {said}{_lost(compared)}"
        return Finding(YES if right[0] > max(right[1:]) else NO, numbers)

    return check


def _fall(result: Result) -> tuple[float, str]:
    """How far the last test accuracy is below the best, and that in words."""
    assert result.best is not None
    best, epoch = result.best
    return best - result.score, f"test {best:.1f} at epoch {epoch}, {result.score:.1f} at the end"


def overfits(method: str) -> Callable[[Gathered], Finding | None]:
    """Whether test accuracy falls while training goes on."""

    def check(gathered: Gathered) -> Finding | None:
        result = _by_method(gathered).get(method)
        if result is None or result.best is None:
            return None
        fall, words = _fall(result)
        return Finding(YES if fall > FALL else NO, words)

    return check


def l1_mitigates(gathered: Gathered) -> Finding | None:
    """ANL-CE with L1 does not overfit, and ends highest of all."""
    runs = _by_method(gathered)
    result = runs.get("ANL-CE (w/ L1)")
    if result is None or result.best is None:
        return None
    fall, words = _fall(result)
    highest = result.score == max(each.score for each in runs.values())
    return Finding(
        YES if highest and fall <= FALL else NO,
        f"{words}, {'the highest of all' if highest else 'not the highest'}",
    )


def evens_marginals(gathered: Gathered) -> Finding | None:
    """ANL-CE's predictions lean to the classes to which labels lean, and with the entropy term less so."""
    runs = _by_method(gathered)
    plain, even = runs.get("ANL-CE"), runs.get("ANL-CE*")
    if plain is None or even is None or not plain.predicted_marginals or not even.predicted_marginals:
        return None
    labels = plain.noise_facts.get("label_marginals")
    if not labels:
        return None
    equal = 1 / len(labels)
    lean = max(range(len(labels)), key=lambda place: abs(labels[place] - equal))
    of_labels, without, with_term = (
        100 * (shares[lean] - equal)
        for shares in (labels, plain.predicted_marginals, even.predicted_marginals)
    )
    numbers = (
        f"the class furthest from an equal share is off by {of_labels:+.1f} points in the labels, {without:+.1f} "
        f"with ANL-CE and {with_term:+.1f} with ANL-CE\\*"
    )
    takes_over = without * of_labels > 0
    return Finding(YES if takes_over and abs(with_term) < abs(without) else NO, numbers)


NOT_RECORDED = Finding(
    "not told yet",
    "not all of these runs recorded gradients by the paper's formula at max(p_j, 10⁻⁷); those that training has "
    "are 0 where p_j < 10⁻⁷",
)


def _by_formula(gathered: Gathered) -> dict[str, Pulls] | None:
    """Spreads by noise as the paper's figure has them, of the first seed; None where one was not recorded."""
    spreads: dict[str, Pulls | None] = {}
    for run in gathered.results:
        spreads.setdefault(run.noise, None if run.pulls is None else run.pulls.floored)
    found = {noise: pulls for noise, pulls in spreads.items() if pulls is not None}
    return found if found and len(found) == len(spreads) else None


def right_labels_pull(gathered: Gathered) -> Finding | None:
    """Gradients on right labels gather at large values, those on wrong ones at small values."""
    spreads = _by_formula(gathered)
    if spreads is None:
        return NOT_RECORDED if gathered.results else None
    numbers, holds = [], []
    for noise, pulls in spreads.items():
        right, wrong = (part[-1] for part in (pulls.clean, pulls.flipped))
        if right is None or wrong is None:
            return NOT_RECORDED
        middle = pulls.quantiles.index(0.5)
        holds.append(right[middle] > STRONGER * wrong[middle])
        numbers.append(f"{noise}: medians at the end {right[middle]:.3g} and {wrong[middle]:.3g}")
    return Finding(YES if all(holds) else NO, "; ".join(numbers))


def means_lie_between(gathered: Gathered) -> Finding | None:
    """The mean over wrong labels is above their median and below the mean over right labels."""
    spreads = _by_formula(gathered)
    if spreads is None:
        return NOT_RECORDED if gathered.results else None
    shares = {}
    for noise, pulls in spreads.items():
        middle = pulls.quantiles.index(0.5)
        epochs = zip(pulls.flipped, pulls.flipped_mean, pulls.clean_mean, strict=False)
        between = [
            wrong[middle] < of_wrong < of_right
            for wrong, of_wrong, of_right in epochs
            if wrong is not None and of_wrong is not None and of_right is not None
        ]
        if not between:
            return NOT_RECORDED
        shares[noise] = mean(between)
    return Finding(
        YES if min(shares.values()) > NEARLY_ALL else NO,
        ", ".join(f"{noise}: in {100 * share:.0f}% of epochs" for noise, share in shares.items()),
    )


def _best_by_regulariser(gathered: Gathered) -> dict[str, Result]:
    """The best run of each regulariser, which is the first word of a method's label."""
    found: dict[str, Result] = {}
    for result in gathered.results:
        family = result.method.split()[0]
        if family not in found or result.score > found[family].score:
            found[family] = result
    return found


def only_l1_helps(gathered: Gathered) -> Finding | None:
    """Of all regularisers, only L1 improves on none for ANL-CE."""
    best = {family: run.score for family, run in _best_by_regulariser(gathered).items()}
    if not best.keys() >= {"none", "L2", "Jacobian", "L1"}:
        return None
    helps = {family: best[family] > best["none"] + HELP for family in ("L2", "Jacobian", "L1")}
    numbers = ", ".join(f"{family} {score:.1f}" for family, score in best.items())
    verdict = YES if helps == {"L2": False, "Jacobian": False, "L1": True} else NO
    return Finding(verdict, f"best over δ: {numbers}")


def stays_below(gathered: Gathered) -> Finding | None:
    """NCE+RCE stays below ANL-CE, whatever its regulariser."""
    best = _best_by_regulariser(gathered)
    level = best.pop("ANL-CE", None)
    if level is None or not best:
        return None
    rival = max(best.values(), key=lambda run: run.score)
    numbers = f"ANL-CE {level.score:.1f}; NCE+RCE at best {rival.score:.1f}, with {rival.method}"
    return Finding(YES if rival.score < level.score else NO, numbers)


def beta_fits(gathered: Gathered) -> Finding | None:
    """The larger β, the weight of NNCE, the higher the accuracy on right labels, whatever α."""
    by_alpha: dict[float, dict[float, float]] = {}
    for run in gathered.results:
        said, right = run.config.get("loss_parameters", {}), _right_at_the_end(run)
        if right is None or not {"alpha", "beta"} <= said.keys():
            return None
        by_alpha.setdefault(said["alpha"], {})[said["beta"]] = right
    if not by_alpha:
        return None
    rises = {alpha: at[max(at)] - at[min(at)] for alpha, at in by_alpha.items()}
    numbers = "from the least β to the largest, by α: "
    numbers += ", ".join(f"{alpha:g} {rise:+.1f}" for alpha, rise in sorted(rises.items()))
    return Finding(YES if min(rises.values()) > 0 else NO, numbers)
