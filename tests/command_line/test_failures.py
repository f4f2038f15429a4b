# SPDX-License-Identifier: Apache-2.0
"""How commands end that cannot go on."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import threading

import pytest
import typer
from tests import warm
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.command_line.failures import fail

COMMANDS = (["losses"], ["models"], ["data", "list"], ["bench", "cifar10-table", "--dry-run"])


FROM_WHAT_IS_NOT_THERE = {
    "bench": "leave --from out, or use --records, which creates the file if it is missing",
    "table": "noiseproof bench digits-table --records FILE writes one; without --from, the runs folder is read",
    "report": "noiseproof bench digits-table --records FILE writes one; without --from, the runs folder is read",
}


@pytest.mark.parametrize("command", FROM_WHAT_IS_NOT_THERE)
def test_a_results_file_that_is_not_there(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def told(file):
        ended = CliRunner().invoke(app, [command, "digits-table", "--from", file])
        assert ended.exit_code == 2
        return " ".join(ended.stderr.split())

    expected = "Error: --from: expected a results file, found"
    advice = FROM_WHAT_IS_NOT_THERE[command]
    assert told("missing.jsonl") == f"{expected} nothing at missing.jsonl; {advice}"
    assert told("no/missing.jsonl") == f"{expected} nothing at no/missing.jsonl; {advice}"
    os.mkdir("results")
    assert told("results") == f"{expected} a folder at results; {advice}"
    for name in ("digits-table.jsonl", "other.jsonl"):
        (tmp_path / "results" / name).touch()
    nearest = "did you mean results/digits-table.jsonl?"
    assert told("results/digit-table.jsonl") == f"{expected} nothing at results/digit-table.jsonl; {nearest}"
    os.remove("results/other.jsonl")
    assert told("results") == f"{expected} a folder at results; {nearest}"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_error(words):
    """As behind ``| head``: here nobody reads at all."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = warm.run(["-m", "noiseproof", *words], stdout=writing)
    finally:
        os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode == 1


def test_another_broken_pipe_is_told():
    """Of a process of ours, say."""
    code = "from noiseproof.command_line.failures import fail; fail(BrokenPipeError('a worker died'))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Error: a worker died" in ended.stderr


@pytest.fixture
def told(capsys):
    """What a command says of an error."""

    def said(error):
        with pytest.raises(typer.Exit) as ended:
            fail(error)
        assert ended.value.exit_code == 2
        return capsys.readouterr().err

    return said


ADVICE = {
    errno.ENOSPC: "make room, then give the same command again; files that were there are as they were",
    errno.EDQUOT: "make room, then give the same command again; files that were there are as they were",
    errno.EROFS: "the place is read-only or closed to you; change that, or choose another one",
    errno.EACCES: "the place is read-only or closed to you; change that, or choose another one",
    errno.EPERM: "the place is read-only or closed to you; change that, or choose another one",
    errno.EFBIG: "no file may become that large there",
    errno.EISDIR: "it is a folder; name a file in it",
    errno.ENOTDIR: "there is a file where a folder was expected; choose another name",
    errno.EEXIST: "there is a file where a folder was expected; choose another name",
}


@pytest.mark.parametrize("number", ADVICE, ids=errno.errorcode.get)
def test_a_bare_error_of_the_system_is_told_with_advice(told, number):
    said = told(OSError(number, os.strerror(number), "/data/r.jsonl"))
    assert said.startswith(
        f"Error: [Errno {number}] {os.strerror(number)}: '/data/r.jsonl': {ADVICE[number]}"
    )
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "cannot keep the weights; make room", "/data"),
        OSError(errno.EIO, os.strerror(errno.EIO), "/data"),
        OSError("no number at all"),
        ValueError("alpha: expected a number"),
    ],
    ids=str,
)
def test_an_error_in_our_words_has_said_it_and_others_stay_as_they_are(told, error):
    assert told(error).strip() == f"Error: {error}"


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A results file of one run."""
    path = tmp_path_factory.mktemp("results") / "r.jsonl"
    facts = {
        "dataset": "digits",
        "loss": "ce",
        "noise": "clean",
        "seed": 1,
        "test_accuracy": 90.0,
        "config_hash": "0",
    }
    path.write_text(json.dumps(facts))
    return path


def write_table(line, out):
    """Run ``noiseproof table --out``."""
    words = ["table", "digits-table", "--from", str(line), "--format", "csv", "--out", str(out)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    return done.exit_code, done.output


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_really_full_device(line):
    code, said = write_table(line, "/dev/full")
    assert code == 2
    assert "No space left on device" in said
    assert "make room, then give the same command again" in said


@contextlib.contextmanager
def someone_else():
    """For root, to whom nothing is closed: another user, inside the block."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
