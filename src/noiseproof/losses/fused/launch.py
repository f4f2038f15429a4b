# SPDX-License-Identifier: Apache-2.0
"""From tensors to launches: how logits lie in memory, how much a program takes, and which kernels run.

Nothing here waits for the device or reads a value from it, so that all of it can be captured in a CUDA graph.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from noiseproof.losses.fused import batch_kernels, resident, streamed
from noiseproof.losses.fused.language import INTERPRETED
from noiseproof.losses.fused.plan import Plan

TILED_CLASSES = 4096
"""Largest power of two of classes in a row that a program keeps in registers; longer rows are read in pieces."""

THREADED_CLASSES = 32
"""Most classes of an image that a thread keeps in registers."""

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
    """What a program takes: a block of positions, in one of three ways.

    Attributes:
        kernel: ``"tiled"``, ``"threaded"`` or ``"streamed"``.
        positions: so many positions at a time.
        lanes: classes of a position, a power of two; of a streamed one, those that are added up by themselves.
        unroll: classes that a lane of a streamed position takes at a time.
        warps: of a program.
        persistent: whether a streamed program takes one block after another.
    """

    kernel: str
    positions: int
    lanes: int = 1
    unroll: int = 1
    warps: int = 4
    persistent: bool = False


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
    """Choose what a program takes: rows by what was fastest on an H200, images by the least work for a thread."""
    classes = _next_power_of_two(layout.classes)
    if layout.class_stride != 1:
        if layout.classes <= THREADED_CLASSES:
            return Tile("threaded", 256, warps=4)
        return Tile("streamed", 256, warps=4)
    if classes <= 16:
        return Tile("tiled", 64, classes, warps=1)
    if classes <= TILED_CLASSES:
        return Tile("tiled", max(1, 512 // classes), classes, warps=1 if classes <= 2048 else 2)
    if classes <= 32768:
        return Tile("streamed", 1, 512, 8, warps=16)
    return Tile("streamed", 1, 1024, 8 if classes <= 65536 else 16, warps=32)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _blocks(layout: Layout, tile: Tile) -> int:
    return layout.outer * -(-layout.inner // tile.positions)


def on_device_of(tensor: Tensor) -> AbstractContextManager[object]:
    """Launch on the tensor's GPU, which need not be the current one."""
    if tensor.is_cuda and tensor.device.index != torch.cuda.current_device():
        return torch.cuda.device(tensor.device)
    return nullcontext()


_KERNELS = {
    "tiled": resident.softmax_loss_tiled,
    "threaded": resident.softmax_loss_threaded,
    "streamed": streamed.softmax_loss_streamed,
}
_compiled: dict[tuple[object, ...], Any] = {}


def _launch(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], warps: int, **constants: Any
) -> None:
    """Launch a kernel, the second time past Triton's own lookup, which takes longer than a small batch does.

    ``constants`` stand in the order of the kernel's signature.
    """
    if INTERPRETED:
        kernel[grid](*arguments, **constants)
        return
    key = (kernel, warps, torch.cuda.current_device(), *constants.values(), *map(_trait, arguments))
    compiled = _compiled.get(key)
    if compiled is not None:
        try:
            compiled[(*grid, 1, 1)[:3]](*arguments, *constants.values())
            return
        except (TypeError, AttributeError):  # a Triton whose compiled kernels are called in another way
            pass
    _compiled[key] = kernel[grid](*arguments, **constants, num_warps=warps)


