# SPDX-License-Identifier: Apache-2.0
"""Searches: kept, gone on with, shared, stopped, and read back by train."""

import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import noiseproof
from noiseproof.command_line import app
from noiseproof.planning.tuning import FILE_NAME, search, study_name
from noiseproof.training import resolve
from noiseproof.training.store import Store

optuna = pytest.importorskip("optuna", reason="a search needs Optuna: pip install 'noiseproof[tune]'")

SHORT = ("digits", "--noise", "sym-0.4", "--epochs", "2")


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*words):
    return CliRunner().invoke(app, list(words))


def environment():
    package = Path(noiseproof.__file__).parents[1]
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(package)}


def config(**changes):
    return resolve("digits", **({"noise": "sym-0.4", "epochs": 2} | changes))


def trials_of(name):
    return optuna.load_study(
        study_name=name, storage=f"sqlite:///{Path('runs').absolute() / FILE_NAME}"
    ).trials


def test_a_search_begins_with_the_published_numbers_and_keeps_the_best():
    found = search(config(), trials=4, folder=Path("runs"))
    assert len(found.trials) == 4
    assert found.trials[0].numbers == {"alpha": 5.0, "beta": 5.0, "l1": 5e-5, "learning_rate": 0.01}
    assert found.best.score == max(each.score for each in found.trials)
    assert found.config.loss_parameters["alpha"] == found.best.numbers["alpha"]
    assert found.config.learning_rate == found.best.numbers["learning_rate"]


def test_a_study_goes_on_where_it_was():
    first = search(config(), trials=2, folder=Path("runs"))
    told = []
    more = search(
        config(), trials=4, folder=Path("runs"), tell=lambda trial, over: told.append((trial, over))
    )
    assert more.trials[:2] == first.trials
    assert [over for _, over in told] == [3, 4]
    assert len({str(each.numbers) for each in more.trials}) == 4  # random numbers are not drawn again
    again = search(
        config(), trials=4, folder=Path("runs"), tell=lambda trial, over: pytest.fail("trained again")
    )
    assert again.best == more.best


def test_other_settings_are_refused():
    search(config(), trials=1, folder=Path("runs"), study="mine")
    with pytest.raises(
        ValueError, match="'mine' was started with other settings \\(epochs 2 instead of 3\\)"
    ):
        search(config(epochs=3), trials=1, folder=Path("runs"), study="mine")
    with pytest.raises(ValueError, match="on 'noisy' instead of 'clean'"):
        search(config(), trials=1, folder=Path("runs"), study="mine", on="clean")


def test_noisy_and_clean_judges_see_the_same_trial_differently():
    noisy = search(config(epochs=8), trials=1, folder=Path("runs"))
    clean = search(config(epochs=8), trials=1, folder=Path("runs"), on="clean")
    assert noisy.study != clean.study
    assert clean.best.score > noisy.best.score + 15  # 37.6% of the noisy labels are wrong


def test_a_trial_that_falls_behind_is_cut_short(monkeypatch):
    from noiseproof.planning import tuning

    monkeypatch.setattr(tuning, "STARTUP_TRIALS", 1)
    scores = iter([[50.0, 60.0, 70.0, 80.0, 85.0], [10.0, 11.0, 12.0, 13.0, 14.0]])

    def pretended(given, data, after_epoch, interruption):
        for epoch, score in enumerate(next(scores), 1):
            after_epoch(epoch, score)

    monkeypatch.setattr(tuning, "train_trial", pretended)
    found = search(config(epochs=5), trials=2, folder=Path("runs"))
    assert [each.state for each in found.trials] == ["complete", "pruned"]
    assert found.trials[1].epochs < 5
    assert found.trials[1].score < 15
    assert found.best.number == 0


def test_a_trial_that_fails_is_kept_as_failed(monkeypatch):
    from noiseproof.planning import tuning
    from noiseproof.training.run import NotFiniteError

    real = tuning.train_trial

    def fails_once(given, *others):
        if given.loss_parameters["alpha"] == 5.0:
            raise NotFiniteError("not a finite number in epoch 1")
        return real(given, *others)

    monkeypatch.setattr(tuning, "train_trial", fails_once)
    found = search(config(), trials=2, folder=Path("runs"))
    assert [each.state for each in found.trials] == ["fail", "complete"]
    assert found.best.number == 1


