# SPDX-License-Identifier: Apache-2.0
"""Random combinations of loss, shape, precision, logits, reduction and weights; each is found again by its number.

A thousand of them run always, 100,000 on demand: ``pytest -m slow tests/losses/test_random_combinations.py``.
"""

import math
import re
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.losses.reference import other_params

from noiseproof import losses

NAMES = losses.available()
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
CLASSES = (2, 3, 5, 10, 37, 100, 1000)
SHAPES = ((), (1,), (4,), (33,), (2, 5), (2, 3, 4), (1, 2, 2, 3))
SPREADS = (0.0, 1e-3, 1.0, 10.0, 1e3, 6e4)
KINDS = ("normal", "signs", "peak on the label", "peak beside the label", "equal", "one class at the bottom")
REDUCTIONS = ("none", "mean", "sum")

ALWAYS, ON_DEMAND, PART = 1000, 100_000, 2000


@dataclass
class Combination:
    """Everything about one call of one loss."""

    number: int
    name: str
    parameters: dict
    shape: tuple
    classes: int
    dtype: torch.dtype
    kind: str
    spread: float
    reduction: str
    has_weights: bool
    has_ignored: bool
    logits: torch.Tensor = field(repr=False)
    target: torch.Tensor = field(repr=False)
    weight: torch.Tensor | None = field(repr=False)

    def loss(self):
        """The Module."""
        return losses.create(
            self.name, weight=self.weight, ignore_index=-100, reduction=self.reduction, **self.parameters
        )


def combination(number):
    random = np.random.RandomState(number)
    choose = lambda options: options[random.randint(len(options))]  # noqa: E731
    name = choose(NAMES)
    parameters = other_params(name) if random.rand() < 0.5 else {}
    classes, shape, dtype = choose(CLASSES), choose(SHAPES), choose(DTYPES)
    kind, spread, reduction = choose(KINDS), choose(SPREADS), choose(REDUCTIONS)
    whole = (*shape[:1], classes, *shape[1:])
    axis = 0 if shape == () else 1
    target = random.randint(classes, size=shape)
    logits = _logits(random, kind, whole, axis, target, classes) * spread
    has_weights, has_ignored = random.rand() < 0.4, random.rand() < 0.3 and shape != ()
    weight = None
    if has_weights:
        weight = torch.from_numpy(
            random.rand(classes) * (random.rand(classes) < 0.9) * choose((1e-3, 1.0, 1e3))
        )
        weight = weight.to(dtype if dtype == torch.float64 else torch.float32)
    target = torch.from_numpy(np.asarray(target))
    if has_ignored:
        target = torch.where(torch.from_numpy(random.rand(*shape) < 0.3), -100, target)
    limit = torch.finfo(dtype).max if dtype == torch.float16 else math.inf
    tensor = torch.from_numpy(logits).clamp(-limit, limit).to(dtype)
    return Combination(
        number,
        name,
        parameters,
        shape,
        classes,
        dtype,
        kind,
        spread,
        reduction,
        has_weights,
        has_ignored,
        tensor,
        target,
        weight,
    )


def _logits(random, kind, whole, axis, target, classes):
    if kind == "normal":
        return random.randn(*whole)
    if kind == "signs":
        return np.where(random.rand(*whole) < 0.5, 1.0, -1.0)
    if kind == "equal":
        return np.ones(whole)
    column = {"peak on the label": target, "peak beside the label": (target + 1) % classes}.get(
        kind, 0 * target
    )
    one_hot = np.moveaxis(np.eye(classes)[column], -1, axis)
    return one_hot if kind.startswith("peak") else -one_hot


def documented_range(name, parameters, classes):
    """The catalogue's range of a loss, read from its text."""
    record = losses.record(name)
    text = re.match(r"\[(.+?)(\]|∞\))", record.range + "]")[0].removesuffix(")").strip("[]")
    text = text.replace("Σ_{i=1..t} 1/i", "sum(1/i for i in range(1, t + 1))")
    for old, new in {
        "−": "-",
        "·": "*",
        "^": "**",
        "²": "**2",
        "∞": "inf",
        "2β": "2*β",
        "λ": "entropy_weight",
    }.items():
        text = text.replace(old, new)
    text = re.sub(r"log (\w+)", r"log(\1)", text)
    for letter, word in {"α": "alpha", "β": "beta", "τ": "tau"}.items():
        text = text.replace(letter, word)
    known = record.defaults | parameters
    known |= {
        "K": classes,
        "A": -math.log(known.get("p_min", 1e-7)),
        "log": math.log,
        "exp": math.exp,
        "inf": math.inf,
    }
    low, high = re.match(r"(.+?), (.+)$", text).groups()
    names = {"__builtins__": {"sum": sum, "range": range}} | known
    return eval(low, names), eval(high, names)


def value_and_gradient(loss, logits, target):
    leaf = logits.clone().requires_grad_()
    value = loss(leaf, target)
    value.sum().backward()
    return value.detach(), leaf.grad


def check(this):
    loss = this.loss()
    value, gradient = value_and_gradient(loss, this.logits, this.target)
    assert torch.isfinite(value).all(), f"{this}: {value}"
    assert torch.isfinite(gradient).all(), f"{this}: gradient"
    assert gradient.dtype == this.dtype
    exactness = 1e-9 if this.dtype == torch.float64 else 1e-4
    if this.reduction == "none":
        assert value.shape == this.target.shape
        assert (value[this.target == -100] == 0).all(), f"{this}: an ignored label counts"
        low, high = documented_range(this.name, this.parameters, this.classes)
        if not this.has_weights and not this.parameters.get("published"):
            counted = value[this.target != -100].double()
            assert (counted >= low - exactness * (1 + abs(low))).all(), f"{this}: below {low}: {counted}"
            assert (counted <= high * (1 + exactness) + exactness).all(), f"{this}: above {high}: {counted}"
    if this.has_ignored:
        return
    one_hot = F.one_hot(this.target, this.classes).movedim(-1, 0 if this.shape == () else 1)
    other, other_gradient = value_and_gradient(
        loss, this.logits, one_hot.to(torch.promote_types(this.dtype, torch.float32))
    )
    heaviest = 1.0 if this.weight is None else float(this.weight.max())
    scale = max(1.0, heaviest, float(value.abs().max()), float(other.abs().max()))
    if this.reduction == "mean" and this.has_weights:
        return  # torch's own mean divides by the weights for indices and by the samples for probabilities
    assert float((value - other).abs().max()) <= exactness * scale, (
        f"{this}: {value} and {other} for a one-hot label"
    )
    scale = max(1.0, heaviest, float(gradient.double().abs().max()))
    rounding = max(exactness, 4 * torch.finfo(this.dtype).eps)
    difference = float((gradient.double() - other_gradient.double()).abs().max())
    assert difference <= rounding * scale, f"{this}: gradients differ by {difference}"


def test_a_thousand():
    for number in range(ALWAYS):
        check(combination(number))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, ON_DEMAND, PART))
def test_a_hundred_thousand(first):
    for number in range(first, first + PART):
        check(combination(number))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(60))
def test_compiled_equals_eager(number):
    torch.compiler.reset()
    this = combination(number)
    expected = value_and_gradient(this.loss(), this.logits, this.target)
    compiled = torch.compile(this.loss(), fullgraph=True, backend="aot_eager")
    found = value_and_gradient(compiled, this.logits, this.target)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * max(1.0, float(other.abs().max())))
