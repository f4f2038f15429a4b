# SPDX-License-Identifier: Apache-2.0
"""How many labels are wrong, and which classes they are mistaken for, from out-of-sample probabilities alone.

A model trained on given labels predicts these, not the true ones:

    P(given = j | x) = Σ_k  q_k(x) · T_kj,    q_k(x) = P(true = k | x),  T rows = true class.

Labels alone do not tell q and T apart: T = I always explains them. What does is that some samples of every class
are beyond doubt (*anchors*): where the model is surest of a class, the labels that were given show that class's row
of T. So T is found in two steps, of which the first uses the ranking of the probabilities more than their values:

1. The labels of the samples that are likeliest to be of a class are counted. The probabilities, calibrated to the
   given labels, are unmixed by this first T, and T is fitted again to all labels with the unmixed ones as q.
2. With T known, q = softmax(z·S + b), z = log of the predicted probabilities, is fitted to the given labels: this
   takes out what the model itself confuses, and what T has blurred. T is fitted once more at the end.

The noise rate is the mean probability that a label is wrong, less or more by what
:mod:`noiseproof.audit.resemblance` makes of the wrong labels that follow the model's own confusion.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof.audit.checks import checked_labels, checked_probabilities
from noiseproof.audit.resemblance import corrected_rate

FITTED_SAMPLES = 50_000
FITTED_NUMBERS = 1 << 24
"""More samples, or probabilities, than this add time and hardly any precision: T has K² numbers."""

MOST_CLASSES_FREED = 128
"""Up to so many classes S is a full matrix; its K² numbers cost K² multiplications a sample."""

SMALLEST_PROBABILITY = 1e-6
SMALLEST_UNMIXED = 1e-3
NUMBERS_AT_A_TIME = 1 << 22
STEPS = 100

ANCHOR_SHARE = 0.1
"""Of a class's samples, so many are taken for beyond doubt; at least the number below."""
LEAST_ANCHORS = 20

SCALE_PRIOR = 5.0
"""Pull, in samples, of each class's scale to the mean of them, and of S's other numbers to 0."""

LEAST_FLIP_PRIOR, MOST_FLIP_PRIOR = 10.0, 10_000.0
"""Samples added to every row of T, spread as if all classes were mislabelled alike; many where they seem to be."""

MOST_NOISE = 0.98
"""Noise that is assumed at most, as a share of that at which labels tell nothing."""


@dataclass(frozen=True)
class NoiseEstimate:
    """What was found of the noise, and how to read a model's probabilities in its light.

    Attributes:
        rate: estimated share of wrong labels; not quite the mean of the scores, see
            :mod:`noiseproof.audit.resemblance`.
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
        return _softmax(_log(probabilities) @ self.scale + self.shift)

    def posterior(
        self, given: NDArray[np.integer], probabilities: NDArray[np.floating]
    ) -> NDArray[np.float64]:
        """Probability of each true class once the given label is known too (N, K): Bayes' rule with T."""
        joint = self.clean_probabilities(probabilities) * self.transition.T[given]
        both: NDArray[np.float64] = joint / np.maximum(joint.sum(1, keepdims=True), 1e-300)
        return both


