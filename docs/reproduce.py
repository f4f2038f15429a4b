# SPDX-License-Identifier: Apache-2.0
"""The page docs/reproduce.md: each table and figure of the paper with its command, machine, time and our results.
Made from results/*.jsonl by docs/generate.py."""

import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import mean

from claims import claims_section
from deviations import on_deviations
from lost import GRID as LOST_CLASSES
from lost import lost_section
from outside import outside_section
from summary import summary
from words import wrapped

from noiseproof.durations import duration
from noiseproof.grids import Grid, load, names
from noiseproof.noise import parse_name
from noiseproof.results import Gathered, Result, gather, lost_classes, read_records, table_of
from noiseproof.results.formats import NOTHING, markdown_text, spread
from noiseproof.results.table import ResultTable, TableCell

RESULTS = Path(__file__).parent.parent / "results"

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
        *_overview(shown, gathered, records),
        "",
        *wrapped(
            "The figure of vertical flipping (L and A − L against p) needs no runs: every report on a negative "
            "loss draws it. Segmentation examples (image, true mask, noisy mask, prediction) are drawn in every "
            "report on masks, for runs whose folders are present."
        ),
        "",
        "## Beyond the paper",
        "",
        *_overview(beyond, gathered, records),
        "",
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
        lines += ["## Figures, and grids without published numbers", ""]
    for name, table in others.items():
        lines += _heading(gathered[name], table)
        lines += _shared(name, records)
        if name == LOST_CLASSES:
            lines += lost_section(gathered[name], records.get("cifar10-table", ()))
        lines += _cells(table)
    if compared:
        lines += ["## Every cell that can be compared", ""]
    for name, table in compared.items():
        lines += [f"### {name}, cell by cell", "", *_cells(table)]
    rest = {stem: results for stem, results in records.items() if stem not in gathered}
    if rest:
        lines += ["## Other records", ""]
        for stem, results in rest.items():
            lines += _other_section(stem, results)
    return "\n".join([*lines, SLIPS])


def _overview(
    entries: Iterable[tuple[str, str]], gathered: dict[str, Gathered], records: dict[str, list[Result]]
) -> list[str]:
    lines = [
        "| what | command | runs | machine | time for all runs | our results |",
        "|---|---|---|---|---|---|",
    ]
    for title, name in entries:
        if name not in names():
            lines.append(f"| {markdown_text(title)} | – | – | – | – | not available yet |")
            continue
        grid = load(name)
        runs = len(grid.methods) * len(grid.noises) * len(grid.seeds)
        machine, time = _expected(grid, gathered.get(name), records)
        lines.append(
            f"| {markdown_text(title)} | `noiseproof bench {name}` | {runs} | {machine} | {time} | "
            f"{_outcome(gathered.get(name))} |"
        )
    return lines


Kind = tuple[str | None, bool]
"""What decides how fast a run is on given data: its precision, and whether it computes a Jacobian."""


def _expected(grid: Grid, found: Gathered | None, records: dict[str, list[Result]]) -> tuple[str, str]:
    """Machine and time: measured if the grid was run, else estimated from similar runs, its own or other grids'."""
    if found and not found.missing:
        return _machines(found.results), duration(sum(result.seconds or 0.0 for result in found.results))
    machine = _usual_machine(records, grid.dataset)
    timed: dict[Kind, list[Result]] = {}
    sources: dict[Kind, str] = {}
    for stem in (grid.name, *names()):  # grids only: other records may be from another engine
        for kind, alike in _by_kind(records.get(stem, ()), grid.dataset, machine).items():
            if sources.get(kind) != "its runs so far" and len(alike) > len(timed.get(kind, ())):
                timed[kind] = alike
                sources[kind] = "its runs so far" if stem == grid.name else f"`{stem}.jsonl`"
    seconds, used, untimed = 0.0, dict[Kind, None](), 0
    for cell in grid.cells():
        kind = cell.config.precision, bool(cell.config.jacobian)
        if kind not in timed:
            untimed += 1
            continue
        used[kind] = None
        an_epoch = sum(each.seconds or 0.0 for each in timed[kind]) / sum(map(_epochs, timed[kind]))
        seconds += an_epoch * cell.config.epochs
    if not used:
        return "–", "not measured yet"
    machines = _machines(result for kind in used for result in timed[kind])
    pace = " and ".join(dict.fromkeys(sources[kind] for kind in used))
    text = f"about {duration(seconds)}, at the pace of {pace}"
    return machines, f"{text}; {untimed} more runs are of a kind not timed yet" if untimed else text


def _usual_machine(records: dict[str, list[Result]], dataset: str) -> str | None:
    """What most runs on this data were timed on."""
    counts = Counter(_hardware(run) for runs in records.values() for run in runs if run.dataset == dataset)
    return counts.most_common(1)[0][0] if counts else None


