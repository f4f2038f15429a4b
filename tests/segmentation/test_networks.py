# SPDX-License-Identifier: Apache-2.0
"""Networks for segmentation: sizes by nnU-Net's rule, parts counted by hand, images of any size."""

import copy
import importlib.util
import itertools
import pickle

import pytest
import torch
from torch import nn

from noiseproof import models
from noiseproof.models.dense import padded, poolings_by_nnunet

needs_monai = pytest.mark.skipif(
    importlib.util.find_spec("monai") is None, reason="MONAI is not installed (extra `segmentation`)"
)
ALL = ["unet-small", "unet", pytest.param("nnunet", marks=needs_monai)]


def small(name, size=64, classes=2, seed=1):
    return models.create(name, classes, image_size=size, seed=seed, base_width=4)


@pytest.mark.parametrize(
    ("size", "poolings"),
    [(8, 1), (14, 1), (16, 2), (32, 3), (64, 4), (96, 4), (128, 5), (192, 5), (256, 6), (320, 6), (512, 7)],
)
def test_poolings_leave_four_pixels_and_no_fewer(size, poolings):
    found = poolings_by_nnunet((size, size))
    assert found == ((2, 2),) * poolings
    left = size
    for _ in found:
        left = -(-left // 2)
    assert 4 <= left < 8


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((128, 64), [(2, 2)] * 4),  # 8x4: 8 would halve, but alone it must be 12
        ((64, 24), [(2, 2)] * 2 + [(2, 1)]),  # 16x6: the height goes on alone, for it is 12 at least
        ((64, 8), [(2, 2), (2, 1), (2, 1)]),  # 32x4, 16x4, 8x4
    ],
)
def test_sides_are_pooled_together_while_both_can_be(size, expected):
    found = poolings_by_nnunet(size)
    assert found == tuple(expected)
    height, width = size
    for down, right in found:
        height, width = -(-height // down), -(-width // right)
    assert height >= 4
    assert width >= 4


def test_widened_images_repeat_their_edge():
    images = torch.arange(6.0).view(1, 1, 2, 3)
    wide = padded(images, (4, 4))
    assert wide.shape == (1, 1, 4, 4)
    assert torch.equal(wide[..., :2, :3], images)
    assert wide[0, 0, 3, 3] == 5.0
    assert padded(images, (2, 3)) is images


@pytest.mark.parametrize("name", ALL)
def test_records_and_creation(name):
    record = models.record(name)
    assert record.task == "segmentation"
    assert name in models.available("segmentation")
    assert name not in models.available()
    assert record.title
    assert record.paper
    assert record.description
    model = models.create(name, 2, image_size=64, seed=1)
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 2, 64, 64)


def test_an_unknown_task_is_told():
    with pytest.raises(ValueError, match="task: unknown name 'segmentaton'; did you mean 'segmentation'"):
        models.available("segmentaton")


@pytest.mark.parametrize("size", [16, (30, 45), (64, 17)])
@pytest.mark.parametrize("name", ALL)
def test_any_size_comes_back(name, size):
    model = small(name, size, classes=3)
    height, width = (size, size) if isinstance(size, int) else size
    images = torch.randn(2, 3, height, width)
    logits = model(images)
    assert logits.shape == (2, 3, height, width)
    logits.square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_small_u_net_by_hand():
    model = models.create("unet-small", 2, image_size=64)
    # 3x3 convolutions without bias, batch norm of two numbers a channel; two of each a stage.
    stage = {(a, b): 9 * a * b + 9 * b * b + 4 * b for a, b in ((3, 16), (16, 32), (32, 64), (64, 128))}
    up = {b: 9 * 2 * b * b + 9 * b * b + 4 * b for b in (64, 32, 16)}
    wider = sum(4 * 2 * b * b for b in (64, 32, 16))
    assert sum(p.numel() for p in model.parameters()) == sum(stage.values()) + sum(up.values()) + wider + 34
    assert models.record("unet-small").parameters(2) == sum(p.numel() for p in model.parameters())
    assert len(models.create("unet-small", 2, image_size=16).down) == 3


