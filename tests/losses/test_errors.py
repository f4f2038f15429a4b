# SPDX-License-Identifier: Apache-2.0
"""Bad input: the error says which argument, what was expected and what came."""

import re

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

from noiseproof import losses
from noiseproof.losses import checks

ALL = losses.available()
LOGITS = torch.zeros(4, 3)
TARGET = torch.zeros(4, dtype=torch.long)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("logits", "target", "error", "message"),
    [
        ([[1.0, 2.0]], TARGET, TypeError, "logits: expected a torch.Tensor, got list"),
        (LOGITS, [0, 1, 2, 0], TypeError, "target: expected a torch.Tensor, got list"),
        (LOGITS.long(), TARGET, TypeError, "logits: expected a floating-point tensor, got torch.int64"),
        (torch.tensor(1.0), torch.tensor(0), ValueError, "logits: expected shape .* got a scalar"),
        (torch.zeros(4, 1), TARGET, ValueError, r"at least 2 classes, got shape \(4, 1\); .*Binary"),
        (LOGITS, TARGET[:3], ValueError, r"class indices of shape \(4,\) for logits .* got .* shape \(3,\)"),
        (LOGITS, TARGET[:, None], ValueError, r"class indices of shape \(4,\) .* got .* shape \(4, 1\)"),
        (LOGITS, TARGET.float(), ValueError, r"probabilities of the logits' shape \(4, 3\) or integer"),
        (LOGITS, TARGET.bool(), TypeError, "class indices or probabilities, got torch.bool"),
        (torch.zeros(2, 3, 5), TARGET[:2], ValueError, r"indices of shape \(2, 5\) for logits"),
        (LOGITS, TARGET + 3, ValueError, r"class indices 0…2 or ignore_index=-100, got 3 \(4 such labels\)"),
        (LOGITS, TARGET - 1, ValueError, r"class indices 0…2 or ignore_index=-100, got -1"),
        (LOGITS, TARGET.to("meta"), ValueError, "target: expected on the logits' device cpu, got meta"),
    ],
)
def test_bad_tensors(name, logits, target, error, message):
    with pytest.raises(error, match=message):
        losses.create(name)(logits, target)


@pytest.mark.parametrize("name", ALL)
def test_bad_class_weights(name):
    with pytest.raises(ValueError, match=r"weight: expected one weight a class, \(3,\), got \(2,\)"):
        losses.create(name, weight=torch.ones(2))(LOGITS, TARGET)
    with pytest.raises(TypeError, match="weight: expected a floating-point tensor, got torch.int64"):
        losses.create(name, weight=torch.ones(3, dtype=torch.long))(LOGITS, TARGET)


@pytest.mark.parametrize("name", ALL)
def test_unknown_reduction(name):
    with pytest.raises(ValueError, match=r"reduction: unknown name 'men'; did you mean 'mean'\?"):
        losses.create(name, reduction="men")
    with pytest.raises(ValueError, match="reduction: unknown name 'average'"):
        losses.record(name).function(LOGITS, TARGET, reduction="average")


NUMERIC = [
    (name, hyperparameter)
    for name in ALL
    for hyperparameter, default in losses.record(name).defaults.items()
    if not isinstance(default, bool)
]


@pytest.mark.parametrize(("name", "hyperparameter"), NUMERIC)
def test_bad_hyperparameters(name, hyperparameter):
    for wrong, error in ((-1.0, (ValueError, TypeError)), ("5", TypeError), (float("nan"), ValueError)):
        if isinstance(losses.record(name).defaults[hyperparameter], int):
            wrong, error = (-1, ValueError) if wrong == -1.0 else (wrong, TypeError)
        with pytest.raises(error, match=f"^{hyperparameter}: expected .* got "):
            losses.create(name, **{hyperparameter: wrong})
        with pytest.raises(error, match=f"^{hyperparameter}: expected .* got "):
            losses.record(name).function(LOGITS, TARGET, **{hyperparameter: wrong})


@pytest.mark.parametrize("name", [n for n in ALL if "alpha" in losses.record(n).defaults])
def test_zero_is_a_legal_weight(name):
    logits = torch.randn(4, 3, requires_grad=True)
    losses.create(name, alpha=0.0, beta=0.0, **_without_entropy(name))(logits, TARGET).backward()
    assert torch.equal(logits.grad, torch.zeros(4, 3))


def _without_entropy(name):
    return {"entropy_weight": 0} if "entropy_weight" in losses.record(name).defaults else {}


def test_bounds_of_hyperparameters():
    for name, arguments, message in (
        ("gce", {"q": 0}, "q: expected a number > 0, got 0"),
        ("phce", {"tau": 1.0}, "tau: expected a number > 1, got 1.0"),
        ("tce", {"t": 0}, "t: expected an integer >= 1, got 0"),
        ("agce", {"a": 0.0}, "a: expected a number > 0, got 0.0"),
        ("aul", {"a": 1.0}, "a: expected a number > 1, got 1.0"),
        ("rce", {"label_floor": 1.0}, "label_floor: expected a number between 0 and 1"),
        ("logitclip-ce", {"bound": 0.0}, "bound: expected a number > 0, got 0.0"),
    ):
        with pytest.raises(ValueError, match=message):
            losses.create(name, **arguments)


