# SPDX-License-Identifier: Apache-2.0
"""Triton's language by torch's own operations: kernels run on a CPU where Triton is not installed.

One program after another, and every read and write checked for its bounds: it shows what kernels compute, not how
fast, and no races. Loaded with ``pytest -p tests.triton_by_torch`` and ``TRITON_INTERPRET=1``, it stands in for
Triton while our kernels are imported, and for nobody else.
"""

import builtins
import ctypes
import itertools
import math
import operator
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor

LONGEST_GRADIENT = 1 << 26
"""Bytes that are looked at behind an address."""

program = {"id": (0, 0, 0), "of": (1, 1, 1)}


class Block:
    """A block of numbers, or a single one. No operation changes it, as Triton's does not."""

    def __init__(self, tensor):
        self.tensor = tensor

    def to(self, dtype):
        if isinstance(dtype, PointerType):
            return Pointer.to_address(int(self.tensor), dtype.element_ty)
        return Block(self.tensor.to(dtype))

    def __getitem__(self, index):
        return Block(self.tensor[index])

    def __neg__(self):
        return Block(-self.tensor)

    def __bool__(self):
        return bool(self.tensor)

    def __index__(self):
        return int(self.tensor)

    __hash__ = None


def plain(value):
    return value.tensor if isinstance(value, Block) else value


def as_tensor(value, like=None):
    value = plain(value)
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=getattr(like, "dtype", None))


def add_operator(name, operation):
    def forwards(self, other):
        if isinstance(other, Pointer):
            return NotImplemented
        return Block(operation(self.tensor, plain(other)))

    def backwards(self, other):
        return Block(operation(as_tensor(other, self.tensor), self.tensor))

    setattr(Block, f"__{name}__", forwards)
    setattr(Block, f"__r{name}__", backwards)


for name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    add_operator(name, getattr(operator, name))
for name in ("and", "or"):
    add_operator(name, getattr(operator, f"{name}_"))
for name in ("lt", "le", "gt", "ge", "eq", "ne"):
    add_operator(name, getattr(operator, name))


class PointerType:
    def __init__(self, element_ty):
        self.element_ty = element_ty


class Pointer:
    """Places in memory that begins where a tensor does and ends where its storage does."""

    def __init__(self, memory, places):
        self.memory, self.places = memory, places
        self.dtype = PointerType(memory.dtype)

    @staticmethod
    def to_tensor(tensor):
        tensor = tensor.detach()
        count = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
        memory = torch.as_strided(tensor, (count,), (1,), tensor.storage_offset())
        return Pointer(memory, torch.zeros((), dtype=torch.int64))

    @staticmethod
    def to_address(address, dtype):
        content = (ctypes.c_char * LONGEST_GRADIENT).from_address(address)
        return Pointer(torch.frombuffer(content, dtype=dtype), torch.zeros((), dtype=torch.int64))

    def __add__(self, distance):
        return Pointer(self.memory, self.places + plain(distance))

    __radd__ = __add__

    def __getitem__(self, index):
        return Pointer(self.memory, self.places[index])

    def masked(self, mask):
        mask = torch.tensor(True) if mask is None else as_tensor(mask)
        places, mask = torch.broadcast_tensors(self.places, mask)
        taken = places[mask]
        inside = (taken >= 0) & (taken < len(self.memory))
        assert inside.all(), f"outside of memory: {taken[~inside][0]} of {len(self.memory)}"
        return torch.where(mask, places, 0), mask


def load(pointer, mask=None, other=None, eviction_policy=None):
    places, taken = pointer.masked(mask)
    values = torch.zeros(places.shape, dtype=pointer.memory.dtype)
    values[taken] = pointer.memory[places[taken]]
    if other is None:  # what is left open must not be used
        other = math.nan if values.is_floating_point() else 0
    return Block(torch.where(taken, values, as_tensor(other).to(values.dtype)))


def store(pointer, value, mask=None, eviction_policy=None):
    places, taken = pointer.masked(mask)
    values = as_tensor(value).to(pointer.memory.dtype)
    places, taken, values = torch.broadcast_tensors(places, taken, values)
    pointer.memory[places[taken]] = values[taken]


def choose(operation, builtin):
    """Triton's of two numbers: of a number and NaN it is the number."""

    def chosen(first, second):
        first, second = plain(first), plain(second)
        if not isinstance(first, Tensor) and not isinstance(second, Tensor):
            return Block(torch.tensor(builtin(first, second)))
        return Block(operation(as_tensor(first, second), as_tensor(second, first)))

    return chosen


def largest(block, axis):
    return Block(torch.where(block.tensor.isnan(), -math.inf, block.tensor).amax(axis))


def elementwise(operation):
    return lambda block: Block(operation(as_tensor(block)))


language = SimpleNamespace(
    constexpr=lambda value: value,
    float32=torch.float32,
    int32=torch.int32,
    int64=torch.int64,
    pointer_type=PointerType,
    program_id=lambda axis: Block(torch.tensor(program["id"][axis], dtype=torch.int32)),
    num_programs=lambda axis: Block(torch.tensor(program["of"][axis], dtype=torch.int32)),
    arange=lambda start, end: Block(torch.arange(start, end, dtype=torch.int32)),
    zeros=lambda shape, dtype: Block(torch.zeros(tuple(shape), dtype=dtype)),
    zeros_like=elementwise(torch.zeros_like),
    cdiv=lambda whole, part: Block(as_tensor(-(-plain(whole) // plain(part)))),
    static_range=lambda *bounds: range(*map(int, bounds)),
    load=load,
    store=store,
    where=lambda choice, yes, no: Block(torch.where(choice.tensor, plain(yes), plain(no))),
    maximum=choose(torch.fmax, builtins.max),
    minimum=choose(torch.fmin, builtins.min),
    max=largest,
    sum=lambda block, axis: Block(block.tensor.sum(axis, dtype=block.tensor.dtype)),
    exp2=elementwise(torch.exp2),
    log2=elementwise(torch.log2),
    log=elementwise(torch.log),
    sqrt=elementwise(torch.sqrt),
    abs=elementwise(torch.abs),
    multiple_of=lambda value, divisor: value,
    debug_barrier=lambda: None,
)


class Kernel:
    """A function of the language: called by another one, or launched on a grid."""

    def __init__(self, fn):
        self.fn, self.__name__ = fn, fn.__name__

    def __call__(self, *arguments, **constants):
        return self.fn(*arguments, **constants)

    def __getitem__(self, grid):
        of = (*map(int, grid), 1, 1)[:3]

        def launch(*arguments, num_warps=4, **constants):
            given = [Pointer.to_tensor(each) if isinstance(each, Tensor) else each for each in arguments]
            with torch.no_grad():
                for each in itertools.product(*map(range, of)):
                    program["id"], program["of"] = each, of
                    self.fn(*given, **constants)

        return launch


def lend():
    """Import our kernels with these for Triton, which torch and others must go on without."""
    triton = ModuleType("triton")
    triton.__spec__ = ModuleSpec("triton", None)
    triton.jit, triton.language = Kernel, language
    triton.cdiv = lambda whole, part: -(-whole // part)
    triton.next_power_of_2 = lambda number: 1 << (number - 1).bit_length()
    sys.modules["triton"] = triton
    sys.modules["triton.language"] = language
    try:
        import noiseproof.losses
        import noiseproof.training.fast.networks  # noqa: F401
    finally:
        del sys.modules["triton"], sys.modules["triton.language"]


if os.environ.get("TRITON_INTERPRET") == "1":  # and not where somebody only looks for doctests
    lend()
