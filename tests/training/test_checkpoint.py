# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: what goes in comes out, a crash leaves old or new, and nothing damaged or foreign is believed."""

import errno
import hashlib
import io
import os
import subprocess
import sys

import pytest
import torch

from noiseproof.training import checkpoint
from noiseproof.training.checkpoint import MAGIC, BadCheckpointError, load, save

CPU = torch.device("cpu")
STATE = {
    "epoch": 3,
    "step": 17,
    "config_hash": "3f2a",
    "average": None,
    "model": {"weight": torch.randn(4, 3), "half": torch.ones(2, dtype=torch.bfloat16)},
    "optimizer": {
        "state": {0: {"momentum_buffer": torch.randn(4, 3)}},
        "param_groups": [{"lr": 0.1, "params": [0]}],
    },
    "meters": {"samples": torch.tensor(7), "loss": torch.tensor(float("nan"), dtype=torch.float64)},
}


def same(first, second):
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first.nan_to_num(), second.nan_to_num())
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


def test_what_goes_in_comes_out(tmp_path):
    path = tmp_path / "new" / "folder" / "checkpoint.pt"
    save(path, STATE)
    assert same(load(path, CPU), STATE)
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.pt"]


def test_a_missing_checkpoint_is_said_to_be_missing(tmp_path):
    with pytest.raises(
        BadCheckpointError, match="does not exist: this run has no checkpoint to continue from"
    ):
        load(tmp_path / "checkpoint.pt", CPU)


def test_any_changed_byte_is_noticed(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save(path, STATE)
    good = path.read_bytes()
    for place in range(0, len(good), max(1, len(good) // 60)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        with pytest.raises(BadCheckpointError, match="checksum|is not a checkpoint of noiseproof"):
            load(path, CPU)


def test_any_missing_end_is_noticed(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save(path, STATE)
    good = path.read_bytes()
    for length in (0, 1, len(MAGIC), len(MAGIC) + 31, len(MAGIC) + 32, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(BadCheckpointError):
            load(path, CPU)
    path.write_bytes(good + b"more")
    with pytest.raises(BadCheckpointError, match="checksum"):
        load(path, CPU)


class Malicious:
    def __reduce__(self):
        return os.system, ("exit 7",)


def test_nothing_in_a_checkpoint_is_run_even_with_a_right_checksum(tmp_path):
    path = tmp_path / "checkpoint.pt"
    buffer = io.BytesIO()
    torch.save({"model": Malicious()}, buffer)
    payload = buffer.getvalue()
    path.write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)
    with pytest.raises(BadCheckpointError, match="holds what no checkpoint of noiseproof holds"):
        load(path, CPU)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.pt"
    save(path, STATE)

    def no_room(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", no_room)
    with pytest.raises(OSError, match="an earlier one is untouched: make room, then resume") as caught:
        save(path, STATE | {"epoch": 4})
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert load(path, CPU)["epoch"] == 3
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


KILLED_WHILE_WRITING = """
import os, signal, sys, torch
from pathlib import Path
from noiseproof.training import checkpoint
os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)
checkpoint.save(Path(sys.argv[1]), {"epoch": 9})
"""


def test_kills_while_writing_leave_the_last_checkpoint_and_no_heap_of_files(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save(path, STATE)
    for _ in range(2):
        assert (
            subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(path)], check=False).returncode
            == -9
        )
    assert load(path, CPU)["epoch"] == 3
    assert len(list(tmp_path.iterdir())) == 2  # the unfinished one, which the next save replaces
    save(path, STATE | {"epoch": 4})
    assert load(path, CPU)["epoch"] == 4
    assert len(list(tmp_path.iterdir())) == 1
