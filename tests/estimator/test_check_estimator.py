# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's own checks, all of them, none expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from noiseproof.sklearn import RobustClassifier


@parametrize_with_checks([RobustClassifier()])
def test_check_estimator(estimator, check):
    check(estimator)
