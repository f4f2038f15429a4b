# SPDX-License-Identifier: Apache-2.0
"""Read the official CIFAR pickles without unpickling: no code named in the file is ever looked up or called.

A pickle is a program for a stack machine. This reader runs the few instructions the official files use
(written by Python 2's cPickle, protocol 2) on its own stack, where a name such as
``numpy.core.multiarray._reconstruct`` is only a mark. The one thing that is built from such marks is an
array of unsigned bytes, from its raw bytes. Anything else in the file refuses it.
"""

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets.errors import BadFileError

MOST_BYTES = 1 << 28  # CIFAR-100's train file, the largest, has 155 MB
MOST_DIMENSIONS = 4

_RECONSTRUCT = "numpy.core.multiarray _reconstruct"
_NDARRAY = "numpy ndarray"
_DTYPE = "numpy dtype"


@dataclass(frozen=True)
class _Name:
    """A name the file mentions: kept as text, never looked up."""

    text: str


@dataclass
class _Dtype:
    is_bytes: bool = False


@dataclass
class _Array:
    values: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, dtype=np.uint8))


_MARK = object()
_ALLOWED_NAMES = frozenset({_RECONSTRUCT, _NDARRAY, _DTYPE})


class _Refused(Exception):
    pass


def read(path: Path) -> dict[str, Any]:
    """Read one official CIFAR pickle: a dictionary of text, numbers, lists of those and arrays of bytes.

    Raises:
        BadFileError: the file is damaged, or holds anything an official file does not.

    Example:
        >>> import pickle, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "batches.meta"
        ...     _ = path.write_bytes(pickle.dumps({"num_vis": 3072}, protocol=2))
        ...     read(path)
        {'num_vis': 3072}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "data_batch_1"
        ...     _ = path.write_bytes(pickle.dumps(print, protocol=2))
        ...     read(path)
        Traceback (most recent call last):
        ...
        noiseproof.datasets.errors.BadFileError: ...: expected an official CIFAR pickle, found the name ...
    """
    expected = "an official CIFAR pickle"
    if path.stat().st_size > MOST_BYTES:
        raise BadFileError(path, f"{expected} of at most {MOST_BYTES} bytes", f"{path.stat().st_size}")
    try:
        result = _run(path.read_bytes())
    except _Refused as refusal:
        raise BadFileError(path, expected, f"{refusal}", "use the official files") from None
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        found = f"a damaged or truncated one ({str(error)[:200]})"
        raise BadFileError(path, expected, found, "download the file again") from error
    if not isinstance(result, dict):
        raise BadFileError(path, "a dictionary", type(result).__name__, "use the official files")
    return {
        key: value.values if isinstance(value, _Array) else value
        for key, value in result.items()
        if isinstance(key, str)
    }


def _run(program: bytes) -> object:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    for instruction, argument, _ in pickletools.genops(program):
        name = instruction.name
        if name in _CONSTANTS:
            stack.append(argument)
        elif name in _SINGLETONS:
            stack.append(_SINGLETONS[name])
        elif name in _STORE:
            memo[argument] = stack[-1]
        elif name in _FETCH:
            stack.append(memo[argument])
        elif name == "GLOBAL":
            if argument not in _ALLOWED_NAMES:
                raise _Refused(f"the name {_shown(argument)}")
            stack.append(_Name(argument))
        elif name == "STOP":
            if len(stack) != 1:
                raise ValueError(f"{len(stack)} values are left at the end")
            return stack[0]
        elif name in _ACTIONS:
            _ACTIONS[name](stack)
        elif name != "PROTO":
            raise _Refused(f"the instruction {name}")
    raise ValueError("the file ends early")


def _shown(value: object) -> str:
    """A value in a message. What is nested may say itself without end, and a text may be as long as the file."""
    text = repr(value[:60]) if isinstance(value, str) else type(value).__name__
    return f"{text} and {len(value) - 60} more" if isinstance(value, str) and len(value) > 60 else text


