# SPDX-License-Identifier: Apache-2.0
"""What is lost by choosing hyperparameters on noisy labels instead of clean ones.

For each data set, noise and seed, the same trials are drawn at random from the search space of ``noiseproof tune``,
starting with the published values. Each is trained on nine tenths of the noisy training data and scored three times
after the last epoch: on the held-out tenth with its noisy labels, on the same tenth with true labels, and on the
clean test data. Then the best by the first score and the best by the second are compared by the third.

    python benchmarks/tuning.py                                     all, about 15 minutes on one core
    python benchmarks/tuning.py --out docs/performance/tuning.jsonl
    python benchmarks/tuning.py --table docs/performance/tuning.jsonl   the table of docs/tune.md, nothing trained
"""

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from noiseproof.planning.space import Range, space_of, with_numbers
from noiseproof.planning.trials import train_trial, trial_data
from noiseproof.training import Config, resolve
from noiseproof.training.data import TrainingData, load_data, test_batches
from noiseproof.training.environment import choose_device
from noiseproof.training.run import Run

SEEDS = (1, 2, 3)
TRIALS = 12
NOISES = ("sym-0.6", "asym-0.4")


def configs(seed: int) -> Iterator[Config]:
    for noise in NOISES:
        yield resolve("digits", loss="anl-ce", noise=noise, seed=seed, epochs=20, evaluate_every=20)
        yield resolve(
            "fashion-mnist",
            loss="anl-ce",
            noise=noise,
            seed=seed,
            train_size=4_000,
            model="mlp",
            model_options={"batch_norm": True},
            epochs=15,
            evaluate_every=15,
        )


def drawn(space: tuple[Range, ...], random: np.random.RandomState) -> dict[str, float]:
    """Numbers of one trial, every range's logarithm searched evenly."""
    return {
        each.name: math.exp(random.uniform(math.log(each.low), math.log(each.high)))
        if each.log
        else random.uniform(each.low, each.high)
        for each in space
    }


def accuracy(run: Run, data: TrainingData) -> float:
    """Accuracy of a run's network in percent."""
    right = run.count_right(test_batches(data, 1_000, 0))
    return 100 * float(right.item()) / len(data.test)


def measured(config: Config) -> dict[str, Any]:
    """Every trial of one data set, noise and seed."""
    space = space_of(config)
    random = np.random.RandomState(config.seed)
    data, whole = trial_data(config), load_data(config, choose_device(config.device))
    trials = []
    for number in range(TRIALS):
        numbers = {each.name: each.start for each in space} if number == 0 else drawn(space, random)
        run = train_trial(with_numbers(config, space, numbers), data.noisy, lambda epoch, score: None)
        judges = {"noisy": data.noisy, "clean": data.clean, "test": whole}
        scores = {name: accuracy(run, judge) for name, judge in judges.items()}
        trials.append({"numbers": {k: float(f"{v:.4g}") for k, v in numbers.items()}} | scores)
    return {
        "dataset": config.dataset,
        "noise": config.noise,
        "seed": config.seed,
        "held_out": len(data.noisy.test),
        "config": replace(config, evaluate_every=1).as_data(),
        "trials": trials,
    }


def table(lines: list[dict[str, Any]]) -> str:
    """Mean test accuracy of what was chosen, by data set and noise."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[line["dataset"], line["noise"]].append(line)
    rows = [
        "| data | noise | held out | published numbers | chosen on noisy labels | chosen on clean labels | lost | "
        "best of all |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for (dataset, noise), group in groups.items():
        start = [line["trials"][0]["test"] for line in group]
        noisy, clean = ([_chosen(line, by) for line in group] for by in ("noisy", "clean"))
        best = [_chosen(line, "test") for line in group]
        lost = [b - a for a, b in zip(noisy, clean, strict=True)]
        cells = [dataset, noise, str(group[0]["held_out"])]
        cells += [f"{mean(each):.1f}" for each in (start, noisy, clean)]
        rows.append(f"| {' | '.join(cells)} | {mean(lost):.1f} ± {stdev(lost):.1f} | {mean(best):.1f} |")
    return "\n".join(rows)


def _chosen(line: dict[str, Any], by: str) -> float:
    return float(max(line["trials"], key=lambda trial: trial[by])["test"])  # the first of several equal ones


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--out", type=Path, help="add one line per search to this file; those already in it are not repeated"
    )
    parser.add_argument("--table", type=Path, help="only print the table of this file")
    arguments = parser.parse_args()
    if arguments.table:
        print(table([json.loads(line) for line in arguments.table.read_text().splitlines()]))
        return
    lines = []
    if arguments.out and arguments.out.exists():
        lines = [json.loads(line) for line in arguments.out.read_text().splitlines()]
    done = {(line["dataset"], line["noise"], line["seed"]) for line in lines}
    for seed in SEEDS:
        for config in configs(seed):
            if (config.dataset, config.noise, config.seed) in done:
                continue
            lines.append(measured(config))
            print(f"{config.dataset} {config.noise} seed {seed}: done", flush=True)
            if arguments.out:
                arguments.out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(table(lines))


if __name__ == "__main__":
    main()
