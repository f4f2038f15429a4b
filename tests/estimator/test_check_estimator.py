# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own checks, all of them, none expected to fail and none left out."""

import os
import subprocess
import sys
import unittest

from sklearn.utils.estimator_checks import parametrize_with_checks

from noiseproof.sklearn import RobustClassifier

SWITCH = "SCIPY_ARRAY_API"


@parametrize_with_checks([RobustClassifier()])
def test_check_estimator(estimator, check, request):
    try:
        check(estimator)
    except unittest.SkipTest as reason:
        if SWITCH not in str(reason) or SWITCH in os.environ:
            raise
        in_a_process_with_the_switch(request)


def in_a_process_with_the_switch(request):
    """SciPy reads it once, when it is imported: too late for this process."""
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", request.node.nodeid],
        cwd=request.config.rootpath,
        env=os.environ | {SWITCH: "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout, run.stdout
