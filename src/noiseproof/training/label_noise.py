# SPDX-License-Identifier: Apache-2.0
"""The labels that a config's noise gives: drawn, given by people, or read from a file."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof import datasets, noise
from noiseproof.datasets import LabeledData
from noiseproof.datasets.tuning import PREFIX as TUNING
from noiseproof.noise import NoiseName, NoisyLabels
from noiseproof.noise.names import GENERATORS_OF_KIND
from noiseproof.training.config import Config
from noiseproof.training.noise_files import saved_labels

LABELED_BY_PEOPLE = ("cifar10", "cifar100")
"""Data sets whose training images people have labelled again: CIFAR-10N and CIFAR-100N."""

LEAST_OF_THE_RATE = 0.75
"""Share of the rate that was asked for below which users are told of what came out."""


def draw_noise(config: Config, train: LabeledData) -> NoisyLabels | None:
    """Label noise of a config, or ``None`` for labels as they are."""
    name = noise.parse_name(config.noise)
    labels, classes, seed = train.labels, train.num_classes, config.drawn_with
    if name.kind == "clean":
        return None
    if name.kind == "real":
        return _human_noise(config, train)
    if name.path is not None:
        return saved_labels(config, train)
    assert name.rate is not None
    generator = name.generator or GENERATORS_OF_KIND.get(name.kind, ("",))[0]
    if name.kind == "sym":
        return noise.symmetric(labels, name.rate, classes, seed, generator)
    if name.kind == "asym":
        flips = _flips(config.dataset, classes)
        return noise.asymmetric(labels, name.rate, flips, seed, generator=generator)
    if name.kind == "dep":
        if train.images is None:
            raise ValueError(
                "noise: instance-dependent noise needs images in memory; this data set has files"
            )
        return noise.instance_dependent(train.images, labels, name.rate, classes, seed, generator)
    found = noise.draw_own(name, train, seed)
    if found is None:
        raise ValueError(f"noise: {config.noise!r} does not apply to classification")
    return found


def shortfall_of(name: str, realised: float) -> str | None:
    """Tell that far fewer labels became wrong than symmetric noise says, as happens where classes are small.

    >>> print(shortfall_of("sym-0.4", 0.1))
    sym-0.4 made 10.0% of the labels wrong: counts for each pair of classes are rounded down, and the classes are
    small; --noise sym-0.4-bernoulli draws each label by itself
    >>> shortfall_of("sym-0.4", 0.39)
    """
    asked = noise.parse_name(name)
    if asked.kind != "sym" or not asked.rate or realised > LEAST_OF_THE_RATE * asked.rate:
        return None
    return (
        f"{name} made {realised:.1%} of the labels wrong: counts for each pair of classes are rounded down, and "
        f"the classes are small; --noise {NoiseName('sym', asked.rate, generator='bernoulli')} draws each label by "
        "itself"
    )


def _flips(dataset: str, num_classes: int) -> Any:
    known = {
        "cifar10": "cifar10",
        "cifar100": "cifar100-blocks",
        "fashion-mnist": "mnist-like",
        "digits": "mnist-like",
        "cifar10n": "cifar10",
        "cifar100n": "cifar100-blocks",
    }
    return known.get(dataset.removeprefix(TUNING)) or {k: (k + 1) % num_classes for k in range(num_classes)}


def _human_noise(config: Config, train: LabeledData) -> NoisyLabels:
    """Labels that people gave, less those of images whose place in the official order is not certain."""
    if config.dataset not in LABELED_BY_PEOPLE:
        raise ValueError(
            f"noise: real labels exist for {' and '.join(LABELED_BY_PEOPLE)}, not for {config.dataset}"
            + ("; its labels are those already" if config.dataset.endswith("n") else "")
        )
    if config.train_size is not None:
        raise ValueError("train_size: human labels belong to the whole training set; leave it out")
    human = datasets.human_labels(f"{config.dataset}n")
    placed = certain(datasets.load(config.dataset))
    if len(placed) != len(train):
        raise ValueError(
            f"noise: {len(train) - len(placed)} images of {config.dataset} have no certain human label, so real "
            "noise cannot share a pack with another one"
        )
    return noise.from_arrays(human.labels[placed], human.clean[placed], human.key, train.labels)


def certain(data: LabeledData) -> NDArray[np.int64]:
    """Samples whose place in the official order is certain."""
    everything = np.arange(len(data), dtype=np.int64)
    return everything if data.uncertain is None else np.setdiff1d(everything, data.uncertain)
