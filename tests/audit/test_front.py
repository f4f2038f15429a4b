# SPDX-License-Identifier: Apache-2.0
"""``audit(…)``: the same found in the same samples, however they and their labels come."""

import functools

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from noiseproof.audit import audit, estimate_noise
from noiseproof.audit.pictures import audit_pictures
from noiseproof.datasets import LabeledData

SPECIES = np.array(["virginica", "setosa", "versicolor"])  # not in the order of the alphabet
ROWS = 150


@pytest.fixture(scope="module")
def iris():
    """Measures and labels of iris, every tenth of which is wrong."""
    measures, species = load_iris(return_X_y=True)
    wrong = np.arange(ROWS) % 10 == 0
    return measures.astype(np.float32), np.where(wrong, (species + 1) % 3, species)


@pytest.fixture(scope="module")
def network(iris):
    """A linear network with a logistic regression's weights, and its probabilities computed by hand."""
    fitted = LogisticRegression(max_iter=1000).fit(*iris)
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.9))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(fitted.coef_))
        model[0].bias.copy_(torch.tensor(fitted.intercept_))
    return model, fitted.predict_proba(iris[0])


@pytest.fixture(scope="module")
def noise(iris, network):
    return estimate_noise(iris[1], network[1])


class Pairs(Dataset):
    def __init__(self, inputs, labels):
        self.inputs, self.labels = inputs, labels

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.labels[index]


class NoDataset:
    """What torch takes for a dataset although it is none by name."""

    __len__, __getitem__, __init__ = Pairs.__len__, Pairs.__getitem__, Pairs.__init__


class Stream(IterableDataset):
    def __init__(self, *pair):
        self.pair = pair

    def __iter__(self):
        return zip(*self.pair, strict=True)


def batches_of(inputs, labels):
    for start in range(0, len(inputs), 40):
        yield inputs[start : start + 40], labels[start : start + 40]


FORMS = {
    "list": lambda x, y: [x, y],
    "tensors": lambda x, y: (torch.tensor(x), torch.tensor(y)),
    "sparse": lambda x, y: (torch.tensor(x).to_sparse(), torch.tensor(y)),
    "float64": lambda x, y: (x.astype(np.float64), y),
    "tensors of other types": lambda x, y: (torch.tensor(x).double(), torch.tensor(y, dtype=torch.int32)),
    "tensor dataset": lambda x, y: TensorDataset(torch.tensor(x), torch.tensor(y)),
    "dataset": Pairs,
    "dataset by its methods": NoDataset,
    "list of samples": lambda x, y: list(zip(x, y, strict=True)),
    "subset": lambda x, y: Subset(Pairs(x, y), range(ROWS)),
    "stream": Stream,
    "loader": lambda x, y: DataLoader(Pairs(x, y), batch_size=7),
    "loader of a stream": lambda x, y: DataLoader(Stream(x, y), batch_size=7),
    "shuffled loader": lambda x, y: DataLoader(Pairs(x, y), batch_size=7, shuffle=True, drop_last=True),
    "batches": batches_of,
}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "sparse"])
def test_a_network_sees_the_same_samples_in_every_form(iris, network, noise, form):
    model, probabilities = network
    expected = audit(iris[1], probabilities, score="margin", noise=noise)
    model.train()
    model[0].eval()
    found = audit(model, FORMS[form](*iris), score="margin", noise=noise)
    np.testing.assert_array_equal(found.given, iris[1])
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)
    assert (model.training, model[0].training, model[1].training) == (True, False, True)


def test_inputs_take_the_precision_of_the_network(iris, network, noise):
    model, probabilities = network
    expected = audit(iris[1], probabilities, score="margin", noise=noise)
    found = audit(nn.Sequential(*model).double(), iris, score="margin", noise=noise)
    model.float()
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-6)


@pytest.mark.parametrize("form", ["list", "sparse", "tensors", "tensor dataset", "shuffled loader", "stream"])
def test_a_classifier_sees_the_same_samples_in_every_form(iris, noise, form):
    # In float32, or stopped early, the solver itself ends elsewhere on a sparse table, by more than is asked here.
    samples = iris[0].astype(np.float64), iris[1]
    classifier = LogisticRegression(max_iter=10_000, tol=1e-8)
    expected = audit(classifier, samples, noise=noise)
    found = audit(classifier, FORMS[form](*samples), noise=noise)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-4)


def test_labels_that_are_names_are_answered_in_names(iris, network, noise):
    model, probabilities = network
    x, y = iris
    by_index = audit(y, probabilities, score="margin", noise=noise)
    assert by_index.class_names is None
    np.testing.assert_array_equal(by_index.suggested_names, by_index.suggested)

    alphabet, by_margin = np.argsort(SPECIES), {"score": "margin", "noise": noise}
    for found in (
        audit(SPECIES[y], probabilities[:, alphabet], **by_margin),
        audit(labels=list(SPECIES[y]), pred_probs=probabilities, class_names=SPECIES, **by_margin),
        audit(y, pred_probs=torch.tensor(probabilities), class_names=list(SPECIES), **by_margin),
        audit(model, (x, SPECIES[y].astype(object)), class_names=SPECIES, **by_margin),
        audit(model, DataLoader(Pairs(x, list(SPECIES[y]))), class_names=SPECIES, **by_margin),
    ):
        np.testing.assert_array_equal(found.given_names, SPECIES[y])
        np.testing.assert_array_equal(found.suggested_names, SPECIES[by_index.suggested])
        np.testing.assert_array_equal(found.cleaned_names, SPECIES[by_index.cleaned])
        np.testing.assert_allclose(found.scores, by_index.scores, atol=1e-4)


