# SPDX-License-Identifier: Apache-2.0
"""The fused loss as torch sees it: an autograd function in eager mode, registered operators under torch.compile.

For a mean or a sum the gradient of the loss is one number, nearly always 1, so the forward pass writes the gradient
of the logits at once, and the backward pass only looks whether it must be scaled. Everything else computes the
gradient in the backward pass, from the logits: a loss per position, float16 (whose gradients want the scale of the
loss before they are rounded), and compiled graphs (which may not change in the backward pass what they saved).
"""

from typing import Any

import torch
from torch import Tensor

from noiseproof.losses.calculus import Term
from noiseproof.losses.evaluate import evaluate_plainly
from noiseproof.losses.fused import launch
from noiseproof.losses.fused.plan import Plan

NO_TENSOR_SHAPE = (0,)


class _Batch:
    """What the passes of one loss share: the plan and its inputs."""

    def __init__(
        self,
        plan: Plan,
        logits: Tensor,
        target: Tensor,
        weight: Tensor | None,
        ignore_index: int,
        reduction: str,
    ) -> None:
        self.plan = plan
        # Strides that the kernels cannot follow are rare: a crop of an image, say.
        self.logits = logits if launch.layout_of(logits) is not None else logits.contiguous()
        self.target = target.contiguous()
        self.weight = None if weight is None else weight.contiguous()
        self.ignore_index = ignore_index
        self.reduction = reduction

    def totals(self) -> Tensor | None:
        """Partial sums of the label weights, where the reduction needs them."""
        summed_entropy = self.plan.entropy_weight != 0 and self.reduction == "sum"
        if self.reduction == "mean" or summed_entropy:
            return launch.label_totals(self.target, self.weight, self.logits.shape[1], self.ignore_index)
        return None

    def entropy(self) -> launch.Entropy | None:
        """Marginal entropy of the batch, where it is a part of the loss."""
        if self.plan.entropy_weight == 0:
            return None
        return launch.marginal_entropy(self.plan, self.logits, self.target, self.ignore_index)

    def run(
        self,
        *,
        loss: bool,
        gradient: Tensor | None = None,
        totals: Tensor | None = None,
        entropy: launch.Entropy | None = None,
        upstream: Tensor | None = None,
    ) -> Tensor | None:
        """Run the kernel; for a gradient, the entropy's slopes are scaled by what the whole batch weighs."""
        if entropy is not None and gradient is not None:
            entropy = entropy._replace(slopes=self._batch_weight(totals, upstream) * entropy.slopes)
        return launch.softmax_loss(
            self.plan,
            self.logits,
            self.target,
            self.weight,
            self.ignore_index,
            reduction=self.reduction,
            loss=loss,
            gradient=gradient,
            totals=totals if self.reduction == "mean" else None,
            upstream=upstream,
            entropy=entropy,
        )

    def _batch_weight(self, totals: Tensor | None, upstream: Tensor | None) -> Tensor:
        """Sum over the positions of the factors by which the entropy enters the loss."""
        if self.reduction == "none":
            assert upstream is not None
            used = self.target != self.ignore_index
            factors = upstream
            if self.weight is not None:
                factors = factors * launch.weight_of_each(self.weight, self.target)
            total = torch.where(used, factors, 0.0).sum()
        else:
            assert totals is not None
            total = totals.sum()
            if self.reduction == "mean":
                total = torch.where(total > 0, 1.0, 0.0)
            if upstream is not None:
                total = total * upstream
        return self.plan.entropy_weight * total


def _position_wise(upstream: Tensor) -> Tensor:
    """Return the gradient of the loss as the kernel reads it: float32, one number or one a position."""
    return upstream.to(torch.float32).contiguous()


