# SPDX-License-Identifier: Apache-2.0
"""Text in CSV files that no spreadsheet takes for a formula.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@``, and a class name or a file name may
come from anywhere. An apostrophe in front makes such a cell plain text. Where a spreadsheet splits lines at
semicolons or tabs instead of commas, what follows one of those is the beginning of a cell too; so is what
follows a line break.
"""

import re

_BEGINNING = r"""(?:^|[;\t\r\n])[\s"\0\ufeff]*"""
_SIGNS = r"=+\-@＝＋－＠"
_RISKY = re.compile(rf"{_BEGINNING}(?=[{_SIGNS}'])")
_GUARDED = re.compile(rf"({_BEGINNING})'(?=[{_SIGNS}']|\d+$)")


def safe_cell(text: str) -> str:
    """Text for a CSV cell, with an apostrophe before what a spreadsheet would run.

    An apostrophe that stands there already is doubled, so that :func:`original_text` gives back exactly what
    was written.

    >>> safe_cell('=HYPERLINK("http://x")'), safe_cell("cat"), safe_cell("cat;=1+1")
    ('\\'=HYPERLINK("http://x")', 'cat', "cat;'=1+1")
    """
    return _RISKY.sub(lambda found: f"{found[0]}'", text)


def number_as_text(text: str) -> str:
    """A cell for digits that are a name and no number, marked as spreadsheets mark them.

    >>> number_as_text("2023")
    "'2023"
    """
    return f"'{text}"


def is_number_as_text(cell: str) -> bool:
    """Whether a cell holds digits that are marked as a name.

    >>> is_number_as_text("'2023"), is_number_as_text("2023"), is_number_as_text("'tis")
    (True, False, False)
    """
    return cell.startswith("'") and cell[1:].isdecimal()


def original_text(cell: str) -> str:
    """The text that :func:`safe_cell` or :func:`number_as_text` was given.

    >>> original_text("'=1+1"), original_text("'tis a cat"), original_text("'2023")
    ('=1+1', "'tis a cat", '2023')
    """
    return _GUARDED.sub(r"\1", cell)