def _down_to_mark(stack: list[Any]) -> list[Any]:
    start = len(stack) - 1
    while stack[start] is not _MARK:
        start -= 1
        if start < 0:
            raise ValueError("a mark is missing")
    values = stack[start + 1 :]
    del stack[start:]
    return values


def _tuple_of(count: int) -> Callable[[list[Any]], None]:
    def action(stack: list[Any]) -> None:
        if len(stack) < count:
            raise ValueError("too few values for a tuple")
        values = tuple(stack[-count:])
        del stack[-count:]
        stack.append(values)

    return action


def _set_items(stack: list[Any]) -> None:
    values = _down_to_mark(stack)
    if not isinstance(stack[-1], dict) or len(values) % 2:
        raise ValueError("keys and values do not pair up")
    stack[-1].update(zip(map(_key, values[::2]), values[1::2], strict=True))


def _set_item(stack: list[Any]) -> None:
    value, key = stack.pop(), stack.pop()
    stack[-1][_key(key)] = value


def _key(value: Any) -> Any:
    """A key as it is: text or a number. Tuples of tuples of the same can take for ever to be hashed."""
    if not isinstance(value, (str, bytes, int)):
        raise _Refused(f"a key of type {type(value).__name__}")
    return value


def _append_all(stack: list[Any]) -> None:
    values = _down_to_mark(stack)
    stack[-1].extend(values)


def _append(stack: list[Any]) -> None:
    value = stack.pop()
    stack[-1].append(value)


def _reduce(stack: list[Any]) -> None:
    arguments, called = stack.pop(), stack.pop()
    if called == _Name(_RECONSTRUCT) and arguments[:2] == (_Name(_NDARRAY), (0,)):
        stack.append(_Array())
    elif called == _Name(_DTYPE) and arguments[:1] == ("u1",):
        stack.append(_Dtype())
    else:
        raise _Refused(f"a call of {called.text if isinstance(called, _Name) else type(called).__name__}")


def _build(stack: list[Any]) -> None:
    state, target = stack.pop(), stack[-1]
    if isinstance(target, _Dtype):
        # The state of numpy's dtype u1: version, byte order "|" (none), no fields, no size of its own.
        if state[1:5] != ("|", None, None, None):
            raise _Refused("an element type that is not the unsigned byte")
        target.is_bytes = True
    elif isinstance(target, _Array):
        _, shape, dtype, is_fortran, content = state
        if not (isinstance(dtype, _Dtype) and dtype.is_bytes) or is_fortran is not False:
            raise _Refused("an array that is not of unsigned bytes in C order")
        raw = content.encode("latin-1") if isinstance(content, str) else content
        if len(shape) > MOST_DIMENSIONS or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("an array whose shape is no few whole numbers")
        if math.prod(shape) != len(raw):
            raise ValueError(f"an array of shape {shape} from {len(raw)} bytes")
        target.values = np.frombuffer(raw, dtype=np.uint8).reshape(shape)
    else:
        raise _Refused(f"a state for {type(target).__name__}")


_CONSTANTS = frozenset(
    {
        "BININT",
        "BININT1",
        "BININT2",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINUNICODE",
        "BINBYTES",
        "SHORT_BINBYTES",
    }
)
_SINGLETONS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_STORE = frozenset({"BINPUT", "LONG_BINPUT"})
_FETCH = frozenset({"BINGET", "LONG_BINGET"})
_ACTIONS: dict[str, Callable[[list[Any]], None]] = {
    "MARK": lambda stack: stack.append(_MARK),
    "EMPTY_DICT": lambda stack: stack.append({}),
    "EMPTY_LIST": lambda stack: stack.append([]),
    "EMPTY_TUPLE": lambda stack: stack.append(()),
    "TUPLE": lambda stack: stack.append(tuple(_down_to_mark(stack))),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "APPEND": _append,
    "APPENDS": _append_all,
    "REDUCE": _reduce,
    "BUILD": _build,
}
