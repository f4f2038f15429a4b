# SPDX-License-Identifier: Apache-2.0
"""Python programs that start at once: each is forked from a process that has imported what takes seconds.

For tests of what a program does, in a process of its own with its own folder, environment and signals. How a
program starts, and what it imports, is tested with ``subprocess``.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from types import SimpleNamespace

LOADED = [
    "noiseproof.command_line",
    "noiseproof.training.engine",
    "noiseproof.grids",
    "noiseproof.sklearn",
    "torch._dynamo",  # which the first optimiser of a process imports
]

METHOD = "forkserver"
processes = multiprocessing.get_context(METHOD)
processes.set_forkserver_preload(LOADED)


def for_packs(monkeypatch):
    """Let training processes of a pack be forked, too; that they start on their own, test_processes.py sees to."""
    ours = SimpleNamespace(get_context=lambda method: processes)
    monkeypatch.setattr("noiseproof.training.processes.multiprocessing", ours)


class Popen:
    """A program like one of ``subprocess.Popen``.

    Args:
        words: what stands behind ``python`` on a command line: a file, ``-m`` and a module, or ``-c`` and code,
            and the program's own words.
        cwd: its working folder; that of the tests by default.
        env: its environment; that of the tests by default.
        stdout: a file descriptor it prints to; by default what it prints is kept for ``communicate``.
        stderr: ``subprocess.STDOUT`` to keep errors together with the rest.
    """

    def __init__(self, words, *, cwd=None, env=None, stdout=None, stderr=None):
        self.args = [str(word) for word in words]
        self._out, self._err = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        out = self._out.fileno() if stdout is None else stdout
        err = out if stderr == subprocess.STDOUT else self._err.fileno()
        given = {
            "words": self.args,
            "folder": str(cwd or os.getcwd()),
            "environment": dict(os.environ if env is None else env),
            "outputs": [Connection(os.dup(number), readable=False) for number in (out, err)],
        }
        self._process = processes.Process(
            target=runpy.run_path, args=(__file__, given, "warm"), daemon=True
        )  # so that it ends with the tests, whatever becomes of them
        self._process.start()
        for each in given["outputs"]:
            each.close()
        self.pid = self._process.pid

    def __del__(self):
        for each in (self._out, self._err):
            each.close()

    @property
    def returncode(self):
        return self._process.exitcode

    def poll(self):
        return self._process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout=None):
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def communicate(self, timeout=None):
        """What it printed, and its errors, when it has ended."""
        self.wait(timeout)
        self._out.seek(0)
        self._err.seek(0)
        return self._out.read().decode(), self._err.read().decode()


def run(words, *, timeout=300, **settings):
    """Run a program to its end, as ``subprocess.run`` does with ``capture_output`` and ``text``."""
    process = Popen(words, **settings)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def become(words, folder, environment, outputs):
    """Be that program."""
    import torch

    for number, output in enumerate(outputs, start=1):
        os.dup2(output.fileno(), number)
        output.close()
    multiprocessing.current_process()._config["daemon"] = False  # which may start processes of its own
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment | {"OMP_NUM_THREADS": "1"})
    torch.set_num_threads(1)  # a second thread costs such small networks more than it brings
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The server may have been started by a process that held Ctrl-C back.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    first, *rest = words
    sys.path.insert(0, os.path.dirname(os.path.abspath(first)) if first[0] != "-" else folder)
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = words
        runpy.run_path(first, run_name="__main__")


if __name__ == "warm":
    become(words, folder, environment, outputs)  # noqa: F821  (given by Popen)
