# SPDX-License-Identifier: Apache-2.0
"""``noiseproof data``, as a user types it."""

import shlex
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
    for form in ("folder:PATH", "csv:PATH", "tuning:NAME"):
        assert form in output
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


def test_list_of_a_tuning_set_is_for_users(root: Path) -> None:
    output = run("list", "tuning:digits")
    assert "tuning:NAME: a data set's training data" in output
    assert "made from NAME" in output
    assert "(`tuning_split`, seed 1)" in output


def test_get_digits_needs_nothing(root: Path) -> None:
    assert "nothing to download" in run("get", "digits")


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
    assert "35 to 37 per class" in output
    assert datasets.load("digits").fingerprint in output
    assert "FAULT" not in output


def test_check_of_a_faulty_set_ends_with_1(root: Path) -> None:
    fill_cifar10(root)
    output = run("check", "cifar10", status=1)
    assert "expected 50000, found 4" in output
    assert "cifar10 has faults" in output


def test_check_lists_the_pictures_that_can_be_read(root: Path, tmp_path: Path) -> None:
    """What training needs where some files are broken: a list without them, and nothing is deleted."""
    for name in ("train/a/1", "train/a/2", "train/b/1", "test/a/1", "test/b/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), len(name)).save(tmp_path / f"{name}.png")
    for name in ("train/a/2", "test/b/1"):
        (tmp_path / f"{name}.png").write_bytes(b"")
    listed = tmp_path / "lists" / "sound.csv"
    assert f"check folder:{tmp_path} --readable" in run("check", f"folder:{tmp_path}", status=1)
    output = run("check", f"folder:{tmp_path}", "--readable", str(listed), status=1)
    assert "To list" not in output
    assert "3 images; 2 left out" in output
    train, test = datasets.load(f"csv:{listed}"), datasets.load(f"csv:{listed}", "test")
    assert [path.resolve() for path in train.paths or ()] == [
        tmp_path / "train/a/1.png",
        tmp_path / "train/b/1.png",
    ]
    assert (train.class_names, train.labels.tolist(), test.labels.tolist()) == (("a", "b"), [0, 1], [0])
    assert check(f"csv:{listed}").is_sound
    assert "expected a data set of image files" in run("check", "digits", "--readable", str(listed), status=2)


def pictures(folder: Path, *names: str) -> None:
    for shade, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), shade).save(folder / name)


def test_one_round_finds_stray_files_and_broken_pictures_and_lists_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "photos", "one/1.png", "two/1.png", "papers/1.png")
    (tmp_path / "photos/one/empty.png").write_bytes(b"")
    (tmp_path / "photos/papers/1.png").rename(tmp_path / "photos/papers/1.txt")
    (tmp_path / "photos/two/labels.json").write_text("{}")
    output = run("check", "folder:photos", status=1)
    assert "2 files are no images" in output
    assert "photos/papers/1.txt" in output
    assert "photos/two/labels.json" in output
    assert "1 cannot be read" in output
    assert "none can be read" not in output
    assert "check folder:photos --readable" in output
    output = run("check", "folder:photos", "--readable", "photos.csv", status=1)
    assert "photos.csv: 2 images; 3 left out. Train on it with" in output
    assert "Classes without a readable image are not in it: papers" in output
    listed = datasets.load("csv:photos.csv")
    assert [path.name for path in listed.paths or ()] == ["1.png", "1.png"]
    assert listed.class_names == ("one", "two")
    run("check", "csv:photos.csv")


def test_stray_files_alone_are_a_fault_that_a_list_gets_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "photos", "one/1.png", "two/1.png")
    (tmp_path / "photos/two/notes.txt").write_text("")
    assert "check folder:photos --readable" in run("check", "folder:photos", status=1)
    output = run("check", "folder:photos", "--readable", "photos.csv", status=1)
    assert "photos.csv: 2 images; 1 left out. Train on it with" in output
    assert "move it elsewhere" in run("show", "folder:photos", status=2)


def test_the_command_for_a_list_can_be_typed(tmp_path: Path) -> None:
    pictures(tmp_path / "photos", "a/1.png", "b/1.png")
    listed = str(tmp_path / "my list.csv")
    output = run("check", f"folder:{tmp_path / 'photos'}", "--readable", listed)
    command = output.split("Train on it with: ")[1].splitlines()[0]
    assert shlex.split(command) == ["noiseproof", "train", f"csv:{listed}"]


def test_a_list_without_a_picture_is_not_written(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "photos" / name / "1.png").write_bytes(b"")
    listed = tmp_path / "list.csv"
    output = run("check", f"folder:{tmp_path / 'photos'}", "--readable", str(listed), status=2)
    assert "--readable: expected readable train images, found none among 2" in output
    assert not listed.exists()


def test_classes_that_a_list_changes_are_told(tmp_path: Path) -> None:
    pictures(tmp_path / "numbers", "3/1.png", "17/1.png")
    listed = str(tmp_path / "list.csv")
    run("check", f"folder:{tmp_path / 'numbers'}", "--readable", listed)
    assert datasets.load(f"csv:{listed}").class_names == ("17", "3"), "names of folders are no indices"
    pictures(tmp_path / "names", "a/1.png", "b/1.png", "c/1.png")
    (tmp_path / "names/b/1.png").write_bytes(b"")
    names = run("check", f"folder:{tmp_path / 'names'}", "--readable", listed, status=1)
    assert "Classes without a readable image are not in it: b" in names
    assert datasets.load(f"csv:{listed}").class_names == ("a", "c")


def test_a_list_of_more_pictures_than_are_looked_into_has_only_those_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(tmp_path / "photos", "a/1.png", "a/2.png", "b/1.png")
    (tmp_path / "photos/a/2.png").write_bytes(b"")
    monkeypatch.setattr("noiseproof.datasets.check.MOST_FILES_READ", 2)
    assert "3 files are too many" in run("check", f"folder:{tmp_path / 'photos'}")
    listed = str(tmp_path / "list.csv")
    assert "2 images; 1 left out" in run(
        "check", f"folder:{tmp_path / 'photos'}", "--readable", listed, status=1
    )


def test_masks_of_several_sizes_are_no_list_of_pictures(tmp_path: Path) -> None:
    for side in (4, 5):
        for part in ("images", "masks"):
            (tmp_path / "set" / part).mkdir(parents=True, exist_ok=True)
            Image.new("L", (side, side), 255).save(tmp_path / "set" / part / f"{side}.png")
    words = (
        "check",
        f"folder:{tmp_path / 'set'}",
        "--image-size",
        "4",
        "--readable",
        str(tmp_path / "x.csv"),
    )
    assert "expected a data set of image files" in run(*words, status=2)


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
