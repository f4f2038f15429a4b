# SPDX-License-Identifier: Apache-2.0
"""Make docs/performance.md from the records beside it: what was measured, and what each idea brought."""

import json
from pathlib import Path

HERE = Path(__file__).parent

INTRODUCTION = """\
# Speed on a GPU

<!-- Generated from docs/performance/training.jsonl by docs/generate.py. -->

How packs work is in [training](training.md). Everything here was measured on one {device} with torch {torch},
through the whole engine (tests, records and checkpoints included), on random images of the data set's size and
shape:

```
python benchmarks/training.py --recipe cifar10 --packs 1,8
python benchmarks/training.py --recipe cifar100 --packs 1,4
```

Seconds are a run's share of an epoch of its pack: for eight runs side by side, an eighth of what the epoch
took.

"""

AFTER = """\
## What was learned on the way

* Of a step launched kernel by kernel (3.3 to 4.7 s an epoch) nearly all was the host. Captured, the kernels are
  what counts, and with `torch.compile` nearly half of their time went into sums over channels-last maps of 64
  channels: batch norm's statistics (68 µs a layer), its gradient (115 µs) and the gradient of biases that batch
  norm takes away again (88 µs). The fused batch norm takes about 50 µs for all of its passes on the largest
  maps, forward and backward.
* cuDNN's convolutions of 200 channels (8x8 maps, batch 128, forward and backward) take 87 µs, of 208 71 µs, of
  256 58 µs: 196 channels are computed as 256, the added ones staying zero.
* Larger blocks, more warps and more programs in the batch norm's kernels were slower; letting cuDNN try all of
  its kernels brought between nothing and 13% for single convolutions.
* Batch norm's passes over large maps run at 3.7 to 4.6 TB/s in a pack, near what the memory gives. Cutting them
  into 66 to 264 long-lived programs, so that they leave processors to the convolutions of other runs, brought
  between -5% and +1% for a pack of eight and up to 2.5% for four ResNets, which is what repeating a measurement
  brings; unrolled loops brought single kernels 6% at the most. Neither is used.
* Runs of a pack beyond eight bring nothing more: the GPU is full. Eight runs on four
  streams took 0.201 s, on eight 0.202 s; on another machine of the kind 0.213 and 0.206 s.
* Checkpoints held up large networks. A U-Net for 128 px with Adam leaves 200 MB an epoch: packed, hashed and
  written by the thread that launches steps, they made an epoch of 0.32 s one of 1.05 s (one run alone; the seven
  losses of the table side by side: 0.28 s a run without them, 0.64 s with them, before the network had its fast
  form). They are now written on a thread of their own, which passes over a checkpoint when the disk is slower than
  the epochs; that, and what it brings ResNet-34 (170 MB an epoch), has not been timed yet.

## What is missing

* The accuracy of packs in bf16 against float32 over three seeds, and ResNet-34 below 1.4 s (1.58 s here), are open.
* Every line was measured once; what was measured twice differed by 2 to 6%.
* Of about 320 GPU tests of the fused losses whose outcome is known eight failed (memory, large shapes, fused
  linear in bf16, extreme logits: `pytest -m gpu tests/losses/test_fused_gpu.py`); why is not known yet.
"""


def performance_page() -> str:
    """The page as text."""
    lines = (HERE / "performance" / "training.jsonl").read_text().splitlines()
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
    return page + AFTER
