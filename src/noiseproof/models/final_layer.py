# SPDX-License-Identifier: Apache-2.0
"""Which layer of a model gives the logits, the one that depends on the number of classes; and to train it alone."""

import torch
from torch import Tensor, nn


def plain(model: nn.Module) -> nn.Module:
    """Return the model inside ``torch.compile``'s and data parallelism's wrappers.

    >>> inner = nn.Linear(2, 2)
    >>> plain(nn.DataParallel(inner)) is inner
    True
    """
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(inside := getattr(model, "_orig_mod", None), nn.Module):
            model = inside
        else:
            return model


def final_layer_name(model: nn.Module) -> str | None:
    """Return the name of the layer that gives the logits.

    Models of the catalogue say so themselves (``final_layer``), timm's by ``get_classifier``; of any other
    model it is the linear layer registered last. None where there is no such layer.

    Example:
        >>> final_layer_name(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
        '2'
    """
    stated = getattr(model, "final_layer", None)
    if isinstance(stated, str):
        return stated
    layers = dict(model.named_modules())
    if callable(get_classifier := getattr(model, "get_classifier", None)):
        classifier = get_classifier()
        return next((name for name, layer in layers.items() if layer is classifier), None)
    return next((name for name in reversed(layers) if isinstance(layers[name], nn.Linear)), None)


def freeze_all_but_final_layer(model: nn.Module) -> None:
    """Let only the layer that gives the logits learn.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
        >>> freeze_all_but_final_layer(model)
        >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
        ['2.weight', '2.bias']
    """
    model.requires_grad_(False)
    model.get_submodule(_required(model)).requires_grad_(True)


def set_training(model: nn.Module) -> None:
    """Put a network into training mode, but for frozen layers: their batch norm keeps its means.

    Layers with nothing to learn or to keep, such as dropout, are in training mode wherever they stand.

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
        >>> freeze_all_but_final_layer(model)
        >>> set_training(model)
        >>> [layer.training for layer in model]
        [False, False, True]
    """
    model.train()
    if all(parameter.requires_grad for parameter in model.parameters()):
        return
    for layer in model.modules():
        own = list(layer.parameters(recurse=False))
        keeps_something = own or any(True for _ in layer.buffers(recurse=False))
        if keeps_something and not any(parameter.requires_grad for parameter in own):
            layer.eval()


def head_of(model: nn.Module) -> nn.Module:
    """The final layer alone, for features (N, D, 1, 1) in place of images."""
    return nn.Sequential(nn.Flatten(), model.get_submodule(_required(model)))


def has_linear_final_layer(model: nn.Module) -> bool:
    """Whether the final layer sees D numbers of an image.

    >>> has_linear_final_layer(nn.Linear(4, 3))
    True
    """
    return isinstance(model.get_submodule(_required(model)), nn.Linear)


@torch.no_grad()
def is_head_on_fixed_features(model: nn.Module, images: Tensor) -> bool:
    """Whether a frozen network's logits are what its final layer makes of features, and of nothing else.

    Not so where something follows the final layer or goes past it, where it sees several places of an image, or
    where the features are others in training: then :func:`head_of` is not the network. It is tried with some
    images, and left in training mode.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> plain_network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> scaled = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softplus())
        >>> [is_head_on_fixed_features(each, torch.randn(5, 4)) for each in (plain_network, scaled)]
        [True, False]
    """
    with torch.random.fork_rng([images.device] if images.device.type == "cuda" else []):
        tested, logits = _passed(model.eval(), images)
        set_training(model)
        trained, _ = _passed(model, images)
    if len(tested) != 1 or tested[0].ndim != 2:
        return False
    read = head_of(model)(tested[0])
    return (
        read.shape == logits.shape
        and torch.allclose(read, logits, rtol=1e-3, atol=1e-5)
        and torch.allclose(tested[0], trained[0], rtol=1e-3, atol=1e-5)
    )


def width_of_features(model: nn.Module) -> int:
    """D, how many numbers the final layer sees of an image.

    >>> width_of_features(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)))
    8
    """
    weight = model.get_submodule(_required(model)).weight
    assert isinstance(weight, Tensor)
    return weight.shape[1]


def features_of(model: nn.Module, images: Tensor) -> Tensor:
    """What the final layer sees of images, (N, D).

    Example:
        >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> images = torch.randn(5, 4)
        >>> torch.equal(features_of(model, images), model[:2](images))
        True
    """
    (features,), _ = _passed(model, images)
    return features


def _passed(model: nn.Module, images: Tensor) -> tuple[list[Tensor], Tensor]:
    """What the final layer sees of images, each time it is asked, and the logits."""
    seen: list[Tensor] = []
    final = model.get_submodule(_required(model))
    handle = final.register_forward_pre_hook(lambda layer, inputs: seen.append(inputs[0]))
    try:
        logits: Tensor = model(images)
    finally:
        handle.remove()
    return seen, logits


def _required(model: nn.Module) -> str:
    name = final_layer_name(model)
    if name is None:
        raise ValueError("freeze: this network has no final layer of its own that could be trained alone")
    return name
