# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Trainer: a loss for ``compute_loss_func`` and the L1 penalty as a callback.

::

    Trainer(model, arguments, train_dataset=…, compute_loss_func=trainer_loss("nce+rce"))
"""

import copy
from typing import Any

from torch import Tensor, nn

from noiseproof.integrations import base_class, required
from noiseproof.losses import L1, RobustLoss, create

_Callback: Any = base_class("TrainerCallback", "transformers")

COUNTED_OUT = -100
"""The label of what has none, to all of transformers."""


class TrainerLoss(nn.Module):
    """A loss as the Trainer calls it: ``(outputs, labels, num_items_in_batch)``.

    For classification of sequences, logits (N, K), and of tokens, logits (N, T, K) with −100 where a token has no
    label. Over accumulated steps the sum is divided by the labels of all of them, as the Trainer's own losses do;
    by their number also where the loss has class weights.

    Args:
        loss: a loss of this package; its own reduction is not used.
    """

    def __init__(self, loss: RobustLoss) -> None:
        super().__init__()
        if not isinstance(loss, RobustLoss):
            raise TypeError(f"loss: expected a loss of noiseproof.losses, got {type(loss).__name__}")
        if loss.ignore_index != COUNTED_OUT:
            raise ValueError(
                f"ignore_index: expected {COUNTED_OUT}, the only label that the Trainer leaves out when it counts "
                f"them, got {loss.ignore_index}"
            )
        self.loss = copy.copy(loss)
        self.loss.reduction = "none"

    def forward(self, outputs: Any, labels: Tensor | None, num_items_in_batch: Any = None) -> Tensor:
        """Loss of the ``logits`` among a model's outputs, or of the first of them in a tuple."""
        logits = _logits_of(outputs)
        if labels is None:
            raise ValueError("labels: expected them in every batch under the name 'labels', got none")
        if labels.is_floating_point() or labels.shape != logits.shape[:-1]:
            raise ValueError(
                f"labels: expected class indices of shape {tuple(logits.shape[:-1])} for logits of shape "
                f"{tuple(logits.shape)}, classes last, got {labels.dtype} of shape {tuple(labels.shape)}"
            )
        self.loss.to(logits.device)  # class weights, which the Trainer knows nothing of
        labels = labels.to(logits.device).long()  # in a narrow type -100 would wrap around to a class
        each: Tensor = self.loss(logits.flatten(0, -2), labels.flatten())
        if num_items_in_batch is None:
            num_items_in_batch = (labels != self.loss.ignore_index).sum().clamp(min=1)
        if isinstance(num_items_in_batch, Tensor):
            num_items_in_batch = num_items_in_batch.to(each.device)
        mean: Tensor = each.sum() / num_items_in_batch
        return mean


def _logits_of(outputs: Any) -> Tensor:
    """What a model says of every class; it was called without labels, so no loss stands before it."""
    first = outputs[0] if isinstance(outputs, tuple) and outputs else None
    logits = outputs.get("logits") if isinstance(outputs, dict) else getattr(outputs, "logits", first)
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        found = (
            f"a dictionary of {', '.join(outputs)}" if isinstance(outputs, dict) else type(outputs).__name__
        )
        raise ValueError(f"outputs: expected logits (N, K) or (N, T, K) under the name 'logits', got {found}")
    return logits


def trainer_loss(name: str, **arguments: Any) -> TrainerLoss:
    """A loss of the catalogue for ``compute_loss_func``.

    Args:
        name: such as ``"anl-ce"``.
        **arguments: as in :func:`noiseproof.losses.create`.

    Example:
        >>> import torch
        >>> loss = trainer_loss("anl-ce", alpha=5.0, beta=5.0)
        >>> loss({"logits": torch.zeros(2, 4)}, torch.tensor([0, 3]), num_items_in_batch=2)
        tensor(5.)
    """
    return TrainerLoss(create(name, **{**arguments, "reduction": "none"}))


class L1Penalty(_Callback):  # type: ignore[misc]
    """Adds the gradient of ``δ·Σ |w|`` before every optimiser step; set ``weight_decay=0`` beside it.

    The Trainer has clipped the gradient by then, so this part of it is not clipped; the paper clips both together.
    Published strengths are for SGD: under AdamW, the Trainer's own optimiser, they can be far too strong.

    Args:
        strength: δ.
    """

    def __init__(self, strength: float) -> None:
        required("transformers")
        self.penalty = L1(strength)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Add the penalty's gradient to that of every parameter."""
        self.penalty.add_to_gradients(others["model"].parameters())
