# SPDX-License-Identifier: Apache-2.0
"""How much of wrong masks a network learns by heart, and what that costs, by how its training images are augmented.

Skin lesions at 32 pixels, 900 of them for training; the paper's schedule and batch, 40 epochs, ``unet-small``.
Seven tenths of the training masks are wrong by seven tenths of their area, or none is. Images are left as they are,
mirrored (what one's own images get by default), or flipped both ways and changed in gamma, as the paper's are.
Where they are left as they are, ANL-CE is also trained with stronger L1 than the recipe's δ = 1e-7.

    python benchmarks/wrong_masks.py --out docs/performance/wrong-masks.jsonl    24 runs, 40 minutes on two cores
    python benchmarks/wrong_masks.py --table docs/performance/wrong-masks.jsonl  the table of docs/segmentation.md

The lesions have to be there: noiseproof data get isic2017-128px. What is on record in the file is not
trained again.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from noiseproof import datasets
from noiseproof.results import read_records

SIDE = 32
COUNTS = {"train": 900, "test": 550}
LOSSES = {"CE": "ce", "GCE": "gce", "ANL-CE": "anl-ce"}
AUGMENTATIONS = {"none": 'augment = "none"', "mirrored": "", "as the paper's": 'augment = "isic2017"'}
STRONGER_L1 = ("1e-6", "1e-5", "1e-4")
NOISES = ("clean", "masks-0.7-0.7")

GRID = """
title = "Wrong masks at 32 px, by augmentation"
kind = "table"
dataset = "folder:lesions"
recipe = "isic2017-128px"
noises = ["clean", "masks-0.7-0.7"]
seeds = [1]

[settings]
model = "unet-small"
epochs = 40
"""


def write_lesions(folder: Path) -> None:
    """Write small copies of the lesions and their masks, as a user would have them."""
    for split, count in COUNTS.items():
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
                Image.fromarray(array).resize((SIDE, SIDE), resampling).save(place / f"{number:04}.png")


def grid_file() -> str:
    """The grid of all runs."""
    methods = [
        f'\n[[methods]]\nlabel = "{label}; {how}"\nloss = "{loss}"\n{setting}\n'
        for label, loss in LOSSES.items()
        for how, setting in AUGMENTATIONS.items()
    ]
    methods += [
        f'\n[[methods]]\nlabel = "ANL-CE δ={l1}; none"\nloss = "anl-ce"\nl1 = {l1}\naugment = "none"\n'
        for l1 in STRONGER_L1
    ]
    return GRID + "".join(methods)


def measure(out: Path) -> int:
    """Train what is not on record."""
    with tempfile.TemporaryDirectory() as folder:
        write_lesions(Path(folder) / "lesions")
        (Path(folder) / "wrong-masks.toml").write_text(grid_file(), encoding="utf-8")
        command = ["bench", "wrong-masks.toml", "--records", str(out.resolve())]
        return subprocess.run(
            [sys.executable, "-m", "noiseproof", *command], cwd=folder, check=False
        ).returncode


def table(file: Path) -> str:
    """Dice by loss and augmentation, and how many of the wrong pixels were learned by heart."""
    found = {(result.method, result.noise): result for result in read_records(file)}
    lines = [
        "| loss | augmentation | Dice, right masks | Dice, wrong masks | wrong pixels learned |",
        "|---|---|--:|--:|--:|",
    ]
    rows = [(label, how) for label in LOSSES for how in AUGMENTATIONS]
    rows += [(f"ANL-CE δ={l1}", "none") for l1 in STRONGER_L1]
    for label, how in rows:
        clean, noisy = (found[f"{label}; {how}", noise] for noise in NOISES)
        learned = noisy.curves.flipped[-1]
        assert learned is not None
        lines.append(f"| {label} | {how} | {clean.score:.1f} | {noisy.score:.1f} | {learned:.0f}% |")
    return "\n".join(lines)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="train, and add the runs to this file")
    what.add_argument("--table", type=Path, help="print the table of a file")
    said = parser.parse_args()
    if said.out is not None:
        return measure(said.out)
    print(table(said.table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
