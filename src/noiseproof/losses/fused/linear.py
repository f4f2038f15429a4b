# SPDX-License-Identifier: Apache-2.0
"""The last linear layer and the loss in one: logits exist for a few rows at a time.

For a mean or a sum, the gradients of features, weights and bias are made in the forward pass, while each piece of
the logits is at hand. A loss per sample, and float16, compute the logits again in the backward pass.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from noiseproof.losses.calculus import Term
from noiseproof.losses.evaluate import evaluate, evaluate_plainly, learns
from noiseproof.losses.fused import launch
from noiseproof.losses.fused.gate import has_kernels_for, plan_for
from noiseproof.losses.fused.operators import scaled
from noiseproof.losses.fused.plan import Plan
from noiseproof.losses.labels import IndexLabels, read_labels
from noiseproof.losses.module import RobustLoss, evaluates_its_term

CHUNK_BYTES = 1 << 28
"""Logits that exist at a time, unless told otherwise: enough rows to keep a GPU's matrix units busy."""


def fused_linear(
    loss: RobustLoss | Term,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: Tensor,
    *,
    chunk_rows: int | None = None,
) -> Tensor:
    """``loss(hidden @ weight.T + bias, target)``, without ever holding all logits.

    For many classes the logits and their gradient are the largest tensors of a training step: 2 GiB each for 8192
    rows and 131,072 classes in bfloat16. Here they take 256 MiB. On a GPU the fused kernels make the gradients,
    elsewhere torch's own operations do, piece by piece too. Soft labels, ANL-CE* (whose regulariser looks at the
    whole batch), losses that change their logits and losses that learn a number or class weights of their own are
    evaluated on all logits at once. The gradient of the weights is summed up over the pieces in the weights' own
    precision.

    Args:
        loss: a loss Module, whose weight, ignore_index and reduction count; or a term.
        hidden: features (…, H).
        weight: of the linear layer (K, H).
        bias: of the linear layer (K,), or ``None``.
        target: class indices (…), or probabilities (…, K).
        chunk_rows: rows whose logits exist at a time; by default as many as take 256 MiB.

    Example:
        >>> import torch
        >>> from noiseproof.losses import ANLCrossEntropy
        >>> from noiseproof.losses.fused import fused_linear
        >>> head = torch.nn.Linear(16, 1000)
        >>> features, labels = torch.zeros(32, 16), torch.arange(32)
        >>> torch.nn.init.zeros_(head.bias)
        Parameter containing:
        ...
        >>> fused_linear(ANLCrossEntropy(), features, head.weight, head.bias, labels)
        tensor(5., grad_fn=...)
    """
    module = loss if isinstance(loss, RobustLoss) else RobustLoss(loss)
    _check(hidden, weight, bias, chunk_rows)
    _check_target(target, hidden, weight.shape[0])
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight = hidden.to(dtype), weight.to(dtype)
        bias = None if bias is None else bias.to(dtype)
    rows, labels = hidden.reshape(-1, hidden.shape[-1]), target.reshape(-1)
    in_pieces = (
        module.term.rowwise
        and evaluates_its_term(type(module))
        and not target.is_floating_point()
        and target.numel() > 0
        and not torch.compiler.is_compiling()
        and not _learns(module, rows, weight.shape[0])
    )
    if not in_pieces:
        if target.is_floating_point():
            labels = target.reshape(-1, weight.shape[0])
        result: Tensor = module(F.linear(rows, weight, bias), labels)
    else:
        work = _Work(module, rows, weight, labels, chunk_rows)
        result = _FusedLinear.apply(rows, weight, bias, labels, work)  # type: ignore[no-untyped-call]
    return result.view(hidden.shape[:-1]) if module.reduction == "none" else result


def _check(hidden: Tensor, weight: Tensor, bias: Tensor | None, chunk_rows: int | None) -> None:
    if weight.ndim != 2 or hidden.ndim < 1 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"weight: expected (K, H) for features (…, H) of shape {tuple(hidden.shape)}, got {tuple(weight.shape)}"
        )
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise ValueError(f"bias: expected one number a class, ({weight.shape[0]},), got {tuple(bias.shape)}")
    if chunk_rows is not None and chunk_rows < 1:
        raise ValueError(f"chunk_rows: expected a number of rows of at least 1, got {chunk_rows}")


def _check_target(target: Tensor, hidden: Tensor, classes: int) -> None:
    """Refuse labels of another shape, even of as many rows: those would go to other rows than their own."""
    indices, probabilities = tuple(hidden.shape[:-1]), (*hidden.shape[:-1], classes)
    if tuple(target.shape) != (probabilities if target.is_floating_point() else indices):
        raise ValueError(
            f"target: expected class indices of shape {indices} or floating-point probabilities of shape "
            f"{probabilities} for features of shape {tuple(hidden.shape)}, got {target.dtype} of shape "
            f"{tuple(target.shape)}"
        )


def _learns(module: RobustLoss, rows: Tensor, classes: int) -> bool:
    """Whether the loss has something to learn itself, of which the layer's own backward pass knows nothing."""
    if module.weight is not None and module.weight.requires_grad:
        return True
    logits = rows.new_zeros((1, classes))
    indices = logits.new_zeros(1, dtype=torch.long)
    takes_constants_only = plan_for(module.term, logits, indices, None) is not None  # as the kernels do
    return not takes_constants_only and learns(module.term, logits, IndexLabels(indices, indices == 0, None))


