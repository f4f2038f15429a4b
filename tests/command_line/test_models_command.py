# SPDX-License-Identifier: Apache-2.0
"""``noiseproof models``: the table, one network explained, JSON, errors."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from noiseproof.command_line import models as command
from noiseproof.models import available, record

app = typer.Typer(rich_markup_mode="rich")
app.command("models", epilog=command.EPILOG)(command.models)


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_lists_every_network():
    result = run()
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    for name in available():
        assert f"{record(name).parameters(10):,}" in rows[name]
    assert "1,639,794   32x32, 3 channels" in rows["cnn8"]
    assert "28x28, 1 channel or tables" in rows["mlp"]


@pytest.mark.parametrize("name", available())
def test_explains_every_network(name):
    result = run(name)
    assert result.exit_code == 0
    shown = record(name)
    for text in (shown.title, f"{shown.parameters(10):,} for 10 classes", *shown.options):
        assert text in result.stdout


def test_the_example_it_prints_runs():
    lines = run("cnn8").stdout.split("Example\n")[1].splitlines()
    code = "\n".join(line.strip() for line in lines if "images" not in line)
    made = {}
    exec(compile(code, "cnn8", "exec"), made)
    assert sum(each.numel() for each in made["model"].parameters()) == record("cnn8").parameters(10)


def test_json_is_complete():
    parsed = json.loads(run("--json").stdout)
    assert [each["name"] for each in parsed] == [*available(), *available("segmentation")]
    (perceptron,) = json.loads(run("mlp", "--json").stdout)
    assert perceptron["options"] == {"in_features": None, "hidden": [256, 256], "batch_norm": False}


@pytest.mark.parametrize(
    ("name", "message"), [("resnet-34", "did you mean 'resnet34'?"), ("timm:resnet18", "pip install timm")]
)
def test_errors_are_one_line(name, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    result = run(name)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_help_ends_with_examples():
    assert "noiseproof models resnet34-cifar" in run("--help").stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys, noiseproof.command_line.models\n"
        "heavy = {'torch', 'numpy', 'timm', 'safetensors', 'rich.table'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
