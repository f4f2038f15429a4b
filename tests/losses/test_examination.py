# SPDX-License-Identifier: Apache-2.0
"""What ``check_loss`` finds of losses whose properties are known, and of losses that were broken on purpose."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from noiseproof import losses
from noiseproof.losses import RobustLoss, check_loss
from noiseproof.losses.calculus import Active

BATCHWISE = ("anl-ce*",)


@pytest.mark.parametrize("name", losses.available())
def test_nothing_is_wrong_with_the_catalogue(name):
    found = check_loss(name)
    assert found.is_fine, str(found)
    assert (found["symmetric"].verdict == "fine") == losses.record(name).symmetric
    assert ("batches" in str(found)) == (name in BATCHWISE)


@pytest.mark.parametrize(
    ("name", "symmetric", "asymmetric"),
    [
        ("ce", "0.80, 0.60, 0.40", "0.80, 0.60"),  # the shares of right labels
        ("mae", "1.00, 1.00, 1.00", "1.00, 1.00"),
        ("anl-ce", "1.00, 1.00, 1.00", "1.00, 1.00"),
        ("nce", "1.00, 1.00, 1.00", "0.80, 0.60"),  # the theory page: no label may cost more than C/(K−1)
    ],
)
def test_what_noise_rewards_is_what_theory_says(name, symmetric, asymmetric):
    found = check_loss(name)
    assert found["symmetric noise"].text.endswith(f": {symmetric}")
    assert found["asymmetric noise"].text.endswith(f": {asymmetric}")


def test_a_detached_part_is_told_and_is_none_where_it_is_not_detached():
    assert check_loss("fl")["gradient"].verdict == "note"
    assert check_loss("fl", detach_modulator=False)["gradient"].verdict == "fine"


class Doubled(torch.autograd.Function):
    """Identity whose backward is mistaken."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def wrong_backward(log_p):
    return -Doubled.apply(log_p)


def of_all_classes(log_p):  # an active loss must look at each class by itself
    return -log_p + log_p.exp().sum()


def steep_at_one(log_p):
    return (1 - log_p.exp()).sqrt()


def with_a_root_below_a_half(
    logits, target
):  # torch.where computes both, and the other's gradient is not finite
    p = logits.softmax(1).gather(1, target[:, None])
    return torch.where(p > 0.5, 1 - p, 0.5 + (0.5 - p).sqrt()).mean()


def not_a_number(logits, target):
    return logits.sum() * float("nan")


def infinite_where_p_is_zero(logits, target):
    return -logits.softmax(1).gather(1, target[:, None]).log().mean()


class TakesOneSample(nn.Module):
    def forward(self, logits, target):
        return -logits.log_softmax(1)[0, target.item()]


class IgnoresOptions(RobustLoss):
    def __init__(self, **options):
        super().__init__(None, **options)

    def forward(self, logits, target):
        return nn.functional.cross_entropy(logits, target, reduction=self.reduction)


@pytest.mark.parametrize(
    ("loss", "wrong"),
    [
        (RobustLoss(wrong_backward), {"gradient"}),
        (RobustLoss(of_all_classes), {"probabilities"}),
        (RobustLoss(steep_at_one), {"extreme logits"}),
        (IgnoresOptions(), {"ignore_index", "weight"}),
        (lambda logits, target: logits.exp().sum(), {"range", "extreme logits"}),
        (lambda logits, target: logits, {"value"}),
        (lambda logits, target: logits.undefined, {"value"}),
        (lambda logits, target: torch.tensor(1.0, dtype=logits.dtype), {"gradient", "extreme logits"}),
        (lambda logits, target: nn.functional.cross_entropy(logits.float(), target), {"gradient"}),
        (with_a_root_below_a_half, {"gradient"}),
        (not_a_number, {"gradient", "symmetric", "bounded", "falls as p_y rises", "symmetric noise"}),
        (infinite_where_p_is_zero, {"range", "symmetric", "bounded"}),
    ],
)
def test_what_is_broken_is_found(loss, wrong):
    found = check_loss(loss)
    said = {each.subject for each in found.findings if each.verdict == "wrong"}
    assert wrong <= said, str(found)
    assert not found.is_fine


def test_any_function_can_be_looked_at_and_torchs_own_is_fine():
    found = check_loss(nn.functional.cross_entropy)
    assert found.is_fine
    assert found["bounded"].text.startswith("no: ")
    with pytest.raises(KeyError, match="'weight' was not checked"):
        found["weight"]


@pytest.mark.parametrize(
    "options", [{"weight": torch.ones(4)}, {"ignore_index": 0}, {"reduction": "none"}], ids=str
)
def test_options_that_a_module_has_are_left_aside(options):
    assert str(check_loss(losses.create("gce", **options))) == str(check_loss(losses.create("gce")))


