# SPDX-License-Identifier: Apache-2.0
"""The code of docs/sklearn.md runs, and its table of automatic numbers is the code's."""

import re
from pathlib import Path

from noiseproof.sklearn import automatic

PAGE = (Path(__file__).parents[2] / "docs/sklearn.md").read_text()


def test_code_in_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/sklearn.md", "exec"), {"__name__": "document"})


def test_the_page_says_what_the_code_does():
    chosen = automatic("anl-ce", 10_000, 10)
    assert "0.03/√n, at most 0.003" in PAGE
    assert automatic("anl-ce", 1, 10)["l1"].value == 0.003
    assert chosen["l1"].value == 0.0003
    own = automatic("anl-ce", 10_000, 10, own_network=True)
    assert (own["l1"].value, own["learning_rate"].value) == (5e-5, 0.001)
    assert automatic("anl-ce", 10_000, 51, own_network=True)["l1"].value == 5e-7
