# SPDX-License-Identifier: Apache-2.0
"""A loss of the user's own, from a module that the command line is told to import."""

import os
import re
from pathlib import Path

from tests import warm

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "your-own-loss.md"
GRID = """
title = "Mine against the others"
kind = "table"
dataset = "digits"
noises = ["sym-0.4"]
seeds = [1, 2]

[settings]
epochs = 1
train_size = 200

[[methods]]
label = "CE"
loss = "ce"

[[methods]]
label = "Mine"
loss = "nsquare"
loss_parameters = { alpha = 2.0 }
"""


def noiseproof(folder, *words, **environment):
    inherited = {k: v for k, v in os.environ.items() if k != "NOISEPROOF_IMPORT"}
    said = {"NOISEPROOF_RUNS": "runs", "COLUMNS": "200"} | environment
    return warm.run(["-m", "noiseproof", *words], cwd=folder, env=inherited | said)


def test_the_loss_of_the_page_is_a_loss_like_any_other(tmp_path):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "mine.py").write_text(code[1])
    (tmp_path / "grid.toml").write_text(GRID)
    unknown = noiseproof(tmp_path, "losses", "nsquare").stderr
    assert "unknown name 'nsquare'" in unknown
    assert unknown.endswith("(to use one of your own: noiseproof --import MODULE)\n")
    told = noiseproof(tmp_path, "--import", "mine", "losses", "nsquare")
    assert "Normalised squared error" in told.stdout, told.stderr
    assert "class      mine.NormalizedSquare" in told.stdout
    assert "import mine  # registers it" in told.stdout
    checked = noiseproof(tmp_path, "losses", "nsquare", "--import", "mine", "--check")
    assert checked.returncode == 0, checked.stdout
    assert "best p_y with 20, 40, 60% wrong labels: 1.00, 1.00, 1.00" in checked.stdout
    trained = noiseproof(tmp_path, "--import", "mine", "bench", "grid.toml", "--processes", "2", "--quiet")
    assert "4 runs: 4 finished" in trained.stdout, trained.stderr
    assert "Report: noiseproof --import mine report grid.toml --open" in trained.stdout
    shown = noiseproof(tmp_path, "table", "grid.toml", NOISEPROOF_IMPORT="mine")
    assert "Mine" in shown.stdout, shown.stderr
    assert "other code" not in trained.stderr
    (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text().replace("** 2", "** 3", 1))
    again = noiseproof(tmp_path, "--import", "mine", "bench", "grid.toml", "--quiet")
    assert "2 runs were trained with other code of the loss nsquare" in again.stderr


def test_a_module_that_cannot_be_imported_is_told(tmp_path):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    missing = noiseproof(tmp_path, "--import", "nowhere", "losses")
    assert (missing.returncode, "--import nowhere: ModuleNotFoundError" in missing.stderr) == (2, True)
    broken = noiseproof(tmp_path, "--import", "broken", "losses")
    assert (broken.returncode, "--import broken: ZeroDivisionError" in broken.stderr) == (2, True)
    as_a_file = noiseproof(tmp_path, "--import", "folder/broken.py", "losses")
    assert as_a_file.returncode == 2
    assert (
        "expected the name of a module in the current folder, broken, got folder/broken.py"
        in as_a_file.stderr
    )


def test_the_noise_of_the_page_can_be_looked_at_and_trained_on(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "mine.py").write_text(next(code for code in blocks if "noise.register" in code))
    seen = noiseproof(
        tmp_path, "--import", "mine", "noise", "digits", "--kind", "next", "--rate", "0.3", "--out", "n.npz"
    )
    assert "% wrong" in seen.stdout, seen.stderr
    unknown = noiseproof(tmp_path, "noise", "digits", "--kind", "next", "--rate", "0.3")
    assert (unknown.returncode, "--import MODULE" in unknown.stderr) == (2, True)
    words = ("train", "digits", "--loss", "ce", "--epochs", "1", "--set", "train_size=200")
    assert "--import MODULE" in noiseproof(tmp_path, *words, "--noise", "next-0.3").stderr


BROKEN = """
import torch
from noiseproof import noise
from noiseproof.losses import LossRecord, RobustLoss, register


def odd(log_p):
    return log_p + torch.zeros(7).view(3)


class Odd(RobustLoss):
    def __init__(self, **options):
        super().__init__(odd, **options)


class TwoWordsError(Exception):
    def __init__(self, first, second):  # cannot be made again from one message, as pickling would
        super().__init__(f"{first} {second}")


class Strange(Odd):
    def forward(self, logits, target):
        raise TwoWordsError("not", "so")


register(LossRecord("odd", "Odd", "?", "?", False, "mine", Odd, odd))
register(LossRecord("strange", "Strange", "?", "?", False, "mine", Strange, odd))
noise.register("typed", lambda samples, rate, random: samples.labels + "1")
"""


def test_an_error_in_ones_own_code_is_told_with_its_line_and_the_run_failed(tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    (tmp_path / "grid.toml").write_text(GRID.replace("nsquare", "odd").replace("loss_parameters", "# "))
    words = ("--import", "mine", "train", "digits", "--epochs", "1", "--noise")
    place = "(in mine.py, line 8: return log_p + torch.zeros(7).view(3))"
    trained = noiseproof(tmp_path, *words, "sym-0.4", "--loss", "odd", "--quiet")
    assert (trained.returncode, trained.stderr.startswith("Error: RuntimeError: shape '[3]' is invalid")) == (
        2,
        True,
    )
    assert trained.stderr.endswith(f"{place}\n")
    page = noiseproof(tmp_path, "runs", "digits-sym-0.4-odd", COLUMNS="300").stdout
    assert ": failed" in page.splitlines()[0]
    assert place in page
    typed = noiseproof(tmp_path, *words, "typed-0.4", "--loss", "ce")
    assert "Error: UFuncTypeError" in typed.stderr
    assert 'in mine.py, line 28: noise.register("typed"' in typed.stderr
    bench = noiseproof(tmp_path, "--import", "mine", "bench", "grid.toml", "--processes", "2", "--quiet")
    assert bench.stderr.count(place) == 2, bench.stderr
    assert "4 runs: 2 finished, 2 failed" in bench.stdout
    (tmp_path / "broken.py").write_text("def f():\n    1 / 0\nf()\n")
    assert (
        "division by zero (in broken.py, line 2: 1 / 0)"
        in noiseproof(tmp_path, "--import", "broken", "runs").stderr
    )


def test_an_error_of_any_kind_in_ones_own_code_is_told_in_a_line(tmp_path):
    """A slip such as a wrong name raises a kind of error that no command expects."""
    (tmp_path / "mine.py").write_text(BROKEN)
    told = 'TwoWordsError: not so (in mine.py, line 23: raise TwoWordsError("not", "so"))'
    words = ("--import", "mine", "train", "digits", "--epochs", "1", "--loss", "strange", "--quiet")
    assert noiseproof(tmp_path, *words).stderr == f"Error: {told}\n"
    (tmp_path / "grid.toml").write_text(GRID.replace("nsquare", "strange").replace("loss_parameters", "# "))
    words = ("bench", "grid.toml", "--methods", "Mine", "--processes", "2")
    bench = noiseproof(tmp_path, "--import", "mine", *words)
    assert f"{told}: trying these 2 runs one by one" in bench.stdout + bench.stderr
    assert "2 runs: 2 failed" in bench.stdout
