# SPDX-License-Identifier: Apache-2.0
"""What rules of the planner for little data rest on: folders of few pictures or masks, many of them wrong.

Real pictures are written into a folder as a user would have them, those with a wrong label in the wrong class,
wrong masks beside right ones, and a clean test part. Every run is ``noiseproof train folder:…`` as it is planned
for the folder, with batch, epochs and schedule of a setting in place of the planned ones: "planned" changes
nothing, "row" has those of the row of the paper. Accuracy on clean labels after the last epoch; pooled Dice on
clean masks over the last ten.

Images have 40% symmetric noise, each label drawn by itself, or the noise that the set's name ends with; of the
masks half are wrong by half their area. So that one core can do it, most sets are brought to fewer pixels than
planned, and some have a smaller network:

* fashion (28 pixels, as planned), fashion14 (14), digits (8), cifar10 (16).
* cifar10-small: 16 pixels and mnist-cnn in place of cnn8; cifar10-uneven: the same, and the rarest class has
  half as many images as the commonest.
* isic: lesions at 32 pixels, unet-small.

    python benchmarks/little_data.py --out docs/performance/little-data.jsonl    what is on record there: hours
    python benchmarks/little_data.py --set fashion --sizes 200 500 --settings row "batch 32" --losses anl-ce ce
    python benchmarks/little_data.py --set fashion14-asym-0.4 --sizes 1000 --settings planned --losses gce "anl-ce*"
    python benchmarks/little_data.py --table docs/performance/little-data.jsonl  means, for docs/plan.md

The data sets have to be there: noiseproof data get NAME. What is on record in the file is not trained again.
"""

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from PIL import Image

from noiseproof import datasets, noise
from noiseproof.planning.own_data import config_of
from noiseproof.training import train

NOISE = "sym-0.4"
SHARE, STRENGTH = 0.5, 0.5
TESTED = 1_000
"""Test pictures, at most."""

Changes = dict[str, Any]


