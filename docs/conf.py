# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration."""

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
