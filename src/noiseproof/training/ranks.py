"""Several processes that train one model: who am I, and how do we add things up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor


@contextmanager
def process_group(device: torch.device) -> Iterator[None]:
    """Join the processes that ``torchrun`` started, if it did."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or dist.is_initialized():
        yield
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield
    finally:
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
