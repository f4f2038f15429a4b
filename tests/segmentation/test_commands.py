# SPDX-License-Identifier: Apache-2.0
"""Segmentation on the command line, and in the documents."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.command_line.demo_segmentation import SETTINGS, demo_grid, demo_segmentation

DOCUMENT = Path(__file__).parents[2] / "docs" / "segmentation.md"


def invoke(arguments, program=app):
    return CliRunner().invoke(program, arguments)


def test_train_tells_dice_and_runs_show_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEPROOF_RUNS", str(tmp_path))
    arguments = (
        "train blobs --noise masks-0.7-0.7 --loss anl-ce --epochs 2 --train-size 32 --device cpu --quiet"
    )
    result = invoke(arguments.split())
    assert result.exit_code == 0, result.output
    told = re.search(
        r"test Dice ([\d.]+)% \(([\d.]+)% per image\), mean over the last 2 epochs", result.output
    )
    assert told
    run = result.output.split(":")[0]
    page = invoke(["runs", run])
    assert page.exit_code == 0, page.output
    assert f"{told[1]} % Dice, mean over the last 2 epochs" in page.output
    assert "kinds" in page.output
    rows = [line.split() for line in invoke(["runs"]).output.splitlines() if "2/2" in line]
    assert [row[row.index("2/2") + 1] for row in rows] == [told[1]]  # the result, not the last epoch's
    compared = invoke(["runs", "compare", run, run]).output
    assert "test Dice, the result" in compared
    assert "best test Dice" in compared
    assert "test accuracy" not in compared


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train blobs --noise sym-0.4 --loss ce", "is for class labels, and blobs has masks"),
        ("train blobs --model resnet18 --loss ce", "'resnet18' is for classification"),
        ("train digits --loss t-loss", "'t-loss' looks at masks, and digits has none"),
        ("train blobs --noise masks-0.7 --loss ce", "masks-SHARE-STRENGTH"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.setenv("NOISEPROOF_RUNS", str(tmp_path))
    result = invoke([*arguments.split(), "--device", "cpu"])
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def odd_sizes(folder):
    """Twelve pictures with masks, each of its own size; returns the data set's name."""
    for number in range(12):
        for kind, mode in (("images", "RGB"), ("masks", "L")):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            picture = Image.new(mode, (20 + number, 31 - number))
            picture.paste("white", (4, 4, 14, 12 + number % 3))
            picture.save(folder / kind / f"{number}.png")
    return f"folder:{folder}"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["data", "check"], "(16, 16, 3)"),
        (["data", "show"], "12 of 12 images"),
        (["plan"], "image_size = 16"),
        (["noise", "--kind", "masks", "--share", "0.5"], "50.00 % of masks differ"),
    ],
)
def test_pictures_of_different_sizes_are_looked_at_and_planned_for_at_one(
    tmp_path, monkeypatch, command, told
):
    monkeypatch.chdir(tmp_path)
    name = odd_sizes(tmp_path / "odd")
    refused = invoke([*command, name])
    assert refused.exit_code in (1, 2)
    result = invoke([*command, name, "--image-size", "16"])
    assert result.exit_code == 0, result.output
    assert told in result.output


def test_a_grid_of_pictures_of_different_sizes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = f"""
        dataset = "{odd_sizes(tmp_path / "odd")}"
        noises = ["clean"]
        seeds = [1]
        recipe = "blobs"
        settings = {{ epochs = 1, image_size = 16, device = "cpu" }}
        methods = [{{ label = "CE", loss = "ce" }}]
    """
    Path("mine.toml").write_text(grid)
    result = invoke(["bench", "mine.toml", "--processes", "1"])
    assert result.exit_code == 0, result.output
    assert "1 finished" in result.output


def test_what_is_told_of_a_run_in_a_folder_of_its_own_names_that_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEPROOF_RUNS", str(tmp_path / "usual"))
    kept = tmp_path / "my runs"
    words = ["train", odd_sizes(tmp_path / "odd"), "--recipe", "blobs", "--loss", "ce", "--image-size", "16"]
    result = invoke([*words, "--epochs", "1", "--device", "cpu", "--quiet", "--folder", str(kept)])
    assert result.exit_code == 0, result.output
    more = re.search(r"Details: noiseproof (.*)", result.output)
    assert more
    shown = invoke(shlex.split(more[1]))
    assert shown.exit_code == 0, shown.output
    assert "% Dice" in shown.output