@needs_monai
def test_the_papers_network():
    """32-64-128-256-480-480 channels, 5 strided poolings, two convolutions a stage, batch norm, slope 0.01."""
    model = models.create("nnunet", 2, image_size=256)
    blocks = [model.input_block, *model.downsamples, model.bottleneck]
    assert [b.conv2.conv.out_channels for b in blocks] == [32, 64, 128, 256, 480, 480]
    assert [b.conv1.conv.stride for b in blocks] == [(1, 1)] + [(2, 2)] * 5
    assert [b.conv2.conv.stride for b in blocks] == [(1, 1)] * 6
    ups = [b.transp_conv.conv for b in model.upsamples]
    assert all(isinstance(up, nn.ConvTranspose2d) and up.stride == (2, 2) for up in ups)
    assert [up.out_channels for up in ups] == [480, 256, 128, 64, 32]
    layers = list(model.modules())
    assert not any(isinstance(layer, nn.InstanceNorm2d | nn.MaxPool2d | nn.Dropout) for layer in layers)
    assert sum(isinstance(layer, nn.BatchNorm2d) for layer in layers) == 2 * 11
    slopes = [layer.negative_slope for layer in layers if isinstance(layer, nn.LeakyReLU)]
    assert slopes
    assert set(slopes) == {0.01}
    convolutions = 9 * (3 * 32 + 32 * 32)
    channels = [32, 64, 128, 256, 480, 480]
    for before, after in itertools.pairwise(channels):
        convolutions += 9 * (before * after + after * after)  # down
        convolutions += 4 * before * after + 9 * (2 * before * before + before * before)  # up
    norms = 2 * 2 * (sum(channels) + sum(channels[:-1]))
    assert sum(p.numel() for p in model.parameters()) == convolutions + norms + 32 * 2 + 2


@needs_monai
@pytest.mark.parametrize("size", [32, (48, 20), 256])
def test_unet_is_nnunet_without_monai(size):
    """The same layers, joined the same way: with MONAI's weights ours gives MONAI's logits."""
    ours, theirs = (
        models.create(name, 2, image_size=size, seed=1, base_width=4).eval() for name in ("unet", "nnunet")
    )
    net = theirs
    blocks = [net.input_block, *net.downsamples, net.bottleneck, *(up.conv_block for up in net.upsamples)]
    for stage, block in zip([*ours.down, *ours.up], blocks, strict=True):
        parts = (block.conv1.conv, block.norm1, block.conv2.conv, block.norm2)
        for mine, other in zip((stage[0], stage[1], stage[3], stage[4]), parts, strict=True):
            mine.load_state_dict(other.state_dict())
    for mine, up in zip(ours.wider, net.upsamples, strict=True):
        mine.load_state_dict(up.transp_conv.conv.state_dict())
    ours.logits.load_state_dict(net.output_block.conv.conv.state_dict())
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
    height, width = (size, size) if isinstance(size, int) else size
    images = torch.randn(1, 3, height, width)
    torch.testing.assert_close(ours(images), theirs(images))


@needs_monai
def test_nnunet_gives_what_monai_gives():
    from monai.networks.nets import DynUNet

    ours = small("nnunet", 32).eval()
    theirs = DynUNet(
        2,
        3,
        2,
        kernel_size=[3] * 4,
        strides=[1, 2, 2, 2],
        upsample_kernel_size=[2] * 3,
        filters=[4, 8, 16, 32],
        norm_name="batch",
        act_name=("leakyrelu", {"negative_slope": 0.01}),
    ).eval()
    parts = "input_block", "downsamples", "bottleneck", "upsamples", "output_block"
    for part in parts:
        getattr(theirs, part).load_state_dict(getattr(ours, part).state_dict())
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(ours(images), theirs(images))
    assert len({p.data_ptr() for p in ours.state_dict().values()}) == len(ours.state_dict())


