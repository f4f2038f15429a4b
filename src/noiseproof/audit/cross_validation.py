# SPDX-License-Identifier: Apache-2.0
"""Out-of-sample probabilities: every sample is judged by a model that did not see it.

Two ways. :func:`linear_probabilities` fits a linear model to features that are there before any label is looked at;
:func:`network_probabilities` trains a network of the user's choice with the training engine, one run a fold.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof.audit.features import PatchFeatures, picture_blocks, some_pictures
from noiseproof.audit.network_features import NetworkFeatures
from noiseproof.audit.noise_rate import blocks
from noiseproof.datasets import LabeledData
from noiseproof.datasets.check import numbered_contents
from noiseproof.training.config import Config, with_changes
from noiseproof.training.data import TrainingData, test_batches

PENALTIES = (0.01, 0.1, 1.0)
"""Ridge penalties to choose from, as a share of the training samples."""

PENALTIES_OF_A_NETWORK = (0.1, 1.0, 10.0)
"""Of features of a network: a thousand numbers that go together can learn a few thousand labels by heart."""

SAMPLE_OF_A_NETWORK = 500
"""Pictures from which means and deviations of a network's features are taken."""

FEATURES_KEPT_BYTES = 1 << 30
"""Features that take more than this are computed twice instead of kept."""

EVALUATION_BATCH = 500
SMALLEST_PROBABILITY = 1e-7

Features = Callable[[], Iterator[tuple[NDArray[np.int64], Tensor]]]
"""Gives ``(indices, features)`` of all samples, as often as it is called."""

Tell = Callable[[str, float], None]
"""Told what is being done, and what share of it is done."""


def _silence(what: str, share: float) -> None:
    pass


