"""All parameters of a network in one long row, so that regulariser, clipping and SGD are two kernels for all.

A parameter may have a larger place than it fills: channels rounded up to what matrix units like. What is added is
zero, and stays zero: its gradient is zero, and L1, decay and momentum of zero are zero.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from noiseproof.losses.fused.language import triton
from noiseproof.training.fast import kernels

BLOCK = 2048
SUMMED = 16384
"""Elements whose squares one program adds up: few programs, since each of SGD's reads all their sums."""

Place = tuple[Tensor, tuple[int, ...]]
"""A parameter and the shape of its place, which may be larger."""


class FlatParameters:
    """Parameters, momenta and gradients of a network, each kind in one row.

    The network's own parameters, and its optimiser's momenta, become views of the rows, so that whoever saves,
    loads or averages them need not know.

    Args:
        half: parameters that are computed with in ``dtype``, each with the shape of its place.
        full: parameters that are computed with in float32, likewise.
        silent: parameters that never have a gradient from the loss, likewise.
        dtype: of the copies in half precision; float32 for none.
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
        self.in_half = _numel(half)
        self.with_gradient = self.in_half + _numel(full)
        self.count = _numel(places)
        self.weights, self.momenta = (torch.zeros(self.count, device=device) for _ in range(2))
        self.half_gradients = torch.zeros(self.in_half, dtype=dtype, device=device)
        self.full_gradients = torch.zeros(self.with_gradient - self.in_half, device=device)
        self.halves = self.weights[: self.in_half]
        if dtype != torch.float32:
            self.halves = torch.zeros(self.in_half, dtype=dtype, device=device)
        self.partial = torch.zeros(triton.cdiv(self.count, SUMMED), device=device)
        self.norm = torch.zeros((), device=device)
        self.leaves: list[Tensor] = []
        start = 0
        for position, (parameter, shape) in enumerate(places):
            end = start + math.prod(shape)
            self._move_in(parameter, shape, start, end, optimizer)
            source = self.halves if position < len(half) else self.weights
            if end <= self.with_gradient:
                self.leaves.append(_as_placed(source[start:end], shape).detach().requires_grad_())
            start = end
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
        momentum = _corner(_as_placed(self.momenta[start:end], shape), parameter)
        before = optimizer.state[parameter].get("momentum_buffer")
        if before is not None:
            momentum.copy_(before)
        optimizer.state[parameter]["momentum_buffer"] = momentum

    def refresh(self) -> None:
        """Bring the copies in half precision up to date, after weights were changed by someone else."""
        if self.halves.dtype != torch.float32:
            self.halves.copy_(self.weights[: self.in_half])

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], l1: float, clip_norm: float) -> Tensor:
        """Take a step of SGD along the gradients of :attr:`leaves`; returns their norm, L1's part included."""
        in_rows = [_in_memory_order(gradient) for gradient in gradients]
        torch.cat(in_rows[: self.leaves_in_half], out=self.half_gradients)
        torch.cat(in_rows[self.leaves_in_half :], out=self.full_gradients)
        blocks = len(self.partial)
        kernels.sum_of_squares[(blocks,)](
            self.weights,
            self.half_gradients,
            self.full_gradients,
            self.partial,
            self.count,
            self.in_half,
            self.with_gradient,
            l1,
            SUMMED,
            BLOCK,
            num_warps=8,
        )
        kernels.clipped_sgd[(triton.cdiv(self.count, BLOCK),)](
            self.weights,
            self.momenta,
            self.half_gradients,
            self.full_gradients,
            self.halves,
            self.partial,
            self.norm,
            self.group["lr"],
            self.count,
            self.in_half,
            self.with_gradient,
            blocks,
            l1,
            self.group["weight_decay"],
            self.group["momentum"],
            clip_norm or math.inf,
            self.group["nesterov"],
            self.halves.dtype != torch.float32,
            BLOCK,
            1024,
            num_warps=8,
        )
        return self.norm.clone()


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
