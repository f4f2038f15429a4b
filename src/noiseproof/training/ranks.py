# SPDX-License-Identifier: Apache-2.0
"""Several processes that train one model: who am I, how do we add things up, and what if one of us is gone."""

import atexit
import gc
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

PATIENCE_SECONDS = 600.0
"""How long a process waits for one that does not answer; one that dies is noticed at once where sockets tell."""

PATIENCE_VARIABLE = "NOISEPROOF_RANK_TIMEOUT"


class LostRankError(RuntimeError):
    """Another of the processes that train together died, or does not answer."""


def patience() -> float:
    """Seconds to wait for the others: ``NOISEPROOF_RANK_TIMEOUT``, else ten minutes.

    >>> patience()
    600.0
    """
    said = os.environ.get(PATIENCE_VARIABLE)
    if said is None:
        return PATIENCE_SECONDS
    try:
        seconds = float(said)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e7:
        raise ValueError(f"{PATIENCE_VARIABLE}: expected seconds above 0, got {said!r}")
    return seconds


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in plain words that another process is gone, where a library of ours would only name its socket."""
    try:
        yield
    except RuntimeError as error:
        if int(os.environ.get("WORLD_SIZE", "1")) == 1 or not _is_of_the_group(error):
            raise
        reason = re.sub(r"^\[[^]]*\] *", "", str(error).strip()).partition("\n")[0].partition(". ")[0][:200]
        raise LostRankError(
            f"process {number()} of {os.environ['WORLD_SIZE']}: another one died, or did not answer for "
            f"{patience():g} s ({reason}). Every finished epoch is kept. See what the others said, then start all "
            "of them again with the same command, and they go on"
        ) from error


def _is_of_the_group(error: RuntimeError) -> bool:
    """Whether an error is one of talking to the others; gloo's has no class of its own."""
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in ("gloo", "NCCL"))


def join(device: torch.device) -> None:
    """Join the processes that ``torchrun`` started, if it did and we have not; they part when they end.

    Parting after each run would be a race: a process that joins again may meet the group that another one is
    about to leave.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    # DistributedDataParallel would import it later, and imported while there is a group it keeps that for ever: its
    # threads then outlive the interpreter, and one that still has to let go of a tensor aborts the process.
    from torch import _dynamo  # noqa: F401

    dist.init_process_group(backend, timeout=timedelta(seconds=patience()))
    atexit.register(_part)


def _part() -> None:
    """Leave the group, and end its threads, which they do with the last thing that holds it."""
    if dist.is_initialized():
        dist.destroy_process_group()
        gc.collect()


def count() -> int:
    """Number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def number() -> int:
    """Number of this process, from 0; before and after the processes are joined, what ``torchrun`` said."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0")) if int(os.environ.get("WORLD_SIZE", "1")) > 1 else 0


def is_first() -> bool:
    """Whether this process writes records and checkpoints."""
    return number() == 0


def summed(tensor: Tensor) -> Tensor:
    """Sum of a tensor over all processes."""
    if count() == 1:
        return tensor
    total = tensor.clone()
    dist.all_reduce(total)
    return total


def largest(tensor: Tensor) -> Tensor:
    """Largest of each element over all processes."""
    if count() == 1:
        return tensor
    most = tensor.clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return most


def any_says(flag: bool, device: torch.device) -> bool:
    """Whether any process says so; all get the same answer."""
    if count() == 1:
        return flag
    return bool(summed(torch.tensor(int(flag), device=device)) > 0)


def wait() -> None:
    """Wait for the others."""
    if count() > 1:
        dist.barrier()