class _FusedLoss(torch.autograd.Function):
    """The loss in eager mode."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        weight: Tensor | None,
        term: Term,
        plan: Plan,
        ignore_index: int,
        reduction: str,
        inplace_gradient: bool,
    ) -> Tensor:
        with launch.on_device_of(logits):
            batch = _Batch(plan, logits, target, weight, ignore_index, reduction)
            wanted = ctx.needs_input_grad[0]
            at_once = wanted and reduction != "none" and logits.dtype != torch.float16
            over_logits = inplace_gradient and batch.logits is logits and launch.is_dense(logits)
            gradient = None
            if at_once:
                gradient = logits.detach() if over_logits else torch.empty_like(batch.logits)
            totals, entropy = batch.totals(), batch.entropy()
            loss = batch.run(loss=True, gradient=gradient, totals=totals, entropy=entropy)
        assert loss is not None
        if wanted:
            if at_once and over_logits:
                torch.autograd.graph.increment_version(logits)
            ctx.batch_arguments = (plan, ignore_index, reduction)
            ctx.term, ctx.at_once, ctx.over_logits = term, at_once, over_logits
            slopes = None if entropy is None or at_once else entropy.slopes
            kept = gradient if at_once and not over_logits else None
            ctx.save_for_backward(
                logits, batch.target, batch.weight, kept, None if at_once else totals, slopes
            )
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = grad_outputs
        logits, target, weight, gradient, totals, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():
            grad = _differentiable_gradient(ctx, upstream, logits, target, weight)
        elif ctx.at_once:
            grad = scaled(logits.detach() if ctx.over_logits else gradient, upstream)
        else:
            with launch.on_device_of(logits):
                batch = _Batch(ctx.batch_arguments[0], logits, target, weight, *ctx.batch_arguments[1:])
                over_logits = ctx.over_logits and not graph_is_kept()
                grad = logits.detach() if over_logits else torch.empty_like(batch.logits)
                entropy = None if slopes is None else launch.Entropy(slopes, slopes)
                upstream = _position_wise(upstream)
                batch.run(loss=False, gradient=grad, totals=totals, entropy=entropy, upstream=upstream)
            if over_logits:
                torch.autograd.graph.increment_version(logits)
        return grad, *[None] * 7


def scaled(gradient: Tensor, upstream: Tensor) -> Tensor:
    """Return a saved gradient times a number in its own precision, in place unless it may be asked for again."""
    if graph_is_kept():
        gradient = gradient.clone()
    with launch.on_device_of(gradient):
        launch.scale_unless_one(gradient, upstream)
    return gradient


def graph_is_kept() -> bool:
    """Whether the backward pass under way may be asked for again, so that nothing saved may change."""
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())


def _differentiable_gradient(
    ctx: Any, upstream: Tensor, logits: Tensor, target: Tensor, weight: Tensor | None
) -> Tensor:
    """Gradient by the plain path, which autograd can differentiate again."""
    if ctx.at_once and ctx.over_logits:
        raise RuntimeError(
            "inplace_gradient: the gradient has taken the place of the logits, so that a second derivative does "
            "not exist; leave inplace_gradient off where create_graph=True is used"
        )
    _, ignore_index, reduction = ctx.batch_arguments
    loss = evaluate_plainly(ctx.term, logits, target, weight, ignore_index, reduction)
    (grad,) = torch.autograd.grad(loss, logits, upstream, create_graph=True)
    return grad


def eager_loss(
    term: Term,
    plan: Plan,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    inplace_gradient: bool,
) -> Tensor:
    """Loss of logits (N, K, d1, …), in eager mode."""
    loss: Tensor = _FusedLoss.apply(  # type: ignore[no-untyped-call]
        logits, target, weight, term, plan, ignore_index, reduction, inplace_gradient
    )
    return loss


@torch.library.custom_op("noiseproof::softmax_loss", mutates_args=())
def softmax_loss(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    plan: list[float],
    ignore_index: int,
    reduction: str,
) -> tuple[Tensor, Tensor]:
    """Loss, and the slopes of its marginal entropy (nothing where it has none)."""
    with launch.on_device_of(logits):
        batch = _Batch(Plan.restore(plan), logits, target, weight, ignore_index, reduction)
        entropy = batch.entropy()
        loss = batch.run(loss=True, totals=batch.totals(), entropy=entropy)
    assert loss is not None
    return loss, logits.new_empty(NO_TENSOR_SHAPE) if entropy is None else entropy.slopes


@softmax_loss.register_fake
def _(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    plan: list[float],
    ignore_index: int,
    reduction: str,
) -> tuple[Tensor, Tensor]:
    loss = target.new_empty(target.shape if reduction == "none" else (), dtype=torch.float32)
    if Plan.restore(plan).entropy_weight == 0:
        return loss, logits.new_empty(NO_TENSOR_SHAPE)
    return loss, logits.new_empty(logits.shape[1], dtype=torch.float32)


@torch.library.custom_op("noiseproof::softmax_loss_gradient", mutates_args=())
def softmax_loss_gradient(
    upstream: Tensor,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    slopes: Tensor,
    plan: list[float],
    ignore_index: int,
    reduction: str,
) -> Tensor:
    """Gradient of :func:`softmax_loss` by the logits."""
    with launch.on_device_of(logits):
        batch = _Batch(Plan.restore(plan), logits, target, weight, ignore_index, reduction)
        gradient = torch.empty_like(batch.logits)
        entropy = launch.Entropy(slopes, slopes) if slopes.numel() else None
        upstream = _position_wise(upstream)
        batch.run(loss=False, gradient=gradient, totals=batch.totals(), entropy=entropy, upstream=upstream)
    # The compiler was told of strides that follow those of the logits, not of a copy of them.
    return gradient if batch.logits is logits else torch.empty_like(logits).copy_(gradient)


@softmax_loss_gradient.register_fake
def _(
    upstream: Tensor,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    slopes: Tensor,
    plan: list[float],
    ignore_index: int,
    reduction: str,
) -> Tensor:
    return torch.empty_like(logits)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, target, weight, plan, ignore_index, reduction = inputs
    ctx.save_for_backward(logits, target, weight, output[1])
    ctx.arguments = (plan, ignore_index, reduction)


def _backward(ctx: Any, upstream: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    logits, target, weight, slopes = ctx.saved_tensors
    gradient = softmax_loss_gradient(upstream, logits, target, weight, slopes, *ctx.arguments)
    return gradient, None, None, None, None, None


softmax_loss.register_autograd(_backward, setup_context=_setup_context)


def compiled_loss(
    plan: Plan, logits: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str
) -> Tensor:
    """Loss of logits (N, K, d1, …), under torch.compile."""
    loss: Tensor
    loss, _ = softmax_loss(logits, target, weight, plan.flatten(), ignore_index, reduction)
    return loss