@pytest.mark.parametrize("name", ["nnce", "nlf-ce", "anl-ce", "anl-fl"])
def test_p_min_must_leave_room(name):
    with pytest.raises(ValueError, match=r"p_min: expected less than 1/K = 0\.333333 for 3 classes, got"):
        losses.create(name, p_min=0.4)(LOGITS, TARGET)


@pytest.mark.parametrize("name", [*ALL, *losses.available(whole_images=True)])
def test_label_smoothing_is_refused_with_what_to_do_instead(name):
    module = losses.record(name).module
    with pytest.raises(
        TypeError, match=f"label_smoothing: {module.__name__} has no such option; pass smoothed"
    ):
        module(label_smoothing=0.1)
    with pytest.raises(
        TypeError, match=f"label_smoothing: loss '{re.escape(name)}' has no such option; pass"
    ):
        losses.create(name, label_smoothing=0.1)


def test_what_is_said_to_do_instead_of_label_smoothing_is_the_same():
    logits, labels = torch.randn(6, 4, generator=torch.manual_seed(0)), torch.tensor([0, 3, 1, 2, 2, 0])
    target = (1 - 0.1) * one_hot(labels, 4) + 0.1 / 4
    expected = cross_entropy(logits, labels, label_smoothing=0.1)
    torch.testing.assert_close(losses.CrossEntropy()(logits, target), expected)


def test_unknown_names():
    with pytest.raises(ValueError, match="loss: unknown name 'anl_ce'; did you mean 'anl-ce'"):
        losses.create("anl_ce")
    with pytest.raises(ValueError, match="recipe: unknown name 'cifar-10'; did you mean 'cifar10'"):
        losses.create("anl-ce", recipe="cifar-10")
    with pytest.raises(TypeError, match="argument of loss 'anl-ce': unknown name 'alfa'; did you mean"):
        losses.create("anl-ce", alfa=1.0)
    with pytest.raises(
        TypeError, match="option of ANLCrossEntropy: unknown name 'gamma'. Known: alpha, beta, "
    ):
        losses.ANLCrossEntropy(gamma=1.0)
    with pytest.raises(ValueError, match="noise: unknown name 'symm-0.4'; did you mean 'sym'"):
        losses.create("logitclip-ce", recipe="cifar10", noise="symm-0.4")
    for bad in ("sym--0.4", "sym-0.8-0.1"):
        with pytest.raises(ValueError, match=f"expected a rate in .* got '{bad}'"):
            losses.create("logitclip-ce", recipe="cifar10", noise=bad)
    with pytest.raises(ValueError, match=r"noise: expected a rate in \[0, 1\] as in 'sym-0.8', got 'sym-8'"):
        losses.create("logitclip-ce", recipe="cifar10", noise="sym-8")
    with pytest.raises(ValueError, match="got 'sym-much'"):
        losses.create("logitclip-ce", recipe="cifar10", noise="sym-much")


def test_labels_are_not_looked_at_where_it_would_cost():
    """Off the CPU labels are checked on request only; on the CPU one may turn the check off."""
    wrong = torch.tensor([0, 1, 2, -7])
    loss = losses.create("mae", check_labels=False, ignore_index=-7)
    assert loss(LOGITS, wrong) == pytest.approx(2 / 3)
    meta = losses.create("anl-ce")(LOGITS.to("meta"), TARGET.to("meta"))  # no values to look at
    assert meta.shape == ()


@pytest.mark.gpu
def test_labels_on_a_gpu_are_checked_on_request():
    loss = losses.create("ce", check_labels=True).cuda()
    with pytest.raises(ValueError, match="got 9"):
        loss(LOGITS.cuda(), TARGET.cuda() + 9)


def test_checks_accept_what_is_right():
    assert checks.number("x", 3) == 3.0
    with pytest.raises(TypeError, match="x: expected a number, got True of type bool"):
        checks.number("x", True)
    with pytest.raises(TypeError, match="t: expected an integer, got 1.5 of type float"):
        checks.positive_integer("t", 1.5)
    assert checks.unknown("loss", "zzzz", ["ce"]) == "loss: unknown name 'zzzz'. Known: ce"


def test_a_compiled_function_takes_another_hyper_parameter():
    """Its second value makes torch.compile treat the number as unknown; the check must be one it can follow."""
    compiled = torch.compile(
        lambda logits, target, alpha: losses.anl_cross_entropy(logits, target, alpha=alpha),
        backend="eager",
        fullgraph=True,
    )
    logits = torch.randn(8, 5, generator=torch.Generator().manual_seed(1))
    target = torch.arange(8) % 5
    for alpha in (1.0, 2.0, 3.5):
        expected = losses.anl_cross_entropy(logits, target, alpha=alpha)
        assert compiled(logits, target, alpha).item() == pytest.approx(expected.item(), rel=1e-6)
