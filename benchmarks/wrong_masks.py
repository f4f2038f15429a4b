# SPDX-License-Identifier: Apache-2.0
"""How much of wrong masks a network learns by heart, and what that costs, by how its training images are augmented.

Skin lesions at 32 pixels, 900 of them for training; the paper's schedule and batch, 40 epochs, ``unet-small``.
Seven tenths of the training masks are wrong by seven tenths of their area, or none is. Images are left as they are,
mirrored (what one's own images get by default), or flipped both ways and changed in gamma, as the paper's are.
Where they are left as they are, ANL-CE is also trained with stronger L1 than the recipe's δ = 1e-7.

Images augmented as the paper's are also trained on with three times its learning rate; for longer, with one that
falls ten times as slowly; and with the optimiser of T-Loss's public code, whose rate starts ten times as high.

    python benchmarks/wrong_masks.py --out docs/performance/wrong-masks.jsonl    68 runs, 90 minutes on two cores
    python benchmarks/wrong_masks.py --table docs/performance/wrong-masks.jsonl  the tables of docs/segmentation.md

The lesions have to be there: noiseproof data get isic2017-128px. What is on record in the file is not
trained again.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import mean

import numpy as np
from PIL import Image

from noiseproof import datasets
from noiseproof.results import Result, read_records

SIDE = 32
COUNTS = {"train": 900, "test": 550}
LOSSES = {
    "CE": 'loss = "ce"',
    "GCE": 'loss = "gce"',
    "MAE": 'loss = "mae"',
    "SCE": 'loss = "sce"',
    "APL": 'loss = "nce+rce"',
    "T-Loss": 'loss = "t-loss"',
    "ANL-CE": 'loss = "anl-ce"',
    "ANL-CE δ=1e-6": 'loss = "anl-ce"\nl1 = 1e-6',
    "ANL-CE δ=1e-5": 'loss = "anl-ce"\nl1 = 1e-5',
    "ANL-CE δ=1e-4": 'loss = "anl-ce"\nl1 = 1e-4',
    "CE δ=1e-4": 'loss = "ce"\nl1 = 1e-4\nweight_decay = 0.0',
}
PAPERS = "as the paper's"
AUGMENTATIONS = {"none": 'augment = "none"', "mirrored": "", PAPERS: 'augment = "isic2017"'}
AUGMENTED = (
    *((label, how) for label in ("CE", "GCE", "ANL-CE") for how in AUGMENTATIONS),
    *((f"ANL-CE δ={l1}", "none") for l1 in ("1e-6", "1e-5", "1e-4")),
)
"""Losses and augmentations, with the paper's learning rate: the first table."""
OTHERWISE = {
    "learning rate 3e-3": "learning_rate = 3e-3\n",
    "×0.8 every 10 epochs": """\
epochs = 60
schedule = "step"
schedule_every = 10
""",
    "as T-Loss's code": """\
epochs = 60
batch_size = 8
learning_rate = 1e-2
schedule = "milestones"
schedule_factor = 0.1
schedule_milestones = [0.166, 0.333]
weight_decay = 0.0
""",
}
"""Settings beside the paper's. T-Loss's code divides its rate by ten where ν settles, down to 1e-4, in 100,000
steps of eight images; here there are 6,750, and it is divided after ten and after twenty epochs."""
TRAINED = (
    *((label, PAPERS) for label in ("CE", "GCE", "T-Loss", "ANL-CE")),
    *((label, "learning rate 3e-3") for label in ("CE", "GCE", "T-Loss", "ANL-CE")),
    *((label, "×0.8 every 10 epochs") for label in LOSSES),
    *((label, "as T-Loss's code") for label in ("CE", "T-Loss")),
)
"""Losses and learning rates, with the paper's augmentation: the second table."""
NOISES = ("clean", "masks-0.7-0.7")
WITH_SEED_2 = tuple(
    f"{label}; ×0.8 every 10 epochs" for label in ("CE", "ANL-CE", "CE δ=1e-4", "ANL-CE δ=1e-4")
)
"""What of the table is repeated: whether L1 helps where wrong masks are learned by heart."""

