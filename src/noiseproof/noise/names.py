# SPDX-License-Identifier: Apache-2.0
"""The short names of noise that tables, files and commands use: ``sym-0.8``, ``asym-0.4``, ``real``, …

A generator other than the published one is named after the rate: ``sym-0.8-bernoulli``. Noise that lies in a file
is named by its path, ``file:PATH``; :func:`short_name` is what tables call it.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from noiseproof.noise.checks import checked_choice, checked_rate
from noiseproof.noise.drawing import TRANSITION_GENERATORS
from noiseproof.noise.instance_dependent import GENERATORS as INSTANCE_DEPENDENT_GENERATORS
from noiseproof.noise.symmetric import GENERATORS as SYMMETRIC_GENERATORS

_NUMBERS: dict[str, tuple[str, ...]] = {
    "clean": (),
    "sym": ("rate",),
    "asym": ("rate",),
    "dep": ("rate",),
    "real": (),
    "open": ("rate",),
    "masks": ("share", "strength"),
    "file": (),
}
NUMBERS_OF_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(_NUMBERS)
"""Each kind of noise with the numbers that follow it in a name."""

GENERATORS_OF_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sym": SYMMETRIC_GENERATORS,
        "asym": TRANSITION_GENERATORS,
        "dep": tuple(INSTANCE_DEPENDENT_GENERATORS),
    }
)
"""Generators of each kind that has several; the first is the published one, which names leave out."""

FILE = "file:"
"""How the name of noise in a file begins; its path follows."""

FILE_ENDINGS = (".npz", ".npy", ".csv", ".txt")
"""Files that noise is read from."""

LONGEST_SHORT_NAME = 40
"""Characters of a file's name in a table."""


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
            (open-set), ``masks`` or ``file``.
        rate: The rate, or for masks the share of corrupted ones; None for ``clean``, ``real`` and ``file``.
        strength: For masks, how strongly; else None.
        path: Of the file that the noise lies in; else None.
        generator: How it is drawn, where not as published; see :data:`GENERATORS_OF_KIND`.

    Examples:
        >>> parse_name("sym-0.8")
        NoiseName(kind='sym', rate=0.8, strength=None, path=None, generator=None)
        >>> parse_name("sym-0.8-bernoulli").generator
        'bernoulli'
        >>> str(parse_name("masks-0.70-0.5"))
        'masks-0.7-0.5'
        >>> parse_name("file:labels/noisy.npz").path
        'labels/noisy.npz'
    """

    kind: str
    rate: float | None = None
    strength: float | None = None
    path: str | None = None
    generator: str | None = None

    def __post_init__(self) -> None:
        wanted = NUMBERS_OF_KIND[checked_choice(self.kind, NUMBERS_OF_KIND, "kind")]
        if bool(self.path) != (self.kind == "file"):
            expected = "the path of a file" if self.kind == "file" else "no path"
            raise ValueError(f"{self.kind} noise must have {expected}, got path={self.path!r}")
        for position, (name, value) in enumerate((("rate", self.rate), ("strength", self.strength))):
            if (value is not None) != (position < len(wanted)):
                numbers = " and ".join(wanted) or "no numbers"
                raise ValueError(f"{self.kind} noise must have {numbers}, got {name}={value}")
            if value is not None:
                object.__setattr__(self, name, checked_rate(value, wanted[position]))
        if self.generator is not None:
            known = GENERATORS_OF_KIND.get(self.kind, ())
            if not known:
                raise ValueError(f"{self.kind} noise has one generator only, got {self.generator!r}")
            if checked_choice(self.generator, known, "generator") == known[0]:
                object.__setattr__(self, "generator", None)

    def __str__(self) -> str:
        if self.path is not None:
            return FILE + self.path
        numbers = [value for value in (self.rate, self.strength) if value is not None]
        drawn = [] if self.generator is None else [self.generator]
        return "-".join([self.kind, *(f"{value:g}" for value in numbers), *drawn])


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
    if name.strip().startswith(FILE):
        if not (path := name.strip().removeprefix(FILE).strip()):
            raise ValueError(f"noise must have the form {_form('file')}, got {name!r}")
        return NoiseName("file", path=path)
    kind, *numbers = name.strip().split("-")
    if kind not in NUMBERS_OF_KIND:
        letters = kind.rstrip("0123456789.")
        numbers = [text for text in (kind[len(letters) :], *numbers) if text]  # sym0.4 for sym-0.4
        nearest = difflib.get_close_matches(letters, NUMBERS_OF_KIND, n=1, cutoff=0.5)
        meant = "-".join([nearest[0], *numbers]) if nearest else None
        if name.strip().lower().endswith(FILE_ENDINGS):
            meant = FILE + name.strip()
        hint = f" Did you mean {meant!r}?" if meant else ""
        raise ValueError(
            f"noise must be one of {', '.join(map(_form, NUMBERS_OF_KIND))}, got {name!r}.{hint}"
        )
    wanted = NUMBERS_OF_KIND[kind]
    if kind == "file":
        raise ValueError(f"noise must have the form {_form(kind)}, got {name!r}")
    generator = None
    if kind in GENERATORS_OF_KIND and len(numbers) > len(wanted):
        numbers, generator = numbers[: len(wanted)], "-".join(numbers[len(wanted) :])
    if len(numbers) != len(wanted) or not all(re.fullmatch(r"\d+(\.\d+)?|\.\d+", text) for text in numbers):
        raise ValueError(f"noise must have the form {_form(kind)}, numbers in [0, 1], got {name!r}")
    rate, strength, *_ = (*(float(text) for text in numbers), None, None)
    return NoiseName(kind, rate, strength, generator=generator)


def short_name(noise: str) -> str:
    """The name of a noise in tables, reports and runs: of a file its own, without folder and ending.

    Examples:
        >>> short_name("file:/data/labels/noisy.npz"), short_name("sym-0.8")
        ('file:noisy', 'sym-0.8')
    """
    if not noise.startswith(FILE):
        return noise
    stem = os.path.basename(noise.removeprefix(FILE).replace("\\", "/").rstrip("/"))
    while stem.lower().endswith(FILE_ENDINGS) and len(stem) > 4:
        stem = stem[:-4]
    # A comma parts noises on the command line.
    stem = "".join(c if c.isprintable() and c != "," else "-" for c in stem)
    if len(stem) > LONGEST_SHORT_NAME:
        head = LONGEST_SHORT_NAME // 2
        stem = f"{stem[:head]}…{stem[head + 1 - LONGEST_SHORT_NAME :]}"
    return FILE + stem


def _form(kind: str) -> str:
    if kind == "file":
        return f"{FILE}PATH"
    return "-".join([kind, *(number.upper() for number in NUMBERS_OF_KIND[kind])])
