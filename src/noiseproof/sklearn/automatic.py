"""What ``"auto"`` stands for: every number that a user leaves open, with the reason for it.

Rows of "the paper" are those of Ye et al., *Active Negative Loss: A Robust Framework for Learning with Noisy
Labels*, whose hyper-parameters :mod:`noiseproof.losses.recipes` holds. Numbers for tables, on which the paper has
nothing, were chosen on tables other than those of the published comparison: see ``docs/sklearn.md``.
"""

from dataclasses import dataclass
from typing import Any

from noiseproof.losses import published_recipe, record

MANY_CLASSES = 50
"""Above this the paper's row for CIFAR-100 is nearer than the one for CIFAR-10."""

BATCH = 256
STEPS = 300
LEAST_EPOCHS = 20
WIDE_FROM = 1_000
L1_AT_ONE_SAMPLE = 0.03
FEWEST_MEASURED = 100
"""Tables of fewer samples take the L1 strength of this many: nothing smaller was measured."""

TABLE_LEARNING_RATE = 1e-2
NETWORK_LEARNING_RATE = 1e-3


@dataclass(frozen=True)
class Choice:
    """One number, and why it has this value."""

    field: str
    value: Any
    reason: str


def automatic(
    loss: str, num_samples: int, num_classes: int, *, own_network: bool = False
) -> dict[str, Choice]:
    """Choose the numbers for a loss, a number of samples and a number of classes.

    * Hyper-parameters of the loss (α, β, …): the paper's for CIFAR-10 up to 50 classes (ANL-CE 5, 5), the paper's
      for CIFAR-100 above (ANL-CE 10, 1).
    * L1 strength δ, for losses published with L1: on the built-in perceptron 0.03/√n, at most 0.003, so that the
      fewer the samples, the simpler the network; on a network of the user's own the paper's for the same data set
      (5e-5 or 5e-7).
    * Weight decay, for losses published without L1: the paper's for the same data set (1e-4 or 1e-5).
    * Batch: 256 samples, or all where there are fewer. Epochs: as many as make 300 steps, at least 20.
    * Widths of the built-in perceptron: 64, 64; from 1,000 samples on 256, 256.
    * Learning rate of Adam: 0.01 for the built-in perceptron, 0.001 for a network of the user's own.

    Args:
        loss: name in the catalogue of losses.
        num_samples: samples that are trained on.
        num_classes: K.
        own_network: whether the network is the user's own instead of the built-in perceptron.

    Returns:
        Choices by name: ``loss_parameters``, ``l1``, ``weight_decay``, ``batch_size``, ``epochs``, ``hidden``,
        ``learning_rate``.

    Example:
        >>> chosen = automatic("anl-ce", num_samples=900, num_classes=3)
        >>> chosen["loss_parameters"].value, chosen["l1"].value
        ({'alpha': 5.0, 'beta': 5.0}, 0.001)
        >>> automatic("anl-ce", 50_000, 100)["loss_parameters"].value
        {'alpha': 10.0, 'beta': 1.0}
    """
    name = record(loss).name
    published_for, paper = (
        ("cifar100", "CIFAR-100") if num_classes > MANY_CLASSES else ("cifar10", "CIFAR-10")
    )
    published = published_recipe(name, published_for)
    batch = min(BATCH, num_samples)
    steps_an_epoch = -(-num_samples // batch)
    epochs = max(LEAST_EPOCHS, -(-STEPS // steps_an_epoch))
    wide = num_samples >= WIDE_FROM
    choices = [
        Choice(
            "loss_parameters",
            published.for_noise(None),
            f"{num_classes} classes: the paper's for {paper}"
            if published.hyperparameters
            else f"none published for {name}: its defaults",
        ),
        _l1(published.l1, num_samples, paper, own_network),
        Choice(
            "weight_decay",
            0.0 if published.l1 else (1e-5 if num_classes > MANY_CLASSES else 1e-4),
            "L1 stands in its place" if published.l1 else f"the paper's for {paper} and losses without L1",
        ),
        Choice("batch_size", batch, f"{num_samples} samples make {steps_an_epoch} steps an epoch"),
        Choice("epochs", epochs, f"at least {STEPS} steps and {LEAST_EPOCHS} epochs"),
        Choice(
            "hidden",
            (256, 256) if wide else (64, 64),
            f"{num_samples} samples: {'at least' if wide else 'fewer than'} {WIDE_FROM}",
        ),
        Choice(
            "learning_rate",
            NETWORK_LEARNING_RATE if own_network else TABLE_LEARNING_RATE,
            "Adam's usual, for a network of one's own" if own_network else "measured for the perceptron",
        ),
    ]
    return {choice.field: choice for choice in choices}


def _l1(published: float, num_samples: int, paper: str, own_network: bool) -> Choice:
    if not published:
        return Choice("l1", 0.0, "this loss is published without L1")
    if own_network:
        return Choice("l1", published, f"the paper's for {paper}")
    count = max(num_samples, FEWEST_MEASURED)
    return Choice("l1", L1_AT_ONE_SAMPLE / count**0.5, f"0.03/√n for {count} samples of a table")
