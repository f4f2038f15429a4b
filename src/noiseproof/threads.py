# SPDX-License-Identifier: Apache-2.0
"""How many threads of a CPU training is worth: in a small network they mostly wait for one another.

The more so when anything else runs on the machine: then the one waits, at full speed, for the other to get a core.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

SMALL_STEP = 3e8
"""Floating-point operations of a step that one core is through with in some milliseconds."""

SMALL_NETWORK = 1_000_000
"""Numbers that a small network has at most; operations that nobody can count are not overlooked in a large one."""

FORWARD_AND_BACKWARD = 3
"""Operations of a step, as a multiple of those of a prediction."""


@contextmanager
def threads_that_pay(model: nn.Module, sample: Tensor, batch_size: int) -> Iterator[None]:
    """Use one thread of the CPU to train what has small steps, and as many as before afterwards.

    Args:
        model: what is trained.
        sample: an input of one sample, where it is trained.
        batch_size: samples of a step.
    """
    before = torch.get_num_threads()
    if sample.device.type != "cpu" or before == 1 or not has_small_steps(model, sample, batch_size):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def has_small_steps(model: nn.Module, sample: Tensor, batch_size: int) -> bool:
    """Whether a step is a matter of milliseconds on one core.

    Example:
        >>> [has_small_steps(nn.Linear(64, 10), torch.zeros(1, 64), size) for size in (128, 1 << 20)]
        [True, False]
    """
    if sum(parameter.numel() for parameter in model.parameters()) > SMALL_NETWORK:
        return False
    training = [layer for layer in model.modules() if layer.training]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(sample)
    for layer in training:
        layer.training = True
    operations = FORWARD_AND_BACKWARD * batch_size * int(counter.get_total_flops())
    return operations < SMALL_STEP
