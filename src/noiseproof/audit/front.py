# SPDX-License-Identifier: Apache-2.0
"""``audit(…)``: one call for labels with probabilities, for a model with data, and for pictures alone."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from noiseproof.audit.cross_validation import stratified_folds
from noiseproof.audit.noise_rate import NoiseEstimate
from noiseproof.audit.pictures import audit_pictures
from noiseproof.audit.scores import DEFAULT_SCORE, LabelAudit, score_labels
from noiseproof.datasets import LabeledData, load

ROWS_AT_A_TIME = 1024


def audit(
    labels_or_model: Any,
    probabilities_or_data: Any,
    *,
    folds: int = 3,
    score: str = DEFAULT_SCORE,
    noise: NoiseEstimate | None = None,
    folder: Path | None = None,
    seed: int = 0,
) -> LabelAudit:
    """Find wrong labels.

    Args:
        labels_or_model: what is audited, or with what:

            * class indices (N,), with probabilities (N, K) as second argument, each row by a model that did not see
              that sample;
            * a scikit-learn classifier (:class:`~noiseproof.sklearn.RobustClassifier` or any other that has
              ``predict_proba``), which is cross-validated on ``(X, y)``;
            * a trained ``nn.Module`` that did not see these samples, which predicts tensors ``(inputs, labels)``;
            * the name of a network (``noiseproof models``), which the training engine cross-validates on pictures
              with the plan for them; or ``"patches"``: no network, features that no label had a part in.
        probabilities_or_data: what goes with it; pictures are :class:`~noiseproof.datasets.LabeledData` or a name
            such as ``"folder:photos"``.
        folds: parts of the cross-validation.
        score: a name in :data:`noiseproof.audit.SCORES`.
        noise: an estimate made before.
        folder: where the runs of a network go; a temporary folder by default.
        seed: draws parts and filters.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> measures, species = load_iris(return_X_y=True)
        >>> species[3] = 2
        >>> audit(LogisticRegression(max_iter=500), (measures, species)).worst_first[0]
        np.int64(3)
    """
    subject, other = labels_or_model, probabilities_or_data
    if isinstance(subject, str):
        data = load(other) if isinstance(other, str) else other
        if not isinstance(data, LabeledData):
            raise TypeError(
                f"data: expected pictures (LabeledData or a name such as 'folder:photos') for the network "
                f"{subject!r}, got {type(other).__name__}"
            )
        model = None if subject == "patches" else subject
        return audit_pictures(
            data,
            method="patches" if model is None else "network",
            source=other if isinstance(other, str) else None,
            model=model,
            folds=folds,
            score=score,
            folder=folder,
            seed=seed,
            quiet=True,
        ).labels
    if isinstance(subject, nn.Module):
        inputs, labels = _pair(other)
        return score_labels(labels, _predicted(subject, inputs), score=score, noise=noise)
    if hasattr(subject, "predict_proba"):
        features, labels = _pair(other)
        return _of_classifier(subject, features, labels, folds, score, noise, seed)
    return score_labels(_array(subject), _array(other), score=score, noise=noise)


def _pair(data: Any) -> tuple[Any, Any]:
    if not isinstance(data, tuple) or len(data) != 2:
        raise TypeError(f"data: expected a pair (samples, labels), got {type(data).__name__}")
    return data


def _array(values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.is_floating_point() else values).numpy()
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else np.asarray(values)
    return array


@torch.no_grad()
def _predicted(model: nn.Module, inputs: Any) -> NDArray[np.float32]:
    inputs = torch.as_tensor(inputs)
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    was_training = model.training
    model.eval()
    parts = [
        model(inputs[start : start + ROWS_AT_A_TIME].to(device)).float().softmax(1).cpu()
        for start in range(0, len(inputs), ROWS_AT_A_TIME)
    ]
    model.train(was_training)
    return torch.cat(parts).numpy()


def _of_classifier(
    classifier: Any,
    features: Any,
    labels: Any,
    folds: int,
    score: str,
    noise: NoiseEstimate | None,
    seed: int,
) -> LabelAudit:
    from sklearn.base import clone

    _, given = np.unique(_array(labels), return_inverse=True)
    part = stratified_folds(given, folds, seed)
    probabilities = np.zeros((len(given), int(given.max()) + 1))
    for fold in range(folds):
        rest, held_out = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        fitted = clone(classifier).fit(_rows(features, rest), given[rest])
        # A rare class may be missing from the samples that were trained on.
        probabilities[np.ix_(held_out, fitted.classes_)] = fitted.predict_proba(_rows(features, held_out))
    return score_labels(given, probabilities, score=score, noise=noise)


def _rows(features: Any, which: NDArray[np.int64]) -> Any:
    return features.iloc[which] if hasattr(features, "iloc") else features[which]
