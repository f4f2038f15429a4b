# SPDX-License-Identifier: Apache-2.0
"""One trial of a search: trained on a part of the training data, judged on the rest, whose labels are as wrong."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from noiseproof import datasets
from noiseproof.training.captured import SideBySide, can_capture
from noiseproof.training.config import Config
from noiseproof.training.data import GivenLabels, TrainingData, give_labels, load_data
from noiseproof.training.environment import choose_device
from noiseproof.training.frozen import stepper_for
from noiseproof.training.interruption import Interrupted, Interruption
from noiseproof.training.outcome import score_of
from noiseproof.training.run import Run

SPLIT_SEED = 1
"""The same part is held out in every trial and by everyone who shares a study."""


@dataclass(frozen=True)
class TrialData:
    """Data of a search.

    Attributes:
        noisy: the held-out part, with labels as given, stands where training tests.
        clean: the same with true labels there; the same as ``noisy`` where they are not known.
    """

    noisy: TrainingData
    clean: TrainingData


def trial_data(config: Config, *, share: float = 0.1) -> TrialData:
    """Split the training data of a config in two. The real test split is not looked at.

    Noise is drawn for all of it before it is split, so that both parts have their share of wrong labels.

    Args:
        config: whose data and noise to take.
        share: of the samples to hold out.
    """
    data = load_data(config, choose_device(config.device))
    if data.has_masks:
        raise ValueError(
            f"{config.dataset}: a search needs images with labels, but these have masks; see the grid isic-tuning"
        )
    labels = give_labels(config, data)
    given = labels.given.cpu().numpy()
    as_given = replace(data.train, labels=given)
    split = datasets.tuning_split(as_given, share=share, seed=SPLIT_SEED)
    if len(split.validation) < 1 or len(split.train) < 2:
        raise ValueError(
            f"{config.dataset}: {len(data.train)} samples are too few to hold out {share:.0%} of them"
        )
    rest, held_out = (torch.from_numpy(part).to(data.device) for part in (split.train, split.validation))
    trained = GivenLabels(labels.given[rest], labels.flipped[rest], labels.summary)
    common = replace(
        data,
        train=data.train.subset(split.train),
        images=None if data.images is None else data.images[rest],
        test_images=None if data.images is None else data.images[held_out],
        held_out=True,
        given={(config.noise, config.drawn_with): trained},
    )
    return TrialData(
        noisy=_judged_by(common, as_given.subset(split.validation)),
        clean=_judged_by(common, data.train.subset(split.validation)),
    )


def _judged_by(data: TrainingData, held_out: datasets.LabeledData) -> TrainingData:
    labels = torch.from_numpy(np.ascontiguousarray(held_out.labels)).to(data.device)
    return replace(data, test=replace(held_out, split="test"), test_labels=labels)


def train_trial(
    config: Config,
    data: TrainingData,
    after_epoch: Callable[[int, float], None],
    interruption: Interruption | None = None,
) -> Run:
    """Train one trial; nothing is written down.

    Args:
        config: what to train.
        data: one side of :func:`trial_data`.
        after_epoch: told the epoch, counted from 1, and the accuracy on held-out samples in percent. What it raises
            ends the trial.
        interruption: whether to stop.

    Returns:
        The run, with its network as it is after the last epoch.

    Raises:
        Interrupted: it was asked to stop.
        NotFiniteError: the loss or its gradient became infinite or NaN.
    """
    run = Run(config, data)
    try:
        with run.threads():
            way = SideBySide([run]) if can_capture([run]) else stepper_for(run)([run])
            while not run.is_done:
                for _ in way.epoch():
                    if interruption is not None and interruption.requested:
                        way.pause()
                        raise Interrupted(config.run_id)
                for end in way.end_epoch():
                    end.wait()
                    end.require_finite()
                    score = score_of(end.metrics())
                    if score is not None:
                        after_epoch(end.epoch, float(score))
        return run
    finally:
        run.close()
