# SPDX-License-Identifier: Apache-2.0
"""The training loop of the estimator: whole tensors, weights of samples, no data loader.

It is not built on :mod:`noiseproof.training.engine`, whose loop is about what is written down: a run there has a
config with a hash, random streams that go on after a stop, checkpoints, and a learning rate by epoch. Here rows may
be sparse or float64, the learning rate falls with every step, training may stop early, and nothing is written. What
both do to a batch is the same: the loss, its gradient, L1 on the gradient, a step of the optimiser.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from noiseproof.losses import L1
from noiseproof.sklearn.inputs import Rows
from noiseproof.threads import threads_that_pay

LOOKS = 50
"""How often, at most, the held-out part is looked at during training."""

ROWS_AT_A_TIME = 8192


@dataclass(frozen=True)
class Samples:
    """Samples, their class indices and their weights, whose mean is one."""

    rows: Rows
    labels: Tensor
    weights: Tensor


@dataclass(frozen=True)
class Settings:
    """Numbers of one training run."""

    epochs: int
    batch_size: int
    learning_rate: float
    l1: float
    weight_decay: float
    patience: int


@dataclass
class History:
    """Loss by epoch; held-out criterion by look; the epochs that were run and the one that was kept."""

    losses: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    epochs: int = 0
    best_epoch: int = 0


def train(
    model: nn.Module,
    loss: nn.Module,
    samples: Samples,
    settings: Settings,
    random: torch.Generator,
    held_out: Samples | None = None,
    tell: Callable[[str], None] | None = None,
) -> History:
    """Train with Adam and a cosine schedule; with a held-out part, stop early and keep the best weights.

    ``loss`` gives one number a sample. Where a batch holds everything, samples come in their own order and the
    result depends on weights only through the weighted mean.
    """
    sample = samples.rows[slice(0, 1)]
    with threads_that_pay(model, sample, min(settings.batch_size, len(samples.rows))):
        return _train(model, loss, samples, settings, random, held_out, tell)


def _train(
    model: nn.Module,
    loss: nn.Module,
    samples: Samples,
    settings: Settings,
    random: torch.Generator,
    held_out: Samples | None,
    tell: Callable[[str], None] | None,
) -> History:
    steps = _Steps(model, loss, samples, settings)
    history = History()
    looks = _Looks(settings) if held_out is not None else None
    model.train()
    for epoch in range(1, settings.epochs + 1):
        history.losses.append(steps.epoch(random))
        history.epochs = history.best_epoch = epoch
        if not math.isfinite(history.losses[-1]):
            raise FloatingPointError(
                f"learning_rate: the loss became {history.losses[-1]} in epoch {epoch} with "
                f"{settings.learning_rate:g}; try a smaller one"
            )
        if looks is not None and held_out is not None and looks.due(epoch):
            history.held_out.append(held_out_error(model, held_out))
            model.train()
            if looks.enough(epoch, history.held_out[-1], model):
                break
        if tell is not None and (epoch % max(1, settings.epochs // 10) == 0 or epoch == settings.epochs):
            seen = f", held-out error {history.held_out[-1]:.4f}" if history.held_out else ""
            tell(f"epoch {epoch}/{settings.epochs}: loss {history.losses[-1]:.4f}{seen}")
    if looks is not None:
        history.best_epoch = looks.restore(model)
    model.eval()
    return history


class _Steps:
    """Steps of Adam through the samples, at a learning rate that falls to 0 along a cosine."""

    def __init__(self, model: nn.Module, loss: nn.Module, samples: Samples, settings: Settings) -> None:
        self._model, self._loss, self._samples, self._settings = model, loss, samples, settings
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._optimizer = torch.optim.Adam(
            self._parameters, settings.learning_rate, weight_decay=settings.weight_decay, fused=True
        )
        self._l1 = L1(settings.l1)
        self._done, self._all = 0, settings.epochs * len(_sizes(len(samples.rows), settings.batch_size))

    def epoch(self, random: torch.Generator) -> float:
        """Go through all samples once; returns the mean loss, L1 left out."""
        samples, count = self._samples, len(self._samples.rows)
        total = torch.zeros((), device=samples.labels.device)
        for which in _batches(count, self._settings.batch_size, random):
            self._optimizer.param_groups[0]["lr"] = self._learning_rate()
            self._optimizer.zero_grad()
            each = self._loss(self._model(samples.rows[which]), samples.labels[which])
            value = (each * samples.weights[which]).mean()
            value.backward()
            self._l1.add_to_gradients(self._parameters)
            self._optimizer.step()
            self._done += 1
            total += value.detach() * len(each)
        return float(total) / count

    def _learning_rate(self) -> float:
        return self._settings.learning_rate * (1 + math.cos(math.pi * self._done / self._all)) / 2


def _batches(count: int, size: int, random: torch.Generator) -> list[Tensor] | list[slice]:
    if size >= count:
        return [slice(0, count)]
    return list(torch.split(torch.randperm(count, generator=random), _sizes(count, size)))


def _sizes(count: int, size: int) -> list[int]:
    """Samples of each batch; a last one of a single sample, of which batch norm can make nothing, joins the others.

    >>> _sizes(10, 4), _sizes(9, 4), _sizes(3, 1)
    ([4, 4, 2], [4, 5], [1, 1, 1])
    """
    whole, rest = divmod(count, size)
    if rest == 1 and whole and size > 1:
        return [size] * (whole - 1) + [size + 1]
    return [size] * whole + [rest] * (rest > 0)


class _Looks:
    """When the held-out part is looked at, which weights were best, and when no better ones are expected."""

    def __init__(self, settings: Settings) -> None:
        self._every = max(1, settings.epochs // LOOKS)
        self._last = settings.epochs
        self._patience = settings.patience
        self._best = math.inf
        self._best_epoch = 0
        self._weights: dict[str, Tensor] = {}
        self._in_vain = 0

    def due(self, epoch: int) -> bool:
        return epoch % self._every == 0 or epoch == self._last

    def enough(self, epoch: int, error: float, model: nn.Module) -> bool:
        if error < self._best:
            self._best, self._best_epoch, self._in_vain = error, epoch, 0
            self._weights = copy.deepcopy(model.state_dict())
        else:
            self._in_vain += 1
        return self._in_vain >= self._patience

    def restore(self, model: nn.Module) -> int:
        model.load_state_dict(self._weights)
        return self._best_epoch


def held_out_error(model: nn.Module, samples: Samples) -> float:
    """Mean of ``1 − p_y`` over held-out samples whose labels are as noisy as the rest.

    This error is symmetric: its sum over labels is the same for every prediction, so that symmetric noise
    shrinks the differences between models towards one another but never reorders them. Cross-entropy on wrong
    labels has no such property.
    """
    of_labels = log_probabilities(model, samples.rows).gather(1, samples.labels[:, None])
    return float(((1 - of_labels.squeeze(1).exp()) * samples.weights).mean())


@torch.no_grad()
def log_probabilities(model: nn.Module, rows: Rows) -> Tensor:
    """log p of every class of every sample (N, K)."""
    model.eval()
    parts = [
        torch.log_softmax(model(rows[slice(start, start + ROWS_AT_A_TIME)]), 1)
        for start in range(0, len(rows), ROWS_AT_A_TIME)
    ]
    return torch.cat(parts)
