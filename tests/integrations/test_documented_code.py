# SPDX-License-Identifier: Apache-2.0
"""The code of docs/integrations.md runs, where its library is installed."""

import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/integrations.md"
LIBRARIES = {
    "Lightning": "lightning",
    "Hugging Face Trainer": "transformers",
    "Keras 3": "keras",
    "skorch": "skorch",
}

WITH_CODE = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", re.S | re.M)
SECTIONS = dict(WITH_CODE.findall(PAGE.read_text()))


def test_every_section_with_code_is_known():
    assert set(SECTIONS) == {"Any loop at all", "MONAI", *LIBRARIES}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_code_runs(title, monkeypatch, tmp_path):
    library = LIBRARIES.get(title)
    if library is not None and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    monkeypatch.chdir(tmp_path)
    exec(compile(SECTIONS[title], PAGE.name, "exec"), {"__name__": "document"})
