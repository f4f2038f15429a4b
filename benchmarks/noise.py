# SPDX-License-Identifier: Apache-2.0
"""Label noise against the plain loops it replaces, and against one pass of NumPy's own generator.

Outputs are compared before anything is timed: a fast way to different labels is worth nothing. The two sides of a
ratio take turns, and the best run of each counts, so that other load on the machine affects both equally.

    python benchmarks/noise.py                  everything, a few minutes
    python benchmarks/noise.py --only symmetric
    python benchmarks/noise.py --out docs/benchmarks/noise.md

CIFAR-10 is read from the cache (``noiseproof data get cifar10``); without it, random bytes of its size are used.
"""

import argparse
import os
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.noise import reference

from noiseproof import datasets, noise
from noiseproof.noise import mask_shapes, masks
from noiseproof.noise.randomness import uniforms, word_source

NUM_LABELS = 10_000_000
NUM_MASKS = 2_000
MASK_SIZE = 256


def best_times(repeats: int, *sides: Callable[[], Any]) -> list[float]:
    """Seconds of each side's best run; the sides take turns."""
    best = [float("inf")] * len(sides)
    for _ in range(repeats):
        for position, side in enumerate(sides):
            start = time.perf_counter()
            side()
            best[position] = min(best[position], time.perf_counter() - start)
    return best


