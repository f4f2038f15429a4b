"""A plan for data of the user's own: what they do not say is chosen here, each choice with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noiseproof import datasets
from noiseproof.losses import published_recipe, record

FEW_SAMPLES = 5_000
MANY_CLASSES = 50
STEPS = 20_000
"""Steps of training to aim at: half of the paper's 47,000 on CIFAR-10."""


@dataclass(frozen=True)
class Choice:
    """One field of a config, and why it has this value."""

    field: str
    value: Any
    reason: str


def plan_for(dataset: str, said: Mapping[str, Any]) -> list[Choice]:
    """Choose every field that has no default and that the user did not say."""
    train = datasets.load(dataset)
    if train.masks is not None:
        choices = _for_masks(train, said)
        return [choice for choice in (_still_open(choice, said) for choice in choices) if choice is not None]
    count, classes = len(train), train.num_classes
    size = int(said.get("batch_size", 128 if count >= FEW_SAMPLES else 32))
    epochs = int(min(120, max(20, STEPS * size // max(1, count))))
    side = 64 if count < 20_000 else 128
    choices = [
        Choice("model", "resnet18", f"a residual network that learns from {count} pictures without weights"),
        Choice("image_size", side, "pictures are squashed to one square size; larger is slower"),
        Choice("batch_size", size, f"{count} training pictures give {-(-count // size)} steps an epoch"),
        Choice("epochs", epochs, f"about {STEPS} steps, at least 20 epochs and at most the paper's 120"),
        Choice("learning_rate", 0.01, "the paper's for CIFAR-10, with SGD, momentum 0.9 and cosine decay"),
        Choice("loss", "anl-ce", "best or nearly so under every noise of the paper's tables"),
    ]
    loss = record(str(said.get("loss", "anl-ce"))).name
    published_for, paper = ("cifar100", "CIFAR-100") if classes > MANY_CLASSES else ("cifar10", "CIFAR-10")
    published = published_recipe(loss, published_for)
    parameters = published.for_noise(None)
    if parameters:
        why = f"{classes} classes: published for {paper} and {loss}"
        choices.append(Choice("loss_parameters", parameters, why))
    if published.l1:
        why = f"{classes} classes: published for {paper} and {loss}, in place of weight decay"
        choices.append(Choice("l1", published.l1, why))
    if published.weight_decay is None:
        choices.append(Choice("weight_decay", 1e-4, "the paper's for CIFAR-10"))
    return [choice for choice in (_still_open(choice, said) for choice in choices) if choice is not None]


def _for_masks(train: datasets.LabeledData, said: Mapping[str, Any]) -> list[Choice]:
    """Choices for pictures with masks: the paper's for ISIC-2017, as far as the data allows."""
    assert train.images is not None
    count, shorter = len(train), min(train.images.shape[1:3])
    size = int(said.get("batch_size", min(16, max(2, count))))
    side = min(256, max(16, shorter // 16 * 16))
    return [
        Choice("model", "unet", "nnU-Net's plain U-Net, sized by its rule; nnunet is the same by MONAI"),
        Choice("image_size", side, f"at most the paper's 256; the pictures' shorter side is {shorter}"),
        Choice("batch_size", size, f"the paper's 16 at most; {-(-count // size)} steps an epoch"),
        Choice("epochs", 100, "the paper's for ISIC-2017"),
        Choice("optimizer", "adam", "the paper's for ISIC-2017"),
        Choice("learning_rate", 1e-3, "the paper's for ISIC-2017"),
        Choice("schedule", "exponential", "the paper's for ISIC-2017"),
        Choice("schedule_factor", 0.8, "the paper's for ISIC-2017: the learning rate times this each epoch"),
        Choice("weight_decay", 5e-6, "the paper's for ISIC-2017"),
        Choice("clip_norm", 0.0, "the paper states none, and Adam bounds a step by itself"),
        Choice("loss", "anl-ce", "the paper's best in all but one cell of its table of ISIC-2017"),
    ]


def _still_open(choice: Choice, said: Mapping[str, Any]) -> Choice | None:
    """What of a choice the user left open; of a loss's parameters that may be some."""
    if choice.field == "loss_parameters":
        open_ones = {k: v for k, v in choice.value.items() if k not in said.get("loss_parameters", {})}
        return Choice(choice.field, open_ones, choice.reason) if open_ones else None
    return choice if said.get(choice.field) is None else None
