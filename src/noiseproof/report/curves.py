"""Accuracy by epoch, one small panel a run, as SVG."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseproof.training.store import RunRecord

LINES = (
    ("clean_accuracy", "training, right labels", "#1f6fb4", "-"),
    ("flipped_accuracy", "training, wrong labels", "#b3402a", "-"),
    ("test_accuracy", "test", "#2c2c2c", "--"),
)


def accuracy_curves(records: "Sequence[RunRecord]", columns: int = 2) -> str:
    """Draw training accuracy on right and wrong labels and test accuracy by epoch; returns SVG text.

    Accuracy on wrong labels is measured against those labels: the lower it stays, the less was learned by heart.
    """
    from matplotlib.figure import Figure

    rows = -(-len(records) // columns)
    figure = Figure(figsize=(4.2 * columns, 2.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    for panel, record in zip(panels, records, strict=False):
        for key, label, colour, style in LINES:
            points = [(i + 1, m[key]) for i, m in enumerate(record.epochs) if m.get(key) is not None]
            if points:
                panel.plot(*zip(*points, strict=True), color=colour, linestyle=style, label=label)
        panel.set_title(str(record.config["loss"]), parse_math=False)
        panel.set_ylim(0, 100)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in list(panels)[len(records) :]:
        panel.set_visible(False)
    axes = figure.axes
    axes[0].set_ylabel("accuracy, %")
    axes[max(0, len(records) - 1)].set_xlabel("epoch")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
