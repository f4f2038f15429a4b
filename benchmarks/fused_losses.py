# SPDX-License-Identifier: Apache-2.0
"""Time and memory of the fused losses on a GPU, forward and backward, against their peers.

The peers are torch's cross-entropy, eager and compiled; our own formulas without the kernels, eager and compiled;
and ANL-CE as published code writes it, with softmax, clamp, one-hot and sums as separate operations. Every loss is
first compared with a float64 evaluation of part of the batch.

"ms" is the time on the GPU, measured with a CUDA graph so that the host's work does not hide it; "eager ms" is the
same call made from Python, one after another. The floor is the time to read the logits and write their gradient
once, at the bandwidth of a copy.

    python benchmarks/fused_losses.py --out docs/performance/losses.json
    python benchmarks/fused_losses.py --shapes 65536x1000:float32 --losses anl-ce
    python benchmarks/fused_losses.py --tiles          the kernel alone, in every form worth considering
"""

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import harness
from noiseproof import losses
from noiseproof.losses.evaluate import evaluate_plainly
from noiseproof.losses.fused import InplaceGradient, fused_linear, launch
from noiseproof.losses.fused.launch import Tile
from noiseproof.losses.fused.plan import plan_of

Loss = Callable[[Tensor, Tensor], Tensor]
SHAPES = ("65536x1000:float32", "8192x131072:bfloat16", "64x21x256x256:bfloat16")
SMALL_SHAPES = ("128x10:float32", "4096x100:bfloat16", "16x2x256x256:bfloat16", "8192x32000:bfloat16")
LOSSES = ("ce", "gce", "mae", "sce", "nce+rce", "nce+agce", "anl-ce", "anl-fl", "anl-ce*", "jal-ce", "jal-fl")
A = -math.log(1e-7)


def published_anl_ce(logits: Tensor, target: Tensor, alpha: float = 5.0, beta: float = 5.0) -> Tensor:
    """ANL-CE as published code has it: two losses, each with its own softmax and one-hot labels."""
    classes = logits.shape[1]
    log_p = F.log_softmax(logits.float(), dim=1)
    one_hot = torch.movedim(F.one_hot(target, classes), -1, 1).to(log_p)
    nce = (-1 * (one_hot * log_p).sum(1)) / (-log_p.sum(1))
    p = F.softmax(logits.float(), dim=1).clamp(min=1e-7, max=1)
    flipped = A + torch.log(p)
    one_hot = torch.movedim(F.one_hot(target, classes), -1, 1).to(flipped)
    nnce = 1 - (one_hot * flipped).sum(1) / flipped.sum(1)
    return alpha * nce.mean() + beta * nnce.mean()


