# SPDX-License-Identifier: Apache-2.0
"""RobustClassifier: inputs of every kind, weights, early stopping, networks of one's own, and other tools."""

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from torch import nn

from noiseproof import noise
from noiseproof.sklearn import RobustClassifier

FAST = {"epochs": 30, "random_state": 1}


@pytest.fixture(scope="module")
def table():
    return make_classification(
        600,
        8,
        n_informative=6,
        n_redundant=0,
        n_classes=3,
        n_clusters_per_class=1,
        class_sep=2.0,
        random_state=0,
    )


def small_cnn(shape, num_classes):
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, num_classes),
    )


def linear(in_features, num_classes):
    return nn.Linear(in_features, num_classes)


def test_wrong_labels_cost_it_little(table):
    """40% wrong labels, three draws: a few points below clean labels, far above cross-entropy."""
    x, y = table

    def score(loss, labels, seed):
        l1 = 0.0 if loss == "ce" else "auto"
        fitted = RobustClassifier(loss, l1=l1, random_state=seed).fit(x[:400], labels[:400])
        return fitted.score(x[400:], y[400:])

    draws = [(noise.symmetric(y, 0.4, 3, seed=seed).labels, seed) for seed in (1, 2, 3)]
    robust, plain = (np.mean([score(loss, *draw) for draw in draws]) for loss in ("anl-ce", "ce"))
    assert robust > score("anl-ce", y, 1) - 0.07
    assert robust > plain + 0.2


def test_arrays_frames_tensors_and_sparse_tables_give_the_same(table):
    pandas = pytest.importorskip("pandas")
    x, y = table
    expected = RobustClassifier(**FAST).fit(x, y).predict_proba(x)
    frame = pandas.DataFrame(x, columns=[f"feature {i}" for i in range(8)])
    for samples, labels in ((frame, pandas.Series(y)), (torch.tensor(x), torch.tensor(y))):
        fitted = RobustClassifier(**FAST).fit(samples, labels)
        assert np.allclose(fitted.predict_proba(samples), expected, atol=1e-6)
    assert list(RobustClassifier(epochs=1).fit(frame, y).feature_names_in_) == list(frame.columns)


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")
@pytest.mark.parametrize(
    "made",
    [
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        torch.Tensor.to_sparse_csc,
        lambda dense: dense.to_sparse_bsr((2, 2)),
        lambda dense: dense.to_sparse(1),  # a sparse list of dense rows
    ],
)
def test_sparse_tensors_are_read(table, made):
    x = np.maximum(table[0], 0).astype(np.float32)
    samples, labels = made(torch.tensor(x)), torch.tensor(table[1])
    fitted = RobustClassifier(epochs=2, random_state=1).fit(samples, labels.to_sparse())
    same = sparse.csr_array(x) if samples.dense_dim() == 0 else x
    expected = RobustClassifier(epochs=2, random_state=1).fit(same, table[1])
    assert np.array_equal(fitted.predict_proba(samples), expected.predict_proba(same))


def test_a_last_batch_of_one_sample_does_not_stop_batch_norm(table):
    def network(in_features, num_classes):
        return nn.Sequential(
            nn.Linear(in_features, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, num_classes)
        )

    x, y = table
    fitted = RobustClassifier(
        model=network, epochs=8, batch_size=50, learning_rate=0.01, standardize=False, random_state=1
    ).fit(x[:401], y[:401])
    assert int(fitted.model_[1].num_batches_tracked) == 8 * 8
    assert fitted.score(x, y) > 0.85


def test_sparse_tables_are_as_good_unpacked_at_once_or_by_batches(table, monkeypatch):
    x, y = np.maximum(table[0], 0), table[1]
    at_once = RobustClassifier(**FAST).fit(sparse.csr_array(x), y)
    monkeypatch.setattr("noiseproof.sklearn.inputs.DENSE_NUMBERS", 0)
    by_batches = RobustClassifier(**FAST).fit(sparse.csc_matrix(x), y)
    assert np.allclose(at_once.predict_proba(x), by_batches.predict_proba(sparse.csr_array(x)), atol=1e-6)
    assert at_once.score(x, y) > 0.8


