"""A quick estimate of how many labels are wrong, and whether at random or by confusion of classes.

A linear model on random features of downscaled pixels is cross-validated, so that no sample is judged by a model
that saw its label. Of each class, the samples that are predicted surest are taken for what they are predicted as;
how their given labels are spread is then a row of the transition matrix. The model's own mistakes count as
noise: where there are many, the estimate is an upper bound and says so.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from noiseproof.datasets import LabeledData
from noiseproof.planning.facts import Noise

MOST_SAMPLES = 10_000
"""More are not looked at: their number hardly changes the estimate, and decoding takes time."""

SIDE = 16
FEATURES = 2_000
FOLDS = 3
PENALTY = 0.02
"""Ridge penalty, as a share of the samples."""

SURE_SHARE = 0.25
FEWEST_SURE = 10
STEADY = 0.85
"""Of a model that knows the classes, the second surest quarter of predictions agrees with the given labels nearly
as often as the surest: both are right, and only noise is left. Below this ratio its own mistakes count as noise."""

LEAST_ABOVE_CHANCE = 0.15
"""How much of the way from chance to certainty the surest predictions must agree with the given labels: a model
that knows nothing is as steady as one that knows all."""

LEAST_RATE_WITH_A_KIND = 0.1
"""Below it most of what is found may be the model's own mistakes, which look like confusion."""

Tell = Callable[[str, float], None]
"""Told what is being done, and what share of it is done."""


def _silence(what: str, share: float) -> None:
    pass


@dataclass(frozen=True)
class NoiseGuess:
    """What was found.

    Attributes:
        rate: estimated share of wrong labels.
        transition: (K, K), rows = true class: estimated share of each given label.
        agreement: share of given labels that the cross-validated model predicts.
        steadiness: agreement of the second surest quarter of predictions over that of the surest.
        concentration: of the wrong labels of a class, the share that goes to one other class: 1/(K − 1) for
            symmetric noise, 1 where every class is taken for one other.
        looked_at: samples the estimate is made from.
    """

    rate: float
    transition: NDArray[np.float64]
    agreement: float
    steadiness: float
    concentration: float
    looked_at: int

    @property
    def is_a_bound(self) -> bool:
        """Whether so many of the model's own mistakes are counted that the rate is no more than an upper bound."""
        chance = 1 / max(2, len(self.transition))
        above_chance = (1 - self.rate - chance) / (1 - chance)
        return self.steadiness < STEADY or above_chance < LEAST_ABOVE_CHANCE

    @property
    def kind(self) -> str | None:
        """``"sym"`` or ``"confused"``; ``None`` where too few are wrong to tell, or the model is too weak."""
        classes = len(self.transition)
        if self.rate < LEAST_RATE_WITH_A_KIND or self.is_a_bound:
            return None
        if classes < 3:
            return "sym"
        return "confused" if self.concentration > (1 + 1 / (classes - 1)) / 2 else "sym"

    def as_noise(self) -> Noise:
        """The same in the planner's terms."""
        model = f"the model behind it predicts {self.agreement:.0%} of their labels"
        return Noise(
            self.rate,
            self.kind,
            f"estimated from {self.looked_at} samples; {model}"
            + (", too few to tell wrong labels from its own mistakes" if self.is_a_bound else ""),
            largest_class_rate=float((1 - np.diag(self.transition)).max()),
            is_a_bound=self.is_a_bound,
        )


def noise_of(data: LabeledData, *, seed: int = 0, tell: Tell = _silence) -> NoiseGuess:
    """Estimate the label noise of pictures.

    Args:
        data: pictures with their given labels.
        seed: draws samples, features and folds.
        tell: told of progress.

    Example:
        >>> from dataclasses import replace
        >>> from noiseproof import datasets, noise
        >>> digits = datasets.load("digits")
        >>> given = noise.symmetric(digits.labels, 0.3, 10, seed=1).labels
        >>> guess = noise_of(replace(digits, labels=given))
        >>> abs(guess.rate - 0.3) < 0.05, guess.kind
        (True, 'sym')
    """
    if data.masks is not None:
        raise ValueError(f"{data.name}: wrong masks are not estimated; say the noise, or do without")
    random = np.random.RandomState(seed)
    chosen = np.sort(random.permutation(len(data))[:MOST_SAMPLES])
    some = data if len(chosen) == len(data) else data.subset(chosen)
    pixels = _small_pixels(some, tell)
    return guess_noise(pixels, some.labels, data.num_classes, seed=seed, tell=tell)


def guess_noise(
    samples: Tensor, labels: NDArray[np.int64], num_classes: int, *, seed: int = 0, tell: Tell = _silence
) -> NoiseGuess:
    """Estimate the label noise of samples (N, D) with labels (N,)."""
    predicted, sureness = _cross_validated(samples, labels, num_classes, seed, tell)
    transition = _transition(predicted, sureness, labels, num_classes)
    shares = _true_shares(np.bincount(labels, minlength=num_classes) / len(labels), transition)
    wrong = 1 - np.diag(transition)
    off_diagonal = transition - np.diag(np.diag(transition))
    largest = off_diagonal.max(1)
    weights = shares * wrong
    concentration = float((shares * largest).sum() / weights.sum()) if weights.sum() > 0 else 0.0
    return NoiseGuess(
        rate=float(weights.sum()),
        transition=transition,
        agreement=float((predicted == labels).mean()),
        steadiness=_steadiness(predicted, sureness, labels),
        concentration=concentration,
        looked_at=len(labels),
    )


