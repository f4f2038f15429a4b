# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""The kernel for positions of so many classes that no program can hold them.

It reads the classes in pieces, two or three times, of which all but the first find them in a cache.
"""

from noiseproof.losses.fused.cells import LOG2_E, exp, exp2
from noiseproof.losses.fused.language import tl, triton
from noiseproof.losses.fused.parts import (
    ABSENT,
    class_totals,
    entropy_pull,
    gradient_cells,
    read_labels,
    row_loss,
)

LOWEST = tl.constexpr(-3.4028234663852886e38)
"""Finite, unlike −∞: a lane all of whose classes are ruled out has a sum of 0, not of exp(−∞ + ∞)."""


@triton.jit
def online_softmax(top, total, z):
    """Take some more classes into each lane's maximum and sum: lanes need one another only at the end."""
    higher = tl.maximum(top, tl.max(z, 2))
    return higher, total * exp(top - higher) + tl.sum(exp(z - higher[:, :, None]), 2)


@triton.jit
def over_lanes(top, total):
    """Largest logit of each row, and the logarithm of ``Σ exp(z − largest)``, from those of its lanes."""
    largest = tl.max(top, 1)
    return largest, tl.log(tl.sum(total * exp(top - largest[:, None]), 1))


@triton.jit
def streamed_softmax(
    base,
    inside,
    class_stride,
    NUM_CLASSES: tl.constexpr,
    POSITIONS: tl.constexpr,
    LANES: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """Largest logit of each row, and the logarithm of ``Σ exp(z − largest)``, in one pass."""
    lane = tl.arange(0, LANES)[:, None] * UNROLL + tl.arange(0, UNROLL)[None, :]
    # Lanes begin with some logit, so that none is ever without.
    start = tl.load(base, mask=inside, other=0.0).to(tl.float32)
    top = tl.zeros([POSITIONS, LANES], tl.float32) + tl.maximum(start, LOWEST)[:, None]
    total = tl.zeros([POSITIONS, LANES], tl.float32)
    for first in range(0, NUM_CLASSES, LANES * UNROLL):
        k = (first + lane)[None, :, :]
        known = inside[:, None, None] & (k < NUM_CLASSES)
        z = tl.load(
            base[:, None, None] + k.to(tl.int64) * class_stride,
            mask=known,
            other=-float("inf"),
            eviction_policy="evict_last",
        )
        top, total = online_softmax(top, total, z.to(tl.float32))
    return over_lanes(top, total)


@triton.jit
def softmax_loss_streamed(
    logits,
    gradient,
    target,
    class_weight,
    upstream,
    label_totals,
    penalty,
    entropy_slopes,
    losses,
    num_blocks,
    inner,
    outer_stride,
    class_stride,
    gradient_outer_stride,
    gradient_class_stride,
    upstream_stride,
    ignore_index,
    weight_0,
    weight_1,
    weight_2,
    weight_3,
    entropy_weight,
    NUM_CLASSES: tl.constexpr,
    INNER_STRIDE: tl.constexpr,
    GRADIENT_INNER_STRIDE: tl.constexpr,
    DENSE_0: tl.constexpr,
    DENSE_1: tl.constexpr,
    ACTIVE_0: tl.constexpr,
    ACTIVE_1: tl.constexpr,
    ENTROPY_FLOOR: tl.constexpr,
    WEIGHTED: tl.constexpr,
    MEAN_OVER: tl.constexpr,
    LOSS: tl.constexpr,
    GRADIENT: tl.constexpr,
    UPSTREAM: tl.constexpr,
    POSITIONS: tl.constexpr,
    LANES: tl.constexpr,
    UNROLL: tl.constexpr,
    PERSISTENT: tl.constexpr,
):
    """Losses and gradients of positions that are read in pieces.

    A ``PERSISTENT`` program takes one block of positions after another. While it writes the gradient of one, out of
    the cache, it reads the next from memory, so that neither waits for the other.
    """
    even: tl.constexpr = NUM_CLASSES % (LANES * UNROLL) == 0
    lane = tl.arange(0, LANES)[:, None] * UNROLL + tl.arange(0, UNROLL)[None, :]
    blocks = tl.cdiv(inner, POSITIONS)
    weights = (weight_0, weight_1, weight_2, weight_3)
    loss = tl.zeros([POSITIONS], tl.float32)
    outer = (tl.program_id(0) // blocks).to(tl.int64)
    position = (tl.program_id(0) % blocks) * POSITIONS + tl.arange(0, POSITIONS)
    base = logits + outer * outer_stride + position.to(tl.int64) * INNER_STRIDE
    largest, log_total = streamed_softmax(
        base, position < inner, class_stride, NUM_CLASSES, POSITIONS, LANES, UNROLL
    )
    for index in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        outer = (index // blocks).to(tl.int64)
        position = (index % blocks) * POSITIONS + tl.arange(0, POSITIONS)
        inside = position < inner
        label, used, factor = read_labels(
            target,
            class_weight,
            label_totals,
            outer,
            position,
            inside,
            inner,
            ignore_index,
            NUM_CLASSES,
            WEIGHTED,
            MEAN_OVER,
        )
        base = logits + outer * outer_stride + position.to(tl.int64) * INNER_STRIDE
        label_logit = tl.load(base + label.to(tl.int64) * class_stride, mask=inside, other=0.0).to(tl.float32)
        log2_total = log_total * LOG2_E
        all_0 = tl.zeros([POSITIONS, LANES], tl.float32)
        slopes_0 = tl.zeros([POSITIONS, LANES], tl.float32)
        all_1 = tl.zeros([POSITIONS, LANES], tl.float32)
        slopes_1 = tl.zeros([POSITIONS, LANES], tl.float32)
        pulls = tl.zeros([POSITIONS, LANES], tl.float32)
        if DENSE_0[0] != ABSENT or DENSE_1[0] != ABSENT or ENTROPY_FLOOR > 0:
            for first in range(0, NUM_CLASSES, LANES * UNROLL):
                k = (first + lane)[None, :, :]
                known = inside[:, None, None] & (k < NUM_CLASSES)
                z = tl.load(base[:, None, None] + k.to(tl.int64) * class_stride, mask=known, other=0.0)
                z = z.to(tl.float32) - largest[:, None, None]
                log_p = z - log_total[:, None, None]
                p = exp2(z * LOG2_E - log2_total[:, None, None])
                if DENSE_0[0] != ABSENT:
                    costs, slopes = class_totals(log_p, p, known, even, 2, DENSE_0)
                    all_0 += costs
                    slopes_0 += slopes
                if DENSE_1[0] != ABSENT:
                    costs, slopes = class_totals(log_p, p, known, even, 2, DENSE_1)
                    all_1 += costs
                    slopes_1 += slopes
                if GRADIENT and ENTROPY_FLOOR > 0:
                    slopes = tl.load(entropy_slopes + k, mask=k < NUM_CLASSES, other=0.0)
                    pulls += tl.sum(entropy_pull(p, slopes, ENTROPY_FLOOR), 2)
        sums = (tl.sum(all_0, 1), tl.sum(slopes_0, 1), tl.sum(all_1, 1), tl.sum(slopes_1, 1))
        pull = tl.sum(pulls, 1)
        own_log_p = (label_logit - largest) - log_total
        own_p = exp(own_log_p)
        value, label_slope, c0, c1, total_slope = row_loss(
            own_log_p, own_p, sums, weights, NUM_CLASSES, DENSE_0, DENSE_1, ACTIVE_0, ACTIVE_1
        )
        if LOSS > 0:
            if ENTROPY_FLOOR > 0:
                value += entropy_weight * tl.load(penalty)
            value = tl.where(used, value * factor, 0.0)
            if LOSS == 1:
                loss += value
            else:
                tl.store(losses + outer * inner + position, value, mask=inside)

        following = index + tl.num_programs(0)
        next_outer = (following // blocks).to(tl.int64)
        next_position = (following % blocks) * POSITIONS + tl.arange(0, POSITIONS)
        next_inside = next_position < inner * tl.minimum(num_blocks - following, 1)  # nothing after the last
        next_base = logits + next_outer * outer_stride + next_position.to(tl.int64) * INNER_STRIDE
        if GRADIENT:
            if UPSTREAM:
                where = upstream + (outer * inner + position) * upstream_stride
                factor *= tl.load(where, mask=inside, other=0.0).to(tl.float32)
            factor = tl.where(used, factor, 0.0)
            # Cross-entropy's slope is one number, which Triton would spread over the classes in a layout of its own
            # and carry over through shared memory: a row's own probability ties it to the layout of the logits.
            total_slope = tl.where(own_p >= 0, total_slope, own_p) * factor
            label_slope *= factor
            c0 *= factor
            c1 *= factor
            if ENTROPY_FLOOR > 0:
                share = tl.where(used, 1.0, 0.0)
                total_slope += share * pull
            write = gradient + outer * gradient_outer_stride + position.to(tl.int64) * GRADIENT_INNER_STRIDE
            if PERSISTENT:
                start = tl.load(next_base, mask=next_inside, other=0.0).to(tl.float32)
                top = tl.zeros([POSITIONS, LANES], tl.float32) + tl.maximum(start, LOWEST)[:, None]
                total = tl.zeros([POSITIONS, LANES], tl.float32)
            for first in range(0, NUM_CLASSES, LANES * UNROLL):
                k = (first + lane)[None, :, :]
                known = inside[:, None, None] & (k < NUM_CLASSES)
                if PERSISTENT:
                    next_z = tl.load(
                        next_base[:, None, None] + k.to(tl.int64) * class_stride,
                        mask=next_inside[:, None, None] & (k < NUM_CLASSES),
                        other=-float("inf"),
                        eviction_policy="evict_last",
                    )
                z = tl.load(
                    base[:, None, None] + k.to(tl.int64) * class_stride,
                    mask=known,
                    other=0.0,
                    eviction_policy="evict_first",
                )
                z = z.to(tl.float32) - largest[:, None, None]
                log_p = z - log_total[:, None, None]
                p = exp2(z * LOG2_E - log2_total[:, None, None])
                result = gradient_cells(
                    log_p,
                    p,
                    total_slope[:, None, None],
                    c0[:, None, None],
                    c1[:, None, None],
                    DENSE_0,
                    DENSE_1,
                )
                if ENTROPY_FLOOR > 0:
                    slopes = tl.load(entropy_slopes + k, mask=k < NUM_CLASSES, other=0.0)
                    result += share[:, None, None] * entropy_pull(p, slopes, ENTROPY_FLOOR)
                tl.store(
                    write[:, None, None] + k.to(tl.int64) * gradient_class_stride,
                    result.to(gradient.dtype.element_ty),
                    mask=known,
                    eviction_policy="evict_first",
                )
                if PERSISTENT:
                    top, total = online_softmax(top, total, next_z.to(tl.float32))
            # The label's own cell is written a second time: cheaper than asking each cell whether it is the one.
            result = gradient_cells(own_log_p, own_p, total_slope, c0, c1, DENSE_0, DENSE_1) + label_slope
            if ENTROPY_FLOOR > 0:
                slopes = tl.load(entropy_slopes + label)
                result += share * entropy_pull(own_p, slopes, ENTROPY_FLOOR)
            tl.debug_barrier()
            tl.store(
                write + label.to(tl.int64) * gradient_class_stride,
                result.to(gradient.dtype.element_ty),
                mask=inside,
            )
            if PERSISTENT:
                largest, log_total = over_lanes(top, total)
        elif PERSISTENT:
            largest, log_total = streamed_softmax(
                next_base, next_inside, class_stride, NUM_CLASSES, POSITIONS, LANES, UNROLL
            )
    if LOSS == 1:
        tl.store(losses + tl.program_id(0), tl.sum(loss, 0))
