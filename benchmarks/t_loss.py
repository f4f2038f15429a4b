# SPDX-License-Identifier: Apache-2.0
"""Why T-Loss trails cross-entropy on right masks: it is a likelihood of whole images.

An image's pull on the network is divided by its own squared error, which is largest for large lesions. Here
the same squared errors are also trained without T-Loss's logarithm, and with one likelihood for the whole
batch. Lesions at 64 pixels, right masks, ``unet-small``, 15 epochs of the paper's schedule; two losses also
have 30 epochs of one that falls more slowly. The trained networks are asked how well they do on small and on
large lesions of the test set, and the answers written beside the records.

    python benchmarks/t_loss.py --out docs/performance/t-loss.jsonl    7 runs, 20 minutes on two cores
    python benchmarks/t_loss.py --table docs/performance/t-loss.jsonl  the table of docs/segmentation.md

The lesions have to be there: noiseproof data get isic2017-128px. What is on record in the file is not trained
again; its networks are looked for in the folder --runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from noiseproof import datasets
from noiseproof.losses import ImageLoss, TLoss, register
from noiseproof.losses.catalogue import record
from noiseproof.results import read_records
from noiseproof.training import load_trained
from wrong_masks import write_lesions

SIDE = 64
COUNTS = {"train": 1_800, "test": 550}
QUARTERS = 4

GRID = """
title = "T-Loss at 64 px"
dataset = "folder:lesions64"
recipe = "isic2017-128px"
noises = ["clean"]
seeds = [1]

[settings]
model = "unet-small"
epochs = 15
augment = "isic2017"

[[methods]]
label = "CE"
loss = "ce"

[[methods]]
label = "T-Loss"
loss = "t-loss"

[[methods]]
label = "T-Loss formula"
loss = "t-loss"
loss_parameters = { published = false }

[[methods]]
label = "T over batch"
loss = "batch-t"
loss_parameters = { published = true }

[[methods]]
label = "squared"
loss = "squared"

[[methods]]
label = "T-Loss slower"
loss = "t-loss"
epochs = 30
schedule = "step"
schedule_every = 5

[[methods]]
label = "CE slower"
loss = "ce"
epochs = 30
schedule = "step"
schedule_every = 5
"""

ROWS = {
    "CE": "CE",
    "squared": "squared error of the foreground's probability",
    "T over batch": "T-Loss, one likelihood a batch",
    "T-Loss": "T-Loss, one an image, as published",
    "T-Loss formula": "T-Loss, one an image, by its formula",
    "CE slower": "CE, ×0.8 every 5 epochs",
    "T-Loss slower": "T-Loss, one an image, as published, ×0.8 every 5 epochs",
}


class OneLikelihoodABatch(TLoss):
    """T-Loss of the errors of all images at once."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        images, classes, height, width = logits.shape
        whole = logits.transpose(0, 1).reshape(1, classes, images * height, width)
        return super().forward(whole, target.reshape(1, images * height, width))


class SquaredError(ImageLoss):
    """Mean of the same squared errors, without a logarithm."""

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        return (logits.softmax(1)[:, 1] - target.float()).square().mean()


if __name__ == "t_loss":  # imported by noiseproof, whose catalogue is to have them
    register(replace(record("t-loss"), name="batch-t", module=OneLikelihoodABatch))
    register(replace(record("t-loss"), name="squared", module=SquaredError))


def measure(out: Path, runs: Path) -> int:
    """Train what is not on record, and ask the networks."""
    here = Path(__file__)
    with tempfile.TemporaryDirectory() as folder:
        write_lesions(Path(folder) / "lesions64", SIDE, COUNTS)
        (Path(folder) / "t-loss.toml").write_text(GRID, encoding="utf-8")
        words = ["--import", here.stem, "bench", "t-loss.toml"]
        words += ["--records", str(out.resolve()), "--folder", str(runs.resolve())]
        found = os.pathsep.join([str(here.parent.resolve()), *sys.path])
        ended = subprocess.run(
            [sys.executable, "-m", "noiseproof", *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": found},
            check=False,
        ).returncode
        if ended:
            return ended
        test = datasets.load(f"folder:{folder}/lesions64", "test")
    networks = {result.method: runs / str(result.run) for result in read_records(out)}
    if all((network / "weights.safetensors").exists() for network in networks.values()):
        by_size = {method: dice_by_size(network, test) for method, network in networks.items()}
        by_size_file(out).write_text(json.dumps(by_size, indent=1) + "\n", encoding="utf-8")
    return 0


def dice_by_size(network: Path, test: datasets.LabeledData) -> list[float]:
    """Mean Dice of a network on the quarters of the test pictures, from the smallest lesions to the largest."""
    assert test.images is not None
    assert test.masks is not None
    model = load_trained(network)
    images = torch.from_numpy(test.images).permute(0, 3, 1, 2)
    predicted = torch.cat([model.probabilities(some).argmax(1) for some in images.split(100)]).numpy() == 1
    true = test.masks == 1
    sizes = true.sum((1, 2))
    dice = 2 * (predicted & true).sum((1, 2)) / (predicted.sum((1, 2)) + sizes).clip(1)
    quarters = np.array_split(np.argsort(sizes, kind="stable"), QUARTERS)
    return [round(100 * float(dice[rows].mean()), 2) for rows in quarters]


def by_size_file(records: Path) -> Path:
    """Where the answers of the networks are, beside their records."""
    return records.with_name(f"{records.stem}-by-size.json")


def table(file: Path) -> str:
    """Dice of every loss, also on small and large lesions; how much of the training images it takes for lesion."""
    found = {result.method: result for result in read_records(file)}
    by_size = json.loads(by_size_file(file).read_text(encoding="utf-8"))
    lines = [
        "| loss | Dice, pooled | per image | smallest quarter of lesions | largest quarter | taken for lesion |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for method, words in ROWS.items():
        result = found[method]
        assert result.per_image is not None
        assert result.predicted_marginals is not None
        share = 100 * result.predicted_marginals[1]
        small, *_, large = by_size[method]
        scores = [f"{score:.1f}" for score in (result.score, result.per_image, small, large)]
        lines.append(f"| {words} | {' | '.join(scores)} | {share:.1f}% |")
    return "\n".join(lines)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, help="train, and add the runs to this file")
    what.add_argument("--table", type=Path, help="print the table of a file")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where trained networks are kept")
    said = parser.parse_args()
    if said.out is not None:
        return measure(said.out, said.runs)
    print(table(said.table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
