# SPDX-License-Identifier: Apache-2.0
"""A scikit-learn classifier whose training resists wrong labels."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import nn

from noiseproof import models
from noiseproof.losses import create
from noiseproof.sklearn import checks
from noiseproof.sklearn.automatic import BATCH, Choice, automatic
from noiseproof.sklearn.fitting import Samples, Settings, log_probabilities, train
from noiseproof.sklearn.inputs import Rows, Scaling, as_floats, merged, off_torch
from noiseproof.sklearn.out_of_sample import out_of_sample_probabilities
from noiseproof.sklearn.suspects import score_labels

ModelFactory = Callable[[Any, int], nn.Module]


class RobustClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network trained with a noise-robust loss, used like any classifier of scikit-learn.

    Takes NumPy arrays, data frames, sparse tables and tensors; class labels of any kind. What is left at
    ``"auto"`` is chosen by :func:`noiseproof.sklearn.automatic` and found, with its reason, in ``choices_``.

    Args:
        loss: name in the catalogue of losses (``noiseproof losses``).
        alpha: weight of the active part, for losses that have one.
        beta: weight of the passive part, for losses that have one.
        loss_parameters: further hyper-parameters of the loss, such as ``{"gamma": 0.5}``.
        l1: strength δ of the L1 penalty on all parameters of the network.
        weight_decay: strength of the squared penalty, for losses that are not used with L1.
        model: ``"mlp"``; the name of another network of :mod:`noiseproof.models`, for images (N, C, H, W); or a
            function ``(in_features, num_classes)`` that makes an ``nn.Module`` whose output are logits (N, K). Its
            first argument is a number for tables and the shape of a sample otherwise.
        hidden: widths of the perceptron's hidden layers; ``()`` makes it a linear model.
        epochs: passes over the data.
        batch_size: samples a step. Where all fit into one batch, weighing a sample with 2 is exactly repeating it.
        learning_rate: Adam's, at the start; it falls to 0 along a cosine.
        standardize: bring features to one scale first: columns of tables and channels of images to zero mean and
            unit variance, columns of sparse tables to a largest absolute value of 1.
        early_stopping: hold out a part of the (noisy) labels, look at it up to 50 times, stop after ``patience``
            looks without gain, and keep the best weights. The criterion is the mean of ``1 − p_y``, which symmetric
            noise does not reorder.
        validation_fraction: share of samples held out for early stopping.
        patience: looks without gain before stopping.
        class_weight: ``None``, ``"balanced"`` or a mapping from class to weight.
        suspects: which probabilities ``suspect_labels_`` and ``estimated_noise_`` are computed from:
            ``"in-sample"``, those of the fitted network itself, at no cost; or ``"cross-validated"``, those of
            ``folds`` networks for the samples that each did not see, at the cost of training them.
        folds: number of parts for ``suspects="cross-validated"``.
        device: where to train: ``"cpu"``, ``"cuda"``, or ``"auto"`` for a GPU where there is one.
        random_state: seed of initial weights, batches and held-out part.
        warm_start: go on from the weights of the last ``fit`` where classes and features are the same.
        verbose: print progress, about ten lines a fit.

    Attributes:
        classes_: the classes, sorted.
        choices_: every number in use, as :class:`~noiseproof.sklearn.Choice` with its reason, by name.
        model_: the fitted network.
        loss_curve_: training loss by epoch.
        validation_curve_: held-out error by look; empty without early stopping.
        n_iter_: epochs run.
        suspect_labels_: whether each training label is probably wrong (N,): whether another class is likelier in
            the probabilities that ``suspects`` names. See :func:`~noiseproof.sklearn.score_labels`.
        label_scores_: how suspect each training label is (N,), from 0 to 1.
        suggested_labels_: the likeliest class of each training sample (N,).
        estimated_noise_: estimated share of wrong training labels, a rough one: that of suspect labels. It counts
            the network's own mistakes, so it is too high where classes overlap; in-sample it is too low where few
            samples let the network learn wrong labels after all.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from noiseproof import noise
        >>> features, species = load_iris(return_X_y=True)
        >>> given = noise.symmetric(species, rate=0.4, num_classes=3, seed=1).labels
        >>> classifier = RobustClassifier(random_state=1).fit(features, given)
        >>> classifier.score(features, species) > 0.9
        True
        >>> abs(classifier.estimated_noise_ - 0.4) < 0.05
        True
    """

    def __init__(
        self,
        loss: str = "anl-ce",
        *,
        alpha: float | str = "auto",
        beta: float | str = "auto",
        loss_parameters: Mapping[str, Any] | None = None,
        l1: float | str = "auto",
        weight_decay: float | str = "auto",
        model: str | ModelFactory = "mlp",
        hidden: tuple[int, ...] | str = "auto",
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        standardize: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 10,
        class_weight: str | Mapping[Any, float] | None = None,
        suspects: str = "in-sample",
        folds: int = 5,
        device: str = "cpu",
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.beta = beta
        self.loss_parameters = loss_parameters
        self.l1 = l1
        self.weight_decay = weight_decay
        self.model = model
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.class_weight = class_weight
        self.suspects = suspects
        self.folds = folds
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on samples (N, …) and labels (N,), of which some may be wrong.

        Args:
            X: a table, dense or sparse, or images (N, C, H, W).
            y: one label a sample: numbers, strings, booleans.
            sample_weight: one weight a sample, at least 0.
        """
        checks.parameters(self)
        X, y = validate_data(
            self, off_torch(X), off_torch(y), accept_sparse="csr", dtype="numeric", allow_nd=True
        )
        check_classification_targets(y)
        known = getattr(self, "classes_", None)
        self.classes_, labels = np.unique(y, return_inverse=True)
        weights = self._weights(X, labels, sample_weight)
        X = as_floats(X)

        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        device = checks.device(self.device)
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            self._fit_network(X, labels, weights, known, device, seed)
        self._score_labels(X, labels, weights, seed)
        return self

    def _fit_network(
        self,
        X: Any,
        labels: NDArray[np.int64],
        weights: NDArray[np.float64],
        known: NDArray[Any] | None,
        device: torch.device,
        seed: int,
    ) -> None:
        again = self._can_go_on(known, X.shape[1:])
        self._made_for: tuple[Any, ...] | None = (
            None  # until it is trained: what breaks off is not gone on with
        )
        self._sample_shape = X.shape[1:]
        used = np.flatnonzero(weights > 0)
        X, labels, weights = X[used], labels[used], weights[used]
        if len(used) <= BATCH:
            X, labels, weights = merged(X, labels, weights)
        kept_out = self._held_out(labels, seed) if self.early_stopping else np.array([], dtype=np.int64)
        trained = np.setdiff1d(np.arange(len(labels)), kept_out)
        self.choices_ = self._choices(len(trained))
        if not again:
            self._scaling = Scaling(X, weights) if self.standardize else None
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []
        self.validation_curve_: list[float] = []
        if len(self.classes_) == 1:
            self.model_: Any = None
            return
        # Few samples are trained in double precision: it costs nothing then, and sums in another order agree.
        double = self.model == "mlp" and len(trained) <= BATCH
        self._dtype = torch.float64 if double else torch.float32
        if not again:
            self.model_ = self._network(self._sample_shape)
        self.model_ = self.model_.to(device, self._dtype)
        if not again:
            checks.logits_of_one(self.model_, self._rows(X[:1], device)[slice(0, 1)], len(self.classes_))
        learned = self._samples(X[trained], labels[trained], weights[trained], device)
        held_out = None
        if len(kept_out):
            held_out = self._samples(X[kept_out], labels[kept_out], weights[kept_out], device)
        history = train(
            self.model_,
            self._loss().to(device),
            learned,
            self._settings(),
            torch.Generator().manual_seed(seed),
            held_out,
            (lambda line: print(f"RobustClassifier: {line}", flush=True)) if self.verbose else None,
        )
        self.model_ = self.model_.to("cpu")
        self._made_for = self._form_of_network(self._sample_shape)
        self.n_iter_ = history.epochs
        self.loss_curve_ = history.losses
        self.validation_curve_ = history.held_out

    def _can_go_on(self, known: NDArray[Any] | None, shape: tuple[int, ...]) -> bool:
        """Whether the last fit's network suits these classes and features, and is to be trained on."""
        return (
            self.warm_start
            and known is not None
            and np.array_equal(known, self.classes_)
            and getattr(self, "_made_for", None) == self._form_of_network(shape)
        )

    def _form_of_network(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """What a network that goes on must have been made for."""
        return shape, self.model, self.hidden, self.standardize

    def _samples(
        self, X: Any, labels: NDArray[np.int64], weights: NDArray[np.float64], device: torch.device
    ) -> Samples:
        return Samples(
            self._rows(X, device),
            torch.from_numpy(labels).to(device),
            torch.from_numpy(weights / weights.mean()).to(device, self._dtype),
        )

    def _score_labels(
        self, X: Any, labels: NDArray[np.int64], weights: NDArray[np.float64], seed: int
    ) -> None:
        if self.suspects == "cross-validated" and len(self.classes_) > 1:
            # Class weights are part of the weights, and the labels it is given are numbers of classes.
            unscored = clone(self).set_params(
                suspects="in-sample", warm_start=False, class_weight=None, random_state=seed
            )
            probabilities = out_of_sample_probabilities(unscored, X, labels, weights, self.folds, seed)
        else:
            probabilities = self._probabilities(X)
        scored = score_labels(labels, probabilities, weights)
        self.suspect_labels_ = scored.suspect
        self.label_scores_ = scored.scores
        self.suggested_labels_ = self.classes_[scored.suggested]
        self.estimated_noise_ = scored.noise_rate

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (N, K), columns in the order of ``classes_``.

        A robust loss makes a network surer than its labels: use the order of these numbers rather than their size,
        or calibrate them (``CalibratedClassifierCV``).
        """
        check_is_fitted(self)
        X = validate_data(
            self, off_torch(X), reset=False, accept_sparse="csr", dtype="numeric", allow_nd=True
        )
        return self._probabilities(as_floats(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each sample (N,)."""
        likeliest = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[likeliest]
        return labels

    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        if self.model_ is None:
            return np.ones((X.shape[0], 1))
        if X.shape[1:] != self._sample_shape:
            raise ValueError(f"X: expected samples of shape {self._sample_shape}, got {X.shape[1:]}")
        device = checks.device(self.device)
        log_p = log_probabilities(self.model_.to(device), self._rows(X, device))
        self.model_.to("cpu")
        probabilities: NDArray[np.float64] = log_p.double().softmax(1).cpu().numpy()
        return probabilities

    def _rows(self, X: Any, device: torch.device) -> Rows:
        return Rows(X if self._scaling is None else self._scaling(X), self._dtype, device)

    def _weights(
        self, X: Any, labels: NDArray[np.int64], sample_weight: ArrayLike | None
    ) -> NDArray[np.float64]:
        weights: NDArray[np.float64] = _check_sample_weight(off_torch(sample_weight), X, dtype=np.float64)
        if (weights < 0).any():
            raise ValueError(f"sample_weight: expected weights >= 0, got {weights.min():g}")
        if isinstance(self.class_weight, str):
            of_class = np.bincount(labels, weights, len(self.classes_))
            with np.errstate(divide="ignore"):
                balanced = np.where(of_class > 0, of_class.sum() / (len(of_class) * of_class), 0.0)
            weights = weights * balanced[labels]
        elif self.class_weight is not None:
            y = self.classes_[labels]
            weights = weights * compute_class_weight(self.class_weight, classes=self.classes_, y=y)[labels]
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(f"class_weight: expected finite numbers >= 0, got {self.class_weight}"[:300])
        if not weights.any():
            raise ValueError("sample_weight, class_weight: expected at least one weight > 0, got only zeros")
        return weights

    def _held_out(self, labels: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
        counts = np.bincount(labels)
        size = max(int(np.ceil(self.validation_fraction * len(labels))), len(self.classes_))
        if len(labels) < size + len(self.classes_):
            raise ValueError(
                f"early_stopping: expected samples enough to hold some out, got {len(labels)} of "
                f"{len(self.classes_)} classes; say early_stopping=False"
            )
        splitter = StratifiedShuffleSplit if counts[counts > 0].min() > 1 else ShuffleSplit
        split = splitter(1, test_size=size, random_state=seed).split(labels, labels)
        part: NDArray[np.int64] = next(split)[1]
        return part

    def _choices(self, num_samples: int) -> dict[str, Choice]:
        own_network = self.model != "mlp"
        choices = automatic(self.loss, num_samples, len(self.classes_), own_network=own_network)
        said = {
            name: getattr(self, name)
            for name in ("l1", "weight_decay", "batch_size", "epochs", "hidden", "learning_rate")
            if getattr(self, name) != "auto"
        }
        loss_parameters = {
            name: getattr(self, name) for name in ("alpha", "beta") if getattr(self, name) != "auto"
        } | dict(self.loss_parameters or {})
        if loss_parameters:
            said["loss_parameters"] = choices["loss_parameters"].value | loss_parameters
        return choices | {name: Choice(name, value, "given by the user") for name, value in said.items()}

    def _settings(self) -> Settings:
        names = ("epochs", "batch_size", "learning_rate", "l1", "weight_decay")
        return Settings(**{name: self.choices_[name].value for name in names}, patience=self.patience)

    def _loss(self) -> nn.Module:
        return create(
            self.loss, reduction="none", check_labels=False, **self.choices_["loss_parameters"].value
        )

    def _network(self, shape: tuple[int, ...]) -> nn.Module:
        num_classes = len(self.classes_)
        if callable(self.model):
            network = self.model(shape[0] if len(shape) == 1 else shape, num_classes)
            if not isinstance(network, nn.Module):
                raise TypeError(
                    f"model: expected a function that makes an nn.Module, got one that makes "
                    f"{type(network).__name__}"
                )
            return network
        if self.model == "mlp":
            return models.MLP(int(np.prod(shape)), num_classes, tuple(self.choices_["hidden"].value))
        if len(shape) != 3:
            raise ValueError(
                f"model: {self.model!r} reads images (N, C, H, W), got samples of shape {shape}; use 'mlp'"
            )
        return models.create(self.model, num_classes, in_channels=shape[0], image_size=(shape[1], shape[2]))
