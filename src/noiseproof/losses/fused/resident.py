# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels that hold all classes of a position: one read of the logits, one write of their gradient.

Logits are seen as (outer, classes, inner) with any strides: rows (N, K) are one outer and N inner positions, images
(N, K, H·W) have N outers. :func:`softmax_loss_tiled` spreads the classes of a position over the threads of a few
warps, which suits rows of up to some thousand classes; :func:`softmax_loss_threaded` leaves them to one thread,
which suits a few classes, and images first of all.

These two and :func:`~noiseproof.losses.fused.streamed.softmax_loss_streamed` take the same arguments. ``MEAN_OVER``
is the number of partial sums in ``label_totals`` that a mean divides by, 0 for no mean. ``LOSS`` is 0 for none, 1
for one sum a program, 2 for one value a position. ``UPSTREAM`` says whether the gradient is scaled by ``upstream``.
``ENTROPY_FLOOR`` is 0 where the loss has no marginal entropy.
"""

from noiseproof.losses.fused.cells import LOG2_E, exp, exp2, part_cost, part_slope
from noiseproof.losses.fused.language import tl, triton
from noiseproof.losses.fused.parts import (
    ABSENT,
    class_totals,
    entropy_pull,
    gradient_cells,
    read_labels,
    row_loss,
)


@triton.jit
def softmax_loss_tiled(
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
    """Losses and gradients of a block of positions, all classes of which are in registers."""
    blocks = tl.cdiv(inner, POSITIONS)
    outer = (tl.program_id(0) // blocks).to(tl.int64)
    position = (tl.program_id(0) % blocks) * POSITIONS + tl.arange(0, POSITIONS)
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
    even: tl.constexpr = NUM_CLASSES == LANES
    k = tl.arange(0, LANES)[None, :]
    known = inside[:, None] & (k < NUM_CLASSES)
    z = tl.load(base[:, None] + k.to(tl.int64) * class_stride, mask=known, other=-float("inf")).to(tl.float32)
    largest = tl.max(z, 1)
    z = z - largest[:, None]
    p = exp(z)
    total = tl.sum(p, 1)
    log_total = tl.log(total)
    log_p = z - log_total[:, None]
    p = p * (1 / total)[:, None]
    zero = tl.zeros([POSITIONS], tl.float32)
    sums_0 = (zero, zero)
    sums_1 = (zero, zero)
    if DENSE_0[0] != ABSENT:
        sums_0 = class_totals(log_p, p, known, even, 1, DENSE_0)
    if DENSE_1[0] != ABSENT:
        sums_1 = class_totals(log_p, p, known, even, 1, DENSE_1)
    sums = (sums_0[0], sums_0[1], sums_1[0], sums_1[1])
    own_log_p = (label_logit - largest) - log_total
    own_p = exp(own_log_p)
    weights = (weight_0, weight_1, weight_2, weight_3)
    value, label_slope, c0, c1, total_slope = row_loss(
        own_log_p, own_p, sums, weights, NUM_CLASSES, DENSE_0, DENSE_1, ACTIVE_0, ACTIVE_1
    )
    if LOSS > 0:
        if ENTROPY_FLOOR > 0:
            value += entropy_weight * tl.load(penalty)
        value = tl.where(used, value * factor, 0.0)
        if LOSS == 1:
            tl.store(losses + tl.program_id(0), tl.sum(value, 0))
        else:
            tl.store(losses + outer * inner + position, value, mask=inside)
    if GRADIENT:
        if ENTROPY_FLOOR > 0:
            pulls = entropy_pull(
                p, tl.load(entropy_slopes + k, mask=k < NUM_CLASSES, other=0.0), ENTROPY_FLOOR
            )
            pull = tl.sum(pulls, 1)
        if UPSTREAM:
            where = upstream + (outer * inner + position) * upstream_stride
            factor *= tl.load(where, mask=inside, other=0.0).to(tl.float32)
        factor = tl.where(used, factor, 0.0)
        total_slope *= factor
        label_slope *= factor
        c0 *= factor
        c1 *= factor
        if ENTROPY_FLOOR > 0:
            share = tl.where(used, 1.0, 0.0)
            total_slope += share * pull
        write = gradient + outer * gradient_outer_stride + position.to(tl.int64) * GRADIENT_INNER_STRIDE
        result = gradient_cells(log_p, p, total_slope[:, None], c0[:, None], c1[:, None], DENSE_0, DENSE_1)
        result = tl.where(k == label[:, None], result + label_slope[:, None], result)
        if ENTROPY_FLOOR > 0:
            result += share[:, None] * pulls
        tl.store(
            write[:, None] + k.to(tl.int64) * gradient_class_stride,
            result.to(gradient.dtype.element_ty),
            mask=known,
        )


@triton.jit
def softmax_loss_threaded(
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
    """Losses and gradients of a block of positions; each thread has all classes of its own in registers."""
    blocks = tl.cdiv(inner, POSITIONS)
    outer = (tl.program_id(0) // blocks).to(tl.int64)
    position = (tl.program_id(0) % blocks) * POSITIONS + tl.arange(0, POSITIONS)
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
    cells = ()
    at = base
    largest = tl.zeros([POSITIONS], tl.float32) - float("inf")
    for _ in tl.static_range(NUM_CLASSES):
        z = tl.load(at, mask=inside, other=0.0)
        at += class_stride
        cells = cells + (z,)  # noqa: RUF005  (Triton knows no star here); in the logits' own type, which may be half as wide
        largest = tl.maximum(largest, z.to(tl.float32))
    total = tl.zeros([POSITIONS], tl.float32)
    for k in tl.static_range(NUM_CLASSES):
        total += exp(cells[k].to(tl.float32) - largest)
    log_total = tl.log(total)
    log2_total = log_total * LOG2_E
    all_0 = tl.zeros([POSITIONS], tl.float32)
    slopes_0 = tl.zeros([POSITIONS], tl.float32)
    all_1 = tl.zeros([POSITIONS], tl.float32)
    slopes_1 = tl.zeros([POSITIONS], tl.float32)
    pull = tl.zeros([POSITIONS], tl.float32)
    if DENSE_0[0] != ABSENT or DENSE_1[0] != ABSENT or ENTROPY_FLOOR > 0:
        for k in tl.static_range(NUM_CLASSES):
            z = cells[k].to(tl.float32) - largest
            log_p = z - log_total
            p = exp2(z * LOG2_E - log2_total)
            if DENSE_0[0] != ABSENT:
                all_0 += part_cost(log_p, p, DENSE_0)
                slopes_0 += part_slope(log_p, p, DENSE_0)
            if DENSE_1[0] != ABSENT:
                all_1 += part_cost(log_p, p, DENSE_1)
                slopes_1 += part_slope(log_p, p, DENSE_1)
            if GRADIENT and ENTROPY_FLOOR > 0:
                pull += entropy_pull(p, tl.load(entropy_slopes + k), ENTROPY_FLOOR)
    sums = (all_0, slopes_0, all_1, slopes_1)
    own_log_p = (label_logit - largest) - log_total
    own_p = exp(own_log_p)
    weights = (weight_0, weight_1, weight_2, weight_3)
    value, label_slope, c0, c1, total_slope = row_loss(
        own_log_p, own_p, sums, weights, NUM_CLASSES, DENSE_0, DENSE_1, ACTIVE_0, ACTIVE_1
    )
    if LOSS > 0:
        if ENTROPY_FLOOR > 0:
            value += entropy_weight * tl.load(penalty)
        value = tl.where(used, value * factor, 0.0)
        if LOSS == 1:
            tl.store(losses + tl.program_id(0), tl.sum(value, 0))
        else:
            tl.store(losses + outer * inner + position, value, mask=inside)
    if GRADIENT:
        if UPSTREAM:
            where = upstream + (outer * inner + position) * upstream_stride
            factor *= tl.load(where, mask=inside, other=0.0).to(tl.float32)
        factor = tl.where(used, factor, 0.0)
        total_slope *= factor
        label_slope *= factor
        c0 *= factor
        c1 *= factor
        if ENTROPY_FLOOR > 0:
            share = tl.where(used, 1.0, 0.0)
            total_slope += share * pull
        write = gradient + outer * gradient_outer_stride + position.to(tl.int64) * GRADIENT_INNER_STRIDE
        for k in tl.static_range(NUM_CLASSES):
            z = cells[k].to(tl.float32) - largest
            p = exp2(z * LOG2_E - log2_total)
            result = gradient_cells(z - log_total, p, total_slope, c0, c1, DENSE_0, DENSE_1)
            result = tl.where(label == k, result + label_slope, result)
            if ENTROPY_FLOOR > 0:
                result += share * entropy_pull(p, tl.load(entropy_slopes + k), ENTROPY_FLOOR)
            tl.store(write, result.to(gradient.dtype.element_ty), mask=inside)
            write += gradient_class_stride
