# SPDX-License-Identifier: Apache-2.0
"""Files of ``torch.save`` from anywhere: read without running code, and not at all where reading would not end.

``torch.load(weights_only=True)`` runs nothing that a file names. It does build what the file describes, and a few
hundred bytes can describe a tuple that holds the same tuple twice, sixty times over: used as a key, its hash takes
2⁶⁰ steps. So the pickle inside is gone through first, and what every value of it weighs is added up; none is built.
"""

import io
import pickletools
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

HEAVIEST = 1_000_000
"""Of tuples in tuples; weights, optimisers and labels have a few."""

MOST_PICKLES = 16
"""Of a file in torch's old form, which is a row of pickles before the numbers."""


class EndlessFileError(ValueError):
    """A file that would keep its reader busy for ever."""


def load(file: Path | bytes | memoryview, **options: Any) -> Any:
    """Read a file with ``torch.load(weights_only=True)``.

    Args:
        file: its path, or its content.
        **options: of ``torch.load``.

    Raises:
        EndlessFileError: it would take for ever.
    """
    import torch

    with file.open("rb") if isinstance(file, Path) else io.BytesIO(file) as stream:
        _refuse_endless(stream)
    return torch.load(file if isinstance(file, Path) else io.BytesIO(file), weights_only=True, **options)


def load_arrays(path: Path) -> Any:
    """Read a file that holds NumPy arrays of whole numbers too, as the official label files of CIFAR-N do.

    Raises:
        EndlessFileError: it would take for ever.
    """
    import torch

    with torch.serialization.safe_globals(array_globals()):
        return load(path, map_location="cpu")


def array_globals() -> list[Any]:
    """What pickled arrays name, and no more: two functions that rebuild them, their types, and the text codec."""
    import _codecs

    import numpy as np

    core: Any = getattr(np, "_core", None) or np.core  # NumPy 2 renamed it; files keep the old name
    return [
        (core.multiarray._reconstruct, "numpy.core.multiarray._reconstruct"),
        (core.multiarray.scalar, "numpy.core.multiarray.scalar"),
        np.ndarray,
        np.dtype,
        np.dtypes.Int64DType,
        _codecs.encode,
    ]


def _refuse_endless(stream: BinaryIO) -> None:
    if stream.read(4) == b"PK\x03\x04":
        with zipfile.ZipFile(stream) as archive:
            for member in archive.infolist():
                if member.filename.lower().endswith(".pkl"):
                    with archive.open(member) as program:
                        _weigh(program)
        return
    stream.seek(0)
    for _ in range(MOST_PICKLES):
        if not _weigh(stream):
            return


def _weigh(program: Any) -> bool:
    """Go through one pickle; whether it was one. What is damaged is left to torch, which says so."""
    stack: list[int] = []
    marks: list[int] = []
    memo: dict[int, int] = {}
    try:
        for instruction, argument, _ in pickletools.genops(program):
            name = instruction.name
            if name == "MARK":
                marks.append(len(stack))
            elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
                memo[len(memo) if argument is None else int(argument)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                stack.append(memo[int(argument or 0)])
            else:
                weight = _result_of(instruction, stack, marks)
                stack += [weight] * len(instruction.stack_after)
    except EndlessFileError:
        raise
    except Exception:
        return False
    return True


def _result_of(instruction: Any, stack: list[int], marks: list[int]) -> int:
    """The weight of what an instruction leaves on the stack: of all that it takes from there, and one."""
    before = instruction.stack_before
    start = len(stack) - len(before)
    if pickletools.markobject in before:
        start = marks.pop() - before.index(pickletools.markobject)
    weight = 1 + sum(stack[start:])
    del stack[start:]
    if instruction.stack_after[:1] in ([pickletools.pylist], [pickletools.pydict]):
        return 1  # lists and dictionaries have no hash: they weigh nothing in a key
    if weight > HEAVIEST and instruction.stack_after == [pickletools.pytuple]:
        raise EndlessFileError("it holds tuples in tuples without end")
    return min(weight, HEAVIEST)
