# SPDX-License-Identifier: Apache-2.0
"""A loss by the fused kernels and by the plain path in float64, and how near the two must be."""

import torch

from noiseproof.losses.evaluate import evaluate_plainly
from noiseproof.losses.fused.language import INTERPRETED

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NAMED = ["ce", "gce", "mae", "rce", "sce", "nce+rce", "nce+agce"]
NAMED += ["anl-ce", "anl-fl", "anl-ce*", "jal-ce", "jal-fl"]
SEVERAL = ["ce", "nce+agce", "anl-ce", "anl-fl", "anl-ce*", "jal-ce"]


def batch(shape, dtype=torch.float32, spread=3.0, ignored=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = (spread * torch.randn(shape, generator=generator)).to(dtype)
    target = torch.randint(shape[1], (shape[0], *shape[2:]), generator=generator)
    if ignored and target.numel() > 1:
        target.view(-1)[1] = -100
    return logits.to(DEVICE), target.to(DEVICE)


def fused(loss, logits, target, upstream=None):
    """Value and gradient, by the kernels and nothing else."""
    leaf = logits.detach().requires_grad_()
    value = loss(leaf, target)
    assert "Fused" in type(value.grad_fn).__name__, "the plain path was taken"
    (gradient,) = torch.autograd.grad(value, leaf, torch.ones_like(value) if upstream is None else upstream)
    return value.detach().cpu().double(), gradient.cpu().double()


def plain(loss, logits, target, upstream=None):
    """Value and gradient in float64, by torch's operations on the CPU."""
    leaf = logits.detach().cpu().double().requires_grad_()
    weight = None if loss.weight is None else loss.weight.cpu().double()
    value = evaluate_plainly(loss.term, leaf, target.cpu(), weight, loss.ignore_index, loss.reduction)
    upstream = torch.ones_like(value) if upstream is None else upstream.cpu().double()
    (gradient,) = torch.autograd.grad(value, leaf, upstream)
    return value.detach(), gradient


def assert_same(actual, expected, dtype, message="", roundings=1, share=1e-5, floor=0.0):
    """Values as near as float32 comes; gradients to within the rounding of their type, once or twice.

    What is left of two numbers that cancel may be off by a share of the largest gradient, or by a floor.
    """
    value, gradient = (x.double() for x in actual)
    exact, exact_gradient = expected
    torch.testing.assert_close(value, exact, rtol=2e-5, atol=1e-5, msg=lambda m: f"{message}: value: {m}")
    scale = float(exact_gradient.abs().max())
    bfloat16 = 2**-7 if INTERPRETED else 2**-8  # the interpreter cuts off where a GPU rounds
    rounding = {torch.float32: 2e-5, torch.bfloat16: bfloat16, torch.float16: 2**-10}[dtype]
    # The smallest numbers of float16 are far apart.
    absolute = max(share * scale, floor, 6e-8 if dtype == torch.float16 else 0.0)
    torch.testing.assert_close(
        gradient,
        exact_gradient,
        rtol=roundings * rounding,
        atol=absolute,
        msg=lambda m: f"{message}: gradient: {m}",
    )
