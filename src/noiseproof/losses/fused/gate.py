# SPDX-License-Identifier: Apache-2.0
"""Whether a loss goes to the fused kernels, and the way there."""

import os

import torch
from torch import Tensor, nn

from noiseproof.losses.calculus import Term
from noiseproof.losses.fused import operators
from noiseproof.losses.fused.language import HAS_TRITON, INTERPRETED
from noiseproof.losses.fused.plan import Plan, plan_of
from noiseproof.losses.labels import is_transformed, read_labels

ENABLED = os.environ.get("NOISEPROOF_FUSED", "1") != "0"
"""Whether fused kernels may be used at all."""

MOST_CLASSES = 262_144
"""Logits of more classes take the plain path."""

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_LABEL_DTYPES = (torch.int64, torch.int32)


def fused_or_none(
    term: Term,
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    check_labels: bool | None,
    inplace_gradient: bool = False,
) -> Tensor | None:
    """Loss of logits (N, K, d1, …) by the fused kernels, or ``None`` where the plain path must be taken."""
    plan = plan_for(term, logits, target, weight)
    if plan is None:
        return None
    if check_labels:
        read_labels(logits, target, weight, ignore_index, check_labels, torch.float32)
    if torch.compiler.is_compiling():
        return operators.compiled_loss(plan, logits, target, weight, ignore_index, reduction)
    return operators.eager_loss(term, plan, logits, target, weight, ignore_index, reduction, inplace_gradient)


def plan_for(term: Term, logits: Tensor, target: Tensor, weight: Tensor | None) -> Plan | None:
    """Describe a loss to the kernels, or return ``None`` where the plain path must be taken."""
    return plan_of(term, logits.shape[1]) if _takes(logits, target, weight) else None


def has_kernels_for(tensor: Tensor) -> bool:
    """Whether kernels may be used, and read numbers that lie where these do and are of their type."""
    return ENABLED and HAS_TRITON and (tensor.is_cuda or INTERPRETED) and tensor.dtype in _DTYPES


def _takes(logits: Tensor, target: Tensor, weight: Tensor | None) -> bool:
    """Whether these tensors are what the kernels read; what is wrong with others, the plain path says."""
    return (
        has_kernels_for(logits)
        and target.dtype in _LABEL_DTYPES
        and logits.ndim >= 2
        and logits.shape[1] <= MOST_CLASSES
        and target.shape == logits.shape[:1] + logits.shape[2:]
        and target.numel() > 0
        and target.device == logits.device
        and _is_plain(logits)
        and _is_plain(target)
        and (
            weight is None
            or (
                weight.device == logits.device
                and weight.is_floating_point()
                and tuple(weight.shape) == (logits.shape[1],)
                and not weight.requires_grad
                and _is_plain(weight)
            )
        )
        and torch.autograd.forward_ad._current_level < 0
    )


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is one of torch's own, not a subclass and not inside a function transform."""
    if torch.compiler.is_compiling():
        return not _inside_a_transform()
    return type(tensor) in (Tensor, nn.Parameter, nn.Buffer) and not is_transformed(tensor)


def _inside_a_transform() -> bool:
    """Whether a compiled graph is being traced inside of :func:`torch.func.vmap` or one of its kind."""
    return torch._C._functorch.maybe_current_level() is not None


# All that torch.compiler.assume_constant_result does, without torch._dynamo, whose import takes as long as torch's.
_inside_a_transform._dynamo_marked_constant = True  # type: ignore[attr-defined]
