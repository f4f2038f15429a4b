# SPDX-License-Identifier: Apache-2.0
"""Batch norm with what stands around it, in as few passes over the maps as it can be done.

Forward: one pass for mean and variance, one that normalises, adds a shortcut, cuts off below zero and takes the
maximum of 2x2 pixels. Backward: one pass for the two sums that the gradient needs, one for the gradient. What the
passes in between would have written is computed again instead. Maps are channels-last, (N, H, W, C) in memory, and
are read as a matrix of pixels by channels.

Sums are taken by blocks of rows, then over the blocks, in a fixed order: the same input gives the same bits.
"""

from typing import Any

import torch
from torch import Tensor

from noiseproof.losses.fused.language import triton
from noiseproof.training.fast import kernels

BLOCK_ROWS = 32
WARPS = 4
PROGRAMS = 528
"""About so many programs share a sum: four for each processor of a large GPU."""

JOINED_COLUMNS = 8


class _Shape:
    """How a pass over maps is cut into programs."""

    def __init__(self, x: Tensor, pool: bool) -> None:
        images, self.channels, self.height, self.width = x.shape
        self.rows = images * self.height * self.width
        self.rows_out = self.rows // 4 if pool else self.rows
        self.cols = min(64, triton.next_power_of_2(self.channels))
        self.across = triton.cdiv(self.channels, self.cols)
        self.grid = (triton.cdiv(self.rows_out, BLOCK_ROWS), self.across)

    def shares(self, rows: int) -> tuple[int, int]:
        """Rows of each program that sums, and the number of such programs."""
        share = triton.next_power_of_2(max(BLOCK_ROWS, triton.cdiv(rows * self.across, PROGRAMS)))
        return share, triton.cdiv(rows, share)


def _joined_rows(blocks: int) -> int:
    """Blocks that are joined at a time: all of them, as a rule."""
    return int(min(512, triton.next_power_of_2(blocks)))


