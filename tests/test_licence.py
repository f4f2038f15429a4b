# SPDX-License-Identifier: Apache-2.0
"""Every source file says under which licence it stands, and it is the project's."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "benchmarks", "examples", "docs", "fuzz", "tools")
LINE = "# SPDX-License-Identifier: Apache-2.0"


def test_every_source_file_says_its_licence():
    files = [
        file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py") if "_build" not in file.parts
    ]
    assert len(files) > 400
    silent = [
        str(file.relative_to(ROOT)) for file in files if LINE not in file.read_text("utf-8").splitlines()[:2]
    ]
    assert not silent, f"put this line first: {LINE}"


def test_it_is_the_licence_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["license"] == LINE.split(": ")[1]
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
