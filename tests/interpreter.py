# SPDX-License-Identifier: Apache-2.0
"""Tests of kernels without a GPU: in Triton's interpreter, or by torch's operations where Triton is missing."""

import os
import subprocess
import sys
from pathlib import Path

from noiseproof.losses.fused.language import HAS_TRITON

ROOT = Path(__file__).parents[1]


def run_in_interpreter(file, *arguments):
    """Run the tests of a file, or some of them, in a process of their own: kernels are made when imported."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu or not gpu",
        "-p",
        "no:cacheprovider",
        str(file),
    ]
    stand_in = [] if HAS_TRITON else ["-p", "tests.triton_by_torch"]
    run = subprocess.run(
        [*command, *stand_in, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