@pytest.mark.parametrize("names", [["a", "b", "c"], [-7, 2, 30], [0.0, 1.0, 2.0]])
def test_classes_of_any_kind(table, names):
    x, y = table
    labels = np.array(names)[y]
    fitted = RobustClassifier(**FAST).fit(x, labels)
    assert list(fitted.classes_) == sorted(names)
    assert fitted.score(x, labels) > 0.9
    assert set(fitted.suggested_labels_) <= set(names)


def test_two_classes_that_are_booleans():
    x, y = make_moons(300, noise=0.15, random_state=0)
    fitted = RobustClassifier(random_state=1).fit(x, y.astype(bool))
    assert fitted.predict(x).dtype == bool
    assert fitted.score(x, y.astype(bool)) > 0.95


def test_a_small_table_does_not_depend_on_its_order():
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    first = RobustClassifier(**FAST).fit(x, y).predict_proba(x)
    assert np.array_equal(RobustClassifier(**FAST).fit(x[order], y[order]).predict_proba(x), first)


def test_sample_weights_can_silence_wrong_labels(table):
    x, y = table
    wrong = np.random.default_rng(0).random(len(y)) < 0.7
    given = np.where(wrong, (y + 1) % 3, y)
    weighed = RobustClassifier(**FAST).fit(x, given, sample_weight=np.where(wrong, 0.0, 3.0))
    assert weighed.score(x, y) > 0.9
    assert RobustClassifier(**FAST).fit(x, given).score(x, y) < 0.2


def test_balanced_class_weights_are_those_by_hand(table):
    x, y = table
    rare = np.flatnonzero((y != 2) | (np.arange(len(y)) % 10 == 0))
    x, y = x[rare], y[rare]
    balanced = RobustClassifier(class_weight="balanced", **FAST).fit(x, y)
    by_hand = dict(enumerate(len(y) / (3 * np.bincount(y))))
    weighted = RobustClassifier(class_weight=by_hand, **FAST).fit(x, y)
    assert np.allclose(balanced.predict_proba(x), weighted.predict_proba(x), atol=1e-5)


@pytest.mark.parametrize(
    ("weight", "class_weight", "text"),
    [
        (-1.0, None, "expected weights >= 0"),
        (0.0, None, "at least one non-zero"),  # scikit-learn's own words
        (1.0, {0: 0.0, 1: 0.0, 2: 0.0}, "at least one weight > 0"),
    ],
)
def test_impossible_weights_are_refused(table, weight, class_weight, text):
    with pytest.raises(ValueError, match=text):
        RobustClassifier(class_weight=class_weight).fit(*table, sample_weight=np.full(600, weight))


def test_early_stopping_keeps_the_best_weights(table):
    x, y = table
    given = noise.symmetric(y, 0.3, 3, seed=2).labels
    fitted = RobustClassifier(early_stopping=True, patience=3, random_state=1).fit(x, given)
    curve = fitted.validation_curve_
    assert fitted.n_iter_ < fitted.choices_["epochs"].value
    assert min(curve) < min(curve[-3:])
    assert fitted.score(x, y) > 0.85


def test_the_held_out_error_is_not_reordered_by_symmetric_noise():
    """With every label flipped to each other class alike, it is an affine function of the error on true labels."""
    from noiseproof.sklearn.fitting import Samples, held_out_error
    from noiseproof.sklearn.inputs import Rows

    logits, true = torch.randn(50, 4), torch.randint(4, (50,))
    rows = Rows(logits.numpy(), torch.float32, torch.device("cpu"))

    def error(labels):
        return held_out_error(nn.Identity(), Samples(rows, labels, torch.ones(50)))

    rate = 0.6
    noisy = (1 - rate) * error(true) + rate / 3 * sum(error((true + shift) % 4) for shift in (1, 2, 3))
    assert noisy == pytest.approx((1 - 4 * rate / 3) * error(true) + rate, abs=1e-5)


def test_networks_of_ones_own(table):
    x, y = table
    fitted = RobustClassifier(model=linear, learning_rate=0.05, **FAST).fit(x, y)
    assert isinstance(fitted.model_, nn.Linear)
    assert fitted.choices_["l1"].value == 5e-5
    assert fitted.score(x, y) > 0.85


