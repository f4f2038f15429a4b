"""Every block of Python in README.md and docs/ runs: the blocks of a page in order, as one program."""

import multiprocessing
import runpy
import tomllib
from pathlib import Path

import pytest
from tests.docs.pages import MARK, PAGES, ROOT, Block, blocks_of, name_of, script_of

from noiseproof import datasets

MOST_SECONDS = 240
HANDLED = {"python", "toml", "console", "bash", "", "text", "{toctree}", "{eval-rst}"}
"""Python and TOML here, commands in test_commands_of_pages.py; the last three are not code."""

PYTHON = {page: [b for b in blocks_of(page) if b.language == "python"] for page in PAGES}
MARKED = [block for blocks in PYTHON.values() for block in blocks if block.comment]

# Importing torch takes longer than most pages: it is imported once, in a process that every page is forked from,
# so that no page sees what another registered or set.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["noiseproof.training", "noiseproof.sklearn"])


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON[page]], ids=name_of)
def test_code_of_the_page_runs(page, tmp_path, monkeypatch):
    running = [block for block in PYTHON[page] if block.left_out_because() is None]
    if not running:
        pytest.skip("; ".join(f"{block.name}: {block.left_out_because()}" for block in PYTHON[page]))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    folder, output = tmp_path / "folder", tmp_path / "output.txt"
    folder.mkdir()
    (folder / "results").symlink_to(ROOT / "results")  # recorded runs, which a checkout has
    script = tmp_path / f"{page.stem.replace('-', '_')}.py"
    script.write_text(script_of(running))
    given = {"arguments": (str(script), str(folder), str(output))}
    run_page = str(Path(__file__).with_name("run_page.py"))
    process = processes.Process(target=runpy.run_path, args=(run_page, given, "run_page"))
    process.start()
    process.join(MOST_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
    said = output.read_text() if output.exists() else ""
    assert process.exitcode == 0, f"{name_of(page)}, whose lines these are:\n{said}"


@pytest.mark.parametrize("block", MARKED, ids=lambda block: block.name)
def test_a_block_that_is_not_run_says_why(block: Block):
    mark = MARK.fullmatch(block.comment)
    assert mark, f"{block.name}: unknown comment before a block: {block.comment}; see tests/docs/pages.py"
    kind, what = mark.groups()
    if kind == "run where installed":
        assert what.isidentifier(), f"{block.name}: one name to import, such as optuna, not {what!r}"
    if kind == "run where fetched":
        assert what in {source.name for source in datasets.sources()}
    if reason := block.left_out_because():
        pytest.skip(f"{block.name}: {reason}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_of_a_kind_that_is_tested(page):
    for block in blocks_of(page):
        assert block.language in HANDLED, f"{block.name}: no test knows what to do with {block.language!r}"


@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in blocks_of(page) if block.language == "toml"],
    ids=lambda block: block.name,
)
def test_toml_is_a_grid_or_a_recipe(block, tmp_path):
    from noiseproof import grids
    from noiseproof.training import resolve

    file = tmp_path / "mine.toml"
    file.write_text(block.code)
    content = tomllib.loads(block.code)
    if "methods" in content:
        assert len(grids.load(str(file)).cells()) > 0
    else:
        config = resolve("digits", recipe=str(file))
        assert {name: getattr(config, name) for name in ("model", "epochs")} == {
            name: content[name] for name in ("model", "epochs")
        }
