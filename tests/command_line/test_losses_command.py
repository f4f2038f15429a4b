# SPDX-License-Identifier: Apache-2.0
"""``noiseproof losses`` and the command line's manners."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from noiseproof import __version__
from noiseproof.command_line import app
from noiseproof.losses import available, record


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_lists_every_loss():
    result = run("losses")
    assert result.exit_code == 0
    listed = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert {*available(), *available(whole_images=True)} <= listed
    for text in ("[exp(−1/a), 1]", "= apl", "symmetric", "Zhou et al., ICML 2021", "alpha=5, beta=5"):
        assert text in result.stdout


@pytest.mark.parametrize("name", [*available(), *available(whole_images=True)])
def test_explains_every_loss(name):
    result = run("losses", name)
    assert result.exit_code == 0
    shown = record(name)
    for text in (shown.title, shown.module.__name__, shown.function.__name__, f'create("{name}"'):
        assert text in result.stdout
    for recipe in shown.recipes:
        assert recipe in result.stdout


def test_the_example_it_prints_runs():
    for name in available():
        lines = run("losses", name).stdout.split("Example\n")[1].splitlines()
        code = "\n".join(line.strip() for line in lines if "model(images)" not in line)
        made = {}
        exec(compile(code, name, "exec"), made)
        assert type(made["loss"]) is record(name).module


def test_a_loss_is_checked_and_what_is_wrong_makes_the_status_one():
    result = run("losses", "nce", "--check")
    assert result.exit_code == 0
    assert "note  asymmetric noise" in result.stdout
    found = json.loads(run("losses", "ce", "--check", "--json").stdout)
    assert {"subject": "pickling", "verdict": "fine", "text": "a copy gives the same loss"} in found
    object.__setattr__(record("ce"), "symmetric", True)
    try:
        wrong = run("losses", "ce", "--check")
    finally:
        object.__setattr__(record("ce"), "symmetric", False)
    assert wrong.exit_code == 1
    assert "wrong  symmetric" in wrong.stdout
    for words, text in (((), "--check: expected the name of a loss"), (("dice",), "looks at whole images")):
        refused = run("losses", *words, "--check")
        assert (refused.exit_code, text in refused.stderr) == (2, True)


def test_json_is_complete():
    parsed = json.loads(run("losses", "--json").stdout)
    assert [each["name"] for each in parsed] == [*available(), *available(whole_images=True)]
    (anl,) = json.loads(run("losses", "anl-ce", "--json").stdout)
    assert anl["recipes"]["cifar10"]["l1"] == 5e-5


def test_unknown_name_suggests_the_nearest():
    result = run("losses", "anlce")
    assert result.exit_code == 2
    assert "did you mean 'anl-ce'?" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_ends_with_examples():
    assert "noiseproof losses anl-ce" in run("losses", "--help").stdout
    assert run("--version").stdout == f"noiseproof {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["losses", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys\n"
        "from noiseproof.command_line import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'scipy', 'sklearn', 'matplotlib', 'PIL'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
