# SPDX-License-Identifier: Apache-2.0
"""Labels of every integer type are read alike: no number of one wraps around to a number of another meaning."""

import pytest
import torch

from noiseproof import losses
from noiseproof.integrations.huggingface import trainer_loss
from noiseproof.losses.fused import fused_linear

CLASSES = 300
TYPES = [torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32]
every_type = pytest.mark.parametrize("dtype", TYPES, ids=str)


def problem(dtype, shape=(6,)):
    """Labels among which is 156, which as a signed byte is −100."""
    logits = torch.randn(shape[0], CLASSES, *shape[1:], dtype=torch.float64)
    target = torch.randint(100, shape)
    if dtype != torch.int8:
        target.view(-1)[0] = 156
    return logits, target.to(dtype)


@every_type
@pytest.mark.parametrize("name", losses.available())
def test_a_label_s_type_changes_no_loss(name, dtype):
    logits, target = problem(dtype)
    for reduction in ("mean", "none"):
        loss = losses.create(name, weight=torch.rand(CLASSES).double(), reduction=reduction)
        torch.testing.assert_close(loss(logits, target), loss(logits, target.long()), rtol=0, atol=0)


@every_type
@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_s_type_changes_no_weight_of_the_labels_in_use(dtype, weighted):
    _, target = problem(dtype)
    loss = losses.create("ce", weight=torch.rand(CLASSES) if weighted else None)
    assert loss.label_weight(target) == loss.label_weight(target.long())


@every_type
@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_s_type_changes_no_fused_layer(dtype, weighted):
    hidden, weight = torch.randn(6, 4, dtype=torch.float64), torch.randn(CLASSES, 4, dtype=torch.float64)
    _, target = problem(dtype)
    loss = losses.create("anl-ce", weight=torch.rand(CLASSES).double() if weighted else None)
    found = fused_linear(loss, hidden, weight, None, target, chunk_rows=2)
    expected = fused_linear(loss, hidden, weight, None, target.long(), chunk_rows=2)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@every_type
@pytest.mark.parametrize("weighted", [False, True])
def test_a_label_s_type_changes_no_loss_of_images(dtype, weighted):
    logits, target = problem(dtype, (2, 4, 3))
    loss = losses.CrossEntropyAndDice(weight=torch.rand(CLASSES).double() if weighted else None)
    torch.testing.assert_close(loss(logits, target), loss(logits, target.long()), rtol=0, atol=0)


@every_type
def test_a_label_s_type_changes_no_loss_in_the_trainer(dtype):
    logits, target = problem(dtype)
    loss = trainer_loss("ce")
    torch.testing.assert_close(loss({"logits": logits}, target), loss({"logits": logits}, target.long()))


def test_labels_of_the_trainer_must_lie_as_the_logits_do():
    with pytest.raises(
        ValueError, match=r"labels: expected class indices of shape \(3, 5\) .* shape \(5, 3\)"
    ):
        trainer_loss("ce")({"logits": torch.zeros(3, 5, 4)}, torch.zeros(5, 3, dtype=torch.long))