class _BatchNorm(torch.autograd.Function):
    """Batch norm in training, and what follows it."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gamma: Tensor,
        beta: Tensor,
        shortcut: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
        slope: float | None,
        pool: bool,
        twice: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        shape = _Shape(x, pool)
        share, blocks = shape.shares(shape.rows)
        partial = torch.empty(blocks, 2, shape.channels, device=x.device)
        constants = torch.empty(4, shape.channels, device=x.device)
        kernels.statistics[(blocks, shape.across)](
            x, partial, shape.rows, shape.channels, share, BLOCK_ROWS, shape.cols, num_warps=WARPS
        )
        kernels.join_statistics[(triton.cdiv(shape.channels, JOINED_COLUMNS),)](
            partial,
            gamma,
            beta,
            gamma if bias is None else bias,
            running_mean,
            running_var,
            constants,
            blocks,
            share,
            shape.rows,
            shape.channels,
            momentum,
            eps,
            bias is not None,
            _joined_rows(blocks),
            JOINED_COLUMNS,
            num_warps=8,
        )
        y = _normalized(x, shortcut, constants, slope, pool)
        ctx.save_for_backward(x, constants, y if shortcut is not None and slope is not None else None)
        ctx.slope, ctx.pool, ctx.has_shortcut = slope, pool, shortcut is not None
        return (y, y.view_as(y)) if twice else y

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, constants, y = ctx.saved_tensors
        dy = grad_outputs[0].contiguous(memory_format=torch.channels_last)
        twice = len(grad_outputs) > 1
        other, stride = _rows_of(grad_outputs[1]) if twice else (dy, 1)
        shape = _Shape(x, ctx.pool)
        share, blocks = shape.shares(shape.rows_out)
        partial = torch.empty(blocks, 2, shape.channels, device=x.device)
        sizes = (shape.rows_out, shape.channels, shape.height, shape.width)
        keeps_dz = ctx.has_shortcut or twice
        cuts_off, slope = ctx.slope is not None, ctx.slope or 0.0
        dz = torch.empty_like(dy) if keeps_dz else dy
        kernels.backward_sums[(blocks, shape.across)](
            x,
            x if y is None else y,
            dy,
            other,
            stride,
            dz,
            constants,
            partial,
            *sizes,
            cuts_off,
            slope,
            ctx.pool,
            ctx.has_shortcut,
            twice,
            share,
            BLOCK_ROWS,
            shape.cols,
            num_warps=WARPS,
        )
        gradients = torch.empty(2, shape.channels, device=x.device)
        factors = torch.empty(2, shape.channels, device=x.device)
        kernels.join_backward_sums[(triton.cdiv(shape.channels, JOINED_COLUMNS),)](
            partial,
            constants,
            gradients,
            factors,
            blocks,
            shape.rows,
            shape.channels,
            _joined_rows(blocks),
            JOINED_COLUMNS,
            num_warps=8,
        )
        dx = torch.empty_like(x)
        kernels.backward[shape.grid](
            x,
            dz,
            dx,
            constants,
            factors,
            *sizes,
            cuts_off and not keeps_dz,
            slope,
            ctx.pool,
            BLOCK_ROWS,
            shape.cols,
            num_warps=WARPS,
        )
        return (dx, gradients[0], gradients[1], dz if ctx.has_shortcut else None, *[None] * 8)


def _rows_of(maps: Tensor) -> tuple[Tensor, int]:
    """Maps whose pixels lie at equal distances, and the distance: also some channels of wider maps."""
    _, channels, height, width = maps.shape
    image, channel, line, pixel = maps.stride()
    if channel == 1 and line == width * pixel and image == height * line:
        return maps, pixel
    # Where a side is 1 its stride may be anything, so that it says nothing about the distance.
    return maps.contiguous(memory_format=torch.channels_last), channels


def _normalized(
    x: Tensor, shortcut: Tensor | None, constants: Tensor, slope: float | None, pool: bool
) -> Tensor:
    shape = _Shape(x, pool)
    images = x.shape[0]
    height, width = (shape.height // 2, shape.width // 2) if pool else (shape.height, shape.width)
    y = torch.empty(
        (images, shape.channels, height, width),
        dtype=x.dtype,
        device=x.device,
        memory_format=torch.channels_last,
    )
    kernels.normalize[shape.grid](
        x,
        x if shortcut is None else shortcut,
        y,
        constants,
        shape.rows_out,
        shape.channels,
        shape.height,
        shape.width,
        slope is not None,
        slope or 0.0,
        pool,
        shortcut is not None,
        BLOCK_ROWS,
        shape.cols,
        num_warps=WARPS,
    )
    return y


def batch_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
    bias: Tensor | None = None,
    shortcut: Tensor | None = None,
    slope: float | None = None,
    pool: bool = False,
    twice: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``pool(relu(batch_norm(x + bias) + shortcut))``, each part where asked for.

    In training a bias before batch norm changes nothing but the running mean, and so has no gradient.

    Args:
        x: (N, C, H, W), channels last.
        gamma: (C,), float32; as are ``beta`` and the running statistics.
        beta: likewise.
        running_mean: updated in training, used otherwise.
        running_var: likewise.
        training: which of the two.
        momentum: weight of the batch in the running statistics.
        eps: added to the variance.
        bias: (C,), what a convolution without bias has left out.
        shortcut: (N, C, H, W), added before cutting off; not with ``pool``.
        slope: of a leaky ReLU, 0 for a plain one; None for neither.
        pool: maximum of each 2x2 pixels; height and width must be even.
        twice: return the output twice, for two who read it: their gradients are added on the way.
    """
    x = x.contiguous(memory_format=torch.channels_last)
    if shortcut is not None:
        shortcut = shortcut.contiguous(memory_format=torch.channels_last)
    if training:
        return _BatchNorm.apply(  # type: ignore[no-any-return, no-untyped-call]
            x, gamma, beta, shortcut, bias, running_mean, running_var, momentum, eps, slope, pool, twice
        )
    scale = gamma * (running_var + eps).rsqrt()
    mean = running_mean if bias is None else running_mean - bias
    y = _normalized(x, shortcut, torch.stack([scale, beta - mean * scale]), slope, pool)
    return (y, y) if twice else y
