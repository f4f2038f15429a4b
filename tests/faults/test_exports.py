# SPDX-License-Identifier: Apache-2.0
"""Exports on a full disk: an error that says what to do, and the export that was there is as it was."""

import importlib.util
import os

import pytest
from tests.disks import read_only, room_left, small_disk
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.training import resolve, train

FORMS = ["safetensors", "torch-export"]
if all(importlib.util.find_spec(each) for each in ("onnx", "onnxscript")):
    FORMS.append("onnx")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with two runs, and their names."""
    folder = tmp_path_factory.mktemp("runs")
    told = {"epochs": 1, "device": "cpu", "train_size": 200, "model_options": {"hidden": [64]}}
    return folder, [
        train(resolve("digits", seed=seed, **told), folder=folder, quiet=True).id for seed in (1, 2)
    ]


def export(folder, run, out, form):
    words = ["export", run, "--out", str(out), "--form", form, "--folder", str(folder)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return done.exit_code, done.output


def contents(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_keeps_the_export_that_was_there(tmp_path, runs, form):
    folder, (first, second) = runs
    with small_disk(tmp_path / "disk", "2m") as disk:
        out, failed = disk / "out", 0
        assert export(folder, first, out, form)[0] == 0
        before = contents(out)
        for size in (0, 4096, 16_384):
            with room_left(disk, size):
                code, said = export(folder, second, out, form)
            if code:
                failed += 1
                assert code == 2
                assert "make room, then give the same command again" in said, said
                assert contents(out) == before, "as it was, and nothing unfinished"
        assert failed
        assert export(folder, second, out, form)[0] == 0
        assert sorted(contents(out)) == sorted(before)
        assert contents(out) != before


def test_a_read_only_folder_and_the_run_s_own(tmp_path, runs):
    folder, (first, _) = runs
    out = tmp_path / "out"
    out.mkdir()
    with read_only(out):
        code, said = export(folder, first, out, "safetensors")
    assert (code, "read-only or closed to you" in said) == (2, True)
    before = contents(folder / first)
    code, said = export(folder, first, folder / first, "safetensors")
    assert (code, "another folder than the run's own" in said) == (2, True)
    assert contents(folder / first) == before
