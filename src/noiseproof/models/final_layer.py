# SPDX-License-Identifier: Apache-2.0
"""Which layer of a model gives the logits: the one that depends on the number of classes."""

from torch import nn


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