def test_noise_of_masks_is_made_at_the_size_of_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = odd_sizes(tmp_path / "odd")
    made = invoke(
        ["noise", name, "--kind", "masks", "--share", "0.5", "--image-size", "16", "--out", "m.npz"]
    )
    assert made.exit_code == 0, made.output
    told = re.search(r"train on it with: noiseproof (.*)", made.output)
    assert told
    assert told[1].endswith("--noise file:m.npz --image-size 16")
    quick = ["--recipe", "blobs", "--loss", "ce", "--epochs", "1", "--device", "cpu", "--quiet"]
    result = invoke([*told[1].split(), *quick])
    assert result.exit_code == 0, result.output
    other = invoke(["train", name, "--noise", "file:m.npz", "--image-size", "32", *quick])
    assert other.exit_code == 2
    assert "brought to 32 (noiseproof noise --image-size 32)" in other.output
    labels = invoke(["noise", name, "--rate", "0.4", "--image-size", "16"])
    assert labels.exit_code == 2
    assert "has masks, and sym is for labels of whole images; use --kind masks" in labels.output
    assert (
        "leave it out for digits" in invoke(["noise", "digits", "--rate", "0.4", "--image-size", "16"]).output
    )


@pytest.mark.parametrize("recipe", [(), ("--recipe", "blobs")])
def test_pictures_of_different_sizes_are_trained_on_at_one(tmp_path, recipe):
    odd_sizes(tmp_path / "odd")
    command = [
        "train",
        f"folder:{tmp_path / 'odd'}",
        "--loss",
        "ce",
        "--epochs",
        "1",
        "--device",
        "cpu",
        *recipe,
    ]
    command += ["--folder", str(tmp_path / "runs")]
    refused = invoke(command)
    assert refused.exit_code == 2
    assert "or let --image-size 256 do it" in refused.output
    result = invoke([*command, "--image-size", "16"])
    assert result.exit_code == 0, result.output
    assert "test Dice" in result.output
    too_small = invoke([*command, "--image-size", "0"])
    assert too_small.exit_code == 2
    assert "image_size: expected an integer >= 1, got 0" in too_small.output


def test_the_demo_trains_three_losses_and_writes_a_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(SETTINGS, "model_options", {"base_width": 2})  # the same, only smaller
    monkeypatch.setitem(SETTINGS, "train_size", 48)
    program = typer.Typer()
    program.command()(demo_segmentation)
    result = invoke(["--epochs", "2", "--processes", "1", "--folder", "runs", "--out", "page.html"], program)
    assert result.exit_code == 0, result.output
    assert "69% of the training masks are wrong" in result.output  # 33 of 48
    for loss in ("ce", "t-loss", "anl-ce"):
        assert re.search(rf"^{loss} +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +\d+$", result.output, re.M), loss
    page = (tmp_path / "page.html").read_text()
    assert "Segmentation examples" in page
    assert page.count("data:image/png") == 6 * 6 + 3 * 6 * 3
    again = invoke(["--epochs", "2", "--processes", "1", "--folder", "runs", "--out", "page.html"], program)
    assert again.exit_code == 0  # trained already
    bad = invoke(["--share", "1.5"], program)
    assert bad.exit_code == 2
    assert "share must lie in [0, 1]" in bad.output


def test_the_demo_differs_in_nothing_but_the_loss():
    configs = [cell.config.as_data() for cell in demo_grid(0.7, 0.7, 1, None).cells()]
    loss = ("loss", "loss_parameters", "l1", "weight_decay")
    assert len({str({k: v for k, v in config.items() if k not in loss}) for config in configs}) == 1


def test_code_in_the_document_runs():
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    assert len(blocks) == 1
    exec(compile(blocks[0], "segmentation.md", "exec"), {"__name__": "document"})
