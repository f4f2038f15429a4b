# SPDX-License-Identifier: Apache-2.0
"""The fuzz targets at work for a moment: their corpus, what once broke a reader, and some changed files."""

import ast
import importlib
import itertools
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"
CHANGED = 100
"""Changed files for each target; hundreds of thousands are run by hand, see fuzz/README.md."""

MOST_CORPUS_BYTES = 120_000

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn of much in such files

if not FUZZ.is_dir():
    pytest.skip("the fuzz folder is not here", allow_module_level=True)


@pytest.fixture(scope="module")
def fuzz():
    """The modules of the fuzz folder, which is no package."""
    sys.path.insert(0, str(FUZZ))
    try:
        yield {name: importlib.import_module(name) for name in ("targets", "mutation")}
    finally:
        sys.path.remove(str(FUZZ))


def corpus_of(name):
    return [path.read_bytes() for path in sorted((FUZZ / "corpus" / name).iterdir())]


NAMES = sorted(folder.name for folder in (FUZZ / "corpus").iterdir())


def test_every_target_has_a_corpus_and_it_is_small(fuzz):
    assert sorted(fuzz["targets"].TARGETS) == NAMES
    assert (
        sum(path.stat().st_size for path in (FUZZ / "corpus").rglob("*") if path.is_file())
        < MOST_CORPUS_BYTES
    )


def test_readers_that_targets_name_exist(fuzz):
    """Else nobody would miss their lines when coverage is measured."""
    for target in fuzz["targets"].TARGETS.values():
        for module in target.modules:
            file, _, functions = module.partition(": ")
            tree = ast.parse((FUZZ.parent / "src" / "noiseproof" / file).read_text(encoding="utf-8"))
            there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert set(functions.split()) <= there, f"{target.name}: {file}"


def test_no_two_rooms_have_a_target_of_one_name(fuzz):
    rooms = [target.name for room in fuzz["targets"].ROOMS for target in room.TARGETS]
    assert sorted(rooms) == sorted(fuzz["targets"].TARGETS)


@pytest.mark.parametrize("name", NAMES)
def test_the_corpus(fuzz, name, tmp_path):
    target = fuzz["targets"].TARGETS[name]
    for content in corpus_of(name):
        fuzz["targets"].run(target, content, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_changed_files(fuzz, name, tmp_path):
    target = fuzz["targets"].TARGETS[name]
    fuzz["targets"].run(target, b"", tmp_path)
    for content in itertools.islice(fuzz["mutation"].mutations(corpus_of(name), seed=1), CHANGED):
        fuzz["targets"].run(target, content, tmp_path)


def test_an_error_of_a_library_counts_as_a_defect(fuzz, tmp_path):
    def read(content, folder):
        raise ValueError("as int() says")

    target = fuzz["targets"].Target("x", read, (), ("ValueError",))
    with pytest.raises(fuzz["targets"].NotOurOwnError, match="ValueError at test_fuzz_targets.py:read"):
        fuzz["targets"].run(target, b"", tmp_path)
