# SPDX-License-Identifier: Apache-2.0
"""Lightning: the L1 penalty and the two accuracies of the paper's curves as callbacks.

The loss is used as it is, in ``training_step``::

    def training_step(self, batch, batch_idx):
        images, given, flipped = batch
        logits = self.model(images)
        loss = self.loss(logits, given)          # noiseproof.losses.create("anl-ce")
        return {"loss": loss, "logits": logits.detach(), "given": given, "flipped": flipped}

    Trainer(callbacks=[L1Penalty(5e-5), CleanAndFlippedAccuracy()])
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from noiseproof.integrations import base_class, required
from noiseproof.losses import L1

_MODULES = ("lightning.pytorch", "pytorch_lightning")
_Callback: Any = base_class("Callback", *_MODULES)

Reader = Callable[[Any, Any], tuple[Tensor, Tensor, Tensor]]


class L1Penalty(_Callback):  # type: ignore[misc]
    """Adds the gradient of ``δ·Σ |w|`` before every optimiser step, before Lightning clips the gradient.

    Args:
        strength: δ.
    """

    def __init__(self, strength: float) -> None:
        required(*_MODULES)
        super().__init__()
        self.penalty = L1(strength)

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        """Add the penalty's gradient to that of every parameter the optimiser holds."""
        penalty = L1(self.penalty.strength * _scale_of_gradients(trainer, optimizer))
        penalty.add_to_gradients(p for group in optimizer.param_groups for p in group["params"])


def _scale_of_gradients(trainer: Any, optimizer: Any) -> float:
    """Return 1, but in float16 the scaler's factor if the optimiser divides by it itself, as fused ones do."""
    scaler = getattr(getattr(trainer, "precision_plugin", None), "scaler", None)
    divides = getattr(optimizer, "_step_supports_amp_scaling", False)
    return float(scaler.get_scale()) if scaler is not None and divides else 1.0


def from_step_output(outputs: Any, batch: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Read ``logits``, ``given`` and ``flipped`` from what ``training_step`` returned."""
    missing = {"logits", "given", "flipped"} - set(outputs if isinstance(outputs, dict) else ())
    if missing:
        raise ValueError(
            f"training_step: expected a dictionary with 'logits', 'given' and 'flipped' beside 'loss'; missing "
            f"{', '.join(sorted(missing))}. Or say read=… to take them from elsewhere"
        )
    return outputs["logits"], outputs["given"], outputs["flipped"]


class CleanAndFlippedAccuracy(_Callback):  # type: ignore[misc]
    """Logs, every epoch, how many given labels the model repeats: among the right ones and among the wrong ones.

    A model that learns wrong labels by heart shows it in ``flipped_accuracy``. Both in percent.

    Args:
        read: function (what ``training_step`` returned, batch) → logits (N, K), given labels (N,), and which of
            them are wrong (N,). By default they are entries of the returned dictionary.
        prefix: what the logged names begin with.
    """

    def __init__(self, read: Reader = from_step_output, prefix: str = "") -> None:
        required(*_MODULES)
        super().__init__()
        if not callable(read):
            raise TypeError(f"read: expected a function, got {read!r}; names begin with what prefix=… says")
        self._read, self._prefix = read, prefix

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin at zero: right and all, of clean and of flipped labels."""
        self._counts = torch.zeros(2, 2, dtype=torch.float64)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count one batch."""
        logits, given, flipped = (part.detach() for part in self._read(outputs, batch))
        predicted = logits.argmax(1)
        for name, part in (("given", given), ("flipped", flipped)):
            if part.shape != predicted.shape:  # which would be broadcast, and counted wrongly
                raise ValueError(
                    f"{name}: expected one entry a label, shape {tuple(predicted.shape)} for logits of shape "
                    f"{tuple(logits.shape)}, got {tuple(part.shape)}"
                )
        right, flipped = predicted == given, flipped.bool()
        for row, which in enumerate((~flipped, flipped)):
            self._counts[row] += torch.stack([(right & which).sum(), which.sum()]).cpu()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log both accuracies; a kind of label that did not occur is left out."""
        counts = trainer.strategy.reduce(self._counts.to(pl_module.device).float(), reduce_op="sum").cpu()
        for name, (right, count) in zip(("clean", "flipped"), counts.tolist(), strict=True):
            if count:
                pl_module.log(f"{self._prefix}{name}_accuracy", 100 * right / count, prog_bar=True)
