# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on the torch backend: any loss of the catalogue as a ``keras.losses.Loss``.

Set ``KERAS_BACKEND=torch`` before Keras is imported. The model ends in logits, without a softmax::

    model.compile(optimizer="adam", loss=KerasLoss("anl-ce"), metrics=["accuracy"])

For the L1 penalty give layers ``kernel_regularizer=keras.regularizers.L1(5e-5)``, and the same to their biases.
"""

from typing import Any

from torch import Tensor

from noiseproof.integrations import base_class, required
from noiseproof.losses import create

_Loss: Any = base_class("Loss", "keras.losses")


class KerasLoss(_Loss):  # type: ignore[misc]
    """A loss of the catalogue, called by Keras with labels first and classes last.

    Labels are class indices (N, …) or (N, …, 1), or probabilities (N, …, K); predictions are logits (N, …, K), one
    a class also where there are two. A label of −100 costs nothing, but counts in Keras's mean.

    Args:
        loss: name in the catalogue, such as ``"anl-ce"``.
        name: Keras's name of the loss.
        reduction: Keras's own; sample and class weights are Keras's as well.
        **parameters: hyper-parameters of the loss.
    """

    def __init__(
        self, loss: str, name: str | None = None, reduction: str = "sum_over_batch_size", **parameters: Any
    ) -> None:
        backend = required("keras").backend.backend()
        if backend != "torch":
            raise RuntimeError(
                f"keras: expected the torch backend, got {backend!r}; set KERAS_BACKEND=torch before importing it"
            )
        self._per_sample = create(loss, reduction="none", **parameters)
        self._said = {"loss": loss, **parameters}
        super().__init__(name=name or loss.replace("+", "_"), reduction=reduction)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Loss of every sample (N, …); Keras weighs and reduces it."""
        if y_pred.shape[-1] == 1:
            raise ValueError(
                f"y_pred: expected a logit for each of at least 2 classes, got shape {tuple(y_pred.shape)}; "
                "give the last layer two units where there are two classes"
            )
        logits = y_pred.movedim(-1, 1)
        if y_true.shape == y_pred.shape:
            target = y_true.movedim(-1, 1).to(logits.dtype)
        else:
            target = (y_true.squeeze(-1) if y_true.ndim == y_pred.ndim else y_true).long()
        self._per_sample.to(logits.device)  # class weights, which Keras knows nothing of
        losses: Tensor = self._per_sample(logits, target)
        return losses

    def get_config(self) -> dict[str, Any]:
        """What Keras saves, to make the loss again."""
        return {**super().get_config(), **self._said}
