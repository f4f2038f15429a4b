# SPDX-License-Identifier: Apache-2.0
"""``noiseproof noise``: what it prints, writes, draws and refuses."""

import subprocess
import sys

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from noiseproof.command_line import noise as command
from noiseproof.datasets import LabeledData, load
from noiseproof.noise import NoisyLabels, NoisyMasks


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("noiseproof.noise.show.SHEET_COLUMNS", 3)  # of ten: each picture takes its time
    app = typer.Typer(rich_markup_mode="rich")
    app.callback()(lambda: None)
    app.command("noise", epilog=command.EPILOG)(command.noise)
    return lambda *arguments: CliRunner().invoke(app, ["noise", *arguments])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--kind", "sym", "--rate", "0.8"), "generator='exact-published'"),
        (("--kind", "symmetric", "--rate", "0.8", "--generator", "bernoulli"), "generator='bernoulli'"),
        (("--kind", "asym", "--rate", "0.4"), "3 > 8"),
        (("--kind", "asym", "--rate", "0.4", "--flips", "0>1,2>3"), "0 > 1"),
        (("--kind", "dep", "--rate", "0.4", "--seed", "0"), "generator='pdn'"),
        (("--kind", "open-set", "--rate", "0.2", "--outside", "digits"), "no label changed"),
        (("--kind", "annotators", "--rates", "0.1,0.5", "--generator", "majority"), "generator='majority'"),
    ],
)
def test_makes_saves_and_draws(run, tmp_path, arguments, told):
    result = run("digits", *arguments, "--out", "noisy.npz", "--show")
    assert result.exit_code == 0, result.output
    assert told in result.output
    assert "saved     noisy.npz" in result.output
    can_train = "open-set" not in arguments
    assert ("noiseproof train digits --noise file:noisy.npz" in result.output) == can_train
    noisy = NoisyLabels.load(tmp_path / "noisy.npz", clean=load("digits", split="train").labels)
    assert f"{100 * noisy.realised_rate:.2f} % wrong" in result.output
    with Image.open(tmp_path / "noisy.png") as picture:
        assert picture.width > 1_000


def test_seeds(run, tmp_path):
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run("digits", "--kind", "sym", "--rate", "0.5", "--seed", seed, "--out", f"{name}.npz")
    first, again, other = ((tmp_path / f"{name}.npz").read_bytes() for name in "abc")
    assert first == again != other


@pytest.mark.parametrize(
    ("arguments", "drawn"),
    [
        (("digits", "--rate", "0.5", "--show", "mine.png"), "mine.png"),
        (("--show", "mine.png", "digits", "--rate", "0.5"), "mine.png"),
        (("digits", "--rate", "0.5", "--show"), "noise.png"),
        (("digits", "--rate", "0.5", "--show", "--out", "x.npz"), "x.png"),
    ],
)
def test_where_it_draws(run, tmp_path, arguments, drawn):
    assert run(*arguments).exit_code == 0
    assert [file.name for file in tmp_path.glob("*.png")] == [drawn]


def test_without_files_it_only_reports(run, tmp_path):
    result = run("digits", "--rate", "0.5")
    assert result.exit_code == 0
    assert "by class" in result.output
    assert not list(tmp_path.iterdir())


@pytest.fixture
def lesions(monkeypatch):
    masks = np.zeros((12, 32, 32), dtype=np.uint8)
    masks[:, 8:24, 10:22] = 1
    images = np.zeros((12, 32, 32, 3), dtype=np.uint8)
    data = LabeledData(
        "lesions", "train", np.zeros(12, np.int64), ("background", "lesion"), images, masks=masks
    )
    monkeypatch.setattr("noiseproof.datasets.load", lambda name, split, side=None: data)
    return data


def test_masks(run, tmp_path, lesions):
    result = run(
        "lesions", "--kind", "masks", "--rate", "0.5", "--strength", "0.7", "--out", "m.npz", "--show"
    )
    assert result.exit_code == 0, result.output
    assert "50.00 % of masks differ" in result.output
    assert (NoisyMasks.load(tmp_path / "m.npz", clean=lesions.masks).kinds > 0).sum() == 6
    assert (tmp_path / "m.png").exists()


@pytest.fixture
def cifar10(monkeypatch):
    labels = np.arange(10).repeat(5)
    data = LabeledData("cifar10", "train", labels, tuple("abcdefghij"), np.zeros((50, 4, 4, 3), np.uint8))
    monkeypatch.setattr("noiseproof.datasets.load", lambda name, split, side=None: data)
    return data


def test_human_labels_from_a_file(run, tmp_path, cifar10):
    import torch

    given = (cifar10.labels + (np.arange(50) % 5 == 0)) % 10
    torch.save(
        {"clean_label": torch.from_numpy(cifar10.labels), "worse_label": torch.from_numpy(given)},
        tmp_path / "people.pt",
    )
    result = run("cifar10", "--kind", "human", "--file", "people.pt", "--out", "worse.npz")
    assert result.exit_code == 0, result.output
    assert "20.00 % wrong (10 of 50)" in result.output
    assert run("cifar10", "--kind", "real", "--file", "people.pt").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("digits", "--kind", "sim", "--rate", "0.5"), "did you mean 'sym'?"),
        (("digits", "--kind", "sym"), "this kind of noise needs --rate"),
        (("digits", "--kind", "annotators"), "needs --rates"),
        (("digits", "--kind", "annotators", "--rates", "a,b"), "--rates must be numbers such as"),
        (("digits", "--kind", "open-set", "--rate", "0.1"), "needs --outside"),
        (("digits", "--kind", "sym", "--rate", "1.5"), "rate must lie in [0, 1], got 1.5"),
        (("digits", "--kind", "asym", "--rate", "0.5", "--flips", "0>"), "pairs such as 9>1,3>5, got '0>'"),
        (("digits", "--kind", "asym", "--rate", "0.5", "--flips", "cifar"), "flips must be one of"),
        (("digits", "--kind", "masks", "--rate", "0.5"), "digits has no masks to corrupt"),
        (("digits", "--kind", "human"), "human labels exist for cifar10 and cifar100, got digits"),
        (("digitz", "--rate", "0.5"), "digits"),
        (("digits", "--rate", "0.5", "--out", "noisy.npy"), "--out must end in .npz"),
        (("digits", "mine.png", "--rate", "0.5"), "to draw the noise, use --show FILE.png"),
        (("digits", "mine.jpg", "--rate", "0.5", "--show"), "to draw the noise, use --show FILE.png"),
        (("digits", "--rate", "0.5", "--seed", "-1"), "seed must be between"),
        (("digits", "--rate", "0.5", "--out", "no/such/folder/x.npz"), "no/such/folder to write x.npz in"),
    ],
)
def test_what_it_refuses(run, tmp_path, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_help_ends_with_examples_and_imports_nothing_heavy(run):
    result = run("--help")
    assert result.exit_code == 0
    assert "noiseproof noise cifar10 --kind sym --rate 0.8 --seed 1 --out noisy.npz" in result.output
    script = (
        "import sys, noiseproof.command_line.noise; "
        "sys.exit(', '.join({'torch', 'numpy', 'scipy', 'matplotlib'} & sys.modules.keys()) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
