# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks share: time, memory, floor, peers, machine, versions; records as JSON, tables as Markdown.

A benchmark compares outputs before it times them, and writes one JSON file of records. The Markdown is made from
these files alone, so a page never states anything that was not measured:

    python benchmarks/harness.py docs/performance/losses.json --out docs/performance-losses.md
"""

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FLUSHED_BYTES = 256 << 20
"""Written between repetitions on a GPU, so that none finds its inputs in the cache: five times an H200's L2."""


@dataclass(frozen=True)
class Measurement:
    """One thing measured in one way.

    Attributes:
        group: the table it belongs to, for instance a shape.
        name: what was measured, as a row of that table.
        milliseconds: median over the repetitions.
        spread: half the distance between the quartiles, in milliseconds; ``None`` if it was not kept.
        repetitions: how many; ``None`` if it was not kept.
        floor_milliseconds: least time the hardware allows, from the bytes that must move.
        extra_bytes: most memory taken beyond what was there before.
        unit_bytes: what memory is compared with in the table, for instance the size of the logits.
        notes: how far the output is from the reference, and the like.
    """

    group: str
    name: str
    milliseconds: float
    spread: float | None
    repetitions: int | None
    floor_milliseconds: float | None = None
    extra_bytes: int | None = None
    unit_bytes: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """Everything that one run of a benchmark found, and where."""

    benchmark: str
    title: str
    text: str
    machine: dict[str, Any]
    measurements: list[Measurement]
    taken: str

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> "Record":
        values = json.loads(path.read_text(encoding="utf-8"))
        values["measurements"] = [Measurement(**each) for each in values["measurements"]]
        return Record(**values)


def now() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def machine(device: str) -> dict[str, Any]:
    """Hardware and versions that the times depend on."""
    import torch

    described: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"CPU, {os.cpu_count()} cores",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        described |= {
            "multiprocessors": properties.multi_processor_count,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "cuda": torch.version.cuda,
            "triton": _version("triton"),
            "copy_terabytes_per_second": round(copy_bandwidth() / 1e12, 2),
        }
    else:
        described["threads"] = torch.get_num_threads()
    return described


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def copy_bandwidth() -> float:
    """Bytes read and written in a second by a large copy on the GPU: the ceiling that floors are made from."""
    import torch

    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda").random_()
    to = torch.empty_like(source)
    milliseconds, *_ = timed(lambda: to.copy_(source), "cuda", budget=0.1)
    return 2 * source.numel() / milliseconds * 1e3


def timed(run: Callable[[], object], device: str, budget: float = 0.2) -> tuple[float, float, int]:
    """Median time of ``run`` in milliseconds, half its quartile distance, and how often it ran.

    On a GPU by events on the device, after the cache was flushed. What the host does counts only where the device
    has to wait for it.
    """
    if device == "cuda":
        return _timed_on_gpu(run, budget)
    taken = []
    started = time.perf_counter()
    while len(taken) < 6 or time.perf_counter() - started < budget:
        before = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - before))
    return _summary(taken[1:])


def _timed_on_gpu(run: Callable[[], object], budget: float) -> tuple[float, float, int]:
    import torch

    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    before = time.perf_counter()
    run()
    torch.cuda.synchronize()
    repetitions = max(11, min(200, int(budget / (time.perf_counter() - before))))
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repetitions)]
    for start, end in pairs:
        flushed.zero_()
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return _summary([start.elapsed_time(end) for start, end in pairs])


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """Return ``run`` as a CUDA graph: what it takes on the GPU alone, with the host out of the way."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()

    def replay() -> object:
        graph.replay()
        return kept

    return replay


def _summary(taken: list[float]) -> tuple[float, float, int]:
    low, middle, high = statistics.quantiles(taken, n=4)
    return middle, (high - low) / 2, len(taken)


def extra_memory(run: Callable[[], object]) -> int:
    """Most GPU memory that ``run`` takes beyond what was allocated before."""
    import torch

    run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = run()
    torch.cuda.synchronize()
    del kept
    return int(torch.cuda.max_memory_allocated() - before)


def to_markdown(record: Record) -> str:
    """One page: what was measured where, and a table for every group."""
    facts = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in record.machine.items())
    source = f"<!-- Written by benchmarks/{record.benchmark}.py and harness.py from what they measured. -->"
    lines = [f"# {record.title}", "", source, "", record.text, "", f"Measured on {record.taken} ({facts})."]
    for group in dict.fromkeys(each.group for each in record.measurements):
        lines += ["", f"## {group}", "", *_table([m for m in record.measurements if m.group == group])]
    return "\n".join(lines) + "\n"


def _table(rows: list[Measurement]) -> list[str]:
    first = rows[0]
    notes = list(dict.fromkeys(name for row in rows for name in row.notes))
    heads = ["", "ms", "±"]
    if first.floor_milliseconds is not None:
        heads.append("× floor")
    if first.unit_bytes is not None:
        heads.append("extra memory, × logits")
    heads += [name.replace("_", " ") for name in notes]
    lines = [_line(heads), _line(["---"] + ["--:"] * (len(heads) - 1))]
    for row in rows:
        cells = [row.name, f"{row.milliseconds:.3g}", _shown(row.spread)]
        if first.floor_milliseconds is not None:
            cells.append(
                "–" if not row.floor_milliseconds else f"{row.milliseconds / row.floor_milliseconds:.2f}"
            )
        if first.unit_bytes is not None:
            measured = row.extra_bytes is not None and row.unit_bytes
            cells.append(f"{row.extra_bytes / row.unit_bytes:.3f}" if measured else "–")
        cells += [_shown(row.notes.get(name)) for name in notes]
        lines.append(_line(cells))
    if first.floor_milliseconds:
        lines += ["", f"Floor: {first.floor_milliseconds:.3g} ms."]
    return lines


def _shown(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("records", nargs="+", type=Path, help="JSON files that a benchmark wrote")
    parser.add_argument("--out", type=Path, help="write the Markdown here instead of printing it")
    arguments = parser.parse_args()
    text = "\n".join(to_markdown(Record.load(path)) for path in arguments.records)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
