# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Small kernels around the main ones: weights of labels, sums of probabilities, scaling."""

from noiseproof.losses.fused.cells import exp
from noiseproof.losses.fused.language import tl, triton
from noiseproof.losses.fused.streamed import streamed_softmax


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
):
    """Largest logit of each row and the logarithm of ``Σ exp(z − largest)``, for rows read in pieces."""
    blocks = tl.cdiv(inner, POSITIONS)
    outer = (tl.program_id(0) // blocks).to(tl.int64)
    position = (tl.program_id(0) % blocks) * POSITIONS + tl.arange(0, POSITIONS)
    inside = position < inner
    base = logits + outer * outer_stride + position.to(tl.int64) * INNER_STRIDE
    largest, log_total = streamed_softmax(base, inside, class_stride, NUM_CLASSES, POSITIONS, LANES, UNROLL)
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