@dataclass(frozen=True)
class Planned:
    """What a setting may look at: training pictures, and the epochs and the batch of the row of the paper."""

    samples: int
    epochs: int
    batch: int

    def epochs_for(self, steps: int, batch: int | None = None) -> int:
        """Epochs for at least so many steps, never fewer than the row has."""
        return max(self.epochs, -(-steps // -(-self.samples // (batch or self.batch))))


def _steps(least: int, batch: int | None = None) -> Callable[[Planned], Changes]:
    def changes(planned: Planned) -> Changes:
        size = batch or planned.batch
        return {"batch_size": size, "epochs": planned.epochs_for(least, size)}

    return changes


def _cosine(least: int = 0, batch: int | None = None) -> Callable[[Planned], Changes]:
    return lambda planned: _steps(least, batch)(planned) | {"schedule": "cosine"}


def _weights(entropy_weight: float) -> Changes:
    """ANL-CE*'s, with α and β of the row of small grey images."""
    return {"loss_parameters": {"alpha": 1.0, "beta": 1.0, "entropy_weight": entropy_weight}}


PICTURES: dict[str, Callable[[Planned], Changes]] = {
    "planned": lambda planned: {},
    "learning rate x 10": lambda planned: {"learning_rate": 0.1},
    "lambda 2": lambda planned: _weights(2.0),
    "lambda 0.4": lambda planned: _weights(0.4),
    "row": _steps(0),
    "batch 64": _steps(0, 64),
    "batch 32": _steps(0, 32),
    "batch 16": _steps(0, 16),
    "batch 32, 2000 steps": _steps(2_000, 32),
}

MASKS: dict[str, Callable[[Planned], Changes]] = {
    "row": _steps(0),
    "cosine": _cosine(),
    "cosine, batch 8": _cosine(batch=8),
    "cosine, batch 4": _cosine(batch=4),
    "cosine, batch 4, 1000 steps": _cosine(1_000, 4),
    "planned, mirrored": lambda planned: {},
    "planned, flips and gamma": lambda planned: {"augment": "isic2017"},
    "learning rate 1e-3": lambda planned: {"learning_rate": 1e-3},
    "learning rate 3e-3": lambda planned: {"learning_rate": 3e-3},
}


def settings_of(what: str) -> dict[str, Callable[[Planned], Changes]]:
    return MASKS if what.startswith("isic") else PICTURES


FASTER: dict[str, Changes] = {
    "isic": {"model": "unet-small", "augment": "animal10n"},
    "cifar10": {"image_size": 16},
    "cifar10-small": {"image_size": 16, "model": "mnist-cnn"},
    "cifar10-uneven": {"image_size": 16, "model": "mnist-cnn"},
    "digits": {"image_size": 8, "augment": "none"},
    "fashion14": {"image_size": 14},
}
"""Where the planned network or size would take hours on one core. Digits must not be mirrored; lesions are, as
pictures of Animal-10N, unless a setting says otherwise."""

SOURCES = {
    "fashion": "fashion-mnist",
    "fashion14": "fashion-mnist",
    "cifar10": "cifar10",
    "cifar10-small": "cifar10",
    "cifar10-uneven": "cifar10",
    "cifar100": "cifar100",
    "digits": "digits",
}
ROWS = {
    "fashion": (50, 128),
    "fashion14": (50, 128),
    "cifar10": (120, 128),
    "cifar10-small": (120, 128),
    "cifar10-uneven": (120, 128),
    "digits": (50, 128),
    "isic": (100, 16),
}
"""Epochs and batch of the row of the paper that a plan takes, before rules for little data."""

NOISES = ("clean", "sym-0.2", "sym-0.4", "sym-0.6", "asym-0.4")
SETS = (*ROWS, *(f"{what}-{noise}" for what in SOURCES for noise in NOISES if noise != NOISE))


def parts_of(name: str) -> tuple[str, str]:
    """Set and noise of a name.

    >>> parts_of("fashion14-asym-0.4"), parts_of("cifar10-small")
    (('fashion14', 'asym-0.4'), ('cifar10-small', 'sym-0.4'))
    """
    for noisy in NOISES:
        if name.endswith(f"-{noisy}"):
            return name.removesuffix(f"-{noisy}"), noisy
    return name, NOISE


LOSSES = ("ce", "gce", "nce+rce", "anl-ce", "anl-ce*")

RECORDED: tuple[tuple[str, Sequence[int], Sequence[str], Sequence[str], Sequence[int]], ...] = (
    ("digits", (100, 200, 500, 1_000), ("row", "batch 64", "batch 32"), ("anl-ce",), (1, 2)),
    ("digits", (100, 200), ("batch 16",), ("anl-ce",), (1, 2)),
    ("digits", (500, 1_000), ("batch 16",), ("anl-ce",), (2,)),
    ("digits", (100, 200), ("batch 32, 2000 steps",), ("anl-ce",), (1,)),
    ("digits", (200,), ("row", "batch 16"), ("ce",), (1, 2)),
    ("digits", (500,), ("row", "batch 32"), ("ce",), (1, 2)),
    ("fashion14", (200, 500), ("row", "batch 32", "batch 16"), ("anl-ce",), (1, 2)),
    ("fashion14", (1_000,), ("row", "batch 64"), ("anl-ce",), (1, 2)),
    ("fashion", (200,), ("row", "batch 32", "batch 32, 2000 steps"), ("anl-ce",), (1,)),
    ("fashion14", (200,), ("row", "batch 16"), ("ce",), (1, 2)),
    ("cifar10", (200,), ("row", "batch 32"), ("anl-ce",), (1, 2)),
    ("cifar10", (200,), ("batch 64",), ("anl-ce",), (2,)),
    ("isic", (20, 60), ("row", "cosine", "cosine, batch 4"), ("anl-ce",), (1, 2)),
    ("isic", (20,), ("cosine, batch 4, 1000 steps",), ("anl-ce",), (1, 2)),
    ("isic", (20,), ("row", "cosine", "cosine, batch 4"), ("ce",), (1, 2)),
    ("isic", (60,), ("cosine, batch 8",), ("anl-ce",), (1, 2)),
    ("isic", (200,), ("row", "cosine"), ("anl-ce",), (1,)),
    ("isic", (20, 60, 200), ("planned, mirrored", "planned, flips and gamma"), ("anl-ce", "ce"), (1, 2)),
    ("isic", (20, 60, 200, 900), ("learning rate 1e-3", "learning rate 3e-3"), ("anl-ce", "ce"), (1, 2)),
    ("digits", (500, 1_000), ("lambda 0.4", "lambda 2"), ("anl-ce*",), (1, 2)),
    ("fashion14", (3_000,), ("lambda 0.4", "lambda 2"), ("anl-ce*",), (1, 2)),
    ("digits", (200, 500, 1_000), ("planned",), LOSSES, (1, 2, 3)),
    ("fashion14", (200, 500, 1_000, 3_000), ("planned",), LOSSES, (1, 2, 3)),
    ("fashion14", (3_000,), ("learning rate x 10", "batch 16"), ("anl-ce",), (1, 2)),
    ("fashion", (1_000,), ("planned",), ("ce", "gce", "anl-ce"), (1, 2)),
    ("fashion14-asym-0.4", (1_000, 3_000), ("planned",), LOSSES, (1, 2)),
    ("fashion14-clean", (1_000, 3_000), ("planned",), ("ce", "gce", "anl-ce"), (1, 2)),
    ("fashion14-sym-0.6", (3_000,), ("planned",), LOSSES, (1, 2)),
    ("cifar10-small", (1_000, 3_000), ("planned",), LOSSES, (1, 2)),
    ("fashion14", (10_000,), ("planned",), ("ce", "gce", "anl-ce"), (1, 2)),
    ("cifar10-small-asym-0.4", (3_000,), ("planned",), LOSSES, (1,)),
    ("cifar10-small-clean", (3_000,), ("planned",), ("ce", "anl-ce", "anl-ce*"), (1,)),
    ("cifar10-uneven", (3_000,), ("planned",), ("anl-ce", "anl-ce*"), (1, 2)),
)
"""Sets, sizes, settings, losses and seeds that are on record."""


def wrong_labels(labels: np.ndarray, what: str, noisy: str, seed: int) -> np.ndarray:
    """Labels under a noise, each drawn by itself."""
    if noisy == "clean":
        return labels
    kind, _, rate = noisy.partition("-")
    if kind == "sym":
        classes = 100 if SOURCES[what] == "cifar100" else 10
        return noise.symmetric(labels, float(rate), classes, seed, generator="bernoulli").labels
    flips = "cifar10" if SOURCES[what] == "cifar10" else "mnist-like"
    return noise.asymmetric(labels, float(rate), flips, seed, generator="bernoulli").labels


def write_pictures(root: Path, name: str, count: int, seed: int) -> None:
    """A folder of classes; a picture whose label is wrong lies in the wrong one."""
    what, noisy = parts_of(name)
    for split, most in (("train", count), ("test", TESTED)):
        data = datasets.load(SOURCES[what], split)
        rows = np.random.RandomState(seed).permutation(len(data))
        if split == "train" and what.endswith("-uneven"):
            kept = np.random.RandomState(seed).random_sample(len(rows)) < 1 - data.labels[rows] / 18
            rows = rows[kept]
        rows = rows[:most]
        labels = data.labels[rows]
        if split == "train":
            labels = wrong_labels(labels, what, noisy, seed)
        assert data.images is not None
        for index, (row, label) in enumerate(zip(rows, labels, strict=True)):
            folder = root / split / data.class_names[label].replace("/", "-")
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(data.images[row].squeeze()).save(folder / f"{index}.png")


def write_masks(root: Path, count: int, seed: int) -> None:
    """Pictures and masks at 32 pixels, the masks of the training part wrong."""
    for split, most in (("train", count), ("test", 100)):
        data = datasets.load("isic2017-128px", split)
        rows = np.sort(np.random.RandomState(seed).permutation(len(data))[:most])
        assert data.images is not None
        assert data.masks is not None
        masks = data.masks[rows]
        if split == "train":
            masks = noise.corrupt_masks(masks, SHARE, STRENGTH, seed).masks
        for folder in ("images", "masks"):
            (root / split / folder).mkdir(parents=True, exist_ok=True)
        for index, (row, mask) in enumerate(zip(rows, masks, strict=True)):
            size, small = (32, 32), Image.Resampling.NEAREST
            Image.fromarray(data.images[row]).resize(size).save(root / split / "images" / f"{index:04}.png")
            drawn = Image.fromarray((mask > 0).astype(np.uint8) * 255).resize(size, small)
            drawn.save(root / split / "masks" / f"{index:04}.png")


def run(scratch: Path, name: str, count: int, loss: str, setting: str, seed: int) -> dict[str, Any]:
    """Train one setting on one folder."""
    root = scratch / f"{name}-{count}-{seed}"
    what, _ = parts_of(name)
    is_masks = what.startswith("isic")
    if not root.is_dir():
        if is_masks:
            write_masks(root, count, seed)
        else:
            write_pictures(root, name, count, seed)
    samples = len(datasets.load(f"folder:{root}"))
    epochs, batch = ROWS["isic" if is_masks else what]
    changes = settings_of(what)[setting](Planned(samples, epochs, batch))
    if is_masks and setting == "row":
        changes |= {"schedule": "exponential"}
    said = {"loss": loss, "seed": seed, **FASTER.get(what, {}), **changes}
    said |= {"evaluate_every": changes.get("epochs", epochs)}
    config = config_of(f"folder:{root}", None, said)
    started = perf_counter()
    record = train(config, folder=scratch / "runs", quiet=True)
    assert record.result is not None
    return {
        "set": f"{name} {count}",
        "loss": loss,
        "setting": setting,
        "seed": seed,
        "epochs": config.epochs,
        "batch": config.batch_size,
        "steps": config.epochs * -(-samples // config.batch_size),
        "score": round(record.result["test_dice" if is_masks else "test_accuracy"], 2),
        "seconds": round(perf_counter() - started),
    }


def table(path: Path) -> str:
    """Means over seeds, a row for each set and loss."""
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in path.read_text().splitlines():
        each = json.loads(line)
        settings = scores.setdefault((each["set"], each["loss"]), {})
        settings.setdefault(f"{each['setting']} ({each['steps']:,} steps)", []).append(each["score"])
    lines = ["| data | loss | seeds | setting: mean |", "|---|---|--:|---|"]
    for (name, loss), settings in sorted(
        scores.items(), key=lambda each: (each[0][1], *_by_size(each[0][0]))
    ):
        seeds = max(map(len, settings.values()))
        cells = [
            f"{setting}: {np.mean(found):.1f}" + (f" ({len(found)} seed)" if len(found) < seeds else "")
            for setting, found in settings.items()
        ]
        lines.append(f"| {name} | {loss} | {seeds} | {'; '.join(cells)} |")
    return "\n".join(lines)


def _by_size(name: str) -> tuple[str, int]:
    what, _, count = name.partition(" ")
    return what, int(count)


def on_record(out: Path | None, key: Sequence[str]) -> set[tuple[Any, ...]]:
    """What of each line of a file says which run it is of."""
    lines = out.read_text().splitlines() if out and out.is_file() else []
    return {tuple(line[each] for each in key) for line in map(json.loads, lines)}


def keep(line: dict[str, Any], out: Path | None) -> None:
    """Show a line, and add it to a file."""
    print(json.dumps(line), flush=True)
    if out:
        with out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--set", dest="what", choices=SETS, help="one set; all on record by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 500, 1_000])
    parser.add_argument("--losses", nargs="+", default=["anl-ce"])
    parser.add_argument("--settings", nargs="+", help="all by default")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--scratch", type=Path, help="where folders and runs are kept")
    parser.add_argument("--out", type=Path, help="add lines to this file")
    parser.add_argument("--table", type=Path, help="train nothing; print the means of this file")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(arguments.table))
        return
    groups = RECORDED
    if arguments.what:
        settings = tuple(arguments.settings or settings_of(arguments.what))
        groups = ((arguments.what, arguments.sizes, settings, arguments.losses, arguments.seeds),)
    out, key = arguments.out, ("set", "loss", "setting", "seed")
    known = on_record(out, key)
    scratch = arguments.scratch or Path(tempfile.mkdtemp())
    for what, *rest in groups:
        for count, setting, loss, seed in product(*rest):
            if (f"{what} {count}", loss, setting, seed) in known:
                continue
            line = run(scratch, what, count, loss, setting, seed)
            keep(line, out)


if __name__ == "__main__":
    main()
