# SPDX-License-Identifier: Apache-2.0
"""Changed files from good ones, without atheris: a few kinds of damage, drawn from a seed."""

import random
from collections.abc import Iterator, Sequence

STRANGE = (
    b"\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"9" * 400,
    b"[" * 50,
    b"\n",
    b'"',
    b"nan",
    b"-1",
    b"{}",
)
"""Pieces that readers stumble over: bounds of integers, numbers without end, brackets, quotes."""


def mutations(corpus: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """Yield changed files without end, the same ones for the same seed."""
    drawn = random.Random(seed)
    while True:
        content = bytearray(drawn.choice(corpus))
        for _ in range(drawn.choice((1, 1, 1, 2, 4))):
            place = drawn.randrange(len(content) + 1)
            end = min(len(content), place + drawn.choice((1, 1, 2, 8, 64)))
            kind = drawn.randrange(5)
            if kind == 0:
                content[place:end] = drawn.randbytes(end - place)
            elif kind == 1:
                del content[place:end]
            elif kind == 2:
                content[place:place] = drawn.choice(STRANGE)
            elif kind == 3:
                other = drawn.choice(corpus)
                start = drawn.randrange(len(other) + 1)
                content[place:end] = other[start : start + 32]
            elif place < len(content):
                content[place] ^= 1 << drawn.randrange(8)
        yield bytes(content)