def test_a_classifier_answers_in_the_labels_it_was_given(iris, noise):
    x, y = iris
    classifier = LogisticRegression(max_iter=1000)
    expected = audit(classifier, iris, noise=noise)
    for names in (np.array(["a", "b", "c"]), np.array([3, 7, 20]), np.array([-1.0, 0.5, 2.0])):
        found = audit(classifier, (x, names[y]), noise=noise)
        np.testing.assert_array_equal(found.class_names, names)
        np.testing.assert_array_equal(found.suggested_names, names[expected.suggested])
        np.testing.assert_array_equal(found.suggested, expected.suggested)
    in_order = audit(classifier, (x, SPECIES[y]), class_names=SPECIES, noise=noise)
    np.testing.assert_array_equal(in_order.suggested, expected.suggested)


def test_pictures_bring_their_names(monkeypatch):
    few = functools.partial(audit_pictures, filters=20)  # all 512 take ten seconds
    monkeypatch.setattr("noiseproof.audit.front.audit_pictures", few)
    random = np.random.RandomState(0)
    labels = np.arange(30) % 2
    data = LabeledData(
        name="mine",
        split="train",
        labels=labels,
        class_names=("dark", "bright"),
        images=(random.randint(0, 100, (30, 8, 8, 1)) + 100 * labels[:, None, None, None]).astype(np.uint8),
    )
    found = audit("patches", data)
    assert found.class_names.tolist() == ["dark", "bright"]
    with pytest.raises(ValueError, match="class_names: image data sets have their own"):
        audit("patches", data, class_names=["a", "b"])


TWO = np.full((2, 2), 0.5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((), {}), "expected labels with probabilities or a model with data"),
        ((([0, 1],), {}), "expected labels with probabilities"),
        ((([0, 1], TWO), {"labels": [0, 1]}), "got labels= beside it"),
        ((("ab", ["a"]), {}), "expected images"),
        (((["a", "b"], np.full((2, 4), 0.25)), {}), "got 2 different names for 4 columns of probabilities"),
        (((["a", "b"], [0.5, 0.5]), {}), "probabilities: expected floats of shape"),
        (((["a", None], TWO), {}), "all of one kind, got NoneType and str"),
        (((["a", "d"], TWO), {"class_names": ["a", "dog"]}), "labels: unknown name 'd'"),
        (
            (([0, 1], TWO), {"class_names": ["a", "a"]}),
            "class_names: expected a different name for each class",
        ),
        ((([0, 1], TWO), {"class_names": "abc"}), "class_names: expected a different name for each class"),
        ((([0, 1], TWO), {"class_names": ["a"]}), "class_names: expected 2, one per column"),
        ((([0, 2], TWO), {"class_names": ["a", "b"]}), "expected class indices below 2, got 2"),
    ],
)
def test_labels_that_do_not_fit_are_told(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        audit(*arguments[0], **arguments[1])


X, Y = torch.zeros(6, 4), torch.arange(6) % 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X, "expected a pair .samples, labels., or a dataset or loader of such pairs, got Tensor"),
        ((X, Y, Y), "got 3 things"),
        (TensorDataset(X, Y, Y), "got 3 things"),
        (DataLoader(TensorDataset(X)), "got batches of 1 things"),
        ({"x": X, "y": Y}, "got dict"),
        (7, "got int"),
        ((X[0], 3), "a pair with a single int"),
        (zip(X, Y, strict=True), "got single samples; wrap them in a DataLoader"),
        ((X, Y[:4]), "expected a label for each of 6 samples, got 4"),
        ([], "at least one sample"),
        (
            DataLoader(TensorDataset(X, Y), sampler=WeightedRandomSampler([1.0] * 6, 6)),
            "WeightedRandomSampler",
        ),
        (DataLoader(TensorDataset(X, Y), sampler=SubsetRandomSampler([1, 2])), "give the dataset itself"),
        ((X.byte(), Y), "does not accept inputs of torch.uint8 and shape .6, 4."),
        ((X[:, :3], Y), "does not accept inputs of torch.float32 and shape .6, 3."),
    ],
)
def test_samples_that_do_not_fit_are_told(data, message):
    with pytest.raises((TypeError, ValueError), match=message):
        audit(nn.Linear(4, 3), data)


def test_a_network_without_logits_is_told():
    with pytest.raises(ValueError, match=r"model: expected logits of shape \(6, K\), got \(6, 4, 1\)"):
        audit(nn.Unflatten(1, (4, 1)), (X, Y))
