# SPDX-License-Identifier: Apache-2.0
"""scikit-learn: a classifier for tables, embeddings and images whose labels may be wrong.

>>> from sklearn.datasets import load_iris
>>> from noiseproof.sklearn import RobustClassifier
>>> features, species = load_iris(return_X_y=True)
>>> classifier = RobustClassifier(random_state=1).fit(features, species)
>>> classifier.score(features, species) > 0.9
True
>>> classifier.suspect_labels_.shape
(150,)
"""

from noiseproof.sklearn.automatic import Choice, automatic
from noiseproof.sklearn.classifier import RobustClassifier
from noiseproof.sklearn.suspects import LabelScores, score_labels

__all__ = ["Choice", "LabelScores", "RobustClassifier", "automatic", "score_labels"]