def test_a_module_of_single_samples_can_be_looked_at():
    found = check_loss(TakesOneSample())
    assert found.is_fine, str(found)
    assert found["symmetric noise"].text.endswith(": 0.80, 0.60, 0.40")


def test_a_loss_that_is_the_same_everywhere_is_told():
    found = check_loss(lambda logits, target: 0 * logits.sum())
    assert found["falls as p_y rises"].text == "no: it is 0 for every p_y"


def test_a_record_is_held_to_what_it_says():
    listed = losses.record("ce")
    found = check_loss(replace(listed, symmetric=True, function=losses.mean_absolute_error))
    assert "its record says it is symmetric" in found["symmetric"].text
    assert found["function"].text == "gives a different loss from the Module"


def test_a_function_inside_another_is_told_not_to_pickle():
    assert "top level" in check_loss(RobustLoss(lambda log_p: -log_p))["pickling"].text


def test_looking_leaves_the_random_numbers_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    check_loss("mae")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("loss", "arguments", "error", "text"),
    [
        ("dice", {}, ValueError, "looks at whole images"),
        ("cee", {}, ValueError, "unknown name 'cee'"),
        ("ce", {"q": 1}, TypeError, "unknown name 'q'"),
        (5, {}, TypeError, "expected a name, a record, a Module or a function, got 5"),
        (nn.CrossEntropyLoss, {}, TypeError, "expected a name"),
        (nn.CrossEntropyLoss(), {"q": 1}, TypeError, "only for a loss given by name"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(loss, arguments, error, text):
    with pytest.raises(error, match=text):
        check_loss(loss, **arguments)


# --- losses of one's own ----------------------------------------------------------------------------------


def test_a_function_is_taken_for_an_active_loss():
    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert RobustLoss(steep_at_one).term == Active(steep_at_one)
    assert torch.equal(
        RobustLoss(steep_at_one)(logits, labels), RobustLoss(Active(steep_at_one))(logits, labels)
    )


@pytest.mark.parametrize("term", [None, 3, nn.CrossEntropyLoss(), Active])
def test_what_is_no_term_is_refused(term):
    with pytest.raises(
        TypeError, match=r"term: expected a term .*, a function .*, or None in a class with a forward"
    ):
        RobustLoss(term)


def test_a_forward_of_ones_own_is_inherited():
    class Child(IgnoresOptions):
        pass

    logits, labels = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    assert torch.equal(Child()(logits, labels), nn.functional.cross_entropy(logits, labels))


class Sevens:
    def forward(self, logits, target):
        return 7 + 0 * logits.sum()


def test_a_forward_of_a_mixin_is_kept():
    class Mixed(Sevens, RobustLoss):
        def __init__(self):
            super().__init__(None)

    assert Mixed()(torch.randn(4, 3), torch.tensor([0, 1, 2, 0])) == 7


def test_a_loss_without_a_formula_is_no_part_of_another():
    """Its formula would count as zero, and nobody would know."""
    with pytest.raises(TypeError, match="parts: IgnoresOptions has a forward of its own"):
        losses.combine((1.0, IgnoresOptions()), (1.0, losses.create("mae")))
    with pytest.raises(TypeError, match=r"pixels: expected a loss of labels .* got IgnoresOptions"):
        losses.PixelsAndDice(IgnoresOptions())
    assert repr(IgnoresOptions()) == "IgnoresOptions()"


def test_only_robust_losses_can_be_registered():
    with pytest.raises(
        TypeError, match=r"module: expected a class that extends .*RobustLoss.* super\(\).__init__\(None"
    ):
        losses.register(replace(losses.record("ce"), name="plain", module=nn.CrossEntropyLoss))


def test_a_loss_without_a_default_cannot_be_registered():
    class Power(RobustLoss):
        def __init__(self, q, **options):
            super().__init__(lambda log_p: (1 - log_p.exp()) ** q, **options)

    with pytest.raises(
        TypeError, match="expected a default for every hyper-parameter of Power, got none for q"
    ):
        losses.register(replace(losses.record("ce"), name="power", module=Power, aliases=()))


@pytest.mark.parametrize("target", [torch.tensor([0, 1, 2, 0]), torch.full((4, 3), 1 / 3)])
def test_an_active_loss_of_another_shape_is_told(target):
    def over_classes(log_p):
        return log_p.sum(1, keepdim=True).expand(-1, 7)

    with pytest.raises(
        ValueError, match=r"active loss over_classes: expected the loss of each class .* got \(4, 7\)"
    ):
        RobustLoss(over_classes)(torch.randn(4, 3), target)
