# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: written whole or not at all, and never believed without their checksum."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import torch

from noiseproof import torch_files

MAGIC = b"noiseproof checkpoint 1\n"

_ADVICE = "put back a copy of it, or remove it to train the run from its first epoch"


class BadCheckpointError(ValueError):
    """A checkpoint that cannot be read."""


def save(path: Path, state: dict[str, Any]) -> None:
    """Write ``state`` (tensors, numbers, texts, lists and dicts of them) so that a crash leaves old or new."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getbuffer()
    path.parent.mkdir(parents=True, exist_ok=True)
    # One name, not one a process: what a kill leaves behind is overwritten, and a run has one process only.
    temporary = path.with_name(f".{path.name}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(MAGIC + hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(
            error.errno,
            f"cannot write the checkpoint ({error.strerror}); an earlier one is untouched: make room, then resume",
            str(path),
        ) from error
    _sync_folder(path.parent)


def load(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint; nothing in it is executed, and a damaged one is refused."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BadCheckpointError(
            f"{path} does not exist: this run has no checkpoint to continue from"
        ) from None
    header = len(MAGIC) + 32
    if len(content) < header or not content.startswith(MAGIC):
        raise BadCheckpointError(
            f"{path} is not a checkpoint of noiseproof, or only its beginning; {_ADVICE}"
        )
    payload = content[header:]
    if hashlib.sha256(payload).digest() != content[len(MAGIC) : header]:
        raise BadCheckpointError(
            f"{path} is damaged: its checksum is not the one it was written with; {_ADVICE}"
        )
    try:
        state = torch_files.load(payload, map_location=device)
    except Exception as error:  # a checksum can be forged; on strange bytes torch raises nearly every kind
        raise BadCheckpointError(f"{path} holds what no checkpoint of noiseproof holds: {error}") from error
    if not isinstance(state, dict):
        raise BadCheckpointError(
            f"{path} holds what no checkpoint of noiseproof holds: expected a dictionary, found a value of type "
            f"{type(state).__name__}"
        )
    return state


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
