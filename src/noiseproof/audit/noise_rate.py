"""How many labels are wrong, and which classes they are mistaken for, from out-of-sample probabilities alone.

A model trained on given labels predicts these, not the true ones. Both are told apart by fitting

    P(given = j | x) = Σ_k  softmax(z(x)·S + b)_k · T_kj,    z = log of the predicted probabilities,

to the given labels: a recalibration (S, b) that says how sure of the **true** class the predictions make one, and
the transition matrix T, rows = true class. T shows as what recalibration cannot do: a softmax can be as sure as it
likes, but where a share of a class is mislabelled no prediction of the given label can be.

S is diagonal while T is found. A full S could stand in for T: it would explain the flips as doubts. Only then, with T
known, S is set free, which takes out what the model itself confuses; T is fitted once more at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof.audit.checks import checked_labels, checked_probabilities

FITTED_SAMPLES = 100_000
"""More samples than this add time and hardly any precision: T has K² numbers."""

MOST_CLASSES_FREED = 128
"""Up to so many classes S is set free; its K² numbers cost K² multiplications a sample."""

SMALLEST_PROBABILITY = 1e-6
NUMBERS_AT_A_TIME = 1 << 22
STEPS = 150

SCALE_PRIOR = 5.0
"""Pull, in samples, of each class's scale to the mean of them, and of S's other numbers to 0."""

FLIP_PRIOR = 0.5
"""Samples added to every cell of T."""

FIRST_SCALE = 2.0
FIRST_RATE = 0.3


@dataclass(frozen=True)
class NoiseEstimate:
    """What was found of the noise, and how to read a model's probabilities in its light.

    Attributes:
        rate: estimated share of wrong labels.
        transition: (K, K), rows = true class: the estimated probability of each given label.
        scale: S (K, K), by which log-probabilities are multiplied.
        shift: b (K,), which is added.
    """

    rate: float
    transition: NDArray[np.float64]
    scale: NDArray[np.float64]
    shift: NDArray[np.float64]

    @property
    def class_rates(self) -> NDArray[np.float64]:
        """Estimated share of wrong labels of each true class (K,)."""
        rates: NDArray[np.float64] = 1 - np.diag(self.transition)
        return rates

    def clean_probabilities(self, probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
        """Probability of each **true** class (N, K), before the given label is looked at."""
        sure = _log(probabilities) @ self.scale + self.shift
        sure = np.exp(sure - sure.max(1, keepdims=True))
        clean: NDArray[np.float64] = sure / sure.sum(1, keepdims=True)
        return clean

    def posterior(
        self, given: NDArray[np.integer], probabilities: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """Probability of each true class once the given label is known too (N, K): Bayes' rule with T."""
        joint = self.clean_probabilities(probabilities) * self.transition.T[given]
        both: NDArray[np.float64] = joint / np.maximum(joint.sum(1, keepdims=True), 1e-300)
        return both


def estimate_noise(given: NDArray[np.integer], probabilities: NDArray[np.floating]) -> NoiseEstimate:
    """Estimate noise rate and transition matrix.

    Args:
        given: labels (N,) as class indices.
        probabilities: (N, K), each row by a model that did not see that sample (cross-validated). Of a model that
            saw it, and learnt wrong labels by heart, no noise can be estimated.

    Example:
        >>> random = np.random.RandomState(0)
        >>> true = random.randint(3, size=4000)
        >>> given = np.where(random.rand(4000) < 0.3, (true + 1) % 3, true)  # 0 → 1 → 2 → 0
        >>> logits = 4 * np.eye(3)[true] + random.randn(4000, 3)
        >>> noisy = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        >>> noisy = 0.7 * noisy + 0.3 * noisy[:, [2, 0, 1]]  # as a model of the given labels says
        >>> found = estimate_noise(given, noisy)
        >>> round(found.rate, 1), found.transition.round(1)[0]
        (0.3, array([0.7, 0.3, 0. ]))
    """
    given = checked_labels(given)
    probabilities = checked_probabilities(probabilities, given)
    chosen = _chosen(len(given))
    fitted = _fit(given[chosen], probabilities[chosen])
    wrong = 0.0
    for rows in blocks(len(given), probabilities.shape[1]):
        posterior = fitted.posterior(given[rows], probabilities[rows])
        wrong += float((1 - posterior[np.arange(len(posterior)), given[rows]]).sum())
    return NoiseEstimate(wrong / len(given), fitted.transition, fitted.scale, fitted.shift)


