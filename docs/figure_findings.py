# SPDX-License-Identifier: Apache-2.0
"""Whether our runs lead to what the paper concludes from its figures."""

from collections.abc import Callable, Iterable, Sequence
from statistics import mean

from finding import NO, YES, Finding

from noiseproof.results import Gathered, Pulls, Result, lost_classes
from noiseproof.results.lost_classes import named


def _by_method(gathered: Gathered) -> dict[str, Result]:
    """The first seed's run of each method."""
    found: dict[str, Result] = {}
    for result in gathered.results:
        found.setdefault(result.method, result)
    return found


def _gaps(result: Result) -> list[float]:
    """Accuracy on right labels less that on wrong ones, by epoch, against the given labels."""
    pairs = zip(result.curves.clean, result.curves.flipped, strict=True)
    return [clean - flipped for clean, flipped in pairs if clean is not None and flipped is not None]


QUARTERS = (0.25, 0.5, 1.0)
"""Of training, at which curves are compared."""


def _at_quarters(values: Sequence[float]) -> list[float]:
    return [values[round(share * (len(values) - 1))] for share in QUARTERS]


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _lost(results: Iterable[Result]) -> str:
    """Which classes these runs lost, for the end of a sentence; empty if none did."""
    said = [f"{result.method} lost {named(lost)}" for result in results if (lost := lost_classes(result))]
    return f"; {', '.join(said)}" if said else ""


def ce_learns_both_alike(gathered: Gathered) -> Finding | None:
    """CE's accuracies on right and on wrong labels stay close, all through training."""
    runs = _by_method(gathered)
    if len(runs) < 2 or "CE" not in runs:
        return None
    gaps = {method: _at_quarters(_gaps(result)) for method, result in runs.items()}
    of_ce = gaps.pop("CE")
    least = [min(each) for each in zip(*gaps.values(), strict=True)]
    close = [own < other / 2 for own, other in zip(of_ce, least, strict=True)]
    numbers = (
        f"after a quarter, half and all of training they differ by {_listed(of_ce)} points, with the other "
        f"losses by {_listed(least)} or more"
    )
    return Finding(YES if all(close) else "at the end only" if close[-1] else NO, numbers)


def moves_apart(method: str) -> Callable[[Gathered], Finding | None]:
    """Whether right and wrong labels are told apart ever better, and test accuracy holds."""

    def check(gathered: Gathered) -> Finding | None:
        result = _by_method(gathered).get(method)
        if result is None or result.best is None:
            return None
        gaps = _at_quarters(_gaps(result))
        fall, words = _fall(result)
        numbers = f"they differ by {_listed(gaps)} points after a quarter, half and all of training; {words}"
        grows = gaps == sorted(gaps)
        verdict = YES if grows and fall <= FALL else "in part" if grows else NO
        return Finding(verdict, numbers + _lost([result]))

    return check


def keeps_apart(method: str) -> Callable[[Gathered], Finding | None]:
    """Whether right and wrong labels stay apart in the second half of training."""

    def check(gathered: Gathered) -> Finding | None:
        result = _by_method(gathered).get(method)
        if result is None:
            return None
        _, half, end = _at_quarters(_gaps(result))
        return Finding(
            YES if end > half - 2 else NO, f"{half:.1f} points after half of training, {end:.1f} at the end"
        )

    return check


def fits_better(method: str, others: Sequence[str]) -> Callable[[Gathered], Finding | None]:
    """Whether a loss fits better than others: how many of the right training labels the network agrees with."""

    def check(gathered: Gathered) -> Finding | None:
        runs = _by_method(gathered)
        if not all(each in runs for each in (method, *others)):
            return None
        compared = [runs[each] for each in (method, *others)]
        right = [result.curves.clean[-1] or 0.0 for result in compared]
        said = ", ".join(f"{run.method} {value:.1f}" for run, value in zip(compared, right, strict=True))
        numbers = f"accuracy on right labels at the end: {said}{_lost(compared)}"
        return Finding(YES if right[0] > max(right[1:]) else NO, numbers)

    return check


FALL = 5.0
"""Points of test accuracy below the best, from which on a run has overfitted."""


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
    """ANL-CE with L1 falls less than with L2, and ends highest of all."""
    runs = _by_method(gathered)
    with_l1, with_l2 = runs.get("ANL-CE (w/ L1)"), runs.get("ANL-CE (w/ L2)")
    if with_l1 is None or with_l2 is None or with_l1.best is None or with_l2.best is None:
        return None
    (fall, words), (other, _) = _fall(with_l1), _fall(with_l2)
    highest = with_l1.score == max(result.score for result in runs.values())
    return Finding(
        YES if highest and fall < other / 2 else NO, f"{words}{', the highest of all' if highest else ''}"
    )


def evens_marginals(gathered: Gathered) -> Finding | None:
    """ANL-CE's predictions lean the way the labels do, and with the entropy term less so."""
    runs = _by_method(gathered)
    plain, even = runs.get("ANL-CE"), runs.get("ANL-CE*")
    if plain is None or even is None or not plain.predicted_marginals or not even.predicted_marginals:
        return None

    def lean(shares: Sequence[float]) -> float:
        return 100 * max(abs(share - 1 / len(shares)) for share in shares)

    labels = lean(plain.noise_facts["label_marginals"])
    without, with_term = lean(plain.predicted_marginals), lean(even.predicted_marginals)
    numbers = (
        "the class furthest from an equal share is off by "
        f"{labels:.1f} points in the labels, {without:.1f} with ANL-CE and {with_term:.1f} with ANL-CE\\*"
    )
    return Finding(YES if with_term < without else NO, numbers)