GRID = """
title = "Wrong masks at 32 px, by augmentation and learning rate"
kind = "table"
dataset = "folder:lesions"
recipe = "isic2017-128px"
noises = ["clean", "masks-0.7-0.7"]
seeds = [1, 2]

[settings]
model = "unet-small"
epochs = 40
"""


def write_lesions(folder: Path, side: int, counts: Mapping[str, int]) -> None:
    """Write small copies of the first lesions of each split and their masks, as a user would have them."""
    for split, count in counts.items():
        data = datasets.load("isic2017-128px", split)
        assert data.images is not None
        assert data.masks is not None
        for kind, arrays, resampling in (
            ("images", data.images[:count], Image.Resampling.BILINEAR),
            ("masks", 255 * data.masks[:count].astype(np.uint8), Image.Resampling.NEAREST),
        ):
            place = folder / split / kind
            place.mkdir(parents=True)
            for number, array in enumerate(arrays):
                Image.fromarray(array).resize((side, side), resampling).save(place / f"{number:04}.png")


def grid_file() -> str:
    """The grid of all runs; those of both tables stand once."""
    ways = AUGMENTATIONS | {how: f"{AUGMENTATIONS[PAPERS]}\n{said}" for how, said in OTHERWISE.items()}
    return GRID + "".join(
        f'\n[[methods]]\nlabel = "{label}; {how}"\n{LOSSES[label]}\n{ways[how]}\n'
        for label, how in dict.fromkeys((*AUGMENTED, *TRAINED))
    )


def measure(out: Path) -> int:
    """Train what is not on record."""
    with tempfile.TemporaryDirectory() as folder:
        write_lesions(Path(folder) / "lesions", SIDE, COUNTS)
        (Path(folder) / "wrong-masks.toml").write_text(grid_file(), encoding="utf-8")
        bench = [
            sys.executable,
            "-m",
            "noiseproof",
            "bench",
            "wrong-masks.toml",
            "--records",
            str(out.resolve()),
        ]
        repeated = ",".join(f"{label}@{noise}" for label in WITH_SEED_2 for noise in NOISES)
        for words in (["--seeds", "1"], ["--seeds", "2", "--cells", repeated]):
            if ended := subprocess.run([*bench, *words], cwd=folder, check=False).returncode:
                return ended
        return 0


def table_of_augmentations(file: Path) -> str:
    """Dice by loss and augmentation, and how many of the wrong pixels were learned by heart."""
    return _table("augmentation", AUGMENTED, file)


def table_of_learning_rates(file: Path) -> str:
    """The same by loss and learning rate, with the paper's augmentation."""
    return _table("learning rate", TRAINED, file)


def _table(what: str, rows: Iterable[tuple[str, str]], file: Path) -> str:
    found: dict[tuple[str, str], list[Result]] = {}
    for result in read_records(file):
        found.setdefault((result.method, result.noise), []).append(result)
    lines = [
        f"| loss | {what} | seeds | Dice, right masks | Dice, wrong masks | wrong pixels learned |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for label, how in rows:
        clean, noisy = (found[f"{label}; {how}", noise] for noise in NOISES)
        learned = mean(share for result in noisy if (share := result.curves.flipped[-1]) is not None)
        dice = [f"{mean(result.score for result in results):.1f}" for results in (clean, noisy)]
        lines.append(f"| {label} | {how} | {len(noisy)} | {' | '.join(dice)} | {learned:.0f}% |")
    return "\n".join(lines)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="train, and add the runs to this file")
    what.add_argument("--table", type=Path, help="print the tables of a file")
    said = parser.parse_args()
    if said.out is not None:
        return measure(said.out)
    print(table_of_augmentations(said.table), table_of_learning_rates(said.table), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
