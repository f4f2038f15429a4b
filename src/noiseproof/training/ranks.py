"""Several processes that train one model: who am I, and how do we add things up."""

import atexit
import os

import torch
import torch.distributed as dist
from torch import Tensor


def join(device: torch.device) -> None:
    """Join the processes that ``torchrun`` started, if it did and we have not; they part when they end.

    Parting after each run would be a race: a process that joins again may meet the group that another one is
    about to leave.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    atexit.register(_part)


def _part() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


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
