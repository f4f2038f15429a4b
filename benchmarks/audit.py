# SPDX-License-Identifier: Apache-2.0
"""Finding wrong labels: noiseproof's scores against cleanlab's, from the same cross-validated probabilities.

In every set the true labels are known and some of the given ones are wrong. Probabilities are computed once and
given to both; all scores of both are printed, whoever wins.

    python benchmarks/audit.py                                          patches: on a CPU, about ten minutes
    python benchmarks/audit.py --method imagenet                        seen ImageNet: 25 min
    python benchmarks/audit.py --method network --save-probabilities D  a network: on a GPU, without cleanlab
    python benchmarks/audit.py --probabilities D --out audit.json       score what was saved
    python benchmarks/audit.py --sets cifar10:aggre fashion-mnist:clean digits:asym-0.4
    python benchmarks/audit.py --million rows                           memory and time for a million samples
"""

import argparse
import json
import os
import platform
import resource
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

SETS = ("cifar10:worse", "cifar10:asym-0.4", "fashion-mnist:sym-0.4")
PEOPLE = {"worse": "worse_label", "aggre": "aggre_label", "random1": "random_label1"}
CLEANLAB_SCORES = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def labelled(name: str, seed: int) -> tuple[Any, np.ndarray]:
    """Data with its given labels, and the true labels."""
    from noiseproof import datasets
    from noiseproof.training.config import Config
    from noiseproof.training.data import draw_noise

    dataset, _, kind = name.partition(":")
    data = datasets.load(dataset)
    if kind in PEOPLE:
        people = datasets.human_labels(f"{dataset}n", PEOPLE[kind])
        if data.uncertain is not None:
            certain = np.setdiff1d(np.arange(len(data)), data.uncertain)
            return replace(data.subset(certain), labels=people.labels[certain]), people.clean[certain]
        return replace(data, labels=people.labels), people.clean
    drawn = draw_noise(Config(dataset, "cnn8", 1, 0.1, noise=kind, noise_seed=seed), data)
    return (data if drawn is None else replace(data, labels=drawn.labels)), data.labels


