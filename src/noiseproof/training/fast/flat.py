# SPDX-License-Identifier: Apache-2.0
"""All parameters of a network in one long row, so that regulariser, clipping and a step are three kernels for all.

A parameter may have a larger place than it fills: channels rounded up to what matrix units like. What is added is
zero, and stays zero: its gradient is zero, and L1, decay and momentum of zero are zero.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from noiseproof.losses.fused.language import triton
from noiseproof.training.fast import kernels

BLOCK = 2048
"""Elements of a program. Parameters in half precision begin at multiples of it, so that none has two of them."""

SUMMED = 8
"""Blocks whose squares one program adds up."""

ALIGNED = 16
"""Gradients in half precision are read by so many elements: they fill a multiple of it."""

NOTED = 8
"""Addresses that are written down at a time."""

Place = tuple[Tensor, tuple[int, ...]]
"""A parameter and the shape of its place, which may be larger."""


class FlatParameters:
    """Parameters of a network, and its optimiser's sums, each kind in one row.

    The network's own parameters, and the optimiser's sums, become views of the rows, so that whoever saves, loads
    or averages them need not know.

    Args:
        half: parameters that are computed with in ``dtype``, each with the shape of its place.
        full: parameters that are computed with in float32, likewise.
        silent: parameters that never have a gradient from the loss, likewise.
        dtype: of the copies in half precision; float32 for none.
        optimizer: the network's, SGD or Adam; its first group is the network's.
    """

    def __init__(
        self,
        half: Sequence[Place],
        full: Sequence[Place],
        silent: Sequence[Place],
        dtype: torch.dtype,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        device = next(p for p, _ in half).device
        places = [*half, *full, *silent]
        in_blocks = [triton.cdiv(math.prod(shape), BLOCK) for _, shape in half]
        self.half_blocks = sum(in_blocks)
        self.in_half = self.half_blocks * BLOCK
        self.with_gradient = self.in_half + _numel(full)
        self.blocks = triton.cdiv(self.with_gradient + _numel(silent), BLOCK)
        self.is_adam = isinstance(optimizer, torch.optim.Adam)
        kinds = ("exp_avg", "exp_avg_sq") if self.is_adam else ("momentum_buffer",)
        self.weights, *rows = (torch.zeros(self.blocks * BLOCK, device=device) for _ in range(1 + len(kinds)))
        self.sums = dict(zip(kinds, rows, strict=True))
        self.steps = torch.zeros((), device=device)
        self.full_gradients = torch.zeros(_numel(full), device=device)
        self.halves = self.weights[: self.in_half]
        if dtype != torch.float32:
            self.halves = torch.zeros(self.in_half, dtype=dtype, device=device)
        of_each = [
            (leaf, block * BLOCK, _rounded(math.prod(half[leaf][1])))
            for leaf, count in enumerate(in_blocks)
            for block in range(count)
        ]
        self.places = torch.tensor(of_each, dtype=torch.int64, device=device)  # leaf, begin in it, its size
        self.addresses = torch.zeros(len(half) + NOTED, dtype=torch.int64, device=device)
        self.partial = torch.zeros(triton.cdiv(self.blocks, SUMMED), device=device)
        self.norm = torch.zeros((), device=device)
        self.leaves: list[Tensor] = []
        start = 0
        for position, (parameter, shape) in enumerate(places):
            end = start + math.prod(shape)
            self._move_in(parameter, shape, start, end, optimizer)
            is_half = position < len(half)
            if end <= self.with_gradient:
                source = self.halves if is_half else self.weights
                self.leaves.append(_as_placed(source[start:end], shape).detach().requires_grad_())
            start = start + in_blocks[position] * BLOCK if is_half else end
        self.leaves_in_half = len(half)
        self.group = optimizer.param_groups[0]
        self.refresh()

    def _move_in(
        self,
        parameter: Tensor,
        shape: tuple[int, ...],
        start: int,
        end: int,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        place = _corner(_as_placed(self.weights[start:end], shape), parameter)
        place.copy_(parameter.detach())
        parameter.data = place
        state = optimizer.state[parameter]
        for kind, row in self.sums.items():
            sums = _corner(_as_placed(row[start:end], shape), parameter)
            if state.get(kind) is not None:
                sums.copy_(state[kind])
            state[kind] = sums
        if self.is_adam:
            self.steps.copy_(torch.as_tensor(state.get("step", 0.0)))
            state["step"] = self.steps  # the same for all

    def refresh(self) -> None:
        """Bring the copies in half precision up to date, after weights were changed by someone else."""
        if self.halves.dtype != torch.float32:
            self.halves.copy_(self.weights[: self.in_half])

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], l1: float, clip_norm: float) -> Tensor:
        """Take a step along the gradients of :attr:`leaves`; returns their norm, L1's part included."""
        in_rows = [_in_memory_order(gradient) for gradient in gradients]
        of_halves = [_padded(row) for row in in_rows[: self.leaves_in_half]]
        self._note([row.data_ptr() for row in of_halves])
        torch.cat(in_rows[self.leaves_in_half :], out=self.full_gradients)
        places = (self.addresses, self.places, self.full_gradients)
        kernels.sum_of_squares[(len(self.partial),)](
            self.weights,
            self.halves,
            *places,
            self.partial,
            self.blocks,
            self.half_blocks,
            self.with_gradient,
            l1,
            SUMMED,
            BLOCK,
            num_warps=8,
        )
        kernels.norm_of[(1,)](self.partial, self.norm, len(self.partial), 1024, num_warps=8)
        changed = (self.weights, *self.sums.values(), self.halves, *places, self.norm, self.group["lr"])
        counts = (self.half_blocks, self.with_gradient, l1, self.group["weight_decay"])
        limit, has_halves = clip_norm or math.inf, self.halves.dtype != torch.float32
        if self.is_adam:
            self.steps += 1
            chosen = (*self.group["betas"], self.group["eps"])
            kernels.clipped_adam[(self.blocks,)](
                *changed, self.steps, *counts, *chosen, limit, has_halves, BLOCK, num_warps=8
            )
        else:
            chosen = (self.group["momentum"], limit, self.group["nesterov"])
            kernels.clipped_sgd[(self.blocks,)](*changed, *counts, *chosen, has_halves, BLOCK, num_warps=8)
        return self.norm.clone()

    def _note(self, addresses: list[int]) -> None:
        assert not any(address % ALIGNED for address in addresses), (
            "a gradient is not where kernels can read it"
        )
        for first in range(0, len(addresses), NOTED):
            some = addresses[first : first + NOTED]
            kernels.note_addresses[(1,)](
                self.addresses, first, *some, *some[-1:] * (NOTED - len(some)), num_warps=1
            )


