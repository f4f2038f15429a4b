"""How much of what its workers can decode does the streaming loader deliver?

    python benchmarks/loader.py                     # 1,024 made JPEG files of 375x500
    python benchmarks/loader.py --folder PICTURES   # your own

The reference is the workers alone: as many processes, each decoding its share of the same files in a plain
loop and throwing the pixels away, started together and timed from the first to the last. The loader
decodes the same files and hands every batch to a consumer that does nothing. Before anything is timed, the
loader's batches are compared with plain decoding, byte for byte. Trials alternate; ratios are of each pair.
"""

import argparse
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from pathlib import Path

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


def plain_loop(paths: list[Path], fit: Fit, start, done) -> None:
    start.wait()
    for number, path in enumerate(paths):
        fit.read(path, random_for(0, 0, number))
    done.put(time.perf_counter())


def workers_alone(paths: list[Path], fit: Fit, num_workers: int) -> float:
    """Pictures a second of plain loops in ``num_workers`` processes."""
    start, done = multiprocessing.Event(), multiprocessing.SimpleQueue()
    shares = [paths[number::num_workers] for number in range(num_workers)]
    processes = [
        multiprocessing.Process(target=plain_loop, args=(share, fit, start, done)) for share in shares
    ]
    for process in processes:
        process.start()
    time.sleep(0.3)
    begun = time.perf_counter()
    start.set()
    ended = max(done.get() for _ in processes)
    for process in processes:
        process.join()
    return len(paths) / (ended - begun)


def through_loader(loader: StreamingLoader) -> float:
    """Pictures a second of one epoch, workers already started."""
    begun = time.perf_counter()
    delivered = sum(len(batch.indices) for batch in loader)
    return delivered / (time.perf_counter() - begun)


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
    parser.add_argument("--folder", type=Path, help="pictures to decode (default: made ones)")
    parser.add_argument("--pictures", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--trials", type=int, default=5)
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
    print("| fit | workers alone, pictures/s | loader, pictures/s | ratio (median) | lowest | highest |")
    print("|---|---|---|---|---|---|")
    for fit in (CentreAfterResize(256, 224), RandomWindow(224)):
        with StreamingLoader(data, fit, settings.batch_size, num_workers=settings.workers) as loader:
            compare_outputs(data, fit, loader)
            pairs = [
                (workers_alone(paths, fit, settings.workers), through_loader(loader))
                for _ in range(settings.trials)
            ]
        ratios = sorted(delivered / alone for alone, delivered in pairs)
        alone, delivered = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"| {type(fit).__name__} | {alone:.0f} | {delivered:.0f} | {statistics.median(ratios):.3f} "
            f"| {ratios[0]:.3f} | {ratios[-1]:.3f} |"
        )


if __name__ == "__main__":
    main()
