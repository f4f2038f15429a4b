# SPDX-License-Identifier: Apache-2.0
"""The Module that every loss class extends, and the options that all of them share."""

from inspect import signature
from types import FunctionType
from typing import Any, TypedDict

from torch import Tensor, nn

from noiseproof.losses import checks
from noiseproof.losses.calculus import Active, Term, WeightedSum
from noiseproof.losses.evaluate import evaluate
from noiseproof.losses.labels import PerClass

NO_TERM = WeightedSum(())
"""The term of a class that has none, since its ``forward`` does all."""


class Options(TypedDict, total=False):
    """What :class:`torch.nn.CrossEntropyLoss` can be told, and what our losses can be told too."""

    weight: Tensor | None
    ignore_index: int
    reduction: str
    check_labels: bool | None


def no_label_smoothing(owner: str) -> str:
    """What to do instead of an option of torch's cross-entropy that no loss here has.

    >>> no_label_smoothing("MAE").partition(";")[0]
    'label_smoothing: MAE has no such option'
    """
    return (
        f"label_smoothing: {owner} has no such option; pass smoothed labels as probabilities, target = "
        "(1 - label_smoothing) * one_hot(labels, K) + label_smoothing / K"
    )


class RobustLoss(nn.Module):
    """A loss made of a :class:`~noiseproof.losses.calculus.Term`, used like torch's cross-entropy.

    Args:
        term: what is evaluated: a term, or a function from log-probabilities to the loss of each class by itself;
            ``None`` in a class that has a ``forward`` of its own.
        weight: one weight a class (K,); kept as a buffer, so that it moves with the module.
        ignore_index: target value of samples without a label.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        check_labels: whether to check that labels lie in 0…K−1; by default on the CPU only.

    Example:
        >>> import torch
        >>> from noiseproof.losses import RobustLoss
        >>> squared = RobustLoss(lambda log_p: (1 - log_p.exp()) ** 2)
        >>> squared(torch.zeros(2, 4), torch.tensor([0, 3]))
        tensor(0.5625)
    """

    weight: Tensor | None

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Give every class a ``forward`` of its own.

        torch.compile allows eight compilations of one function. Shared by all classes, the ninth loss that
        is compiled in a process would fail.
        """
        super().__init_subclass__(**arguments)
        if evaluates_its_term(cls):
            shared = RobustLoss.forward
            cls.forward = FunctionType(  # type: ignore[method-assign]
                shared.__code__.replace(), shared.__globals__, shared.__name__
            )
            cls.forward.__doc__ = shared.__doc__

    def __init__(
        self,
        term: Term | PerClass | None,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        check_labels: bool | None = None,
        **unknown: object,
    ) -> None:
        super().__init__()
        if unknown:
            raise TypeError(self._on_unknown(next(iter(unknown))))
        checks.reduction(reduction)
        self.term = self._checked(term)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.check_labels = check_labels
        self.register_buffer("weight", weight)

    @classmethod
    def _on_unknown(cls, name: str) -> str:
        """What to say of an option that there is not, such as one that torch's cross-entropy has besides."""
        if name == "label_smoothing":
            return no_label_smoothing(cls.__name__)
        own = (each for each in signature(cls).parameters.values() if each.kind is not each.VAR_KEYWORD)
        known = {each.name for each in own} | Options.__annotations__.keys()
        return checks.unknown(f"option of {cls.__name__}", name, known - {"term"})

    @classmethod
    def _checked(cls, term: Term | PerClass | None) -> Term:
        if isinstance(term, Term):
            return term
        if callable(term) and not isinstance(term, nn.Module | type):
            return Active(term)
        if term is None and not evaluates_its_term(cls):
            return NO_TERM
        raise TypeError(
            "term: expected a term of noiseproof.losses.calculus, a function from log-probabilities to the loss of "
            f"each class, or None in a class with a forward of its own, got {checks.shown(term)} of type "
            f"{type(term).__name__}"
        )

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """Loss of logits (N, K), (N, K, d1, …) or (K,) against indices or probabilities."""
        return evaluate(
            self.term, logits, target, self.weight, self.ignore_index, self.reduction, self.check_labels
        )

    def label_weight(self, target: Tensor) -> Tensor:
        """What a mean over class indices divides by: the sum of the weights of the labels in use."""
        target = target.long()  # in a narrow type ignore_index would wrap around to a class
        used = target != self.ignore_index
        if self.weight is None:
            return used.sum()
        return (self.weight[target.where(used, 0)] * used).sum()

    def extra_repr(self) -> str:
        """Show the formula's parts and every option that is not torch's default."""
        shown = [] if self.term == NO_TERM else [str(self.term)]
        if self.weight is not None:
            shown.append(f"weight={tuple(self.weight.shape)}")
        if self.ignore_index != -100:
            shown.append(f"ignore_index={self.ignore_index}")
        if self.reduction != "mean":
            shown.append(f"reduction={self.reduction!r}")
        return ", ".join(shown)


def evaluates_its_term(loss: type[RobustLoss]) -> bool:
    """Whether losses of a class are their term and no more.

    One with a ``forward`` of its own, be it a parent's or a mixin's, may change the logits first, or have no term.
    """
    return getattr(loss.forward, "__code__", None) == RobustLoss.forward.__code__
