# SPDX-License-Identifier: Apache-2.0
"""How generated pages set their text."""

from textwrap import wrap

WIDTH = 120


def wrapped(text: str, first: str = "") -> list[str]:
    """A paragraph, or an item of a list, as lines of the house's width."""
    return wrap(
        first + text,
        WIDTH,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
