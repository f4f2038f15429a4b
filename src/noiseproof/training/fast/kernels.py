# SPDX-License-Identifier: Apache-2.0
# mypy: ignore-errors
"""Kernels of batch norm with its surroundings, and of SGD."""

from noiseproof.losses.fused.language import tl, triton


@triton.jit
def best_of_four(x, base, width, cols, channels, valid, scale, shift):
    """First largest of 2x2 pixels after scaling: its value before and after, and which of the four it is."""
    best_x = tl.load(x + base[:, None] * channels + cols, mask=valid, other=0.0).to(tl.float32)
    best_z = best_x * scale + shift
    which = tl.zeros_like(best_z).to(tl.int32)
    for k in tl.static_range(1, 4):
        rows = base + (k // 2) * width + (k % 2)
        value = tl.load(x + rows[:, None] * channels + cols, mask=valid, other=0.0).to(tl.float32)
        z = value * scale + shift
        larger = z > best_z
        best_x = tl.where(larger, value, best_x)
        best_z = tl.where(larger, z, best_z)
        which = tl.where(larger, k, which)
    return best_x, best_z, which


@triton.jit
def first_pixel(rows, height, width):
    """Row of the first of the 2x2 pixels behind a pooled pixel; height and width are those before pooling."""
    across = width // 2
    column = rows % across
    line = rows // across
    image = line // (height // 2)
    return (image * height + 2 * (line % (height // 2))) * width + 2 * column


@triton.jit
def statistics(
    x, partial, rows_in_all, channels, share: tl.constexpr, block_rows: tl.constexpr, block_cols: tl.constexpr
):
    """Mean and sum of squared distances from it, of each channel over ``share`` rows."""
    block, cols = tl.program_id(0), tl.program_id(1) * block_cols + tl.arange(0, block_cols)
    in_width = cols < channels
    sums = tl.zeros((block_rows, block_cols), tl.float32)
    squares = tl.zeros((block_rows, block_cols), tl.float32)
    for start in range(0, share, block_rows):
        rows = block * share + start + tl.arange(0, block_rows)
        valid = (rows < rows_in_all)[:, None] & in_width[None, :]
        value = tl.load(x + rows[:, None] * channels + cols[None, :], mask=valid, other=0.0).to(tl.float32)
        sums += value
        squares += value * value
    count = tl.minimum(share, rows_in_all - block * share).to(tl.float32)
    total = tl.sum(sums, 0)
    mean = total / count
    spread = tl.maximum(tl.sum(squares, 0) - total * mean, 0.0)
    tl.store(partial + (block * 2) * channels + cols, mean, mask=in_width)
    tl.store(partial + (block * 2 + 1) * channels + cols, spread, mask=in_width)


@triton.jit
def join_statistics(
    partial,
    gamma,
    beta,
    bias,
    running_mean,
    running_var,
    constants,
    blocks,
    share,
    rows_in_all,
    channels,
    momentum,
    eps,
    has_bias: tl.constexpr,
    block_rows: tl.constexpr,
    block_cols: tl.constexpr,
):
    """Statistics of all rows from those of the blocks; running ones follow, scale and shift come of them."""
    cols = tl.program_id(0) * block_cols + tl.arange(0, block_cols)
    in_width = cols < channels
    # Squared distances are taken from the first block's mean, not from zero: no digits are lost to a large mean.
    near = tl.load(partial + cols, mask=in_width, other=0.0)[None, :]
    weighted = tl.zeros((block_rows, block_cols), tl.float32)
    spread = tl.zeros((block_rows, block_cols), tl.float32)
    for start in range(0, blocks, block_rows):
        rows = start + tl.arange(0, block_rows)
        valid = (rows < blocks)[:, None] & in_width[None, :]
        count = tl.minimum(share, rows_in_all - rows * share).to(tl.float32)[:, None]
        place = partial + (rows * 2)[:, None] * channels + cols[None, :]
        away = tl.load(place, mask=valid, other=0.0) - near
        within = tl.load(place + channels, mask=valid, other=0.0)
        weighted += tl.where(valid, away * count, 0.0)
        spread += tl.where(valid, within + away * away * count, 0.0)
    moved = tl.sum(weighted, 0) / rows_in_all
    mean = moved + tl.sum(near, 0)
    squares = tl.maximum(tl.sum(spread, 0) - moved * moved * rows_in_all, 0.0)
    rstd = 1.0 / tl.sqrt(squares / rows_in_all + eps)
    scale = tl.load(gamma + cols, mask=in_width, other=0.0) * rstd
    shift = tl.load(beta + cols, mask=in_width, other=0.0) - mean * scale
    tl.store(constants + cols, scale, mask=in_width)
    tl.store(constants + channels + cols, shift, mask=in_width)
    tl.store(constants + 2 * channels + cols, mean, mask=in_width)
    tl.store(constants + 3 * channels + cols, rstd, mask=in_width)
    seen = mean
    if has_bias:
        seen += tl.load(bias + cols, mask=in_width, other=0.0)
    old_mean = tl.load(running_mean + cols, mask=in_width, other=0.0)
    old_var = tl.load(running_var + cols, mask=in_width, other=0.0)
    unbiased = squares / tl.maximum(rows_in_all - 1, 1)
    tl.store(running_mean + cols, old_mean + momentum * (seen - old_mean), mask=in_width)
    tl.store(running_var + cols, old_var + momentum * (unbiased - old_var), mask=in_width)


@triton.jit
def normalize(
    x,
    shortcut,
    y,
    constants,
    rows_out,
    channels,
    height: tl.constexpr,
    width: tl.constexpr,
    relu: tl.constexpr,
    slope: tl.constexpr,
    pool: tl.constexpr,
    has_shortcut: tl.constexpr,
    block_rows: tl.constexpr,
    block_cols: tl.constexpr,
):
    """``y = pool(relu(x * scale + shift + shortcut))``, each of the three where asked for."""
    cols = (tl.program_id(1) * block_cols + tl.arange(0, block_cols))[None, :]
    in_width = cols < channels
    scale = tl.load(constants + cols, mask=in_width, other=0.0)
    shift = tl.load(constants + channels + cols, mask=in_width, other=0.0)
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    valid = (rows < rows_out)[:, None] & in_width
    place = rows[:, None] * channels + cols
    if pool:
        base = first_pixel(rows, height, width)
        _, z, _ = best_of_four(x, base, width, cols, channels, valid, scale, shift)
    else:
        z = tl.load(x + place, mask=valid, other=0.0).to(tl.float32) * scale + shift
    if has_shortcut:
        z += tl.load(shortcut + place, mask=valid, other=0.0).to(tl.float32)
    if relu:
        z = tl.where(z > 0, z, slope * z)
    tl.store(y + place, z.to(y.dtype.element_ty), mask=valid)


@triton.jit
def backward_sums(
    x,
    y,
    dy,
    other_dy,
    other_stride,
    dz_out,
    constants,
    partial,
    rows_out,
    channels,
    height: tl.constexpr,
    width: tl.constexpr,
    relu: tl.constexpr,
    slope: tl.constexpr,
    pool: tl.constexpr,
    has_shortcut: tl.constexpr,
    twice: tl.constexpr,
    share: tl.constexpr,
    block_rows: tl.constexpr,
    block_cols: tl.constexpr,
):
    """``Σ dz`` and ``Σ dz·x̂`` of each channel over ``share`` rows; dz itself where somebody reads it again."""
    block = tl.program_id(0)
    cols = (tl.program_id(1) * block_cols + tl.arange(0, block_cols))[None, :]
    in_width = cols < channels
    scale = tl.load(constants + cols, mask=in_width, other=0.0)
    shift = tl.load(constants + channels + cols, mask=in_width, other=0.0)
    mean = tl.load(constants + 2 * channels + cols, mask=in_width, other=0.0)
    rstd = tl.load(constants + 3 * channels + cols, mask=in_width, other=0.0)
    sums = tl.zeros((block_rows, block_cols), tl.float32)
    products = tl.zeros((block_rows, block_cols), tl.float32)
    for start in range(0, share, block_rows):
        rows = block * share + start + tl.arange(0, block_rows)
        valid = (rows < rows_out)[:, None] & in_width
        place = rows[:, None] * channels + cols
        dz = tl.load(dy + place, mask=valid, other=0.0).to(tl.float32)
        if twice:
            other = rows[:, None] * other_stride + cols
            dz += tl.load(other_dy + other, mask=valid, other=0.0).to(tl.float32)
        if pool:
            base = first_pixel(rows, height, width)
            value, z, _ = best_of_four(x, base, width, cols, channels, valid, scale, shift)
        else:
            value = tl.load(x + place, mask=valid, other=0.0).to(tl.float32)
            z = value * scale + shift
        if relu:
            if has_shortcut:  # what was added is not kept; that the sum was positive shows in the output
                z = tl.load(y + place, mask=valid, other=0.0).to(tl.float32)
            dz = tl.where(z > 0, dz, slope * dz)
        if has_shortcut or twice:
            tl.store(dz_out + place, dz.to(dz_out.dtype.element_ty), mask=valid)
        sums += dz
        products += dz * (value - mean) * rstd
    out = partial + (block * 2) * channels + cols
    tl.store(out, tl.sum(sums, 0)[None, :], mask=in_width)
    tl.store(out + channels, tl.sum(products, 0)[None, :], mask=in_width)


@triton.jit
def join_backward_sums(
    partial,
    constants,
    gradients,
    factors,
    blocks,
    rows_in_all,
    channels,
    block_rows: tl.constexpr,
    block_cols: tl.constexpr,
):
    """Gradients of gamma and beta, and the factors of ``dx = a·dz + b·x + c``."""
    cols = tl.program_id(0) * block_cols + tl.arange(0, block_cols)
    in_width = cols < channels
    sums = tl.zeros((block_rows, block_cols), tl.float32)
    products = tl.zeros((block_rows, block_cols), tl.float32)
    for start in range(0, blocks, block_rows):
        rows = start + tl.arange(0, block_rows)
        valid = (rows < blocks)[:, None] & in_width[None, :]
        place = partial + (rows * 2)[:, None] * channels + cols[None, :]
        sums += tl.load(place, mask=valid, other=0.0)
        products += tl.load(place + channels, mask=valid, other=0.0)
    dbeta, dgamma = tl.sum(sums, 0), tl.sum(products, 0)
    a = tl.load(constants + cols, mask=in_width, other=0.0)
    mean = tl.load(constants + 2 * channels + cols, mask=in_width, other=0.0)
    rstd = tl.load(constants + 3 * channels + cols, mask=in_width, other=0.0)
    b = -a * rstd * dgamma / rows_in_all
    tl.store(gradients + cols, dgamma, mask=in_width)
    tl.store(gradients + channels + cols, dbeta, mask=in_width)
    tl.store(factors + cols, b, mask=in_width)
    tl.store(factors + channels + cols, -a * dbeta / rows_in_all - b * mean, mask=in_width)


@triton.jit
def backward(
    x,
    dy,
    dx,
    constants,
    factors,
    rows_out,
    channels,
    height: tl.constexpr,
    width: tl.constexpr,
    relu: tl.constexpr,
    slope: tl.constexpr,
    pool: tl.constexpr,
    block_rows: tl.constexpr,
    block_cols: tl.constexpr,
):
    """``dx = a·dz + b·x + c``, where dz reaches the one pixel of four that was taken."""
    cols = (tl.program_id(1) * block_cols + tl.arange(0, block_cols))[None, :]
    in_width = cols < channels
    scale = tl.load(constants + cols, mask=in_width, other=0.0)
    shift = tl.load(constants + channels + cols, mask=in_width, other=0.0)
    b = tl.load(factors + cols, mask=in_width, other=0.0)
    c = tl.load(factors + channels + cols, mask=in_width, other=0.0)
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    valid = (rows < rows_out)[:, None] & in_width
    place = rows[:, None] * channels + cols
    dz = tl.load(dy + place, mask=valid, other=0.0).to(tl.float32)
    if pool:
        base = first_pixel(rows, height, width)
        _, z, which = best_of_four(x, base, width, cols, channels, valid, scale, shift)
        if relu:
            dz = tl.where(z > 0, dz, slope * dz)
        for k in tl.static_range(4):
            corner = (base + (k // 2) * width + (k % 2))[:, None] * channels + cols
            value = tl.load(x + corner, mask=valid, other=0.0).to(tl.float32)
            change = tl.where(which == k, scale * dz, 0.0) + b * value + c
            tl.store(dx + corner, change.to(dx.dtype.element_ty), mask=valid)
    else:
        value = tl.load(x + place, mask=valid, other=0.0).to(tl.float32)
        if relu:
            dz = tl.where(value * scale + shift > 0, dz, slope * dz)
        tl.store(dx + place, (scale * dz + b * value + c).to(dx.dtype.element_ty), mask=valid)


@triton.jit
def unfold(
    images, columns, rows_in_all, channels, height, width, wide: tl.constexpr, block_rows: tl.constexpr
):
    """The 3x3 neighbourhood of each pixel as a row, zeros outside the image and after the last channel."""
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    cols = tl.arange(0, wide)
    place = cols // channels
    down = (rows // width) % height
    down = down[:, None] + (place // 3 - 1)[None, :]
    right = (rows % width)[:, None] + (place % 3 - 1)[None, :]
    first = rows - rows % (height * width)
    inside = (down >= 0) & (down < height) & (right >= 0) & (right < width)
    inside = inside & (rows < rows_in_all)[:, None] & (place < 9)[None, :]
    source = (first[:, None] + down * width + right) * channels + (cols % channels)[None, :]
    value = tl.load(images + source, mask=inside, other=0.0)
    tl.store(columns + rows[:, None] * wide + cols[None, :], value, mask=(rows < rows_in_all)[:, None])


@triton.jit
def note_addresses(table, first, a, b, c, d, e, f, g, h):
    """Write down where eight gradients lie; a graph of kernels has no other way to be told."""
    tl.store(table + first, a)
    tl.store(table + first + 1, b)
    tl.store(table + first + 2, c)
    tl.store(table + first + 3, d)
    tl.store(table + first + 4, e)
    tl.store(table + first + 5, f)
    tl.store(table + first + 6, g)
    tl.store(table + first + 7, h)


@triton.jit
def gradient_of(
    weights,
    halves,
    addresses,
    places,
    fulls,
    which,
    half_blocks,
    with_gradient,
    l1,
    block: tl.constexpr,
):
    """Weights of a block, and their gradient with L1's part: of those in half precision, of the others, or none."""
    at = which * block + tl.arange(0, block)
    w = tl.load(weights + at)
    if which < half_blocks:
        # Triton must be told what it may rely on; otherwise it reads one element at a time.
        address = tl.multiple_of(tl.load(addresses + tl.load(places + 3 * which)), 16)
        source = tl.multiple_of(address.to(tl.pointer_type(halves.dtype.element_ty)), 16)
        in_place = tl.multiple_of(tl.load(places + 3 * which + 1), 16) + tl.arange(0, block)
        filled = in_place < tl.multiple_of(tl.load(places + 3 * which + 2), 16)
        g = tl.load(source + in_place, mask=filled, other=0.0).to(tl.float32)
    else:
        g = tl.load(fulls + (at - half_blocks * block), mask=at < with_gradient, other=0.0)
    return at, w, g + l1 * ((w > 0).to(tl.float32) - (w < 0).to(tl.float32))


@triton.jit
def sum_of_squares(
    weights,
    halves,
    addresses,
    places,
    fulls,
    partial,
    blocks,
    half_blocks,
    with_gradient,
    l1,
    share: tl.constexpr,
    block: tl.constexpr,
):
    """Sum of squares of the gradient with its regulariser, by shares of some blocks."""
    squares = tl.zeros((block,), tl.float32)
    first = tl.program_id(0) * share
    for which in range(first, tl.minimum(first + share, blocks)):
        _, _, g = gradient_of(
            weights, halves, addresses, places, fulls, which, half_blocks, with_gradient, l1, block
        )
        squares += g * g
    tl.store(partial + tl.program_id(0), tl.sum(squares, 0))


@triton.jit
def norm_of(partial, norm_out, count, block: tl.constexpr):
    """Root of the sum of the shares' sums."""
    squares = tl.zeros((block,), tl.float32)
    for start in range(0, count, block):
        each = start + tl.arange(0, block)
        squares += tl.load(partial + each, mask=each < count, other=0.0)
    tl.store(norm_out, tl.sqrt(tl.sum(squares, 0)))


@triton.jit
def clipped_sgd(
    weights,
    momenta,
    halves,
    addresses,
    places,
    fulls,
    norm,
    rate,
    half_blocks,
    with_gradient,
    l1,
    decay,
    momentum,
    limit,
    nesterov: tl.constexpr,
    has_halves: tl.constexpr,
    block: tl.constexpr,
):
    """Clip and step; weights that are computed with in half precision are written in it too."""
    which = tl.program_id(0)
    at, w, g = gradient_of(
        weights, halves, addresses, places, fulls, which, half_blocks, with_gradient, l1, block
    )
    m = tl.load(momenta + at)
    g = g * tl.minimum(limit / (tl.load(norm) + 1e-6), 1.0) + decay * w
    m = momentum * m + g
    tl.store(momenta + at, m)
    if nesterov:
        m = g + momentum * m
    w -= tl.load(rate) * m
    tl.store(weights + at, w)
    if has_halves:
        tl.store(halves + at, w.to(halves.dtype.element_ty), mask=at < half_blocks * block)


@triton.jit
def clipped_adam(
    weights,
    means,
    squares,
    halves,
    addresses,
    places,
    fulls,
    norm,
    rate,
    steps,
    half_blocks,
    with_gradient,
    l1,
    decay,
    beta1,
    beta2,
    eps,
    limit,
    has_halves: tl.constexpr,
    block: tl.constexpr,
):
    """Clip and step, as torch's Adam does; ``steps`` counts this one already."""
    which = tl.program_id(0)
    at, w, g = gradient_of(
        weights, halves, addresses, places, fulls, which, half_blocks, with_gradient, l1, block
    )
    g = g * tl.minimum(limit / (tl.load(norm) + 1e-6), 1.0) + decay * w
    m = tl.load(means + at)
    m += (1 - beta1) * (g - m)
    v = beta2 * tl.load(squares + at) + (1 - beta2) * g * g
    tl.store(means + at, m)
    tl.store(squares + at, v)
    step = tl.load(steps)
    first = 1 - tl.exp2(step * tl.log2(beta1))
    second = 1 - tl.exp2(step * tl.log2(beta2))
    w -= tl.load(rate) / first * m / (tl.sqrt(v) / tl.sqrt(second) + eps)
    tl.store(weights + at, w)
    if has_halves:
        tl.store(halves + at, w.to(halves.dtype.element_ty), mask=at < half_blocks * block)
