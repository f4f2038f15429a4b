# SPDX-License-Identifier: Apache-2.0
"""The run store under violence: kills, full and read-only disks, damaged files, many processes at once."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.disks import read_only

from noiseproof.training.run_lock import locked
from noiseproof.training.store import DamagedStoreError, Store, StoreError

# A child imports the store alone: the whole package would bring torch, and seconds, with it.
LEAN = f"""
import os, sys, time, types
package = types.ModuleType("noiseproof.training")
package.__path__ = [{str(Path(sys.modules[Store.__module__].__file__).parent)!r}]
sys.modules["noiseproof.training"] = package
from pathlib import Path
from noiseproof.training.store import Store, StoreError
"""

WRITER = (
    LEAN
    + """
folder, name, delay = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
print("ready", flush=True)
time.sleep(delay)
store, number = Store(folder), 0
while True:
    run_id = f"{name}-{number}"
    store.begin(run_id, {"dataset": "digits", "filler": "x" * 3000}, name, {}, {})
    print(run_id, "begun", flush=True)
    for epoch in range(4):
        store.record_epoch(run_id, epoch, {"test_accuracy": float(epoch), "values": [epoch] * 800}, 1.0)
        print(run_id, epoch, flush=True)
    store.finish(run_id, {"test_accuracy": 3.0})
    print(run_id, "finished", flush=True)
    number += 1
"""
)


def child(script, *arguments):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def begin(store, run_id="digits-s1"):
    store.begin(run_id, {"dataset": "digits", "filler": "x" * 3000}, run_id, {}, {})


def killed_writer(folder, name, rng):
    """Let a process write, kill it at a random moment, and return what it had said was written."""
    process = child(WRITER, folder, name, rng.uniform(0, 0.004))
    assert process.stdout.readline() == "ready\n"
    # Half of them early, when the file is created; half in the middle of work.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=rng.choice([rng.uniform(0, 0.02), rng.uniform(0.02, 0.12)]))
    process.send_signal(signal.SIGKILL)
    said, errors = process.communicate()
    assert errors == ""
    whole = [
        line for line in said.splitlines(keepends=True) if line.endswith("\n")
    ]  # a kill may cut the last
    return [line.split() for line in whole]


def assert_sound(folder, said):
    """The file is sound, each record whole, and all that was said to be written is there."""
    path = folder / "runs.sqlite"
    if not said and not path.exists():
        return 0
    with Store(folder) as store:
        records = {each.id: store.get(each.id) for each in store.runs()}
    for record in records.values():
        numbers = [each["epoch"] for each in record.epochs]
        assert numbers == list(range(record.progress.epochs))
        assert all(each["values"] == [each["epoch"]] * 800 for each in record.epochs)
        assert record.seconds == len(numbers)
        assert record.config["filler"] == "x" * 3000
        if record.status == "finished":
            assert numbers == [0, 1, 2, 3]
            assert record.result == {"test_accuracy": 3.0}
    for run_id, what in said:
        assert run_id in records
        assert what != "finished" or records[run_id].status == "finished"
        assert not what.isdigit() or int(what) < records[run_id].progress.epochs
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return len(records)


def kill_often(tmp_path, kills, seed):
    rng = random.Random(seed)
    said, records = [], 0
    for number in range(kills):
        folder = tmp_path / f"runs-{number // 5}"  # several kills on one file, then a fresh one
        said = [] if number % 5 == 0 else said
        said += killed_writer(folder, f"w{number}", rng)
        records = max(records, assert_sound(folder, said))
    assert records > 0, "the kills came before anything was written: nothing was tested"


def test_kills_leave_whole_records(tmp_path):
    kill_often(tmp_path, kills=10, seed=1)


@pytest.mark.slow
def test_many_kills_leave_whole_records(tmp_path):
    kill_often(tmp_path, kills=200, seed=2)


def test_processes_share_a_store_from_its_creation_on(tmp_path):
    script = (
        LEAN
        + """
sys.stdin.readline()  # all start together
with Store(Path(sys.argv[1])) as store:
    store.begin(sys.argv[2], {"dataset": "digits"}, sys.argv[2], {}, {})
    for epoch in range(30):
        store.record_epoch(sys.argv[2], epoch, {"test_accuracy": float(epoch)}, 1.0)
    store.finish(sys.argv[2], {"test_accuracy": 29.0})
"""
    )
    command = [sys.executable, "-c", script, str(tmp_path / "runs")]
    processes = [subprocess.Popen([*command, f"run-{n}"], stdin=subprocess.PIPE, text=True) for n in range(4)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(timeout=60) for process in processes] == [0] * 4
    for process in processes:
        process.stdin.close()
    with Store(tmp_path / "runs") as store:
        assert [each.progress.epochs for each in store.runs(status="finished")] == [30] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_must_open_its_own(tmp_path):
    script = (
        LEAN
        + """