def _small_pixels(data: LabeledData, tell: Tell) -> Tensor:
    """Pictures of at most 16 x 16 pixels, flat (N, D), standardised."""
    parts = []
    if data.images is not None:
        for start in range(0, len(data), 1_000):
            part = torch.from_numpy(np.ascontiguousarray(data.images[start : start + 1_000]))
            parts.append(_reduced(part.permute(0, 3, 1, 2)))
            tell("reading pictures", min(1.0, (start + 1_000) / len(data)))
    else:
        from noiseproof.datasets.decode import Squash
        from noiseproof.datasets.loader import StreamingLoader

        with StreamingLoader(data, Squash(SIDE, SIDE), 256, shuffle=False) as loader:
            for number, batch in enumerate(loader, 1):
                parts.append(batch.images.float().flatten(1))
                tell("reading pictures", min(1.0, 256 * number / len(data)))
    pixels = torch.cat(parts)
    return (pixels - pixels.mean(0)) / (pixels.std(0) + 1e-3 * float(pixels.std()) + 1e-6)


def _reduced(pictures: Tensor) -> Tensor:
    shape = [min(side, SIDE) for side in pictures.shape[2:]]
    if list(pictures.shape[2:]) == shape:
        return pictures.float().flatten(1)
    return functional.interpolate(pictures.float(), shape, mode="bilinear", antialias=True).flatten(1)


def _cross_validated(
    samples: Tensor, labels: NDArray[np.int64], num_classes: int, seed: int, tell: Tell
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Predicted class of each sample by a model that did not see it, and by how much it leads (N,)."""
    count = len(samples)
    random = torch.Generator().manual_seed(seed)
    width = min(FEATURES, 4 * count)
    directions = torch.randn(samples.shape[1], width, generator=random) / samples.shape[1] ** 0.5
    offsets = torch.randn(width, generator=random)
    folds = torch.randperm(count, generator=random) % min(FOLDS, count)
    features = torch.cat([(samples @ directions + offsets).clamp_(min=0), samples], 1)
    features = (features - features.mean(0)) / (features.std(0) + 1e-6)
    shares = np.bincount(labels, minlength=num_classes) / count
    targets = torch.from_numpy(np.eye(num_classes)[labels] - shares).float()
    scores = torch.zeros(count, num_classes)
    for fold in range(int(folds.max()) + 1):
        seen, unseen = folds != fold, folds == fold
        x, y = features[seen], targets[seen]
        regular = x.T @ x + PENALTY * len(x) * torch.eye(x.shape[1])
        weights = torch.cholesky_solve(x.T @ y, torch.linalg.cholesky(regular))
        scores[unseen] = features[unseen] @ weights
        tell("cross-validating", (fold + 1) / (int(folds.max()) + 1))
    best = scores.topk(2, 1) if num_classes > 1 else scores.topk(1, 1)
    lead = best.values[:, 0] - best.values[:, -1]
    return best.indices[:, 0].numpy(), lead.double().numpy()


def _transition(
    predicted: NDArray[np.int64],
    sureness: NDArray[np.float64],
    labels: NDArray[np.int64],
    num_classes: int,
) -> NDArray[np.float64]:
    """Rows = true class: how the given labels of the surest predictions of each class are spread."""
    transition = np.eye(num_classes)
    for k in range(num_classes):
        members = np.flatnonzero(predicted == k)
        members = members[np.argsort(-sureness[members])]
        sure = members[: max(FEWEST_SURE, round(SURE_SHARE * len(members)))]
        if len(sure):
            transition[k] = np.bincount(labels[sure], minlength=num_classes) / len(sure)
    return transition


def _steadiness(
    predicted: NDArray[np.int64], sureness: NDArray[np.float64], labels: NDArray[np.int64]
) -> float:
    """Agreement with the given labels: that of the second surest quarter of each class over that of the surest."""
    first: list[NDArray[np.bool_]] = []
    second: list[NDArray[np.bool_]] = []
    for k in np.unique(predicted):
        members = np.flatnonzero(predicted == k)
        members = members[np.argsort(-sureness[members])]
        quarter = round(SURE_SHARE * len(members))
        agrees = labels[members] == k
        first.append(agrees[:quarter])
        second.append(agrees[quarter : 2 * quarter])
    surest, next_surest = np.concatenate(first), np.concatenate(second)
    if not len(surest) or not surest.any():
        return 0.0
    return float(next_surest.mean() / surest.mean())


def _true_shares(given: NDArray[np.float64], transition: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the true classes, from those of the given ones."""
    from scipy.optimize import nnls

    found, _ = nnls(transition.T, given)
    total = float(found.sum())
    shares: NDArray[np.float64] = found / total if total > 0 else given
    return shares
