# SPDX-License-Identifier: Apache-2.0
"""The small convolutional networks of the noisy-label papers: ``cnn8`` and ``mnist-cnn``."""

import itertools

import torch
from torch import Tensor, nn

from noiseproof.models import checks, initialization

CNN8_STAGES = ((64, 64), (128, 128), (196, 196))
MNIST_STAGES = ((32,), (64,))


class SmallCNN(nn.Module):
    """Stages of (3x3 convolution with bias, batch norm, ReLU) and 2x2 max-pool, then two linear layers.

    Args:
        num_classes: number of logits.
        in_channels: channels of the images.
        image_size: (height, width) of the images; it fixes the first linear layer.
        stages: output channels of each stage's convolutions.
        hidden: width of the linear layer before the last, which has batch norm and ReLU.

    Shape:
        ``(N, in_channels, height, width)`` to ``(N, num_classes)``.

    Example:
        >>> model = SmallCNN(10, in_channels=1, image_size=(8, 8), stages=((16,), (32,)), hidden=64)
        >>> model(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    final_layer = "fc"

    def __init__(
        self,
        num_classes: int,
        *,
        in_channels: int,
        image_size: tuple[int, int],
        stages: tuple[tuple[int, ...], ...],
        hidden: int,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.image_size = image_size
        layers: list[nn.Module] = []
        channels = in_channels
        for widths in stages:
            for before, after in itertools.pairwise((channels, *widths)):
                layers += [
                    nn.Conv2d(before, after, 3, padding=1),
                    nn.BatchNorm2d(after),
                    nn.ReLU(inplace=True),
                ]
            layers.append(nn.MaxPool2d(2))
            channels = widths[-1]
        height, width = (side // 2 ** len(stages) for side in image_size)
        self.features = nn.Sequential(*layers)
        self.hidden = nn.Sequential(
            nn.Linear(height * width * channels, hidden), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True)
        )
        self.fc = nn.Linear(hidden, num_classes)
        initialization.as_in_noisy_label_papers(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of a batch of images of the size that the model was made for."""
        expected = (self.in_channels, *self.image_size)
        if images.shape[1:] != expected:
            raise ValueError(
                f"images: expected shape (N, {', '.join(map(str, expected))}), got {tuple(images.shape)}"
            )
        logits: Tensor = self.fc(self.hidden(torch.flatten(self.features(images), 1)))
        return logits


def cnn8(num_classes: int, in_channels: int, image_size: tuple[int, int]) -> SmallCNN:
    """Make the 8-layer network that the papers train on CIFAR-10: six convolutions, two linear layers."""
    checks.at_least("cnn8", image_size, smallest=2 ** len(CNN8_STAGES))
    return SmallCNN(
        num_classes, in_channels=in_channels, image_size=image_size, stages=CNN8_STAGES, hidden=256
    )


def mnist_cnn(num_classes: int, in_channels: int, image_size: tuple[int, int]) -> SmallCNN:
    """Make the 4-layer network that the papers train on MNIST: two convolutions, two linear layers."""
    checks.at_least("mnist-cnn", image_size, smallest=2 ** len(MNIST_STAGES))
    return SmallCNN(
        num_classes, in_channels=in_channels, image_size=image_size, stages=MNIST_STAGES, hidden=128
    )
