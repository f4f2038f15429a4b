# SPDX-License-Identifier: Apache-2.0
"""CSV cells: a spreadsheet finds no formula in them, whatever it splits lines at, and the text comes back whole."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noiseproof.spreadsheet import original_text, safe_cell

FORMULA_SIGNS = "=+-@＝＋－＠"
TEXT = st.text(st.sampled_from("=+-@＝'\";,\t\r\n a1\ufeff\0") | st.characters(codec="utf-8"), max_size=30)


def as_a_spreadsheet_sees_it(written: str, separator: str) -> list[str]:
    """Every cell, split by hand: quotes hide separators only where a cell begins with one."""
    cells, cell, quoted = [], "", False
    for letter in written.replace('""', ""):
        if letter == '"' and (quoted or not cell.strip()):
            quoted = not quoted
        elif not quoted and letter in (separator, "\n", "\r"):
            cells.append(cell)
            cell = ""
        else:
            cell += letter
    return [*cells, cell]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@given(TEXT)
@example("=1+1")
@example("cat;=1+1")
@example('cat;"=1+1"')
@example("cat\n=1+1")
@example("\t=cmd|' /C calc'!A0")
@example("\ufeff@SUM(1)")
@example(' "-1')
def test_no_cell_begins_with_a_formula(separator, text):
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow(["0", safe_cell(text), "end"])
    for cell in as_a_spreadsheet_sees_it(buffer.getvalue(), separator):
        assert not cell.strip(' \t\r\n"\0\ufeff').startswith(tuple(FORMULA_SIGNS)), buffer.getvalue()


@given(TEXT)
@example("''=")
@example("'tis")
@example("\t\t'=;'';=")
def test_the_text_comes_back(text):
    assert original_text(safe_cell(text)) == text


@pytest.mark.parametrize("text", ["cat", "", "photos/cat 1.jpg", "a-b", "O'Brien", "кот", "猫", "1.5", "🐈"])
def test_ordinary_text_is_left_alone(text):
    assert safe_cell(text) == text
