# SPDX-License-Identifier: Apache-2.0
"""Large batches on a CPU go slice by slice: the same numbers, and nothing kept but the logits."""

import pytest
import torch

from noiseproof import losses
from noiseproof.losses import evaluate
from noiseproof.losses.entropy import MarginalEntropy

ALL = losses.available()


@pytest.fixture
def small_slices(monkeypatch):
    """Make slices so small that a test-sized batch has many of them."""
    monkeypatch.setattr(evaluate, "SLICE_ELEMENTS", 40)


def gradient(loss, logits, target):
    logits = logits.detach().clone().requires_grad_()
    value = loss(logits, target)
    return value.detach(), torch.autograd.grad(value.sum(), logits)[0]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("shape", [(23, 9), (7, 5, 3, 2)])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_sliced_equals_whole(name, shape, soft, reduction, monkeypatch):
    logits = 4 * torch.randn(shape, dtype=torch.float64)
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    target.view(-1)[2] = -100
    if soft:
        target = torch.rand(shape, dtype=torch.float64).softmax(1)
    loss = losses.create(name, weight=torch.rand(shape[1]).double(), reduction=reduction)
    whole = gradient(loss, logits, target)
    monkeypatch.setattr(evaluate, "SLICE_ELEMENTS", 40)
    sliced = gradient(loss, logits, target)
    for got, want in zip(sliced, whole, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("name", ALL)
def test_sliced_can_be_differentiated_twice(name):
    logits = torch.randn(12, 9, dtype=torch.float64, requires_grad=True)
    target = torch.randint(9, (12,))
    loss = losses.create(name)
    (first,) = torch.autograd.grad(loss(logits, target), logits, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), logits)

    whole = torch.func.grad(lambda z: torch.func.grad(loss)(z, target).square().sum())(logits.detach())
    torch.testing.assert_close(second, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("small_slices")
def test_learned_soft_labels_receive_their_gradient():
    logits = torch.randn(12, 9)
    target = torch.rand(12, 9).softmax(1).requires_grad_()
    losses.ANLCrossEntropy()(logits, target).backward()
    assert target.grad is not None
    assert target.grad.abs().sum() > 0


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("name", [name for name in ALL if name not in ("anl-ce*", "logitclip-ce")])
def test_backward_keeps_no_tensor_of_the_logits_size_but_the_logits(name):
    """ANL* keeps its regulariser's; LogitClip its clipped logits, since those are what it evaluates."""
    logits = torch.randn(64, 32, requires_grad=True)
    kept = []

    def keep(tensor):
        if tensor.numel() >= logits.numel() and tensor.data_ptr() != logits.data_ptr():
            kept.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        losses.create(name)(logits, torch.randint(32, (64,)))
    assert kept == []


class Tempered:
    """``(1 − p^τ) / τ`` with a τ that is learned."""

    def __init__(self):
        self.tau = torch.nn.Parameter(torch.tensor(0.7, dtype=torch.float64))

    def __call__(self, log_p):
        return (1 - (log_p * self.tau).exp()) / self.tau


@pytest.mark.parametrize("shape", [(23, 9), (7, 5, 3, 2)])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("alone", [True, False])
def test_a_number_that_an_own_loss_learns_receives_its_gradient(shape, soft, alone, monkeypatch):
    active = Tempered()
    parts = [(1.0, active)] if alone else [(1.0, active), (0.5, losses.create("anl-ce*"))]
    loss = losses.combine(*parts)
    logits = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    target = torch.randint(shape[1], (shape[0], *shape[2:]))
    if soft:
        target = torch.rand(shape, dtype=torch.float64).softmax(1)
    whole = torch.autograd.grad(loss(logits, target), (active.tau, logits))
    monkeypatch.setattr(evaluate, "SLICE_ELEMENTS", 40)
    sliced = torch.autograd.grad(loss(logits, target), (active.tau, logits))
    torch.testing.assert_close(sliced, whole, rtol=1e-11, atol=1e-13)
    with torch.no_grad():
        torch.testing.assert_close(loss(logits, target), loss(logits.detach(), target))


@pytest.mark.usefixtures("small_slices")
def test_whether_a_loss_learns_is_asked_of_one_position_alone():
    seen = []
    loss = losses.RobustLoss(lambda log_p: seen.append(log_p.numel()) or -log_p)
    for target in (torch.randint(5, (7, 3, 2)), torch.rand(7, 5, 3, 2).softmax(1)):
        seen.clear()
        loss(torch.randn(7, 5, 3, 2), target)
        assert seen[0] in (1, 5)
        assert len(seen) > 2


@pytest.mark.usefixtures("small_slices")
def test_soft_labels_overwritten_before_the_backward_pass_are_an_error():
    logits = torch.randn(12, 9, requires_grad=True)
    target = torch.rand(12, 9).softmax(1)
    value = losses.create("anl-ce")(logits, target)
    target.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


@pytest.mark.parametrize(
    "loss",
    [
        losses.combine((0.5, losses.create("anl-ce*"))),
        losses.combine((0.5, losses.create("anl-ce*")), (2.0, losses.create("ce"))),
        losses.combine((0.5, MarginalEntropy())),
        losses.RobustLoss(MarginalEntropy()),
    ],
    ids=["anl-ce* in a sum", "anl-ce* in a sum with another", "entropy in a sum", "entropy"],
)
def test_sums_of_what_needs_the_whole_batch_are_evaluated_too(loss, monkeypatch):
    logits, target = torch.randn(12, 9, dtype=torch.float64), torch.randint(9, (12,))
    whole = gradient(loss, logits, target)
    monkeypatch.setattr(evaluate, "SLICE_ELEMENTS", 40)
    torch.testing.assert_close(gradient(loss, logits, target), whole, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["ce", "anl-ce", "anl-ce*"])
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("again", [False, True])
def test_many_derivatives_at_once_are_those_of_the_whole(name, strategy, again, monkeypatch):
    loss = losses.create(name, reduction="none")
    logits = torch.randn(12, 9, dtype=torch.float64, requires_grad=True)
    target = torch.randint(9, (12,))

    def derivatives():
        return torch.autograd.functional.jacobian(
            lambda z: loss(z, target),
            logits,
            vectorize=True,
            strategy=strategy,
            create_graph=again and strategy == "reverse-mode",
        )

    whole = derivatives()
    monkeypatch.setattr(evaluate, "SLICE_ELEMENTS", 40)
    torch.testing.assert_close(derivatives(), whole, rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("small_slices")
def test_many_gradients_at_once_keep_no_graph():
    logits = torch.randn(12, 9, requires_grad=True)
    each = losses.create("anl-ce", reduction="none")(logits, torch.randint(9, (12,)))
    (found,) = torch.autograd.grad(each, logits, torch.eye(12), is_grads_batched=True)
    assert not found.requires_grad
    assert found.diagonal(dim1=0, dim2=1).count_nonzero() == found.count_nonzero() > 0
