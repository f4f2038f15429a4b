# SPDX-License-Identifier: Apache-2.0
"""Bad input: the message names the argument, what was expected and what came."""

import numpy as np
import pytest

from noiseproof import noise

LABELS = np.array([0, 1, 2, 1])
IMAGES = np.zeros((4, 2, 2, 3), dtype=np.uint8)


def calls(**changed):
    """Every label generator with good arguments, but for those changed."""

    def arguments(*names):
        good = {
            "images": IMAGES,
            "labels": LABELS,
            "rate": 0.4,
            "num_classes": 3,
            "seed": 1,
            "flips": {0: 1},
            "matrix": np.eye(3),
            "num_outside": 5,
            "rates": [0.1],
        }
        return {name: changed.get(name, good[name]) for name in names}

    common = ("labels", "num_classes", "seed")
    return {
        noise.symmetric: arguments(*common, "rate"),
        noise.asymmetric: arguments(*common, "rate", "flips"),
        noise.from_transition: arguments("labels", "matrix", "seed"),
        noise.instance_dependent: arguments(*common, "images", "rate"),
        noise.open_set: arguments(*common, "rate", "num_outside"),
        noise.annotators: arguments(*common, "rates"),
    }


@pytest.mark.parametrize(
    ("argument", "value", "error", "message"),
    [
        ("labels", [0.0, 1.0, 2.0, 1.0], TypeError, "labels must be integers, got dtype float64"),
        ("labels", [True, False, True, True], TypeError, "labels must be integers, got dtype bool"),
        ("labels", ["cat", "dog", "cat", "cat"], TypeError, "labels must be integers"),
        ("labels", [[0, 1], [1, 2]], ValueError, r"one-dimensional and not empty, got shape \(2, 2\)"),
        ("labels", np.empty(0, dtype=int), ValueError, r"one-dimensional and not empty, got shape \(0,\)"),
        ("labels", [0, 1, 3, 0], ValueError, r"labels must lie in \[0, 3\), got values from 0 to 3"),
        ("labels", [0, -1, 2, 0], ValueError, r"labels must (lie|be) .* got values from -1 to 2"),
        ("rate", 1.01, ValueError, r"rate must lie in \[0, 1\], got 1.01"),
        ("rate", -0.01, ValueError, r"rate must lie in \[0, 1\], got -0.01"),
        ("rate", float("nan"), ValueError, r"rate must lie in \[0, 1\], got nan"),
        ("rate", "0.4", TypeError, r"rate must be a number in \[0, 1\], got str"),
        ("rate", True, TypeError, r"rate must be a number in \[0, 1\], got bool"),
        ("num_classes", 1, ValueError, "num_classes must be at least 2, got 1"),
        ("num_classes", 3.0, TypeError, "num_classes must be an integer at least 2, got float"),
        ("seed", -1, ValueError, "seed must be between 0 and 4294967295, got -1"),
        ("seed", 2**32, ValueError, "seed must be between 0 and 4294967295, got 4294967296"),
        ("seed", 1.5, TypeError, "seed must be an integer between 0 and 4294967295, got float"),
        ("seed", None, TypeError, "seed must be an integer .* got NoneType"),
        ("seed", True, TypeError, "seed must be an integer .* got bool"),
        ("images", IMAGES[:3], ValueError, r"images must have one row per label, \(4, ...\), got shape \(3,"),
        ("images", IMAGES.astype(complex), TypeError, "images must be integers or floats, got dtype complex"),
        ("images", np.full((4, 2), np.nan), ValueError, "images must be finite"),
        ("images", np.zeros((4, 0)), ValueError, "images must have pixels"),
        ("flips", "cifar11", ValueError, "flips must be one of .*did you mean 'cifar10'"),
        ("flips", "cifar10", ValueError, "flips 'cifar10' need num_classes=10, got 3"),
        ("flips", {}, ValueError, "flips must name at least one class"),
        ("flips", {0: 3}, ValueError, "flips' given class must be between 0 and 2, got 3"),
        ("flips", {-1: 0}, ValueError, "flips' true class must be between 0 and 2, got -1"),
        ("flips", np.eye(2), ValueError, r"flips must be 3 by 3, got shape \(2, 2\)"),
        ("matrix", np.ones((2, 3)), ValueError, "matrix must be square"),
        ("matrix", np.full((3, 3), 0.3), ValueError, "rows that sum to one .* sums to 0.9"),
        (
            "matrix",
            [[2, -1, 0], [0, 1, 0], [0, 0, 1]],
            ValueError,
            r"probabilities in \[0, 1\], got -1.0 to 2.0",
        ),
        ("matrix", np.full((3, 3), np.nan), ValueError, "probabilities in"),
        (
            "matrix",
            [[0.5, 0.5, 0.5], [0.5, 0, 0], [0, 0.5, 0.5]],
            ValueError,
            "columns do sum to one: transpose",
        ),
        ("num_outside", 0, ValueError, "num_outside must be at least 1, got 0"),
        ("rates", [1.5], ValueError, r"rates must lie in \[0, 1\], got 1.5"),
    ],
)
def test_bad_arguments(argument, value, error, message):
    concerned = {call: kept for call, kept in calls(**{argument: value}).items() if argument in kept}
    assert concerned
    for call, keywords in concerned.items():
        with pytest.raises(error, match=message):
            call(**keywords)


@pytest.mark.parametrize("call", [noise.symmetric, noise.asymmetric, noise.from_transition])
def test_unknown_generator(call):
    with pytest.raises(ValueError, match="generator must be one of 'exact', .* did you mean 'bernoulli'"):
        call(**calls()[call], generator="bernouilli")
    with pytest.raises(ValueError, match="generator must be one of .* got None"):
        call(**calls()[call], generator=None)


def test_unknown_instance_generator():
    with pytest.raises(ValueError, match="'pdn', 'fixed-count', 'shared-projection', got 'part'"):
        noise.instance_dependent(IMAGES, LABELS, 0.4, 3, 1, generator="part")


@pytest.mark.parametrize("labels", [[0, 1, 2], (0, 1, 2), np.array([0, 1, 2], dtype=np.uint8)])
def test_what_labels_may_be(labels):
    assert noise.symmetric(labels, 0.5, 3, 1).clean.dtype == np.int64


def test_tensors_are_labels_too():
    torch = pytest.importorskip("torch")
    assert noise.symmetric(torch.tensor([0, 1, 2]), 0.5, 3, 1).clean.tolist() == [0, 1, 2]


def test_numpy_numbers_are_numbers():
    noisy = noise.symmetric(LABELS, np.float32(0.5), np.int64(3), np.uint32(1))
    assert (type(noisy.rate), type(noisy.num_classes), type(noisy.seed)) == (float, int, int)
