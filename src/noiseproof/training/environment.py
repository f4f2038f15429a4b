# SPDX-License-Identifier: Apache-2.0
"""What a run was computed with: versions, device, commit."""

import functools
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import noiseproof


def choose_device(name: str) -> torch.device:
    """Turn ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` into a device that exists."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(f"device: expected auto, cpu, cuda or cuda:N, got {name!r}")
    if name == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise ValueError(f"device: {name!r} was asked for, but torch sees no CUDA device; say --device cpu")
    index = int(name.partition(":")[2] or os.environ.get("LOCAL_RANK", "0"))
    if index >= torch.cuda.device_count():
        raise ValueError(f"device: cuda:{index} was asked for, but there are {torch.cuda.device_count()}")
    return torch.device("cuda", index)


def describe(device: torch.device) -> dict[str, Any]:
    """Facts about the machine and the software, for the run's record; no paths and no host names."""
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "versions": dict(_versions()),
        "device": device.type,
        "hardware": hardware,
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "platform": platform.system(),
        "commit": _commit_of_this_process(),
    }


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"noiseproof": noiseproof.__version__, "python": platform.python_version()}
    return versions | {package: metadata.version(package) for package in ("torch", "numpy", "scipy")}


@functools.cache
def _commit_of_this_process() -> str | None:
    """Asked for once: what was imported does not change when the checkout does."""
    return _commit()


def _processor() -> str:
    """The CPU and the instructions that torch uses of it: others round differently, and so may end elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = named[0] if named else platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _commit() -> str | None:
    """Commit of the source: what ``NOISEPROOF_COMMIT`` says, or that of the checkout it is run from."""
    if said := os.environ.get("NOISEPROOF_COMMIT", "").strip():
        return said
    folder = Path(__file__).resolve().parents[3]
    if not (folder / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        )
    except OSError:  # a checkout on a machine without git
        return None
    return done.stdout.strip() or None
