# SPDX-License-Identifier: Apache-2.0
"""``noiseproof data``, as a user types it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.command_line import data
from noiseproof.datasets import cache
from noiseproof.datasets.check import check

app = typer.Typer()
app.add_typer(data.app, name="data")


@app.callback()
def _root() -> None:
    """As under ``noiseproof``."""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["data", *arguments])
    assert result.exit_code == status, result.output
    return result.output


def fill_cifar10(root: Path) -> None:
    """A stand-in for CIFAR-10 that is far too small."""
    arrays = {f"{split}_images": np.zeros((4, 32, 32, 3), np.uint8) for split in ("train", "test")}
    arrays |= {f"{split}_labels": np.arange(4, dtype=np.uint8) for split in ("train", "test")}
    with cache.replacing(root / "cifar10") as new:
        cache.write(new, arrays, source="the test")


def test_list_shows_every_set_and_the_cache_folder(root: Path) -> None:
    fill_cifar10(root)
    output = run("list")
    for source in datasets.sources():
        assert source.name in output
    for own in datasets.prefix_sources():
        assert f"{own.prefix}:PATH" in output
    assert str(root) in output
    (line,) = [line for line in output.splitlines() if line.startswith("│ cifar10 ")]
    assert "0.0 MB" in line


@pytest.mark.parametrize("name", [source.name for source in datasets.sources()])
def test_list_of_one_says_where_it_comes_from(root: Path, name: str) -> None:
    output = run("list", name)
    assert "licence" in output
    assert "where" in output


def test_list_of_an_unknown_name(root: Path) -> None:
    assert "did you mean 'cifar10'" in run("list", "cifra10", status=2)


@pytest.mark.parametrize("name", ["csv", "csv:PATH", "csv:mine.csv"])
def test_list_of_the_users_own_data_says_what_it_looks_like(root: Path, name: str) -> None:
    output = run("list", name)
    assert "path,label,split" in output
    assert "A relative path" in output


def test_get_digits_needs_nothing(root: Path) -> None:
    assert "nothing to fetch" in run("get", "digits")


def test_get_from_a_folder_that_is_wrong_says_what_it_should_hold(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    output = run("get", "cifar10", "--from", str(tmp_path / "empty"), status=2)
    assert "Error:" in output
    assert "data_batch_1.bin" in output
    assert not root.exists() or list(root.iterdir()) == []
    assert "no such file or folder" in run("get", "cifar10", "--from", str(tmp_path / "nowhere"), status=2)


def test_get_what_is_already_there(root: Path) -> None:
    fill_cifar10(root)
    assert "already in the cache" in run("get", "cifar10")


def test_check_of_a_sound_set(root: Path) -> None:
    output = run("check", "digits")
    assert "35 to 37 a class" in output
    assert datasets.load("digits").fingerprint in output
    assert "FAULT" not in output


def test_check_of_a_faulty_set_ends_with_1(root: Path) -> None:
    fill_cifar10(root)
    output = run("check", "cifar10", status=1)
    assert "expected 50000, found 4" in output
    assert "cifar10 is not sound" in output


def test_check_lists_the_pictures_that_can_be_read(root: Path, tmp_path: Path) -> None:
    """What training needs where some files are broken: a list without them, and nothing is deleted."""
    for name in ("train/a/1", "train/a/2", "train/b/1", "test/a/1", "test/b/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), len(name)).save(tmp_path / f"{name}.png")
    for name in ("train/a/2", "test/b/1"):
        (tmp_path / f"{name}.png").write_bytes(b"")
    listed = tmp_path / "lists" / "sound.csv"
    output = run("check", f"folder:{tmp_path}", "--readable", str(listed), status=1)
    assert "3 pictures; without 2" in output
    train, test = datasets.load(f"csv:{listed}"), datasets.load(f"csv:{listed}", "test")
    assert [path.resolve() for path in train.paths or ()] == [
        tmp_path / "train/a/1.png",
        tmp_path / "train/b/1.png",
    ]
    assert (train.class_names, train.labels.tolist(), test.labels.tolist()) == (("a", "b"), [0, 1], [0])
    assert check(f"csv:{listed}").is_sound
    assert "expected a set of picture files" in run("check", "digits", "--readable", str(listed), status=2)


def test_check_of_a_set_that_is_not_there(root: Path) -> None:
    assert "noiseproof data get cifar100" in run("check", "cifar100", status=2)


def test_show_writes_a_png(root: Path, tmp_path: Path) -> None:
    run("show", "digits", "--out", "sheet.png", "--count", "25", "--columns", "5")
    with Image.open(tmp_path / "sheet.png") as image:
        assert image.format == "PNG"
        assert image.size == (4 + 5 * 100, 4 + 5 * 114)
    run("show", "digits", "--split", "test")
    assert (tmp_path / "digits.png").is_file()


def test_show_of_a_split_that_does_not_exist(root: Path) -> None:
    assert "has the splits train, test" in run("show", "digits", "--split", "dev", status=2)


@pytest.mark.parametrize("command", ["", "list", "get", "check", "show"])
def test_help_ends_with_examples(command: str) -> None:
    output = run(*([command] if command else []), "--help")
    assert "noiseproof data" in output.split("Examples")[1]


def test_importing_the_command_imports_nothing_heavy() -> None:
    program = (
        "import sys; import noiseproof.command_line.data; "
        "print([name for name in ('numpy', 'torch', 'PIL', 'sklearn') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_listing_does_not_import_torch() -> None:
    program = (
        "import sys; from noiseproof import datasets; datasets.sources(); "
        "print([name for name in ('torch', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
