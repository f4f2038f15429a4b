# SPDX-License-Identifier: Apache-2.0
"""U-Nets of our own: ``unet-small`` for a CPU, and ``unet``, nnU-Net's plain network without MONAI."""

import itertools

import torch
from torch import Tensor, nn

from noiseproof.models import checks
from noiseproof.models.dense import Halvings, chosen_poolings, multiple_of, padded, stage_widths

SLOPE = 0.01


class UNet(nn.Module):
    """Pairs of 3x3 convolutions at falling and then rising resolution, each width joined across.

    A stage is (convolution, batch norm, leaky ReLU) twice. Going down, a stage's first convolution has the stride
    of the pooling; going up, a transposed convolution widens the map, which is put beside that of the way down.

    Args:
        num_classes: logits a pixel.
        in_channels: channels of the images.
        widths: channels of each stage, from full resolution down.
        poolings: what lies between two stages: how much height and width are divided by.

    Shape:
        ``(N, in_channels, height, width)`` to ``(N, num_classes, height, width)``, of any size: images that do not
        halve evenly are widened by their last row and column, and the logits cut back.

    Example:
        >>> UNet(2, in_channels=3, widths=(8, 16), poolings=((2, 2),))(torch.zeros(1, 3, 20, 33)).shape
        torch.Size([1, 2, 20, 33])
    """

    final_layer = "logits"

    def __init__(
        self, num_classes: int, *, in_channels: int, widths: tuple[int, ...], poolings: Halvings
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.multiple = multiple_of(poolings)
        self.down = nn.ModuleList(
            _stage(before, after, stride)
            for (before, after), stride in zip(
                itertools.pairwise((in_channels, *widths)), ((1, 1), *poolings), strict=True
            )
        )
        upwards = tuple(zip(itertools.pairwise(reversed(widths)), reversed(poolings), strict=True))
        self.wider = nn.ModuleList(
            nn.ConvTranspose2d(below, width, step, stride=step, bias=False)
            for (below, width), step in upwards
        )
        self.up = nn.ModuleList(_stage(2 * width, width) for (_, width), _ in upwards)
        self.logits = nn.Conv2d(widths[0], num_classes, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                nn.init.kaiming_normal_(layer.weight, a=SLOPE)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of every pixel."""
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            raise ValueError(
                f"images: expected shape (N, {self.in_channels}, height, width), got {tuple(images.shape)}"
            )
        height, width = images.shape[2:]
        features = padded(images, self.multiple)
        across: list[Tensor] = []
        for stage in self.down:
            features = stage(features)
            across.append(features)
        across.pop()
        for wider, stage in zip(self.wider, self.up, strict=True):
            features = stage(torch.cat([wider(features), across.pop()], 1))
        logits: Tensor = self.logits(features)
        return logits[..., :height, :width]


def _stage(before: int, after: int, stride: tuple[int, int] = (1, 1)) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, step in ((before, stride), (after, (1, 1))):
        layers += [
            nn.Conv2d(inputs, after, 3, stride=step, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.LeakyReLU(SLOPE, inplace=True),
        ]
    return nn.Sequential(*layers)


def unet(
    num_classes: int,
    in_channels: int,
    image_size: tuple[int, int],
    poolings: int | None = None,
    base_width: int = 32,
) -> UNet:
    """Make nnU-Net's plain network: the paper's for 256x256, by nnU-Net's rule for every other size.

    Args:
        num_classes: logits a pixel.
        in_channels: channels of the images.
        image_size: (height, width).
        poolings: how often to halve both sides, instead of either.
        base_width: channels of the first stage.
    """
    checks.at_least("unet", image_size, smallest=8)
    halvings = chosen_poolings(image_size, poolings)
    widths = stage_widths(checks.integer("base_width", base_width), halvings)
    return UNet(num_classes, in_channels=in_channels, widths=widths, poolings=halvings)


def unet_small(
    num_classes: int, in_channels: int, image_size: tuple[int, int], poolings: int = 3, base_width: int = 16
) -> UNet:
    """Make the small U-Net: at most so many poolings, 16-32-64-128 channels."""
    checks.at_least("unet-small", image_size, smallest=8)
    halvings = chosen_poolings(image_size, None)[: checks.integer("poolings", poolings)]
    widths = stage_widths(checks.integer("base_width", base_width), halvings)
    return UNet(num_classes, in_channels=in_channels, widths=widths, poolings=halvings)
