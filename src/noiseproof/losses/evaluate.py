# SPDX-License-Identifier: Apache-2.0
"""From logits and target to a loss: the one path that every function and Module of this package takes."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from noiseproof.losses import checks
from noiseproof.losses.calculus import Term, WeightedSum
from noiseproof.losses.labels import Labels, first_position, is_transformed, read_labels

SLICE_ELEMENTS = 1 << 19
"""Logits evaluated at a time on the CPU: few enough that all intermediate results stay in its cache."""


def evaluate(
    term: Term,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    check_labels: bool | None = None,
) -> Tensor:
    """Evaluate ``term`` on logits, with the conventions of :func:`torch.nn.functional.cross_entropy`.

    Softmax statistics, and so the result, are float32 for half-precision logits and have the logits' own
    precision otherwise. On a GPU the kernels of :mod:`noiseproof.losses.fused` are used where they can be.

    Args:
        term: the loss.
        logits: (N, K), (N, K, d1, …) or (K,), floating point.
        target: class indices (N,), (N, d1, …) or (); or probabilities of the logits' shape.
        weight: one weight a class (K,).
        ignore_index: the index that marks samples without a label. They cost nothing and teach nothing.
        reduction: ``"mean"`` (over the weights of the labels in use; 0 if none is), ``"sum"`` or ``"none"``.
        check_labels: whether to check that indices lie in 0…K−1. By default on the CPU only, because looking
            at labels on a GPU makes it wait.
    """
    checks.reduction(reduction)
    _check_tensors(logits, target)
    if logits.ndim == 1:
        loss = evaluate(term, logits[None], target[None], weight, ignore_index, reduction, check_labels)
        return loss.squeeze(0) if reduction == "none" else loss
    # Imported here, because the kernels' descriptions of losses come from modules that import this one.
    from noiseproof.losses.fused.gate import fused_or_none

    fused = fused_or_none(term, logits, target, weight, ignore_index, reduction, check_labels)
    if fused is not None:
        return fused
    return evaluate_plainly(term, logits, target, weight, ignore_index, reduction, check_labels)


def evaluate_plainly(
    term: Term,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    check_labels: bool | None = None,
) -> Tensor:
    """Evaluate ``term`` on logits (N, K, d1, …) by torch's own operations, which autograd can follow."""
    labels = read_labels(logits, target, weight, ignore_index, check_labels, _statistics_dtype(logits))
    per_sample = _per_sample(term, logits, labels)
    weighted = labels.weigh(per_sample)
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    return weighted.sum() / labels.total_weight(per_sample)


def log_probabilities(logits: Tensor) -> Tensor:
    """``log softmax`` over the class dimension, in at least float32."""
    return F.log_softmax(logits, dim=1, dtype=_statistics_dtype(logits))


def _statistics_dtype(logits: Tensor) -> torch.dtype:
    return torch.float32 if logits.element_size() < 4 else logits.dtype


