# SPDX-License-Identifier: Apache-2.0
"""Tables as text: Markdown, CSV and LaTeX."""

import csv
import io
import re
from collections.abc import Callable

from noiseproof.results.statistics import Summary
from noiseproof.results.table import ResultTable, TableCell
from noiseproof.spreadsheet import safe_cell

NOTHING = "–"


def markdown(table: ResultTable, with_published: bool = True) -> str:
    """Return a Markdown table: ours, and below it the paper's with the difference; ✗ marks what is outside."""
    with_published = with_published and table.has_published
    lines = [
        f"**{markdown_text(table.title)}**",
        "",
        f"| method | {' | '.join(markdown_text(noise) for noise in table.noises)} | mean rank |",
        "|---" * (len(table.noises) + 2) + "|",
    ]
    for method in table.methods:
        cells = [_markdown_cell(table.cells[method, noise], with_published) for noise in table.noises]
        rank = table.mean_rank(method)
        lines.append(
            f"| {markdown_text(method)} | {' | '.join(cells)} | {NOTHING if rank is None else f'{rank:.1f}'} |"
        )
    rules = list(table.rules(with_published))
    if with_published:
        rules.insert(1, "Below it the paper's number and the difference; ✗: not within the published spread.")
    return "\n".join([*lines, "", *(markdown_text(rule) for rule in rules), ""])


def _markdown_cell(cell: TableCell, with_published: bool) -> str:
    ours = NOTHING if cell.ours is None else str(cell.ours)
    text = f"**{ours}**" if cell.is_bold else ours
    if not with_published or cell.published is None:
        return text
    outside = " ✗" if cell.verdict == "outside" else ""
    difference = "" if cell.difference is None else f", {cell.difference:+.2f}{outside}"
    return f"{text}<br>paper {spread(cell.published)}{difference}"


def markdown_text(text: str) -> str:
    """Text in which nothing is markup."""
    text = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>#|~$&!])", r"\\\1", text)


COLUMNS = (
    "method",
    "noise",
    "mean",
    "std",
    "seeds",
    "rank",
    "bold",
    "published mean",
    "published std",
    "difference",
    "tolerance",
    "verdict",
    "runs",
)


def comma_separated(table: ResultTable, with_published: bool = True) -> str:
    """Return CSV, one row a cell, for spreadsheets and programs; text that a spreadsheet would run is quoted."""
    columns = [c for c in COLUMNS if with_published or c not in COLUMNS[7:12]]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    for cell in table.cells.values():
        ours, paper = cell.ours, cell.published
        values = {
            "method": safe_cell(cell.method),
            "noise": safe_cell(cell.noise),
            "mean": _number(None if ours is None else ours.mean),
            "std": _number(None if ours is None else ours.std),
            "seeds": str(ours.n) if ours else "0",
            "rank": "" if cell.rank is None else f"{cell.rank:g}",
            "bold": "yes" if cell.is_bold else "no",
            "published mean": _number(None if paper is None else paper.mean),
            "published std": _number(None if paper is None else paper.std),
            "difference": _number(cell.difference),
            "tolerance": _number(cell.tolerance),
            "verdict": cell.verdict or "",
            "runs": safe_cell(" ".join(result.name for result in cell.results)),
        }
        writer.writerow([values[column] for column in columns])
    return buffer.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}".rstrip("0").rstrip(".")


def latex(table: ResultTable, with_published: bool = True) -> str:
    r"""Return a LaTeX ``table`` that needs the packages booktabs, graphicx and xcolor.

    Ours stand in one row, the paper's in a smaller grey one below it, with differences outside the published
    spread in red.
    """
    with_published = with_published and table.has_published
    rules = " ".join(map(_latex_text, table.rules(with_published)))
    head = " & ".join(["Method", *(_latex_text(noise) for noise in table.noises), "Rank"])
    lines = [
        r"% \usepackage{booktabs,graphicx,xcolor}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex_text(table.title)}. {rules}}}",
        rf"\label{{tab:{re.sub('[^a-z0-9-]', '-', table.name.lower())}}}",
        r"\resizebox{\linewidth}{!}{%",
        rf"\begin{{tabular}}{{l{'c' * len(table.noises)}r}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    for method in table.methods:
        cells = [table.cells[method, noise] for noise in table.noises]
        rank = table.mean_rank(method)
        ours = [_latex_label(method), *(_latex_ours(cell) for cell in cells)]
        lines.append(" & ".join([*ours, NOTHING_LATEX if rank is None else f"{rank:.1f}"]) + r" \\")
        if with_published and any(cell.published is not None for cell in cells):
            grey = [
                r"\quad\textcolor{gray}{\scriptsize paper}",
                *(_latex_published(cell) for cell in cells),
                "",
            ]
            lines.append(" & ".join(grey) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}", ""])


NOTHING_LATEX = "--"


def _latex_label(method: str) -> str:
    """A label at the head of a row, where LaTeX takes ``[`` and ``*`` for options of the line break before it."""
    text = _latex_text(method)
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


def _latex_ours(cell: TableCell) -> str:
    if cell.ours is None:
        return NOTHING_LATEX
    number = f"{cell.ours.mean:.2f}"
    number = rf"\textbf{{{number}}}" if cell.is_bold else number
    deviation = "" if cell.ours.std is None else rf" $\pm$ {cell.ours.std:.2f}"
    return rf"{number}{deviation} {{\scriptsize({cell.ours.n})}}"


def _latex_published(cell: TableCell) -> str:
    if cell.published is None:
        return ""
    text = rf"\textcolor{{gray}}{{\scriptsize {_latex_text(spread(cell.published))}}}"
    if cell.difference is None:
        return text
    colour = "red" if cell.verdict == "outside" else "teal"
    return rf"{text} \textcolor{{{colour}}}{{\scriptsize ${cell.difference:+.2f}$}}"


_GREEK = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "varepsilon",
    "η": "eta",
    "λ": "lambda",
    "μ": "mu",
    "ν": "nu",
    "π": "pi",
    "σ": "sigma",
    "τ": "tau",
}
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "−": "$-$",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "√": r"$\surd$",
    "·": r"$\cdot$",
    "²": r"\textsuperscript{2}",
    "₁": r"\textsubscript{1}",
    "₂": r"\textsubscript{2}",
    "–": "--",
    **{mark: f"\\{mark}" for mark in "&%$#_"},
    **{letter: rf"$\{name}$" for letter, name in _GREEK.items()},
}


def _latex_text(text: str) -> str:
    r"""Text in which nothing is a command.

    >>> print(_latex_text("50% of δ_1 \\input{x}"))
    50\% of $\delta$\_1 \textbackslash{}input\{x\}
    """
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))


def spread(number: Summary) -> str:
    """Mean and deviation without the number of seeds."""
    return f"{number.mean:.2f}" + ("" if number.std is None else f" ± {number.std:.2f}")


TEXT_FORMATS: dict[str, Callable[[ResultTable, bool], str]] = {
    "markdown": markdown,
    "csv": comma_separated,
    "latex": latex,
}