def estimate_noise(given: NDArray[np.integer], probabilities: NDArray[np.floating]) -> NoiseEstimate:
    """Estimate noise rate and transition matrix.

    The transition matrix assumes that a label's being wrong depends on its class, not on the picture. People
    mislabel what is hard to see more often than what is easy; of such noise it holds less than there is. The rate
    allows for that where the pattern of the wrong labels hints at it.

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
    if probabilities.shape[1] == 1:
        return NoiseEstimate(0.0, np.ones((1, 1)), np.ones((1, 1)), np.zeros(1))
    chosen = _chosen(*probabilities.shape)
    fitted = _fit(given[chosen], np.asarray(probabilities[chosen], dtype=np.float64))
    wrong = 0.0
    for rows in blocks(*probabilities.shape):
        posterior = fitted.posterior(given[rows], probabilities[rows])
        wrong += float((1 - posterior[np.arange(len(posterior)), given[rows]]).sum())
    joint, overlap = _pairs_of_classes(fitted, given, probabilities, chosen)
    rate = corrected_rate(wrong / len(given), joint, overlap)
    return NoiseEstimate(rate, fitted.transition, fitted.scale, fitted.shift)


def _pairs_of_classes(
    fitted: NoiseEstimate,
    given: NDArray[np.int64],
    probabilities: NDArray[np.floating],
    chosen: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Share of each (true, given) pair of classes, and how much the model hesitates between each two (K, K)."""
    num_classes = probabilities.shape[1]
    joint, overlap = np.zeros((num_classes, num_classes)), np.zeros((num_classes, num_classes))
    for rows in blocks(len(chosen), num_classes):
        labels, some = given[chosen[rows]], probabilities[chosen[rows]]
        clean = fitted.clean_probabilities(some)
        overlap += clean.T @ clean
        np.add.at(joint.T, labels, fitted.posterior(labels, some))
    return joint / len(chosen), overlap / len(chosen)


def blocks(count: int, num_classes: int) -> Iterator[slice]:
    """Rows that are worked on at a time, so that memory stays bounded however many there are."""
    size = max(1, NUMBERS_AT_A_TIME // num_classes)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _chosen(count: int, num_classes: int) -> NDArray[np.int64]:
    most = min(FITTED_SAMPLES, FITTED_NUMBERS // num_classes)
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.RandomState(0).permutation(count)[:most])


def _log(probabilities: NDArray[np.floating], smallest: float = SMALLEST_PROBABILITY) -> NDArray[np.float64]:
    """Log-probabilities whose mean over the classes is 0."""
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), smallest))
    centred: NDArray[np.float64] = logs - logs.mean(1, keepdims=True)
    return centred


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares: NDArray[np.float64] = powers / powers.sum(1, keepdims=True)
    return shares


def _fit(given: NDArray[np.int64], probabilities: NDArray[np.float64]) -> NoiseEstimate:
    num_classes = probabilities.shape[1]
    logs, labels = _log(probabilities), torch.from_numpy(given)
    freed = ("scales", "others", "shift") if num_classes <= MOST_CLASSES_FREED else ("scales", "shift")
    no_noise = np.eye(num_classes)
    calibrated = _Fit(logs, labels, no_noise, 0 * no_noise, scale=1.0).maximise(*freed).clean()
    counted, prior = _of_anchors(given, calibrated)
    unmixed = _log(_unmixed(calibrated, counted), SMALLEST_UNMIXED)
    del calibrated
    first = _Fit(unmixed, labels, counted, prior, scale=1.0).maximise("scales", "shift", "flips")
    fit = _Fit(logs, labels, first.transition(), prior, scale=2.0)
    fit.maximise(*freed).maximise("flips")
    return NoiseEstimate(0.0, fit.transition(), fit.scale().numpy(), fit.shift.detach().double().numpy())


def _alike(num_classes: int, rate: float) -> NDArray[np.float64]:
    """The transition matrix of noise that is the same for all classes."""
    others = rate / (num_classes - 1)
    return np.eye(num_classes) * (1 - rate - others) + others


