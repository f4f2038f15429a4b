# SPDX-License-Identifier: Apache-2.0
"""A results file decides what is trained: damaged, cut off, shared, on a full disk or a read-only one."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from tests import warm
from tests.disks import largest_file, read_only, room_left, small_disk
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.results import read_records, write_results
from noiseproof.training.store import Store

SMALL = ("--set", "epochs=2", "--set", "train_size=200", "--device", "cpu", "--processes", "1", "--quiet")
GRID = ("digits-table", "--methods", "ce,mae", "--noise", "clean", "--seeds", "1", *SMALL)


def bench(*arguments):
    done = CliRunner().invoke(app, ["bench", *map(str, arguments)], catch_exceptions=False)
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A runs folder with two runs, and their results file."""
    folder = tmp_path_factory.mktemp("trained")
    code, said = bench(*GRID, "--folder", folder / "runs", "--records", folder / "r.jsonl")
    assert code == 0, said
    return folder


@pytest.fixture
def lines(trained):
    return (trained / "r.jsonl").read_bytes()


def what_is_read(path):
    """The results of a file, or what is said of it."""
    try:
        return read_records(path), ""
    except ValueError as error:
        return None, str(error)


def flip_often(path, content, flips, seed):
    """Flip bits, one at a time: the results are as they were, or the line is refused with advice."""
    path.write_bytes(content)
    right, drawn = read_records(path), random.Random(seed)
    outcomes = {"refused": 0, "without effect": 0}
    for _ in range(flips):
        changed = bytearray(content)
        place = drawn.randrange(len(content))
        changed[place] ^= 1 << drawn.randrange(8)
        path.write_bytes(changed)
        found, said = what_is_read(path)
        if found is None:
            assert str(path) in said
            assert "Put back a copy" in said, said
            outcomes["refused"] += 1
        else:
            assert found == right, f"byte {place} made other results"
            outcomes["without effect"] += 1
    return outcomes


def test_three_hundred_flipped_bits(tmp_path, lines):
    outcomes = flip_often(tmp_path / "r.jsonl", lines, 300, seed=0)
    assert outcomes["refused"] > 290, outcomes


@pytest.mark.slow
def test_ten_thousand_flipped_bits(tmp_path, lines):
    print(flip_often(tmp_path / "r.jsonl", lines, 10_000, seed=1))


def test_a_changed_number_is_not_taken_for_a_result_and_nothing_is_trained(tmp_path, trained, lines):
    right = read_records(trained / "r.jsonl")[0].score
    changed = lines.replace(f'"test_accuracy": {right}'.encode(), b'"test_accuracy": 99.5')
    assert changed != lines
    records = tmp_path / "r.jsonl"
    records.write_bytes(changed)
    for option in ("--records", "--from"):
        code, said = bench(*GRID, "--folder", tmp_path / "runs", option, records)
        assert code == 2
        assert "r.jsonl, line 1: it was changed since it was written" in said
        assert "Put back a copy of the file, or remove that line" in said
        assert "Traceback" not in said
    assert records.read_bytes() == changed, "left as it is, to be looked at"
    with Store(tmp_path / "runs") as store:
        assert store.runs() == []
    # The advice: without that line, the run comes from its folder.
    records.write_bytes(b"".join(changed.splitlines(keepends=True)[1:]))
    code, said = bench(*GRID, "--folder", trained / "runs", "--records", records)
    assert code == 0, said
    assert sorted(records.read_bytes().splitlines()) == sorted(lines.splitlines())


def test_a_change_that_is_meant_and_lines_from_before_there_were_checksums(tmp_path, lines):
    first, second = map(json.loads, lines.splitlines())
    first["method"] = "Renamed"
    del first["checksum"]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in (first, second)))
    found = read_records(path)
    assert [result.method for result in found] == ["Renamed", second["method"]]
    before = path.read_text().splitlines()
    write_results(path, [replace(found[1], config_hash="another")])
    after = path.read_text().splitlines()
    assert after[:2] == before, "lines that were there stay as they are"
    assert "checksum" in json.loads(after[2])