def step(loss: Loss, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    value = loss(logits, target)
    (gradient,) = torch.autograd.grad(value, logits)
    return value.detach(), gradient


def inplace_step(loss: InplaceGradient, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Overwrite the logits; after the first repetition they are gradients, which take just as long to read."""
    value = loss(logits.view(logits.shape), target)  # a view is no leaf, and no copy either
    (gradient,) = torch.autograd.grad(value, logits)
    return value.detach(), gradient


def make_batch(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    logits = torch.empty(shape, dtype=dtype, device="cuda").normal_(0, 3)
    target = torch.randint(shape[1], (shape[0], *shape[2:]), device="cuda")
    return logits.requires_grad_(), target


def error_against_float64(loss: Loss, name: str, logits: Tensor, target: Tensor, roundings: int = 1) -> float:
    """Relative error of the gradient on the first rows; fail if it, or the value's, is more than rounding."""
    rows = max(2, min(len(logits), 2_000_000 // logits[0].numel()))
    part, labels = logits.detach()[:rows].clone().requires_grad_(), target[:rows]
    value, gradient = step(loss, part, labels)
    exact_part = part.detach().double().requires_grad_()
    exact, exact_gradient = step(
        lambda z, y: evaluate_plainly(losses.create(name).term, z, y), exact_part, labels
    )
    value_error = float((value.double() - exact).abs() / exact.abs())
    gradient_error = float((gradient.double() - exact_gradient).norm() / exact_gradient.norm())
    rounding = max(1e-5, torch.finfo(logits.dtype).eps)
    value_rounding = max(1e-5, torch.finfo(value.dtype).eps)  # torch's own is in the logits' precision
    if not (value_error < roundings * value_rounding and gradient_error < roundings * rounding):
        raise AssertionError(f"{name}: value off by {value_error:.1e}, gradient by {gradient_error:.1e}")
    return gradient_error


class Table:
    """Measurements of one shape."""

    def __init__(self, shape_name: str, bandwidth: float, budget: float) -> None:
        sizes, dtype = shape_name.split(":")
        self.shape = tuple(int(size) for size in sizes.split("x"))
        self.logits, self.target = make_batch(self.shape, getattr(torch, dtype))
        self.bytes = self.logits.numel() * self.logits.element_size()
        self.floor = 2 * self.bytes / bandwidth * 1e3
        self.group = f"({', '.join(map(str, self.shape))}) {dtype}"
        self.budget = budget
        self.rows: list[harness.Measurement] = []

    def add(
        self,
        name: str,
        loss: Loss,
        checked_as: str | None = None,
        inplace: bool = False,
        roundings: int = 1,
    ) -> None:
        torch.cuda.empty_cache()
        error = None
        if checked_as is not None:
            error = error_against_float64(loss, checked_as, self.logits, self.target, roundings)
        take = inplace_step if inplace else step
        logits = self.logits.detach().clone().requires_grad_() if inplace else self.logits
        run = lambda: take(loss, logits, self.target)  # noqa: E731
        memory = harness.extra_memory(run)
        eager, _, _ = harness.timed(run, "cuda", self.budget)
        milliseconds, spread, repetitions = harness.timed(harness.captured(run), "cuda", self.budget)
        notes = {"eager_ms": eager, "gradient_error": error}
        row = harness.Measurement(
            self.group, name, milliseconds, spread, repetitions, self.floor, memory, self.bytes, notes
        )
        self.rows.append(row)
        print(
            f"{self.group:34} {name:32} {milliseconds:8.4f} ms ± {spread:.4f}, eager {eager:8.4f}, "
            f"{milliseconds / self.floor:5.2f} × floor, memory {memory / self.bytes:.3f} × logits",
            flush=True,
        )


def compiled(loss: Loss) -> Loss:
    return torch.compile(loss, fullgraph=True, dynamic=False)


def plain(name: str) -> Loss:
    term = losses.create(name).term
    return lambda z, y: evaluate_plainly(term, z, y)


def measure_shape(
    shape: str, names: list[str], bandwidth: float, budget: float, peers: bool
) -> list[harness.Measurement]:
    torch.compiler.reset()  # what was compiled for other shapes counts towards a limit
    table = Table(shape, bandwidth, budget)
    for name in names:
        loss = losses.create(name).cuda()
        table.add(f"{name}", loss, name)
        table.add(f"{name}, gradient in place", InplaceGradient(loss), inplace=True)
    if peers:
        table.add("anl-ce, compiled, fused", compiled(losses.create("anl-ce")), "anl-ce")
        # torch's own rounds each pixel's loss and their mean to the logits' precision
        table.add("torch's cross-entropy", F.cross_entropy, "ce", roundings=2)
        table.add("torch's cross-entropy, compiled", compiled(F.cross_entropy), "ce", roundings=2)
        table.add("anl-ce, not fused", plain("anl-ce"), "anl-ce")
        table.add("anl-ce, not fused, compiled", compiled(plain("anl-ce")), "anl-ce")
        table.add("anl-ce as published", published_anl_ce, "anl-ce")
    return table.rows


def measure_linear(rows: int, features: int, classes: int, budget: float) -> list[harness.Measurement]:
    """The last linear layer and the loss, in pieces and as a whole."""
    hidden = torch.randn(rows, features, dtype=torch.bfloat16, device="cuda", requires_grad=True)
    weight = torch.randn(classes, features, dtype=torch.bfloat16, device="cuda").mul_(0.05).requires_grad_()
    target = torch.randint(classes, (rows,), device="cuda")
    loss = losses.create("anl-ce").cuda()
    ways: dict[str, Callable[[], Tensor]] = {
        "in pieces (fused_linear)": lambda: fused_linear(loss, hidden, weight, None, target),
        "as a whole, fused loss": lambda: loss(F.linear(hidden, weight), target),
        "as a whole, torch's cross-entropy": lambda: F.cross_entropy(F.linear(hidden, weight), target),
    }
    size = rows * classes * 2
    group = f"linear layer and loss, ({rows}, {features}) → {classes}, bfloat16"
    found = []
    for name, way in ways.items():
        run = lambda way=way: torch.autograd.grad(way(), (hidden, weight))  # noqa: E731
        memory = harness.extra_memory(run)
        milliseconds, spread, repetitions = harness.timed(run, "cuda", budget)
        found.append(harness.Measurement(group, name, milliseconds, spread, repetitions, None, memory, size))
        print(f"{group} {name:32} {milliseconds:8.3f} ms, memory {memory / size:.3f} × logits", flush=True)
    return found


TILES = {
    "65536x1000:float32": [Tile("tiled", p, 1024, warps=w) for p, w in ((1, 1), (1, 2), (2, 1), (2, 2))],
    "524288x100:float32": [Tile("tiled", p, 128, warps=1) for p in (1, 2, 4, 8)],
    "1048576x10:float32": [Tile("tiled", 64, 16, warps=1)]
    + [Tile("threaded", p, warps=w) for p, w in ((32, 1), (128, 4), (256, 8))],
    "32768x4096:bfloat16": [Tile("tiled", 1, 4096, warps=2), Tile("streamed", 1, 512, 8, 16, True)],
    "8192x16384:bfloat16": [Tile("streamed", 1, 512, 8, 16, again) for again in (False, True)],
    "8192x131072:bfloat16": [
        Tile("streamed", 1, 1024, unroll, 32, again) for unroll in (8, 16) for again in (False, True)
    ],
    "64x21x256x256:bfloat16": [Tile("streamed", 256, warps=4)]
    + [Tile("threaded", p, warps=w) for p, w in ((64, 1), (128, 2), (256, 4), (512, 8), (512, 4))],
    "16x150x256x256:bfloat16": [
        Tile("streamed", p, warps=w) for p, w in ((128, 2), (256, 4), (512, 4), (512, 8))
    ],
}


def measure_tiles(loss: str, bandwidth: float, budget: float) -> list[harness.Measurement]:
    """The kernel alone, for each way a program can hold the classes; the first is the reference."""
    found = []
    for shape_name, tiles in TILES.items():
        table = Table(shape_name, bandwidth, budget)
        logits, target = table.logits.detach(), table.target
        plan = plan_of(losses.create(loss).term, logits.shape[1])
        totals = launch.label_totals(target, None, logits.shape[1], -100)
        kernel = partial(launch.softmax_loss, plan, logits, target, None, -100, reduction="mean", loss=True)
        gradient, first = torch.empty_like(logits), None
        for tile in tiles:
            run = partial(kernel, gradient=gradient, totals=totals, tile=tile)
            gradient.fill_(torch.nan)
            run()
            first = gradient.clone() if first is None else first
            error = float((gradient.float() - first.float()).norm() / first.float().norm())
            if not error < 1e-2:
                raise AssertionError(f"{shape_name} {tile}: gradient off by {error:.1e}")
            milliseconds, spread, repetitions = harness.timed(run, "cuda", budget)
            group, name = f"{table.group}, kernel alone", str(tuple(tile))
            found.append(harness.Measurement(group, name, milliseconds, spread, repetitions, table.floor))
            chosen = "chosen" if tile == launch.tile_of(launch.layout_of(logits)) else ""
            print(f"{group:48} {name:48} {milliseconds:8.4f} ms {chosen}", flush=True)
        del table, logits, target, gradient, first, kernel, run
        torch.cuda.empty_cache()
    return found


TEXT = """\
Forward and backward pass of each loss, as in training. Rows are our fused kernels, except those of torch's
cross-entropy and those marked "not fused" or "as published". "ms" is time on the GPU, replayed from a CUDA graph;
"eager ms" is the same call made from Python. The cache is flushed before every repetition. The floor is the time to
read the logits and write their gradient once, at the bandwidth of a copy on the same machine. Extra memory is the
peak beyond the logits, so 1 means a gradient and nothing else. The gradient error is measured against float64, on
the first rows."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--shapes", default=",".join(SHAPES), help="such as 65536x1000:float32, comma-separated"
    )
    parser.add_argument("--small-shapes", default=",".join(SMALL_SHAPES), help="ANL-CE and its peers only")
    parser.add_argument("--losses", default=",".join(LOSSES), help="losses, comma-separated")
    parser.add_argument("--budget", type=float, default=0.05, help="seconds per measurement")
    parser.add_argument("--no-peers", action="store_true", help="our own losses only")
    parser.add_argument("--tiles", action="store_true", help="time the kernel alone, and nothing else")
    parser.add_argument("--out", type=Path, help="write the record here, as JSON")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    described = harness.machine("cuda")
    bandwidth = described["copy_terabytes_per_second"] * 1e12
    title = "Fused losses: time and memory on a GPU"
    record = harness.Record("fused_losses", title, TEXT, described, [], harness.now())

    def keep(rows: list[harness.Measurement]) -> None:
        record.measurements.extend(rows)
        if arguments.out:
            record.save(arguments.out)

    if arguments.tiles:
        keep(measure_tiles("anl-ce", bandwidth, arguments.budget))
        return
    peers = not arguments.no_peers
    for shape in filter(None, arguments.shapes.split(",")):
        keep(measure_shape(shape, arguments.losses.split(","), bandwidth, arguments.budget, peers))
    for shape in filter(None, arguments.small_shapes.split(",")):
        keep(measure_shape(shape, ["anl-ce"], bandwidth, arguments.budget, peers))
    keep(measure_linear(8192, 4096, 131_072, arguments.budget))


if __name__ == "__main__":
    main()
