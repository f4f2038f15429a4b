# SPDX-License-Identifier: Apache-2.0
"""The catalogue: models by name, with everything that a user or a test wants to know about them."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from noiseproof.models import checks, timm_models
from noiseproof.models.checks import ImageSize

REQUIRED = ("num_classes", "in_channels", "image_size")
"""What every builder takes; its other arguments are the model's options."""

TASKS = ("classification", "segmentation")


@dataclass(frozen=True)
class ModelRecord:
    """What the catalogue knows of one model.

    Attributes:
        name: as the user types it, in lower case.
        title: what it is, in a few words.
        paper: where it was published.
        image_size: side of the square images it is made for.
        in_channels: channels of those images.
        description: what it consists of and what it is for, in a sentence or two.
        initialization: how its weights are drawn.
        build: ``(num_classes, in_channels, (height, width), **options)`` to the model.
        task: ``"classification"``, logits (N, K), or ``"segmentation"``, logits (N, K, height, width).
    """

    name: str
    title: str
    paper: str
    image_size: int
    in_channels: int
    description: str
    initialization: str
    build: Callable[..., nn.Module]
    task: str = "classification"

    @property
    def options(self) -> dict[str, Any]:
        """Options of this model beyond those of every model, with their defaults."""
        parameters = inspect.signature(self.build).parameters.values()
        return {
            p.name: p.default for p in parameters if p.name not in REQUIRED and p.kind is not p.VAR_KEYWORD
        }

    @property
    def takes_any_option(self) -> bool:
        """Whether options are handed on to another library, which knows them."""
        return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(self.build).parameters.values())

    def parameters(self, num_classes: int = 10) -> int:
        """Count the trainable numbers of the model in its default form; no memory is taken for them.

        >>> record("resnet50").parameters(num_classes=1000)
        25557032
        """
        with torch.device("meta"):
            model = self.build(num_classes, self.in_channels, (self.image_size, self.image_size))
        return sum(parameter.numel() for parameter in model.parameters())


_RECORDS: dict[str, ModelRecord] = {}


def register(record: ModelRecord) -> None:
    """Add a model to the catalogue, so that ``create`` and the command line know it."""
    if record.name in _RECORDS:
        raise ValueError(f"name: {record.name!r} is in the catalogue already; choose another name")
    if record.name != record.name.lower() or record.name.startswith(timm_models.PREFIX):
        raise ValueError(
            f"name: expected lower case and no prefix {timm_models.PREFIX!r}, got {record.name!r}"
        )
    _RECORDS[record.name] = record


def available(task: str = "classification") -> tuple[str, ...]:
    """Names of the models for a task, in the order of the catalogue.

    For classification ``timm:NAME`` comes on top where timm is installed.

    >>> "cnn8" in available()
    True
    >>> available("segmentation")
    ('unet-small', 'unet', 'nnunet')
    """
    if task not in TASKS:
        raise ValueError(checks.unknown("task", task, TASKS))
    return tuple(name for name, each in _RECORDS.items() if each.task == task)


def record(name: str) -> ModelRecord:
    """Look a model up by name; an unknown name fails with the nearest one.

    >>> record("cnn8").image_size
    32
    >>> record("resnet-34")
    Traceback (most recent call last):
    ValueError: model: unknown name 'resnet-34'; did you mean 'resnet34'? Known: cnn8, ...
    """
    if not isinstance(name, str):
        raise TypeError(f"model: expected a text, got {name!r} of type {type(name).__name__}")
    if name.startswith(timm_models.PREFIX):
        return _timm_record(name)
    key = name.lower()
    if key not in _RECORDS:
        raise ValueError(checks.unknown("model", name, (*_RECORDS, f"{timm_models.PREFIX}NAME")))
    return _RECORDS[key]


def is_of_the_package(name: str) -> bool:
    """Whether a model is built by noiseproof's own code, not by the user's or another library's.

    >>> is_of_the_package("cnn8"), is_of_the_package("timm:resnet18")
    (True, False)
    """
    if name.startswith(timm_models.PREFIX):
        return False
    return record(name).build.__module__.startswith("noiseproof.")


def create(
    name: str,
    num_classes: int,
    *,
    in_channels: int | None = None,
    image_size: ImageSize | None = None,
    seed: int | None = None,
    **options: Any,
) -> nn.Module:
    """Make a model by name.

    Weights are drawn on the CPU and then moved to torch's default device, so that one seed gives the same
    weights for every device. Under ``torch.device("meta")`` nothing is drawn.

    Args:
        name: a name of the catalogue, e.g. ``"resnet34-cifar"``, or ``timm:NAME``.
        num_classes: number of logits.
        in_channels: channels of the images; those that the model is made for unless given.
        image_size: side of square images, or (height, width); what the model is made for unless given.
        seed: makes the initial weights a function of it alone; no global generator moves. Without it they
            come from torch's global generator.
        **options: options of this model, see its record.

    Example:
        >>> model = create("mnist-cnn", 10, image_size=8, seed=1)
        >>> model(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
        >>> create("mlp", 3, in_features=13, hidden=[64], batch_norm=True).in_features
        13
    """
    found = record(name)
    checks.integer("num_classes", num_classes)
    channels = checks.integer("in_channels", found.in_channels if in_channels is None else in_channels)
    size = checks.height_and_width("image_size", found.image_size if image_size is None else image_size)
    _check_options(found, options)
    device = torch.get_default_device()
    with torch.device("meta" if device.type == "meta" else "cpu"), _own_random_numbers(seed):
        model = found.build(num_classes, channels, size, **options)
    return model if device.type == "meta" else model.to(device)


@contextlib.contextmanager
def _own_random_numbers(seed: int | None) -> Iterator[None]:
    """Seed torch's CPU generator for the time of the block; ``None`` leaves it as it is."""
    if seed is None:
        yield
        return
    checks.integer("seed", seed, smallest=0, largest=checks.LARGEST_SEED)
    with torch.random.fork_rng(devices=()):
        # Not torch.manual_seed: that reseeds the generators of all CUDA devices too, and for good.
        torch.default_generator.manual_seed(seed)
        yield


def _check_options(found: ModelRecord, options: dict[str, Any]) -> None:
    if found.takes_any_option:
        return
    for option in options:
        if option not in found.options:
            raise TypeError(checks.unknown(f"option of model {found.name!r}", option, found.options))


def _timm_record(name: str) -> ModelRecord:
    facts = timm_models.facts(name)
    return ModelRecord(
        name=name,
        title=f"{facts.name}, by timm",
        paper="see timm's documentation of the model",
        image_size=facts.image_size,
        in_channels=facts.in_channels,
        description="Made by timm, which takes any further options.",
        initialization="timm's own",
        build=timm_models.builder(facts),
    )