def test_cut_off_at_every_hundredth(tmp_path, trained, lines):
    path, right = tmp_path / "r.jsonl", read_records(trained / "r.jsonl")
    refused = 0
    for share in range(100):
        path.write_bytes(lines[: len(lines) * share // 100])
        found, said = what_is_read(path)
        if found is None:
            assert "no result" in said
            assert "Put back a copy" in said
            refused += 1
        else:
            assert found == right[: len(found)]
    assert refused > 90
    # Cut between two lines nothing tells; what is missing comes from its folder again.
    path.write_bytes(lines[: lines.index(b"\n") + 1])
    code, said = bench(*GRID, "--folder", trained / "runs", "--records", path)
    assert code == 0, said
    assert path.read_bytes() == lines


ADDS = """
import sys
from dataclasses import replace
from pathlib import Path
from noiseproof.results import read_records, write_results
path, source, who, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
(line, *_) = read_records(source)
for number in range(count):
    write_results(path, [replace(line, config_hash=f"{who}-{number}")])
    print(number, flush=True)
"""


def adding(path, trained, who, count=20):
    command = [sys.executable, "-c", ADDS, str(path), str(trained / "r.jsonl"), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_three_processes_add_at_once_one_of_them_by_a_link(tmp_path, trained):
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "r.jsonl")
    others = [
        adding(tmp_path / name, trained, who)
        for name, who in (("r.jsonl", "a"), ("r.jsonl", "b"), ("link.jsonl", "c"))
    ]
    assert [process.communicate(timeout=240) and process.returncode for process in others] == [0, 0, 0]
    found = {result.config_hash for result in read_records(tmp_path / "r.jsonl")}
    assert found == {f"{who}-{number}" for who in "abc" for number in range(20)}
    assert (tmp_path / "link.jsonl").is_symlink(), "a link stays one"
    assert sorted(os.listdir(tmp_path)) == ["link.jsonl", "r.jsonl"]


def kill_often(tmp_path, trained, kills):
    """Kill a process that adds lines, while another one goes on; what either said it had added is there."""
    path, drawn = tmp_path / "r.jsonl", random.Random(0)
    said = set()
    other = adding(path, trained, "lives", count=kills * 10)
    for number in range(kills):
        process = adding(path, trained, f"dies{number}", count=100_000)
        process.stdout.readline()
        time.sleep(drawn.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        said |= {f"dies{number}-{each}" for each in range(1 + len(rest.split("\n")) - 1)}
        assert {result.config_hash for result in read_records(path)} >= said, "every line is whole"
    other.communicate(timeout=240)
    assert other.returncode == 0
    said |= {f"lives-{number}" for number in range(kills * 10)}
    assert {result.config_hash for result in read_records(path)} >= said


def test_a_process_that_is_killed_while_it_adds_leaves_the_file_whole_and_free(tmp_path, trained):
    kill_often(tmp_path, trained, kills=2)


@pytest.mark.slow
def test_forty_processes_that_are_killed_while_they_add(tmp_path, trained):
    kill_often(tmp_path, trained, kills=40)


def fill_and_add(disk, tmp_path, trained, lines, degrees):
    """Run ``bench --records`` with ever more room: it fails in words, or ends well; with room all is there."""
    failed = 0
    first, second = lines.splitlines(keepends=True)
    for number in range(degrees):
        records = disk / f"r{number}.jsonl"
        records.write_bytes(first)
        with room_left(disk, number * 3 * len(lines) // degrees):
            code, said = bench(*GRID, "--folder", trained / "runs", "--records", records)
            assert "Traceback" not in said
            if code:
                failed += 1
                assert code == 2
                assert "make room, then give the same command again" in said, said
                assert str(records) in said
                assert records.read_bytes() == first, "what was there is as it was"
        code, said = bench(*GRID, "--folder", trained / "runs", "--records", records)
        assert (code, records.read_bytes()) == (0, first + second), said
        assert os.listdir(disk) == [records.name], "nothing unfinished is left"
        records.unlink()
    return failed


def test_a_full_disk_below_the_results_file(tmp_path, trained, lines):
    with small_disk(tmp_path / "disk", "256k") as disk:
        assert fill_and_add(disk, tmp_path, trained, lines, 6) >= 2


@pytest.mark.slow
def test_a_full_disk_below_the_results_file_at_fifty_degrees(tmp_path, trained, lines):
    with small_disk(tmp_path / "disk", "256k") as disk:
        print(f"{fill_and_add(disk, tmp_path, trained, lines, 50)} of 50 failed, in words")


def test_a_disk_that_is_full_when_the_runs_are_over_loses_none(tmp_path, trained, lines):
    """An empty file can be written where nothing else can: the lack of room shows when there is a line to add."""
    with small_disk(tmp_path / "disk", "256k") as disk:
        with room_left(disk, 0):
            code, said = bench(*GRID, "--folder", tmp_path / "runs", "--records", disk / "r.jsonl")
            assert code == 2
            assert "make room, then give the same command again" in said
        with Store(tmp_path / "runs") as store:
            finished = {record.id for record in store.runs(status="finished")}
        assert finished, "the runs themselves are on record"
        code, said = bench(*GRID, "--folder", tmp_path / "runs", "--records", disk / "r.jsonl")
        assert code == 0, said
        right = {result.config_hash: result.score for result in read_records(trained / "r.jsonl")}
        assert {each.config_hash: each.score for each in read_records(disk / "r.jsonl")} == right


def test_a_system_that_takes_no_more_bytes(tmp_path, trained, lines):
    records = tmp_path / "r.jsonl"
    records.write_bytes(lines)
    line = replace(read_records(records)[0], config_hash="another")
    with largest_file(len(lines) // 2), pytest.raises(OSError, match="too large") as caught:
        write_results(records, [line])
    assert caught.value.filename == str(records)
    assert records.read_bytes() == lines
    assert os.listdir(tmp_path) == ["r.jsonl"]
    write_results(records, [line])
    assert records.read_bytes().startswith(lines)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
def test_a_read_only_runs_folder_ends_a_grid_once_and_not_pack_by_pack(tmp_path):
    with read_only(tmp_path):
        code, said = bench(*GRID, "--folder", tmp_path / "runs", "--budget", "60s")
    assert code == 2
    assert said.count("cannot write in the runs folder") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
def test_a_read_only_folder_is_told_before_anything_is_trained(tmp_path, lines):
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "r.jsonl").write_bytes(lines.splitlines(keepends=True)[0])
    with read_only(folder):
        code, said = bench(*GRID, "--folder", tmp_path / "runs", "--records", folder / "r.jsonl")
        assert code == 2
        assert "read-only or closed to you; change that, or choose another one" in said
        code, said = bench(*GRID, "--folder", tmp_path / "runs", "--records", folder / "deeper" / "r.jsonl")
        assert (code, "read-only or closed to you" in said) == (2, True)
        with Store(tmp_path / "runs") as store:
            assert store.runs() == []
    (folder / "r.jsonl").write_bytes(lines)
    with read_only(folder):
        code, said = bench(*GRID, "--folder", tmp_path / "runs", "--records", folder / "r.jsonl")
        assert code == 0, f"all is there, and nothing is to be written: {said}"
        code, said = bench(*GRID, "--folder", tmp_path / "runs", "--from", folder / "r.jsonl")
        assert code == 0, said


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other ideas of read-only folders")
def test_a_folder_that_becomes_read_only_while_the_grid_is_trained(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    longer = ["digits-table", "--methods", "ce,mae", "--noise", "clean", "--seeds", "1,2", "--pack", "1"]
    longer += ["--set", "epochs=10", "--set", "train_size=200", "--device", "cpu", "--processes", "1"]
    longer += ["--records", folder / "r.jsonl", "--folder", tmp_path / "runs"]
    process = warm.Popen(["-m", "noiseproof", "bench", *longer], stderr=subprocess.STDOUT)
    records, deadline = folder / "r.jsonl", time.monotonic() + 200
    try:
        while not (records.exists() and records.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
        with read_only(folder):
            said, _ = process.communicate(timeout=200)
    finally:
        process.kill()
    if process.returncode == 0:
        pytest.skip("all runs were over before the folder was closed")
    assert process.returncode == 2, said
    assert "read-only or closed to you" in said
    assert "Traceback" not in said
    kept = len(read_records(records))
    assert 1 <= kept < 4
    code, said = bench(*longer)
    assert code == 0, said
    assert len(read_records(records)) == 4
    with Store(tmp_path / "runs") as store:
        assert len(store.runs(status="finished")) == 4
