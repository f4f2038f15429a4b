# SPDX-License-Identifier: Apache-2.0
"""The runs behind rules of the planner where the paper has no row: little data, and the digits.

Every run uses the data set's recipe with one thing changed, and is tested on clean labels after the last epoch.

    python benchmarks/tuning_rules.py                       all, about half an hour on one busy core
    python benchmarks/tuning_rules.py --only digits
    python benchmarks/tuning_rules.py --records docs/performance/tuning-rules.jsonl

Fashion-MNIST must be available (noiseproof data get fashion-mnist). Runs recorded in the runs folder are not
trained again.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from noiseproof.results import Curves, result_of_record, write_results
from noiseproof.training import Config, resolve, train

CIFAR10 = {"l1": 5e-5, "loss_parameters": {"alpha": 5.0, "beta": 5.0}}

LOSSES = ("ce", "gce", "nce+rce", "anl-ce", "anl-ce*")


def configs() -> dict[str, list[tuple[str, Config]]]:
    """Runs by group, each with what sets it apart."""
    little = [
        (f"1000 pictures, batch {batch}", _fashion(seed, train_size=1_000, batch_size=batch))
        for batch in (32, 64, 128)
        for seed in (1, 2, 3)
    ]
    numbers = [
        (
            "1000 pictures, batch 32, CIFAR-10's numbers",
            _fashion(seed, train_size=1_000, batch_size=32, **CIFAR10),
        )
        for seed in (1, 2, 3)
    ]
    digits = [
        ("", resolve("digits", loss=loss, noise=noise, seed=seed, evaluate_every=60))
        for noise in ("clean", "sym-0.4", "sym-0.6", "asym-0.4")
        for loss in LOSSES
        for seed in (1, 2, 3)
    ]
    batches = [
        (f"batch {batch}", resolve("digits", noise="sym-0.4", seed=seed, evaluate_every=60, batch_size=batch))
        for batch in (32, 128, 256)
        for seed in (1, 2, 3)
    ]
    return {"little": little, "numbers": numbers, "digits": digits + batches}


def _fashion(seed: int, **changes: Any) -> Config:
    return resolve("fashion-mnist", loss="anl-ce", noise="sym-0.4", seed=seed, evaluate_every=50, **changes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=tuple(configs()), help="one group of runs")
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where runs are kept")
    parser.add_argument("--records", type=Path, help="add the results to this file")
    arguments = parser.parse_args()
    for group, runs in configs().items():
        if arguments.only in (None, group):
            for variant, config in runs:
                record = train(config, folder=arguments.folder, quiet=True)
                result = result_of_record(record, variant=variant or None)
                line = f"{config.dataset} {config.noise} {config.loss} seed {config.seed} {variant}"
                print(f"{line}: {result.score:.2f}% ({result.seconds:.0f} s)", flush=True)
                if arguments.records:
                    short = replace(result, curves=Curves(), noise_facts={}, predicted_marginals=None)
                    write_results(arguments.records, [short])


if __name__ == "__main__":
    main()