folder = Path(sys.argv[1])
store = Store(folder)
store.begin("parent", {}, "h", {}, {})
child = os.fork()
if child == 0:
    try:
        store.runs()
    except StoreError as error:
        own = Store(folder)
        own.begin("child", {}, "h", {}, {})
        own.close()
        os._exit(0 if "open another one in this process" in str(error) else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
store.finish("parent", {})
print(sorted(each.id for each in store.runs()))
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("['child', 'parent']\n", "")


def test_an_error_in_the_middle_writes_nothing(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        begin(store)
        store.record_epoch("digits-s1", 0, {"test_accuracy": 1.0}, 1.0)
        monkeypatch.setattr("noiseproof.training.store._SUM_UP", "UPDATE missing SET x = 1")
        with pytest.raises(StoreError, match="no such table"):
            store.record_epoch("digits-s1", 0, {"test_accuracy": 2.0}, 1.0)
        assert store.get("digits-s1").epochs[0]["test_accuracy"] == 1.0
        monkeypatch.undo()
        store.record_epoch("digits-s1", 1, {}, 1.0)


def fill_up(store):
    for epoch in range(1000):
        store.record_epoch("digits-s1", epoch, {"values": [0.5] * 1000}, 1.0)


def assert_goes_on_after_full_disk(store):
    before = store.get("digits-s1")
    assert before.progress.epochs == len(before.epochs) > 0
    return before.progress.epochs


def test_a_full_disk_loses_nothing_and_can_be_mended(tmp_path):
    with Store(tmp_path) as store:
        begin(store)
        store._open.execute("PRAGMA max_page_count = 40")  # SQLite's own way to have no room
        with pytest.raises(StoreError, match="the disk is full; what was recorded before is safe. Make room"):
            fill_up(store)
        done = assert_goes_on_after_full_disk(store)
        store._open.execute("PRAGMA max_page_count = 4000")
        store.record_epoch("digits-s1", done, {}, 1.0)
        assert store.get("digits-s1").progress.epochs == done + 1


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 400 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk, and only on Linux outside of most containers")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_really_full_disk(small_disk):
    with Store(small_disk) as store:
        begin(store)
        with pytest.raises(StoreError, match="full.*[Mm]ake room"):
            fill_up(store)
        done = assert_goes_on_after_full_disk(store)
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
        store.record_epoch("digits-s1", done, {}, 1.0)
        assert store.get("digits-s1").progress.epochs == done + 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
class TestReadOnly:
    def test_reads_and_refuses_to_write(self, tmp_path):
        with Store(tmp_path) as store:
            begin(store)
        with read_only(tmp_path):
            store = Store(tmp_path)
            assert store.get("digits").status == "running"
            for writing in (store, Store(tmp_path)):
                with pytest.raises(StoreError, match="read-only or closed.*another runs folder"):
                    begin(writing, "digits-s2")
            store.close()

    def test_says_so_where_a_log_waits_to_be_read_in(self, tmp_path):
        (tmp_path / "copy").mkdir()
        with Store(tmp_path) as store:
            begin(store)
            for name in ("runs.sqlite", "runs.sqlite-wal"):  # as after a crash
                shutil.copy(tmp_path / name, tmp_path / "copy" / name)
        with (
            read_only(tmp_path / "copy"),
            pytest.raises(StoreError, match="copy the folder to where you may"),
        ):
            Store(tmp_path / "copy").runs()
        assert [each.id for each in Store(tmp_path / "copy").runs()] == ["digits-s1"]

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        with (
            read_only(tmp_path),
            pytest.raises(StoreError, match="cannot make the runs folder .*NOISEPROOF_RUNS"),
        ):
            begin(Store(tmp_path / "runs"))

    def test_a_file_where_the_folder_should_be(self, tmp_path):
        (tmp_path / "runs").write_text("mine")
        with pytest.raises(StoreError, match="cannot make the runs folder"):
            begin(Store(tmp_path / "runs"))
        assert Store(tmp_path / "runs").runs() == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a store of 12 runs."""
    folder = tmp_path_factory.mktemp("whole")
    with Store(folder) as store:
        for number in range(12):
            begin(store, f"digits-s{number}")
            for epoch in range(5):
                store.record_epoch(f"digits-s{number}", epoch, {"values": [0.5] * 400}, 1.0)
    return (folder / "runs.sqlite").read_bytes()


def read_everything(folder):
    with Store(folder) as store:
        return [store.get(each.id) for each in store.runs()]


class TestDamage:
    def test_random_bytes(self, tmp_path):
        path = tmp_path / "runs.sqlite"
        path.write_bytes(random.Random(0).randbytes(50_000))
        before = path.read_bytes()
        for call in (lambda: Store(tmp_path).runs(), lambda: begin(Store(tmp_path))):
            with pytest.raises(DamagedStoreError, match=r"left as it is.*move it away.*\.recover"):
                call()
        assert path.read_bytes() == before
        assert [each.name for each in tmp_path.iterdir()] == ["runs.sqlite"]

    def test_an_empty_file_is_an_empty_store(self, tmp_path):
        (tmp_path / "runs.sqlite").touch()
        assert Store(tmp_path).runs() == []
        with Store(tmp_path) as store:
            begin(store)
            assert len(store.runs()) == 1

    @pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5, 0.9, 0.99])
    def test_truncated(self, tmp_path, whole, share):
        path = tmp_path / "runs.sqlite"
        path.write_bytes(whole[: int(share * len(whole))])
        before = path.read_bytes()
        for call in (lambda: read_everything(tmp_path), lambda: begin(Store(tmp_path), "new")):
            with pytest.raises(DamagedStoreError, match="is damaged"):
                call()
        assert path.read_bytes() == before

    def test_scribbled_on(self, tmp_path, whole):
        """Whatever the damage, reading ends in records or in a plain error, and changes nothing."""
        rng = random.Random(0)
        path = tmp_path / "runs.sqlite"
        outcomes = set()
        for _ in range(60):
            content = bytearray(whole)
            start, length = rng.randrange(100, len(whole)), rng.choice([1, 16, 512, 8192])
            content[start : start + length] = rng.randbytes(len(content[start : start + length]))
            path.write_bytes(content)
            try:
                read_everything(tmp_path)
                outcomes.add("read")
            except StoreError:
                outcomes.add("refused")
            assert path.read_bytes() == content
        assert outcomes == {"read", "refused"}


def test_a_lock_does_not_disturb_the_store(tmp_path):
    with locked(tmp_path, "digits-s1"), Store(tmp_path) as store:
        begin(store)
    assert [each.name for each in tmp_path.iterdir()] == ["runs.sqlite"]
