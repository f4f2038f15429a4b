# SPDX-License-Identifier: Apache-2.0
"""When a GPU has too little memory: seen before a capture begins, recognised whatever it looks like, cleared up."""

import gc
import traceback
from contextlib import suppress
from typing import Any

import torch

SIGNS = ("out of memory", "unable to find an engine", "STATUS_ALLOC_FAILED")
"""What the libraries say that ask for memory themselves; cuDNN finds no engine whose workspace it can have."""


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, says that memory is short.

    Example:
        >>> is_out_of_memory(RuntimeError("FIND was unable to find an engine to execute this computation"))
        True
        >>> is_out_of_memory(RuntimeError("expected scalar type Float but found Half"))
        False
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            return True
        if isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def free_up() -> None:
    """Give back what no one uses: what an error's frames held lies in cycles, which only a collection finds.

    cuBLAS keeps a workspace (32 MiB on newer GPUs) for each stream that it ever worked on; those go too. So no CUDA
    graph of before may be replayed after.
    """
    gc.collect()
    if torch.cuda.is_available():
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def forget_frames(error: BaseException | None) -> None:
    """Empty the frames that an error came through, so that keeping it does not keep their tensors.

    Where it happened can still be read.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        traceback.clear_frames(error.__traceback__)
        seen.add(id(error))
        error = error.__cause__ or error.__context__


def index_of(device: torch.device) -> int:
    """The number of a GPU; of ``cuda`` alone, that of the current one."""
    return torch.cuda.current_device() if device.index is None else device.index


def check_room(needed: int, device: torch.device) -> None:
    """Raise out of memory if so many bytes cannot be had any more.

    To be asked before a capture: where memory runs out in the middle of one, cuDNN looks for other engines, which
    ends the capture for good.
    """
    device = torch.device("cuda", index_of(device))  # some of these ask for the number
    free, total = torch.cuda.mem_get_info(device)
    reserved, allocated = torch.cuda.memory_reserved(device), torch.cuda.memory_allocated(device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(device)  # of newer torch
    room = min(free + reserved, int(share * total)) - allocated
    if needed > room:
        raise torch.cuda.OutOfMemoryError(
            f"out of memory: a captured step needs {needed >> 20} MiB, the GPU has {max(0, room) >> 20} MiB left"
        )


def abandon_capture(pool: Any, device: torch.device) -> None:
    """Take a failed capture's memory pool back from the allocator, which would wait for its end for ever."""
    index = index_of(device)
    with suppress(RuntimeError):  # it did end
        torch._C._cuda_endAllocateToPool(index, pool)
        torch._C._cuda_releasePool(index, pool)
