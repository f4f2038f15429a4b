# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/plan.md from the rules themselves.

python docs/plan.py             write them
python docs/plan.py --check     write nothing; fail if they are out of date
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from noiseproof.planning import rules
from noiseproof.planning.rule import Rule
from noiseproof.planning.training_rules import row_field_rules

PAGE = Path(__file__).parent / "plan.md"
START, END = "<!-- rules: written by docs/plan.py -->", "<!-- end of rules -->"
TITLES = {
    "row": "Which row of the paper",
    "loss": "Which loss",
    "loss_parameters": "α, β, λ and other hyperparameters of the loss",
    "l1": "δ, the strength of L1",
    "weight_decay": "Weight decay",
    "model": "Network, image size, batch, epochs, schedule",
    "batch_size": "The estimator: batch, epochs, widths, learning rate",
}
"""Headings, each before the first rule for that field."""


def tables() -> str:
    """All rules, in the order in which they are asked."""
    of_rows = {rule.name for rule in row_field_rules()}
    general = [rule for rule in rules() if rule.name not in of_rows]
    lines: list[str] = []
    for title, group in _grouped(general):
        lines += [f"### {title}", "", "| rule | when | then | rests on |", "|---|---|---|---|"]
        lines += [_line(rule) for rule in group]
        lines += [""]
    lines += ["### What a row says about training", "", "| rule | value | rests on |", "|---|---|---|"]
    lines += [
        f"| `{rule.name}` | {_cell(rule.then)} | {_sources(rule)} |"
        for rule in rules()
        if rule.name in of_rows
    ]
    return "\n".join(lines)


def _grouped(general: Iterable[Rule]) -> Iterable[tuple[str, list[Rule]]]:
    groups: dict[str, list[Rule]] = {}
    for rule in general:
        if rule.name.startswith("table-"):
            title = TITLES["batch_size"]
        elif rule.field in ("model", "image_size", "batch_size", "epochs", "schedule"):
            title = TITLES["model"]
        else:
            title = TITLES[rule.field]
        groups.setdefault(title, []).append(rule)
    return groups.items()


def _line(rule: Rule) -> str:
    return f"| `{rule.name}` | {_cell(rule.when)} | {_cell(rule.then)} | {_sources(rule)} |"


def _sources(rule: Rule) -> str:
    return _cell("; ".join(map(str, rule.sources)))


def _cell(text: str) -> str:
    """Stars and bars within backquotes stand for themselves; elsewhere they would be Markdown's."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace("*", "\\*") for number, part in enumerate(parts))


def page(text: str) -> str:
    """The page with its tables made anew."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{tables()}\n\n{END}{after}"


def main() -> None:
    """Write the tables, or see whether they are current."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    arguments = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    if page(text) != text:
        if arguments.check:
            sys.exit("out of date: docs/plan.md; run: python docs/plan.py")
        PAGE.write_text(page(text), encoding="utf-8")


if __name__ == "__main__":
    main()
