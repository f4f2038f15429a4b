# SPDX-License-Identifier: Apache-2.0
"""From pixels to what a network sees: (x / 255 − mean) / std by channel, each data set with its constants."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from noiseproof.datasets.augment.steps import check_images

CIFAR10_MEAN = (0.49139968, 0.48215827, 0.44653124)
CIFAR10_STD = (0.24703233, 0.24348505, 0.26158768)
CIFAR100_MEAN = (0.5071, 0.4865, 0.4409)
CIFAR100_STD = (0.2673, 0.2564, 0.2762)
MNIST_MEAN = (0.1307,)
MNIST_STD = (0.3081,)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def normalize(
    images: Tensor, mean: Sequence[float], std: Sequence[float], *, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return ``(images − mean) / std`` by channel, uint8 taken as 0..255 and float as 0..1.

    One multiplication and one addition by channel, which a compiler fuses with what comes next.

    Args:
        images: shape (N, C, H, W).
        mean: one number a channel, on the 0..1 scale.
        std: likewise.
        dtype: of the result; the arithmetic is float32.

    Example:
        >>> black = torch.zeros(1, 1, 2, 2, dtype=torch.uint8)
        >>> normalize(black, MNIST_MEAN, MNIST_STD)[0, 0, 0]
        tensor([-0.4242, -0.4242])
    """
    check_images(images)
    channels = images.shape[1]
    if not len(mean) == len(std) == channels:
        raise ValueError(
            f"mean and std must have one number for each of the {channels} channels, "
            f"got {len(mean)} and {len(std)}"
        )
    if any(value <= 0 for value in std):
        raise ValueError(f"std must be positive, got {tuple(std)}")
    full_scale = 255.0 if images.dtype == torch.uint8 else 1.0
    scale, shift = _scale_and_shift(tuple(mean), tuple(std), full_scale, images.device)
    return torch.addcmul(shift, images.to(torch.float32), scale).to(dtype)


@lru_cache(maxsize=64)
def _scale_and_shift(
    mean: tuple[float, ...], std: tuple[float, ...], full_scale: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    # Kept by device: making a tensor from Python numbers copies from the host, not to be done at every step.
    # Ordinary tensors even under inference_mode, since a later call may need gradients.
    with torch.inference_mode(False):
        scale = torch.tensor([1.0 / (full_scale * spread) for spread in std], device=device)
        shift = torch.tensor(
            [-centre / spread for centre, spread in zip(mean, std, strict=True)], device=device
        )
    return scale.view(1, -1, 1, 1), shift.view(1, -1, 1, 1)