def peak_memory(work: Callable[[], Any]) -> float:
    """Bytes allocated at the highest point beyond what was there before."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


def cifar10() -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    try:
        data = datasets.load("cifar10", split="train")
        return np.ascontiguousarray(data.images), data.labels, "CIFAR-10"
    except datasets.DataError:
        random = np.random.RandomState(0)
        images = random.randint(0, 256, (50_000, 32, 32, 3), dtype=np.uint8)
        return images, random.permutation(np.arange(10).repeat(5_000)), "random bytes of CIFAR-10's size"


def instance_dependent(repeats: int) -> list[str]:
    images, labels, source = cifar10()
    lines = [
        f"## Instance-dependent noise (`pdn`), 50,000 images ({source})",
        "",
        "| rate | per-sample loop | ours | times faster | labels that differ | peak extra memory |",
        "|---|---|---|---|---|---|",
    ]
    for rate in (0.2, 0.4):

        def ours(rate: float = rate) -> NDArray[np.int64]:
            return noise.instance_dependent(images, labels, rate, 10, seed=0).labels

        def loop(rate: float = rate) -> NDArray[np.int64]:
            return reference.part_dependent(images, labels, rate, 10, 0)

        differing = int(np.count_nonzero(ours() != loop()))
        if differing:
            raise SystemExit(f"pdn at rate {rate} differs from the loop in {differing} labels")
        slow, fast = best_times(repeats, loop, ours)
        memory = peak_memory(ours) / 1e6
        ratio = f"**{slow / fast:.1f}**"
        lines.append(f"| {rate} | {slow:.2f} s | {fast:.3f} s | {ratio} | {differing} | {memory:.0f} MB |")
    return lines


def symmetric(repeats: int) -> list[str]:
    small = np.random.RandomState(0).permutation(np.arange(10).repeat(5_000))
    published = reference.published_exact(small, noise.symmetric_transition(0.8, 10), 1)
    if not np.array_equal(noise.symmetric(small, 0.8, 10, 1).labels, published):
        raise SystemExit("exact differs from the published draw")
    labels = np.random.RandomState(0).randint(0, 10, NUM_LABELS)
    sizes = np.bincount(labels)
    for generator in ("exact-published", "exact-fast"):
        counts = noise.symmetric(labels, 0.8, 10, 1, generator).counts
        floors = np.floor(0.8 / 9 * sizes).astype(int)
        if any(
            counts[row, column] != floors[row] for row in range(10) for column in range(10) if row != column
        ):
            raise SystemExit(f"{generator} does not hold its counts")
    random = np.random.default_rng(0)
    generators = ("exact", "bernoulli", "redraw-over-all-classes", "exact-published")
    one_pass, *times = best_times(
        repeats,
        lambda: random.random(NUM_LABELS),
        *(lambda g=g: noise.symmetric(labels, 0.8, 10, 1, generator=g) for g in generators),
    )
    lines = [
        f"## Symmetric noise, {NUM_LABELS:,} labels, 10 classes, rate 0.8",
        "",
        f"One pass of NumPy's generator (`default_rng().random`, as many numbers): {one_pass:.3f} s.",
        "",
        "| generator | seconds | million labels a second | passes of NumPy's generator |",
        "|---|---|---|---|",
    ]
    for generator, seconds in zip(generators, times, strict=True):
        name = f"{generator} (= exact-fast at this size)" if generator == "exact" else generator
        speed = NUM_LABELS / seconds / 1e6
        lines.append(f"| {name} | {seconds:.3f} | **{speed:.1f}** | {seconds / one_pass:.1f} |")
    return lines


def lesion_like_masks() -> NDArray[np.bool_]:
    """Unions of ellipses, from a few percent to half of the frame."""
    random = np.random.RandomState(0)
    down, right = np.indices((MASK_SIZE, MASK_SIZE))
    shapes = np.zeros((NUM_MASKS, MASK_SIZE, MASK_SIZE), dtype=bool)
    for shape in shapes:
        for _ in range(3):
            row, column = random.uniform(90, 166, 2)
            height, width = random.uniform(18, 62, 2)
            shape |= ((down - row) / height) ** 2 + ((right - column) / width) ** 2 <= 1
    return shapes


def corrupted_by_loops(
    clean: NDArray[np.bool_], strength: float, kinds: Sequence[int], seed: int
) -> list[Any]:
    """Every mask, with the numbers that ``corrupt_masks`` draws, by the one-pixel-at-a-time loops."""
    numbers = uniforms(word_source(seed), masks.NUMBERS_PER_MASK * len(clean)).reshape(len(clean), -1)
    wrong = []
    for mask, kind, (_, _, turn, way) in zip(clean, kinds, numbers, strict=True):
        if masks.KINDS[kind] == "erode":
            wrong.append(reference.eroded(mask, strength))
        elif masks.KINDS[kind] == "dilate":
            wrong.append(reference.dilated(mask, strength))
        else:
            rotation = (2 * turn - 1) * masks.LARGEST_ROTATION
            wrong.append(reference.displaced(mask, strength, rotation, 2 * np.pi * way))
    return wrong


def mask_corruption(repeats: int) -> list[str]:
    clean = lesion_like_masks()
    ours = noise.corrupt_masks(clean, share=1.0, strength=0.7, seed=1)
    loops = corrupted_by_loops(clean, 0.7, ours.kinds, 1)
    same = np.array([np.array_equal(mask, loop) for mask, loop in zip(ours.masks, loops, strict=True)])
    differing = int((~same).sum())
    pixel_step = ours.kinds != masks.KINDS.index("affine")
    if not same[pixel_step].all():
        raise SystemExit(f"{int((~same[pixel_step]).sum())} eroded or dilated masks differ from the loops")
    slow, fast = best_times(
        max(1, repeats // 2),
        lambda: corrupted_by_loops(clean, 0.7, ours.kinds, 1),
        lambda: noise.corrupt_masks(clean, share=1.0, strength=0.7, seed=1),
    )
    lines = [
        f"## Mask corruption, {NUM_MASKS:,} masks of {MASK_SIZE}², all corrupted, strength 0.7",
        "",
        "| kind | masks | one pixel at a time | ours | times faster | masks that differ |",
        "|---|---|---|---|---|---|",
        f"| all | {NUM_MASKS:,} | {slow:.1f} s | {fast:.2f} s | **{slow / fast:.1f}** | {differing} |",
    ]
    some = clean[:200]
    for kind, shape, loop in (
        ("erode", lambda m: mask_shapes.eroded(m, 0.7), lambda m: reference.eroded(m, 0.7)),
        ("dilate", lambda m: mask_shapes.dilated(m, 0.7), lambda m: reference.dilated(m, 0.7)),
        (
            "affine",
            lambda m: mask_shapes.displaced(m, 0.7, 0.3, 2.0),
            lambda m: reference.displaced(m, 0.7, 0.3, 2.0),
        ),
    ):
        differ = sum(not np.array_equal(shape(m), loop(m)) for m in some)
        slow, fast = best_times(
            repeats, lambda loop=loop: list(map(loop, some)), lambda shape=shape: list(map(shape, some))
        )
        ratio = f"{slow / fast:.1f}"
        lines.append(f"| {kind} | {len(some)} | {slow:.2f} s | {fast:.3f} s | {ratio} | {differ} |")
    return lines


def machine() -> str:
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        named = [
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
        ]
        model = named[0].split(":", 1)[1].strip() if named else model
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}"
    )


SECTIONS = {"instance-dependent": instance_dependent, "symmetric": symmetric, "masks": mask_corruption}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=SECTIONS, help="one section instead of all")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side; the best counts")
    parser.add_argument("--out", type=Path, help="write the Markdown to this file as well")
    arguments = parser.parse_args()
    lines = [
        "# Label noise: benchmarks",
        "",
        f"{machine()}. Best of {arguments.repeats} runs, the two sides taking turns.",
        "",
    ]
    for name, section in SECTIONS.items():
        if arguments.only in (None, name):
            lines += [*section(arguments.repeats), ""]
    text = "\n".join(lines)
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
