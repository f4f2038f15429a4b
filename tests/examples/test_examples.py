# SPDX-License-Identifier: Apache-2.0
"""Every example runs in its short form. (digits.py and multilabel.py run among the documents' tests.)"""

import difflib
import re
from pathlib import Path

import pytest
from tests import warm

ROOT = Path(__file__).parents[2]

SAID = {
    "image_folder": r"(\d+) really are; \d+ of them are on the list",
    "plain_torch": r"accuracy on clean test labels: [\d.]+%",
    "plain_torch_noiseproof": r"accuracy on clean test labels: [\d.]+%",
    "segmentation": r"anl-ce +Dice [\d.]+% on clean test masks",
    "tabular": r"\d+ labels suspected, \d+ of them wrong",
    "text": r"anl-ce +[\d.]+% on clean test labels",
}


@pytest.mark.parametrize("name", SAID)
def test_the_short_form_runs(name):
    done = warm.run([f"examples/{name}.py", "--quick"], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.search(SAID[name], done.stdout), done.stdout


def test_no_example_is_left_out():
    elsewhere = {"digits", "multilabel"}
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(SAID) | elsewhere


def test_the_two_plain_loops_differ_in_four_lines_of_code():
    """Imports, loss, optimiser and penalty: what the pair of files is there to show."""
    code = [
        (ROOT / f"examples/{name}.py").read_text().split('"""')[2].splitlines()
        for name in ("plain_torch", "plain_torch_noiseproof")
    ]
    added = [line for line in difflib.ndiff(*code) if line.startswith("+ ")]
    assert len(added) == 4
