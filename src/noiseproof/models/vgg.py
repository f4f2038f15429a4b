# SPDX-License-Identifier: Apache-2.0
"""VGG-19 with batch norm; parameters are named as in torchvision, so that its weight file loads."""

import torch
from torch import Tensor, nn

from noiseproof.models import checks, initialization

VGG19_STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of convolutions of each stage."""

LINEAR_STD = 0.01


class VGG(nn.Module):
    """Stages of (3x3 convolution, batch norm, ReLU) and 2x2 max-pool, then three linear layers with dropout.

    Args:
        num_classes: number of logits.
        in_channels: channels of the images.
        stages: channels and number of convolutions of each stage.
        pool_size: side to which the last maps are average-pooled.
        hidden: width of the two linear layers before the last.
        dropout: share of those layers' outputs that training drops.

    Shape:
        ``(N, in_channels, height, width)``, sides of at least 2 to the power of the number of stages, to
        ``(N, num_classes)``.

    Example:
        >>> model = VGG(10, stages=((8, 1), (16, 2)), pool_size=1, hidden=32).eval()
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    final_layer = "classifier.6"

    def __init__(
        self,
        num_classes: int,
        *,
        in_channels: int = 3,
        stages: tuple[tuple[int, int], ...] = VGG19_STAGES,
        pool_size: int = 7,
        hidden: int = 4096,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = in_channels
        for width, depth in stages:
            for _ in range(depth):
                layers += [
                    nn.Conv2d(channels, width, 3, padding=1),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(pool_size)
        self.classifier = nn.Sequential(
            nn.Linear(channels * pool_size**2, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )
        initialization.as_in_torchvision(self, linear_std=LINEAR_STD)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images."""
        logits: Tensor = self.classifier(torch.flatten(self.avgpool(self.features(images)), 1))
        return logits


def vgg19_bn(
    num_classes: int,
    in_channels: int,
    image_size: tuple[int, int],
    *,
    pool_size: int = 7,
    hidden: int = 4096,
    dropout: float = 0.5,
) -> VGG:
    """Make VGG-19 with batch norm; its options other than torchvision's are for images far from 224x224.

    Args:
        num_classes: number of logits.
        in_channels: channels of the images.
        image_size: (height, width) of the images, at least 32.
        pool_size: side of the maps that the linear layers see. Smaller images give smaller maps, 2x2 at
            64x64, and the default only repeats their values to 7x7.
        hidden: width of the linear layers, which hold 86% of the parameters by default.
        dropout: share of the linear layers' outputs that training drops.
    """
    checks.at_least("vgg19-bn", image_size, smallest=2 ** len(VGG19_STAGES))
    return VGG(
        num_classes,
        in_channels=in_channels,
        pool_size=checks.integer("pool_size", pool_size),
        hidden=checks.integer("hidden", hidden),
        dropout=checks.share("dropout", dropout),
    )
