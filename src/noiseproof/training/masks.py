# SPDX-License-Identifier: Apache-2.0
"""What segmentation asks of the engine: masks that fit the config, made wrong, and moved with their images."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from noiseproof import losses, models, noise
from noiseproof.datasets import LabeledData
from noiseproof.datasets.augment import Recipe
from noiseproof.datasets.folders import VOID
from noiseproof.losses import checks
from noiseproof.noise import NoisyMasks
from noiseproof.training.config import Config
from noiseproof.training.noise_files import saved_masks


def check_task(config: Config, train: LabeledData) -> None:
    """Refuse networks, losses and measurements of classification for masks, and the other way round."""
    task = "classification" if train.masks is None else "segmentation"
    if (made_for := models.record(config.model).task) != task:
        raise ValueError(
            f"model: {config.model!r} is for {made_for}, and {config.dataset} is for {task}; for that there are "
            f"{', '.join(models.available(task))}"
        )
    if train.masks is None:
        if losses.record(config.loss).whole_images:
            raise ValueError(f"loss: {config.loss!r} looks at masks, and {config.dataset} has none")
        return
    for name in ("jacobian", "gradient_quantiles"):
        if getattr(config, name):
            raise ValueError(
                f"{name}: is for classification; leave it out for {config.dataset}, which has masks"
            )


def check_loss_options(config: Config, train: LabeledData, has_void: bool) -> None:
    """Refuse class weights of another number of classes, and void pixels that nobody said are to be ignored.

    Which pixels are void is said, not guessed: beside a stray pixel of level 1, a foreground of 255 looks the same.
    """
    weight, ignored = config.loss_parameters.get("weight"), config.loss_parameters.get("ignore_index")
    if weight is not None and len(weight) != train.num_classes:
        raise ValueError(
            f"weight: expected {train.num_classes} numbers, one for each class of {config.dataset}, got "
            f"{checks.shown(weight)}"
        )
    if has_void and ignored != VOID:
        raise ValueError(
            f"ignore_index: masks of {config.dataset} hold class indices and also {VOID}. If that marks pixels "
            f"without a label, say --set ignore_index={VOID} (in a recipe: loss_parameters.ignore_index), got "
            f"{'none' if ignored is None else ignored}. If it is the foreground, which other masks have as 1, save "
            "all masks one way"
        )
    if train.masks is not None and ignored == 1 and train.num_classes == 2:
        raise ValueError(f"ignore_index: without class 1 there is nothing to find in {config.dataset}")


MOST_NAMED = 20
"""Classes that a remark names."""


def absent_classes(train: LabeledData, masks: NDArray[np.uint8]) -> str | None:
    """Name the classes that no pixel of the training masks has, if there are such."""
    pixels = np.bincount(masks.ravel(), minlength=train.num_classes)
    absent = [repr(name) for name, count in zip(train.class_names, pixels, strict=False) if count == 0]
    if not absent:
        return None
    named = ", ".join(absent[:MOST_NAMED]) + (", …" if len(absent) > MOST_NAMED else "")
    return (
        f"Not a pixel to learn from in {len(train)} training masks of {masks.shape[2]}x{masks.shape[1]}: {named}. "
        "Look at the masks, or train on larger pictures if a class is small."
    )


def draw_mask_noise(config: Config, train: LabeledData) -> NoisyMasks | None:
    """Mask noise of a config, or ``None`` for masks as they are."""
    name = noise.parse_name(config.noise)
    if name.kind == "clean":
        return None
    if name.kind not in ("masks", "file") or train.masks is None:
        raise ValueError(
            f"noise: {config.noise!r} is for class labels, and {config.dataset} has masks; say "
            "masks-SHARE-STRENGTH, such as masks-0.7-0.7, or file:PATH"
        )
    if train.num_classes > 2:
        raise ValueError(
            f"noise: masks are corrupted where they have two classes; those of {config.dataset} have "
            f"{train.num_classes}"
        )
    if name.path is not None:
        return saved_masks(config, train)
    assert name.rate is not None
    assert name.strength is not None
    known = np.where(train.masks == VOID, 0, train.masks).astype(np.uint8)
    return noise.corrupt_masks(known, name.rate, name.strength, config.drawn_with)


def moved_masks(recipe: Recipe, masks: Sequence[Tensor], random: torch.Generator) -> list[Tensor]:
    """Move masks (N, H, W), bytes or booleans, as ``recipe.for_training`` moves images with the same generator."""
    moved = [each.to(torch.uint8) for each in masks]
    for step in recipe.train:
        drawn = step.draw(moved[0].unsqueeze(1), random)
        moved = [step.apply_to_masks(each, drawn) for each in moved]
    return [each.to(before.dtype) for each, before in zip(moved, masks, strict=True)]
