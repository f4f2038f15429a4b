# SPDX-License-Identifier: Apache-2.0
"""Models of the timm library, as ``timm:NAME``, where it is installed.

timm is imported when such a model is asked for and not before.
"""

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import nn

PREFIX = "timm:"

DEFAULT_INPUT = (3, 224, 224)
"""For models of which timm states no input."""


@dataclass(frozen=True)
class TimmFacts:
    """What timm says of one of its models.

    Attributes:
        name: its name in timm.
        in_channels: channels it is made for.
        image_size: side of the images it is made for.
        fixed_image_size: whether it must be told of another size when it is made (most transformers).
    """

    name: str
    in_channels: int
    image_size: int
    fixed_image_size: bool


def facts(name: str) -> TimmFacts:
    """Look ``timm:NAME`` up in timm; an unknown name fails with the nearest one."""
    timm = _timm(name)
    own_name = name.removeprefix(PREFIX)
    if not timm.is_model(own_name):
        nearest = difflib.get_close_matches(own_name, timm.list_models(), n=1, cutoff=0.5)
        suggestion = f"; did you mean {PREFIX + nearest[0]!r}?" if nearest else ""
        raise ValueError(f"model: timm knows no {own_name!r}{suggestion}")
    stated = timm.get_pretrained_cfg(own_name)
    channels, height, _ = getattr(stated, "input_size", None) or DEFAULT_INPUT
    return TimmFacts(own_name, channels, height, bool(getattr(stated, "fixed_input_size", False)))


def builder(of: TimmFacts) -> Callable[..., nn.Module]:
    """Return what makes the model, in the form of every builder of the catalogue."""

    def build(num_classes: int, in_channels: int, image_size: tuple[int, int], **options: Any) -> nn.Module:
        timm = _timm(PREFIX + of.name)
        if of.fixed_image_size and image_size != (of.image_size, of.image_size):
            options.setdefault("img_size", image_size)
        # Several of timm's models compute on tensors while they are made, which the meta device cannot.
        with torch.device("cpu"):
            model: nn.Module = timm.create_model(
                of.name, num_classes=num_classes, in_chans=in_channels, **options
            )
        return model

    return build


def _timm(wanted: str) -> ModuleType:
    try:
        return importlib.import_module("timm")
    except ImportError as error:
        raise ImportError(
            f"model: {wanted!r} needs timm, which cannot be imported ({error}): pip install timm"
        ) from error
