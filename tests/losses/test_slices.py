# SPDX-License-Identifier: Apache-2.0
"""Large batches on a CPU go slice by slice: the same numbers, and nothing kept but the logits."""

import pytest
import torch

from noiseproof import losses
from noiseproof.losses import evaluate

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
