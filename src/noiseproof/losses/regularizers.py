# SPDX-License-Identifier: Apache-2.0
"""Regularisers that any training loop can add: L1, L2 and the Jacobian's norm.

A loss of this package never contains them. The paper trains ANL with L1 over all parameters, batch-norm and
biases included, in place of weight decay::

    loss(model(x), y).backward()
    l1.add_to_gradients(model.parameters())        # before the gradient norm is clipped
    torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from noiseproof.losses import checks


@dataclass(frozen=True)
class _OfParameters(ABC):
    """A penalty on the parameters whose gradient is known, so that autograd need not pass over it.

    Args:
        strength: δ, the factor before the penalty.
    """

    strength: float

    def __post_init__(self) -> None:
        checks.non_negative("strength", self.strength)

    @abstractmethod
    def penalty(self, parameters: Iterable[nn.Parameter]) -> Tensor:
        """Value of the penalty, which autograd can differentiate; for loops that want it in the loss."""

    @abstractmethod
    def _gradients(self, parameters: list[Tensor]) -> list[Tensor]:
        """Gradients of ``penalty / strength``."""

    @torch.no_grad()
    def add_to_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add the gradient of the penalty to ``.grad`` of every parameter that is trained.

        Call it after ``backward()`` and before the gradient norm is clipped.
        """
        trained = [p for p in parameters if p.requires_grad]
        if self.strength == 0 or not trained:
            return
        for p in trained:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            elif p.grad.is_sparse:  # the penalty's is not: it reaches rows that the batch did not use, too
                p.grad = p.grad.to_dense()
        grads = [p.grad for p in trained if p.grad is not None]
        torch._foreach_add_(grads, self._gradients(list(trained)), alpha=self.strength)


@dataclass(frozen=True)
class L1(_OfParameters):
    """``δ·Σ |w|``, with gradient ``δ·sign(w)``.

    Example:
        >>> import torch
        >>> weight = torch.nn.Parameter(torch.tensor([3.0, -2.0, 0.0]))
        >>> L1(0.1).add_to_gradients([weight])
        >>> weight.grad
        tensor([ 0.1000, -0.1000,  0.0000])
    """

    def penalty(self, parameters: Iterable[nn.Parameter]) -> Tensor:
        """``δ·Σ |w|``."""
        return self.strength * torch.stack([p.abs().sum() for p in parameters]).sum()

    def _gradients(self, parameters: list[Tensor]) -> list[Tensor]:
        return list(torch._foreach_sign(parameters))


@dataclass(frozen=True)
class L2(_OfParameters):
    """``δ/2·Σ w²``, with gradient ``δ·w``: what SGD calls weight decay, but before clipping.

    Example:
        >>> import torch
        >>> weight = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
        >>> L2(0.1).add_to_gradients([weight])
        >>> weight.grad
        tensor([ 0.3000, -0.2000])
    """

    def penalty(self, parameters: Iterable[nn.Parameter]) -> Tensor:
        """``δ/2·Σ w²``."""
        return self.strength / 2 * torch.stack([p.square().sum() for p in parameters]).sum()

    def _gradients(self, parameters: list[Tensor]) -> list[Tensor]:
        return parameters


@dataclass(frozen=True)
class Jacobian:
    """``δ·‖∂ logits / ∂ input‖²_F``, mean over the samples, estimated by random projections.

    A random unit vector v among the logits gives the unbiased estimate ``K·‖∂(v·logits)/∂ input‖²``.

    Args:
        strength: δ, the factor before the norm.
        projections: random directions a step; one is what the literature uses.

    Hoffman, Roberts and Yaida, Robust Learning with Jacobian Regularization, 2019.

    Example:
        >>> import torch
        >>> x = torch.ones(8, 5, requires_grad=True)
        >>> logits = x @ torch.eye(5)          # the Jacobian is the identity: its squared norm is 5
        >>> Jacobian(0.1).penalty(logits, x)
        tensor(0.5000)
    """

    strength: float
    projections: int = 1

    def __post_init__(self) -> None:
        checks.non_negative("strength", self.strength)
        checks.positive_integer("projections", self.projections)

    def penalty(
        self,
        logits: Tensor,
        inputs: Tensor,
        generator: torch.Generator | None = None,
        *,
        directions: Tensor | None = None,
    ) -> Tensor:
        """Penalty to add to the loss; ``inputs`` must require gradients before the forward pass.

        Args:
            logits: (N, K, …), computed from ``inputs``.
            inputs: (N, …).
            generator: where the random directions come from; on the logits' device.
            directions: (N, K, …) normal numbers drawn beforehand, for the first projection.
        """
        if directions is not None and self.projections != 1:
            raise ValueError(f"directions: expected one projection, got {self.projections}; leave them out")
        if not inputs.requires_grad:
            raise ValueError(
                "inputs: expected a tensor that requires gradients; call inputs.requires_grad_() before the "
                "forward pass"
            )
        size = logits[0].numel()
        total = logits.new_zeros((), dtype=torch.promote_types(logits.dtype, torch.float32))
        for _ in range(self.projections):
            direction = (
                torch.randn(logits.shape, dtype=logits.dtype, device=logits.device, generator=generator)
                if directions is None
                else directions.to(logits.dtype)
            )
            length = torch.linalg.vector_norm(direction.flatten(1), dim=1)
            direction = direction / length.view(-1, *[1] * (logits.ndim - 1))
            (gradient,) = torch.autograd.grad(logits, inputs, direction, create_graph=True)
            total = total + gradient.to(total.dtype).square().sum()
        return self.strength * (size * total / (self.projections * len(logits)))
