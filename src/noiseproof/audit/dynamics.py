# SPDX-License-Identifier: Apache-2.0
"""Training dynamics: how the loss, the margin and ∂NNCE of every sample moved while a network was trained once.

A robust loss learns what most samples agree on first, and wrong labels late or never: their loss stays high, their
margin stays negative. One run tells this at no cost beyond a few numbers a sample, where cross-validation trains
one network a fold.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof.audit.noise_rate import estimate_noise
from noiseproof.audit.scores import LabelAudit, chance_agreement
from noiseproof.losses.evaluate import log_probabilities
from noiseproof.training.config import Config
from noiseproof.training.data import TrainingData
from noiseproof.training.frozen import stepper_for
from noiseproof.training.meters import EpochMeters, strongest_pull
from noiseproof.training.run import Run

PARTS = 3
"""The run is told in so many parts: its beginning, middle and end."""

HIGHEST_LOSS = 16.118
"""Cross-entropies are cut here (p = 1e-7), so that one sample cannot drown its own history."""


@dataclass(frozen=True, eq=False)
class Dynamics:
    """What was seen of every sample, as means over the first, second and last third of the epochs.

    Attributes:
        loss: cross-entropy of the given label (3, N).
        margin: ``p_y − max_{k≠y} p_k`` (3, N).
        pull: ``max_{j≠y} ∂NNCE/∂p_j`` (3, N).
        probabilities: mean over all epochs (N, K).
    """

    loss: NDArray[np.float32]
    margin: NDArray[np.float32]
    pull: NDArray[np.float32]
    probabilities: NDArray[np.float32]


def record_dynamics(
    config: Config, data: TrainingData, *, tell: Callable[[str, float], None] | None = None
) -> Dynamics:
    """Train one network and return what was seen of every training sample on the way.

    Args:
        config: how to train; its noise is not drawn again: labels are taken as they are.
        data: what to train on.
        tell: told of progress.
    """
    run = _RecordedRun(config, data)
    try:
        with run.threads():
            _record(run, tell)
    finally:
        run.close()
    return run.recorder.dynamics()


def _record(run: "_RecordedRun", tell: Callable[[str, float], None] | None) -> None:
    """Train to the last epoch and tell how far it is."""
    way, epochs = stepper_for(run)([run]), run.config.epochs
    for epoch in range(epochs):
        run.recorder.part = PARTS * epoch // epochs
        for _ in way.epoch():
            if tell is not None and run.prepared is not None:
                tell("passing the images through the network", run.prepared)
            elif tell is not None:
                share = (epoch + run.step / run.batches.steps) / epochs
                tell(f"training, epoch {epoch + 1} of {epochs}", share)
        way.end_epoch()


def score_dynamics(given: NDArray[np.int64], dynamics: Dynamics) -> LabelAudit:
    """Score labels by the mean margin of the whole run, as ``(1 − margin) / 2``, from 0 to 1.

    The network saw the samples that it judges here. Labels that it learnt by heart late still have a low mean
    margin; the noise rate, estimated from the mean probabilities, comes out lower than from cross-validated ones.
    """
    probabilities = dynamics.probabilities
    margin = dynamics.margin.mean(0)
    rows = np.arange(len(given))
    suggested = probabilities.argmax(1)
    return LabelAudit(
        given,
        ((1 - margin) / 2).astype(np.float32),
        suggested,
        suggested,
        suggested != given,
        probabilities[rows, given],
        probabilities[rows, suggested],
        estimate_noise(given, probabilities),
        float((suggested == given).mean()),
        score_name="mean margin of training",
        agreement_by_chance=chance_agreement(given, suggested),
    )


class _Recorder:
    """Sums over the epochs, by sample."""

    def __init__(self, count: int, num_classes: int, device: torch.device) -> None:
        self.part = 0
        self._seen = torch.zeros(PARTS, count, device=device)
        self._sums = {name: torch.zeros(PARTS, count, device=device) for name in ("loss", "margin", "pull")}
        self._probabilities = torch.zeros(count, num_classes, device=device)

    @torch.no_grad()
    def add(self, indices: Tensor, logits: Tensor, given: Tensor) -> None:
        log_p = log_probabilities(logits.float())
        probabilities = log_p.exp()
        of_given = probabilities.gather(1, given[:, None]).squeeze(1)
        others = probabilities.scatter(1, given[:, None], -1.0).amax(1)
        seen = {
            "loss": -log_p.gather(1, given[:, None]).squeeze(1).clamp(min=-HIGHEST_LOSS),
            "margin": of_given - others,
            "pull": strongest_pull(log_p, given),
        }
        for name, values in seen.items():
            self._sums[name][self.part].index_add_(0, indices, values)
        self._seen[self.part].index_add_(0, indices, torch.ones_like(of_given))
        self._probabilities.index_add_(0, indices, probabilities)

    def dynamics(self) -> Dynamics:
        times = self._seen.clamp(min=1)
        means = {name: (sums / times).cpu().numpy() for name, sums in self._sums.items()}
        total = self._probabilities.sum(1, keepdim=True).clamp(min=1e-12)
        return Dynamics(**means, probabilities=(self._probabilities / total).cpu().numpy())


class _RecordedRun(Run):
    def __init__(self, config: Config, data: TrainingData) -> None:
        self.recorder = _Recorder(len(data.train), data.num_classes, data.device)
        super().__init__(config, data)

    def fresh_meters(self) -> EpochMeters:
        return _RecordingMeters(
            self.recorder, self.loss, len(self.labels.given), self.data.num_classes, self.device, False
        )


class _RecordingMeters(EpochMeters):
    """Hands on what it is told of each sample."""

    def __init__(self, recorder: _Recorder, *arguments: Any) -> None:
        self._recorder = recorder
        super().__init__(*arguments)

    def add(
        self, first_step: int, indices: Tensor, logits: Tensor, given: Tensor, *rest: Any, **others: Any
    ) -> None:
        super().add(first_step, indices, logits, given, *rest, **others)
        self._recorder.add(indices, logits, given)
