# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/howto/photographs.md, from the runs of benchmarks/pretrained.py."""

import json
from collections.abc import Iterable, Mapping
from statistics import mean

from writers.places import DOCS

RUNS = DOCS / "performance" / "pretrained.jsonl"
LOSSES = {"ce": "CE", "gce": "GCE", "nce+rce": "NCE+RCE", "anl-ce": "ANL-CE", "anl-ce*": "ANL-CE*"}
NOISES = {"clean": "none", "asym-0.4": "40% asymmetric", "sym-0.6": "60% symmetric", "": "40% symmetric"}
DATA = {"cifar10": "CIFAR-10", "cifar10-uneven": "CIFAR-10, uneven", "cifar100": "CIFAR-100"}
PHOTOS = ("the folder above", 3_030, "25%, mostly to a similar class")

Scores = Mapping[tuple[str, str], Mapping[str, Mapping[int, float]]]
"""By set and setting, by loss and by seed."""


def photographs_page() -> str:
    """The page with its tables made anew."""
    text = (DOCS / "howto" / "photographs.md").read_text(encoding="utf-8")
    scores = _scores()
    for name, table in (("losses", _losses(scores)), ("settings", _settings(scores))):
        start, end = f"<!-- {name}: written by docs/generate.py -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = f"{before}{start}\n\n{table}\n\n{end}{after}"
    return text


def _scores() -> Scores:
    scores: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
    for line in map(json.loads, RUNS.read_text(encoding="utf-8").splitlines()):
        row = scores.setdefault((line["set"], line["setting"]), {})
        row.setdefault(line["loss"], {})[line["seed"]] = line["score"]
    return scores


def _losses(scores: Scores) -> str:
    """What is planned, with each loss in place of the planned one."""
    lines = [
        f"| images of | number | wrong labels | seeds | {' | '.join(LOSSES.values())} |",
        f"|---|--:|---|--:|{'--:|' * len(LOSSES)}",
    ]
    rows = [(described(name), row) for (name, setting), row in scores.items() if setting == "planned"]
    order = [PHOTOS[0], *DATA.values()]
    for (what, count, noisy), row in sorted(rows, key=lambda each: (order.index(each[0][0]), each[0][1])):
        means = {loss: mean(row[loss].values()) for loss in LOSSES if loss in row}
        best = f"{max(means.values()):.1f}"
        cells = [f"{means[loss]:.1f}" if loss in means else "–" for loss in LOSSES]
        cells = [f"**{cell}**" if cell == best else cell for cell in cells]
        lines.append(f"| {what} | {count:,} | {noisy} | {_seeds(row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _settings(scores: Scores) -> str:
    """Other settings against the planned ones, over the seeds that both have."""
    lines = [
        "| images of | number | wrong labels | loss | setting | seeds | with it | as planned |",
        "|---|--:|---|---|---|--:|--:|--:|",
    ]
    for (name, setting), row in scores.items():
        for loss, by_seed in row.items():
            planned = scores[name, "planned"][loss]
            seeds = sorted(by_seed.keys() & planned.keys())
            if setting == "planned" or not seeds:
                continue
            what, count, noisy = described(name)
            found = mean(by_seed[seed] for seed in seeds), mean(planned[seed] for seed in seeds)
            lines.append(
                f"| {what} | {count:,} | {noisy} | {LOSSES[loss]} | {setting} | {len(seeds)} | {found[0]:.1f} | "
                f"{found[1]:.1f} |"
            )
    return "\n".join(lines)


def described(name: str) -> tuple[str, int, str]:
    """Data, number of images and noise of a set of the benchmark, in words.

    >>> described("cifar10-asym-0.4 1000")
    ('CIFAR-10', 1000, '40% asymmetric')
    """
    if name == "photos":
        return PHOTOS
    what, count = name.split()
    noisy = next(noisy for noisy in NOISES if what.endswith(noisy))
    return DATA[what.removesuffix(f"-{noisy}") if noisy else what], int(count), NOISES[noisy]


def _seeds(row: Mapping[str, Iterable[int]]) -> int:
    return max(len(set(by_seed)) for by_seed in row.values())
