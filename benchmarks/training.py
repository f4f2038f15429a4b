# SPDX-License-Identifier: Apache-2.0
"""Seconds per epoch of the paper's recipes on this GPU, for single runs and for packs, through the whole engine.

    python benchmarks/training.py --recipe cifar10 --packs 1,8 --epochs 4

The images are random numbers of the data set's size and shape, since their content does not change the cost of a
step. Each line is a run's share of its pack's time: the median over the epochs after the first, with records,
evaluation and checkpoints included. The peer is the same engine step by step, as it runs where nothing can be
captured.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from noiseproof.datasets import LabeledData
from noiseproof.datasets.augment import recipe_for
from noiseproof.training import engine, resolve, train_pack
from noiseproof.training.data import TrainingData

CLASSES = {"cifar10": 10, "cifar100": 100}
LOSSES = ("anl-ce", "ce", "nce+rce", "gce", "anl-fl", "anl-ce*", "sce", "mae")


def random_data(name: str, device: torch.device, train: int = 50_000, test: int = 10_000) -> TrainingData:
    random = np.random.default_rng(0)
    parts = []
    for split, count in (("train", train), ("test", test)):
        images = random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        labels = random.integers(0, CLASSES[name], count)
        names = tuple(map(str, range(CLASSES[name])))
        parts.append(LabeledData(name, split, labels, names, images))
    on_device = [torch.from_numpy(p.images.transpose(0, 3, 1, 2).copy()).to(device) for p in parts]
    labels = torch.from_numpy(parts[1].labels).to(device)
    return TrainingData(name, *parts, *on_device, labels, recipe_for(name), device)


def measure(data: TrainingData, args: argparse.Namespace, size: int, precision: str, way: str) -> dict:
    said = {"epochs": args.epochs, "precision": precision, "noise": "sym-0.4", "compile": args.compile}
    configs = [
        resolve(args.recipe, loss=LOSSES[i % len(LOSSES)], seed=1 + i // len(LOSSES), **said)
        for i in range(size)
    ]
    captured = engine.can_capture
    engine.can_capture = captured if way == "captured" else lambda runs: False
    try:
        with tempfile.TemporaryDirectory() as folder:
            torch.cuda.reset_peak_memory_stats()
            began = time.perf_counter()
            records = train_pack(configs, folder=Path(folder), quiet=True, data=data)
            wall = time.perf_counter() - began
    finally:
        engine.can_capture = captured
    later = [e["seconds"] for r in records for e in r.epochs[1:]]
    return {
        "recipe": args.recipe,
        "precision": precision,
        "compile": args.compile,
        "way": way,
        "runs": size,
        "seconds_an_epoch_a_run": statistics.median(later),
        "first_epoch": sum(r.epochs[0]["seconds"] for r in records),
        "wall": wall,
        "images_a_second": len(data.train) / statistics.median(later),
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }


def profile(data: TrainingData, args: argparse.Namespace) -> str:
    """Kernels of two captured epochs of a run alone, by the time they take."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    config = resolve(args.recipe, loss="anl-ce", epochs=1, precision=args.precisions[0], compile=args.compile)
    with tempfile.TemporaryDirectory() as folder, profiler(activities=[ProfilerActivity.CUDA]) as found:
        train_pack([config], folder=Path(folder), quiet=True, data=data)
    return found.key_averages().table(sort_by="cuda_time_total", row_limit=60, max_name_column_width=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipe", default="cifar10", choices=sorted(CLASSES))
    parser.add_argument("--packs", default="1,8")
    parser.add_argument("--precisions", default="bf16")
    parser.add_argument("--ways", default="captured")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    args.precisions = args.precisions.split(",")
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a CUDA device")
    data = random_data(args.recipe, torch.device("cuda"))
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    lines = []
    for way in args.ways.split(","):
        for precision in args.precisions:
            for size in map(int, args.packs.split(",")):
                line = measure(data, args, size, precision, way)
                lines.append(line | {"device": torch.cuda.get_device_name(), "versions": versions})
                print(
                    f"{args.recipe} {way:9} {precision:8} compile={args.compile!s:5} runs={size:<3} "
                    f"{line['seconds_an_epoch_a_run']:.3f} s/epoch/run, first epoch {line['first_epoch']:.1f} s, "
                    f"wall {line['wall']:.1f} s, {line['peak_gib']:.1f} GiB",
                    flush=True,
                )
    if args.out:
        args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    if args.profile:
        args.profile.write_text(profile(data, args))


if __name__ == "__main__":
    main()
