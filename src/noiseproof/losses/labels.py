# SPDX-License-Identifier: Apache-2.0
"""The label of each sample: a class index, or a probability for every class.

Every loss of this package is linear in the label, so one question is all that a loss asks of it:
:meth:`Labels.expected`, the loss that the label expects. For an index that is the loss of one class, for
probabilities ``t`` it is ``Σ_k t_k L(k)``, which is what torch's cross-entropy does and what mixup needs.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

PerClass: TypeAlias = Callable[[Tensor], Tensor]
"""A loss of each class by itself: log-probabilities in, losses of the same shape out."""


class IndexLabels(NamedTuple):
    """Class indices (N, d1, …); ignored positions hold class 0 and are masked out by ``valid``."""

    indices: Tensor
    valid: Tensor
    weights: Tensor | None

    @property
    def mass(self) -> float:
        """Sum of the label's probabilities."""
        return 1.0

    @property
    def tensor(self) -> Tensor:
        """The tensor that holds the labels."""
        return self.indices

    def of_rows(self, rows: slice) -> "IndexLabels":
        """Return the labels of some rows, for evaluating a loss row by row."""
        return IndexLabels(self.indices[rows], self.valid[rows], None)

    def of_first_position(self) -> "IndexLabels":
        """Return the label of one position, for a look at a loss that costs next to nothing."""
        first = (slice(1),) * self.indices.ndim
        return IndexLabels(self.indices[first], self.valid[first], None)

    def expected(self, loss: PerClass, log_p: Tensor) -> Tensor:
        """Loss of the labelled class (N, d1, …); only that class is evaluated."""
        return _of_each_class(loss, log_p.gather(1, self.indices.unsqueeze(1))).squeeze(1)

    def weigh(self, per_sample: Tensor) -> Tensor:
        """Scale each sample by its class weight and drop ignored ones."""
        if self.weights is not None:
            per_sample = per_sample * self.weights.to(per_sample.dtype)[self.indices]
        return torch.where(self.valid, per_sample, 0.0)

    def total_weight(self, per_sample: Tensor) -> Tensor:
        """Sum of the weights in use, by which a mean divides; 1 if there are none, so that 0/0 is 0."""
        total = self.weigh(torch.ones_like(per_sample)).sum()
        return torch.where(total > 0, total, 1.0)


class SoftLabels(NamedTuple):
    """Probabilities (N, K, d1, …), already multiplied by the class weights."""

    probabilities: Tensor

    @property
    def mass(self) -> Tensor:
        """Sum of the label's probabilities."""
        return self.probabilities.sum(1)

    @property
    def valid(self) -> Tensor | None:
        """Nothing is ignored when labels are probabilities."""
        return None

    @property
    def tensor(self) -> Tensor:
        """The tensor that holds the labels."""
        return self.probabilities

    def of_rows(self, rows: slice) -> "SoftLabels":
        """Return the labels of some rows, for evaluating a loss row by row."""
        return SoftLabels(self.probabilities[rows])

    def of_first_position(self) -> "SoftLabels":
        """Return the label of one position, for a look at a loss that costs next to nothing."""
        return SoftLabels(first_position(self.probabilities))

    def expected(self, loss: PerClass, log_p: Tensor) -> Tensor:
        """Expected loss over the label's distribution (N, d1, …)."""
        return (self.probabilities * _of_each_class(loss, log_p)).sum(1)

    def weigh(self, per_sample: Tensor) -> Tensor:
        """Return the losses unchanged: weights are in the probabilities already."""
        return per_sample

    def total_weight(self, per_sample: Tensor) -> Tensor:
        """Return the number of positions, by which torch's mean over soft labels divides too."""
        return per_sample.new_full((), max(per_sample.numel(), 1))


Labels: TypeAlias = IndexLabels | SoftLabels


