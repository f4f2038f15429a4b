# SPDX-License-Identifier: Apache-2.0
"""Points in time on a device, where work may be done long after it was asked for."""

import time

import torch

Moment = float | torch.cuda.Event
"""A point in time: on a GPU, when it gets there, which may be long after the host has asked."""


def moment(device: torch.device) -> Moment:
    """The present, as the device sees it."""
    if device.type != "cuda":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def seconds_between(first: Moment, second: Moment) -> float:
    """Seconds from one moment to another, both past."""
    if isinstance(first, torch.cuda.Event) and isinstance(second, torch.cuda.Event):
        return float(first.elapsed_time(second)) / 1000
    assert isinstance(first, float)
    assert isinstance(second, float)
    return second - first
