# SPDX-License-Identifier: Apache-2.0
"""Residual networks, in the form made for ImageNet and in the one made for 32x32 images.

Parameters are named as in torchvision, so that its weight files load (the CIFAR form has another first
convolution, and no ImageNet file fits it).
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from noiseproof.models import initialization

Stem = Literal["imagenet", "cifar"]

STAGE_WIDTHS = (64, 128, 256, 512)


def _convolution(channels_in: int, channels_out: int, size: int, stride: int = 1) -> nn.Conv2d:
    """Make a convolution without bias (batch norm follows) that keeps height and width at stride 1."""
    return nn.Conv2d(channels_in, channels_out, size, stride=stride, padding=size // 2, bias=False)


def _projection(channels_in: int, channels_out: int, stride: int) -> nn.Sequential | None:
    """Make the 1x1 convolution that brings a shortcut to its branch's shape; None where it has it already."""
    if stride == 1 and channels_in == channels_out:
        return None
    return nn.Sequential(
        _convolution(channels_in, channels_out, size=1, stride=stride), nn.BatchNorm2d(channels_out)
    )


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the first carries the stride."""

    expansion = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(channels_in, width, size=3, stride=stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _convolution(width, width, size=3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _projection(channels_in, width, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Add the two convolutions' result to the input, or to its projection."""
        shortcut = maps if self.downsample is None else self.downsample(maps)
        branch = self.relu(self.bn1(self.conv1(maps)))
        branch = self.bn2(self.conv2(branch))
        total: Tensor = self.relu(branch + shortcut)
        return total


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the 3x3 one carries the stride, as in torchvision."""

    expansion = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        channels_out = width * self.expansion
        self.conv1 = _convolution(channels_in, width, size=1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _convolution(width, width, size=3, stride=stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _convolution(width, channels_out, size=1)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _projection(channels_in, channels_out, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Add the three convolutions' result to the input, or to its projection."""
        shortcut = maps if self.downsample is None else self.downsample(maps)
        branch = self.relu(self.bn1(self.conv1(maps)))
        branch = self.relu(self.bn2(self.conv2(branch)))
        branch = self.bn3(self.conv3(branch))
        total: Tensor = self.relu(branch + shortcut)
        return total


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, global average pool, one linear layer.

    Args:
        block: :class:`BasicBlock` or :class:`Bottleneck`.
        depths: number of blocks of each of the four stages.
        num_classes: number of logits.
        in_channels: channels of the images.
        stem: ``"imagenet"`` is a 7x7 convolution of stride 2 and a max-pool, initialised as in torchvision;
            ``"cifar"`` is a 3x3 convolution of stride 1 and no pool, initialised as in the noisy-label papers.

    Shape:
        ``(N, in_channels, height, width)`` of any height and width to ``(N, num_classes)``.

    Example:
        >>> model = ResNet(BasicBlock, (1, 1, 1, 1), num_classes=10, stem="cifar").eval()
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    final_layer = "fc"

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        num_classes: int,
        in_channels: int = 3,
        stem: Stem = "imagenet",
    ) -> None:
        super().__init__()
        if stem == "imagenet":
            self.conv1 = _convolution(in_channels, STAGE_WIDTHS[0], size=7, stride=2)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = _convolution(in_channels, STAGE_WIDTHS[0], size=3)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(STAGE_WIDTHS[0])
        self.relu = nn.ReLU(inplace=True)
        channels = STAGE_WIDTHS[0]
        stages: list[nn.Sequential] = []
        for width, depth in zip(STAGE_WIDTHS, depths, strict=True):
            blocks: list[nn.Module] = []
            for position in range(depth):
                halves_the_maps = position == 0 and bool(stages)
                blocks.append(block(channels, width, stride=2 if halves_the_maps else 1))
                channels = width * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, num_classes)
        if stem == "imagenet":
            initialization.as_in_torchvision(self)
        else:
            initialization.as_in_noisy_label_papers(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images."""
        maps = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        maps = self.layer4(self.layer3(self.layer2(self.layer1(maps))))
        logits: Tensor = self.fc(torch.flatten(self.avgpool(maps), 1))
        return logits


def resnet(depth: int, stem: Stem) -> Callable[[int, int, tuple[int, int]], ResNet]:
    """Return what makes a ResNet of 18, 34 or 50 layers with the given stem.

    Example:
        >>> model = resnet(18, stem="cifar")(10, 3, (32, 32))
        >>> sum(parameter.numel() for parameter in model.parameters())
        11173962
    """
    block, depths = DEPTHS[depth]

    def build(num_classes: int, in_channels: int, image_size: tuple[int, int]) -> ResNet:
        # Padding keeps every map at one pixel at least and the last pool is global: any image size will do.
        return ResNet(block, depths, num_classes, in_channels, stem)

    return build


DEPTHS: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, int, int, int]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
}
"""Block and blocks per stage, by number of layers."""