def _numel(places: Sequence[Place]) -> int:
    return sum(math.prod(shape) for _, shape in places)


def _as_placed(row: Tensor, shape: tuple[int, ...]) -> Tensor:
    """See a stretch of a row as a parameter; those of convolutions channels-last."""
    if len(shape) != 4:
        return row.view(shape)
    out, into, height, width = shape
    return row.view(out, height, width, into).permute(0, 3, 1, 2)


def _corner(place: Tensor, parameter: Tensor) -> Tensor:
    """The part of its place that a parameter fills."""
    if place.ndim == 2 and parameter.ndim == 4:  # a convolution computed as a product of matrices
        _, into, height, width = parameter.shape
        filled = place[:, : into * height * width]
        strides = (filled.stride(0), 1, width * into, into)
        return filled.as_strided(parameter.shape, strides, filled.storage_offset())
    return place[tuple(slice(0, size) for size in parameter.shape)]


def _in_memory_order(gradient: Tensor) -> Tensor:
    """A gradient as a row, its elements in the order of the parameter's."""
    if gradient.ndim == 4:
        gradient = gradient.permute(0, 2, 3, 1)
    return gradient.reshape(-1)


def _rounded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _padded(row: Tensor) -> Tensor:
    missing = _rounded(len(row)) - len(row)
    return F.pad(row, (0, missing)) if missing else row