def blocks(count: int, num_classes: int) -> Iterator[slice]:
    """Rows that are worked on at a time, so that memory stays bounded however many there are."""
    size = max(1, NUMBERS_AT_A_TIME // num_classes)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _chosen(count: int) -> NDArray[np.int64]:
    if count <= FITTED_SAMPLES:
        return np.arange(count)
    return np.sort(np.random.RandomState(0).permutation(count)[:FITTED_SAMPLES])


def _log(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Log-probabilities whose mean over the classes is 0."""
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), SMALLEST_PROBABILITY))
    centred: NDArray[np.float64] = logs - logs.mean(1, keepdims=True)
    return centred


def _fit(given: NDArray[np.int64], probabilities: NDArray[np.floating]) -> NoiseEstimate:
    num_classes = probabilities.shape[1]
    if num_classes == 1:
        return NoiseEstimate(0.0, np.ones((1, 1)), np.ones((1, 1)), np.zeros(1))
    fit = _Fit(torch.from_numpy(_log(probabilities)).float(), torch.from_numpy(given))
    fit.maximise(fit.scales, fit.shift, fit.flips)
    if num_classes <= MOST_CLASSES_FREED:
        fit.maximise(fit.scales, fit.others, fit.shift)
        fit.maximise(fit.flips)
    with torch.no_grad():
        transition = fit.flips.double().softmax(1).numpy()
        scale = fit.scale().double().numpy()
        shift = fit.shift.double().numpy()
    return NoiseEstimate(0.0, transition, scale, shift)


class _Fit:
    """The likelihood of the given labels, and steps that raise it."""

    def __init__(self, logs: Tensor, given: Tensor) -> None:
        self.logs, self.given = logs, given
        num_classes = logs.shape[1]
        self.off_diagonal = 1 - torch.eye(num_classes)
        self.scales = torch.full((num_classes,), FIRST_SCALE, requires_grad=True)
        self.others = torch.zeros(num_classes, num_classes, requires_grad=True)
        self.shift = torch.zeros(num_classes, requires_grad=True)
        odds = (1 - FIRST_RATE) / (FIRST_RATE / (num_classes - 1))
        self.flips = (torch.eye(num_classes) * float(np.log(odds))).requires_grad_()

    def scale(self) -> Tensor:
        return torch.diag(self.scales) + self.others * self.off_diagonal

    def maximise(self, *parameters: Tensor) -> None:
        optimizer = torch.optim.LBFGS(
            list(parameters),
            max_iter=STEPS,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_change=1e-8,
        )

        def loss() -> Tensor:
            for each in (self.scales, self.others, self.shift, self.flips):
                each.grad = None
            total = self._penalty()
            total.backward()  # type: ignore[no-untyped-call]
            value = total.detach()
            for rows in blocks(len(self.given), self.logs.shape[1]):
                part = self._minus_log_likelihood(rows)
                part.backward()  # type: ignore[no-untyped-call]
                value = value + part.detach()
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]

    def _minus_log_likelihood(self, rows: slice) -> Tensor:
        clean = (self.logs[rows] @ self.scale() + self.shift).softmax(1)
        of_given = (clean * self.flips.softmax(1).T[self.given[rows]]).sum(1)
        return -of_given.clamp(min=1e-12).log().sum() / len(self.given)

    def _penalty(self) -> Tensor:
        apart = (self.scales - self.scales.mean()).square().sum()
        others = (self.others * self.off_diagonal).square().sum()
        cells = self.flips.log_softmax(1).sum()
        return (SCALE_PRIOR * (apart + others) - FLIP_PRIOR * cells) / len(self.given)
