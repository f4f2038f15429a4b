# SPDX-License-Identifier: Apache-2.0
"""L1 and L2 through the gradient equal autograd on the penalty; the Jacobian's estimate is unbiased."""

import pytest
import torch
from torch import nn

from noiseproof.losses import L1, L2, Jacobian, create


def network():
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)).double()


@pytest.mark.parametrize("regularizer", [L1(3e-3), L2(3e-3)])
def test_gradient_equals_autograd_on_the_penalty(regularizer):
    model = network()
    x, y = torch.randn(16, 5, dtype=torch.float64), torch.randint(3, (16,))
    loss = create("anl-ce")

    (loss(model(x), y) + regularizer.penalty(model.parameters())).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss(model(x), y).backward()
    regularizer.add_to_gradients(model.parameters())
    for p, want in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("regularizer", [L1(3e-3), L2(3e-3)])
def test_sparse_gradients_become_dense_ones(regularizer):
    """The penalty reaches every row, also those that the batch did not use."""
    words = nn.Embedding(6, 3, sparse=True)
    words(torch.tensor([1, 4])).sum().backward()
    expected = words.weight.grad.to_dense()
    expected += torch.autograd.grad(regularizer.penalty([words.weight]), words.weight)[0]
    regularizer.add_to_gradients(words.parameters())
    torch.testing.assert_close(words.weight.grad, expected)


def test_values():
    weights = [nn.Parameter(torch.tensor([3.0, -4.0])), nn.Parameter(torch.tensor([[1.0]]))]
    assert L1(0.5).penalty(weights).item() == pytest.approx(0.5 * 8)
    assert L2(0.5).penalty(weights).item() == pytest.approx(0.25 * 26)


def test_frozen_parameters_are_left_alone_and_unused_ones_are_reached():
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    unused = nn.Parameter(torch.tensor([2.0, -2.0]))
    L1(0.1).add_to_gradients([frozen, unused])
    assert frozen.grad is None
    assert unused.grad.tolist() == pytest.approx([0.1, -0.1])
    L1(0.0).add_to_gradients([unused])
    assert unused.grad.tolist() == pytest.approx([0.1, -0.1])


def test_l2_is_the_weight_decay_of_sgd():
    ours, theirs = network(), network()
    theirs.load_state_dict(ours.state_dict())
    x, y = torch.randn(16, 5, dtype=torch.float64), torch.randint(3, (16,))
    for model, decay in ((ours, 0.0), (theirs, 0.01)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
        create("ce")(model(x), y).backward()
        if decay == 0:
            L2(0.01).add_to_gradients(model.parameters())
        optimizer.step()
    for mine, torchs in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, torchs)


def test_jacobian_estimate_is_unbiased():
    weight = torch.randn(4, 6, dtype=torch.float64)
    x = torch.randn(32, 6, dtype=torch.float64, requires_grad=True)
    estimate = Jacobian(2.0, projections=4000).penalty(x @ weight.T, x).item()
    assert estimate == pytest.approx(2.0 * weight.square().sum().item(), rel=0.02)


def test_jacobian_of_a_nonlinear_network_against_the_exact_one():
    model = network().eval()
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    exact = torch.func.vmap(torch.func.jacrev(lambda one: model(one[None])[0]))(x.detach())
    expected = exact.square().sum((1, 2)).mean().item()
    generator = torch.Generator().manual_seed(1)
    estimate = Jacobian(1.0, projections=3000).penalty(model(x), x, generator).item()
    assert estimate == pytest.approx(expected, rel=0.03)


def test_jacobian_penalty_trains_the_network():
    model = network()
    x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    Jacobian(1.0).penalty(model(x), x).backward()
    assert model[0].weight.grad.abs().sum() > 0


def test_bad_arguments():
    with pytest.raises(ValueError, match="strength: expected a number >= 0, got -1"):
        L1(-1)
    with pytest.raises(ValueError, match="projections: expected an integer >= 1, got 0"):
        Jacobian(1.0, projections=0)
    x = torch.randn(2, 3)
    with pytest.raises(ValueError, match="inputs: expected a tensor that requires gradients; call inputs"):
        Jacobian(1.0).penalty(x, x)
