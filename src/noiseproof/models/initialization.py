# SPDX-License-Identifier: Apache-2.0
"""First values of the weights: the two published ways, each a walk over a model's layers.

Biases of the noisy-label networks keep torch's own uniform draw, as in the paper's code; batch norm starts
as the identity everywhere.
"""

from torch import nn


def as_in_noisy_label_papers(model: nn.Module) -> None:
    """Draw convolutions kaiming-uniform (fan-in, ReLU) and linear layers xavier-uniform.

    The networks of the paper that train from random weights on small images all start so: ``cnn8``,
    ``mnist-cnn`` and the CIFAR forms of ResNet.

    Example:
        >>> layer = nn.Linear(30, 20)
        >>> as_in_noisy_label_papers(layer)
        >>> bool(layer.weight.abs().max() <= (6 / (30 + 20)) ** 0.5)
        True
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_uniform_(layer.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)


def as_in_torchvision(model: nn.Module, linear_std: float | None = None) -> None:
    """Draw convolutions kaiming-normal (fan-out, ReLU) with zero biases.

    Args:
        model: what to initialise.
        linear_std: standard deviation of normal linear weights with zero biases (VGG); None keeps torch's own
            draw (ResNet).
    """
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.Linear) and linear_std is not None:
            nn.init.normal_(layer.weight, std=linear_std)
            nn.init.zeros_(layer.bias)
