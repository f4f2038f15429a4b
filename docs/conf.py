# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration."""

from pathlib import Path
from typing import Any

from noiseproof import __version__

project = "noiseproof"
author = "The noiseproof authors"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "noiseproof"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"
suppress_warnings = ["ref.python", "autosectionlabel.*"]


def write_reports(app: Any, exception: Exception | None) -> None:
    """Put the report on each grid with records beside the pages, which link to it."""
    from noiseproof.grids import load, names
    from noiseproof.report import write_report
    from noiseproof.results import gather

    if exception is not None or app.builder.format != "html":
        return
    results = Path(__file__).parent.parent / "results"
    for name in names():
        if (file := results / f"{name}.jsonl").exists():
            found = gather(load(name), files=[file])
            write_report(found, Path(app.outdir) / "reports" / f"{name}.html")


def setup(app: Any) -> None:
    """Hook into the build."""
    app.connect("build-finished", write_reports)
