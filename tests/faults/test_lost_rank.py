# SPDX-License-Identifier: Apache-2.0
"""One of two processes that train together dies or falls silent: the other ends in a stated time and in words."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import warm

from noiseproof.training import ranks, resolve, train
from noiseproof.training.store import Store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL and no SIGSTOP")

NOTICED_SECONDS = 60
"""What docs/reliability.md states for a process that dies; measured it is a few seconds."""

EPOCHS = 3000
SMALL = {
    "noise": "sym-0.4",
    "device": "cpu",
    "train_size": 205,
    "batch_size": 40,
}


def config(epochs=EPOCHS):
    return resolve("digits", epochs=epochs, **SMALL)


def one_rank(folder):
    """What each process does; the command line prints the error in this way."""
    try:
        train(config(), folder=folder, quiet=True)
    except ranks.LostRankError as error:
        print(f"Error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def two(tmp_path):
    """Starts two processes, and returns them when both have trained some epochs."""
    processes = []

    def start(**environment):
        before = list(tmp_path.glob("*/checkpoint.pt"))
        modified = before[0].stat().st_mtime_ns if before else None
        environment = (
            os.environ
            | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
            | environment
        )
        processes[:] = [
            warm.Popen([__file__, tmp_path], env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(2)
        ]
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            assert all(process.poll() is None for process in processes), processes[0].communicate()
            written = list(tmp_path.glob("*/checkpoint.pt"))
            if written and written[0].stat().st_mtime_ns != modified:
                return processes
            time.sleep(0.05)
        raise AssertionError("the two processes did not begin to train within ten minutes")

    yield start
    for process in processes:
        process.kill()
        process.wait()


def epochs_of(folder):
    with Store(folder) as store:
        return store.get(config().run_id).epochs


def ends_in_words(process, within):
    began = time.monotonic()
    _, said = process.communicate(timeout=within)
    assert process.returncode == 2, said[-2000:]
    (line,) = [line for line in said.splitlines() if line.startswith("Error: ")]
    assert "another one died, or did not answer" in line
    assert "start all of them again with the same command, and they go on" in line
    assert ".cc:" not in line, "a line of the library's source tells a user nothing"
    return time.monotonic() - began


def kill_and_look(two, folder, victim):
    before = epochs_of(folder) if (folder / "runs.sqlite").exists() else ()
    processes = two()
    time.sleep(0.3)
    processes[victim].send_signal(signal.SIGKILL)
    took = ends_in_words(processes[1 - victim], NOTICED_SECONDS)
    kept = epochs_of(folder)
    assert [epoch["epoch"] for epoch in kept] == list(range(len(kept))), "an epoch is missing"
    settled = before[:-1]  # the last may be repeated
    assert kept[: len(settled)] == settled, "what was finished changed"
    return took


def test_a_killed_process_ends_the_other_within_a_minute_and_nothing_finished_is_lost(two, tmp_path):
    kill_and_look(two, tmp_path, victim=1)


@pytest.mark.slow
def test_ten_killed_processes_one_after_another_on_one_run(two, tmp_path):
    took = [kill_and_look(two, tmp_path, victim=attempt % 2) for attempt in range(10)]
    print(f"noticed after {min(took):.1f} to {max(took):.1f} s")


@pytest.mark.slow
def test_a_process_that_falls_silent_is_waited_for_as_long_as_was_said(two):
    processes = two(NOISEPROOF_RANK_TIMEOUT="8")
    processes[1].send_signal(signal.SIGSTOP)
    assert ends_in_words(processes[0], 40) > 6


@pytest.mark.slow
def test_torchrun_ends_when_one_of_its_processes_is_killed_and_goes_on_when_started_again(tmp_path):
    def command(epochs):
        return [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *(
                "--master-addr",
                "127.0.0.1",
                "--master-port",
                free_port(),
                "-m",
                "noiseproof",
                "train",
                "digits",
            ),
            *("--epochs", str(epochs), "--device", "cpu", "--folder", str(tmp_path)),
        ]

    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    first = subprocess.Popen(command(200), env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*/checkpoint.pt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    ranks_of_it = [
        pid for pid in children if b"RANK=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    ]
    (victim,) = [pid for pid in ranks_of_it if b"noiseproof" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(victim), signal.SIGKILL)
    _, said = first.communicate(timeout=NOTICED_SECONDS)
    assert first.returncode != 0
    assert re.search("another one died|Signal 9", said)
    again = subprocess.run(
        command(200), env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert again.returncode == 0, again.stderr[-2000:]
    with Store(tmp_path) as store:
        (record,) = store.runs()
        assert record.status == "finished"
        assert [epoch["epoch"] for epoch in store.get(record.id).epochs] == list(range(200))


@pytest.mark.parametrize("said", ["soon", "-1", "0", "nan", "inf"])
def test_a_patience_that_is_no_time_is_refused(monkeypatch, said):
    monkeypatch.setenv("NOISEPROOF_RANK_TIMEOUT", said)
    with pytest.raises(ValueError, match=f"NOISEPROOF_RANK_TIMEOUT: expected seconds above 0, got '{said}'"):
        ranks.patience()


def test_errors_of_other_kinds_are_left_alone(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="^mine$"), ranks.plain_errors():
        raise RuntimeError("mine")


if __name__ == "__main__":
    one_rank(Path(sys.argv[1]))
