# SPDX-License-Identifier: Apache-2.0
"""The page docs/reproduce.md: each table and figure of the paper with its command, machine, time and our results.
Made from results/*.jsonl by docs/generate.py."""

from collections.abc import Iterable

from noiseproof.grids import load, names
from noiseproof.noise import parse_name
from noiseproof.results import Gathered, Result, gather, read_records, table_of
from noiseproof.results.formats import markdown_text
from noiseproof.results.table import ResultTable
from writers.evidence.cells import at_a_glance, cell_by_cell, not_run
from writers.evidence.claims import claims_elsewhere, claims_section
from writers.evidence.deviations import on_deviations
from writers.evidence.lost import GRID as LOST_CLASSES
from writers.evidence.lost import lost_by_method, lost_section
from writers.evidence.outside import outside_section
from writers.evidence.overview import hardware_of, overview
from writers.evidence.summary import summary
from writers.places import RESULTS
from writers.words import wrapped

IN_THE_PAPER = (
    ("Table: CIFAR-10", "cifar10-table"),
    ("Table: CIFAR-100", "cifar100-table"),
    ("Table: WebVision", "webvision-table"),
    ("Table: Animal-10N", "animal10n-table"),
    ("Table: Clothing-1M", "clothing1m-table"),
    ("Table: ISIC-2017", None),
    ("Table: NCE and NNCE alone", "cifar10-parts"),
    ("Figure: overfitting on CIFAR-10", "overfitting-curves"),
    ("Figure: overfitting on CIFAR-100", "overfitting-curves-cifar100"),
    ("Figure: class marginals", "marginals"),
    ("Figure: regularisers of ANL-CE", "regularisers-anl"),
    ("Figure: regularisers of NCE+RCE", "regularisers-apl"),
    ("Figure: gradients of NNCE", "gradients"),
    ("Figure: α × β", "alpha-beta-grid"),
)
"""What the paper shows, and the grid that computes it; None where it is found by the table it is compared with."""

TABLES = ("cifar10-table", "cifar100-table")
"""Tables some of whose runs figures show again."""

SEGMENTATION = "isic2017-dice"
"""The paper's segmentation table."""

REMARKS = {
    "cifar10-table": (
        "Cells with the same seed and noise share their wrong labels, initial weights and batches, so they differ "
        "from the paper's together, and the standard error of the mean is rather larger than stated. The paper "
        "does not say whether its deviations divide by n or by n − 1; if by n, they are too small by a factor of "
        "1.22, and 1.00 is to be read where 0.82 is stated for chance alone."
    ),
    "isic-table": (
        "The paper's numbers are for ISIC-2017, with 2,000 training and 600 test images at 256×256; ours are for "
        "[a stand-in](segmentation.md) with 1,800 and 550 at 128×128, and with hyperparameters of the losses of "
        "our own choice, since only the optimiser's are published. Rankings and drops can be compared, the numbers "
        "themselves hardly: cells outside the spread show how far the two are apart, not that one of them is "
        "wrong. The paper's deviations are taken to be over three seeds; its caption also names ten epochs."
    ),
    "cifar10-precision": (
        "One run, ANL-CE in float32 at seed 1, is from the first training engine, which was slower (742 s). The "
        "bf16 runs are those of the CIFAR-10 table."
    ),
    "cifar10-lost-classes": "Accuracies mean little here: five epochs, at the learning rate of the first ones.",
    "fashion-table": "Ten epochs are too short for the ANL losses, which fit slowly.",
}
"""What a reader must know about a grid's records that the records themselves do not say."""

FAR_FROM_ITS_NAME = 0.01
"""A larger difference between the rate in a noise's name and the realised one is reported."""

