# SPDX-License-Identifier: Apache-2.0
"""One process a run, with real processes, killed ones among them."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noiseproof.training.run_lock import Holder, RunIsLocked, holder, lock_file, locked

RUN = "digits-s1"

# A child imports the lock alone: the whole package would bring torch, and seconds, with it.
LEAN = f"""
import os, sys, time, types
package = types.ModuleType("noiseproof.training")
package.__path__ = [{str(Path(sys.modules[locked.__module__].__file__).parent)!r}]
sys.modules["noiseproof.training"] = package
from pathlib import Path
from noiseproof.training.run_lock import RunIsLocked, locked
folder = Path(sys.argv[1])
"""

HOLD = LEAN + "with locked(folder, 'digits-s1'):\n    print('held', flush=True)\n    sys.stdin.readline()\n"


def started(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def other(tmp_path):
    """Another process that holds the run."""
    process = started(HOLD, tmp_path)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_is_told_who_and_what_to_do(tmp_path, other):
    with pytest.raises(RunIsLocked) as refused, locked(tmp_path, RUN):
        pytest.fail("two processes on one run")
    assert refused.value.holder == holder(tmp_path, RUN)
    assert (refused.value.holder.pid, refused.value.holder.host) == (other.pid, socket.gethostname())
    text = str(refused.value)
    for part in (RUN, f"process {other.pid} on {socket.gethostname()}", f"kill {other.pid}", "another seed"):
        assert part in text
    assert other.poll() is None


def test_another_run_is_free(tmp_path, other):
    with locked(tmp_path, "digits-s2"):
        assert holder(tmp_path, "digits-s2").is_this_process
    assert holder(tmp_path, "digits-s2") is None


def test_a_holder_that_ends_leaves_nothing_behind(tmp_path, other):
    other.communicate("go\n")
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path, RUN):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_killed_holder_is_in_nobodys_way(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert lock_file(tmp_path, RUN).exists(), "a killed process cannot tidy up"
    assert holder(tmp_path, RUN) is None
    with locked(tmp_path, RUN):
        assert holder(tmp_path, RUN).is_this_process


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_worker_does_not_keep_the_lock(tmp_path):
    """A loader's worker lives on for seconds after its trainer was killed; resuming must not wait for it."""
    script = (
        LEAN
        + """
with locked(folder, "digits-s1"):
    worker = os.fork()
    if worker == 0:
        print("worker", os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""
    )
    trainer = started(script, tmp_path)
    worker = int(trainer.stdout.readline().split()[1])
    try:
        assert holder(tmp_path, RUN).pid == trainer.pid
        trainer.kill()
        trainer.wait()
        os.kill(worker, 0)  # it is alive
        with locked(tmp_path, RUN):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)
        trainer.communicate()


def test_not_twice_in_one_process(tmp_path):
    with locked(tmp_path, RUN):
        with pytest.raises(RunIsLocked, match="in use by this very process; wait for it or stop it, or"):  # noqa: SIM117
            with locked(tmp_path, RUN):
                pytest.fail("held twice")
        assert holder(tmp_path, RUN).is_this_process


def test_an_error_inside_lets_go(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path, RUN):
        _ = 1 / 0
    with locked(tmp_path, RUN):
        pass


def test_looking_does_not_get_in_the_way(tmp_path):
    """Others may look who holds a run at the very moment when it is locked."""
    look = (
        LEAN + "from noiseproof.training.run_lock import holder\nprint('on', flush=True)\n"
        "while True: holder(folder, 'digits-s1')\n"
    )
    looking = started(look, tmp_path)
    looking.stdout.readline()
    lock_file(tmp_path, RUN).touch()
    try:
        for _ in range(200):
            with locked(tmp_path, RUN):
                pass
        assert looking.poll() is None  # it was looking all the time
    finally:
        looking.kill()
        looking.communicate()


def test_only_one_of_many_gets_it(tmp_path):
    """Taken and given back as fast as can be, by several at once, it is never with two."""
    contend = (
        LEAN
        + """
end, entered = time.monotonic() + 0.7, 0
while time.monotonic() < end:
    try:
        with locked(folder, "digits-s1"):
            (folder / "inside").touch(exist_ok=False)  # fails if another is inside
            entered += 1
            (folder / "inside").unlink()
    except RunIsLocked:
        pass
print(entered)
"""
    )
    processes = [started(contend, tmp_path) for _ in range(3)]
    entered = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(entered) > 10


@pytest.mark.parametrize("content", ["", "not JSON", "[1]", '{"pid": "x"}'])
def test_an_unreadable_signature_still_locks(tmp_path, other, content):
    lock_file(tmp_path, RUN).write_text(content)
    with pytest.raises(RunIsLocked, match="in use by another process; wait for it or stop it"):  # noqa: SIM117
        with locked(tmp_path, RUN):
            pytest.fail("locked by another")


def test_names_are_checked(tmp_path):
    with pytest.raises(ValueError, match="run id"), locked(tmp_path, "../escape"):
        pytest.fail("a lock outside of the folder")


def test_giving_up_is_quick(tmp_path, other):
    begin = time.monotonic()
    with pytest.raises(RunIsLocked), locked(tmp_path, RUN):
        pytest.fail("locked by another")
    assert time.monotonic() - begin < 5


def test_the_error_travels_between_processes():
    error = RunIsLocked(RUN, Holder(7, "elsewhere", "2026-01-01T00:00:00+00:00"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.holder) == (str(error), error.holder)
    assert "kill 7 on elsewhere" in str(error)
