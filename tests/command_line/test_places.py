# SPDX-License-Identifier: Apache-2.0
"""Places that results cannot go to are refused before the work that would be lost."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.disks import read_only
from typer.testing import CliRunner

from noiseproof import planning
from noiseproof.audit import pictures
from noiseproof.command_line import app
from noiseproof.command_line.places import require_file, require_folder
from noiseproof.training import predict, predict_masks, resolve, train


@pytest.fixture(autouse=True)
def _below(tmp_path, monkeypatch):
    """A regular file is where a folder is needed: nobody can write below it, root neither."""
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("mine")
    Path("folder").mkdir()


def there():
    return {str(path): path.read_bytes() if path.is_file() else None for path in Path().rglob("*")}


def never(*arguments, **named):
    pytest.fail("the work was begun")


def refused(*words):
    """What is said of a refused place, in one line; nothing is made and nothing lost."""
    before = there()
    ended = CliRunner().invoke(app, list(words))
    assert ended.exit_code == 2, ended.output
    assert there() == before
    (line,) = ended.output.splitlines()
    return line


A_FILE_ABOVE = "it lies below taken, which is a file; name another place"


def test_an_audit_looks_at_its_folder_first(monkeypatch):
    monkeypatch.setattr(pictures, "audit_pictures", never)
    said = refused("audit", "digits", "--out", "taken/audit")
    assert said == f"Error: --out: cannot write to taken/audit: {A_FILE_ABOVE}"
    assert "it is a file; name a folder" in refused("audit", "digits", "--out", "taken")
    assert A_FILE_ABOVE in refused("audit", "digits", "--out", "taken/audit", "--apply", "none.csv")


def test_a_plan_looks_at_its_file_first(monkeypatch):
    monkeypatch.setattr(planning, "plan", never)
    said = refused("plan", "digits", "--out", "taken/p.toml")
    assert said == f"Error: --out: cannot write to taken/p.toml: {A_FILE_ABOVE}"
    assert "there is no folder new; make it, or name another place" in refused(
        "plan", "digits", "--out", "new/p.toml"
    )
    assert "it is a folder; name a file" in refused("plan", "digits", "--out", "folder")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    config = resolve("digits", loss="ce", epochs=1, train_size=100, device="cpu")
    return train(config, folder=folder, quiet=True).id, str(folder)


def test_a_prediction_looks_at_its_file_first(classifier, monkeypatch):
    run, folder = classifier
    Image.new("L", (8, 8)).save("one.png")
    monkeypatch.setattr(predict, "_predict_all", never)
    words = ("predict", run, "one.png", "--folder", folder, "--device", "cpu", "--out")
    assert refused(*words, "taken/p.csv") == f"Error: --out: cannot write to taken/p.csv: {A_FILE_ABOVE}"
    assert A_FILE_ABOVE in refused(*words, "taken/deep/p.csv")
    assert "it is a folder; name a file" in refused(*words, "folder")


def test_a_prediction_of_masks_looks_at_its_folder_first(classifier, monkeypatch):
    run, folder = classifier
    model = predict.load_trained(Path(folder, run))
    Image.new("L", (8, 8)).save("one.png")
    object.__setattr__(model, "task", "segmentation")
    monkeypatch.setattr(predict, "load_trained", lambda *_: model)
    monkeypatch.setattr(predict_masks, "predict_masks", never)
    words = ("predict", run, "one.png", "--folder", folder, "--device", "cpu", "--out")
    assert refused(*words, "taken/masks") == f"Error: --out: cannot write to taken/masks: {A_FILE_ABOVE}"
    assert "it is a file; name a folder" in refused(*words, "taken")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
def test_a_read_only_place_is_told_in_plain_words():
    expected = (
        r"^--out: cannot write to .*: the place is read-only or closed to you; change that, or name another$"
    )
    with read_only(Path("folder")):
        for place in ("folder", "folder/deep/er"):
            with pytest.raises(OSError, match=expected):
                require_folder(Path(place))
        with pytest.raises(OSError, match=expected):
            require_file(Path("folder/p.csv"))
        with pytest.raises(OSError, match=expected):
            require_file(Path("folder/deep/p.csv"), makes_folder=True)
    assert not list(Path("folder").iterdir())


def test_places_that_will_do_are_left_as_they_were():
    before = there()
    for place in (".", "folder", "new", "new/deep", "folder/../other"):
        require_folder(Path(place))
    require_file(Path("taken"))
    require_file(Path("p.csv"))
    require_file(Path("new/deep/p.csv"), makes_folder=True)
    assert there() == before


def test_names_that_no_disk_takes_are_told():
    for require in (require_folder, require_file):
        with pytest.raises(
            OSError, match="--out: cannot write to n+: File name too long; name another place"
        ):
            require(Path("n" * 300))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such devices, nor links for everyone")
def test_devices_pipes_and_links_are_for_writing_too():
    os.mkfifo("pipe")
    for place in (os.devnull, "/dev/stdout", "pipe"):
        require_file(Path(place))
    Path("link").symlink_to("taken")
    require_file(Path("link"))
    Path("dangling").symlink_to("nowhere/p.csv")
    with pytest.raises(OSError, match="there is no folder .*nowhere"):
        require_file(Path("dangling"))
    assert Path("taken").read_text() == "mine"


def test_an_audit_with_a_place_is_written_there():
    np.save("p.npy", np.full((1438, 10), 0.1))
    words = ["audit", "digits", "--probabilities", "p.npy", "--out", "new/audit", "--quiet"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    assert Path("new/audit/suspects.csv").is_file()


def test_a_search_looks_at_its_file_first(monkeypatch):
    monkeypatch.setattr("noiseproof.planning.tuning.optuna_or_error", lambda: None)
    monkeypatch.setattr("noiseproof.planning.tuning.search", never)
    assert A_FILE_ABOVE in refused("tune", "digits", "--out", "taken/best.toml")
