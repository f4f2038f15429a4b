# SPDX-License-Identifier: Apache-2.0
"""Which losses the kernels know, and how one is described to them.

The kernels know sums of at most two *dense* parts, which need every class of a row (a sum over the classes), and
at most two *active* parts, which need the labelled class alone, beside the marginal entropy of ANL-CE*. That is
the whole catalogue but for ε-softmax. A loss is recognised by the structure of its
:class:`~noiseproof.losses.calculus.Term`, so that combinations of one's own are covered as well.
"""

import math
from enum import IntEnum
from typing import NamedTuple

from noiseproof.losses.calculus import Active, Negative, Normalized, NormalizedNegative, Term, WeightedSum
from noiseproof.losses.entropy import MarginalEntropy, several_ranks
from noiseproof.losses.joint_asymmetric import AMSE
from noiseproof.losses.labels import PerClass
from noiseproof.losses.per_class import AEL, AGCE, AUL, CE, FL, GCE, MAE, PHCE, RCE, TCE

SLOTS = 2
"""Parts of each sort that a kernel has room for."""


class Kind(IntEnum):
    """What one class costs, given its log-probability."""

    CE = 0
    FL = 1
    MAE = 2
    GCE = 3
    AGCE = 4
    AUL = 5
    AEL = 6
    PHCE = 7
    TCE = 8
    SQUARE = 9


class Role(IntEnum):
    """What a part makes of these costs."""

    ABSENT = 0
    ACTIVE = 1
    NORMALIZED = 2
    NEGATIVE = 3
    NORMALIZED_NEGATIVE = 4
    MEAN_SQUARE = 5


class Part(NamedTuple):
    """One part of a loss: all that the compiler needs to know of it.

    Attributes:
        role: a :class:`Role`.
        kind: a :class:`Kind`.
        a: the kind's first hyper-parameter.
        b: the kind's second.
        floor: in the flipped roles, the smallest log-probability.
        ceiling: in the flipped roles, the cost there.
    """

    role: int
    kind: int
    a: float
    b: float
    floor: float
    ceiling: float


NO_PART = Part(int(Role.ABSENT), int(Kind.CE), 0.0, 0.0, 0.0, 0.0)


class Plan(NamedTuple):
    """A loss as the kernels take it: parts are compiled in, weights are arguments.

    Attributes:
        dense: two parts that need every class, perhaps absent.
        active: two parts that need the label's class alone, perhaps absent.
        weights: of the dense parts, then of the active ones.
        entropy_weight: factor of the marginal entropy; 0 if there is none.
        entropy_floor: its ``p_min``.
    """

    dense: tuple[Part, Part]
    active: tuple[Part, Part]
    weights: tuple[float, float, float, float]
    entropy_weight: float = 0.0
    entropy_floor: float = 0.0

    def flatten(self) -> list[float]:
        """Return the plan as numbers, which an operator of torch can take."""
        numbers: list[float] = []
        for part in (*self.dense, *self.active):
            numbers.extend(float(value) for value in part)
        numbers.extend(self.weights)
        return [*numbers, self.entropy_weight, self.entropy_floor]

    @staticmethod
    def restore(numbers: list[float]) -> "Plan":
        """Return the plan that :meth:`flatten` made numbers of."""
        size, slots = len(Part._fields), 2 * SLOTS
        parts = [_part(numbers[i * size : (i + 1) * size]) for i in range(slots)]
        weights = numbers[slots * size : slots * size + slots]
        entropy_weight, entropy_floor = numbers[slots * size + slots :]
        return Plan(
            (parts[0], parts[1]),
            (parts[2], parts[3]),
            (weights[0], weights[1], weights[2], weights[3]),
            entropy_weight,
            entropy_floor,
        )


def _part(numbers: list[float]) -> Part:
    role, kind, a, b, floor, ceiling = numbers
    return Part(int(role), int(kind), a, b, floor, ceiling)


