# SPDX-License-Identifier: Apache-2.0
"""nnU-Net's plain 2-D U-Net, made by MONAI where that is installed: ``nnunet``.

MONAI is imported when such a network is made and not before.
"""

import importlib
from types import ModuleType

from torch import Tensor, nn

from noiseproof.models import checks
from noiseproof.models.dense import Halvings, chosen_poolings, multiple_of, padded, stage_widths

SMALLEST_SIDE = 16
"""Two poolings by nnU-Net's rule, the fewest that MONAI makes."""

SLOPE = 0.01


class NnUNet(nn.Module):
    """MONAI's DynUNet as nnU-Net configures it, for images of any size.

    Two convolutions a stage, poolings by strided convolutions, transposed convolutions on the way up, batch norm,
    leaky ReLU of slope 0.01, no deep supervision. Images that do not halve evenly are widened by their last row and
    column, and the logits cut back.

    Args:
        num_classes: logits a pixel.
        in_channels: channels of the images.
        widths: channels of each stage, from full resolution down.
        poolings: what lies between two stages: how much height and width are divided by.
    """

    final_layer = "output_block.conv.conv"

    def __init__(
        self, num_classes: int, *, in_channels: int, widths: tuple[int, ...], poolings: Halvings
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.multiple = multiple_of(poolings)
        made = _monai_nets().DynUNet(
            spatial_dims=2,
            in_channels=in_channels,
            out_channels=num_classes,
            kernel_size=[3] * len(widths),
            strides=[1, *poolings],
            upsample_kernel_size=list(poolings),
            filters=widths,
            norm_name="batch",
            act_name=("leakyrelu", {"inplace": True, "negative_slope": SLOPE}),
            deep_supervision=False,
        )
        # DynUNet also keeps its blocks nested in one another, so that every weight has two names there.
        self.input_block: nn.Module = made.input_block
        self.downsamples: nn.ModuleList = made.downsamples
        self.bottleneck: nn.Module = made.bottleneck
        self.upsamples: nn.ModuleList = made.upsamples
        self.output_block: nn.Module = made.output_block

    def forward(self, images: Tensor) -> Tensor:
        """Logits of every pixel."""
        if images.ndim != 4 or images.shape[1] != self.in_channels:
            raise ValueError(
                f"images: expected shape (N, {self.in_channels}, height, width), got {tuple(images.shape)}"
            )
        height, width = images.shape[2:]
        features = self.input_block(padded(images, self.multiple))
        across = [features]
        for block in self.downsamples:
            features = block(features)
            across.append(features)
        features = self.bottleneck(features)
        for block in self.upsamples:
            features = block(features, across.pop())
        logits: Tensor = self.output_block(features)
        return logits[..., :height, :width]


def nnunet(
    num_classes: int,
    in_channels: int,
    image_size: tuple[int, int],
    poolings: int | None = None,
    base_width: int = 32,
) -> NnUNet:
    """Make nnU-Net's network with MONAI: the paper's for 256x256, by nnU-Net's rule for every other size.

    Args:
        num_classes: logits a pixel.
        in_channels: channels of the images.
        image_size: (height, width).
        poolings: how often to halve both sides, instead of either.
        base_width: channels of the first stage.
    """
    checks.at_least("nnunet", image_size, smallest=SMALLEST_SIDE)
    if poolings is not None:
        checks.integer("poolings", poolings, smallest=2)
    halvings = chosen_poolings(image_size, poolings)
    widths = stage_widths(checks.integer("base_width", base_width), halvings)
    return NnUNet(num_classes, in_channels=in_channels, widths=widths, poolings=halvings)


def _monai_nets() -> ModuleType:
    try:
        return importlib.import_module("monai.networks.nets")
    except ImportError as error:
        raise ImportError(
            f"model: 'nnunet' needs MONAI, which cannot be imported ({error}): pip install "
            "'noiseproof[segmentation]'; 'unet' is the same network without it"
        ) from error
