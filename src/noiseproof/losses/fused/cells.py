# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What one class costs, and how its cost changes with its log-probability: the elementwise part of the kernels.

Each function here is the Triton twin of one in :mod:`noiseproof.losses.per_class`, in float32. ``log_p`` and ``p``
have any shape; hyper-parameters are compiled in.
"""

import torch

from noiseproof.losses.fused.language import HAS_TRITON, INTERPRETED, tl, triton
from noiseproof.losses.fused.plan import Kind, Role

CE = tl.constexpr(int(Kind.CE))
FL = tl.constexpr(int(Kind.FL))
MAE = tl.constexpr(int(Kind.MAE))
GCE = tl.constexpr(int(Kind.GCE))
AGCE = tl.constexpr(int(Kind.AGCE))
AUL = tl.constexpr(int(Kind.AUL))
AEL = tl.constexpr(int(Kind.AEL))
PHCE = tl.constexpr(int(Kind.PHCE))
TCE = tl.constexpr(int(Kind.TCE))
SQUARE = tl.constexpr(int(Kind.SQUARE))
NEGATIVE = tl.constexpr(int(Role.NEGATIVE))
NORMALIZED_NEGATIVE = tl.constexpr(int(Role.NORMALIZED_NEGATIVE))
TINY = tl.constexpr(1.1754943508222875e-38)
LOG2_E = tl.constexpr(1.4426950408889634)

if HAS_TRITON and not INTERPRETED and torch.version.hip is None:

    @triton.jit
    def exp2(x):
        """``2^x``, in one instruction instead of four: results below the smallest normal number are 0."""
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )

else:

    @triton.jit
    def exp2(x):
        """``2^x``."""
        return tl.exp2(x)


@triton.jit
def exp(x):
    """``e^x``."""
    return exp2(x * LOG2_E)


@triton.jit
def expm1(x):
    """``e^x − 1`` without the cancellation near 0."""
    series = x * (1 + x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x / 5040))))))
    return tl.where(tl.abs(x) < 0.5, series, exp(x) - 1)


@triton.jit
def log1p(x):
    """``log(1 + x)``; dividing by the ``1 + x`` that was really computed takes its rounding out again."""
    above = 1 + x
    return tl.where(above == 1, x, tl.log(above) * (x / tl.where(above == 1, 1.0, above - 1)))


@triton.jit
def one_minus(log_p, p):
    """``1 − p`` without the cancellation near ``p = 1``."""
    return tl.where(log_p > -0.5, -expm1(log_p), 1 - p)


@triton.jit
def power(base, EXPONENT: tl.constexpr):
    """``base^EXPONENT`` of numbers of at least zero; the usual exponents without logarithms."""
    if EXPONENT == 0:
        result = tl.zeros_like(base) + 1
    elif EXPONENT == 0.5:
        result = tl.sqrt(base)
    elif EXPONENT == 1:
        result = base
    elif EXPONENT == 2:
        result = base * base
    else:
        result = exp2(EXPONENT * tl.log2(base))
    return result


@triton.jit
def cost(log_p, p, KIND: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """What a class costs."""
    if KIND == CE:
        result = -log_p
    elif KIND == FL:
        result = -power(tl.maximum(one_minus(log_p, p), TINY), A) * log_p
    elif KIND == MAE:
        result = A * one_minus(log_p, p)
    elif KIND == GCE:
        result = -expm1(A * tl.maximum(log_p, B)) / A
    elif KIND == AGCE:
        scale: tl.constexpr = (A + 1) ** B / B
        result = -scale * expm1(B * log1p(-one_minus(log_p, p) / (A + 1)))
    elif KIND == AUL:
        scale: tl.constexpr = (A - 1) ** B / B
        result = scale * expm1(B * log1p(one_minus(log_p, p) / (A - 1)))
    elif KIND == AEL:
        result = exp(-p / A)
    elif KIND == PHCE:
        result = tl.where(log_p > -B, -log_p, B + 1 - A * p)
    elif KIND == TCE:
        base = one_minus(log_p, p)
        result = base / A
        for i in tl.static_range(1, int(A)):
            result = base * (result + 1 / (int(A) - i))
    else:
        result = p * p
    return result


@triton.jit
def slope(log_p, p, KIND: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """Derivative of :func:`cost` by ``log_p``."""
    if KIND == CE:
        result = tl.zeros_like(log_p) - 1
    elif KIND == FL:
        base = tl.maximum(one_minus(log_p, p), TINY)
        modulator = power(base, A)
        result = -modulator
        if B == 0:  # the modulator has a gradient of its own
            result += modulator * (A * p * (log_p / base))
    elif KIND == MAE:
        result = -A * p
    elif KIND == GCE:
        result = tl.where(log_p >= B, -exp(A * log_p), 0.0)
    elif KIND == AGCE:
        result = -power(A + p, B - 1) * p
    elif KIND == AUL:
        result = -power(A - p, B - 1) * p
    elif KIND == AEL:
        result = -(p / A) * exp(-p / A)
    elif KIND == PHCE:
        result = tl.where(log_p > -B, -1.0, -A * p)
    elif KIND == TCE:
        base = one_minus(log_p, p)
        result = tl.zeros_like(base) + 1
        for _ in tl.static_range(1, int(A)):
            result = result * base + 1
        result = -p * result
    else:
        result = 2 * p * p
    return result


@triton.jit
def part_cost(log_p, p, PART: tl.constexpr):
    """What a class counts for in the sum of a part: its cost, or how far that is below the ceiling."""
    flipped: tl.constexpr = PART[0] == NEGATIVE or PART[0] == NORMALIZED_NEGATIVE
    if flipped and PART[1] == CE:
        result = tl.maximum(log_p - PART[4], 0.0)
    else:
        result = cost(log_p, p, PART[1], PART[2], PART[3])
        if flipped:
            result = tl.where(log_p > PART[4], PART[5] - result, 0.0)
    return result


@triton.jit
def part_slope(log_p, p, PART: tl.constexpr):
    """Derivative of :func:`part_cost` by ``log_p``."""
    flipped: tl.constexpr = PART[0] == NEGATIVE or PART[0] == NORMALIZED_NEGATIVE
    if flipped and PART[1] == CE:
        result = tl.where(log_p >= PART[4], 1.0, 0.0)
    else:
        result = slope(log_p, p, PART[1], PART[2], PART[3])
        if flipped:
            result = tl.where(log_p >= PART[4], -result, 0.0)
    return result


@triton.jit
def add_pull(result, coefficient, log_p, p, PART: tl.constexpr):
    """``result + coefficient·part_slope``, with no multiplication where the slope is 0 or 1."""
    flipped: tl.constexpr = PART[0] == NEGATIVE or PART[0] == NORMALIZED_NEGATIVE
    if flipped and PART[1] == CE:
        result = tl.where(log_p >= PART[4], result + coefficient, result)
    else:
        result += coefficient * part_slope(log_p, p, PART)
    return result