def test_a_folder_of_someone_else(line, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o555)
    made_for_tests = [each for each in tmp_path.parents if each.name.startswith(("pytest-", "popen-"))]
    for above in (line, line.parent, tmp_path, *made_for_tests):
        above.chmod(above.stat().st_mode | 0o055)
    # This also imports everything, from folders that may be closed too.
    assert write_table(line, tmp_path / "t.csv")[0] == 0
    with someone_else():
        code, said = write_table(line, folder / "t.csv")
    assert code == 2, said
    assert "Permission denied" in said
    assert f"'{folder / 't.csv'}'" in said, "the file that was asked for, not one beside it"
    assert "read-only or closed to you; change that, or choose another one" in said
    assert list(folder.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_and_a_file_in_the_place_of_a_folder(line, tmp_path):
    assert "it is a folder; name a file in it" in write_table(line, tmp_path)[1]
    (tmp_path / "file").touch()
    code, said = write_table(line, tmp_path / "file" / "t.csv")
    assert (code, "there is a file where a folder was expected" in said) == (2, True)


@pytest.mark.parametrize("words", [["--out", "~/x/t.csv"], ["--out=~/x/t.csv"]], ids=str)
def test_home_where_no_shell_has_replaced_it(line, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    done = CliRunner().invoke(
        app, ["table", "digits-table", "--from", str(line), "--format", "csv", *words], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert (tmp_path / "home" / "x" / "t.csv").is_file()
    assert os.listdir(tmp_path) == ["home"], "and no folder is called ~"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "1-99999999999"], "--seeds: expected at most 10000 of them"),
        (["--seeds", "9" * 5000], "--seeds: expected whole numbers"),
        (["--set", "epochs=" + "[" * 5000], "--set: expected a value for epochs"),
    ],
    ids=["range", "digits", "nesting"],
)
def test_counts_and_values_without_end(words, message):
    done = CliRunner().invoke(app, ["bench", "digits-table", "--dry-run", *words], catch_exceptions=False)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output) < 300


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no device without end")
@pytest.mark.parametrize("option", ["--from", "--records"])
def test_a_device_without_end_is_no_results_file(option):
    done = CliRunner().invoke(app, ["bench", "digits-table", option, "/dev/zero"], catch_exceptions=False)
    assert (done.exit_code, "/dev/zero: expected a results file, found a device" in done.output) == (2, True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
@pytest.mark.parametrize("words", [["table", "--format", "csv"], ["report"]], ids=lambda words: words[0])
def test_what_is_no_plain_file_is_written_to_and_not_replaced(line, tmp_path, words):
    """As root, a file in the place of /dev/null would be in everyone's way; here a pipe stands for it."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    done = CliRunner().invoke(
        app,
        [words[0], "digits-table", "--from", str(line), *words[1:], "--out", str(pipe)],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    reader.join(timeout=30)
    assert read
    assert b"90" in read[0]
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_terminal_without_greek_letters_shows_a_question_mark_for_them():
    told = subprocess.run(
        [sys.executable, "-m", "noiseproof", "losses", "anl-ce"],
        env=os.environ | {"PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr.decode()
    assert b"?\xb7NCE + ?\xb7NNCE" in told.stdout
