# mypy: ignore-errors
"""The kernels: one for every loss, in one read of the logits and one write of their gradient.

Logits are seen as (outer, classes, inner) with any strides: rows (N, K) are one outer and N inner positions, images
(N, K, H·W) have N outers. A program takes a block of positions. Where all classes of a block fit into registers
(``RESIDENT``), they are read once. Longer rows are read in pieces, two or three times, of which all but the first
find them in the L2 cache.

For a row with log-probabilities ``l``, the loss is a function of the label's own cost and of at most two sums over
the classes, so its gradient by ``l`` is ``D·[k = y] + c₀·s₀(l_k) + c₁·s₁(l_k)`` with the slopes ``s`` of
:mod:`~noiseproof.losses.fused.cells` and coefficients that are known once the sums are; by the logits it is that
minus ``p_k`` times its sum over the classes.
"""

from noiseproof.losses.fused.cells import CE, LOG2_E, add_pull, cost, exp, exp2, part_cost, part_slope, slope
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
def class_totals(log_p, p, known, EVEN: tl.constexpr, AXIS: tl.constexpr, PART: tl.constexpr):
    """Sums over the classes of a part's cost and of its slope; ``EVEN`` says that no class is padding."""
    costs = part_cost(log_p, p, PART)
    slopes = part_slope(log_p, p, PART)
    if not EVEN:
        costs = tl.where(known, costs, 0.0)
        slopes = tl.where(known, slopes, 0.0)
    return tl.sum(costs, AXIS), tl.sum(slopes, AXIS)


@triton.jit
def entropy_pull(p, slopes, P_MIN: tl.constexpr):
    """Gradient of the marginal entropy by the log-probabilities; p is flat outside of [P_MIN, 1 − P_MIN]."""
    return tl.where((p >= P_MIN) & (p <= 1 - P_MIN), p * slopes, 0.0)


