# SPDX-License-Identifier: Apache-2.0
"""What a plan is made from: size, classes, balance and form of the data, and what is known of its noise."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets import LabeledData
from noiseproof.datasets.check import check_several_classes

KINDS = ("sym", "asym", "dep", "real", "confused")
"""Kinds of noise: the paper's four, and what an estimate can tell apart from ``sym``: classes that are confused."""

MASKS_LOOKED_AT = 64
"""Masks whose pixels are counted."""


@dataclass(frozen=True)
class Noise:
    """What is known of the wrong labels.

    Attributes:
        rate: share of wrong labels.
        kind: a name in :data:`KINDS`, or ``None`` where it is not known.
        source: how it is known, in words.
        largest_class_rate: share of wrong labels of the class that has most of them.
        is_uncertain: whether the rate is no more than a guess.
    """

    rate: float
    kind: str | None = None
    source: str = "given by the user"
    largest_class_rate: float | None = None
    is_uncertain: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ValueError(f"noise: expected a share of wrong labels from 0 to 1, got {self.rate}")
        if self.kind is not None and self.kind not in KINDS:
            raise ValueError(f"noise kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")

    @property
    def class_rate(self) -> float:
        """Share of wrong labels in the classes that have them: what tables call the rate of asymmetric noise."""
        return self.rate if self.largest_class_rate is None else self.largest_class_rate

    @property
    def name(self) -> str | None:
        """Short name for recipes that depend on the noise, such as ``"asym-0.4"``."""
        if self.kind in (None, "confused"):
            return None
        return f"{self.kind}-{self.rate:g}"

    def __str__(self) -> str:
        kinds = {
            "sym": ", at random",
            "confused": ", classes confused with one another",
            "asym": ", classes confused with one another",
            "dep": ", depending on the image",
            "real": ", human mistakes",
        }
        share = f"{'perhaps ' if self.is_uncertain else 'about '}{self.rate:.0%} of the labels are wrong"
        return f"{share}{kinds.get(self.kind or '', '')} ({self.source})"


@dataclass(frozen=True)
class Facts:
    """What the rules look at.

    Attributes:
        name: of the data set.
        samples: training samples.
        classes: K.
        balance: samples of the rarest class over samples of the commonest; for masks, pixels.
        form: ``"pictures"`` (arrays), ``"files"``, ``"masks"`` or ``"table"``.
        side: shorter side of the images, for files the median; 0 for tables.
        grey: whether images have one channel.
        noise: what is known of it, if anything.
        recipe: the data set's own recipe, if it has one.
        own_network: for tables: whether the network is the user's own instead of the estimator's perceptron.
        pretrained: whether the weights from ImageNet that a plan starts from are on this machine.

    Example:
        >>> from noiseproof import datasets
        >>> facts_of(datasets.load("digits"))
        Facts(name='digits', samples=1438, classes=10, balance=0.95..., form='pictures', side=8, grey=True,
              noise=None, recipe='digits', own_network=False, pretrained=...)
    """

    name: str
    samples: int
    classes: int
    balance: float = 1.0
    form: str = "pictures"
    side: int = 0
    grey: bool = False
    noise: Noise | None = None
    recipe: str | None = None
    own_network: bool = False
    pretrained: bool = False

    def with_noise(self, noise: Noise | None) -> "Facts":
        """The same with what is known of the noise."""
        return replace(self, noise=noise)

    def __str__(self) -> str:
        forms = {"pictures": "images", "files": "image files", "masks": "images with masks"}
        what = forms.get(self.form, "samples")
        size = f" of {self.side} pixels" if self.side else ""
        colours = ", grey" if self.grey and self.side else ""
        return (
            f"{self.samples} {what}{size}{colours}, {self.classes} classes, the rarest class has "
            f"{self.balance:.0%} as many {'pixels' if self.form == 'masks' else 'samples'} as the commonest"
        )


def facts_of(data: LabeledData, name: str | None = None) -> Facts:
    """Look at a data set.

    Args:
        data: its training split.
        name: what it was loaded by; the data's own name by default.
    """
    from noiseproof.datasets.picture_size import size_of
    from noiseproof.models import imagenet
    from noiseproof.training.config import default_recipe

    name = name or data.name
    if len(data) == 0:
        raise ValueError(f"{name}: expected training samples, got none")
    check_several_classes(name, data)
    counts = np.bincount(_classes_in(data), minlength=data.num_classes)
    side, grey = size_of(data)
    form = "masks" if data.masks is not None else "files" if data.images is None else "pictures"
    return Facts(
        name=name,
        samples=len(data),
        classes=data.num_classes,
        balance=float(counts.min() / counts.max()),
        form=form,
        side=side,
        grey=grey,
        recipe=default_recipe(name),
        pretrained=imagenet.is_here(imagenet.NETWORK),
    )


def _classes_in(data: LabeledData) -> NDArray[np.integer]:
    """The label of every sample, or the class of every pixel of some masks; 255 marks pixels without one."""
    if data.masks is None:
        return data.labels
    chosen = np.random.RandomState(0).permutation(len(data.masks))[:MASKS_LOOKED_AT]
    pixels: NDArray[np.integer] = data.masks[np.sort(chosen)].ravel()
    return pixels[pixels < data.num_classes]
