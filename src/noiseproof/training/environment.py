"""What a run was computed with: versions, device, commit."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import noiseproof


def choose_device(name: str) -> torch.device:
    """Turn ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` into a device that exists."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        return torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device: expected auto, cpu, cuda or cuda:N, got {name!r}") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device: {name!r} was asked for, but torch sees no CUDA device; say --device cpu")
    return device


def describe(device: torch.device) -> dict[str, Any]:
    """Facts about the machine and the software, for the run's record; no paths and no host names."""
    versions = {"noiseproof": noiseproof.__version__, "python": platform.python_version()}
    for package in ("torch", "numpy", "scipy"):
        versions[package] = metadata.version(package)
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "versions": versions,
        "device": device.type,
        "hardware": hardware,
        "threads": torch.get_num_threads(),
        "platform": platform.system(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """Commit of the source, where it is run from a checkout."""
    folder = Path(__file__).resolve().parents[3]
    if not (folder / ".git").exists():
        return None
    done = subprocess.run(
        ["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None
