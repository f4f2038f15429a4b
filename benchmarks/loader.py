# SPDX-License-Identifier: Apache-2.0
"""How much of what its workers can decode does the streaming loader deliver?

    python benchmarks/loader.py                     # 512 generated JPEG files of 500x375
    python benchmarks/loader.py --folder PICTURES   # your own

The reference is the workers alone: the same number of processes, each decoding its share of the same files in a
plain loop and discarding the pixels, timed from a common start to the end of the last one. The loader decodes the
same files the same number of times and hands every batch to a consumer that does nothing; its time includes
starting and stopping its workers.

Before anything is timed, the loader's batches are compared with plain decoding, byte for byte. The two alternate,
and each ratio is between two consecutive measurements.

When other programs share the machine, the ratio of wall times is noise. The ratio of processor times (all processes
together) is not, and bounds it when the workers keep every core busy.
"""

import argparse
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
import torch
from PIL import Image

from noiseproof.datasets.decode import IMAGE_SUFFIXES, CentreAfterResize, Fit, RandomWindow
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.loader import StreamingLoader
from noiseproof.datasets.loader_workers import random_for


def make_pictures(folder: Path, count: int) -> None:
    """Write photo-like JPEG files: smooth colours and some grain, about 60 KB each."""
    random = np.random.default_rng(0)
    for number in range(count):
        small = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        picture = np.asarray(small.resize((500, 375), Image.Resampling.BICUBIC), dtype=np.int16)
        picture = picture + random.integers(-12, 13, picture.shape, dtype=np.int16)
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(folder / f"{number:05}.jpg", quality=85)


EPOCHS = 6


class Measured(NamedTuple):
    wall_s: float
    processor_s: float


def processor_time() -> float:
    """Seconds of this process and of the children it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def plain_loop(paths: list[Path], numbers: list[int], fit: Fit, start, done) -> None:
    start.wait()
    for epoch in range(EPOCHS):
        for number in numbers:
            fit.read(paths[number], random_for(0, epoch, number))
    done.put(time.perf_counter())


def workers_alone(paths: list[Path], fit: Fit, num_workers: int) -> Measured:
    """Plain loops in ``num_workers`` processes."""
    before = processor_time()
    start, done = multiprocessing.Event(), multiprocessing.SimpleQueue()
    shares = [list(range(number, len(paths), num_workers)) for number in range(num_workers)]
    processes = [
        multiprocessing.Process(target=plain_loop, args=(paths, share, fit, start, done)) for share in shares
    ]
    for process in processes:
        process.start()
    time.sleep(0.2)
    begun = time.perf_counter()
    start.set()
    ended = max(done.get() for _ in processes)
    for process in processes:
        process.join()
    return Measured(ended - begun, processor_time() - before)


def through_loader(data: LabeledData, fit: Fit, batch_size: int, num_workers: int) -> Measured:
    """Some epochs of a new loader, from its making to its closing."""
    before, begun = processor_time(), time.perf_counter()
    with StreamingLoader(data, fit, batch_size, num_workers=num_workers) as loader:
        delivered = sum(len(batch.indices) for _ in range(EPOCHS) for batch in loader)
    assert delivered == EPOCHS * len(data)
    return Measured(time.perf_counter() - begun, processor_time() - before)


def compare_outputs(data: LabeledData, fit: Fit, loader: StreamingLoader) -> None:
    epoch = loader.place.epoch
    seen = 0
    for batch in loader:
        for image, index in zip(batch.images, batch.indices.tolist(), strict=True):
            expected = fit.read(data.paths[index], random_for(loader.seed, epoch, index))
            assert np.array_equal(image.permute(1, 2, 0).numpy(), expected), data.paths[index]
            seen += 1
    assert seen == len(data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="images to decode (default: generated ones)")
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trials", type=int, default=7)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = settings.folder or Path(temporary)
        if settings.folder is None:
            make_pictures(folder, settings.pictures)
        found = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in IMAGE_SUFFIXES]
        paths = found[: settings.pictures]
        measure(paths, settings)


def measure(paths: list[Path], settings: argparse.Namespace) -> None:
    data = LabeledData("bench", "train", np.zeros(len(paths), dtype=np.int64), ("all",), paths=tuple(paths))
    kilobytes = sum(path.stat().st_size for path in paths) / len(paths) / 1000
    print(f"{len(paths)} files of {kilobytes:.0f} KB, batches of {settings.batch_size}, ", end="")
    print(
        f"{settings.workers} workers on {len(os.sched_getaffinity(0))} cores, {settings.trials} trials; ",
        end="",
    )
    print(f"Python {platform.python_version()}, Pillow {PIL.__version__}, torch {torch.__version__}\n")
    print("| fit | workers alone, images/s | loader, images/s | wall ratio | range | processor ratio |")
    print("|---|---|---|---|---|---|")
    for fit in (CentreAfterResize(256, 224), RandomWindow(224)):
        with StreamingLoader(data, fit, settings.batch_size, num_workers=settings.workers) as loader:
            compare_outputs(data, fit, loader)
        pairs = [
            (
                workers_alone(paths, fit, settings.workers),
                through_loader(data, fit, settings.batch_size, settings.workers),
            )
            for _ in range(settings.trials)
        ]
        pictures = EPOCHS * len(paths)
        alone = statistics.median(pictures / reference.wall_s for reference, _ in pairs)
        delivered = statistics.median(pictures / ours.wall_s for _, ours in pairs)
        wall = sorted(reference.wall_s / ours.wall_s for reference, ours in pairs)
        processor = statistics.median(reference.processor_s / ours.processor_s for reference, ours in pairs)
        print(
            f"| {type(fit).__name__} | {alone:.0f} | {delivered:.0f} "
            f"| {statistics.median(wall):.3f} | {wall[0]:.2f} to {wall[-1]:.2f} | {processor:.3f} |"
        )


if __name__ == "__main__":
    main()
