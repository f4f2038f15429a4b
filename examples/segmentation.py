# SPDX-License-Identifier: Apache-2.0
"""Segmentation with wrong masks: a small convolutional network, cross-entropy against ANL-CE, pixel by pixel.

The images are bright blobs on a dim, noisy background. 70% of the training masks are eroded, dilated or displaced;
the others and the test masks are correct.

    python examples/segmentation.py
    python examples/segmentation.py --share 0.9 --strength 0.7
"""

import argparse

import numpy as np
import torch
from torch import Tensor, nn

from noiseproof import noise
from noiseproof.losses import L1, create, published_recipe


def blobs(count: int, size: int, random: np.random.Generator) -> tuple[Tensor, np.ndarray]:
    """Images (N, 1, size, size) and masks (N, size, size): unions of two ellipses."""
    down, right = np.indices((size, size))
    masks = np.zeros((count, size, size), dtype=bool)
    for mask in masks:
        for _ in range(2):
            row, column = random.uniform(0.3 * size, 0.7 * size, 2)
            height, width = random.uniform(0.12 * size, 0.28 * size, 2)
            mask |= ((down - row) / height) ** 2 + ((right - column) / width) ** 2 <= 1
    pictures = 0.8 * masks + random.normal(0, 0.6, masks.shape)
    return torch.tensor(pictures[:, None], dtype=torch.float32), masks


def network() -> nn.Module:
    layers: list[nn.Module] = []
    for channels_in, channels_out in ((1, 16), (16, 16), (16, 16)):
        layers += [
            nn.Conv2d(channels_in, channels_out, 5, padding=2),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.Conv2d(16, 2, 1))


def dice_after_training(name: str, data: tuple[Tensor, ...], seed: int, epochs: int) -> float:
    """Dice of the foreground, pooled over the test images."""
    x, given, x_test, y_test = data
    torch.manual_seed(seed)
    model = network()
    loss = create(name, recipe="cifar10")
    l1 = L1(published_recipe(name, "cifar10").l1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(16):
            optimizer.zero_grad()
            loss(model(x[batch]), given[batch]).backward()
            l1.add_to_gradients(model.parameters())
            optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        said = model(x_test).argmax(1)
    return (2 * (said * y_test).sum() / (said.sum() + y_test.sum())).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--share", type=float, default=0.7, help="share of wrong training masks")
    parser.add_argument("--strength", type=float, default=0.7, help="how wrong a wrong mask is")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="few images, one epoch, to see that it runs")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    random = np.random.default_rng(arguments.seed)
    count, epochs = (32, 1) if arguments.quick else (256, arguments.epochs)
    x, masks = blobs(count, 48, random)
    x_test, y_test = blobs(count // 2, 48, random)
    noisy = noise.corrupt_masks(masks, arguments.share, arguments.strength, arguments.seed)
    data = x, torch.tensor(np.asarray(noisy.masks)).long(), x_test, torch.tensor(y_test).long()
    print(f"{count} images, {noisy.realised_share:.0%} of the masks wrong")
    for name in ("ce", "gce", "anl-ce"):
        dice = dice_after_training(name, data, arguments.seed, epochs)
        print(f"{name:8} Dice {dice:.1%} on clean test masks", flush=True)


if __name__ == "__main__":
    main()
