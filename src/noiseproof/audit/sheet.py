# SPDX-License-Identifier: Apache-2.0
"""A page of the most suspect labels, to be looked through by a person: one file, no network, works from disk."""

import base64
import hashlib
import io
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from PIL import Image

from noiseproof.audit.dynamics import Dynamics
from noiseproof.audit.files import likely_flips, replacing
from noiseproof.audit.scores import LabelAudit
from noiseproof.datasets import LabeledData
from noiseproof.datasets.decode import decode_rgb
from noiseproof.spreadsheet import safe_cell

SHEET = "sheet.html"
MOST_SHOWN = 200
THUMBNAIL = 128


@dataclass(frozen=True)
class Card:
    """One suspect on the page."""

    index: int
    path: str
    path_in_table: str
    given: str
    given_in_table: str
    suggested: str
    suggested_in_table: str
    score: float
    picture: str
    trouble: str
    evidence: tuple[str, ...]


def write_sheet(
    found: LabelAudit,
    data: LabeledData,
    path: Path,
    *,
    dynamics: Dynamics | None = None,
    shown: int = MOST_SHOWN,
    source: str | None = None,
) -> int:
    """Write the page of the worst cases; all text from labels and file names is escaped. Returns how many."""
    import jinja2

    order = found.worst_first
    worst = order[found.suspect[order]][:shown]
    cards = [_card(found, data, index, dynamics) for index in worst.tolist()]
    script = _resource("sheet.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = environment.from_string(_resource("sheet.html")).render(
        data=data.name,
        source=source or "DATA",
        folder=path.parent,
        cards=cards,
        samples=len(found),
        suspects=int(found.suspect.sum()),
        rate=100 * found.noise_rate,
        disagreement=100 * found.disagreement,
        score=found.score_name,
        flips=likely_flips(found, data.class_names),
        classes=data.class_names,
        style=_resource("sheet.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    with replacing(path) as file:
        # What is no text in a file name cannot stand on a page.
        file.write(page.encode("utf-8", "replace").decode("utf-8"))
    return len(cards)


def _resource(name: str) -> str:
    return (resources.files("noiseproof.audit") / "templates" / name).read_text(encoding="utf-8")


def _card(found: LabelAudit, data: LabeledData, index: int, dynamics: Dynamics | None) -> Card:
    picture, trouble = _picture(data, index)
    path = str(data.paths[index]) if data.paths is not None else ""
    given, suggested = data.class_names[found.given[index]], data.class_names[found.suggested[index]]
    return Card(
        index,
        path,
        safe_cell(path),
        given,
        safe_cell(given),
        suggested,
        safe_cell(suggested),
        float(found.scores[index]),
        picture,
        trouble,
        _evidence(found, data, index, dynamics),
    )


def _evidence(found: LabelAudit, data: LabeledData, index: int, dynamics: Dynamics | None) -> tuple[str, ...]:
    given, suggested = int(found.given[index]), int(found.suggested[index])
    names = data.class_names
    lines = [
        f"predicted: {names[suggested]} {found.probability_of_suggested[index]:.0%}, "
        f"{names[given]} {found.probability_of_given[index]:.0%}"
    ]
    share = found.transition[suggested, given]
    if suggested != given:
        lines.append(f"about {share:.0%} of all {names[suggested]} are labelled {names[given]}")
    if dynamics is not None:
        for what, values in (
            ("loss", dynamics.loss),
            ("margin", dynamics.margin),
            ("∂NNCE", dynamics.pull),
        ):
            moved = " → ".join(f"{value:.2g}" for value in values[:, index])
            lines.append(f"{what} from start to end: {moved}")
    return tuple(lines)


def _picture(data: LabeledData, index: int) -> tuple[str, str]:
    """A small picture as data, or why there is none."""
    try:
        if data.images is not None:
            array = np.asarray(data.images[index])
            picture = Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).convert("RGB")
        else:
            assert data.paths is not None
            picture = decode_rgb(data.paths[index], at_least=lambda _: (THUMBNAIL, THUMBNAIL))
    except (OSError, ValueError) as error:  # the file may be gone since
        return "", str(error)
    picture.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    form, options = ("JPEG", {"quality": 85}) if max(picture.size) > 64 else ("PNG", {})
    written = io.BytesIO()
    picture.save(written, form, **options)
    encoded = base64.b64encode(written.getvalue()).decode()
    return f"data:image/{form.lower()};base64,{encoded}", ""
