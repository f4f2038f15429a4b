# SPDX-License-Identifier: Apache-2.0
"""How commands end that cannot go on."""

import os
import subprocess
import sys

import pytest

COMMANDS = (["losses"], ["models"], ["data", "list"], ["bench", "cifar10-table", "--dry-run"])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_error(words):
    """As behind ``| head``: here nobody reads at all."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "noiseproof", *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writing)
    assert ended.stderr == ""
    assert ended.returncode == 1


def test_another_broken_pipe_is_told():
    """Of a process of ours, say."""
    code = "from noiseproof.command_line.failures import fail; fail(BrokenPipeError('a worker died'))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Error: a worker died" in ended.stderr