@triton.jit
def read_rows(
    target,
    class_weight,
    outer,
    block,
    inner,
    ignore_index,
    NUM_CLASSES: tl.constexpr,
    POSITIONS: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Positions of a block, the labels there, and what each weighs: NaN for a label that is no class."""
    position = block * POSITIONS + tl.arange(0, POSITIONS)
    inside = position < inner
    label = tl.load(target + outer.to(tl.int64) * inner + position, mask=inside, other=ignore_index)
    used = inside & (label != ignore_index)
    legal = (label >= 0) & (label < NUM_CLASSES)
    label = tl.where(legal, label, 0).to(tl.int32)
    sample_weight = tl.where(used, tl.where(legal, 1.0, float("nan")), 0.0)
    if WEIGHTED:
        sample_weight *= tl.where(used, tl.load(class_weight + label).to(tl.float32), 1.0)
    return position, inside, used, label, sample_weight


@triton.jit
def label_weights(
    target,
    class_weight,
    partials,
    count,
    ignore_index,
    rounds,
    NUM_CLASSES: tl.constexpr,
    BLOCK: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    """Sum of the weights of the labels in use, one partial sum a program."""
    start = tl.program_id(0).to(tl.int64) * rounds * BLOCK
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(rounds):
        index = start + i * BLOCK + tl.arange(0, BLOCK)
        label = tl.load(target + index, mask=index < count, other=ignore_index)
        used = (index < count) & (label != ignore_index)
        if WEIGHTED:
            legal = used & (label >= 0) & (label < NUM_CLASSES)
            total += tl.load(class_weight + tl.where(legal, label, 0), mask=legal, other=0.0).to(tl.float32)
        else:
            total += tl.where(used, 1.0, 0.0)
    tl.store(partials + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def streamed_softmax(
    base,
    inside,
    start,
    class_stride,
    NUM_CLASSES: tl.constexpr,
    POSITIONS: tl.constexpr,
    LANES: tl.constexpr,
    UNROLL: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Largest logit of each row, and the logarithm of ``Σ exp(z − largest)``, in one pass.

    Every lane keeps a maximum and a sum of its own, so that threads need one another only at the end.
    """
    lane = tl.arange(0, LANES)[:, None] * UNROLL + tl.arange(0, UNROLL)[None, :]
    top = tl.zeros([POSITIONS, LANES], tl.float32) + start[:, None]
    total = tl.zeros([POSITIONS, LANES], tl.float32)
    for first in tl.range(0, NUM_CLASSES, LANES * UNROLL, num_stages=STAGES):
        k = (first + lane)[None, :, :]
        known = inside[:, None, None] & (k < NUM_CLASSES)
        z = tl.load(base[:, None, None] + k.to(tl.int64) * class_stride, mask=known, other=-float("inf"))
        z = z.to(tl.float32)
        higher = tl.maximum(top, tl.max(z, 2))
        total = total * exp(top - higher) + tl.sum(exp(z - higher[:, :, None]), 2)
        top = higher
    largest = tl.max(top, 1)
    return largest, tl.log(tl.sum(total * exp(top - largest[:, None]), 1))


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
def softmax_loss(
    logits,
    gradient,
    target,
    class_weight,
    upstream,
    label_totals,
    penalty,
    entropy_slopes,
    losses,
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
    RESIDENT: tl.constexpr,
    POSITIONS: tl.constexpr,
    LANES: tl.constexpr,
    UNROLL: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Losses of a block of positions, the gradient by their logits, or both.

    ``MEAN_OVER`` is the number of partial sums in ``label_totals`` that a mean divides by, 0 for no mean. ``LOSS``
    is 0 for none, 1 for one sum a program, 2 for one value a position. ``UPSTREAM`` says whether the gradient is
    scaled by ``upstream``. ``ENTROPY_FLOOR`` is 0 where the loss has no marginal entropy.
    """
    blocks = tl.cdiv(inner, POSITIONS)
    outer = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    position, inside, used, label, sample_weight = read_rows(
        target, class_weight, outer, block, inner, ignore_index, NUM_CLASSES, POSITIONS, WEIGHTED
    )
    base = logits + outer.to(tl.int64) * outer_stride + position.to(tl.int64) * INNER_STRIDE
    label_logit = tl.load(base + label.to(tl.int64) * class_stride, mask=inside, other=0.0).to(tl.float32)
    scale = sample_weight
    if MEAN_OVER > 0:
        total_weight = tl.sum(tl.load(label_totals + tl.arange(0, MEAN_OVER)), 0)
        scale = scale / tl.where(total_weight > 0, total_weight, 1.0)

    dense: tl.constexpr = DENSE_0[0] != ABSENT or DENSE_1[0] != ABSENT or ENTROPY_FLOOR > 0
    even: tl.constexpr = NUM_CLASSES % (LANES * UNROLL) == 0
    all_0 = tl.zeros([POSITIONS], tl.float32)
    slopes_0 = tl.zeros([POSITIONS], tl.float32)
    all_1 = tl.zeros([POSITIONS], tl.float32)
    slopes_1 = tl.zeros([POSITIONS], tl.float32)
    pull = tl.zeros([POSITIONS], tl.float32)
    if RESIDENT:
        k = tl.arange(0, LANES * UNROLL)[None, :]
        known = inside[:, None] & (k < NUM_CLASSES)
        z = tl.load(base[:, None] + k.to(tl.int64) * class_stride, mask=known, other=-float("inf"))
        z = z.to(tl.float32)
        largest = tl.max(z, 1)
        z = z - largest[:, None]
        p = exp(z)
        total = tl.sum(p, 1)
        log_total = tl.log(total)
        log_p = z - log_total[:, None]
        p = p * (1 / total)[:, None]
        if DENSE_0[0] != ABSENT:
            all_0, slopes_0 = class_totals(log_p, p, known, even, 1, DENSE_0)
        if DENSE_1[0] != ABSENT:
            all_1, slopes_1 = class_totals(log_p, p, known, even, 1, DENSE_1)
        if GRADIENT and ENTROPY_FLOOR > 0:
            pulls = entropy_pull(p, tl.load(entropy_slopes + k, mask=known, other=0.0), ENTROPY_FLOOR)
            pull = tl.sum(pulls, 1)
    else:
        largest, log_total = streamed_softmax(
            base, inside, label_logit, class_stride, NUM_CLASSES, POSITIONS, LANES, UNROLL, STAGES
        )
        log2_total = log_total * LOG2_E
        if dense:
            lane = tl.arange(0, LANES)[:, None] * UNROLL + tl.arange(0, UNROLL)[None, :]
            lanes_0 = tl.zeros([POSITIONS, LANES], tl.float32)
            lane_slopes_0 = tl.zeros([POSITIONS, LANES], tl.float32)
            lanes_1 = tl.zeros([POSITIONS, LANES], tl.float32)
            lane_slopes_1 = tl.zeros([POSITIONS, LANES], tl.float32)
            lane_pull = tl.zeros([POSITIONS, LANES], tl.float32)
            for first in tl.range(0, NUM_CLASSES, LANES * UNROLL, num_stages=STAGES):
                k = (first + lane)[None, :, :]
                known = inside[:, None, None] & (k < NUM_CLASSES)
                z = tl.load(base[:, None, None] + k.to(tl.int64) * class_stride, mask=known, other=0.0)
                z = z.to(tl.float32) - largest[:, None, None]
                log_p = z - log_total[:, None, None]
                p = exp2(z * LOG2_E - log2_total[:, None, None])
                if DENSE_0[0] != ABSENT:
                    costs, slopes = class_totals(log_p, p, known, even, 2, DENSE_0)
                    lanes_0 += costs
                    lane_slopes_0 += slopes
                if DENSE_1[0] != ABSENT:
                    costs, slopes = class_totals(log_p, p, known, even, 2, DENSE_1)
                    lanes_1 += costs
                    lane_slopes_1 += slopes
                if GRADIENT and ENTROPY_FLOOR > 0:
                    pulls = entropy_pull(p, tl.load(entropy_slopes + k, mask=known, other=0.0), ENTROPY_FLOOR)
                    lane_pull += tl.sum(pulls, 2)
            all_0 = tl.sum(lanes_0, 1)
            slopes_0 = tl.sum(lane_slopes_0, 1)
            all_1 = tl.sum(lanes_1, 1)
            slopes_1 = tl.sum(lane_slopes_1, 1)
            pull = tl.sum(lane_pull, 1)
    if DENSE_0[0] == NORMALIZED and DENSE_0[1] == CE:
        slopes_0 = tl.zeros([POSITIONS], tl.float32) - NUM_CLASSES

    own_log_p = (label_logit - largest) - log_total
    own_p = exp(own_log_p)
    value = tl.zeros([POSITIONS], tl.float32)
    label_slope = tl.zeros([POSITIONS], tl.float32)
    value, label_slope = add_active(value, label_slope, own_log_p, own_p, weight_2, ACTIVE_0)
    value, label_slope = add_active(value, label_slope, own_log_p, own_p, weight_3, ACTIVE_1)
    value, label_slope, c0 = add_dense(
        value, label_slope, own_log_p, own_p, all_0, weight_0, NUM_CLASSES, DENSE_0
    )
    value, label_slope, c1 = add_dense(
        value, label_slope, own_log_p, own_p, all_1, weight_1, NUM_CLASSES, DENSE_1
    )
    if LOSS > 0:
        if ENTROPY_FLOOR > 0:
            value += entropy_weight * tl.load(penalty)
        value = tl.where(used, value * scale, 0.0)
        if LOSS == 1:
            tl.store(losses + tl.program_id(0), tl.sum(value, 0))
        else:
            tl.store(losses + outer.to(tl.int64) * inner + position, value, mask=inside)
    if GRADIENT:
        if UPSTREAM:
            scale *= tl.load(
                upstream + (outer.to(tl.int64) * inner + position) * upstream_stride, mask=inside, other=0.0
            ).to(tl.float32)
        scale = tl.where(used, scale, 0.0)
        total_slope = (label_slope + c0 * slopes_0 + c1 * slopes_1) * scale
        label_slope *= scale
        c0 *= scale
        c1 *= scale
        if ENTROPY_FLOOR > 0:
            share = tl.where(used, 1.0, 0.0)
            total_slope += share * pull
        write = (
            gradient
            + outer.to(tl.int64) * gradient_outer_stride
            + position.to(tl.int64) * GRADIENT_INNER_STRIDE
        )
        if RESIDENT:
            result = gradient_cells(
                log_p, p, total_slope[:, None], c0[:, None], c1[:, None], DENSE_0, DENSE_1
            )
            result = tl.where(k == label[:, None], result + label_slope[:, None], result)
            if ENTROPY_FLOOR > 0:
                result += share[:, None] * pulls
            tl.store(
                write[:, None] + k.to(tl.int64) * gradient_class_stride,
                result.to(gradient.dtype.element_ty),
                mask=known,
            )
        else:
            lane = tl.arange(0, LANES)[:, None] * UNROLL + tl.arange(0, UNROLL)[None, :]
            for first in tl.range(0, NUM_CLASSES, LANES * UNROLL, num_stages=STAGES):
                k = (first + lane)[None, :, :]
                known = inside[:, None, None] & (k < NUM_CLASSES)
                z = tl.load(base[:, None, None] + k.to(tl.int64) * class_stride, mask=known, other=0.0)
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
                    pulls = entropy_pull(p, tl.load(entropy_slopes + k, mask=known, other=0.0), ENTROPY_FLOOR)
                    result += share[:, None, None] * pulls
                tl.store(
                    write[:, None, None] + k.to(tl.int64) * gradient_class_stride,
                    result.to(gradient.dtype.element_ty),
                    mask=known,
                )
            # The label's own cell is written a second time: cheaper than asking each cell whether it is the one.
            result = gradient_cells(own_log_p, own_p, total_slope, c0, c1, DENSE_0, DENSE_1) + label_slope
            if ENTROPY_FLOOR > 0:
                result += share * entropy_pull(own_p, tl.load(entropy_slopes + label), ENTROPY_FLOOR)
            tl.debug_barrier()
            tl.store(
                write + label.to(tl.int64) * gradient_class_stride,
                result.to(gradient.dtype.element_ty),
                mask=inside,
            )


@triton.jit
def softmax_statistics(
    logits,
    statistics,
    inner,
    outer_stride,
    class_stride,
    NUM_CLASSES: tl.constexpr,
    INNER_STRIDE: tl.constexpr,
    POSITIONS: tl.constexpr,
    LANES: tl.constexpr,
    UNROLL: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Largest logit of each row and the logarithm of ``Σ exp(z − largest)``, for rows read in pieces."""
    blocks = tl.cdiv(inner, POSITIONS)
    outer = (tl.program_id(0) // blocks).to(tl.int64)
    position = (tl.program_id(0) % blocks) * POSITIONS + tl.arange(0, POSITIONS)
    inside = position < inner
    base = logits + outer * outer_stride + position.to(tl.int64) * INNER_STRIDE
    start = tl.load(base, mask=inside, other=0.0).to(tl.float32)
    largest, log_total = streamed_softmax(
        base, inside, start, class_stride, NUM_CLASSES, POSITIONS, LANES, UNROLL, STAGES
    )
    tl.store(statistics + 2 * (outer * inner + position), largest, mask=inside)
    tl.store(statistics + 2 * (outer * inner + position) + 1, log_total, mask=inside)


@triton.jit
def class_sums(
    logits,
    target,
    statistics,
    partials,
    inner,
    num_blocks,
    outer_stride,
    class_stride,
    ignore_index,
    NUM_CLASSES: tl.constexpr,
    INNER_STRIDE: tl.constexpr,
    P_MIN: tl.constexpr,
    RESIDENT: tl.constexpr,
    POSITIONS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    """Sum over the labelled positions of each class's probability, kept in [P_MIN, 1 − P_MIN].

    A program takes every n-th block of positions and writes one partial sum a class.
    """
    k = tl.program_id(1) * CLASSES + tl.arange(0, CLASSES)
    known = k < NUM_CLASSES
    blocks = tl.cdiv(inner, POSITIONS)
    total = tl.zeros([CLASSES], tl.float32)
    for index in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        outer = (index // blocks).to(tl.int64)
        position = (index % blocks) * POSITIONS + tl.arange(0, POSITIONS)
        inside = position < inner
        base = logits + outer * outer_stride + position.to(tl.int64) * INNER_STRIDE
        label = tl.load(target + outer * inner + position, mask=inside, other=ignore_index)
        used = inside & (label != ignore_index)
        z = tl.load(
            base[:, None] + k[None, :].to(tl.int64) * class_stride,
            mask=inside[:, None] & known[None, :],
            other=-float("inf"),
        ).to(tl.float32)
        if RESIDENT:
            z = exp(z - tl.max(z, 1)[:, None])
            p = z / tl.sum(z, 1)[:, None]
        else:
            largest = tl.load(statistics + 2 * (outer * inner + position), mask=inside, other=0.0)
            log_total = tl.load(statistics + 2 * (outer * inner + position) + 1, mask=inside, other=0.0)
            p = exp((z - largest[:, None]) - log_total[:, None])
        p = tl.minimum(tl.maximum(p, P_MIN), 1 - P_MIN)
        total += tl.sum(tl.where(used[:, None], p, 0.0), 0)
    tl.store(partials + tl.program_id(0) * NUM_CLASSES + k, total, mask=known)


@triton.jit
def scale_unless_one(gradient, factor, size, BLOCK: tl.constexpr):
    """Multiply a gradient by a number, without touching it where the number is 1, as it nearly always is."""
    by = tl.load(factor).to(tl.float32)
    if by != 1:
        for start in range(tl.program_id(0).to(tl.int64) * BLOCK, size, tl.num_programs(0) * BLOCK):
            index = start + tl.arange(0, BLOCK)
            value = tl.load(gradient + index, mask=index < size).to(tl.float32)
            tl.store(gradient + index, (value * by).to(gradient.dtype.element_ty), mask=index < size)