def _by_kind(results: Iterable[Result], dataset: str, machine: str | None) -> dict[Kind, list[Result]]:
    """Runs on the same data timed on the same machine; those without a config are from the first engine, and say
    nothing of today's."""
    found: dict[Kind, list[Result]] = {}
    for result in results:
        if result.dataset == dataset and result.seconds and result.config and _hardware(result) == machine:
            kind = result.config.get("precision"), bool(result.config.get("jacobian"))
            found.setdefault(kind, []).append(result)
    return found


def _epochs(result: Result) -> int:
    return int(result.config["epochs"])


def _machines(results: Iterable[Result]) -> str:
    return ", ".join(dict.fromkeys(markdown_text(_hardware(result)) for result in results))


def _hardware(result: Result) -> str:
    """What it ran on: the GPU's name, or the processor's if it is on record."""
    environment = result.environment
    known = str(environment.get("hardware", "not on record"))
    return str(environment.get("processor") or known) if environment.get("device") == "cpu" else known


def _outcome(found: Gathered | None) -> str:
    if found is None:
        return "not run yet"
    table = table_of(found)
    recorded = found.expected - found.missing
    text = f"[{recorded} of {found.expected} runs](#{found.grid.name})"
    within, judged = table.verdicts
    return f"{text}; {within} of {judged} cells within the published spread" if judged else text


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
        *_at_a_glance(table),
        "",
        *(
            line
            for sentence in (*table.agreement_in_words, *on_deviations(table))
            for line in (*wrapped(sentence), "")
        ),
        *outside_section(table, elsewhere),
        *_lost_by_method(table),
    ]


def _cells(table: ResultTable) -> list[str]:
    """Every cell that was run, with its command; the paper's numbers only if there are any."""
    columns = ["noise", "method", "ours (seeds)", "seconds per run", "command"]
    if table.has_published:
        columns[2:3] = ["published", "ours (seeds)", "difference", "verdict"]
    places = [(method, noise) for noise in table.noises for method in table.methods]
    run = [place for place in places if table.cells[place].ours is not None]
    lines = [
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
        *(_row(table, *place) for place in run),
        "",
    ]
    if left := len(places) - len(run):
        words = f"Not run yet: {left} of {len(places)} cells. `noiseproof bench {table.name}` trains them."
        lines += [words, ""]
    return lines


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


def _lost_by_method(table: ResultTable) -> list[str]:
    """How many runs of each method lost a class; nothing if none did."""
    counts = table.lost_by_method
    if not any(losing for losing, _ in counts.values()):
        return []
    return [
        "#### Runs that lost a class, by method",
        "",
        "| method | runs | lost a class | under |",
        "|---|---|---|---|",
        *(
            f"| {markdown_text(method)} | {of} | {losing or 'none'} | {_losing_under(table, method)} |"
            for method, (losing, of) in counts.items()
        ),
        "",
    ]


def _losing_under(table: ResultTable, method: str) -> str:
    """Noises under which a run of a method lost a class."""
    noises = (noise for noise in table.noises if any(map(lost_classes, table.cells[method, noise].results)))
    return ", ".join(noises) or NOTHING


def _at_a_glance(table: ResultTable) -> list[str]:
    """Our means and how far they are from the paper's, laid out as in the paper."""
    lines = [
        f"| method | {' | '.join(map(markdown_text, table.noises))} |",
        "|---" * (1 + len(table.noises)) + "|",
    ]
    for method in table.methods:
        cells = [_glance(table.cells[method, noise]) for noise in table.noises]
        if any(cell != NOTHING for cell in cells):
            lines.append(f"| {markdown_text(method)} | {' | '.join(cells)} |")
    return lines


def _glance(cell: TableCell) -> str:
    if cell.ours is None:
        return NOTHING
    outside = " ✗" if cell.verdict == "outside" else ""
    return f"{cell.ours.mean:.2f}" + (
        "" if cell.difference is None else f" ({cell.difference:+.2f}{outside})"
    )


def _row(table: ResultTable, method: str, noise: str) -> str:
    cell = table.cells[method, noise]
    seconds = [result.seconds for result in cell.results if result.seconds is not None]
    seeds = ",".join(str(result.seed) for result in cell.results)
    words = shlex.join(["noiseproof", "bench", table.name, "--methods", method, "--noise", noise])
    ours = str(cell.ours)
    compared = [
        spread(cell.published) if cell.published else "–",
        ours,
        "–" if cell.difference is None else f"{cell.difference:+.2f}",
        cell.verdict or "–",
    ]
    cells = [
        markdown_text(noise),
        markdown_text(method),
        *(compared if table.has_published else [ours]),
        f"{mean(seconds):.0f}" if seconds else "–",
        f"`{words}{f' --seeds {seeds}' if seeds else ''}`",
    ]
    return f"| {' | '.join(cells)} |"


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
            _hardware(result),
        )
        lines.append(f"| {' | '.join(markdown_text(each) for each in cells)} |")
    return [*lines, ""]
