# SPDX-License-Identifier: Apache-2.0
"""Make docs/performance.md from the records beside it: what was measured, and what each idea gained."""

import json
from statistics import mean, stdev, variance

from writers.places import DOCS, RESULTS

INTRODUCTION = """\
# Speed on a GPU

<!-- Generated from docs/performance/training.jsonl by docs/generate.py. -->

[Training](training.md) explains how runs are packed. Everything here was measured on one {device} with torch
{torch}, through the whole engine (evaluation, records and checkpoints included), on random images of the data
set's size and shape:

```
python benchmarks/training.py --recipe cifar10 --packs 1,8
python benchmarks/training.py --recipe cifar100 --packs 1,4
```

Seconds are per run: with eight runs side by side, an eighth of what an epoch of the pack took.

"""

AFTER = """\
## What was learned on the way

* When a step was launched kernel by kernel (3.3 to 4.7 s per epoch), nearly all of the time was the host's. Once
  the step is captured, the kernels are what counts. With `torch.compile`, nearly half of their time went into
  sums over channels-last maps of 64 channels: batch norm's statistics (68 µs per layer), its gradient (115 µs)
  and the gradient of biases that batch norm cancels anyway (88 µs). The fused batch norm needs about 50 µs for
  all of its passes over the largest maps, forward and backward.
* cuDNN's convolutions (8x8 maps, batch 128, forward and backward) take 87 µs with 200 channels, 71 µs with 208
  and 58 µs with 256. So 196 channels are computed as 256, and the added ones stay zero.
* Larger blocks, more warps and more programs made the batch norm kernels slower. Letting cuDNN try all of its
  kernels gained between nothing and 13% for single convolutions.
* Batch norm's passes over large maps run at 3.7 to 4.6 TB/s in a pack, near the memory's limit. Cutting them into
  66 to 264 long-lived programs, to leave processors to the convolutions of other runs, gained between -5% and +1%
  for a pack of eight and up to 2.5% for four ResNets, no more than repeated measurements differ by. Unrolled
  loops gained at most 6% for single kernels. Neither is used.
* More than eight runs in a pack gain nothing: the GPU is full. Eight runs took 0.201 s on four streams and 0.202
  s on eight; on another machine of the same kind, 0.213 and 0.206 s.
* Checkpoints held up large networks. A U-Net for 128 px with Adam writes 200 MB per epoch. When the thread that
  launches steps also packed, hashed and wrote them, an epoch of 0.32 s took 1.05 s. Written by a separate thread,
  which skips a checkpoint when the disk is slower than the epochs, they leave 0.46 s; four ResNet-34 side by side
  (170 MB per epoch each) went from 1.58 s to 1.23 s. Since then a pack copies its state to the host at most every
  ten seconds instead of after every epoch: six to eight U-Nets side by side take 0.245 s per epoch each (seven of
  eight with T-Loss: 0.294 s; eleven: 0.276 s) and one alone 0.33 s, checkpoints included
  (`results/isic-table.jsonl`). The tables above are older.
* Sixteen runs of the 8-layer CNN side by side took 0.203 to 0.217 s per epoch each, in three packs of 120 epochs,
  start-up included (`results/cifar10-table.jsonl`), at 660 W of 700. The GPU was idle for 4 to 6% of that time,
  once per epoch, while the host launched the next epoch's augmentation. Since that work is spread over the
  preceding epoch, on its own stream, three such packs have taken 0.197 s, with the GPU 99 to 100% busy and at 690
  W of 700. Better launching can hardly gain anything more. On another machine of the same kind, packs of 17, 7, 5
  and 4 runs took 0.200 to 0.213 s, 0.194 s, 0.201 s and 0.207 s: four runs already fill the GPU.
* In float32, an epoch of the 8-layer CNN takes 1.46 to 1.65 s (`results/cifar10-precision.jsonl`), of which 1.3 s
  are convolutions at 26 to 42 TFLOP/s. With channels first they would be 5 to 14% faster; with 200 channels
  instead of 196 they are up to 17% slower.
* The ideas tried last (long-lived programs, unrolled loops, streams) each gained less than 3% for a pack.

## What is missing

* The goals of 0.125 s in a pack and 1.0 s for ResNet-34 have not been reached.
* Every row was measured once; measurements that were repeated differed by 2 to 6%.
* Of the 613 GPU tests, eleven failed when the whole set was first run. One was a bug: where a graph is kept for a
  second backward pass, a half-precision gradient was multiplied by a scale that had been rounded to its own
  precision. The others demanded more than float32 can give, or counted what the allocator rounds up. All have
  passed since, with the code of that time. With newer code, all 24 tests of training, segmentation and too little
  memory were run, and the first 50 of the fused losses; with the newest, which fills batches on a separate
  stream, four of training. All passed.
"""

PRECISION = """\
## What bf16 costs

Test accuracy on CIFAR-10 after 120 epochs, with seeds 1, 2 and 3 and the same noise and batches in both
precisions (`noiseproof bench cifar10-precision`, [all runs](reproduce.md)). "Even" means that the means differ by
no more than two standard errors of their difference, or half a point, as everywhere in our reports.

| method | noise | float32 | bf16 | difference | allowed | |
|---|---|--:|--:|--:|--:|---|
"""


def precision_table() -> str:
    """Both precisions of each cell, and whether their means agree; nothing if no such runs are recorded."""
    path = RESULTS / "cifar10-precision.jsonl"
    if not path.is_file():
        return ""
    accuracies: dict[tuple[str, str], dict[str, list[float]]] = {}
    for line in path.read_text().splitlines():
        run = json.loads(line)
        method, precision = run["method"].split()
        cell = accuracies.setdefault((method, run["noise"]), {})
        cell.setdefault(precision, []).append(run["test_accuracy"])
    page = PRECISION
    for (method, noise), found in sorted(accuracies.items()):
        exact, half = found["float32"], found["bf16"]
        allowed = max(2 * (variance(exact) / len(exact) + variance(half) / len(half)) ** 0.5, 0.5)
        difference = mean(half) - mean(exact)
        verdict = "even" if abs(difference) <= allowed else "not even"
        numbers = " | ".join(f"{mean(each):.2f} ± {stdev(each):.2f}" for each in (exact, half))
        page += f"| {method} | {noise} | {numbers} | {difference:+.2f} | {allowed:.2f} | {verdict} |\n"
    return page + "\n"


def performance_page() -> str:
    """The page as text."""
    lines = (DOCS / "performance" / "training.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    page = INTRODUCTION.format(device=records[0]["device"], torch=records[0]["versions"]["torch"])
    for recipe, title in (("cifar10", "CIFAR-10, 8-layer CNN"), ("cifar100", "CIFAR-100, ResNet-34")):
        page += f"## {title}, batch 128, bf16\n\n"
        page += "| what | runs | s/epoch/run | images/s | first epoch, s | memory, GiB |\n"
        page += "|---|--:|--:|--:|--:|--:|\n"
        for each in (r for r in records if r["recipe"] == recipe):
            seconds = each["seconds_an_epoch_a_run"]
            page += (
                f"| {each['idea']} | {each['runs']} | {seconds:.3f} | {50_000 / seconds:,.0f} | "
                f"{each['first_epoch']:.1f} | {each['peak_gib']:.1f} |\n"
            )
        page += "\n"
    return page + precision_table() + AFTER