@pytest.mark.parametrize("data", ["digits", "photos"])
def test_tune_then_train(data, photos):
    words = SHORT if data == "digits" else (photos(), "--model", "mlp", "--image-size", "8", "--epochs", "1")
    done = run("tune", *words, "--trials", "2", "--out", "tuned.toml", "--workers", "0")
    assert done.exit_code == 0, done.output
    assert "(start)" in done.output
    assert "Train with: noiseproof train" in done.output
    recipe = tomllib.loads(Path("tuned.toml").read_text())
    trained = run("train", words[0], "--recipe", "tuned.toml", "-q", "--workers", "0")
    assert trained.exit_code == 0, trained.output
    with Store(Path("runs")) as store:
        (record,) = store.runs()
    for field in ("loss", "loss_parameters", "l1", "learning_rate", "model", "epochs"):
        assert record.config[field] == recipe[field]


def test_a_number_that_is_named_is_searched_alone():
    words = ("tune", *SHORT, "--loss", "gce", "--trials", "2", "--out", "tuned.toml")
    told = run(*words, "--search", "q=0.3:0.9")
    assert told.exit_code == 0, told.stderr
    assert "-of-q: q 0.3–0.9; 2 epochs per trial." in told.stdout
    assert "Not searched" not in told.stdout
    assert told.stdout.endswith("noiseproof train digits --recipe tuned.toml --noise sym-0.4\n")
    tuned = tomllib.loads(Path("tuned.toml").read_text())
    assert set(tuned["loss_parameters"]) == {"q"}
    assert (tuned["learning_rate"], tuned["weight_decay"]) == (0.01, 1e-4)
    other = run(*words, "--search", "q=0.2:0.9")
    assert (other.exit_code, "was started with other settings (search" in other.stderr) == (2, True)
    usual = run("tune", *SHORT, "--loss", "nce+agce", "--trials", "1")
    assert "Not searched: a, q; choose what to search with --search NAME=LOW:HIGH." in usual.stdout


def test_ctrl_c_keeps_all_trials_and_says_how_to_go_on():
    words = ("digits", "--noise", "sym-0.4", "--epochs", "20", "--trials", "50", "--folder", "runs")
    process = subprocess.Popen(
        [sys.executable, "-m", "noiseproof", "tune", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        for line in process.stdout:
            if line.startswith("trial 0"):
                break
        time.sleep(0.5)  # the second trial is under way
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    name = study_name(config(epochs=20))
    assert f"Continue with: noiseproof tune {' '.join(words)} --study {name}" in errors
    states = [(each.state.name, bool(each.user_attrs)) for each in trials_of(name)]
    assert states[0] == ("COMPLETE", False)
    assert states[-1] == ("WAITING", False)  # the one that was stopped, to be begun again
    stopped = next(each for each in trials_of(name) if each.user_attrs.get("interrupted"))
    assert trials_of(name)[-1].system_attrs["fixed_params"] == stopped.params


@pytest.mark.slow
def test_two_processes_share_a_study():
    words = [sys.executable, "-m", "noiseproof", "tune", *SHORT, "--trials", "6", "--study", "shared", "-q"]
    search(config(), trials=1, folder=Path("runs"), study="shared")
    both = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        for _ in range(2)
    ]
    outputs = [each.communicate(timeout=120) for each in both]
    assert [each.returncode for each in both] == [0, 0], outputs
    complete = [each for each in trials_of("shared") if each.state.name in ("COMPLETE", "PRUNED")]
    assert 6 <= len(complete) <= 7  # the last two may have been begun at once
    assert len({str(each.params) for each in complete}) == len(complete)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digitz",), "did you mean 'digits'"),
        (("digits", "--loss", "anlce"), "did you mean 'anl-ce'"),
        (("digits", "--trials", "0"), "trials: expected at least 1, got 0"),
        (("digits", "--on", "true"), "on: expected one of noisy, clean"),
        (("digits", "--on", "clean"), "true labels are known only if the noise is added here"),
        (("digits", "--pruner", "mean"), "pruner: expected one of median, hyperband, none"),
        (("digits", "--share", "1"), "share: expected a share of the samples between 0 and 1"),
        (("blobs",), "these have masks"),
    ],
)
def test_wrong_input_is_told_plainly(words, message):
    done = run("tune", *words)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
