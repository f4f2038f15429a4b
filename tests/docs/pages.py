# SPDX-License-Identifier: Apache-2.0
"""The pages of the documentation as their readers see them: blocks of code, and commands in them and in the text.

A comment on its own line before a block of Python says when the block cannot be run:

    <!-- not run: REASON -->
    <!-- run where installed: LIBRARY -->
    <!-- run where fetched: DATA SET -->
"""

import importlib.util
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if "_build" not in page.parts]

MARK = re.compile(r"<!-- (not run|run where installed|run where fetched): (.+) -->")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: the file it stands in.
        line: the line of the file on which its code begins, counted from 1.
        language: what stands behind the opening fence.
        code: its text.
        comment: an HTML comment on the line before it, blank lines aside.
    """

    page: Path
    line: int
    language: str
    code: str
    comment: str = ""

    @property
    def name(self) -> str:
        """Where to find it."""
        return f"{name_of(self.page)}:{self.line}"

    def left_out_because(self) -> str | None:
        """Why it cannot be run here, if it cannot."""
        mark = MARK.fullmatch(self.comment)
        if mark is None:
            return None
        kind, what = mark.groups()
        if kind == "not run":
            return what
        if kind == "run where installed":
            return None if importlib.util.find_spec(what) else f"{what} is not installed"
        return None if _is_fetched(what) else f"{what} is not in the data folder: noiseproof data get {what}"


def _is_fetched(dataset: str) -> bool:
    from noiseproof import datasets

    try:
        datasets.load(dataset)
    except datasets.DataError:
        return False
    return True


def name_of(page: Path) -> str:
    """A page's path in the repository."""
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page, in order."""
    blocks: list[Block] = []
    lines = page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opening = re.fullmatch(r"\s*(```+)\s*(\S*).*", lines[number])
        number += 1
        if opening is None:
            continue
        start = number
        while lines[number].strip() != opening[1]:  # a fence without an end: IndexError
            number += 1
        code = textwrap.dedent("\n".join(lines[start:number]))
        before = next((line.strip() for line in reversed(lines[: start - 1]) if line.strip()), "")
        comment = before if before.startswith("<!--") else ""
        blocks.append(Block(page, start + 1, opening[2], code, comment))
        number += 1
    return blocks


def spans_of(page: Path) -> list[tuple[int, str]]:
    """Code within the text of a page, with its line."""
    text = re.sub(
        r"^\s*```.*?^\s*```$", lambda m: "\n" * m[0].count("\n"), page.read_text(), flags=re.M | re.S
    )
    return [
        (text[: match.start()].count("\n") + 1, match[1].replace("\n", " "))
        for match in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text)
    ]


def script_of(blocks: list[Block]) -> str:
    """Blocks as one program, each line where the page has it, so that errors name the page's lines."""
    lines: list[str] = []
    for block in blocks:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.code.splitlines()
    return "\n".join(lines) + "\n"
