# SPDX-License-Identifier: Apache-2.0
"""Every block of Python in README.md and docs/ runs: the blocks of a page in order, as one program."""

import subprocess
import tomllib
from pathlib import Path

import pytest
from tests import warm
from tests.docs.pages import MARK, PAGES, ROOT, Block, blocks_of, name_of, script_of

from noiseproof import datasets

MOST_SECONDS = 240
HANDLED = {"python", "toml", "console", "bash", "", "text", "{toctree}", "{eval-rst}"}
"""Python and TOML here, commands in test_commands_of_pages.py; the last three are not code."""

PYTHON = {page: [b for b in blocks_of(page) if b.language == "python"] for page in PAGES}
MARKED = [block for blocks in PYTHON.values() for block in blocks if block.comment]


def run(blocks: list[Block], folder: Path) -> tuple[int, str]:
    """Run blocks of a page as one program, in a process and a folder of their own: exit status and output."""
    own, script = folder / "own", folder / "page.py"
    own.mkdir()
    (own / "results").symlink_to(ROOT / "results")  # recorded runs, which a checkout has
    script.write_text(script_of(blocks))
    done = warm.run([script], cwd=own, stderr=subprocess.STDOUT, timeout=MOST_SECONDS)
    return done.returncode, done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON[page]], ids=name_of)
def test_code_of_the_page_runs(page, tmp_path):
    running = [block for block in PYTHON[page] if block.left_out_because() is None]
    if not running:
        pytest.skip("; ".join(f"{block.name}: {block.left_out_because()}" for block in PYTHON[page]))
    status, said = run(running, tmp_path)
    assert status == 0, f"{name_of(page)}, whose lines these are:\n{said}"


def test_a_fault_in_a_page_is_seen_at_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n```python\nimport math\n```\n\n<!-- not run: why -->\n```python\n1 / 0\n```\n\n"
        "* in a list\n\n  ```python\n  math.floor(1.5)\n  math.flor(1.5)\n  ```\n"
    )
    blocks = blocks_of(page)
    assert [block.left_out_because() for block in blocks] == [None, "why", None]
    status, said = run([blocks[0], blocks[2]], tmp_path)
    assert status == 1
    assert 'page.py", line 16' in said
    assert "math.flor" in said


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
    if content.keys() & {"methods", "like"}:
        assert len(grids.load(str(file)).cells()) > 0
    else:
        config = resolve("digits", recipe=str(file))
        assert {name: getattr(config, name) for name in ("model", "epochs")} == {
            name: content[name] for name in ("model", "epochs")
        }
