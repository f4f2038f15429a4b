# SPDX-License-Identifier: Apache-2.0
"""The part of docs/reproduce.md on what the paper concludes from tables and figures, and whether our runs agree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from noiseproof.results import Gathered, Pulls, Result, Summary, table_of
from noiseproof.results.formats import markdown_text
from noiseproof.results.table import ResultTable

BASELINES = ("CE", "FL", "MAE", "GCE", "SCE", "PHCE", "TCE", "APL", "ALF")
OURS = ("ANL-CE", "ANL-FL")

YES, NO = "yes", "no"


@dataclass(frozen=True)
class Finding:
    """What our runs say: whether the conclusion holds, in a word or two, and the numbers behind it."""

    verdict: str
    numbers: str


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper; ``check`` gives None where too little of the grid is recorded to tell."""

    grid: str
    paper: str
    check: Callable[[Gathered], Finding | None]


INTRODUCTION = """\
What the paper concludes from its tables and figures, in our words, and whether our runs lead to the same
conclusion. Numbers of seeds are in brackets; figures are of one seed. Left out is what has no runs yet."""


def claims_section(gathered: Mapping[str, Gathered], link: Callable[[str], str]) -> list[str]:
    """A table of the conclusions that can be judged; nothing if none can.

    Args:
        gathered: the recorded runs of each grid that has any.
        link: from a grid's name to the words and target that stand for it.
    """
    rows = []
    for claim in CLAIMS:
        finding = claim.check(gathered[claim.grid]) if claim.grid in gathered else None
        if finding is not None:
            cells = (link(claim.grid), claim.paper, finding.verdict, finding.numbers)
            rows.append(f"| {' | '.join(cells)} |")
    if not rows:
        return []
    return [
        "## The paper's conclusions",
        "",
        INTRODUCTION,
        "",
        "| from | the paper's conclusion | holds | our runs |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


# --- tables ----------------------------------------------------------------------------------------------


Column = Mapping[str, Summary]
"""Our summaries under one noise, by method."""


def _column(table: ResultTable, noise: str) -> dict[str, Summary]:
    cells = {method: table.cells[method, noise].ours for method in table.methods}
    return {method: ours for method, ours in cells.items() if ours is not None}


def _columns(gathered: Gathered, *needed: str) -> dict[str, dict[str, Summary]]:
    """Columns by noise, as far as all these methods have runs there."""
    table = table_of(gathered)
    columns = {noise: _column(table, noise) for noise in table.noises}
    return {noise: column for noise, column in columns.items() if column.keys() >= set(needed)}


def _best(column: Column, methods: Iterable[str]) -> str:
    return max(methods, key=lambda method: column[method].mean)


def _named(column: Column, *methods: str) -> str:
    return ", ".join(f"{method} {column[method].mean:.2f} ({column[method].n})" for method in methods)


def ahead_of_all_baselines(
    methods: Sequence[str], but: Sequence[str] = ()
) -> Callable[[Gathered], Finding | None]:
    """In how many columns each of these methods has a higher mean than every baseline."""

    def check(gathered: Gathered) -> Finding | None:
        columns = _columns(gathered, *methods, *BASELINES)
        columns = {noise: column for noise, column in columns.items() if noise not in but}
        if not columns:
            return None
        behind = []
        for noise, column in columns.items():
            rival, last = _best(column, BASELINES), min(methods, key=lambda method: column[method].mean)
            if column[last].mean <= column[rival].mean:
                behind.append(f"{noise}: {_named(column, last, rival)}")
        ahead = len(columns) - len(behind)
        verdict = YES if not behind else f"in {ahead} of {len(columns)} columns"
        return Finding(
            markdown_text(verdict), markdown_text("; ".join(behind) or f"all {len(columns)} columns")
        )

    return check


def leads(noise: str, method: str, points: float) -> Callable[[Gathered], Finding | None]:
    """Whether a method's mean is so far above the best baseline's."""

    def check(gathered: Gathered) -> Finding | None:
        column = _columns(gathered, method, *BASELINES).get(noise)
        if column is None:
            return None
        rival = _best(column, BASELINES)
        lead = column[method].mean - column[rival].mean
        numbers = markdown_text(f"{_named(column, method, rival)}: {lead:+.2f}")
        return Finding(YES if lead > points else NO, numbers)

    return check


def entropy_helps(*noises: str) -> Callable[[Gathered], Finding | None]:
    """Whether ANL-CE* is ahead of ANL-CE and ANL-FL under these noises."""

    def check(gathered: Gathered) -> Finding | None:
        columns = _columns(gathered, "ANL-CE*", *OURS)
        if not all(noise in columns for noise in noises):
            return None
        leads = {
            noise: column["ANL-CE*"].mean - max(column[each].mean for each in OURS)
            for noise, column in columns.items()
            if noise in noises
        }
        return Finding(
            YES if min(leads.values()) > 0 else NO,
            ", ".join(f"{noise} {lead:+.2f}" for noise, lead in leads.items()),
        )

    return check


def nnce_alone(gathered: Gathered) -> Finding | None:
    """NNCE without NCE is close to both together, but at the highest noise."""
    columns = _columns(gathered, "NNCE", "ANL-CE")
    if "sym-0.8" not in columns or len(columns) < 2:
        return None
    behind = {noise: column["ANL-CE"].mean - column["NNCE"].mean for noise, column in columns.items()}
    at_worst = behind.pop("sym-0.8")
    numbers = f"behind ANL-CE at sym-0.8 by {at_worst:.2f}, else by {max(behind.values()):.2f} at most"
    return Finding(YES if at_worst > 2 * max(0.0, *behind.values()) else NO, numbers)


# --- figures ---------------------------------------------------------------------------------------------


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


def ce_learns_both_alike(gathered: Gathered) -> Finding | None:
    """CE's accuracies on right and on wrong labels stay close."""
    runs = _by_method(gathered)
    if len(runs) < 2 or "CE" not in runs:
        return None
    last = {method: _gaps(result)[-1] for method, result in runs.items()}
    of_ce = last.pop("CE")
    others = min(last.values())
    numbers = f"they differ by {of_ce:.1f} points at the end, with the other losses by {others:.1f} or more"
    return Finding(YES if of_ce < others / 2 else NO, numbers)


def moves_apart(method: str) -> Callable[[Gathered], Finding | None]:
    """Whether right and wrong labels are told apart ever better."""

    def check(gathered: Gathered) -> Finding | None:
        result = _by_method(gathered).get(method)
        if result is None:
            return None
        gaps = _gaps(result)
        marks = [gaps[round(share * (len(gaps) - 1))] for share in (0.25, 0.5, 1.0)]
        numbers = (
            "accuracy on right labels less that on wrong ones, after a quarter, half and all of training: "
        )
        numbers += ", ".join(f"{gap:.1f}" for gap in marks)
        return Finding(YES if marks == sorted(marks) else NO, numbers)

    return check


def fits_better(method: str, other: str) -> Callable[[Gathered], Finding | None]:
    """Whether one loss fits better than another: the right training labels, and the test set."""

    def check(gathered: Gathered) -> Finding | None:
        runs = _by_method(gathered)
        if method not in runs or other not in runs:
            return None
        right = [runs[each].curves.clean[-1] or 0.0 for each in (method, other)]
        test = [runs[each].score for each in (method, other)]
        verdicts = right[0] > right[1], test[0] > test[1]
        numbers = (
            f"right labels {right[0]:.1f} against {right[1]:.1f}, test {test[0]:.1f} against {test[1]:.1f}"
        )
        return Finding(YES if all(verdicts) else "in part" if any(verdicts) else NO, numbers)

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
        return Finding(YES if fall > 5 else NO, words)

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
    """ANL-CE's predictions lean the way the labels do; the entropy term makes them more even."""
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


def right_labels_pull(gathered: Gathered) -> Finding | None:
    """Gradients on right labels gather at large values, those on wrong ones at small values."""
    runs = [run for run in gathered.results if run.pulls is not None]
    if not runs:
        return None
    if any(run.pulls.floored is None for run in runs if run.pulls is not None):
        return Finding(
            "not told yet",
            "these runs recorded the gradients that training has, which are 0 where p_j < 10⁻⁷, so that their "
            "medians end at 0 for right and for wrong labels; the paper's are by the formula at max(p_j, 10⁻⁷)",
        )
    numbers, holds = [], []
    for noise, pulls in _spreads(gathered).items():
        middle = pulls.quantiles.index(0.5)
        right, wrong = (part[-1][middle] if part[-1] else 0.0 for part in (pulls.clean, pulls.flipped))
        holds.append(right > 10 * wrong)
        numbers.append(f"{noise}: medians at the end {right:.3g} and {wrong:.3g}")
    return Finding(YES if all(holds) else NO, "; ".join(numbers))


def means_lie_between(gathered: Gathered) -> Finding | None:
    """The mean over wrong labels is above their median and below the mean over right labels."""
    shares = {}
    for noise, pulls in _spreads(gathered).items():
        middle = pulls.quantiles.index(0.5)
        epochs = zip(pulls.flipped, pulls.flipped_mean, pulls.clean_mean, strict=True)
        told = [(wrong[middle], below, above) for wrong, below, above in epochs if wrong and below and above]
        if told:
            shares[noise] = mean(median < of_wrong < of_right for median, of_wrong, of_right in told)
    if not shares:
        return None
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


CLAIMS = (
    Claim(
        "cifar10-table",
        "ANL-CE and ANL-FL are ahead of every baseline, but under asym-0.4",
        ahead_of_all_baselines(OURS, but=["asym-0.4"]),
    ),
    Claim(
        "cifar10-table",
        "at sym-0.8, ANL-CE is more than 5 points ahead of the best baseline",
        leads("sym-0.8", "ANL-CE", 5.0),
    ),
    Claim(
        "cifar10-table",
        "ANL-CE\\* is ahead of every baseline under every noise",
        ahead_of_all_baselines(["ANL-CE*"]),
    ),
    Claim(
        "cifar10-table",
        "ANL-CE\\* is ahead of ANL-CE and ANL-FL under much noise that is not symmetric",
        entropy_helps("asym-0.4", "dep-0.4", "real"),
    ),
    Claim(
        "cifar100-table",
        "ANL-CE, ANL-FL and ANL-CE\\* are ahead of every baseline",
        ahead_of_all_baselines([*OURS, "ANL-CE*"]),
    ),
    Claim("cifar10-parts", "NNCE alone is very close to ANL-CE, but under 80% symmetric noise", nnce_alone),
    Claim("overfitting-curves", "CE learns right and wrong labels alike", ce_learns_both_alike),
    Claim("overfitting-curves", "MAE tells them apart ever better", moves_apart("MAE")),
    Claim("overfitting-curves", "NCE+RCE fits better than MAE", fits_better("NCE+RCE", "MAE")),
    Claim("overfitting-curves", "ANL-CE with L2 overfits", overfits("ANL-CE (w/ L2)")),
    Claim("overfitting-curves", "L1 mitigates that, and gives the best result", l1_mitigates),
    Claim("overfitting-curves-cifar100", "CE learns right and wrong labels alike", ce_learns_both_alike),
    Claim("overfitting-curves-cifar100", "NCE+RCE fits better than MAE", fits_better("NCE+RCE", "MAE")),
    Claim("overfitting-curves-cifar100", "ANL-CE with L1 gives the best result", l1_mitigates),
    Claim(
        "marginals",
        "ANL-CE's predictions take over the imbalance of wrong labels; ANL-CE\\* evens them out",
        evens_marginals,
    ),
    Claim("regularisers-anl", "only L1 mitigates the overfitting, not L2 nor the Jacobian", only_l1_helps),
    Claim("regularisers-apl", "NCE+RCE stays below ANL-CE with any regulariser", stays_below),
    Claim(
        "gradients",
        "as training goes on, gradients on right labels gather at large values, on wrong labels at small ones",
        right_labels_pull,
    ),
    Claim(
        "gradients",
        "their mean over wrong labels is above its median and below the mean over right labels",
        means_lie_between,
    ),
    Claim("alpha-beta-grid", "a larger β fits better, whatever α", beta_fits),
)
"""In the order of the paper."""