@pytest.mark.parametrize("model", [small_cnn, "mnist-cnn"])
def test_images(model):
    """Bright upper or lower half, as unsigned bytes."""
    random = np.random.default_rng(0)
    y = random.integers(2, size=120)
    images = random.integers(0, 120, (120, 1, 12, 12), dtype=np.uint8)
    images[y == 1, :, :6] += 100
    images[y == 0, :, 6:] += 100
    fitted = RobustClassifier(model=model, epochs=8, batch_size=20, learning_rate=0.01, random_state=1).fit(
        images, y
    )
    assert fitted.score(images, y) > 0.9
    with pytest.raises(ValueError, match="expected samples of shape"):
        fitted.predict(images[:, :, :6])


def test_a_pipeline_in_a_grid_search(table):
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), RobustClassifier(**FAST)),
        {"robustclassifier__loss": ["ce", "anl-ce"], "robustclassifier__hidden": [(), (16,)]},
        cv=2,
    ).fit(*table)
    assert search.best_score_ > 0.85
    assert cross_val_predict(search.best_estimator_, *table, cv=2, method="predict_proba").shape == (600, 3)


def test_cloned_and_pickled(table):
    x, y = table
    fitted = RobustClassifier(model=linear, **FAST).fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert clone(fitted).get_params() == fitted.get_params()
    assert not hasattr(clone(fitted), "model_")


def test_the_seed_decides_and_the_global_one_is_left_alone(table):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = RobustClassifier(epochs=2, random_state=3).fit(*table).predict_proba(table[0])
    assert torch.equal(torch.rand(3), expected)
    assert np.array_equal(
        RobustClassifier(epochs=2, random_state=3).fit(*table).predict_proba(table[0]), first
    )
    assert not np.array_equal(
        RobustClassifier(epochs=2, random_state=4).fit(*table).predict_proba(table[0]), first
    )


def test_a_warm_start_goes_on(table):
    x, y = table
    classifier = RobustClassifier(epochs=3, learning_rate=1e-3, warm_start=True, random_state=1)
    losses = [classifier.fit(x, y).loss_curve_[-1] for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.9 * losses[0]


def test_progress_is_told_when_asked_for(table, capsys):
    RobustClassifier(epochs=20, verbose=True, random_state=1).fit(*table)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith("RobustClassifier: epoch 20/20: loss ")


def test_hidden_none_is_logistic_regression():
    """With cross-entropy, no penalty and enough steps, the linear model is scikit-learn's."""
    x, y = load_iris(return_X_y=True)
    # Classes that overlap, so that the weights stay finite.
    x = x + np.random.default_rng(0).normal(0, 1, x.shape)
    ours = RobustClassifier(
        "ce", hidden=(), l1=0.0, weight_decay=0.0, epochs=3000, learning_rate=0.05, random_state=1
    ).fit(x, y)
    theirs = LogisticRegression(C=np.inf, max_iter=5000, tol=1e-8).fit(x, y)
    assert np.allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-3)


