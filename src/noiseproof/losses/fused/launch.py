"""From tensors to launches: how logits lie in memory, how much a program takes, and which kernels run.

Nothing here waits for the device or reads a value from it, so that all of it can be captured in a CUDA graph.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor

from noiseproof.losses.fused import kernels
from noiseproof.losses.fused.plan import Plan

RESIDENT_CLASSES = 16384
"""Largest power of two of classes that a program keeps in registers; longer rows are read in pieces."""

LABELS_A_BLOCK = 1024
LABEL_PARTIALS = 512
"""At most so many partial sums of label weights: each program of a mean adds them up by itself."""

SUM_PROGRAMS = 528
"""Programs that add up probabilities: four for each multiprocessor of a large GPU."""


class Layout(NamedTuple):
    """Logits as (outer, classes, inner): sizes and strides."""

    outer: int
    classes: int
    inner: int
    outer_stride: int
    class_stride: int
    inner_stride: int


class Tile(NamedTuple):
    """What a program takes: a block of positions, and all classes of them or ``lanes · unroll`` at a time."""

    resident: bool
    positions: int
    lanes: int
    unroll: int
    stages: int
    warps: int


def layout_of(logits: Tensor) -> Layout | None:
    """See logits (N, K, d1, …) as (outer, classes, inner), or return ``None`` where strides do not allow it."""
    n, classes = logits.shape[:2]
    shape, strides = logits.shape[2:], logits.stride()[2:]
    inner, inner_stride = 1, 0
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if inner > 1 and stride != inner * inner_stride:
            return None
        if inner == 1:
            inner_stride = stride
        inner *= size
    n_stride, class_stride = logits.stride()[:2]
    if inner == 1:
        return Layout(1, classes, n, 0, class_stride, n_stride)
    if n == 1 or n_stride == inner * inner_stride:
        return Layout(1, classes, n * inner, 0, class_stride, inner_stride)
    return Layout(n, classes, inner, n_stride, class_stride, inner_stride)


def tile_of(layout: Layout) -> Tile:
    """Choose what a program takes; the numbers were measured on an H200."""
    classes = _next_power_of_two(layout.classes)
    if layout.class_stride == 1:
        return _tile_of_rows(classes)
    return _tile_of_images(classes, layout)


def _tile_of_rows(classes: int) -> Tile:
    if classes > RESIDENT_CLASSES:
        return Tile(False, 1, 1024, 8, 1, 32)
    positions = max(1, 1024 // classes)
    warps = min(32, max(1, positions * classes // 512))
    return Tile(True, positions, classes, 1, 1, warps)


def _tile_of_images(classes: int, layout: Layout) -> Tile:
    if classes > 128:
        return Tile(False, 128, 1, 8, 1, 4)
    positions = min(max(2048 // classes, 16), _next_power_of_two(layout.inner))
    return Tile(True, positions, classes, 1, 1, 2 if positions * classes >= 2048 else 1)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _blocks(layout: Layout, tile: Tile) -> int:
    return layout.outer * -(-layout.inner // tile.positions)


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Launch on the tensor's GPU, which need not be the current one."""
    if tensor.is_cuda and tensor.device.index != torch.cuda.current_device():
        return torch.cuda.device(tensor.device)
    return nullcontext()


