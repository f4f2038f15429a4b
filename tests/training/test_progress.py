# SPDX-License-Identifier: Apache-2.0
"""What training says: bars in a terminal, lines in a log, nothing when quiet; and what a request to stop is."""

import os
import signal
import threading

import pytest
from rich.console import Console

from noiseproof.training import interruption as interruption_room
from noiseproof.training import progress as room
from noiseproof.training import resolve, train
from noiseproof.training.interruption import Interruption
from noiseproof.training.progress import LINES_OF_A_RUN, Bars, PlainLines, Silence, shown, summary

METRICS = {"loss": 1.23456, "clean_accuracy": 90.04, "flipped_accuracy": None, "test_accuracy": 88.26}


def tell(progress, epochs=3):
    progress.begin("run-[bold]1", epochs, 0)
    progress.say("started from [red]weights[/red]")
    for epoch in range(epochs):
        progress.step("run-[bold]1", epoch, 0.5)
        progress.epoch("run-[bold]1", epoch, METRICS)
    progress.end("run-[bold]1", "finished")


def test_a_summary_names_what_was_measured():
    assert summary(METRICS) == "loss 1.2346, train 90.0%, test 88.3%"
    known = METRICS | {"flipped_accuracy": 3.0}
    assert summary(known) == "loss 1.2346, right labels 90.0%, wrong labels 3.0%, test 88.3%"
    assert summary({"loss": float("nan")}) == "loss nan"


def test_lines_where_there_is_no_terminal(capsys):
    with shown() as progress:
        assert isinstance(progress, PlainLines)
        tell(progress)
    assert capsys.readouterr().out.splitlines() == [
        "run-[bold]1: 3 epochs",
        "started from [red]weights[/red]",
        *(f"run-[bold]1: epoch {n}/3, loss 1.2346, train 90.0%, test 88.3%" for n in (1, 2, 3)),
        "run-[bold]1: finished",
    ]


@pytest.mark.parametrize("epochs", [1, 19, 20, 21, 400, 1234])
def test_a_long_run_fills_no_log_and_its_last_epoch_is_told(capsys, epochs):
    tell(PlainLines(), epochs)
    lines = [line for line in capsys.readouterr().out.splitlines() if "epoch " in line]
    assert len(lines) <= 2 * LINES_OF_A_RUN
    assert f"epoch {epochs}/{epochs}" in lines[-1]


def test_a_long_run_tells_its_first_epoch_and_how_long_it_will_take(capsys, monkeypatch):
    """Whoever starts two hours of training should know after a minute."""
    now = 0.0
    monkeypatch.setattr(room.time, "monotonic", lambda: now)
    progress = PlainLines()
    progress.begin("run", 120, 6)
    for epoch in range(6, 12):
        progress.step("run", epoch, 0.0)
        now += 20
        progress.epoch("run", epoch, METRICS)
    lines = [line for line in capsys.readouterr().out.splitlines() if ": epoch" in line]
    assert lines == [
        "run: epoch 7/120, loss 1.2346, train 90.0%, test 88.3%; about 37 min 40 s left",
        "run: epoch 12/120, loss 1.2346, train 90.0%, test 88.3%; about 36 min 00 s left",
    ]


def test_within_a_first_epoch_that_takes_long_it_tells_once_how_long_the_run_will(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(room.time, "monotonic", lambda: now)
    progress = PlainLines()
    progress.begin("run", 120, 0)
    for step in range(1, 9):
        progress.step("run", 0, step / 40)
        now += 10
    lines = [line for line in capsys.readouterr().out.splitlines() if " of epoch" in line]
    assert lines == ["run: 10% of epoch 1/120; about 13 h 19 min left"]


def test_a_resumed_run_says_how_much_was_done(capsys):
    PlainLines().begin("run", 10, 4)
    assert capsys.readouterr().out == "run: 10 epochs, 4 already done\n"


def test_quiet_is_quiet(capsys):
    with shown(quiet=True) as progress:
        assert isinstance(progress, Silence)
        tell(progress)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_bars_in_a_terminal(monkeypatch):
    console = Console(force_terminal=True, width=140, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    monkeypatch.setattr(room, "Console", lambda: console)
    monkeypatch.setattr(room.sys.stdout, "isatty", lambda: True, raising=False)
    with shown() as progress:
        assert isinstance(progress, Bars)
        tell(progress)
        progress.begin("other", 5, 2)
        progress.end("other", "interrupted")
    text = console.export_text()
    assert "run-[bold]1" in text  # no markup: names are shown as they are
    assert "started from [red]weights[/red]" in text
    assert "3/3" in text
    assert "2/5" in text
    assert "test 88.3%" in text
    assert "interrupted" in text


def test_weights_that_a_run_starts_from_are_told_and_recorded(tmp_path, capsys):
    from noiseproof import models

    file = tmp_path / "other.safetensors"
    models.save_weights(models.create("mlp", 7, in_channels=1, image_size=8, batch_norm=True), file)
    record = train(resolve("digits", epochs=1, weights=str(file), device="cpu"), folder=tmp_path / "runs")
    told = "the final layer fc keeps its own weights, since the file has 7 classes and the model 10"
    assert told in capsys.readouterr().out
    assert told in record.environment["weights"]
    assert str(tmp_path) not in record.environment["weights"]


class TestInterruption:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_is_a_request_and_handlers_come_back(self, number):
        before = signal.getsignal(number)
        with Interruption() as interruption:
            assert not interruption.requested
            os.kill(os.getpid(), number)
            assert interruption.requested
        assert signal.getsignal(number) is before

    def test_the_same_ctrl_c_twice_is_one_request(self):
        """Under torchrun a process hears of one Ctrl-C from the terminal and from torchrun."""
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            assert interruption.requested

    def test_pressed_again_it_stops_at_once(self, monkeypatch):
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGINT)
            assert interruption.requested
            monkeypatch.setattr(interruption_room, "ONE_REQUEST_SECONDS", -1.0)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)

    def test_outside_the_main_thread_it_does_nothing(self):
        found = []

        def elsewhere():
            with Interruption() as interruption:
                found.append(interruption.requested)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert found == [False]