def _of_anchors(
    given: NDArray[np.int64], calibrated: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """T as the labels of the surest samples of each class show it, and samples to be added to its rows."""
    count, num_classes = calibrated.shape
    counts = np.zeros((num_classes, num_classes))
    for each in np.unique(given):
        most = int(min(count, max(LEAST_ANCHORS, ANCHOR_SHARE * calibrated[:, each].sum())))
        surest = np.argpartition(-calibrated[:, each], most - 1)[:most]
        counts[each] = np.bincount(given[surest], minlength=num_classes)
    rate = 1 - float(np.trace(counts) / counts.sum())
    alike = _alike(num_classes, float(np.clip(rate, 1e-3, MOST_NOISE * (1 - 1 / num_classes))))
    prior = _strength(counts, alike) * alike
    transition = (counts + prior) / (counts + prior).sum(1, keepdims=True)
    # Few samples may seem to be another class's more often than their own; then labels would tell the opposite.
    while (crossed := transition.argmax(1) != np.arange(num_classes)).any():
        transition[crossed] = (transition[crossed] + alike[crossed]) / 2
    return transition, prior


def _strength(counts: NDArray[np.float64], alike: NDArray[np.float64]) -> float:
    """Concentration of a Dirichlet prior around ``alike`` under which wrong labels vary as they do, by moments."""
    num_classes = len(counts)
    sizes = counts.sum(1, keepdims=True)
    expected = sizes * alike
    off_diagonal = ~np.eye(num_classes, dtype=bool) & (sizes > 0)
    surprise = np.square(counts - expected)[off_diagonal] / expected[off_diagonal]
    size, excess = float(sizes.max()), float(surprise.mean())
    strength = (size - excess) / (excess - 1) if excess > 1 else MOST_FLIP_PRIOR
    return float(np.clip(strength, LEAST_FLIP_PRIOR, MOST_FLIP_PRIOR))


def _unmixed(calibrated: NDArray[np.float64], transition: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of true classes whose image under T the calibrated ones are, as nearly as can be."""
    inverse = np.linalg.pinv(transition, rcond=1e-3)
    unmixed = np.maximum(calibrated @ inverse, SMALLEST_UNMIXED)
    shares: NDArray[np.float64] = unmixed / unmixed.sum(1, keepdims=True)
    return shares


class _Fit:
    """The likelihood of the given labels, and steps that raise it.

    Args:
        logs: z (n, K).
        given: labels (n,).
        transition: T to start from.
        prior: samples added to each cell of T.
        scale: S to start from.
    """

    def __init__(
        self,
        logs: NDArray[np.float64],
        given: Tensor,
        transition: NDArray[np.float64],
        prior: NDArray[np.float64],
        *,
        scale: float,
    ) -> None:
        self.logs, self.given = torch.from_numpy(logs).float(), given
        num_classes = logs.shape[1]
        self.off_diagonal = 1 - torch.eye(num_classes)
        self.prior = torch.from_numpy(prior).float()
        self.scales = torch.full((num_classes,), scale, requires_grad=True)
        self.others = torch.zeros(num_classes, num_classes, requires_grad=True)
        self.shift = torch.zeros(num_classes, requires_grad=True)
        self.flips = torch.from_numpy(np.log(np.maximum(transition, 1e-6))).float().requires_grad_()

    def scale(self) -> Tensor:
        with torch.no_grad():
            return self._scale().double()

    def _scale(self) -> Tensor:
        return torch.diag(self.scales) + self.others * self.off_diagonal

    def transition(self) -> NDArray[np.float64]:
        with torch.no_grad():
            return self.flips.double().softmax(1).numpy()

    def clean(self) -> NDArray[np.float64]:
        with torch.no_grad():
            return (self.logs @ self._scale() + self.shift).double().softmax(1).numpy()

    def maximise(self, *names: str) -> "_Fit":
        everything = (self.scales, self.others, self.shift, self.flips)
        optimizer = torch.optim.LBFGS(
            [getattr(self, name) for name in names],
            max_iter=STEPS,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_change=1e-7,
        )

        def loss() -> Tensor:
            for each in everything:
                each.grad = None
            total = self._penalty()
            total.backward()  # type: ignore[no-untyped-call]
            value = total.detach()
            for rows in blocks(*self.logs.shape):
                part = self._minus_log_likelihood(rows)
                part.backward()  # type: ignore[no-untyped-call]
                value = value + part.detach()
            return value

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        return self

    def _minus_log_likelihood(self, rows: slice) -> Tensor:
        clean = (self.logs[rows] @ self._scale() + self.shift).softmax(1)
        of_given = (clean * self.flips.softmax(1).T[self.given[rows]]).sum(1)
        return -of_given.clamp(min=1e-12).log().sum() / len(self.given)

    def _penalty(self) -> Tensor:
        apart = (self.scales - self.scales.mean()).square().sum()
        others = (self.others * self.off_diagonal).square().sum()
        flips = (self.prior * self.flips.log_softmax(1)).sum()
        return (SCALE_PRIOR * (apart + others) - flips) / len(self.given)
