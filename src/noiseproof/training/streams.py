# SPDX-License-Identifier: Apache-2.0
"""Random streams: one seed, and for each purpose a stream of its own that is a pure function of the position.

Nothing has to be saved to continue a run: the order of epoch 7 and the augmentation of its step 31 follow from
the seed, whether the run was stopped before them or not.
"""

import hashlib

import torch


def stream_seed(seed: int, purpose: str, *position: int) -> int:
    """Seed of a stream, 63 bits; different purposes and positions have nothing to do with one another.

    >>> stream_seed(1, "order", 0) == stream_seed(1, "order", 1)
    False
    """
    text = "/".join(map(str, (seed, purpose, *position)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(device: torch.device, seed: int, purpose: str, *position: int) -> torch.Generator:
    """Torch generator at the start of a stream."""
    return torch.Generator(device).manual_seed(stream_seed(seed, purpose, *position))


def order_of_epoch(count: int, seed: int, epoch: int) -> torch.Tensor:
    """Order in which an epoch visits the samples; drawn on the CPU, so that every device has the same."""
    return torch.randperm(count, generator=generator(torch.device("cpu"), seed, "order", epoch))
