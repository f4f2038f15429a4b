# SPDX-License-Identifier: Apache-2.0
"""An audit of pictures from beginning to end: train, score, estimate."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.audit import network_features
from noiseproof.audit.cross_validation import network_probabilities, picture_probabilities, stratified_folds
from noiseproof.audit.dynamics import Dynamics, record_dynamics, score_dynamics
from noiseproof.audit.scores import DEFAULT_SCORE, SCORES, LabelAudit, score_labels
from noiseproof.datasets import LabeledData
from noiseproof.datasets.check import check_several_classes, numbered_contents
from noiseproof.datasets.identity import OWN
from noiseproof.losses.checks import unknown
from noiseproof.training.config import Config
from noiseproof.training.data import TrainingData

METHODS: Mapping[str, str] = {
    "patches": "a cross-validated linear model on features made without labels",
    "imagenet": "the same on features of a network that has seen ImageNet, for photographs",
    "network": "a network, trained once per fold by the training engine",
    "dynamics": "a network, trained once; how the loss, margin and ∂NNCE of each sample changed",
}
"""Ways to look at pictures."""


@dataclass(frozen=True, eq=False)
class PictureAudit:
    """An audit of pictures.

    Attributes:
        labels: what was found of each label.
        method: how it was found.
        probabilities: (N, K), out-of-sample; of ``dynamics`` the mean over the epochs.
        dynamics: of a single run; ``None`` for cross-validation.
        config: of the network, if there was one.
    """

    labels: LabelAudit
    method: str
    probabilities: NDArray[np.float32]
    dynamics: Dynamics | None = None
    config: Config | None = None


def default_method(data: LabeledData, device: str = "auto") -> str:
    """``network`` where there is a GPU, elsewhere ``imagenet`` for what may be photographs, and ``patches``.

    Example:
        >>> from noiseproof import datasets
        >>> default_method(datasets.load("digits"), "cpu")
        'patches'
    """
    from noiseproof.training.environment import choose_device

    if choose_device(device).type != "cpu":
        return "network"
    return "imagenet" if network_features.suits(data) else "patches"


def audit_pictures(
    data: LabeledData,
    *,
    method: str = "patches",
    source: str | None = None,
    model: str | None = None,
    settings: Mapping[str, Any] | None = None,
    folds: int = 3,
    score: str = DEFAULT_SCORE,
    folder: Path | None = None,
    seed: int = 0,
    filters: int = 512,
    workers: int = 0,
    quiet: bool = False,
    tell: Callable[[str, float], None] | None = None,
) -> PictureAudit:
    """Audit the labels of pictures.

    Args:
        data: pictures with their given labels.
        method: a name in :data:`METHODS`.
        source: name under which ``data`` was loaded, whose recipe or plan a network is trained by; planned from the
            data by default.
        model: name of the network; the recipe's or the plan's by default.
        settings: further fields of :class:`~noiseproof.training.Config`, such as ``epochs``.
        folds: parts of the cross-validation.
        score: a name in :data:`noiseproof.audit.SCORES`, for cross-validation.
        folder: where runs of a network go, so that a stopped audit can go on; a temporary folder by default.
        seed: draws parts and filters, and is the first fold's seed.
        filters: of ``patches``.
        workers: processes that decode picture files.
        quiet: show no progress of training.
        tell: told what is being done and what share of it is done.
    """
    if method not in METHODS:
        raise ValueError(unknown("method", method, tuple(METHODS)))
    if data.masks is not None:
        raise ValueError(f"data: {data.name} has masks; an audit looks at labels of whole images")
    check_several_classes(source or data.name, data)
    if method != "dynamics":  # told now, not when features are made or a network is planned
        if score not in SCORES:
            raise ValueError(unknown("score", score, tuple(SCORES)))
        stratified_folds(data.labels, folds, seed, numbered_contents(data))
    if method in ("patches", "imagenet"):
        probabilities = picture_probabilities(
            data,
            folds=folds,
            filters=filters,
            from_imagenet=method == "imagenet",
            seed=seed,
            workers=workers,
            device=(settings or {}).get("device", "auto"),
            tell=tell or _silence,
        )
        return PictureAudit(score_labels(data.labels, probabilities, score=score), method, probabilities)
    config, training = training_for(data, source, model, settings or {}, seed)
    if method == "dynamics":
        dynamics = record_dynamics(config, training, tell=tell)
        found = score_dynamics(data.labels, dynamics)
        return PictureAudit(found, method, dynamics.probabilities, dynamics, config)
    with tempfile.TemporaryDirectory() as temporary:
        kept = folder or Path(temporary)
        runs = kept / f"{data.fingerprint[:12]}-{folds}"
        probabilities = network_probabilities(config, training, runs, folds=folds, quiet=quiet)
    found = score_labels(data.labels, probabilities, score=score)
    return PictureAudit(found, method, probabilities, config=config)


def _silence(what: str, share: float) -> None:
    pass


def training_for(
    data: LabeledData, source: str | None, model: str | None, settings: Mapping[str, Any], seed: int
) -> tuple[Config, TrainingData]:
    """Config and training data for all samples, with their labels as given."""
    from noiseproof.planning.own_data import plan_for
    from noiseproof.training.config import default_recipe, resolve
    from noiseproof.training.data import of_given_labels
    from noiseproof.training.environment import choose_device

    dataset = source or data.name
    said = {**settings, "noise": "clean", "seed": seed} | ({} if model is None else {"model": model})
    if default_recipe(dataset) is None and dataset.startswith(OWN):
        said = {choice.field: choice.value for choice in plan_for(dataset, said)} | said
    config = resolve(dataset, **said)
    config = replace(config, evaluate_every=config.epochs)
    return config, of_given_labels(config, data, choose_device(config.device))
