# SPDX-License-Identifier: Apache-2.0
"""Features of photographs that no label of theirs had a part in: those of a network that has seen ImageNet."""

import torch
from torch import Tensor

from noiseproof import models
from noiseproof.datasets import LabeledData
from noiseproof.datasets.augment.normalize import IMAGENET_MEAN, IMAGENET_STD
from noiseproof.datasets.picture_size import size_of
from noiseproof.models import imagenet
from noiseproof.models.imagenet import NETWORK, SIDE, SMALLEST_SIDE
from noiseproof.training.environment import choose_device

PICTURES_AT_A_TIME = 64

MOST = 50_000
"""Pictures of which features are made unasked: two cores of a CPU take eight minutes for so many."""


class NetworkFeatures:
    """Makes features of pictures: ``(N, 3, H, W)`` of bytes to ``(N, 1280)``, of zero mean and unit variance.

    Args:
        pictures: some of them, uint8 (N, 3, H, W), from which means and deviations are taken.
        device: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``.

    Raises:
        FileNotFoundError: the network's weights are not on this machine; the error says how to get them.
    """

    side = SIDE

    def __init__(self, pictures: Tensor, *, device: str = "auto") -> None:
        if pictures.shape[1] != 3:
            raise ValueError(
                f"images: the network that has seen ImageNet expects 3 channels, got {pictures.shape[1]}; use the "
                "method patches or network"
            )
        self._device = choose_device(device)
        network = models.EfficientNetLite(num_classes=1)
        models.load_weights(network, imagenet.find(NETWORK))
        self._network = network.eval().to(self._device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        mean, std = imagenet.normalization(NETWORK) or (IMAGENET_MEAN, IMAGENET_STD)
        self._shift, self._scale = (
            255 * torch.tensor(values, device=self._device)[None, :, None, None] for values in (mean, std)
        )
        self._mean, self._deviation = torch.zeros(()), torch.ones(())
        sample = self(pictures)
        self._mean, self._deviation = sample.mean(0), sample.std(0) + 1e-3
        self.dimensions = sample.shape[1]

    @torch.no_grad()
    def __call__(self, pictures: Tensor) -> Tensor:
        """Features of pictures (N, 3, H, W)."""
        parts = [self._of_few(part).cpu() for part in torch.split(pictures, PICTURES_AT_A_TIME)]
        return (torch.cat(parts) - self._mean) / self._deviation

    def _of_few(self, pictures: Tensor) -> Tensor:
        pixels = (pictures.to(self._device).float() - self._shift) / self._scale
        features: Tensor = self._network.features(pixels.contiguous(memory_format=torch.channels_last))
        return features


def suits(data: LabeledData) -> bool:
    """Whether to make such features of pictures unasked: the weights are here, and there are not too many pictures,
    in colour and not tiny, as photographs are.

    Example:
        >>> from noiseproof import datasets
        >>> suits(datasets.load("digits"))
        False
    """
    if data.masks is not None or len(data) > MOST or not imagenet.is_here(NETWORK):
        return False
    side, grey = size_of(data)
    return side >= SMALLEST_SIDE and not grey
