# SPDX-License-Identifier: Apache-2.0
"""Noise to look at: transition matrix, rates, and images with their given and their true labels.

Figures are drawn without ``pyplot``, so that nothing of the caller's matplotlib is touched. Save them with
``figure.savefig("noise.png")``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.noise.masks import KINDS, NoisyMasks
from noiseproof.noise.record import NoisyLabels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WRONG, RIGHT, NEUTRAL = "#b2182b", "#1a7a4c", "#4c72b0"
GREY = 0.5
"""Of pixels without a label, between background 0 and foreground 1."""

SHEET_COLUMNS = 10
SHEET_ROWS = 2
MASKS_A_ROW, MASK_ROWS = 3, 2
"""Of each kind of corruption so many images are shown beside one another, in so many rows."""

MOST_NAMED_CLASSES = 20
"""With more classes than these, axes carry numbers only."""


def draw_labels(
    noisy: NoisyLabels,
    class_names: Sequence[str],
    images: NDArray[Any] | None = None,
    title: str = "",
) -> "Figure":
    """One page: the realised transition matrix, the rate of each class, a sheet of wrongly labelled images.

    On the sheet the given label stands above each image in red, the true one below in green.

    Args:
        noisy: The record.
        class_names: K names.
        images: (N, H, W, C) or (N, H, W) bytes; without them there is no sheet.
        title: Printed on top, before what the record says of itself.
    """
    from matplotlib.figure import Figure

    if len(class_names) != noisy.num_classes:
        raise ValueError(f"class_names must be {noisy.num_classes} names, got {len(class_names)}")
    if images is not None and len(images) != len(noisy):
        raise ValueError(f"images must be one per label ({len(noisy)}), got {len(images)}")
    shown = _wrong_samples(noisy, SHEET_COLUMNS * SHEET_ROWS) if images is not None else np.empty(0, np.int64)
    rows_of_images = -(-shown.size // SHEET_COLUMNS)
    figure = Figure(figsize=(13, 6.6 + 1.6 * rows_of_images), layout="constrained")
    parts = figure.subfigures(
        2 if rows_of_images else 1, 1, squeeze=False, height_ratios=_ratios(rows_of_images)
    )
    top, *bottom = parts[:, 0]
    figure.suptitle(_headline(noisy, title), fontsize=11)
    matrix_axes, rate_axes = top.subplots(1, 2, width_ratios=(1.15, 1.0))
    _draw_transition(matrix_axes, noisy, class_names)
    _draw_rates(rate_axes, noisy, class_names)
    if bottom and images is not None:
        axes = bottom[0].subplots(rows_of_images, SHEET_COLUMNS, squeeze=False)
        for spot in axes.flat:
            spot.axis("off")
        for spot, index in zip(axes.flat, shown, strict=False):
            _draw_sample(spot, noisy, class_names, images, int(index))
    return figure


def draw_masks(
    noisy: NoisyMasks,
    images: NDArray[Any] | None = None,
    title: str = "",
    void: NDArray[np.bool_] | None = None,
) -> "Figure":
    """One page: for each kind of corruption some images, each with its true and its given mask beside it.

    The given mask carries the true outline in green and its own in red, and above it stands the kind.

    Args:
        noisy: The record.
        images: (N, H, W, C) or (N, H, W) bytes.
        title: Printed on top, before what the record says of itself.
        void: Which pixels have no label, in the shape of the masks; they are drawn grey.
    """
    from matplotlib.figure import Figure

    kinds = [kind for kind in range(1, len(KINDS)) if bool((noisy.kinds == kind).any())]
    panels = ("image", "true", "given") if images is not None else ("true", "given")
    columns = MASKS_A_ROW * len(panels)
    rows = max(1, MASK_ROWS * len(kinds))
    figure = Figure(figsize=(1.8 * columns, 2.0 * rows + 0.6), layout="constrained")
    figure.suptitle(f"{title}: {noisy}".removeprefix(": "), fontsize=10)
    axes = figure.subplots(rows, columns, squeeze=False)
    for spot in axes.flat:
        spot.axis("off")
    for order, kind in enumerate(kinds):
        places = axes[MASK_ROWS * order : MASK_ROWS * (order + 1)].reshape(-1, len(panels))
        for spots, index in zip(places, np.flatnonzero(noisy.kinds == kind), strict=False):
            unknown = None if void is None else void[index]
            _draw_mask_panels(dict(zip(panels, spots, strict=True)), noisy, images, int(index), unknown)
    return figure


def _draw_mask_panels(
    spots: "dict[str, Axes]",
    noisy: NoisyMasks,
    images: NDArray[Any] | None,
    index: int,
    void: NDArray[np.bool_] | None,
) -> None:
    true, given = noisy.clean[index] != 0, noisy.masks[index] != 0
    if images is not None:
        _draw_image(spots["image"], images[index])
        spots["image"].set_title(f"image {index}", fontsize=7)
    for name, mask in (("true", true), ("given", given)):
        shown = mask if void is None else np.where(void, GREY, mask)
        spots[name].imshow(shown, cmap="gray", vmin=0, vmax=1)
    for mask, colour in ((true, RIGHT), (given, WRONG)):
        if mask.any() and not mask.all():
            spots["given"].contour(mask, levels=[0.5], colors=colour, linewidths=1.2)
    spots["true"].set_title("true mask", fontsize=7)
    area, difference = noisy.area_ratios[index], noisy.differences[index]
    kind = KINDS[noisy.kinds[index]]
    spots["given"].set_title(f"{kind}: area ×{area:.2f}, differs {difference:.2f}", fontsize=7)


def _ratios(rows_of_images: int) -> list[float]:
    return [5.5, 1.6 * rows_of_images] if rows_of_images else [1.0]


def _headline(noisy: NoisyLabels, title: str) -> str:
    facts = [
        f"{noisy.kind} noise",
        *([f"rate {noisy.rate:g}"] if noisy.rate is not None else []),
        f"realised {100 * noisy.realised_rate:.2f} %",
        *([noisy.generator] if noisy.generator else []),
        *([f"seed {noisy.seed}"] if noisy.seed is not None else []),
        *(text for name, text in noisy.details.items() if name in ("flips", "key") and len(text) < 40),
    ]
    return ", ".join([*([title] if title else []), f"{len(noisy):,} labels", *facts])


def _draw_transition(axes: "Axes", noisy: NoisyLabels, class_names: Sequence[str]) -> None:
    picture = axes.imshow(noisy.transition, vmin=0.0, vmax=1.0, cmap="Blues")
    axes.set_title("share of each true class (row) by given label (column)", fontsize=9)
    axes.set_xlabel("given label")
    axes.set_ylabel("true class")
    if noisy.num_classes <= MOST_NAMED_CLASSES:
        axes.set_xticks(range(noisy.num_classes), class_names, rotation=45, ha="right", fontsize=8)
        axes.set_yticks(range(noisy.num_classes), class_names, fontsize=8)
    if noisy.num_classes <= 12:
        for (row, column), share in np.ndenumerate(noisy.transition):
            if share > 0.0:
                colour = "white" if share > 0.6 else "black"
                axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=7, color=colour)
    axes.figure.colorbar(picture, ax=axes, shrink=0.8)


def _draw_rates(axes: "Axes", noisy: NoisyLabels, class_names: Sequence[str]) -> None:
    positions = np.arange(noisy.num_classes)
    axes.barh(positions, 100.0 * noisy.class_rates, color=NEUTRAL, height=0.8)
    axes.axvline(100.0 * noisy.realised_rate, color=WRONG, linewidth=1.0)
    axes.set_title(f"wrong labels of each class, all: {100 * noisy.realised_rate:.2f} %", fontsize=9)
    axes.set_xlabel("%")
    axes.set_xlim(0.0, max(1.0, 105.0 * float(noisy.class_rates.max())))
    axes.set_ylim(noisy.num_classes - 0.5, -0.5)
    if noisy.num_classes <= MOST_NAMED_CLASSES:
        axes.set_yticks(positions, class_names, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_sample(
    axes: "Axes", noisy: NoisyLabels, class_names: Sequence[str], images: NDArray[Any], index: int
) -> None:
    _draw_image(axes, images[index])
    foreign = noisy.outside is not None and noisy.outside[index] >= 0
    truth = "no class" if foreign else class_names[noisy.clean[index]]
    axes.set_title(class_names[noisy.labels[index]], fontsize=8, color=WRONG, pad=2)
    axes.text(0.5, -0.03, truth, transform=axes.transAxes, ha="center", va="top", fontsize=8, color=RIGHT)


def _draw_image(axes: "Axes", image: NDArray[Any]) -> None:
    grey = image.ndim == 2 or image.shape[-1] == 1
    largest = int(image.max()) if grey else None
    axes.imshow(image.reshape(image.shape[:2]) if grey else image, cmap="gray", vmin=0, vmax=largest)


def _wrong_samples(noisy: NoisyLabels, count: int) -> NDArray[np.int64]:
    """Wrongly labelled samples, spread evenly over the data."""
    wrong = np.flatnonzero(noisy.flipped)
    if wrong.size <= count:
        return wrong
    return wrong[np.linspace(0, wrong.size - 1, count).astype(np.int64)]
