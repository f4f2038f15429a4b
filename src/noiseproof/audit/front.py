# SPDX-License-Identifier: Apache-2.0
"""``audit(…)``: one call for labels with probabilities, for a model with data, and for pictures alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from noiseproof.audit.checks import checked_columns
from noiseproof.audit.cross_validation import stratified_folds
from noiseproof.audit.names import indices_and_names
from noiseproof.audit.noise_rate import NoiseEstimate
from noiseproof.audit.pictures import audit_pictures
from noiseproof.audit.samples import as_array, in_parts, together
from noiseproof.audit.scores import DEFAULT_SCORE, LabelAudit, score_labels
from noiseproof.datasets import LabeledData, load


def audit(
    labels_or_model: Any = None,
    probabilities_or_data: Any = None,
    *,
    labels: Any = None,
    pred_probs: Any = None,
    class_names: Sequence[Any] | None = None,
    folds: int = 3,
    score: str = DEFAULT_SCORE,
    noise: NoiseEstimate | None = None,
    folder: Path | None = None,
    seed: int = 0,
) -> LabelAudit:
    """Find wrong labels.

    Args:
        labels_or_model: what is audited, or with what:

            * labels (N,), with probabilities (N, K) as second argument, each row by a model that did not see that
              sample: class indices, or names, whose classes are the columns in sorted order unless ``class_names``
              says otherwise;
            * a scikit-learn classifier (:class:`~noiseproof.sklearn.RobustClassifier` or any other that has
              ``predict_proba``), which is cross-validated on ``(X, y)``;
            * a trained ``nn.Module`` that did not see these samples, which predicts ``(inputs, labels)``;
            * the name of a network (``noiseproof models``), which the training engine cross-validates on pictures
              with the plan for them; or ``"patches"``: no network, features made without labels; or
              ``"imagenet"``: the same, for photographs, on features of a network that has seen ImageNet.
        probabilities_or_data: what goes with it. Samples for a classifier or a module: two arrays or tensors, or a
            torch dataset or loader of such pairs, which is read in the order of the dataset even where the loader
            shuffles. Pictures for a network's name: :class:`~noiseproof.datasets.LabeledData` or a name such as
            ``"folder:photos"``.
        labels: instead of the first argument, with ``pred_probs``.
        pred_probs: instead of the second argument, with ``labels``.
        class_names: of all classes, in the order of their indices.
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
        >>> sure = [[0.1, 0.9], [0.8, 0.2]]
        >>> found = audit(labels=["dog", "cat"] * 9 + ["cat"], pred_probs=sure * 9 + [[0.1, 0.9]])
        >>> found.worst_first[0], found.suggested_names[18]
        (np.int64(18), np.str_('dog'))
    """
    subject = _either("labels", labels_or_model, labels)
    other = _either("pred_probs", probabilities_or_data, pred_probs)
    if isinstance(subject, str):
        if class_names is not None:
            raise ValueError(f"class_names: image data sets have their own, got {class_names!r}")
        data = load(other) if isinstance(other, str) else other
        if not isinstance(data, LabeledData):
            raise TypeError(
                f"data: expected images (LabeledData or a name such as 'folder:photos') for the network "
                f"{subject!r}, got {type(other).__name__}"
            )
        model = None if subject in ("patches", "imagenet") else subject
        found = audit_pictures(
            data,
            method=subject if model is None else "network",
            source=other if isinstance(other, str) else None,
            model=model,
            folds=folds,
            score=score,
            folder=folder,
            seed=seed,
            quiet=True,
        ).labels
        return replace(found, class_names=np.array(data.class_names))
    if hasattr(subject, "predict_proba"):
        features, given = together(other)
        indices, names = indices_and_names(given, class_names)
        assert names is not None
        probabilities = _cross_validated(subject, features, indices, len(names), folds, seed)
    else:
        is_network = isinstance(subject, nn.Module)
        given, probabilities = (
            _predicted(subject, other) if is_network else (as_array(subject), as_array(other))
        )
        indices, names = indices_and_names(given, class_names, columns=checked_columns(probabilities))
    return replace(score_labels(indices, probabilities, score=score, noise=noise), class_names=names)


def _either(name: str, by_place: Any, by_name: Any) -> Any:
    if (by_place is None) == (by_name is None):
        came = "nothing" if by_name is None else f"{name}= beside it"
        raise TypeError(
            "audit: expected labels with probabilities or a model with data, or labels=… with pred_probs=…, got "
            f"{came}"
        )
    return by_name if by_place is None else by_place


@torch.no_grad()
def _predicted(model: nn.Module, data: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Labels (N,), and what the network says of each sample (N, K)."""
    weights = [each for each in model.parameters() if each.is_floating_point()]
    device = weights[0].device if weights else torch.device("cpu")
    modes = [(each, each.training) for each in model.modules()]
    labels, probabilities = [], []
    model.eval()
    try:
        for inputs, given in in_parts(data):
            # Numbers of another precision fit; whole numbers may be meant as such, and pictures need scaling first.
            dtype = weights[0].dtype if weights and inputs.is_floating_point() else inputs.dtype
            probabilities.append(_logits(model, inputs.to(device, dtype)).float().softmax(1).cpu())
            labels.append(given)
    finally:
        for each, training in modes:
            each.training = training
    if not labels:
        raise ValueError("data: expected at least one sample, got none")
    return np.concatenate(labels), torch.cat(probabilities).numpy()


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    try:
        logits = model(inputs)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise ValueError(
            f"data: the network does not accept inputs of {inputs.dtype} and shape {tuple(inputs.shape)}: {error}"
        ) from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        what = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"model: expected logits of shape ({len(inputs)}, K), got {what}")
    return logits


def _cross_validated(
    classifier: Any, features: Any, given: NDArray[np.int64], num_classes: int, folds: int, seed: int
) -> NDArray[Any]:
    from sklearn.base import clone

    part = stratified_folds(given, folds, seed)
    probabilities = np.zeros((len(given), num_classes))
    for fold in range(folds):
        rest, held_out = np.flatnonzero(part != fold), np.flatnonzero(part == fold)
        fitted = clone(classifier).fit(_rows(features, rest), given[rest])
        # A rare class may be missing from the samples that were trained on.
        probabilities[np.ix_(held_out, fitted.classes_)] = fitted.predict_proba(_rows(features, held_out))
    return probabilities


def _rows(features: Any, which: NDArray[np.int64]) -> Any:
    return features.iloc[which] if hasattr(features, "iloc") else features[which]
