# SPDX-License-Identifier: Apache-2.0
"""The thread that writes checkpoints: what it may pass over, what it must not, and errors."""

import threading
import time

import pytest
import torch

from noiseproof.training import checkpoint
from noiseproof.training.checkpoint_writer import CheckpointWriter

CPU = torch.device("cpu")


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class Gate:
    """Holds every write back until it is opened, and notes what was written."""

    def __init__(self, monkeypatch, error=None):
        self.opened, self.began = threading.Event(), threading.Event()
        self.written = []
        save = checkpoint.save

        def held_back(path, state):
            self.began.set()
            assert self.opened.wait(30)
            if error is not None:
                raise error
            save(path, state)
            self.written.append((path.name, state["epoch"]))

        monkeypatch.setattr(checkpoint, "save", held_back)


def test_of_states_that_wait_only_the_newest_is_written(tmp_path, monkeypatch):
    gate, writer = Gate(monkeypatch), CheckpointWriter()
    writer.put(tmp_path / "a", {"epoch": 1})
    assert gate.began.wait(30)  # the first is being written, and cannot be replaced
    for epoch in (2, 3, 4):
        writer.put(tmp_path / "a", {"epoch": epoch})
        writer.put(tmp_path / "b", {"epoch": epoch})
    gate.opened.set()
    writer.close()
    assert gate.written == [("a", 1), ("a", 4), ("b", 4)]
    assert checkpoint.load(tmp_path / "a", CPU) == {"epoch": 4}


def test_what_is_forgotten_is_not_written_later(tmp_path, monkeypatch):
    gate, writer = Gate(monkeypatch), CheckpointWriter()
    writer.put(tmp_path / "a", {"epoch": 1})
    assert gate.began.wait(30)
    writer.put(tmp_path / "a", {"epoch": 2})
    threading.Timer(0.1, gate.opened.set).start()
    writer.forget(tmp_path / "a")  # returns when the first is on the disk
    assert gate.written == [("a", 1)]
    checkpoint.save(tmp_path / "a", {"epoch": 3})
    writer.close()
    assert checkpoint.load(tmp_path / "a", CPU) == {"epoch": 3}


@pytest.mark.parametrize("call", ["put", "flush", "close"])
def test_an_error_is_raised_by_the_next_call_and_once(tmp_path, monkeypatch, call):
    gate, writer = Gate(monkeypatch, error=OSError(28, "no room")), CheckpointWriter()
    path = tmp_path / "a"
    writer.put(path, {"epoch": 1})
    assert gate.began.wait(30)
    gate.opened.set()
    calls = {"put": lambda: writer.put(path, {}), "flush": writer.flush, "close": writer.close}
    wait_until(lambda: writer._errors)
    with pytest.raises(OSError, match="no room"):
        calls[call]()
    monkeypatch.undo()
    writer.close()


def test_an_error_of_one_file_does_not_keep_another_from_being_written(tmp_path, monkeypatch):
    gate, writer = Gate(monkeypatch, error=OSError(28, "no room")), CheckpointWriter()
    writer.put(tmp_path / "a", {"epoch": 1})
    gate.opened.set()
    wait_until(lambda: writer._errors)
    writer.forget(tmp_path / "b")  # says nothing of a
    writer.forget(tmp_path / "a")  # whoever forgets it has something newer to write
    monkeypatch.undo()
    writer.put(tmp_path / "a", {"epoch": 2})
    writer.close()
    assert checkpoint.load(tmp_path / "a", CPU) == {"epoch": 2}


def test_flush_waits_for_everything(tmp_path, monkeypatch):
    gate, writer = Gate(monkeypatch), CheckpointWriter()
    for name in "abc":
        writer.put(tmp_path / name, {"epoch": 1})
    threading.Timer(0.1, gate.opened.set).start()
    writer.flush()
    assert sorted(gate.written) == [("a", 1), ("b", 1), ("c", 1)]
    writer.close()


def test_without_checkpoints_there_is_no_thread(tmp_path):
    before = threading.active_count()
    writer = CheckpointWriter()
    writer.forget(tmp_path / "a")
    assert threading.active_count() == before
    writer.close()
