# SPDX-License-Identifier: Apache-2.0
"""Runs that are stopped, cut off or started twice: what was finished stays, the rest comes out as ever."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file
from tests.stopping import StopAfter

from noiseproof.training import Interrupted, resolve, train
from noiseproof.training import checkpoint as checkpoint_room
from noiseproof.training import engine as engine_module
from noiseproof.training.checkpoint import BadCheckpointError
from noiseproof.training.store import Store

CPU = torch.device("cpu")
COMMAND = [
    sys.executable,
    "-m",
    "noiseproof",
    "train",
    "digits",
    "--noise",
    "sym-0.4",
    "--device",
    "cpu",
    "-q",
]


def config(epochs):
    return resolve("digits", noise="sym-0.4", epochs=epochs, device="cpu")


def weights_of(folder, config):
    return load_file(folder / config.run_id / "weights.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def start(folder, epochs):
    command = [*COMMAND, "--epochs", str(epochs), "--folder", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_an_epoch(folder, process):
    deadline = time.monotonic() + 600
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/checkpoint.pt")}
    while time.monotonic() < deadline and process.poll() is None:
        for path in folder.glob("*/checkpoint.pt"):
            if path.stat().st_mtime_ns != before.get(path):
                return
        time.sleep(0.02)
    assert process.poll() is not None, "no epoch was saved within ten minutes"


def stop_once(folder, epochs, signals, wait):
    """Start the command, send signals, and return whether it was stopped by them, with what it said."""
    process = start(folder, epochs)
    wait_for_an_epoch(folder, process)
    time.sleep(wait)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.01)
    _, said = process.communicate(timeout=120)
    if process.returncode == 0:
        return False, said
    # A second signal may come when all is saved and Python's own handlers are back: it then ends the process.
    assert process.returncode in (130, *(-number for number in signals[1:])), said[-2000:]
    with Store(folder) as store:
        assert [record.status for record in store.runs()] == ["interrupted"]
    return True, said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_sigterm_saves_and_says_how_to_go_on(tmp_path):
    stopped, said = stop_once(tmp_path, 5000, [signal.SIGTERM], 0.0)
    assert stopped
    assert (
        "Stopped; nothing is lost. Resume with: noiseproof train --resume digits-sym-0.4-anl-ce-s1-" in said
    )
    with Store(tmp_path) as store:
        (record,) = store.runs()
        assert record.status == "interrupted"
        assert [epoch["epoch"] for epoch in store.get(record.id).epochs] == list(
            range(record.progress.epochs)
        )
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
@pytest.mark.parametrize(
    "signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGINT, signal.SIGTERM]], ids=str
)
def test_ten_stops_change_nothing(tmp_path, signals):
    """At random moments of one run; two signals close together are one request, as torchrun and terminals send."""
    rng, stops = random.Random(len(signals)), 0
    while stops < 10:
        stopped, said = stop_once(tmp_path / "stopped", 1000, signals, rng.uniform(0, 0.6))
        assert stopped, f"the run ended after {stops} stops: {said}"
        stops += 1
    process = start(tmp_path / "stopped", 1000)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    train(config(1000), folder=tmp_path / "whole", quiet=True)
    assert same(weights_of(tmp_path / "whole", config(1000)), weights_of(tmp_path / "stopped", config(1000)))
    with Store(tmp_path / "stopped") as store:
        epochs = store.get(config(1000).run_id).epochs
    assert [epoch["epoch"] for epoch in epochs] == list(range(1000))


def again(config, tmp_path):
    return train(config, folder=tmp_path / "parts", quiet=True)


def test_a_checkpoint_cut_off_at_every_hundredth_of_its_length(tmp_path, monkeypatch):
    """Every one is refused in words, none changes a record, and the whole one goes on as if nothing had been."""
    small = resolve("digits", noise="sym-0.4", epochs=3, device="cpu", train_size=300)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(5))
        with pytest.raises(Interrupted):
            again(small, tmp_path)
    path = tmp_path / "parts" / small.run_id / "checkpoint.pt"
    good = path.read_bytes()
    with Store(tmp_path / "parts") as store:
        before = store.get(small.run_id)
    for percent in range(100):
        path.write_bytes(good[: len(good) * percent // 100])
        # Each tenth from end to end.
        read = (lambda: checkpoint_room.load(path, CPU)) if percent % 10 else lambda: again(small, tmp_path)
        with pytest.raises(
            BadCheckpointError, match="put back a copy of it, or remove it to train the run from"
        ):
            read()
        assert path.stat().st_size == len(good) * percent // 100, "what is damaged is left as it is"
    with Store(tmp_path / "parts") as store:
        assert store.get(small.run_id) == before
    path.write_bytes(good)
    again(small, tmp_path)
    train(small, folder=tmp_path / "whole", quiet=True)
    assert same(weights_of(tmp_path / "whole", small), weights_of(tmp_path / "parts", small))


def two_at_once(folder, epochs):
    """Start the same run twice; one trains it, the other says who does, or that it has been done."""
    processes = [start(folder, epochs) for _ in range(2)]
    ended = [process.communicate(timeout=200) for process in processes]
    codes = [process.returncode for process in processes]
    assert 0 in codes
    refused = [said for (_, said), code in zip(ended, codes, strict=True) if code]
    for said in refused:
        (holder,) = [str(process.pid) for process, code in zip(processes, codes, strict=True) if not code]
        assert f"is in use by process {holder} on " in said
        assert f"wait for it or stop it (kill {holder})" in said
    with Store(folder) as store:
        (record,) = store.runs()
        assert record.status == "finished"
        assert [epoch["epoch"] for epoch in store.get(record.id).epochs] == list(range(epochs))
    return len(refused)


@pytest.mark.slow
def test_two_processes_on_one_run_ten_times(tmp_path):
    refused = sum(two_at_once(tmp_path / str(attempt), 150) for attempt in range(10))
    train(config(150), folder=tmp_path / "alone", quiet=True)
    for attempt in range(10):
        assert same(
            weights_of(tmp_path / "alone", config(150)), weights_of(tmp_path / str(attempt), config(150))
        )
    print(f"{refused} of 10 seconds were refused; the others came when all was done")
    assert refused > 0
