# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own checks, all of them, none expected to fail and none left out."""

import os
import subprocess
import sys
import unittest

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from noiseproof.planning import table_rules
from noiseproof.sklearn import RobustClassifier

SWITCH = "SCIPY_ARRAY_API"

ONE_CHECK = """
import sys
from sklearn.utils.estimator_checks import estimator_checks_generator
from noiseproof.sklearn import RobustClassifier
passed = 0
for estimator, check in estimator_checks_generator(RobustClassifier()):
    if f"{check.func.__name__} {check.keywords}" == sys.argv[1]:
        check(estimator)
        passed += 1
print(passed, "passed")
"""


# As scikit-learn does with its own iterative estimators, the checks that run every time take fewer steps.
@pytest.mark.parametrize("steps", [100, pytest.param(table_rules.STEPS, marks=pytest.mark.slow)])
@parametrize_with_checks([RobustClassifier()])
def test_check_estimator(estimator, check, steps, monkeypatch):
    monkeypatch.setattr(table_rules, "STEPS", steps)
    try:
        check(estimator)
    except unittest.SkipTest as reason:
        if SWITCH not in str(reason) or SWITCH in os.environ:
            raise
        in_a_process_with_the_switch(check)


def in_a_process_with_the_switch(check):
    """SciPy reads it once, when it is imported: too late for this process."""
    run = subprocess.run(
        [sys.executable, "-c", ONE_CHECK, f"{check.func.__name__} {check.keywords}"],
        env=os.environ | {SWITCH: "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout == "1 passed\n", run.stdout
