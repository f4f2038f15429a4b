# SPDX-License-Identifier: Apache-2.0
"""The part of docs/reproduce.md on what the paper concludes from tables and figures, and whether our runs agree."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from noiseproof.grids import load
from noiseproof.results import Gathered
from writers.evidence.figure_findings import (
    ALIKE,
    FALL,
    HELP,
    KEPT,
    STRONGER,
    beta_fits,
    ce_learns_both_alike,
    evens_marginals,
    fits_better,
    keeps_apart,
    l1_mitigates,
    means_lie_between,
    moves_apart,
    only_l1_helps,
    overfits,
    right_labels_pull,
    stays_below,
)
from writers.evidence.finding import Finding
from writers.evidence.table_findings import (
    CLOSE,
    ON_MASKS,
    OURS,
    ahead_of_all,
    behind,
    entropy_helps,
    leads,
    nnce_alone,
)
from writers.words import wrapped


@dataclass(frozen=True)
class Claim:
    """A conclusion of the paper; ``check`` gives None where too little of the grid is recorded to tell."""

    grid: str
    paper: str
    check: Callable[[Gathered], Finding | None]


INTRODUCTION = """\
What the paper concludes from its tables and figures, in our words, and whether our runs lead to the same
conclusion. Numbers of seeds are in brackets; figures are of one seed, and are left out until all their runs are
recorded. Of a table, columns are counted in which all methods have a run."""

ELSEWHERE = """\
Asked of grids that are like the paper's but train on other data, by the same tests. Losses have the hyperparameters
published for CIFAR-10, which nobody tuned for these data: “no” tells how far a conclusion reaches, not that it is
wrong."""

TAKES = (
    f"What “yes” takes. Tables: a higher mean, in every column. CE learns both alike: differences of less than "
    f"{ALIKE:g} times those of all other losses. Overfits: test accuracy ends more than {FALL:g} points below its "
    f"best. Keeps apart: the difference shrinks by less than {KEPT:g} points. A regulariser mitigates: {HELP:g} "
    f"points more than none. Very close: at most {CLOSE:g} points. Gather at larger values: a median {STRONGER:g} "
    "times the other. Fitting is told by the accuracy on right training labels."
)


def claims_section(gathered: Mapping[str, Gathered], link: Callable[[str], str]) -> list[str]:
    """A table of the conclusions that can be judged; nothing if none can.

    Args:
        gathered: the recorded runs of each grid that has any.
        link: from a grid's name to the words and target that stand for it.
    """
    table = _judged([(claim, claim.grid) for claim in CLAIMS], gathered, link)
    if not table:
        return []
    return ["## The paper's conclusions", "", INTRODUCTION, "", *table, "", *wrapped(TAKES), ""]


def claims_elsewhere(gathered: Mapping[str, Gathered], link: Callable[[str], str]) -> list[str]:
    """The same of grids that are like one of the paper's, on other data."""
    pairs = [
        (claim, name)
        for claim in CLAIMS
        for name, found in gathered.items()
        if found.grid.like == claim.grid and found.grid.dataset != load(claim.grid).dataset
    ]
    table = _judged(pairs, gathered, link)
    return ["### The paper's conclusions on other data", "", ELSEWHERE, "", *table, ""] if table else []


def _judged(
    pairs: Iterable[tuple[Claim, str]], gathered: Mapping[str, Gathered], link: Callable[[str], str]
) -> list[str]:
    """A line for each conclusion that a grid's runs can tell, under the table's head; nothing if none can."""
    rows = []
    for claim, name in pairs:
        found = gathered.get(name)
        if found is None or (found.missing and found.grid.kind != "table"):
            continue
        finding = claim.check(found)
        if finding is not None:
            rows.append(f"| {' | '.join((link(name), claim.paper, finding.verdict, finding.numbers))} |")
    head = ["| from | the paper's conclusion | holds | our runs |", "|---|---|---|---|"]
    return [*head, *rows] if rows else []


CLAIMS = (
    Claim(
        "cifar10-table",
        "ANL-CE and ANL-FL are ahead of every baseline, but under asym-0.4",
        ahead_of_all(OURS, but=["asym-0.4"]),
    ),
    Claim(
        "cifar10-table",
        "under asym-0.4, ANL-CE and ANL-FL are behind APL and ALF",
        behind("asym-0.4", OURS, ("APL", "ALF")),
    ),
    Claim(
        "cifar10-table",
        "at sym-0.8, ANL-CE is more than 5 points ahead of the best baseline",
        leads("sym-0.8", "ANL-CE", 5.0),
    ),
    Claim(
        "cifar10-table", "ANL-CE\\* is ahead of every baseline under every noise", ahead_of_all(["ANL-CE*"])
    ),
    Claim(
        "cifar10-table",
        "ANL-CE\\* is ahead of ANL-CE and ANL-FL under much noise that is not symmetric",
        entropy_helps("asym-0.4", "dep-0.4", "real"),
    ),
    Claim(
        "cifar100-table",
        "ANL-CE, ANL-FL and ANL-CE\\* are ahead of every baseline under every noise",
        ahead_of_all([*OURS, "ANL-CE*"], but=["clean"]),
    ),
    Claim(
        "isic-table",
        "ANL-CE is ahead of GCE, MAE, SCE, APL and T-Loss under nearly every noise",
        ahead_of_all(["ANL-CE"], ON_MASKS, but=["clean"]),
    ),
    Claim(
        "isic-table",
        "ANL-CE is ahead of them under the strongest noise",
        leads("masks-0.7-0.7", "ANL-CE", 0.0, ON_MASKS),
    ),
    Claim("cifar10-parts", "NNCE alone is very close to ANL-CE, but under 80% symmetric noise", nnce_alone),
    Claim("overfitting-curves", "CE learns right and wrong labels alike, all the time", ce_learns_both_alike),
    Claim(
        "overfitting-curves",
        "MAE is robust and tells right and wrong labels apart ever better",
        moves_apart("MAE"),
    ),
    Claim("overfitting-curves", "NCE+RCE fits better than MAE", fits_better("NCE+RCE", ["MAE"])),
    Claim(
        "overfitting-curves",
        "ANL-CE with L2 fits better than MAE and NCE+RCE",
        fits_better("ANL-CE (w/ L2)", ["NCE+RCE", "MAE"]),
    ),
    Claim("overfitting-curves", "ANL-CE with L2 overfits", overfits("ANL-CE (w/ L2)")),
    Claim(
        "overfitting-curves",
        "though it overfits, ANL-CE with L2 keeps right and wrong labels apart",
        keeps_apart("ANL-CE (w/ L2)"),
    ),
    Claim("overfitting-curves", "ANL-CE with L1 does not overfit, and gives the best result", l1_mitigates),
    Claim(
        "overfitting-curves-cifar100",
        "CE learns right and wrong labels alike, all the time",
        ce_learns_both_alike,
    ),
    Claim("overfitting-curves-cifar100", "NCE+RCE fits better than MAE", fits_better("NCE+RCE", ["MAE"])),
    Claim(
        "overfitting-curves-cifar100",
        "ANL-CE with L1 does not overfit, and gives the best result",
        l1_mitigates,
    ),
    Claim(
        "marginals",
        "ANL-CE's predictions take over the imbalance of wrong labels, which ANL-CE\\* is made to reduce",
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
        "the mean of gradients on wrong labels is above their median and below the mean on right labels",
        means_lie_between,
    ),
    Claim("alpha-beta-grid", "a larger β fits better, whatever α", beta_fits),
)
"""In the order of the paper."""