def _trait(argument: Any) -> object:
    """Return what Triton compiles for: types, alignment, and whether a number is 1 or a multiple of 16."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.data_ptr() % 16 == 0
    if isinstance(argument, int):
        return argument == 1, argument % 16 == 0, -(1 << 31) <= argument < 1 << 31
    return type(argument)


def label_totals(target: Tensor, weight: Tensor | None, classes: int, ignore_index: int) -> Tensor:
    """Partial sums of the weights of the labels in use; a power of two of them."""
    count = target.numel()
    rounds = max(1, -(-count // (LABELS_A_BLOCK * LABEL_PARTIALS)))
    programs = -(-count // (LABELS_A_BLOCK * rounds))
    size = _next_power_of_two(max(programs, 1))
    make = torch.empty if size == programs else torch.zeros
    partials = make(size, dtype=torch.float32, device=target.device)
    if count:
        _launch(
            batch_kernels.label_weights,
            (programs,),
            (target, weight, partials, count, ignore_index, rounds),
            4,
            NUM_CLASSES=classes,
            BLOCK=LABELS_A_BLOCK,
            WEIGHTED=weight is not None,
        )
    return partials


def weight_of_each(weight: Tensor, target: Tensor) -> Tensor:
    """Class weight of each label, in float32; anything for one that is no class, since its loss is NaN.

    To look that up would be an assertion on the device, after which nothing more can be computed there.
    """
    return weight.float()[target.clamp(0, len(weight) - 1).long()]


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
    if tile.kernel == "tiled":
        positions, width, warps = tile.positions, tile.lanes, tile.warps
    elif tile.kernel == "threaded":
        positions, width, warps = 64, _next_power_of_two(classes), 1
    else:
        statistics = torch.empty(2 * target.numel(), dtype=torch.float32, device=logits.device)
        _launch(
            batch_kernels.softmax_statistics,
            (_blocks(layout, tile),),
            (logits, statistics, layout.inner, layout.outer_stride, layout.class_stride),
            tile.warps,
            NUM_CLASSES=classes,
            INNER_STRIDE=layout.inner_stride,
            POSITIONS=tile.positions,
            LANES=tile.lanes,
            UNROLL=tile.unroll,
        )
        positions, width, warps = (4, 1024, 4) if layout.class_stride == 1 else (256, 16, 4)
    blocks = layout.outer * -(-layout.inner // positions)
    # One partial sum a class and program: as many as add at most a hundredth to the memory that the logits take.
    programs = max(1, min(SUM_PROGRAMS, blocks, target.numel() * logits.element_size() // 450))
    partials = torch.empty((programs, classes), dtype=torch.float32, device=logits.device)
    sizes = (layout.inner, blocks, layout.outer_stride, layout.class_stride, ignore_index)
    _launch(
        batch_kernels.class_sums,
        (programs, -(-classes // width)),
        (logits, target, statistics, partials, *sizes),
        warps,
        NUM_CLASSES=classes,
        INNER_STRIDE=layout.inner_stride,
        P_MIN=plan.entropy_floor,
        RESIDENT=statistics is None,
        POSITIONS=positions,
        CLASSES=width,
    )
    low, high = plan.entropy_floor, 1 - plan.entropy_floor
    count = label_totals(target, None, classes, ignore_index).sum()
    mean = partials.sum(0) / count.clamp(min=1)
    del partials
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
    programs = min(blocks, _multiprocessors(logits)) if tile.persistent else blocks
    losses = None
    if loss:
        shape = target.shape if reduction == "none" else (programs,)
        losses = torch.empty(shape, dtype=torch.float32, device=logits.device)
    _launch(
        _KERNELS[tile.kernel],
        (programs,),
        (
            logits,
            gradient,
            target,
            weight,
            upstream,
            totals,
            entropy.penalty if entropy else None,
            entropy.slopes if entropy else None,
            losses,
            blocks,
            layout.inner,
            layout.outer_stride,
            layout.class_stride,
            into.outer_stride,
            into.class_stride,
            0 if upstream is None or upstream.ndim == 0 else 1,
            ignore_index,
            *plan.weights,
            plan.entropy_weight,
        ),
        tile.warps,
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
        POSITIONS=tile.positions,
        LANES=tile.lanes,
        UNROLL=tile.unroll,
        PERSISTENT=tile.persistent,
    )
    if losses is None or reduction == "none":
        return losses
    return losses.sum()


def scale_unless_one(gradient: Tensor, factor: Tensor) -> None:
    """Multiply a dense ``gradient`` in place by a number on the device, reading it only where that is not 1."""
    size, block = gradient.numel(), 4096
    programs = min(SUM_PROGRAMS, -(-size // block))
    _launch(batch_kernels.scale_unless_one, (programs,), (gradient, factor, size), 8, BLOCK=block)


def is_dense(tensor: Tensor) -> bool:
    """Whether every element has a place of its own and no place is left out between them."""
    return torch.empty_like(tensor, device="meta").stride() == tensor.stride()


@cache
def _multiprocessors_of(index: int) -> int:
    return torch.cuda.get_device_properties(index).multi_processor_count


def _multiprocessors(tensor: Tensor) -> int:
    return _multiprocessors_of(tensor.device.index) if tensor.is_cuda else 2


def _layout(tensor: Tensor, like: Layout | None = None) -> Layout:
    layout = layout_of(tensor)
    if layout is None or (like is not None and (layout.outer, layout.inner) != (like.outer, like.inner)):
        raise RuntimeError(
            f"logits of shape {tuple(tensor.shape)} and strides {tensor.stride()} have no layout"
        )
    return layout