INTRODUCTION = """\
# Reproducing the paper

<!-- Generated from results/ by docs/generate.py. Train a grid and write its records instead of editing. -->

How our runs compare with the numbers printed in the paper, which are means of three seeds. This page is computed
from the records in `results/`. Differences are ours − paper, ± is the standard error of the mean difference.

{summary}

{claims}
## Run it yourself

A command can be stopped at any time and continues where it was; runs already recorded are not trained again.
`noiseproof bench GRID --dry-run` lists what would be trained, without needing the data. There is one file
of records per grid, and [a report](report.md) can be made from it without training anything:

```
noiseproof bench cifar10-table --records results/cifar10-table.jsonl
noiseproof report cifar10-table --from results/cifar10-table.jsonl --open
noiseproof table cifar10-table --from results/cifar10-table.jsonl --format latex
```

In all tables, time is a run's share of its device: runs that train side by side share it. Our runs of the paper's
tables compute in bf16 ([what that costs](performance.md)).
"""

NAMES = (
    "APL is `nce+rce` and ALF is `nce+agce`. Noise is symmetric (`sym`), asymmetric (`asym`) or instance-dependent "
    "(`dep`), with its rate; `real` stands for human labels, and `masks` for [wrong masks](segmentation.md)."
)
"""How tables call methods and noises."""

WITHOUT_PUBLISHED = (
    "Mean ± standard deviation over seeds, and their number in brackets. What a grid takes is stated above; "
    "`noiseproof bench GRID --cells METHOD@NOISE` trains one of its cells."
)

SLIPS = """\
## Inconsistencies in the paper

Where the paper's text and tables disagree, we follow the tables.

* The ISIC text names (0.7, 0.7) as the only cell where T-Loss wins; in the table it is (0.5, 0.7).
* The text states a lead of 0.8 points under the hardest segmentation noise; in the table it is 1.2.
* The table of NCE and NNCE alone prints 90.02 in bold beside 90.09, and 81.12 beside 82.16.
* The caption of the CIFAR-10 table mentions dependent noise of 0.4 only; the table also has 0.2.
* On CIFAR-100, the text has ANL ahead of the others by less than 2 points at 0.4 symmetric noise and by more than 5
  at 0.8; in the table it is at best 2.1 and 3.8.
* What the tables call ALF is twice called AFL in the text.
"""


def reproduce_page() -> str:
    """The page."""
    segmentation = next((name for name in names() if load(name).published == SEGMENTATION), "")
    shown = [(title, segmentation if name is None else name) for title, name in IN_THE_PAPER]
    known = {name for _, name in shown}
    beyond = [(load(name).title, name) for name in names() if name not in known]
    records = {path.stem: read_records(path) for path in sorted(RESULTS.glob("*.jsonl"))}
    gathered = {
        name: gather(load(name), files=[RESULTS / f"{name}.jsonl"]) for name in names() if records.get(name)
    }
    titles = {name: title for title, name in shown}
    lines = [
        INTRODUCTION.format(
            summary="\n".join(summary(shown, gathered)),
            claims="\n".join(
                claims_section(gathered, lambda name: f"[{markdown_text(titles[name])}](#{name})")
            ),
        ),
        "## Tables and figures of the paper",
        "",
        *overview(shown, gathered, records),
        "",
        *wrapped(
            "The figure of vertical flipping (L and A − L against p) needs no runs: every report on a negative "
            "loss draws it. Segmentation examples (image, true mask, noisy mask, prediction) are drawn in every "
            "report on masks, for runs whose folders are present."
        ),
        "",
        "## Beyond the paper",
        "",
        *overview(beyond, gathered, records),
        "",
        *claims_elsewhere(gathered, lambda name: f"[{markdown_text(load(name).title)}](#{name})"),
    ]
    tables = {name: table_of(gathered[name]) for _, name in (*shown, *beyond) if name in gathered}
    compared = {name: table for name, table in tables.items() if table.has_published}
    if compared:
        lines += ["## Our results against the paper's", "", *wrapped(NAMES), ""]
    for name, table in compared.items():
        elsewhere = [run for stem, runs in records.items() if stem != name for run in runs]
        lines += _comparison(gathered[name], table, elsewhere)
    others = {name: table for name, table in tables.items() if name not in compared}
    if others:
        lines += ["## Figures, and grids without published numbers", "", *wrapped(WITHOUT_PUBLISHED), ""]
    for name, table in others.items():
        lines += _heading(gathered[name], table)
        lines += _shared(name, records)
        if name == LOST_CLASSES:
            lines += lost_section(gathered[name], records.get("cifar10-table", ()))
        lines += [*at_a_glance(table), "", *not_run(table)]
    if compared:
        lines += ["## Every cell that can be compared", ""]
    for name, table in compared.items():
        lines += [f"### {name}, cell by cell", "", *cell_by_cell(table)]
    rest = {stem: results for stem, results in records.items() if stem not in gathered}
    if rest:
        lines += ["## Other records", ""]
        for stem, results in rest.items():
            lines += _other_section(stem, results)
    return "\n".join([*lines, SLIPS])


