# SPDX-License-Identifier: Apache-2.0
"""The part of docs/reproduce.md on cells outside the published spread: what recorded runs say about each."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from noiseproof.grids import load
from noiseproof.noise import parse_name
from noiseproof.results import Result, lost_classes, summarise
from noiseproof.results.formats import NOTHING, markdown_text
from noiseproof.results.lost_classes import named
from noiseproof.results.table import ResultTable, TableCell
from writers.words import wrapped

CHOICES = ("precision", "noise", "noise_seed", "loss_parameters", "augment")
"""Fields in which another run of a cell may differ: where the paper's text and code leave a choice."""

WHERE_KNOWN = {
    "lost classes": (
        "“Lost classes” are those that a run hardly ever predicts (mean probability below a tenth of their share "
        "of its labels), with the seed in brackets. Each costs up to its share of the test set, so such runs "
        "differ in whole steps."
    ),
    "with other settings": (
        "“With other settings” has the same cell in another precision, with another noise generator, gradient or "
        "augmentation: its mean (seeds) and that mean's difference from the paper's."
    ),
}
"""Columns that are shown where a cell has something in them, and what they mean."""


def outside_section(table: ResultTable, others: Iterable[Result]) -> list[str]:
    """Lines on every cell outside the published spread; none if there is no such cell.

    Args:
        table: with published numbers.
        others: runs of other grids, in which the same cells are looked for.
    """
    cells = [cell for cell in table.cells.values() if cell.verdict == "outside"]
    if not cells:
        return []
    others = list(others)
    rows = [_row(cell, others) for cell in cells]
    columns = [name for name in rows[0] if name not in WHERE_KNOWN or any(row[name] for row in rows)]
    explained = " ".join(text for name, text in WHERE_KNOWN.items() if name in columns)
    return [
        f"#### Outside the published spread: {len(cells)} of {table.verdicts[1]} cells",
        "",
        *([*wrapped(explained), ""] if explained else []),
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
        *(f"| {' | '.join(row[name] or NOTHING for name in columns)} |" for row in rows),
        "",
        *_more_seeds(table.name, cells),
    ]


def _row(cell: TableCell, others: Iterable[Result]) -> dict[str, str]:
    lost = [(result.seed, names) for result in cell.results if (names := lost_classes(result))]
    return {
        "noise": markdown_text(cell.noise),
        "method": markdown_text(cell.method),
        "ours − paper": f"{cell.difference:+.2f}",
        "allowed": f"± {cell.tolerance:.2f}",
        "seeds": ", ".join(str(result.seed) for result in cell.results),
        "lost classes": "; ".join(f"{markdown_text(named(names))} ({seed})" for seed, names in lost),
        "with other settings": "; ".join(_otherwise(cell, others)),
    }


def _more_seeds(name: str, cells: Iterable[TableCell]) -> list[str]:
    """Commands that train the other seeds of the cells that have one."""
    by_seeds: dict[str, list[str]] = {}
    for cell in cells:
        if len(cell.results) == 1:
            missing = ",".join(str(seed) for seed in load(name).seeds if seed != cell.results[0].seed)
            by_seeds.setdefault(missing, []).append(f"{cell.method}@{cell.noise}")
    rest = ["--records", f"results/{name}.jsonl"]
    lines = [
        shlex.join(["noiseproof", "bench", name, "--cells", ",".join(pairs), "--seeds", seeds, *rest])
        for seeds, pairs in by_seeds.items()
        if seeds
    ]
    return ["Other seeds of those that have one:", "", "```", *lines, "```", ""] if lines else []


def _otherwise(cell: TableCell, others: Iterable[Result]) -> list[str]:
    """Results of the same cell with other choices."""
    own = cell.results[0].config
    found: dict[str, list[float]] = {}
    for result in others:
        if choices := other_choices(own, result.config):
            found.setdefault(choices, []).append(result.score)
    assert cell.published is not None
    texts = []
    for choices, scores in found.items():
        summary = summarise(scores)
        texts.append(f"{markdown_text(choices)}: {summary} {summary.mean - cell.published.mean:+.2f}")
    return texts


def other_choices(own: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """How a run differs from a cell's, in words; empty if it is the same, or not a run of that cell.

    >>> cell = {"loss": "fl", "noise": "sym-0.4", "seed": 1, "precision": "bf16", "loss_parameters": {}}
    >>> other_choices(cell, cell | {"noise": "sym-0.4-bernoulli", "seed": 2, "precision": "float32"})
    'float32, bernoulli'
    >>> other_choices(cell, cell | {"loss_parameters": {"detach_modulator": False}})
    'detach_modulator = False'
    >>> other_choices(cell, cell | {"augment": "cifar100"})
    'augmented as cifar100'
    >>> other_choices(cell, cell | {"noise": "sym-0.8"}), other_choices(cell, cell | {"loss": "ce"})
    ('', '')
    """
    if not own or not other:
        return ""
    differing = [key for key in {**own, **other} if key != "seed" and own.get(key) != other.get(key)]
    if not set(differing) <= set(CHOICES):
        return ""
    words = []
    if "precision" in differing:
        words.append(str(other["precision"]))
    if "noise" in differing:
        mine, theirs = (parse_name(str(config["noise"])) for config in (own, other))
        if replace(mine, generator=None) != replace(theirs, generator=None):
            return ""
        words.append(theirs.generator or "published generator")
    if "noise_seed" in differing:
        words.append(f"noise seed {other['noise_seed']}")
    if "loss_parameters" in differing:
        mine_said, said = own["loss_parameters"], other["loss_parameters"]
        changed = {key: value for key, value in said.items() if mine_said.get(key) != value}
        if set(changed) != {"detach_modulator"}:
            return ""
        words += [f"{key} = {value}" for key, value in changed.items()]
    if "augment" in differing:
        words.append(f"augmented as {other.get('augment') or own['dataset']}")
    return ", ".join(words)
