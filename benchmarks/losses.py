# SPDX-License-Identifier: Apache-2.0
"""Time and memory of every loss against torch's cross-entropy, forward and backward, on the same logits.

Every loss is first compared with a plain float64 evaluation of the same formula: a benchmark of wrong results is
worth nothing. Times are the best of several repetitions; memory is the peak beyond logits and gradient, in units of
the logits' size.

    python benchmarks/losses.py                          every loss, every shape, eager
    python benchmarks/losses.py --compiled               the same under torch.compile
    python benchmarks/losses.py --only anl-ce,nce+rce --shapes 65536x1000
    python benchmarks/losses.py --device cuda --out docs/benchmarks/losses-cuda.md
"""

import argparse
import os
import platform
import resource
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from noiseproof import losses

SHAPES = ("128x10", "4096x10", "65536x1000", "16x2x256x256")
PEER = "torch.nn.functional.cross_entropy"


def make_batch(shape: tuple[int, ...], device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(shape, generator=generator)
    target = torch.randint(shape[1], (shape[0], *shape[2:]), generator=generator)
    return logits.to(device), target.to(device)


def step(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    leaf = logits.detach().requires_grad_()
    value = loss(leaf, target)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value, gradient


def compare_with_float64(name: str, loss: Callable[..., Tensor], logits: Tensor, target: Tensor) -> None:
    """Fail unless value and gradient agree with the same formula in float64, on a part of the batch."""
    rows = max(2, min(len(logits), 200_000 // logits[0].numel()))
    logits, target = logits[:rows], target[:rows]
    value, gradient = step(loss, logits, target)
    exact, exact_gradient = step(losses.create(name), logits.double().cpu(), target.cpu())
    torch.testing.assert_close(value.cpu().double(), exact, rtol=3e-5, atol=1e-6)
    scale = exact_gradient.abs().max()
    torch.testing.assert_close(gradient.cpu().double(), exact_gradient, rtol=1e-3, atol=3e-5 * float(scale))


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def seconds_in_turn(runs: list[Callable[[], object]], device: str, budget: float) -> list[float]:
    """Best time of each run. They take turns, so that whatever else the machine does meets all of them."""
    times: list[list[float]] = [[] for _ in runs]
    started = time.perf_counter()
    while len(times[0]) < 6 or time.perf_counter() - started < budget:
        for run, taken in zip(runs, times, strict=True):
            synchronize(device)
            before = time.perf_counter()
            run()
            synchronize(device)
            taken.append(time.perf_counter() - before)
    return [min(taken[1:]) if device == "cpu" else statistics.median(taken[1:]) for taken in times]


class PeakOfProcess:
    """Largest resident memory of this process while inside, sampled every half millisecond."""

    def __enter__(self) -> "PeakOfProcess":
        self.before = self.peak = self._resident()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watcher.join()

    @property
    def extra(self) -> int:
        return self.peak - self.before

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.peak = max(self.peak, self._resident())
            time.sleep(5e-4)

    @staticmethod
    def _resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize()


def extra_memory(run: Callable[[], object], logits: Tensor, device: str) -> float | None:
    """Peak beyond the logits and their gradient, in tensors of the logits' size; None if too small to see."""
    size = logits.numel() * logits.element_size()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return (torch.cuda.max_memory_allocated() - before) / size - 1
    if size < 50 << 20 or not Path("/proc/self/statm").exists():
        return None
    with PeakOfProcess() as peak:
        run()
    return peak.extra / size - 1


def measure(names: list[str], shape_name: str, device: str, compiled: bool, budget: float) -> list[str]:
    shape = tuple(int(part) for part in shape_name.split("x"))
    logits, target = make_batch(shape, device)
    mode = "compiled" if compiled else "eager"

    def prepared(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return torch.compile(loss, fullgraph=True, dynamic=False) if compiled else loss

    peer = prepared(F.cross_entropy)
    (peer_seconds,) = seconds_in_turn([lambda: step(peer, logits, target)], device, budget)
    peer_memory = extra_memory(lambda: step(peer, logits, target), logits, device)
    rows = [_row(PEER, peer_seconds, peer_seconds, peer_memory)]
    for name in names:
        loss = prepared(losses.create(name).to(device))
        compare_with_float64(name, loss, logits, target)
        both = [lambda: step(peer, logits, target), lambda loss=loss: step(loss, logits, target)]
        peer_seconds, taken = seconds_in_turn(both, device, budget)
        memory = extra_memory(lambda loss=loss: step(loss, logits, target), logits, device)
        rows.append(_row(name, taken, peer_seconds, memory))
        print(rows[-1], flush=True)
    heading = [
        f"\n## {shape_name}, {mode}\n",
        "| loss | ms | × torch's CE | extra memory, × logits |",
        "|---|--:|--:|--:|",
    ]
    return heading + rows


def _row(name: str, taken: float, peer: float, memory: float | None) -> str:
    shown = "–" if memory is None else f"{max(memory, 0.0):.2f}"
    return f"| {name} | {1e3 * taken:.3g} | {taken / peer:.2f} | {shown} |"


def machine(device: str) -> str:
    where = (
        torch.cuda.get_device_name()
        if device == "cuda"
        else f"CPU, {os.cpu_count()} cores, {platform.machine()}"
    )
    threads = torch.get_num_threads()
    return f"{where}; torch {torch.__version__}, {threads} threads, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--compiled", action="store_true", help="under torch.compile")
    parser.add_argument("--only", help="losses, comma-separated")
    parser.add_argument("--shapes", default=",".join(SHAPES), help="shapes such as 4096x10, comma-separated")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds per measurement")
    parser.add_argument("--out", type=Path, help="write the Markdown here too")
    arguments = parser.parse_args()

    names = arguments.only.split(",") if arguments.only else list(losses.available())
    lines = [
        "# Losses against torch's cross-entropy, forward and backward, float32\n",
        "<!-- Written by benchmarks/losses.py from what it measured. -->\n",
        machine(arguments.device),
    ]
    lines.append(
        "\nEach loss was compared with float64 before it was timed. Extra memory is the peak beyond the "
        "logits and their gradient."
    )
    for shape in arguments.shapes.split(","):
        lines += measure(names, shape, arguments.device, arguments.compiled, arguments.budget)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
