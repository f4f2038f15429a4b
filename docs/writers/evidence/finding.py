# SPDX-License-Identifier: Apache-2.0
"""What our runs say to a conclusion of the paper."""

from dataclasses import dataclass

YES, NO = "yes", "no"


@dataclass(frozen=True)
class Finding:
    """Whether the conclusion holds, in a word or two, and the numbers behind it."""

    verdict: str
    numbers: str
