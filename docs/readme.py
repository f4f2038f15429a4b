# SPDX-License-Identifier: Apache-2.0
"""The part of README.md that tells how our runs compare with the paper's. Written by docs/generate.py."""

from reproduce import RESULTS

from noiseproof.grids import load
from noiseproof.results import gather, table_of
from noiseproof.results.formats import NOTHING, markdown_text
from noiseproof.results.table import ResultTable

README = RESULTS.parent / "README.md"
BEGIN = "<!-- Generated from results/ by docs/generate.py: begin -->"
END = "<!-- end -->"

GRID = "cifar10-table"
METHODS = ("CE", "GCE", "APL", "ANL-CE", "ANL-CE*")
NOISES = ("clean", "sym-0.4", "sym-0.8", "asym-0.4", "dep-0.4", "real")


def readme_page() -> str:
    """README.md with its generated part brought up to date."""
    text = README.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{_comparison()}{END}{after}"


def _comparison() -> str:
    found = gather(load(GRID), files=[RESULTS / f"{GRID}.jsonl"])
    table = table_of(found)
    machines = sorted({str(result.environment.get("hardware")) for result in found.results})
    precisions = sorted({str(result.config["precision"]) for result in found.results})
    lines = [
        "Test accuracy on CIFAR-10 after the last epoch, the paper's below ours: "
        f"{found.expected - found.missing} of {found.expected} runs so far, {_seeds(table)}, in "
        f"{' and '.join(precisions)}, on {' and '.join(machines)}. The paper's are means of three seeds.",
        "",
        f"| | {' | '.join(NOISES)} |",
        "|---" * (1 + len(NOISES)) + "|",
    ]
    run = [method for method in METHODS if any(table.cells[method, noise].ours for noise in NOISES)]
    for method in run:
        lines.append(f"| {markdown_text(method)} | {' | '.join(_cell(table, method, n) for n in NOISES)} |")
    return "\n".join([*lines, "", *_agreement(table), ""])


def _agreement(table: ResultTable) -> list[str]:
    """How far ours lie from the paper's on the whole; more stands in docs/reproduce.md."""
    whole, kept = table.agreement, table.agreement_where_classes_are_kept
    if whole is None:
        return []
    within, judged = table.verdicts
    text = (
        f"Over {whole.cells} cells ours differ from the paper's by {whole.difference:+.2f} ± "
        f"{whole.standard_error:.2f} points (mean and its standard error), half of them by {whole.distance:.2f} at "
        f"most; {within} of {judged} are within the published spread."
    )
    if kept is not None and kept.cells < whole.cells:
        text += (
            f" In {whole.cells - kept.cells} cells a run of ours gave a class up, as losses such as MAE do now and "
            f"then; the others differ by {kept.difference:+.2f} ± {kept.standard_error:.2f}."
        )
    return [text]


def _seeds(table: ResultTable) -> str:
    """How many seeds our cells have."""
    counts = [cell.ours.n for cell in table.cells.values() if cell.ours is not None]
    fewest, most = min(counts), max(counts)
    text = f"{fewest} to {most} seeds a cell" if fewest < most else f"{most} seed{'s' * (most > 1)} a cell"
    ones = counts.count(1)
    return f"{text} ({ones} of {len(counts)} with one)" if 0 < ones < len(counts) else text


def _cell(table: ResultTable, method: str, noise: str) -> str:
    cell = table.cells[method, noise]
    ours = NOTHING if cell.ours is None else f"{cell.ours.mean:.2f}"
    paper = NOTHING if cell.published is None else f"{cell.published.mean:.2f}"
    return f"{ours}<br>*{paper}*"
