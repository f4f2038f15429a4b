# SPDX-License-Identifier: Apache-2.0
"""Losses made from a user's own active loss equal the built-in ones of the same formula."""

import pickle

import pytest
import torch

from noiseproof import losses
from noiseproof.losses.calculus import Active, NormalizedNegative
from noiseproof.losses.per_class import CE, FL, GCE


def my_cross_entropy(log_p):
    return -log_p


def my_focal(log_p):
    return -((1 - log_p.exp()) ** 2) * log_p


@pytest.fixture
def batch():
    target = torch.randint(6, (20,))
    target[4] = -100
    return 3 * torch.randn(20, 6, dtype=torch.float64), target


@pytest.mark.parametrize(
    ("mine", "ours"),
    [
        (losses.normalized(my_cross_entropy), losses.create("nce")),
        (losses.negative(my_cross_entropy), losses.create("nlf-ce")),
        (losses.normalized_negative(my_cross_entropy), losses.create("nnce")),
        (losses.active_negative(my_cross_entropy, 5, 2), losses.create("anl-ce", alpha=5, beta=2)),
        (
            losses.active_negative(my_focal, 1, 1),
            losses.create("anl-fl", alpha=1, beta=1, gamma=2.0, detach_modulator=False),
        ),
        (
            losses.combine((2.0, losses.create("nce")), (3.0, losses.normalized_negative(my_cross_entropy))),
            losses.create("anl-ce", alpha=2, beta=3),
        ),
        (losses.combine((0.5, my_cross_entropy), (2, Active(GCE(q=1.0, p_min=1e-12)))), None),
    ],
)
def test_own_losses_equal_built_in_ones(mine, ours, batch):
    logits, target = batch
    logits.requires_grad_()
    value = mine(logits, target)
    if ours is None:
        expected = 0.5 * losses.create("ce")(logits, target) + 2 * losses.create("mae")(logits, target)
    else:
        expected = ours(logits, target)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    (got,) = torch.autograd.grad(value, logits)
    (want,) = torch.autograd.grad(expected, logits)
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(
    "active", [CE(), FL(2.0, False), GCE(0.3), my_focal, losses.of_probability(lambda p: 1 - p**3)]
)
def test_anl_of_any_active_loss_is_symmetric(active):
    """The sum over labels is α + β(K − 1) for every prediction, whatever the active loss."""
    logits = 5 * torch.randn(30, 4, dtype=torch.float64)
    loss = losses.active_negative(active, alpha=2.0, beta=3.0, reduction="none")
    total = sum(loss(logits, torch.full((30,), label)) for label in range(4))
    torch.testing.assert_close(total, torch.full((30,), 2.0 + 3.0 * 3, dtype=torch.float64))


def test_options_reach_the_loss(batch):
    logits, target = batch
    loss = losses.active_negative(my_cross_entropy, weight=torch.rand(6), ignore_index=2, reduction="none")
    assert loss(logits, target.clamp(min=0)).shape == (20,)
    assert (loss(logits, target.clamp(min=0))[target == 2] == 0).all()


def test_own_losses_can_be_pickled_if_defined_at_top_level(batch):
    loss = losses.active_negative(my_cross_entropy)
    assert torch.equal(pickle.loads(pickle.dumps(loss))(*batch), loss(*batch))


def test_terms_are_values():
    assert NormalizedNegative(CE()) == NormalizedNegative(CE())
    assert len({NormalizedNegative(CE()), NormalizedNegative(CE()), NormalizedNegative(FL())}) == 2


def test_bad_active_losses():
    with pytest.raises(TypeError, match="loss: expected an active loss, .* got CrossEntropy"):
        losses.active_negative(losses.create("ce"))
    with pytest.raises(TypeError, match="loss: expected an active loss, .* got str"):
        losses.normalized("ce")
    for module in (torch.nn.CrossEntropyLoss(), torch.nn.Linear(2, 2)):
        with pytest.raises(TypeError, match=f"per-class losses and no Module, got {type(module).__name__}"):
            losses.active_negative(module)
        with pytest.raises(TypeError, match=f"per-class losses and no Module, got {type(module).__name__}"):
            losses.combine((1.0, module))
    with pytest.raises(TypeError, match="loss: expected an active loss, .* got the class GCE"):
        losses.normalized(GCE)
    with pytest.raises(ValueError, match=r"parts: expected at least one \(weight, loss\) pair, got none"):
        losses.combine()
    with pytest.raises(ValueError, match="weight of a part: expected a number >= 0, got -1"):
        losses.combine((-1, losses.create("ce")))
    with pytest.raises(TypeError, match="LogitClip changes the logits"):
        losses.combine((1.0, losses.create("logitclip-ce")))