@needs_monai
def test_other_sizes_follow_nnunets_rule():
    assert len(models.create("nnunet", 2, image_size=128).downsamples) + 1 == 5
    assert len(small("nnunet", 512).downsamples) + 1 == 7
    assert len(small("nnunet", 32).downsamples) + 1 == 3
    chosen = models.create("nnunet", 2, image_size=256, poolings=3, base_width=4)
    assert len(chosen.downsamples) + 1 == 3


@pytest.mark.parametrize("name", ALL)
def test_one_seed_one_network(name):
    one, same, other = (small(name, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", ALL)
def test_convolutions_are_drawn_for_leaky_relu(name):
    model = models.create(name, 2, image_size=64, seed=3)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d) and layer.weight.numel() > 5_000:
            fan_in = layer.weight[0].numel()
            assert layer.weight.std().item() == pytest.approx((2 / (1 + 0.01**2) / fan_in) ** 0.5, rel=0.05)


@pytest.mark.parametrize("name", ALL)
def test_weights_go_to_a_file_and_back(name, tmp_path):
    one, two = small(name, seed=1).eval(), small(name, seed=2).eval()
    images = torch.randn(1, 3, 64, 64)
    models.save_weights(one, tmp_path / "weights.safetensors")
    report = models.load_weights(two, tmp_path / "weights.safetensors")
    assert not report.missing
    assert torch.equal(one(images), two(images))
    three = models.load_weights(small(name, classes=5), tmp_path / "weights.safetensors")
    assert "2 classes and the model 5" in three.final_layer


@pytest.mark.parametrize("name", ALL)
def test_copies_compilation_and_bfloat16(name):
    model = small(name).eval()
    images = torch.randn(2, 3, 64, 64)
    expected = model(images)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(twin(images), expected)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(images), expected, rtol=1e-4, atol=1e-4)
    with torch.autocast("cpu", torch.bfloat16):
        half = model(images)
    assert half.dtype == torch.bfloat16
    assert (half - expected).abs().mean() < 0.02 * expected.abs().max()


@pytest.mark.parametrize("name", ALL)
def test_it_can_learn_a_square(name):
    model = small(name, 16)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    masks = torch.zeros(4, 16, 16, dtype=torch.long)
    for image, (row, column) in enumerate(((0, 0), (4, 7), (9, 2), (8, 8))):
        masks[image, row : row + 6, column : column + 6] = 1
    images = masks.unsqueeze(1).float().repeat(1, 3, 1, 1) + 0.3 * torch.randn(4, 3, 16, 16)
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), masks).backward()
        optimizer.step()
    assert (model(images).argmax(1) == masks).float().mean() > 0.97


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("unet-small", {"image_size": 7}, "image_size: unet-small needs images of at least 8x8, got 7x7"),
        ("unet-small", {"base_width": 0}, "base_width: expected an integer >= 1, got 0"),
        ("nnunet", {"image_size": (15, 64)}, "image_size: nnunet needs images of at least 16x16, got 15x64"),
        ("nnunet", {"poolings": 9}, "poolings: expected an integer from 1 to 8, got 9"),
    ],
)
def test_bad_arguments(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        models.create(name, 2, **arguments)


def test_wrong_channels_are_told():
    with pytest.raises(
        ValueError, match=r"images: expected shape \(N, 3, height, width\), got \(1, 1, 16, 16\)"
    ):
        small("unet-small")(torch.zeros(1, 1, 16, 16))


@pytest.mark.skipif(importlib.util.find_spec("monai") is not None, reason="MONAI is installed")
def test_without_monai_the_extra_is_named():
    with pytest.raises(ImportError, match=r"'nnunet' needs MONAI.*pip install 'noiseproof\[segmentation\]'"):
        models.create("nnunet", 2)