def make_probabilities(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Given and true labels and cross-validated probabilities of one set."""
    from noiseproof.audit.cross_validation import network_probabilities, picture_probabilities
    from noiseproof.audit.pictures import training_for

    data, true = labelled(name, options.seed)
    how: dict[str, Any] = {"method": options.method, "folds": options.folds}
    started = time.perf_counter()
    if options.method in ("patches", "imagenet"):
        if options.method == "patches":
            how["filters"] = options.filters
        probabilities = picture_probabilities(
            data,
            folds=options.folds,
            filters=options.filters,
            from_imagenet=options.method == "imagenet",
            seed=options.seed,
        )
    else:
        chosen = {"epochs": options.epochs, "loss": options.loss, "precision": options.precision}
        settings = {key: value for key, value in chosen.items() if value is not None}
        config, training = training_for(data, name.partition(":")[0], None, settings, options.seed)
        how |= {"model": config.model, "epochs": config.epochs, "loss": config.loss}
        with tempfile.TemporaryDirectory() as temporary:
            runs = (options.runs or Path(temporary)) / name.replace(":", "-")
            probabilities = network_probabilities(config, training, runs, folds=options.folds, quiet=True)
    how["seconds"] = round(time.perf_counter() - started, 1)
    print(f"{name}: probabilities in {how['seconds']:.0f} s", flush=True)
    return {"given": data.labels, "true": true, "probabilities": probabilities, "how": json.dumps(how)}


def scores_of_both(given: np.ndarray, probabilities: np.ndarray) -> tuple[dict[str, np.ndarray], Any]:
    """Every score by name, the higher the more suspect, and our audit with the default one."""
    from cleanlab.rank import get_label_quality_scores

    from noiseproof.audit import DEFAULT_SCORE, SCORES, score_labels

    ours = score_labels(given, probabilities)
    scores = {f"noiseproof {DEFAULT_SCORE}": ours.scores.astype(np.float64)}
    for name in SCORES:
        if name != DEFAULT_SCORE:
            found = score_labels(given, probabilities, score=name, noise=ours.noise)
            scores[f"noiseproof {name}"] = found.scores.astype(np.float64)
    for method in CLEANLAB_SCORES:
        for adjusted in (False, True):
            if adjusted and method == "confidence_weighted_entropy":
                continue  # cleanlab does not offer it
            quality = get_label_quality_scores(
                given, probabilities, method=method, adjust_pred_probs=adjusted
            )
            scores[f"cleanlab {method}{', adjusted' if adjusted else ''}"] = -quality
    return scores, ours


def measure(name: str, saved: dict[str, Any]) -> dict[str, Any]:
    """AUROC and average precision in percent of every score, and noise rates, of one set."""
    from cleanlab.count import estimate_joint
    from cleanlab.filter import find_label_issues
    from sklearn.metrics import average_precision_score, roc_auc_score

    given, true = np.asarray(saved["given"]), np.asarray(saved["true"])
    probabilities = np.asarray(saved["probabilities"], dtype=np.float64)
    probabilities /= probabilities.sum(1, keepdims=True)
    wrong = given != true
    started = time.perf_counter()
    scores, ours = scores_of_both(given, probabilities)
    joint = estimate_joint(given, probabilities)
    issues = find_label_issues(given, probabilities)
    ranked = {}
    if wrong.any():
        ranked = {
            label: [
                round(100 * float(roc_auc_score(wrong, values)), 3),
                round(100 * float(average_precision_score(wrong, values)), 3),
            ]
            for label, values in scores.items()
        }
    right = {"noiseproof": ours.suspect, "cleanlab": issues}
    found = {
        who: {
            "flagged": int(which.sum()),
            "precision": round(100 * float(wrong[which].mean()), 2) if which.any() else None,
            "recall": round(100 * float(which[wrong].mean()), 2) if wrong.any() else None,
        }
        for who, which in right.items()
    }
    truth = np.zeros_like(ours.transition)
    np.add.at(truth, (true, given), 1)
    truth /= np.maximum(truth.sum(1, keepdims=True), 1)
    return {
        "set": name,
        "samples": len(given),
        "how": json.loads(str(saved["how"])),
        "accuracy_on_true_labels": round(100 * float((probabilities.argmax(1) == true).mean()), 2),
        "noise_rate": round(100 * float(wrong.mean()), 2),
        "estimates": {
            "noiseproof": round(100 * ours.noise_rate, 2),
            "cleanlab": round(100 * float(1 - np.trace(joint)), 2),
            "disagreement": round(100 * ours.disagreement, 2),
        },
        "transition_error": round(float(np.abs(ours.transition - truth).mean()), 4),
        "flagged": found,
        "scores": ranked,
        "seconds": round(time.perf_counter() - started, 1),
    }


def as_markdown(result: dict[str, Any]) -> str:
    """One set's table, the best of each column in bold."""
    how = ", ".join(f"{key} {value}" for key, value in result["how"].items())
    estimates = result["estimates"]
    lines = [
        f"### {result['set']}",
        "",
        f"{result['samples']} samples, {result['noise_rate']:.2f}% wrong; estimated by noiseproof "
        f"{estimates['noiseproof']:.2f}% (it differs from {estimates['disagreement']:.2f}%), by cleanlab "
        f"{estimates['cleanlab']:.2f}%. Probabilities: {how}; "
        f"{result['accuracy_on_true_labels']:.1f}% right on true labels.",
        "",
        "| score | AUROC | average precision |",
        "| --- | ---: | ---: |",
    ]
    best = [max((each[column] for each in result["scores"].values()), default=0.0) for column in (0, 1)]
    for label, values in result["scores"].items():
        cells = [
            f"**{value:.2f}**" if value == top else f"{value:.2f}"
            for value, top in zip(values, best, strict=True)
        ]
        lines.append(f"| {label} | {cells[0]} | {cells[1]} |")
    for who, facts in result["flagged"].items():
        lines += [
            "",
            f"{who} flags {facts['flagged']}: precision {facts['precision']}%, recall {facts['recall']}%.",
        ]
    return "\n".join(lines)


def bars(results: list[dict[str, Any]]) -> str:
    """How the default score stands to cleanlab's best, set by set."""
    lines = []
    for result in results:
        if not result["scores"]:
            continue
        ours = next(iter(result["scores"].values()))
        theirs = [
            max(values[column] for label, values in result["scores"].items() if label.startswith("cleanlab"))
            for column in (0, 1)
        ]
        off = result["estimates"]["noiseproof"] - result["noise_rate"]
        lines.append(
            f"{result['set']}: AUROC {ours[0]:.2f} against {theirs[0]:.2f}, average precision {ours[1]:.2f} "
            f"against {theirs[1]:.2f}; noise rate off by {off:+.2f} points"
        )
    return "\n".join(lines)


def a_million_rows() -> None:
    """Memory and time to score a million samples whose probabilities lie in a file."""
    from noiseproof.audit import score_labels

    count, classes, at_a_time = 1_000_000, 100, 50_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probabilities.npy"
        file = np.lib.format.open_memmap(path, "w+", np.float32, (count, classes))
        given, wrong = np.empty(count, np.int64), 0
        for start in range(0, count, at_a_time):
            random, rows = np.random.RandomState(start), slice(start, start + at_a_time)
            true = random.randint(classes, size=at_a_time)
            powers = np.exp(random.standard_normal((at_a_time, classes)) + 6 * np.eye(classes)[true])
            file[rows] = 0.8 * powers / powers.sum(1, keepdims=True) + 0.2 / classes
            drawn = random.randint(classes, size=at_a_time)
            given[rows] = np.where(random.rand(at_a_time) < 0.2, drawn, true)
            wrong += int((given[rows] != true).sum())
        file.flush()
        del file
        started = time.perf_counter()
        found = score_labels(given, np.load(path, mmap_mode="r"))
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{count} samples of {classes} classes: {seconds:.0f} s, peak {peak / 2**20:.2f} GiB; noise rate "
        f"{found.noise_rate:.4f}, drawn {wrong / count:.4f}"
    )


