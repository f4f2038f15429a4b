# SPDX-License-Identifier: Apache-2.0
"""The code behind generated pages, which is no package."""

import importlib
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages():
    """Imports a module of docs/ by its name."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(DOCS))
