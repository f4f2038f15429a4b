# SPDX-License-Identifier: Apache-2.0
"""Packs shared out among processes: the same weights as alone, errors and Ctrl-C that reach the caller."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests import warm

from noiseproof.training import NotFiniteError, resolve, train, train_pack
from noiseproof.training import processes as processes_module
from noiseproof.training.interruption import ONE_REQUEST_SECONDS
from noiseproof.training.processes import available_cores
from noiseproof.training.store import Store


def small(**changes):
    return resolve("digits", **({"noise": "sym-0.4", "epochs": 2, "device": "cpu"} | changes))


def weights_of(folder, config):
    from safetensors.torch import load_file

    return load_file(folder / config.run_id / "weights.safetensors")


def test_two_processes_equal_one(tmp_path):
    configs = [small(loss=loss) for loss in ("ce", "gce", "anl-ce")]
    records = train_pack(configs, folder=tmp_path / "shared-out", quiet=True, processes=2)
    assert [record.config["loss"] for record in records] == ["ce", "gce", "anl-ce"]
    assert all(record.status == "finished" and len(record.epochs) == 2 for record in records)
    for config in configs:
        train(config, folder=tmp_path / "alone", quiet=True)
        alone, shared = weights_of(tmp_path / "alone", config), weights_of(tmp_path / "shared-out", config)
        assert all(torch.equal(tensor, shared[name]) for name, tensor in alone.items())


def test_an_error_in_one_process_is_raised_and_the_others_finish(tmp_path, monkeypatch):
    warm.for_packs(monkeypatch)
    good = small(loss="ce")
    bad = small(loss="gce", learning_rate=1e30, clip_norm=0.0, schedule="constant")
    with pytest.raises(NotFiniteError, match="not a finite number in epoch 1"):
        train_pack([good, bad], folder=tmp_path, quiet=True, processes=2)
    with Store(tmp_path) as store:
        assert store.get(good.run_id).status == "finished"
        assert store.get(bad.run_id).status == "failed"


SCRIPT = """
import sys
from pathlib import Path
from noiseproof.training import Interrupted, resolve, train_pack

if __name__ == "__main__":
    configs = [resolve("digits", noise="sym-0.4", epochs=5000, device="cpu", loss=n) for n in ("ce", "gce")]
    try:
        train_pack(configs, folder=Path(sys.argv[1]), quiet=True, processes=2)
    except Interrupted:
        sys.exit(130)
"""


def test_ctrl_c_stops_and_saves_every_process(tmp_path):
    script = tmp_path / "grid.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "runs"
    process = warm.Popen([script, folder])
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*/checkpoint.pt"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    with Store(folder) as store:
        assert [record.status for record in store.runs()] == ["interrupted", "interrupted"]


def test_ctrl_c_while_processes_start_leaves_no_traceback(tmp_path):
    script = tmp_path / "grid.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(  # in a group of its own, all of which a terminal would send it to
        [sys.executable, str(script), str(tmp_path / "runs")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while (
        len(children_of(process.pid)) < 3 and time.monotonic() < deadline
    ):  # a tracker of resources, two workers
        time.sleep(0.01)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "")


def children_of(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


class Worker(threading.Thread):
    """Stands for a process: it puts an error, if it has one, and works until it is asked to end."""

    def __init__(self, errors, error=None):
        super().__init__(daemon=True)
        self.sentinel, self.end = os.pipe()
        self.errors, self.error, self.asked, self.asked_at = errors, error, threading.Event(), None

    def run(self):
        if self.error is not None:
            self.errors.put(self.error)
        else:
            self.asked.wait(20)
        os.close(self.end)  # which is how the end of a process is noticed

    def terminate(self):
        self.asked_at = time.monotonic()
        self.asked.set()


def test_a_wish_to_stop_reaches_many_processes_at_once():
    """Ctrl-C in a terminal has reached them too; whoever is asked again a second later stops without saving."""
    errors = multiprocessing.get_context("spawn").SimpleQueue()
    workers = [Worker(errors) for _ in range(40)]
    for worker in workers:
        worker.start()
    wish = SimpleNamespace(requested=False)
    threading.Timer(0.2, lambda: setattr(wish, "requested", True)).start()
    began = time.monotonic()
    assert processes_module._wait_for(workers, errors, wish) == []
    assert max(worker.asked_at for worker in workers) - began < 0.2 + ONE_REQUEST_SECONDS / 2


@pytest.mark.parametrize("count", [1, 3])
def test_an_error_longer_than_a_pipe_holds_up_nobody(count):
    """Compilers' errors are: they quote what they could not compile."""
    errors = multiprocessing.get_context("spawn").SimpleQueue()
    workers = [Worker(errors, RuntimeError("long" * 100_000)) for _ in range(count)]
    for worker in workers:
        worker.start()
    found = processes_module._wait_for(workers, errors, SimpleNamespace(requested=False))
    assert [len(str(error)) for error in found] == [400_000] * count


def test_there_is_at_least_one_core():
    assert available_cores() >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to stop with")
def test_processes_whose_parent_is_killed_save_and_stop(tmp_path):
    """They would hold their runs, and nobody could go on with these until all of them were trained."""
    script = tmp_path / "grid.py"
    script.write_text(SCRIPT)
    folder = tmp_path / "runs"
    process = subprocess.Popen([sys.executable, str(script), str(folder)], start_new_session=True)
    deadline = time.monotonic() + 120
    while len(list(folder.glob("*/checkpoint.pt"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait()
    with Store(folder) as store:
        while {run.status for run in store.runs()} != {"interrupted"} and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [record.status for record in store.runs()] == ["interrupted", "interrupted"]
