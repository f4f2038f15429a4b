# SPDX-License-Identifier: Apache-2.0
"""The short names of noise that tables, files and commands use: ``sym-0.8``, ``asym-0.4``, ``real``, …"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from noiseproof.noise.checks import checked_choice, checked_rate

_NUMBERS: dict[str, tuple[str, ...]] = {
    "clean": (),
    "sym": ("rate",),
    "asym": ("rate",),
    "dep": ("rate",),
    "real": (),
    "open": ("rate",),
    "masks": ("share", "strength"),
}
NUMBERS_OF_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(_NUMBERS)
"""Each kind of noise with the numbers that follow it in a name."""


def add_kind(kind: str) -> None:
    """Make a name known, to be followed by a rate."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", kind):
        raise ValueError(f"kind: expected small letters, digits and _, such as 'blur', got {kind!r}")
    if kind in _NUMBERS:
        raise ValueError(f"kind: {kind!r} is known already; choose another name")
    _NUMBERS[kind] = ("rate",)


@dataclass(frozen=True)
class NoiseName:
    """A kind of noise and its numbers, written as one short name.

    Attributes:
        kind: ``clean``, ``sym``, ``asym``, ``dep`` (instance-dependent), ``real`` (human labels), ``open``
            (open-set) or ``masks``.
        rate: The rate, or for masks the share of corrupted ones; None for ``clean`` and ``real``.
        strength: For masks, how strongly; else None.

    Examples:
        >>> parse_name("sym-0.8")
        NoiseName(kind='sym', rate=0.8, strength=None)
        >>> str(parse_name("masks-0.70-0.5"))
        'masks-0.7-0.5'
    """

    kind: str
    rate: float | None = None
    strength: float | None = None

    def __post_init__(self) -> None:
        wanted = NUMBERS_OF_KIND[checked_choice(self.kind, NUMBERS_OF_KIND, "kind")]
        for position, (name, value) in enumerate((("rate", self.rate), ("strength", self.strength))):
            if (value is not None) != (position < len(wanted)):
                numbers = " and ".join(wanted) or "no numbers"
                raise ValueError(f"{self.kind} noise must have {numbers}, got {name}={value}")
            if value is not None:
                object.__setattr__(self, name, checked_rate(value, wanted[position]))

    def __str__(self) -> str:
        numbers = [value for value in (self.rate, self.strength) if value is not None]
        return "-".join([self.kind, *(f"{value:g}" for value in numbers)])


def parse_name(name: str) -> NoiseName:
    """Read a short name; one that is not known is refused with the nearest that is.

    Examples:
        >>> parse_name("real").kind
        'real'
        >>> parse_name("asim-0.4")
        Traceback (most recent call last):
        ValueError: noise must be one of clean, sym-RATE, ... got 'asim-0.4'. Did you mean 'asym-0.4'?
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a text such as 'sym-0.8', got {type(name).__name__}")
    kind, *numbers = name.strip().split("-")
    if kind not in NUMBERS_OF_KIND:
        nearest = difflib.get_close_matches(kind, NUMBERS_OF_KIND, n=1, cutoff=0.4)
        hint = f" Did you mean {'-'.join([nearest[0], *numbers])!r}?" if nearest else ""
        raise ValueError(
            f"noise must be one of {', '.join(map(_form, NUMBERS_OF_KIND))}, got {name!r}.{hint}"
        )
    wanted = NUMBERS_OF_KIND[kind]
    if len(numbers) != len(wanted) or not all(re.fullmatch(r"\d+(\.\d+)?|\.\d+", text) for text in numbers):
        raise ValueError(f"noise must have the form {_form(kind)}, numbers in [0, 1], got {name!r}")
    return NoiseName(kind, *(float(text) for text in numbers))


def _form(kind: str) -> str:
    return "-".join([kind, *(number.upper() for number in NUMBERS_OF_KIND[kind])])