def plan_of(term: Term, num_classes: int) -> Plan | None:
    """Describe ``term`` to the kernels, or return ``None`` where they do not know it."""
    dense: list[tuple[float, Part]] = []
    active: list[tuple[float, Part]] = []
    entropy: list[tuple[float, float]] = []
    for weight, leaf in _leaves(term, 1.0):
        if weight == 0:
            continue
        if type(leaf) is MarginalEntropy:
            if leaf.across_ranks and several_ranks():
                return None
            entropy.append((weight, leaf.p_min))
            continue
        described = _describe(leaf, weight, num_classes)
        if described is None:
            return None
        (active if described[1].role == Role.ACTIVE else dense).append(described)
    if len(dense) > SLOTS or len(active) > SLOTS or len(entropy) > 1 or not (dense or active or entropy):
        return None
    slots = [*dense, *[(0.0, NO_PART)] * (SLOTS - len(dense))]
    slots += [*active, *[(0.0, NO_PART)] * (SLOTS - len(active))]
    entropy_weight, entropy_floor = entropy[0] if entropy else (0.0, 0.0)
    return Plan(
        (slots[0][1], slots[1][1]),
        (slots[2][1], slots[3][1]),
        (slots[0][0], slots[1][0], slots[2][0], slots[3][0]),
        entropy_weight,
        entropy_floor,
    )


def _leaves(term: Term, weight: float) -> list[tuple[float, Term]]:
    if type(term) is not WeightedSum:
        return [(weight, term)]
    leaves: list[tuple[float, Term]] = []
    for factor, part in term.parts:
        leaves.extend(_leaves(part, weight * factor))
    return leaves


def _describe(term: Term, weight: float, num_classes: int) -> tuple[float, Part] | None:
    """Weight and description of a term that is no sum, or ``None`` where the kernels do not know it."""
    if type(term) is AMSE:
        return weight, Part(int(Role.MEAN_SQUARE), int(Kind.SQUARE), term.a, 0.0, 0.0, 0.0)
    if type(term) is Active:
        cell = _cell(term.loss)
        return cell and (weight, Part(int(Role.ACTIVE), *cell, 0.0, 0.0))
    if type(term) is Normalized:
        if type(term.loss) in (MAE, RCE):  # the sum over the classes is a constant, whatever the prediction
            return weight / (num_classes - 1), Part(int(Role.ACTIVE), int(Kind.MAE), 1.0, 0.0, 0.0, 0.0)
        cell = _cell(term.loss)
        return cell and (weight, Part(int(Role.NORMALIZED), *cell, 0.0, 0.0))
    if type(term) is Negative or type(term) is NormalizedNegative:
        cell = _cell(term.loss)
        # The plain path says what is wrong with a p_min that is too large.
        if cell is None or term.p_min * num_classes >= 1:
            return None
        role = Role.NEGATIVE if type(term) is Negative else Role.NORMALIZED_NEGATIVE
        floor = math.log(term.p_min)
        return weight, Part(int(role), *cell, floor, _cost_at(cell, floor))
    return None


def _cell(loss: PerClass) -> tuple[int, float, float] | None:
    """Kind and hyper-parameters of an active loss of ours; ``None`` for anyone else's."""
    if type(loss) is CE:
        return int(Kind.CE), 0.0, 0.0
    if type(loss) is FL:
        return int(Kind.FL), loss.gamma, float(loss.detach_modulator)
    if type(loss) is MAE:
        return int(Kind.MAE), loss.scale, 0.0
    if type(loss) is RCE:
        return int(Kind.MAE), -math.log(loss.label_floor), 0.0
    if type(loss) is GCE:
        return int(Kind.GCE), loss.q, math.log(loss.p_min)
    if type(loss) is AGCE:
        return int(Kind.AGCE), loss.a, loss.q
    if type(loss) is AUL:
        return int(Kind.AUL), loss.a, loss.q
    if type(loss) is AEL:
        return int(Kind.AEL), loss.a, 0.0
    if type(loss) is PHCE:
        return int(Kind.PHCE), loss.tau, math.log(loss.tau)
    if type(loss) is TCE:
        return int(Kind.TCE), float(loss.t), 0.0
    return None


def _cost_at(cell: tuple[int, float, float], log_p: float) -> float:
    """What a class of this log-probability costs."""
    kind, a, b = cell
    p, rest = math.exp(log_p), -math.expm1(log_p)
    if kind == Kind.CE:
        return -log_p
    if kind == Kind.FL:
        return -math.pow(rest, a) * log_p
    if kind == Kind.MAE:
        return a * rest
    if kind == Kind.GCE:
        return -math.expm1(a * max(log_p, b)) / a
    if kind == Kind.AGCE:
        return (math.pow(a + 1, b) - math.pow(a + p, b)) / b
    if kind == Kind.AUL:
        return (math.pow(a - p, b) - math.pow(a - 1, b)) / b
    if kind == Kind.AEL:
        return math.exp(-p / a)
    if kind == Kind.PHCE:
        return -log_p if log_p > -b else b + 1 - a * p
    return sum(math.pow(rest, i) / i for i in range(1, int(a) + 1))
