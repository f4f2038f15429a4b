# SPDX-License-Identifier: Apache-2.0
"""Small panels of curves in percent, written as SVG directly: hundreds weigh little and are drawn at once."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from noiseproof.report.words import words_of
from noiseproof.results import Result

WIDTH, HEIGHT = 300, 180
"""Of a panel with axes of its own."""

SMALL_WIDTH, SMALL_HEIGHT = 120, 72
"""Of a panel in a matrix, whose axes are at its edges."""

LINES = (("flipped", "f"), ("clean", "c"), ("test", "t"))
"""Field of the curves, CSS class; drawn in this order, test on top."""


@dataclass(frozen=True)
class Frame:
    """Where a panel's curves lie in its picture."""

    left: float
    top: float
    right: float
    bottom: float
    epochs: int

    def x(self, epoch: float) -> float:
        """Place of an epoch, counted from 1."""
        return self.left + (self.right - self.left) * (epoch - 1) / max(1, self.epochs - 1)

    def y(self, percent: float) -> float:
        """Place of a percentage."""
        return self.bottom + (self.top - self.bottom) * percent / 100


def longest(results: Iterable[Result]) -> int:
    """Epochs of the longest run."""
    return max((len(result.curves.test) for result in results), default=1)


def small_panel(results: Sequence[Result], epochs: int, name: str) -> str:
    """Return a panel without axes: grid lines at 0, 50 and 100 percent, a line for each seed."""
    frame = Frame(2, 4, SMALL_WIDTH - 2, SMALL_HEIGHT - 4, epochs)
    grid = "".join(
        f'<path class="g" d="M{frame.left:g} {frame.y(level):g}H{frame.right:g}"/>' for level in (0, 50, 100)
    )
    box = f"0 0 {SMALL_WIDTH} {SMALL_HEIGHT}"
    return (
        f'<svg class="panel small" viewBox="{box}" preserveAspectRatio="none" role="img">'
        f"{_words(results, name)}{grid}{_paths(results, frame)}</svg>"
    )


def large_panel(results: Sequence[Result], epochs: int, name: str) -> str:
    """Return a panel with axes: percent by epoch, a line for each seed."""
    frame = Frame(34, 8, WIDTH - 14, HEIGHT - 34, epochs)
    parts = []
    for level in (0, 25, 50, 75, 100):
        y = frame.y(level)
        parts.append(f'<path class="g" d="M{frame.left:g} {y:g}H{frame.right:g}"/>')
        parts.append(f'<text class="y" x="{frame.left - 5:g}" y="{y + 3.5:g}">{level}</text>')
    for epoch in _marks(epochs):
        parts.append(f'<text class="x" x="{frame.x(epoch):g}" y="{frame.bottom + 14:g}">{epoch}</text>')
    middle = (frame.left + frame.right) / 2
    parts.append(f'<text class="x" x="{middle:g}" y="{HEIGHT - 5}">epoch</text>')
    return (
        f'<svg class="panel large" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{_words(results, name)}'
        f"{''.join(parts)}{_paths(results, frame)}</svg>"
    )


def side_axis() -> str:
    """Return the percent axis at the left of a row of small panels."""
    frame = Frame(2, 4, SMALL_WIDTH - 2, SMALL_HEIGHT - 4, 1)
    words = "".join(
        f'<text class="y" x="26" y="{frame.y(level) + 3:g}">{level}</text>' for level in (0, 50, 100)
    )
    return f'<svg class="axis" viewBox="0 0 28 {SMALL_HEIGHT}" aria-hidden="true">{words}</svg>'


def bottom_axis(epochs: int) -> str:
    """Return the axis of epochs below a column of small panels."""
    return (
        f'<div class="epochs" aria-hidden="true"><span>1</span><span>epoch</span><span>{epochs}</span></div>'
    )


def _marks(epochs: int) -> list[int]:
    """Epochs to write at the axis: the first, the last, and round ones between."""
    step = next((s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500) if epochs / s <= 5), epochs)
    between = [epoch for epoch in range(step, epochs, step) if epoch > step / 2 and epochs - epoch > step / 2]
    return sorted({1, *(epoch for epoch in between if epoch > 1), epochs})


def _paths(results: Sequence[Result], frame: Frame) -> str:
    paths = []
    for field, short in LINES:
        strokes = "".join(_stroke(getattr(result.curves, field), frame) for result in results)
        if strokes:
            paths.append(f'<path class="{short}" d="{strokes}"/>')
    return "".join(paths)


def _stroke(values: Sequence[float | None], frame: Frame) -> str:
    """One curve, in tenths of a unit and relative steps, which halves its length; a gap where none was measured."""
    text: list[str] = []
    before: tuple[int, int] | None = None
    measured = [(epoch, value) for epoch, value in enumerate(values, 1) if value is not None]
    for epoch, value in measured:
        here = round(10 * frame.x(epoch)), round(10 * frame.y(value))
        if before is None:
            text.append(f"M{here[0] / 10:g} {here[1] / 10:g}l")
            if len(measured) == 1:
                text.append("0 .1")
        else:
            text.append(f"{_tenths(here[0] - before[0])} {_tenths(here[1] - before[1])} ")
        before = here
    return "".join(text).rstrip()


def _tenths(value: int) -> str:
    """A number of tenths without a zero before the point: 7 is .7, -7 is -.7, but 107 is 10.7."""
    text = f"{abs(value) / 10:g}"
    sign = "-" if value < 0 else ""
    return sign + (text[1:] if text.startswith("0.") else text)


def _words(results: Sequence[Result], name: str) -> str:
    """Title and description, for those who cannot see the curves."""
    said = []
    words = words_of(results)
    for field, _ in reversed(LINES):
        values = [v for result in results if (v := _last(getattr(result.curves, field))) is not None]
        if values:
            said.append(f"{words.of_curve(field)} {sum(values) / len(values):.1f}")
    seeds = ", ".join(str(result.seed) for result in results)
    description = (
        f"Percent at the last epoch: {'; '.join(said)}. Seeds {seeds}." if said else "Nothing recorded."
    )
    return f"<title>{html.escape(name)}</title><desc>{html.escape(description)}</desc>"


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)