def label_totals(target: Tensor, weight: Tensor | None, classes: int, ignore_index: int) -> Tensor:
    """Partial sums of the weights of the labels in use; a power of two of them."""
    count = target.numel()
    rounds = max(1, -(-count // (LABELS_A_BLOCK * LABEL_PARTIALS)))
    programs = -(-count // (LABELS_A_BLOCK * rounds))
    size = _next_power_of_two(max(programs, 1))
    make = torch.empty if size == programs else torch.zeros
    partials = make(size, dtype=torch.float32, device=target.device)
    if count:
        kernels.label_weights[(programs,)](
            target,
            weight,
            partials,
            count,
            ignore_index,
            rounds,
            NUM_CLASSES=classes,
            BLOCK=LABELS_A_BLOCK,
            WEIGHTED=weight is not None,
            num_warps=4,
        )
    return partials


class Entropy(NamedTuple):
    """The marginal entropy of a batch: its value, and how it changes with each class's probability."""

    penalty: Tensor
    slopes: Tensor


def marginal_entropy(plan: Plan, logits: Tensor, target: Tensor, ignore_index: int) -> Entropy:
    """Penalty of a batch; ``slopes`` are already divided by the number of positions in use."""
    layout = _layout(logits)
    classes = layout.classes
    tile = tile_of(layout)
    statistics = None
    if tile.resident:
        shape = (tile.positions, tile.lanes * tile.unroll)
    else:
        statistics = torch.empty(2 * target.numel(), dtype=torch.float32, device=logits.device)
        kernels.softmax_statistics[(_blocks(layout, tile),)](
            logits,
            statistics,
            layout.inner,
            layout.outer_stride,
            layout.class_stride,
            NUM_CLASSES=classes,
            INNER_STRIDE=layout.inner_stride,
            POSITIONS=tile.positions,
            LANES=tile.lanes,
            UNROLL=tile.unroll,
            STAGES=tile.stages,
            num_warps=tile.warps,
        )
        shape = (4, 1024) if layout.class_stride == 1 else (256, 16)
    positions, width = shape
    blocks = layout.outer * -(-layout.inner // positions)
    # One partial sum a class and program: as many as add at most a hundredth to the memory that the logits take.
    programs = max(1, min(SUM_PROGRAMS, blocks, target.numel() * logits.element_size() // 400))
    partials = torch.empty((programs, classes), dtype=torch.float32, device=logits.device)
    kernels.class_sums[(programs, -(-classes // width))](
        logits,
        target,
        statistics,
        partials,
        layout.inner,
        blocks,
        layout.outer_stride,
        layout.class_stride,
        ignore_index,
        NUM_CLASSES=classes,
        INNER_STRIDE=layout.inner_stride,
        P_MIN=plan.entropy_floor,
        RESIDENT=tile.resident,
        POSITIONS=positions,
        CLASSES=width,
        num_warps=tile.warps if tile.resident else 4,
    )
    low, high = plan.entropy_floor, 1 - plan.entropy_floor
    count = label_totals(target, None, classes, ignore_index).sum()
    mean = partials.sum(0) / count.clamp(min=1)
    marginal = mean.clamp(low, high)
    logarithm = marginal.log()
    penalty = torch.where(count > 0, math.log(classes) + (marginal * logarithm).sum(), 0.0)
    flat = (mean < low) | (mean > high)
    slopes = torch.where(flat, 0.0, (logarithm + 1) / count.clamp(min=1))
    return Entropy(penalty, slopes)


def softmax_loss(
    plan: Plan,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    *,
    reduction: str,
    loss: bool,
    gradient: Tensor | None,
    totals: Tensor | None = None,
    upstream: Tensor | None = None,
    entropy: Entropy | None = None,
    tile: Tile | None = None,
) -> Tensor | None:
    """Run the kernel: return the loss if it is wanted, and fill ``gradient`` if it is given.

    Args:
        plan: the loss.
        logits: (N, K, d1, …), read only, unless ``gradient`` is the same tensor.
        target: class indices (N, d1, …), contiguous.
        weight: one weight a class (K,).
        ignore_index: the index that marks positions without a label.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        loss: whether the loss is wanted.
        gradient: where the gradient goes; of the logits' shape.
        totals: what :func:`label_totals` returned, for a mean.
        upstream: gradient of the loss, by which its own is scaled: one number, or one a position.
        entropy: what :func:`marginal_entropy` returned, the slopes scaled as the gradient wants them.
        tile: what a program takes, where the choice of :func:`tile_of` is not wanted.
    """
    layout = _layout(logits)
    into = layout if gradient is None else _layout(gradient, like=layout)
    tile = tile or tile_of(layout)
    blocks = _blocks(layout, tile)
    losses = None
    if loss:
        shape = target.shape if reduction == "none" else (blocks,)
        losses = torch.empty(shape, dtype=torch.float32, device=logits.device)
    if blocks:
        kernels.softmax_loss[(blocks,)](
            logits,
            gradient,
            target,
            weight,
            upstream,
            totals,
            entropy.penalty if entropy else None,
            entropy.slopes if entropy else None,
            losses,
            layout.inner,
            layout.outer_stride,
            layout.class_stride,
            into.outer_stride,
            into.class_stride,
            0 if upstream is None or upstream.ndim == 0 else 1,
            ignore_index,
            *plan.weights,
            plan.entropy_weight,
            NUM_CLASSES=layout.classes,
            INNER_STRIDE=layout.inner_stride,
            GRADIENT_INNER_STRIDE=into.inner_stride,
            DENSE_0=tuple(plan.dense[0]),
            DENSE_1=tuple(plan.dense[1]),
            ACTIVE_0=tuple(plan.active[0]),
            ACTIVE_1=tuple(plan.active[1]),
            ENTROPY_FLOOR=plan.entropy_floor,
            WEIGHTED=weight is not None,
            MEAN_OVER=0 if totals is None else totals.numel(),
            LOSS=(2 if reduction == "none" else 1) if loss else 0,
            GRADIENT=gradient is not None,
            UPSTREAM=upstream is not None,
            RESIDENT=tile.resident,
            POSITIONS=tile.positions,
            LANES=tile.lanes,
            UNROLL=tile.unroll,
            STAGES=tile.stages,
            num_warps=tile.warps,
        )
    if losses is None or reduction == "none":
        return losses
    return losses.sum()


def scale_unless_one(gradient: Tensor, factor: Tensor) -> None:
    """Multiply ``gradient`` in place by a number on the device, reading it only where that is not 1."""
    size, block = gradient.numel(), 4096
    programs = min(SUM_PROGRAMS, -(-size // block))
    if programs:
        kernels.scale_unless_one[(programs,)](gradient, factor, size, BLOCK=block, num_warps=8)


def _layout(tensor: Tensor, like: Layout | None = None) -> Layout:
    layout = layout_of(tensor)
    if layout is None or (like is not None and (layout.outer, layout.inner) != (like.outer, like.inner)):
        raise RuntimeError(
            f"logits of shape {tuple(tensor.shape)} and strides {tensor.stride()} have no layout"
        )
    return layout
