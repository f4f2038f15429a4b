# SPDX-License-Identifier: Apache-2.0
"""MONAI's signature, against MONAI's own losses."""

import pytest
import torch

from noiseproof.integrations.monai import MonaiLoss
from noiseproof.losses import available, create


def logits_and_labels(channels):
    return torch.randn(2, channels, 6, 6), torch.randint(max(channels, 2), (2, 1, 6, 6))


def test_indices_and_one_hot_labels_are_the_same_thing():
    logits, labels = logits_and_labels(3)
    one_hot = torch.nn.functional.one_hot(labels[:, 0], 3).movedim(-1, 1)
    loss = MonaiLoss(create("anl-ce"))
    assert torch.allclose(loss(logits, labels), create("anl-ce")(logits, labels[:, 0]))
    assert torch.allclose(loss(logits, labels.float()), loss(logits, one_hot))


def test_a_target_of_another_shape_is_refused():
    logits, labels = logits_and_labels(3)
    with pytest.raises(ValueError, match=r"target: expected shape \(2, 1, 6, 6\) or \(2, 3, 6, 6\)"):
        MonaiLoss(create("anl-ce"))(logits, labels[:, 0])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_one_channel_leaves_out_what_is_ignored(dtype):
    logits, labels = logits_and_labels(1)
    labels[0, 0, :3] = 255
    weight = torch.tensor([1.0, 3.0])
    used = (labels != 255).flatten()
    two = torch.cat([-logits / 2, logits / 2], 1).movedim(1, -1).reshape(-1, 2)[used]
    expected = create("anl-ce", weight=weight)(two, labels.flatten()[used])
    loss = MonaiLoss(create("anl-ce", weight=weight, ignore_index=255))
    assert torch.allclose(loss(logits, labels.to(dtype)), expected)
    with pytest.raises(ValueError, match="target: expected class indices 0…1 or ignore_index=-100, got 255"):
        MonaiLoss(create("anl-ce"))(logits, labels.to(dtype))


def test_one_channel_takes_probabilities():
    logits, labels = logits_and_labels(1)
    loss = MonaiLoss(create("anl-ce"))
    between = 0.25 * loss(logits, torch.zeros_like(labels)) + 0.75 * loss(logits, torch.ones_like(labels))
    assert torch.allclose(loss(logits, torch.full_like(logits, 0.75)), between)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
@pytest.mark.parametrize("name", available(whole_images=True))
def test_losses_of_whole_images_take_one_channel(name, dtype):
    logits, labels = logits_and_labels(1)
    expected = create(name)(torch.cat([-logits, logits], 1) / 2, labels[:, 0])
    assert torch.allclose(MonaiLoss(create(name))(logits, labels.to(dtype)), expected)
    if name != "ce+dice":  # which has no form of its own for one logit
        assert torch.allclose(create(name)(logits, labels[:, 0]), expected)
    sure = 0.999 * labels + 0.0005
    assert torch.allclose(MonaiLoss(create(name))(logits, sure), expected, rtol=0.02)
    assert MonaiLoss(create(name, reduction="none"))(logits, labels.to(dtype)).shape == (2,)


@pytest.mark.parametrize("channels", [1, 3])
def test_cross_entropy_is_monais_focal_loss_without_focus(channels):
    losses = pytest.importorskip("monai.losses")
    logits, labels = logits_and_labels(channels)
    if channels == 1:
        theirs = losses.FocalLoss(gamma=0.0)(logits, labels)
        ours = MonaiLoss(create("ce"))(logits, labels)
    else:
        # MONAI averages over classes too, of which all but the label's count as nothing.
        theirs = channels * losses.FocalLoss(gamma=0.0, use_softmax=True, to_onehot_y=True)(logits, labels)
        ours = MonaiLoss(create("ce"))(logits, labels)
    assert torch.allclose(ours, theirs, rtol=1e-5)


def test_it_stands_inside_monais_wrappers():
    losses = pytest.importorskip("monai.losses")
    logits, labels = logits_and_labels(3)
    loss = MonaiLoss(create("anl-ce"))
    deep = losses.DeepSupervisionLoss(loss, weights=[1.0, 0.5])
    half = torch.nn.functional.interpolate(logits, scale_factor=0.5)
    expected = loss(logits, labels) + 0.5 * loss(
        half, torch.nn.functional.interpolate(labels.float(), size=half.shape[2:], mode="nearest-exact")
    )
    assert torch.allclose(deep([logits, half], labels.float()), expected)
