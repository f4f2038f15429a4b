# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: its rooms, what importing them costs, and which of them may import which."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import noiseproof

SOURCE = Path(noiseproof.__file__).parent


def test_every_room_is_named_and_explained():
    rooms = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - {"command_line"}
    assert set(noiseproof.__all__) == rooms
    for room in rooms:
        assert f":mod:`noiseproof.{room}`" in noiseproof.__doc__


def test_rooms_are_there_without_an_import_of_their_own():
    code = "import noiseproof; print(noiseproof.noise.parse_name('sym-0.8').kind, dir(noiseproof))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("sym ['__version__', 'audit', 'datasets'")
    with pytest.raises(AttributeError, match="module 'noiseproof' has no attribute 'loses'"):
        _ = noiseproof.loses


def test_importing_the_package_imports_no_room():
    code = "import sys, noiseproof; print(sorted({'torch', 'numpy', 'noiseproof.losses'} & set(sys.modules)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"


def test_importing_rooms_imports_nothing_slow_that_they_may_not_need():
    """Each of these takes as long as half of torch, or longer."""
    code = (
        "import sys, noiseproof\n"
        "for room in ('losses', 'noise', 'models', 'datasets', 'grids', 'results'):\n"
        "    __import__(f'noiseproof.{room}')\n"
        "noiseproof.losses.create('anl-ce'), noiseproof.noise.parse_name('sym-0.8')\n"
        "slow = {'torch._dynamo', 'scipy.ndimage', 'sklearn', 'matplotlib'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "[]"


def test_a_function_is_marked_for_the_compiler_as_torch_itself_marks_it():
    """We write the mark ourselves, since torch's decorator imports the compiler."""
    import torch

    from noiseproof.losses.fused import gate

    marked = torch.compiler.assume_constant_result(lambda: None)
    assert vars(marked).items() <= vars(gate._inside_a_transform).items()
    assert vars(marked)


@pytest.mark.parametrize("room", noiseproof.__all__)
def test_a_room_has_every_name_that_it_promises(room):
    module = import_module(f"noiseproof.{room}")
    promised = getattr(module, "__all__", [])
    assert len(promised) == len(set(promised))
    for name in promised:
        assert getattr(module, name).__doc__ or not callable(getattr(module, name)), name
        assert name in dir(module), name


@pytest.mark.parametrize("room", ["losses", "noise"])
def test_losses_and_noise_stand_alone(room):
    """They import nothing else of ours but readers of files, so that others can take them out."""
    own = (f"noiseproof.{room}", "noiseproof.torch_files")
    for path in (SOURCE / room).rglob("*.py"):
        for name in imported(path):
            assert not name.startswith("noiseproof") or name.startswith(own), f"{path.name} imports {name}"


def test_no_package_reaches_into_the_private_parts_of_another():
    for path in SOURCE.rglob("*.py"):
        package = ".".join(("noiseproof", *path.relative_to(SOURCE).parts[:-1]))
        for name in imported(path):
            private = name.startswith("noiseproof") and name.rpartition(".")[2].startswith("_")
            assert not private or name.startswith(package) or name.endswith("__version__"), f"{path}: {name}"


def imported(path):
    """Everything that a file imports, wherever in it, as dotted names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
