# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/plan.md, from the rules themselves."""

from collections.abc import Iterable

from noiseproof.planning import rules
from noiseproof.planning.photograph_rules import PHOTOGRAPH_RULES
from noiseproof.planning.rule import Rule
from noiseproof.planning.training_rules import row_field_rules
from writers.places import DOCS

START, END = "<!-- rules: written by docs/generate.py -->", "<!-- end of rules -->"
TITLES = {
    "row": "Which row of the paper",
    "loss": "Which loss",
    "loss_parameters": "α, β, λ and other hyperparameters of the loss",
    "l1": "δ, the strength of L1",
    "weight_decay": "Weight decay",
    "model": "Network, image size, batch, epochs, schedule",
    "weights": "Photographs: weights from ImageNet",
    "batch_size": "The estimator: batch, epochs, widths, learning rate",
}
"""Headings, each before the first rule for that field."""


def plan_page() -> str:
    """The page with its tables made anew."""
    text = (DOCS / "plan.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{tables()}\n\n{END}{after}"


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
        elif rule in PHOTOGRAPH_RULES and rule.field != "loss":
            title = TITLES["weights"]
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
