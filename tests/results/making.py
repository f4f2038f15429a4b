# SPDX-License-Identifier: Apache-2.0
"""Results made up for tests; none of them ever enters results or documents."""

import math
from dataclasses import replace

import numpy as np

from noiseproof.grids import Grid, Method, load
from noiseproof.noise import parse_name
from noiseproof.results import Curves, Gathered, Pulls, Result

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def grid_of(methods=("ce", "anl-ce"), noises=("sym-0.6",), seeds=(1, 2, 3), **said):
    """A small grid on digits, whose methods are labelled with the loss's name in capitals."""
    made = tuple(
        method if isinstance(method, Method) else Method(method.upper(), method) for method in methods
    )
    given = {
        "name": "small",
        "title": "A small grid",
        "dataset": "digits",
        "kind": "table",
        "settings": {"epochs": 4},
    }
    return Grid(methods=made, noises=tuple(noises), seeds=tuple(seeds), **(given | said))


def result_of(cell, accuracy, epochs=4, classes=10, **changes):
    """The result of a cell of a grid, with curves that end in ``accuracy``."""
    rate = parse_name(cell.noise).rate or 0.0
    ramp = [1 - math.exp(-4 * (epoch + 1) / epochs) for epoch in range(epochs)]
    pulls = None
    if cell.config.gradient_quantiles:
        spread = tuple(0.5 + level for level in QUANTILES)
        doubled = tuple(2 * value for value in spread)
        pulls = Pulls(QUANTILES, (spread,) * epochs, (doubled,) * epochs, (1.1,) * epochs, (2.2,) * epochs)
    stays = np.eye(classes)
    facts = {
        "kind": "symmetric",
        "generator": "exact",
        "seed": cell.seed,
        "class_rates": [rate] * classes,
        "label_marginals": [1 / classes] * classes,
        "transition": ((1 - rate) * stays + rate / (classes - 1) * (1 - stays)).tolist(),
    }
    made = Result(
        dataset=cell.config.dataset,
        loss=cell.config.loss,
        noise=cell.config.noise,
        seed=cell.seed,
        score=accuracy,
        config_hash=cell.config.hash,
        method=cell.method.label,
        run=cell.config.run_id,
        config=cell.config.as_data(),
        seconds=90.0,
        realised_rate=rate,
        noise_facts=facts,
        curves=Curves(
            (*(accuracy * share for share in ramp[:-1]), accuracy),
            tuple(90 * share for share in ramp),
            tuple(10 * share if rate else None for share in ramp),
        ),
        predicted_marginals=(1 / classes,) * classes,
        pulls=pulls,
        environment={
            "hardware": "x86_64",
            "device": "cpu",
            "threads": 1,
            "versions": {"torch": "2.9"},
            "commit": "0123456789abcdef",
        },
    )
    return replace(made, **changes)


def gathered_of(grid, accuracy=lambda cell: 50.0 + cell.seed, **said):
    """Results for every cell of a grid; a cell without an accuracy is missing."""
    cells = grid.cells()
    results = tuple(result_of(cell, value, **said) for cell in cells if (value := accuracy(cell)) is not None)
    return Gathered(grid, results, expected=len(cells), missing=len(cells) - len(results))


def shipped(name, epochs=120):
    """Results for every cell of a grid of the package, as large as real ones."""
    random = np.random.default_rng(7)
    return gathered_of(load(name), lambda cell: float(random.uniform(20, 95)), epochs=epochs)
