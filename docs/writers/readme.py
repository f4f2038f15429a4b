# SPDX-License-Identifier: Apache-2.0
"""The part of README.md that compares our runs with the paper's. Written by docs/generate.py."""

from noiseproof.grids import load
from noiseproof.results import gather, table_of
from noiseproof.results.formats import NOTHING, markdown_text
from noiseproof.results.table import ResultTable
from writers.evidence.summary import seeds_in_words
from writers.places import RESULTS, ROOT

BEGIN = "<!-- Generated from results/ by docs/generate.py: begin -->"
END = "<!-- end -->"

GRID = "cifar10-table"
METHODS = ("CE", "GCE", "APL", "ANL-CE", "ANL-CE*")
NOISES = ("clean", "sym-0.4", "sym-0.8", "asym-0.4", "dep-0.4", "real")


def readme_page() -> str:
    """README.md with its generated part brought up to date."""
    text = (ROOT / "README.md").read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{_comparison()}{END}{after}"


def _comparison() -> str:
    found = gather(load(GRID), files=[RESULTS / f"{GRID}.jsonl"])
    table = table_of(found)
    machines = sorted({str(result.environment.get("hardware")) for result in found.results})
    precisions = sorted({str(result.config["precision"]) for result in found.results})
    lines = [
        "Test accuracy on CIFAR-10 after the last epoch; each cell has our result and, in italics, the paper's. "
        f"So far {found.expected - found.missing} of {found.expected} runs are done, with "
        f"{seeds_in_words(table)}, in {' and '.join(precisions)} on {' and '.join(machines)}. The paper's numbers "
        "are means of three seeds; ✗ marks what is outside their spread.",
        "",
        "Noise is symmetric (`sym`: wrong at random), asymmetric (`asym`: similar classes confused) or "
        "instance-dependent (`dep`), with its rate; `real` stands for human labels. APL is `nce+rce`.",
        "",
        f"| | {' | '.join(NOISES)} |",
        "|---" * (1 + len(NOISES)) + "|",
    ]
    run = [method for method in METHODS if any(table.cells[method, noise].ours for noise in NOISES)]
    for method in run:
        lines.append(f"| {markdown_text(method)} | {' | '.join(_cell(table, method, n) for n in NOISES)} |")
    return "\n".join([*lines, "", *_agreement(table), ""])


def _agreement(table: ResultTable) -> list[str]:
    """How far our results are from the paper's overall; docs/reproduce.md has the details."""
    whole, kept = table.agreement, table.agreement_where_classes_are_kept
    if whole is None:
        return []
    within, judged = table.verdicts
    text = (
        f"Over {whole.cells} cells, our results differ from the paper's by {whole.difference:+.2f} ± "
        f"{whole.standard_error:.2f} points (mean and its standard error), half of them by at most "
        f"{whole.distance:.2f}; {within} of {judged} are within the published spread."
    )
    if kept is not None and kept.cells < whole.cells:
        text += (
            f" In {whole.cells - kept.cells} cells, at least one of our runs gave up a class ({_losing(table)}); "
            f"the others differ by {kept.difference:+.2f} ± {kept.standard_error:.2f}."
        )
    if (repeated := table.agreement_of_repeated_cells) is not None and repeated.cells < whole.cells:
        text += (
            f" Of the {repeated.cells} cells in which we have more than one seed, "
            f"{repeated.cells - repeated.outside} are within the published spread; they differ by "
            f"{repeated.difference:+.2f} ± {repeated.standard_error:.2f}."
        )
    return [text]


def _losing(table: ResultTable) -> str:
    """How many runs of each method lost a class, the most first, of those that did."""
    counts = [
        (losing / of, f"{method} in {losing} of {of} runs")
        for method, (losing, of) in table.lost_by_method.items()
        if losing
    ]
    return ", ".join(words for _, words in sorted(counts, reverse=True))


def _cell(table: ResultTable, method: str, noise: str) -> str:
    cell = table.cells[method, noise]
    outside = " ✗" if cell.verdict == "outside" else ""
    ours = NOTHING if cell.ours is None else f"{cell.ours.mean:.2f}{outside}"
    paper = NOTHING if cell.published is None else f"{cell.published.mean:.2f}"
    return f"{ours}<br>*{paper}*"