def _spreads(gathered: Gathered) -> dict[str, Pulls]:
    """By noise, as the paper's figure has them where that was recorded, or else as training had them."""
    return {run.noise: run.pulls.floored or run.pulls for run in gathered.results if run.pulls is not None}


NOT_RECORDED = Finding(
    "not told yet",
    "recorded are only the gradients that training has, which are 0 where p_j < 10⁻⁷, so that their medians end at "
    "0 for right and for wrong labels; the paper's are by the formula at max(p_j, 10⁻⁷)",
)


def _by_formula(gathered: Gathered) -> dict[str, Pulls] | None:
    """Spreads by noise as the paper's figure has them; None where a run did not record those."""
    spreads = {run.noise: run.pulls.floored for run in gathered.results if run.pulls is not None}
    found = {noise: pulls for noise, pulls in spreads.items() if pulls is not None}
    return found if len(found) == len(spreads) else None


def right_labels_pull(gathered: Gathered) -> Finding | None:
    """Gradients on right labels gather at large values, those on wrong ones at small values."""
    spreads = _by_formula(gathered)
    if not spreads:
        return None if spreads == {} else NOT_RECORDED
    numbers, holds = [], []
    for noise, pulls in spreads.items():
        middle = pulls.quantiles.index(0.5)
        right, wrong = (part[-1][middle] if part[-1] else 0.0 for part in (pulls.clean, pulls.flipped))
        holds.append(right > 10 * wrong)
        numbers.append(f"{noise}: medians at the end {right:.3g} and {wrong:.3g}")
    return Finding(YES if all(holds) else NO, "; ".join(numbers))


def means_lie_between(gathered: Gathered) -> Finding | None:
    """The mean over wrong labels is above their median and below the mean over right labels."""
    spreads = _by_formula(gathered)
    if not spreads:
        return None if spreads == {} else NOT_RECORDED
    shares = {}
    for noise, pulls in spreads.items():
        middle = pulls.quantiles.index(0.5)
        epochs = zip(pulls.flipped, pulls.flipped_mean, pulls.clean_mean, strict=True)
        told = [(wrong[middle], below, above) for wrong, below, above in epochs if wrong and below and above]
        shares[noise] = mean(median < of_wrong < of_right for median, of_wrong, of_right in told)
    return Finding(
        YES if min(shares.values()) > 0.95 else NO,
        ", ".join(f"{noise}: in {100 * share:.0f}% of epochs" for noise, share in shares.items()),
    )


def _families(gathered: Gathered) -> dict[str, dict[str, Result]]:
    """Runs by regulariser, the first word of their label, and by label."""
    found: dict[str, dict[str, Result]] = {}
    for result in gathered.results:
        found.setdefault(result.method.split()[0], {}).setdefault(result.method, result)
    return found


def only_l1_helps(gathered: Gathered) -> Finding | None:
    """Of all regularisers, only L1 improves on none for ANL-CE."""
    families = _families(gathered)
    if gathered.missing or not families.keys() >= {"none", "L2", "Jacobian", "L1"}:
        return None
    best = {family: max(run.score for run in runs.values()) for family, runs in families.items()}
    others = max(best["none"], best["L2"], best["Jacobian"])
    numbers = ", ".join(f"{family} {score:.1f}" for family, score in best.items())
    return Finding(YES if best["L1"] > others + 2 else NO, f"best over δ: {numbers}")


def stays_below(gathered: Gathered) -> Finding | None:
    """NCE+RCE stays below ANL-CE, whatever its regulariser."""
    families = _families(gathered)
    if gathered.missing or "ANL-CE" not in families:
        return None
    (level,) = families.pop("ANL-CE").values()
    best = max((run for runs in families.values() for run in runs.values()), key=lambda run: run.score)
    numbers = f"ANL-CE {level.score:.1f}; NCE+RCE at best {best.score:.1f}, with {best.method}"
    return Finding(YES if best.score < level.score else NO, numbers)


def beta_fits(gathered: Gathered) -> Finding | None:
    """The larger β, the weight of NNCE, the higher the accuracy on right labels, whatever α."""
    runs = [run for run in gathered.results if run.curves.clean and run.config]
    if gathered.missing or not runs:
        return None
    by_alpha: dict[float, dict[float, float]] = {}
    for run in runs:
        said = run.config["loss_parameters"]
        by_alpha.setdefault(said["alpha"], {})[said["beta"]] = run.curves.clean[-1] or 0.0
    rises = {alpha: at[max(at)] - at[min(at)] for alpha, at in by_alpha.items()}
    numbers = "from the least β to the largest, by α: "
    numbers += ", ".join(f"{alpha:g} {rise:+.1f}" for alpha, rise in sorted(rises.items()))
    return Finding(YES if min(rises.values()) > 0 else NO, numbers)