def a_million_pictures() -> None:
    """Memory and time of a million small pictures in a file, from pixels to the files that an audit leaves."""
    from noiseproof.audit import files, sheet
    from noiseproof.audit.pictures import audit_pictures
    from noiseproof.datasets import LabeledData

    count, classes, side, at_a_time = 1_000_000, 100, 12, 50_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        images = np.lib.format.open_memmap(folder / "i.npy", "w+", np.uint8, (count, side, side, 1))
        given, wrong = np.empty(count, np.int64), 0
        motifs = np.random.RandomState(0).randint(0, 160, (classes, side, side, 1))
        for start in range(0, count, at_a_time):
            random, rows = np.random.RandomState(start), slice(start, start + at_a_time)
            true = random.randint(classes, size=at_a_time)
            images[rows] = motifs[true] + random.randint(0, 96, (at_a_time, side, side, 1))
            drawn = random.randint(classes, size=at_a_time)
            given[rows] = np.where(random.rand(at_a_time) < 0.2, drawn, true)
            wrong += int((given[rows] != true).sum())
        images.flush()
        del images
        stored = np.load(folder / "i.npy", mmap_mode="r")
        names = tuple(f"class {each}" for each in range(classes))
        data = LabeledData("a million", "train", given, names, images=stored)
        started = time.perf_counter()
        found = audit_pictures(data, method="patches", filters=64).labels
        files.write_suspects(found, data, folder / files.SUSPECTS)
        files.write_labels(data, found.cleaned, folder / files.CLEANED)
        sheet.write_sheet(found, data, folder / sheet.SHEET)
        seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{count} pictures of {side} x {side}, {classes} classes, 64 filters: {seconds:.0f} s, peak "
        f"{peak / 2**20:.2f} GiB; noise rate {found.noise_rate:.4f}, drawn {wrong / count:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", nargs="+", default=list(SETS), metavar="DATASET:NOISE")
    parser.add_argument("--method", choices=("patches", "imagenet", "network"), default="patches")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--filters", type=int, default=512, help="for patches")
    parser.add_argument("--epochs", type=int, default=20, help="for a network")
    parser.add_argument("--loss", help="for a network; default: the recipe's")
    parser.add_argument("--precision", help="for a network, such as bf16")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=Path, help="folder for a network's runs, so that they can be resumed")
    parser.add_argument("--save-probabilities", type=Path, metavar="FOLDER", help="only compute them")
    parser.add_argument("--probabilities", type=Path, metavar="FOLDER", help="score what was saved there")
    parser.add_argument("--out", type=Path, help="write all numbers as JSON")
    parser.add_argument(
        "--million", choices=("rows", "pictures"), help="memory and time of a million samples"
    )
    options = parser.parse_args()
    if options.million is not None:
        {"rows": a_million_rows, "pictures": a_million_pictures}[options.million]()
        return
    results = []
    for name in options.sets:
        file = f"{name.replace(':', '-')}.npz"
        if options.probabilities is not None:
            saved = dict(np.load(options.probabilities / file))
        else:
            saved = make_probabilities(name, options)
        if options.save_probabilities is not None:
            options.save_probabilities.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(options.save_probabilities / file, **saved)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(measure(name, saved))
        print(as_markdown(results[-1]), end="\n\n", flush=True)
    if not results:
        return
    print(bars(results))
    if options.out is not None:
        import cleanlab
        import torch

        machine = {
            "cpu_cores": os.cpu_count(),
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cleanlab": cleanlab.__version__,
        }
        record = {"benchmark": "audit", "machine": machine, "results": results}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