@pytest.mark.parametrize(
    ("parameters", "error", "text"),
    [
        ({"loss": "anlce"}, ValueError, "did you mean 'anl-ce'"),
        ({"alpha": -1.0}, ValueError, "alpha: expected a number >= 0"),
        ({"learning_rate": 0}, ValueError, "learning_rate: expected a number > 0"),
        ({"l1": "much"}, TypeError, "l1: expected a number or 'auto'"),
        ({"epochs": 2.5}, TypeError, "epochs: expected an integer"),
        ({"batch_size": 0}, ValueError, "batch_size: expected an integer >= 1"),
        ({"suspects": "out"}, ValueError, "suspects: unknown name 'out'"),
        ({"model": "cnn9"}, ValueError, "did you mean 'cnn8'"),
        ({"model": nn.Linear(8, 3)}, TypeError, "model: expected a name or a function"),
        ({"model": "cnn8"}, ValueError, "reads images"),
        ({"model": lambda *_: 3}, TypeError, "one that makes int"),
        ({"class_weight": "equal"}, ValueError, "class_weight: expected None, 'balanced' or a mapping"),
        ({"validation_fraction": 1.5}, ValueError, "validation_fraction: expected a number between 0 and 1"),
        (
            {"loss": "ce", "alpha": 2.0},
            ValueError,
            "alpha: loss 'ce' has none; those that have one: .*anl-ce",
        ),
        (
            {"loss": "gce", "beta": 2.0},
            ValueError,
            "beta: loss 'gce' has none; those that have one: .*anl-ce",
        ),
        ({"loss": "ce", "loss_parameters": {"q": 1}}, TypeError, "argument of loss 'ce'"),
        ({"loss": "dice"}, ValueError, "loss: 'dice' is for segmentation"),
        ({"device": "gpu"}, ValueError, "device: expected 'auto', 'cpu', 'cuda' or 'cuda:N', got 'gpu'"),
        ({"device": None}, ValueError, "device: expected 'auto', 'cpu', 'cuda' or 'cuda:N', got None"),
        ({"device": "cuda:99"}, ValueError, "device: 'cuda:99' was asked for, but"),
        ({"hidden": 100}, TypeError, "hidden: expected 'auto' or a tuple of widths, such as .100,., got 100"),
        ({"hidden": "wide"}, TypeError, "hidden: expected 'auto' or a tuple"),
        ({"hidden": (64, 0)}, ValueError, "hidden: expected an integer >= 1, got 0"),
        ({"hidden": (64, 2.5)}, TypeError, "hidden: expected an integer, got 2.5"),
        ({"model": lambda _, k: nn.Linear(8, k + 1)}, ValueError, r"logits of shape \(1, 3\) .*got \(1, 4\)"),
        ({"model": lambda _, k: nn.Linear(7, k)}, ValueError, r"does not read a sample of shape \(1, 8\)"),
        ({"model": lambda _, k: nn.GRU(8, k)}, ValueError, "got tuple"),
        ({"learning_rate": 1e30, "loss": "ce"}, FloatingPointError, "try a smaller one"),
    ],
)
def test_mistakes_are_told(table, parameters, error, text):
    with pytest.raises(error, match=text):
        RobustClassifier(**{"epochs": 3, "random_state": 1} | parameters).fit(*table)


@pytest.mark.parametrize(("classes", "each"), [(20, 20), (50, 40), (100, 20)])
def test_many_classes_are_learnt_by_default(classes, each):
    """With the L1 of ten classes, all weights of a network for so many went to zero."""
    random = np.random.RandomState(0)
    y = np.repeat(np.arange(classes), 2 * each)
    x = random.randn(classes, 20)[y] + 0.3 * random.randn(len(y), 20)
    learnt, rest = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    given = noise.symmetric(y[learnt], 0.2, classes, seed=1, generator="bernoulli").labels
    assert RobustClassifier(random_state=1).fit(x[learnt], given).score(x[rest], y[rest]) > 0.9


@pytest.mark.parametrize("names", [[0, 1, 2], [1, 2, 3], ["a", "b", "c"]], ids=str)
def test_weights_of_classes_count_once_where_labels_are_scored_by_cross_validation(table, names):
    x, y = table
    kinds = {"suspects": "cross-validated", "folds": 3, **FAST}
    by_class = RobustClassifier(class_weight={names[1]: 3.0, names[0]: 1.0, names[2]: 1.0}, **kinds)
    by_class.fit(x, np.array(names)[y])
    by_sample = RobustClassifier(**kinds).fit(x, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(by_class.label_scores_, by_sample.label_scores_, rtol=0, atol=1e-9)


@pytest.mark.parametrize("changed", [{"hidden": (16, 16)}, {"standardize": False}], ids=str)
def test_another_network_is_not_gone_on_with(table, changed):
    x, y = table
    classifier = RobustClassifier(warm_start=True, hidden=(8,), **FAST).fit(x, y)
    classifier.set_params(**changed).fit(x, y)
    fresh = RobustClassifier(**({"hidden": (8,)} | changed), **FAST).fit(x, y)
    assert np.array_equal(classifier.predict_proba(x), fresh.predict_proba(x))


def test_a_fit_that_broke_off_is_not_gone_on_with(table):
    x, y = table
    classifier = RobustClassifier(warm_start=True, **FAST).fit(x, y)
    with pytest.raises(FloatingPointError):
        classifier.set_params(learning_rate=1e30).fit(x, y)
    classifier.set_params(learning_rate="auto").fit(x, y)
    assert classifier.score(x, y) > 0.9


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -2.0])
def test_weights_of_classes_that_are_no_weights_are_refused(table, weight):
    with pytest.raises(ValueError, match="class_weight: expected finite numbers >= 0, got"):
        RobustClassifier(class_weight={0: weight, 1: 1.0, 2: 1.0}, **FAST).fit(*table)
