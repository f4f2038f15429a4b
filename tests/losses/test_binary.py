# SPDX-License-Identifier: Apache-2.0
"""One logit a label: equal to two-class softmax, and it trains on real multi-label data."""

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

from noiseproof import losses
from noiseproof.losses import Binary

SHIFT_INVARIANT = [name for name in losses.available() if name != "logitclip-ce"]


@pytest.mark.parametrize("name", SHIFT_INVARIANT)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_equals_two_class_softmax(name, reduction):
    logits = 3 * torch.randn(6, 4, dtype=torch.float64)
    target = torch.randint(2, (6, 4))
    target[2, 1] = -100
    weight = torch.tensor([1.0, 3.0])
    loss = losses.create(name, reduction=reduction, weight=weight)

    one = logits.clone().requires_grad_()
    value = Binary(loss)(one, target)
    two = torch.stack([torch.zeros_like(logits), logits], 1).requires_grad_()
    expected = loss(two, target)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)

    (gradient,) = torch.autograd.grad(value.sum(), one)
    (wide,) = torch.autograd.grad(expected.sum(), two)
    torch.testing.assert_close(gradient, wide[:, 1], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(-gradient, wide[:, 0], rtol=1e-9, atol=1e-12)


def test_cross_entropy_is_torchs_binary_cross_entropy():
    logits, target = torch.randn(6, 4), torch.rand(6, 4)
    expected = F.binary_cross_entropy_with_logits(logits, target)
    torch.testing.assert_close(Binary(losses.create("ce"))(logits, target), expected)
    hard = target.round()
    torch.testing.assert_close(
        Binary(losses.create("ce"))(logits, hard.long()), F.binary_cross_entropy_with_logits(logits, hard)
    )


def test_logit_clip_sees_both_classes_alike():
    loss = Binary(losses.create("logitclip-ce"))
    z = torch.tensor([2.0, -2.0])
    assert torch.equal(loss(z, torch.tensor([1, 0])), loss(-z, torch.tensor([0, 1])))


def test_bad_arguments():
    with pytest.raises(TypeError, match="loss: expected a loss of noiseproof.losses, got CrossEntropyLoss"):
        Binary(torch.nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match=r"target: expected one entry a logit, shape \(2, 3\), got \(2,\)"):
        Binary(losses.create("ce"))(torch.zeros(2, 3), torch.zeros(2))


def test_trains_on_a_multi_label_table_with_wrong_labels():
    """Five yes-or-no properties of 1,797 handwritten digits; a third of the training labels are wrong."""
    pixels, digits = load_digits(return_X_y=True)
    x = torch.tensor(pixels, dtype=torch.float32) / 16
    digit = torch.tensor(digits)
    properties = torch.stack(
        [
            digit % 2 == 1,
            digit >= 5,
            (digit == 0) | (digit == 6) | (digit == 8) | (digit == 9),  # drawn with a closed loop
            (digit == 2) | (digit == 3) | (digit == 5) | (digit == 7),  # prime
            digit % 3 == 0,
        ],
        1,
    ).long()
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(x), generator=generator)
    train, test = order[:1200], order[1200:]
    wrong = torch.rand(1200, 5, generator=generator) < 1 / 3
    given = torch.where(wrong, 1 - properties[train], properties[train])

    def accuracy(loss):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 5))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(60):
            for rows in torch.randperm(1200, generator=generator).split(100):
                optimizer.zero_grad()
                loss(model(x[train][rows]), given[rows]).backward()
                optimizer.step()
        with torch.no_grad():
            return ((model(x[test]) > 0) == properties[test].bool()).float().mean().item()

    robust = accuracy(Binary(losses.create("anl-ce", alpha=1.0, beta=1.0)))
    plain = accuracy(Binary(losses.create("ce")))
    assert robust > 0.8
    assert robust > plain + 0.03
