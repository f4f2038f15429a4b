# SPDX-License-Identifier: Apache-2.0
"""The code behind generated pages, which is no part of the package."""

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages():
    """Imports a module of docs/writers by its name there."""
    sys.path.insert(0, str(DOCS))
    try:
        yield lambda name: importlib.import_module(f"writers.{name}")
    finally:
        sys.path.remove(str(DOCS))
