# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""What a row's loss is made of, once its sums over the classes are known: the part that all kernels share.

For a row with log-probabilities ``l``, the loss is a function of the label's own cost and of at most two sums over
the classes, so its gradient by ``l`` is ``D·[k = y] + c₀·s₀(l_k) + c₁·s₁(l_k)`` with the slopes ``s`` of
:mod:`~noiseproof.losses.fused.cells` and coefficients that are known once the sums are; by the logits it is that
minus ``p_k`` times its sum over the classes.
"""

from noiseproof.losses.fused.cells import CE, add_pull, cost, part_cost, part_slope, slope
from noiseproof.losses.fused.language import tl, triton
from noiseproof.losses.fused.plan import Role

ABSENT = tl.constexpr(int(Role.ABSENT))
NORMALIZED = tl.constexpr(int(Role.NORMALIZED))
NEGATIVE = tl.constexpr(int(Role.NEGATIVE))
NORMALIZED_NEGATIVE = tl.constexpr(int(Role.NORMALIZED_NEGATIVE))


@triton.jit
def add_active(value, label_slope, log_p, p, weight, PART: tl.constexpr):
    """Add an active part to the loss and to its slope at the label."""
    if PART[0] != ABSENT:
        value += weight * cost(log_p, p, PART[1], PART[2], PART[3])
        label_slope += weight * slope(log_p, p, PART[1], PART[2], PART[3])
    return value, label_slope


@triton.jit
def add_dense(value, label_slope, log_p, p, total, weight, NUM_CLASSES: tl.constexpr, PART: tl.constexpr):
    """Add a part that has ``total`` as its sum over the classes; return also the slope of the loss by that sum."""
    total_slope = tl.zeros_like(value)
    if PART[0] != ABSENT:
        own = part_cost(log_p, p, PART)
        own_slope = part_slope(log_p, p, PART)
        if PART[0] == NORMALIZED:
            value += weight * (own / total)
            label_slope += weight * (own_slope / total)
            total_slope = -weight * (own / total) / total
        elif PART[0] == NEGATIVE:
            value += weight * (total - own)
            label_slope -= weight * own_slope
            total_slope += weight
        elif PART[0] == NORMALIZED_NEGATIVE:
            value += weight * (1 - own / total)
            label_slope -= weight * (own_slope / total)
            total_slope = weight * (own / total) / total
        else:
            a: tl.constexpr = PART[2]
            value += weight * (total + a * a - 2 * a * p) / NUM_CLASSES
            label_slope -= weight * (2 * a) * p / NUM_CLASSES
            total_slope += weight / NUM_CLASSES
    return value, label_slope, total_slope


@triton.jit
def row_loss(
    log_p,
    p,
    sums,
    weights,
    NUM_CLASSES: tl.constexpr,
    DENSE_0: tl.constexpr,
    DENSE_1: tl.constexpr,
    ACTIVE_0: tl.constexpr,
    ACTIVE_1: tl.constexpr,
):
    """Loss of rows from the label's log-probability and ``sums`` over the classes: costs and slopes of both parts.

    Returns the loss, its slope at the label, its slopes by the two sums, and the sum of all its slopes.
    """
    value = tl.zeros_like(log_p)
    label_slope = tl.zeros_like(log_p)
    value, label_slope = add_active(value, label_slope, log_p, p, weights[2], ACTIVE_0)
    value, label_slope = add_active(value, label_slope, log_p, p, weights[3], ACTIVE_1)
    value, label_slope, c0 = add_dense(
        value, label_slope, log_p, p, sums[0], weights[0], NUM_CLASSES, DENSE_0
    )
    value, label_slope, c1 = add_dense(
        value, label_slope, log_p, p, sums[2], weights[1], NUM_CLASSES, DENSE_1
    )
    # Of a number and NaN, maxima and cuts at a floor take the number: some losses would hide what the logits hold.
    value = tl.where(log_p == log_p, value, log_p)
    slopes_0 = sums[1]
    if DENSE_0[0] == NORMALIZED and DENSE_0[1] == CE:
        slopes_0 = tl.zeros_like(log_p) - NUM_CLASSES
    return value, label_slope, c0, c1, label_slope + c0 * slopes_0 + c1 * sums[3]


@triton.jit
def class_totals(log_p, p, known, EVEN: tl.constexpr, AXIS: tl.constexpr, PART: tl.constexpr):
    """Sums over the classes of a part's cost and of its slope; ``EVEN`` says that no class is padding."""
    costs = part_cost(log_p, p, PART)
    slopes = part_slope(log_p, p, PART)
    if not EVEN:
        costs = tl.where(known, costs, 0.0)
        slopes = tl.where(known, slopes, 0.0)
    return tl.sum(costs, AXIS), tl.sum(slopes, AXIS)


@triton.jit
def gradient_cells(log_p, p, total_slope, c0, c1, DENSE_0: tl.constexpr, DENSE_1: tl.constexpr):
    """Gradient of a row's loss by its logits, for classes other than the label."""
    if DENSE_0[0] == NORMALIZED and DENSE_0[1] == CE:
        result = -c0
    elif DENSE_0[0] != ABSENT:
        result = c0 * part_slope(log_p, p, DENSE_0)
    else:
        result = tl.zeros_like(c0)
    if DENSE_1[0] != ABSENT:
        result = add_pull(result, c1, log_p, p, DENSE_1)
    return result - p * total_slope


@triton.jit
def entropy_pull(p, slopes, P_MIN: tl.constexpr):
    """Gradient of the marginal entropy by the log-probabilities; p is flat outside of [P_MIN, 1 − P_MIN]."""
    return tl.where((p >= P_MIN) & (p <= 1 - P_MIN), p * slopes, 0.0)


@triton.jit
def read_labels(
    target,
    class_weight,
    label_totals,
    outer,
    position,
    inside,
    inner,
    ignore_index,
    NUM_CLASSES: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN_OVER: tl.constexpr,
):
    """Labels at some positions, whether they are in use, and the factor of each in the loss.

    The factor is NaN for a label that is no class.
    """
    label = tl.load(target + outer * inner + position, mask=inside, other=ignore_index)
    used = inside & (label != ignore_index)
    legal = (label >= 0) & (label < NUM_CLASSES)
    label = tl.where(legal, label, 0).to(tl.int32)
    factor = tl.where(used, tl.where(legal, 1.0, float("nan")), 0.0)
    if WEIGHTED:
        factor *= tl.where(used, tl.load(class_weight + label).to(tl.float32), 1.0)
    if MEAN_OVER > 0:
        total = tl.sum(tl.load(label_totals + tl.arange(0, MEAN_OVER)), 0)
        factor = factor / tl.where(total > 0, total, 1.0)
    return label, used, factor
