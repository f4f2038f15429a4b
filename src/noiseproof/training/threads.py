# SPDX-License-Identifier: Apache-2.0
"""How many threads of a CPU a run is worth: in a small network they mostly wait for one another.

The more so when anything else runs on the machine: then the one waits, at full speed, for the other to get a core.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from noiseproof.models.final_layer import set_training
from noiseproof.training.run import Run

SMALL_STEP = 3e8
"""Floating-point operations of a step that one core is through with in some milliseconds."""

SMALL_NETWORK = 1_000_000
"""Numbers that a small network has at most; operations that nobody can count are not overlooked in a large one."""

FORWARD_AND_BACKWARD = 3
"""Operations of a step, as a multiple of those of a prediction."""


@contextmanager
def threads_that_pay(run: Run) -> Iterator[None]:
    """Use one thread of the CPU for a run whose steps are small, and as many as before afterwards."""
    before = torch.get_num_threads()
    if run.device.type != "cpu" or before == 1 or not has_small_steps(run):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def has_small_steps(run: Run) -> bool:
    """Whether a step is a matter of milliseconds on one core."""
    if sum(parameter.numel() for parameter in run.model.parameters()) > SMALL_NETWORK:
        return False
    picture = torch.zeros(1, *run.data.image_shape, device=run.device)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run.model.eval()(picture)
    set_training(run.model)
    operations = FORWARD_AND_BACKWARD * run.config.batch_size * int(counter.get_total_flops())
    return operations < SMALL_STEP
