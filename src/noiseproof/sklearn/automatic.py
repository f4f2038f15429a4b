# SPDX-License-Identifier: Apache-2.0
"""What ``"auto"`` stands for: every number that a user leaves open, by the rules of :mod:`noiseproof.planning`.

Rows of "the paper" are those of Ye et al., *Active Negative Loss: A Robust Framework for Learning with Noisy
Labels*, whose hyper-parameters :mod:`noiseproof.losses.recipes` holds. Numbers for tables, on which the paper has
nothing, were chosen on tables other than those of the published comparison: see ``docs/sklearn.md``.
"""

from noiseproof.losses import record
from noiseproof.planning.choice import Choice
from noiseproof.planning.deciding import decide
from noiseproof.planning.facts import Facts
from noiseproof.planning.table_rules import BATCH

__all__ = ["BATCH", "Choice", "automatic"]

FIELDS = ("loss_parameters", "l1", "weight_decay", "batch_size", "epochs", "hidden", "learning_rate")


def automatic(
    loss: str, num_samples: int, num_classes: int, *, own_network: bool = False
) -> dict[str, Choice]:
    """Choose the numbers for a loss, a number of samples and a number of classes.

    ``docs/plan.md`` lists the rules, and what supports them.

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
    facts = Facts("table", num_samples, num_classes, form="table", own_network=own_network)
    chosen = {choice.field: choice for choice in decide(facts, {"loss": name})}
    open_ones = {
        "loss_parameters": Choice("loss_parameters", {}, f"none published for {name}: its defaults"),
        "l1": Choice("l1", 0.0, "this loss is published without L1"),
    }
    return {field: chosen.get(field) or open_ones[field] for field in FIELDS}