def stratified_folds(
    labels: NDArray[np.int64], folds: int, seed: int = 0, contents: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Part of each sample (N,): every class is shared out evenly.

    Args:
        labels: (N,).
        folds: number of parts.
        seed: draws them.
        contents: a number a sample, equal where samples are copies of one another; these go into the same part, or
            a model would have seen the very sample that it is asked about, with its label.

    Example:
        >>> np.bincount(stratified_folds(np.array([0] * 6 + [1] * 3), 3))
        array([3, 3, 3])
        >>> part = stratified_folds(np.array([0, 0, 0, 1, 1, 1]), 2, contents=np.array([0, 0, 1, 2, 3, 3]))
        >>> bool(part[0] == part[1] and part[4] == part[5])
        True
    """
    if contents is not None:
        _, first, which = np.unique(contents, return_index=True, return_inverse=True)
        if len(first) < len(labels):
            return stratified_folds(labels[first], folds, seed)[which]
    if not 2 <= folds <= len(labels):
        raise ValueError(f"folds: expected a number from 2 to {len(labels)}, the samples, got {folds}")
    shuffled = np.random.RandomState(seed).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    part = np.empty(len(labels), dtype=np.int64)
    part[by_class] = np.arange(len(labels)) % folds
    return part


def linear_probabilities(
    features: Features,
    labels: NDArray[np.int64],
    num_classes: int,
    *,
    folds: int = 3,
    seed: int = 0,
    penalties: Sequence[float] = PENALTIES,
    contents: NDArray[np.int64] | None = None,
    tell: Tell = _silence,
) -> NDArray[np.float32]:
    """Cross-validated probabilities (N, K) of a linear model, by ridge regression in closed form.

    Squared error is the one for which noise is harmless in expectation: what is regressed on one-hot given labels
    is T's image of what would be regressed on true ones. The penalty is the one that predicts the given labels of
    held-out samples best; so is the temperature that turns predictions into probabilities.

    Memory: one matrix (D, D) a fold, and one number a sample and class. Features are read twice.

    Args:
        features: gives features (n, D) part by part.
        labels: given labels (N,).
        num_classes: K.
        folds: parts of the cross-validation.
        seed: draws the parts.
        penalties: to choose from, as a share of the training samples.
        contents: which samples are copies, see :func:`stratified_folds`.
        tell: told of progress.
    """
    part = stratified_folds(labels, folds, seed, contents)
    shares = np.bincount(labels, minlength=num_classes) / len(labels)
    squares, products = _moments(features, part, labels, shares, folds, tell)
    weights = _ridge(squares, products, part, penalties, tell)
    del squares
    predictions = np.empty((len(labels), num_classes), np.float32)
    done = 0
    for indices, block in features():
        for fold in range(folds):
            rows = np.flatnonzero(part[indices] == fold)
            predictions[indices[rows]] = (block[rows] @ weights[fold]).numpy()
        done += len(indices)
        tell("predicting", done / len(labels))
    predictions += shares.astype(np.float32)
    return _with_temperature(predictions, labels)


def _moments(
    features: Features,
    part: NDArray[np.int64],
    labels: NDArray[np.int64],
    shares: NDArray[np.float64],
    folds: int,
    tell: Tell,
) -> tuple[Tensor, Tensor]:
    """XᵀX and XᵀY of each fold, Y one-hot labels less the share of each class."""
    squares = products = torch.empty(0)
    done = 0
    for indices, block in features():
        if not len(squares):
            dimensions = block.shape[1]
            squares = torch.zeros(folds, dimensions, dimensions)
            products = torch.zeros(folds, dimensions, len(shares))
        targets = torch.from_numpy(np.eye(len(shares))[labels[indices]] - shares).float()
        for fold in range(folds):
            rows = np.flatnonzero(part[indices] == fold)
            squares[fold].addmm_(block[rows].T, block[rows])
            products[fold].addmm_(block[rows].T, targets[rows])
        done += len(indices)
        tell("reading images", done / len(part))
    return squares, products


def _ridge(
    squares: Tensor, products: Tensor, part: NDArray[np.int64], penalties: Sequence[float], tell: Tell
) -> list[Tensor]:
    """Weights (D, K) by fold, from the other folds' samples, with the penalty that predicts the fold's best."""
    all_squares, all_products = squares.sum(0), products.sum(0)
    weights: dict[float, list[Tensor]] = {penalty: [] for penalty in penalties}
    errors = dict.fromkeys(penalties, 0.0)
    for fold in range(len(squares)):
        others, count = all_squares - squares[fold], int((part != fold).sum())
        for penalty in penalties:
            regular = others + penalty * count * torch.eye(len(others))
            solved = torch.cholesky_solve(all_products - products[fold], torch.linalg.cholesky(regular))
            weights[penalty].append(solved)
            # Squared error on the fold, less the part that no weights change.
            errors[penalty] += float((solved * (squares[fold] @ solved - 2 * products[fold])).double().sum())
        tell("fitting", (fold + 1) / len(squares))
    return weights[min(penalties, key=errors.__getitem__)]


def _with_temperature(predictions: NDArray[np.float32], labels: NDArray[np.int64]) -> NDArray[np.float32]:
    """Softmax of predictions, scaled so that the given labels are as likely as they can be; in their place."""
    from scipy.optimize import minimize_scalar

    chosen = np.random.RandomState(0).permutation(len(labels))[:50_000]
    some, of_some = predictions[chosen].astype(np.float64), labels[chosen]

    def surprise(log_scale: float) -> float:
        scaled = np.exp(log_scale) * some
        highest = scaled.max(1)
        sums = np.log(np.exp(scaled - highest[:, None]).sum(1)) + highest
        return float((sums - scaled[np.arange(len(of_some)), of_some]).mean())

    scale = float(np.exp(minimize_scalar(surprise, bounds=(-4, 6), method="bounded").x))
    for rows in blocks(*predictions.shape):
        scaled = predictions[rows] * np.float32(scale)
        scaled = np.exp(scaled - scaled.max(1, keepdims=True))
        predictions[rows] = scaled / scaled.sum(1, keepdims=True)
    return predictions


def picture_probabilities(
    data: LabeledData,
    *,
    folds: int = 3,
    filters: int = 512,
    from_imagenet: bool = False,
    seed: int = 0,
    workers: int = 0,
    device: str = "auto",
    tell: Tell = _silence,
) -> NDArray[np.float32]:
    """Cross-validated probabilities (N, K) of pictures by :func:`linear_probabilities` on features without labels.

    Args:
        data: pictures with their given labels.
        folds: parts of the cross-validation.
        filters: number of patches.
        from_imagenet: take the features of a network that has seen ImageNet instead of those of patches.
        seed: draws parts and patches.
        workers: processes that decode files.
        device: where that network computes.
        tell: told of progress.
    """
    make: PatchFeatures | NetworkFeatures
    if from_imagenet:
        some = some_pictures(data, SAMPLE_OF_A_NETWORK, seed, side=NetworkFeatures.side, enlarge=True)
        make, penalties = NetworkFeatures(some, device=device), PENALTIES_OF_A_NETWORK
    else:
        make = PatchFeatures(some_pictures(data, seed=seed), filters=filters, seed=seed)
        penalties = PENALTIES
    keeps = len(data) * make.dimensions * 2 <= FEATURES_KEPT_BYTES
    kept: list[tuple[NDArray[np.int64], Tensor]] = []

    def features() -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        if kept:
            for indices, block in kept:
                yield indices, block.float()
            return
        for indices, pictures in picture_blocks(data, workers, side=make.side, enlarge=from_imagenet):
            block = make(pictures)
            if keeps:
                kept.append((indices, block.half()))
            yield indices, block

    return linear_probabilities(
        features,
        data.labels,
        data.num_classes,
        folds=folds,
        seed=seed,
        penalties=penalties,
        contents=numbered_contents(data),
        tell=tell,
    )


def network_probabilities(
    config: Config, data: TrainingData, folder: Path, *, folds: int = 3, quiet: bool = False
) -> NDArray[np.float32]:
    """Cross-validated probabilities (N, K) of a network that the training engine trains, one run a fold.

    Runs are recorded in ``folder`` like all others: what was stopped goes on, what is finished is not trained
    again.

    Args:
        config: how to train; fold f has its seed plus f.
        data: training samples with their given labels; what it holds for testing is not looked at.
        folder: where runs go.
        folds: parts of the cross-validation.
        quiet: show no progress.
    """
    from noiseproof.training.engine import train
    from noiseproof.training.predict import load_trained

    labels = data.train.labels
    part = stratified_folds(labels, folds, config.seed, numbered_contents(data.train))
    probabilities = np.empty((len(labels), data.num_classes), np.float32)
    for fold in range(folds):
        rest, held_out = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        of_fold = _split(data, rest, held_out)
        changed = with_changes(config, seed=config.seed + fold, noise="clean", evaluate_every=config.epochs)
        record = train(changed, folder=folder, data=of_fold, quiet=quiet)
        model = load_trained(folder / record.id, data.device)
        with torch.no_grad():
            rows = [
                model.network(images).float().softmax(1).cpu()
                for images, _ in test_batches(of_fold, EVALUATION_BATCH, config.workers)
            ]
        probabilities[held_out] = torch.cat(rows).numpy()
    # Losses that resist wrong labels are surer of themselves than the given labels warrant.
    return _with_temperature(np.log(np.maximum(probabilities, SMALLEST_PROBABILITY)), labels)


def _split(data: TrainingData, rest: NDArray[np.int64], held_out: NDArray[np.int64]) -> TrainingData:
    """Training data of which some samples are held out for testing."""
    train, test = data.train.subset(rest), data.train.subset(held_out)
    images = None if data.images is None else data.images[torch.from_numpy(rest).to(data.device)]
    test_images = None if data.images is None else data.images[torch.from_numpy(held_out).to(data.device)]
    return replace(
        data,
        train=train,
        test=replace(test, split="test"),
        images=images,
        test_images=test_images,
        test_labels=torch.from_numpy(test.labels).to(data.device),
        held_out=True,
        given={},
    )
