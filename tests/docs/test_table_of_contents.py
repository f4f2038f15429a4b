# SPDX-License-Identifier: Apache-2.0
"""The table of contents has every page once."""

import re

from tests.docs.pages import PAGES, ROOT, blocks_of


def test_every_page_is_in_the_table_of_contents():
    listed = [
        line
        for block in blocks_of(ROOT / "docs" / "index.md")
        if block.language == "{toctree}"
        for line in block.code.splitlines()
        if line and not line.startswith(":")
    ]
    pages = {
        str(page.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES if page.name != "README.md"
    }
    assert sorted(listed) == sorted(pages - {"index"})


def test_its_parts_follow_the_reader():
    captions = re.findall(r"^:caption: (.+)$", (ROOT / "docs" / "index.md").read_text(), re.M)
    assert captions == ["Start", "How-to", "Reference", "Explanation", "Evidence"]