def _heading(found: Gathered, table: ResultTable) -> list[str]:
    """Title, report, and what a reader must know about a grid's runs."""
    name = found.grid.name
    lines = [
        f"({name})=",
        f"### {markdown_text(found.grid.title)}",
        "",
        f"The full report, with figures and every run: `noiseproof report {name} --from results/{name}.jsonl`,",
        f'or <a href="reports/{name}.html">on this site</a>.',
        "",
    ]
    paragraphs = [REMARKS.get(name), _realised(found.results), " ".join(table.notes)]
    return lines + [line for text in paragraphs if text for line in (*wrapped(text), "")]


def _shared(name: str, records: dict[str, list[Result]]) -> list[str]:
    """How many of a grid's runs are also runs of the paper's table on the same data, if any."""
    own = {result.config_hash for result in records[name]}
    lines = []
    for stem, results in records.items():
        shared = own & {result.config_hash for result in results}
        if stem != name and stem in TABLES and shared:
            lines += [f"{len(shared)} of these {len(own)} runs are also runs of `{stem}.jsonl`.", ""]
    return lines


def _comparison(found: Gathered, table: ResultTable, elsewhere: list[Result]) -> list[str]:
    """How a grid's results compare with the paper's: at a glance, overall, and where they do not agree."""
    return [
        *_heading(found, table),
        "Our mean and, in brackets, its difference from the paper's; ✗ marks cells outside the published spread.",
        "",
        *at_a_glance(table),
        "",
        *(
            line
            for sentence in (*table.agreement_in_words, *on_deviations(table))
            for line in (*wrapped(sentence), "")
        ),
        *outside_section(table, elsewhere),
        *lost_by_method(table),
    ]


def _realised(results: Iterable[Result]) -> str | None:
    """Rates of symmetric noise that differ from what its name says; None if none does."""
    rates = {
        result.noise: f"{result.noise} {100 * result.realised_rate:.1f}%"
        for result in results
        if (name := parse_name(result.noise)).kind == "sym"
        and name.rate is not None
        and result.realised_rate is not None
        and abs(result.realised_rate - name.rate) > FAR_FROM_ITS_NAME
    }
    if not rates:
        return None
    return (
        f"Labels that are actually wrong: {', '.join(rates.values())}. The published way of drawing noise rounds "
        "down for every pair of classes, which shows when there are few images."
    )


def _other_section(stem: str, results: list[Result]) -> list[str]:
    lines = [f"`{stem}.jsonl`:", "", "| data | noise | loss | seed | variant | test | seconds | machine |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for result in results:
        cells = (
            result.dataset,
            result.noise,
            result.loss,
            str(result.seed),
            result.variant or "–",
            f"{result.score:.2f}",
            "–" if result.seconds is None else f"{result.seconds:.0f}",
            hardware_of(result),
        )
        lines.append(f"| {' | '.join(markdown_text(each) for each in cells)} |")
    return [*lines, ""]
