# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0: a small network whose weights from ImageNet come as a package of pip's.

It is EfficientNet-B0 without squeeze-and-excitation and with ReLU6, made for small devices. Parameters are named as
in the published files, less the underscore that each part of a name begins with there.
"""

from torch import Tensor, nn
from torch.nn import functional

from noiseproof.models import checks, initialization

EPSILON = 1e-3
"""Of batch norm, as the published weights were trained with. Its running means follow as fast as torch's usually
do: at a tenth of that, as published, they would still be ImageNet's when a few images are learnt."""

STEM_WIDTH, HEAD_WIDTH = 32, 1280

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""Blocks, kernel, stride of the first block, expansion and channels of each stage."""


class SamePadding(nn.Conv2d):
    """A convolution without bias that gives ⌈side / stride⌉ pixels; an odd pixel of padding goes right and below.

    So TensorFlow pads, with which the weights were trained; at stride 2 torch's own padding would see other pixels.

    >>> import torch
    >>> SamePadding(3, 8, 3, stride=2)(torch.zeros(1, 3, 7, 10)).shape
    torch.Size([1, 8, 4, 5])
    """

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, *, stride: int = 1, groups: int = 1
    ) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(channels_in, channels_out, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Convolve padded maps."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            lacking = [max(kernel - (side % stride or stride), 0) for side in maps.shape[-1:-3:-1]]
            maps = functional.pad(
                maps, [part for all_of in lacking for part in (all_of // 2, -(-all_of // 2))]
            )
        return super().forward(maps)


class InvertedBottleneck(nn.Module):
    """1x1 up, one convolution a channel, 1x1 down; beside a shortcut where the shape stays."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = channels_in * expansion
        self.expands = expansion > 1
        if self.expands:
            self.expand_conv = SamePadding(channels_in, width, 1)
            self.bn0 = nn.BatchNorm2d(width, eps=EPSILON)
        self.depthwise_conv = SamePadding(width, width, kernel, stride=stride, groups=width)
        self.bn1 = nn.BatchNorm2d(width, eps=EPSILON)
        self.project_conv = SamePadding(width, channels_out, 1)
        self.bn2 = nn.BatchNorm2d(channels_out, eps=EPSILON)
        self.relu = nn.ReLU6(inplace=True)
        self.has_shortcut = stride == 1 and channels_in == channels_out

    def forward(self, maps: Tensor) -> Tensor:
        """Add what the convolutions make of the input to it, or replace it."""
        branch = self.relu(self.bn0(self.expand_conv(maps))) if self.expands else maps
        branch = self.relu(self.bn1(self.depthwise_conv(branch)))
        branch = self.bn2(self.project_conv(branch))
        total: Tensor = branch + maps if self.has_shortcut else branch
        return total


class EfficientNetLite(nn.Module):
    """EfficientNet-Lite0: a strided stem, sixteen inverted bottlenecks, a 1x1 head, global average pool.

    Args:
        num_classes: number of logits.
        in_channels: channels of the images.
        dropout: share of the features that are dropped before the linear layer; TensorFlow's training drops 0.2.

    Shape:
        ``(N, in_channels, height, width)`` of any height and width to ``(N, num_classes)``.

    M. Tan and Q. Le, EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks, ICML 2019; the Lite
    form is TensorFlow's, 2020.

    Example:
        >>> import torch
        >>> EfficientNetLite(num_classes=5).eval()(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 5])
    """

    final_layer = "fc"

    def __init__(self, num_classes: int, in_channels: int = 3, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv_stem = SamePadding(in_channels, STEM_WIDTH, 3, stride=2)
        self.bn0 = nn.BatchNorm2d(STEM_WIDTH, eps=EPSILON)
        blocks: list[nn.Module] = []
        width = STEM_WIDTH
        for depth, kernel, stride, expansion, channels in STAGES:
            for position in range(depth):
                first = position == 0
                blocks.append(InvertedBottleneck(width, channels, kernel, stride if first else 1, expansion))
                width = channels
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SamePadding(width, HEAD_WIDTH, 1)
        self.bn1 = nn.BatchNorm2d(HEAD_WIDTH, eps=EPSILON)
        self.relu = nn.ReLU6(inplace=True)
        self.dropout = nn.Dropout(checks.share("dropout", dropout))
        self.fc = nn.Linear(HEAD_WIDTH, num_classes)
        initialization.as_in_torchvision(self)

    @staticmethod
    def name_from_file(name: str) -> str:
        """Our name of a tensor of a published file.

        >>> EfficientNetLite.name_from_file("_blocks.3._bn1.weight")
        'blocks.3.bn1.weight'
        """
        return ".".join(part.removeprefix("_") for part in name.split("."))

    def features(self, images: Tensor) -> Tensor:
        """What the linear layer sees of a batch of images, (N, 1280)."""
        maps = self.blocks(self.relu(self.bn0(self.conv_stem(images))))
        pooled: Tensor = self.relu(self.bn1(self.conv_head(maps))).mean((2, 3))
        return pooled

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images."""
        logits: Tensor = self.fc(self.dropout(self.features(images)))
        return logits


def efficientnet_lite0(
    num_classes: int, in_channels: int, image_size: tuple[int, int], *, dropout: float = 0.0
) -> EfficientNetLite:
    """Make the network for images of any size."""
    return EfficientNetLite(num_classes, in_channels, dropout)