def _of_each_class(loss: PerClass, log_p: Tensor) -> Tensor:
    """Losses of an active loss, which looks at each class by itself: it may be given some classes only."""
    losses = loss(log_p)
    if losses.shape != log_p.shape:
        name = getattr(loss, "__name__", type(loss).__name__)
        raise ValueError(
            f"active loss {name}: expected the loss of each class by itself, of shape {tuple(log_p.shape)} for "
            f"log-probabilities of that shape, got {tuple(losses.shape)}; what looks at several classes is written "
            "with noiseproof.losses.calculus, or as a class with a forward of its own"
        )
    return losses


def read_labels(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    check_labels: bool | None,
    dtype: torch.dtype,
) -> Labels:
    """Read ``target`` as indices or as probabilities, after checking it against the logits (N, K, d1, …)."""
    _check_weight(logits, weight)
    if target.device != logits.device:
        raise ValueError(f"target: expected on the logits' device {logits.device}, got {target.device}")
    if target.is_floating_point():
        if target.shape != logits.shape:
            raise ValueError(
                f"target: expected probabilities of the logits' shape {tuple(logits.shape)} or integer class "
                f"indices of shape {_index_shape(logits)}, got {target.dtype} of shape {tuple(target.shape)}"
            )
        probabilities = target.to(dtype)
        if weight is not None:
            probabilities = probabilities * weight.to(dtype).view(-1, *[1] * (logits.ndim - 2))
        return SoftLabels(probabilities)
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"target: expected class indices or probabilities, got {target.dtype}")
    if tuple(target.shape) != _index_shape(logits):
        raise ValueError(
            f"target: expected class indices of shape {_index_shape(logits)} for logits of shape "
            f"{tuple(logits.shape)} (or floating-point probabilities of the same shape), got {target.dtype} "
            f"of shape {tuple(target.shape)}"
        )
    target = target.long()  # in a narrow type ignore_index and K would wrap around to classes
    valid = target != ignore_index
    if _may_read_values(target, check_labels):
        _check_range(target, valid, logits.shape[1], ignore_index)
    return IndexLabels(torch.where(valid, target, 0), valid, weight)


def _index_shape(logits: Tensor) -> tuple[int, ...]:
    return (*logits.shape[:1], *logits.shape[2:])


def _check_weight(logits: Tensor, weight: Tensor | None) -> None:
    if weight is None:
        return
    num_classes = logits.shape[1]
    if not weight.is_floating_point():
        raise TypeError(f"weight: expected a floating-point tensor, got {weight.dtype}")
    if tuple(weight.shape) != (num_classes,):
        raise ValueError(f"weight: expected one weight a class, ({num_classes},), got {tuple(weight.shape)}")


def _may_read_values(target: Tensor, check_labels: bool | None) -> bool:
    """Whether label values may be looked at: not while tracing, and off the CPU only on request."""
    if torch.compiler.is_compiling() or is_transformed(target):
        return False
    return target.device.type == "cpu" if check_labels is None else check_labels


def first_position(of_classes: Tensor) -> Tensor:
    """All classes of the first position of a tensor (N, K, d1, …), as (1, K, 1, …)."""
    return of_classes[(slice(1), slice(None), *[slice(1)] * (of_classes.ndim - 2))]


def is_transformed(tensor: Tensor) -> bool:
    """Whether ``tensor`` stands for many, as inside :func:`torch.func.vmap` or with ``is_grads_batched``."""
    functorch = torch._C._functorch
    return bool(functorch.is_functorch_wrapped_tensor(tensor) or functorch.is_legacy_batchedtensor(tensor))


def _check_range(target: Tensor, valid: Tensor, num_classes: int, ignore_index: int) -> None:
    outside = valid & ((target < 0) | (target >= num_classes))
    if outside.any():
        first = int(target[outside][0])
        raise ValueError(
            f"target: expected class indices 0…{num_classes - 1} or ignore_index={ignore_index}, "
            f"got {first} ({int(outside.sum())} such labels)"
        )
