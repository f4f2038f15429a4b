# SPDX-License-Identifier: Apache-2.0
"""Segmentation examples: picture, true mask, noisy mask and predictions; best and worst cases by Dice."""

import base64
import html
import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets.folders import VOID
from noiseproof.noise import short_name
from noiseproof.report.figures import Drawing, figure_of

if TYPE_CHECKING:
    from noiseproof.results import Gathered
    from noiseproof.training.examples import Examples

ROWS = {"affine": "affine", "dilate": "dilated", "erode": "eroded"}
"""The paper's order of kinds, and its words."""

SIDE = 96
"""Pixels to which pictures are reduced; on the page they are as wide as there is room."""

TINTS = np.array(
    [(34, 34, 34), (240, 240, 240), (214, 96, 77), (67, 147, 195), (253, 174, 97)], dtype=np.uint8
)
"""Colours of the classes in a mask: the background's, the foreground's, further ones', over and over."""

NO_LABEL = (128, 128, 128)
"""Colour of pixels without a label."""


@figure_of("table")
def segmentation_examples(gathered: "Gathered") -> Drawing | None:
    """Training pictures of each kind of corruption with every method's prediction, under the strongest noise."""
    by_method = _examples_by_method(gathered)
    if not by_method:
        return None
    noise, found = by_method
    first = next(iter(found.values()))
    heads = ["", "picture", "true mask", "noisy mask", *found]
    lines = []
    for kind, words in ROWS.items():
        for place in _places(first, kind):
            shown = [_picture(first.images[place]), _mask(first.true[place]), _mask(first.given[place])]
            alts = [f"image {first.index[place]}", "its true mask", f"its mask, {words}"]
            for method, examples in found.items():
                shown.append(_mask(examples.predicted[place]))
                alts.append(f"prediction of {method}, Dice {examples.dice[place]:.0f}%")
            notes = ["", "", "", *(f"{examples.dice[place]:.1f}" for examples in found.values())]
            lines.append(_row(words, shown, alts, notes))
    cases = _cases(found)
    if not lines and not cases:
        return None
    markup = _table(heads, lines) if lines else ""
    markup += "".join(cases)
    return Drawing(
        "segmentation",
        "Segmentation examples",
        _caption(f"{noise}, seed {_seed(gathered, noise)}", bool(lines), found),
        markup,
    )


def _caption(under: str, corrupted: bool, found: "dict[str, Examples]") -> str:
    cases = "for each method, the test images with its lowest and its highest Dice, at most three each."
    said = f"Under {under}: {cases}"
    if corrupted:
        said = (
            f"Training images under {under}: the true mask, the corrupted one used for training, and what each "
            "network predicts after its last epoch, with its Dice against the true mask in percent. Below, "
            + cases
        )
    void = any((examples.true == VOID).any() for examples in found.values())
    return said + (" Grey: pixels without a label." if void else "")


def _seed(gathered: "Gathered", noise: str) -> int:
    return min(result.seed for result in gathered.results if result.noise == noise)


def _examples_by_method(gathered: "Gathered") -> "tuple[str, dict[str, Examples]] | None":
    """The strongest noise of which examples were kept, and each method's, of the lowest seed."""
    from noiseproof.training.examples import FILE_NAME, load_examples

    folder = gathered.folder
    if folder is None:
        return None
    measured = [result for result in gathered.results if result.metric == "test_dice" and result.run]
    for noise in map(short_name, reversed(gathered.grid.noises)):
        runs = [result for result in measured if result.noise == noise]
        lowest = min((result.seed for result in runs), default=None)
        found = {
            result.method: load_examples(path)
            for result in runs
            if result.seed == lowest and (path := folder / str(result.run) / FILE_NAME).is_file()
        }
        if found:
            return noise, found
    return None


def _places(examples: "Examples", kind: str) -> list[int]:
    return [place for place, each in enumerate(examples.kind) if each == kind]


def _cases(found: "dict[str, Examples]") -> list[str]:
    """For each method a table of its worst and its best test pictures."""
    tables = []
    for method, examples in found.items():
        lines = []
        for kind in ("worst", "best"):
            for place in _places(examples, kind):
                shown = [
                    _picture(examples.images[place]),
                    _mask(examples.true[place]),
                    _mask(examples.predicted[place]),
                ]
                score = f"{examples.dice[place]:.1f}"
                alts = [
                    f"test image {examples.index[place]}",
                    "its true mask",
                    f"prediction, Dice {score}%",
                ]
                lines.append(_row(kind, shown, alts, ["", "", score]))
        if lines:
            tables.append(
                f"<details><summary>{html.escape(method)}: worst and best test pictures</summary>"
                f"{_table(['', 'picture', 'true mask', 'prediction'], lines)}</details>"
            )
    return tables


def _table(heads: list[str], lines: list[str]) -> str:
    cells = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in heads)
    return (
        '<div style="overflow-x:auto"><table class="examples" style="border-spacing:6px">'
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _row(head: str, shown: list[str], alts: list[str], notes: list[str]) -> str:
    cells = "".join(
        f'<td style="text-align:center"><img src="data:image/png;base64,{picture}" width="{SIDE}" '
        f'style="image-rendering:auto;display:block" alt="{html.escape(alt)}">'
        f"{html.escape(note)}</td>"
        for picture, alt, note in zip(shown, alts, notes, strict=True)
    )
    return f'<tr><th scope="row">{html.escape(head)}</th>{cells}</tr>'


def _picture(image: NDArray[np.uint8]) -> str:
    colour = image if image.shape[-1] == 3 else np.repeat(image[..., :1], 3, axis=-1)
    return _png(colour)


def _mask(mask: NDArray[np.uint8]) -> str:
    colours = TINTS[[0, *(1 + k % (len(TINTS) - 1) for k in range(VOID))]]
    colours[VOID] = NO_LABEL
    return _png(colours[mask])


def _png(pixels: NDArray[np.uint8]) -> str:
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()