def _check_tensors(logits: Tensor, target: Tensor) -> None:
    for name, value in (("logits", logits), ("target", target)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    if not logits.is_floating_point():
        raise TypeError(f"logits: expected a floating-point tensor, got {logits.dtype}")
    if logits.ndim == 0:
        raise ValueError("logits: expected shape (N, K), (N, K, d1, …) or (K,), got a scalar")
    num_classes = logits.shape[min(logits.ndim - 1, 1)]
    if num_classes < 2:
        raise ValueError(
            f"logits: expected at least 2 classes, got shape {tuple(logits.shape)}; "
            "for one logit a label use noiseproof.losses.Binary"
        )


def _per_sample(term: Term, logits: Tensor, labels: Labels) -> Tensor:
    rowwise, batchwise = _taken_apart(term) if _pays_to_slice(logits, labels) else (None, term)
    if rowwise is None or learns(rowwise, logits, labels):
        return term.per_sample(log_probabilities(logits), labels)
    per_sample = _sliced(rowwise, logits, labels)
    if batchwise is None:
        return per_sample
    return per_sample + batchwise.per_sample(log_probabilities(logits), labels)


def _taken_apart(term: Term) -> tuple[Term | None, Term | None]:
    """Return what of a loss may go slice by slice, and what needs the whole batch; ``None`` is nothing."""
    if term.rowwise:
        return term, None
    if not isinstance(term, WeightedSum):
        return None, term
    pairs = [(weight, _taken_apart(part)) for weight, part in term.parts]
    rowwise = tuple((weight, rows) for weight, (rows, _) in pairs if rows is not None)
    batchwise = tuple((weight, batch) for weight, (_, batch) in pairs if batch is not None)
    return WeightedSum(rowwise) if rowwise else None, WeightedSum(batchwise)


def learns(term: Term, logits: Tensor, labels: Labels) -> bool:
    """Whether a row-wise term holds numbers that are learned themselves, such as a temperature in a user's loss.

    A function does not say what it refers to. Its loss of a single position, which nothing else gives a gradient
    to, does.
    """
    if not torch.is_grad_enabled():
        return False
    log_p = log_probabilities(first_position(logits.detach()))
    return term.per_sample(log_p, labels.of_first_position()).requires_grad


def _pays_to_slice(logits: Tensor, labels: Labels) -> bool:
    """Whether to go slice by slice: large logits on a CPU, not under a tracer or a function transform."""
    return (
        logits.device.type == "cpu"
        and logits.numel() >= 2 * SLICE_ELEMENTS
        and logits.shape[0] > 1
        and not torch.compiler.is_compiling()
        and not is_transformed(logits)
        and not is_transformed(labels.tensor)
        and not labels.tensor.requires_grad
        and torch.autograd.forward_ad._current_level < 0
    )


class _SlicedRows(torch.autograd.Function):
    """Evaluate a row-wise term slice by slice; backward evaluates each slice again.

    Autograd on the whole batch keeps several tensors as large as the logits and moves each of them through
    memory many times. Here nothing of that size is kept but the logits themselves, and what each slice needs
    stays in the cache, so that evaluating twice costs less than storing once.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Labels, term: Term) -> Tensor:
        # Labels are saved as logits are, so that torch raises an error where either was overwritten since.
        ctx.save_for_backward(logits, *labels.of_rows(slice(None)))
        ctx.labels_type, ctx.term = type(labels), term
        slices = [
            term.per_sample(log_probabilities(logits[rows]), labels.of_rows(rows))
            for rows in _row_slices(logits)
        ]
        return torch.cat(slices)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        (grad_per_sample,) = grad_outputs
        logits, *fields = ctx.saved_tensors
        labels, term = ctx.labels_type(*fields), ctx.term
        again = torch.is_grad_enabled()  # a second derivative is wanted: let autograd see the whole of it
        if again or is_transformed(grad_per_sample):
            with torch.enable_grad():
                per_sample = term.per_sample(log_probabilities(logits), labels)
            (grad,) = torch.autograd.grad(per_sample, logits, grad_per_sample, create_graph=again)
            return grad, None, None
        grad = torch.empty_like(logits)
        for rows in _row_slices(logits):
            with torch.enable_grad():
                part = logits[rows].detach().requires_grad_()
                per_sample = term.per_sample(log_probabilities(part), labels.of_rows(rows))
            (grad[rows],) = torch.autograd.grad(per_sample, part, grad_per_sample[rows])
        return grad, None, None


def _sliced(term: Term, logits: Tensor, labels: Labels) -> Tensor:
    per_sample: Tensor = _SlicedRows.apply(logits, labels, term)  # type: ignore[no-untyped-call]
    return per_sample


def _row_slices(logits: Tensor) -> list[slice]:
    step = max(1, SLICE_ELEMENTS // max(1, logits[0].numel()))
    return [slice(start, start + step) for start in range(0, logits.shape[0], step)]
