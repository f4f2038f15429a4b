# SPDX-License-Identifier: Apache-2.0
"""Readers of weights."""

from pathlib import Path

import wrapping
from targets.target import Target, written


def _weights(content: bytes, folder: Path, name: str) -> object:
    import torch

    from noiseproof import models

    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    return models.load_weights(network, written(folder, name, content), partial=True)


def _torch_weights(content: bytes, folder: Path) -> object:
    legacy = content.startswith((b"PK", b"\x8a\nl\xfc"))
    return _weights(content if legacy else wrapping.torch_archive(content, 4), folder, "weights.pth")


def _safetensors(content: bytes, folder: Path) -> object:
    packed = wrapping.safetensors(content) if content[:1] == b"{" else content
    return _weights(packed, folder, "weights.safetensors")


_WEIGHTS = (
    "models/weights.py: load_weights _without_wrapper_prefixes _names_of_another_final_layer "
    "_fate_of_final_layer _check_names _check_tensor _some"
)
TARGETS = (
    Target(
        "torch-weights",
        _torch_weights,
        (
            "models/weight_files.py: read _read_torch _named_tensors _described _reason",
            _WEIGHTS,
            "torch_files.py",
        ),
        ("WeightsError",),
    ),
    Target(
        "safetensors",
        _safetensors,
        ("models/weight_files.py: read _read_safetensors _named_tensors", _WEIGHTS),
        ("WeightsError",),
    ),
)
