# SPDX-License-Identifier: Apache-2.0
"""A multi-layer perceptron, for tables and for images taken as rows of numbers."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from noiseproof.models import checks, initialization


class MLP(nn.Module):
    """Linear layers with ReLU between them; no hidden layer makes it multinomial logistic regression.

    Args:
        in_features: numbers per sample.
        num_classes: number of logits.
        hidden: widths of the hidden layers.
        batch_norm: put batch norm before every ReLU.

    Shape:
        ``(N, in_features)``, or any shape that flattens to it, such as ``(N, channels, height, width)``; to
        ``(N, num_classes)``.

    Example:
        >>> model = MLP(13, num_classes=3, hidden=(64, 32))
        >>> model(torch.zeros(5, 13)).shape
        torch.Size([5, 3])
    """

    final_layer = "fc"

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        hidden: tuple[int, ...] = (256, 256),
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        layers: list[nn.Module] = []
        for width in hidden:
            layers.append(nn.Linear(in_features, width))
            if batch_norm:
                layers.append(nn.BatchNorm1d(width))
            layers.append(nn.ReLU(inplace=True))
            in_features = width
        self.hidden = nn.Sequential(*layers)
        self.fc = nn.Linear(in_features, num_classes)
        initialization.as_in_noisy_label_papers(self)

    def forward(self, samples: Tensor) -> Tensor:
        """Logits of a batch of rows, or of images taken as rows."""
        rows = torch.flatten(samples, 1)
        if rows.shape[1] != self.in_features:
            raise ValueError(
                f"samples: expected {self.in_features} numbers per sample, got {rows.shape[1]} "
                f"(shape {tuple(samples.shape)})"
            )
        logits: Tensor = self.fc(self.hidden(rows))
        return logits


def mlp(
    num_classes: int,
    in_channels: int,
    image_size: tuple[int, int],
    *,
    in_features: int | None = None,
    hidden: Sequence[int] = (256, 256),
    batch_norm: bool = False,
) -> MLP:
    """Make a multi-layer perceptron.

    Args:
        num_classes: number of logits.
        in_channels: channels of the images, where there are images.
        image_size: (height, width) of the images, where there are images.
        in_features: numbers per sample; for tables. Images have channels x height x width of them.
        hidden: widths of the hidden layers; none makes it multinomial logistic regression.
        batch_norm: put batch norm before every ReLU.
    """
    if in_features is None:
        in_features = in_channels * math.prod(image_size)
    return MLP(
        checks.integer("in_features", in_features), num_classes, checks.integers("hidden", hidden), batch_norm
    )
