"""A plan for data of the user's own: what they do not say is chosen here, each choice with its reason."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noiseproof import datasets

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
    count, classes = len(train), train.num_classes
    size = int(said.get("batch_size", 128 if count >= FEW_SAMPLES else 32))
    epochs = int(min(120, max(20, STEPS * size // max(1, count))))
    side = 64 if count < 20_000 else 128
    many = classes > MANY_CLASSES
    choices = [
        Choice("model", "resnet18", f"a residual network that learns from {count} pictures without weights"),
        Choice("image_size", side, "pictures are squashed to one square size; larger is slower"),
        Choice("batch_size", size, f"{count} training pictures give {-(-count // size)} steps an epoch"),
        Choice("epochs", epochs, f"about {STEPS} steps, at least 20 epochs and at most the paper's 120"),
        Choice("learning_rate", 0.01, "the paper's for CIFAR-10, with SGD, momentum 0.9 and cosine decay"),
        Choice("loss", "anl-ce", "best or nearly so under every noise of the paper's tables"),
    ]
    if said.get("loss", "anl-ce") in ("anl-ce", "anl-fl", "anl-ce*", "anl-ce-er"):
        alpha, beta, l1 = (10.0, 1.0, 5e-7) if many else (5.0, 5.0, 5e-5)
        paper = "CIFAR-100" if many else "CIFAR-10"
        parameters = {"alpha": alpha, "beta": beta}
        choices += [
            Choice("loss_parameters", parameters, f"{classes} classes: the paper's for {paper}"),
            Choice("l1", l1, f"{classes} classes: the paper's for {paper}, in place of weight decay"),
        ]
    else:
        choices.append(Choice("weight_decay", 1e-4, "the paper's for CIFAR-10"))
    given = {name for name, value in said.items() if value not in (None, {})}
    return [choice for choice in choices if choice.field not in given]