class _Work:
    """How the rows are cut, and what the loss makes of the logits of some of them."""

    def __init__(
        self, module: RobustLoss, rows: Tensor, weight: Tensor, labels: Tensor, chunk_rows: int | None
    ) -> None:
        self.term = module.term
        # The kernels read one number after the other.
        self.class_weight = None if module.weight is None else module.weight.contiguous()
        self.ignore_index, self.reduction = module.ignore_index, module.reduction
        classes = weight.shape[0]
        row_bytes = classes * torch.promote_types(rows.dtype, weight.dtype).itemsize
        step = chunk_rows or max(1, CHUNK_BYTES // row_bytes)
        self.pieces = [slice(start, start + step) for start in range(0, len(rows), step)]
        # Stands for the logits in checks of the labels, and takes no memory.
        few = rows.new_empty((1, 1)).expand(len(rows), classes)
        read_labels(few, labels, self.class_weight, self.ignore_index, module.check_labels, torch.float32)

    def plan(self, logits: Tensor, labels: Tensor) -> Plan | None:
        """Return how the kernels see the loss, or ``None`` where they cannot be used."""
        return plan_for(self.term, logits, labels, self.class_weight)

    def total_weight(self, labels: Tensor) -> Tensor:
        """Sum of the weights in use, by which a mean divides; 1 if there are none."""
        labels = labels.long()  # in a narrow type ignore_index would wrap around to a class
        used = labels != self.ignore_index
        weights = used.float()
        if self.class_weight is not None:
            weights = weights * launch.weight_of_each(self.class_weight, labels)
        total = weights.sum()
        return torch.where(total > 0, total, 1.0)

    def loss_of(
        self, logits: Tensor, labels: Tensor, total: Tensor, gradient: bool, upstream: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Loss of some rows, and the gradient by their logits, which may have taken their place."""
        plan = self.plan(logits, labels)
        if plan is None:
            return self._plain_loss_of(logits, labels, total, gradient, upstream)
        loss = launch.softmax_loss(
            plan,
            logits,
            labels.contiguous(),
            self.class_weight,
            self.ignore_index,
            reduction=self.reduction,
            loss=True,
            gradient=logits if gradient else None,
            totals=total.view(1) if self.reduction == "mean" else None,
            upstream=None if upstream is None else upstream.float().contiguous(),
        )
        assert loss is not None
        return loss, logits if gradient else None

    def _plain_loss_of(
        self, logits: Tensor, labels: Tensor, total: Tensor, gradient: bool, upstream: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        arguments = (labels, self.class_weight, self.ignore_index)
        reduction = "none" if self.reduction == "none" else "sum"
        with torch.set_grad_enabled(gradient):
            leaf = logits.detach().requires_grad_(gradient)
            loss = evaluate_plainly(self.term, leaf, *arguments, reduction, check_labels=False)
            if self.reduction == "mean":
                loss = loss / total
        if not gradient:
            return loss, None
        return loss.detach(), torch.autograd.grad(loss, leaf, upstream)[0]


class _FusedLinear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, work: _Work
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        at_once = any(wanted) and work.reduction != "none" and hidden.dtype != torch.float16
        loss, gradients = _sweep(
            hidden, weight, bias, labels, work, wanted if at_once else (False,) * 3, None
        )
        if any(wanted):
            ctx.work, ctx.at_once = work, at_once
            ctx.save_for_backward(hidden, weight, bias, labels, *(gradients if at_once else ()))
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = grad_outputs
        hidden, weight, bias, labels, *gradients = ctx.saved_tensors
        work, wanted = ctx.work, ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # a second derivative is wanted: let autograd see the whole of it
            logits = F.linear(hidden, weight, bias)
            loss = evaluate(
                work.term, logits, labels, work.class_weight, work.ignore_index, work.reduction, False
            )
            inputs = [x for x, needed in zip((hidden, weight, bias), wanted, strict=True) if needed]
            found = iter(torch.autograd.grad(loss, inputs, upstream, create_graph=True))
            gradients = [next(found) if needed else None for needed in wanted]
        elif ctx.at_once:
            gradients = [None if g is None else _times(g, upstream) for g in gradients]
        else:
            _, gradients = _sweep(hidden, weight, bias, labels, work, wanted, upstream)
        return *gradients, None, None


def _times(gradient: Tensor, upstream: Tensor) -> Tensor:
    """Multiply by a number that is not rounded to the gradient's precision first, as torch would."""
    if has_kernels_for(gradient):
        return scaled(gradient, upstream)
    wide = torch.promote_types(gradient.dtype, upstream.dtype)
    return (gradient.to(wide) * upstream).to(gradient.dtype)


def _sweep(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    labels: Tensor,
    work: _Work,
    wanted: tuple[bool, ...],
    upstream: Tensor | None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Go over the rows piece by piece: the loss, and the wanted gradients of features, weights and bias."""
    grad_hidden = torch.empty_like(hidden) if wanted[0] else None
    grad_weight = torch.zeros_like(weight) if wanted[1] else None
    grad_bias = torch.zeros_like(bias, dtype=torch.float32) if bias is not None and wanted[2] else None
    total = work.total_weight(labels)
    losses = []
    with launch.on_device_of(hidden):
        for rows in work.pieces:
            part = hidden[rows]
            logits = F.linear(part, weight, bias)
            scale = upstream if upstream is None or upstream.ndim == 0 else upstream[rows]
            loss, gradient = work.loss_of(logits, labels[rows], total, any(wanted), scale)
            losses.append(loss)
            if gradient is None:
                continue
            if grad_hidden is not None:
                torch.mm(gradient, weight, out=grad_hidden[rows])
            if grad_weight is not None:
                grad_weight.addmm_(gradient.t(), part)
            if grad_bias is not None:
                grad_bias += gradient.sum(0, dtype=torch.float32)
    loss = torch.cat(losses) if work.reduction == "none" else torch.stack(losses).sum()
    if grad_bias is not None and bias is not None:
        grad_bias = grad_bias.to(bias.dtype)
    return loss, [grad_hidden, grad_weight, grad_bias]
