# SPDX-License-Identifier: Apache-2.0
"""What a loss does, measured: its gradient, its range, whether it is symmetric, what noise makes of its minimum.

For a loss of one's own before it is trained with, and for those of the catalogue to be compared with it. A loss is
asked for one sample at a time, so that any callable of logits (1, K) and labels (1,) can be examined.
"""

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from noiseproof.losses.catalogue import LossRecord, create, record
from noiseproof.losses.checks import shown
from noiseproof.losses.module import RobustLoss
from noiseproof.losses.option_checks import close, try_options, with_options

CLASSES = (2, 3, 10)
"""Numbers of classes at which a loss is looked at."""

SUM_TOLERANCE = 1e-6
"""Largest spread of the sum over labels, relative to its size, of a loss that is called symmetric."""

EVEN_RISK = 1e-9
"""Predictions whose risks differ by less than this share are equally good."""

NO_LABEL = -100
"""Target of samples without a label, which no label that is tried has."""

Loss = Callable[[Tensor, Tensor], Tensor]
Verdict = Literal["fine", "note", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what it was.
        verdict: ``"fine"``; ``"note"``, a property to know of; or ``"wrong"``.
        text: what was found.
    """

    subject: str
    verdict: Verdict
    text: str


@dataclass(frozen=True)
class Examination:
    """What was found about one loss; printed, one line per finding.

    Attributes:
        findings: in the order in which they are printed.
    """

    findings: tuple[Finding, ...]

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong."""
        return all(each.verdict != "wrong" for each in self.findings)

    def __getitem__(self, subject: str) -> Finding:
        """Return the finding of a subject."""
        for each in self.findings:
            if each.subject == subject:
                return each
        raise KeyError(f"{subject!r} was not checked; there is {', '.join(e.subject for e in self.findings)}")

    def __str__(self) -> str:
        """Return a line a finding."""
        return "\n".join(f"{each.verdict:5}  {each.subject}: {each.text}" for each in self.findings)


def check_loss(loss: str | LossRecord | Loss, **arguments: Any) -> Examination:
    """Measure how a loss behaves. This takes about a second and changes nothing.

    Args:
        loss: a name or record of the catalogue, which is also checked against its record; a Module; or any
            function of logits (N, K) and class indices (N,). Options (weights, ignored labels, probabilities as
            targets, pickling) are tried on Modules that extend :class:`RobustLoss` only; the weights, ignored label
            and reduction that such a Module has itself are left aside.
        **arguments: hyperparameters of a loss given by name; by default its own.

    Example:
        >>> found = check_loss("mae")
        >>> found["symmetric"].text
        'yes: its sum over all labels is K − 1 (1, 2, 9 for K = 2, 3, 10)'
        >>> found["symmetric noise"].text
        'best p_y with 20, 40, 60% wrong labels: 1.00, 1.00, 1.00'
        >>> check_loss("ce")["symmetric noise"].text
        'best p_y with 20, 40, 60% wrong labels: 0.80, 0.60, 0.40'
    """
    listed = record(loss) if isinstance(loss, str) else loss if isinstance(loss, LossRecord) else None
    if listed is not None and listed.whole_images:
        raise ValueError(
            f"loss: {listed.name!r} looks at whole images; only losses of single labels can be checked"
        )
    if listed is None and arguments:
        raise TypeError("arguments: only for a loss given by name; pass those of a Module to its class")
    if listed is None and (not callable(loss) or isinstance(loss, type)):
        raise TypeError(f"loss: expected a name, a record, a Module or a function, got {shown(loss)}")
    examined: Loss = create(listed.name, **arguments) if listed is not None else loss  # type: ignore[assignment]
    if isinstance(examined, RobustLoss):
        examined = with_options(examined, ignore_index=NO_LABEL, reduction="mean")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = tuple(_findings(examined, listed))
        if listed is not None and not arguments:
            found += (_tried("function", lambda: _function(examined, listed)),)
        return Examination(found)


def _findings(loss: Loss, listed: LossRecord | None) -> Iterator[Finding]:
    answer = _tried("value", lambda: _one_value(loss))
    if answer.verdict == "wrong":
        yield answer
        return
    yield _tried("range", lambda: _range(loss))
    yield _tried("gradient", lambda: _gradient(loss, listed))
    yield _tried("extreme logits", lambda: _finite(loss))
    yield _tried("half precision", lambda: _half_precision(loss))
    yield _tried("symmetric", lambda: _symmetric(loss, listed))
    yield _tried("bounded", lambda: _bounded(loss))
    if isinstance(loss, RobustLoss) and not loss.term.rowwise:
        yield Finding(
            "batches",
            "note",
            "it looks at the whole batch, so single samples do not show the effect of noise",
        )
    else:
        yield _tried("falls as p_y rises", lambda: _monotone(loss))
        yield _tried("symmetric noise", lambda: _best_prediction(loss, _SYMMETRIC_NOISE))
        yield _tried("asymmetric noise", lambda: _best_prediction(loss, _ASYMMETRIC_NOISE))
    if isinstance(loss, RobustLoss):
        for option, is_kept, text in try_options(loss):
            yield Finding(option, "fine" if is_kept else "wrong", text)
    if isinstance(loss, nn.Module):
        yield _tried("pickling", lambda: _copies(loss))


class _NotFiniteError(ValueError):
    """A loss has values of which nothing can be said."""


def _tried(subject: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except _NotFiniteError as error:
        return Finding(subject, "wrong", f"cannot be determined: {error}")
    except Exception as error:  # whatever code of the user's raises
        return Finding(subject, "wrong", f"raises {type(error).__name__}: {error}")


def _one_value(loss: Loss) -> Finding:
    value = loss(torch.zeros(1, 3), torch.tensor([1]))
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        return Finding("value", "wrong", f"expected one number for one sample, got {got}")
    return Finding("value", "fine", "one number for one sample")


# --- values and gradients ---------------------------------------------------------------------------------


def _each(loss: Loss, logits: Tensor, label: int) -> Tensor:
    """Loss of each row with one label, a row at a time: some losses look at the whole batch."""
    return torch.stack([loss(row[None], torch.tensor([label])).reshape(()) for row in logits])


def _finite_values(values: Tensor) -> Tensor:
    """The same values: comparisons with what is not a number would all come out as if nothing were wrong."""
    if strange := int((~values.isfinite()).sum()):
        raise _NotFiniteError(f"{strange} of {values.numel()} values are not finite")
    return values


def _predictions(classes: int) -> Tensor:
    """Ordinary, sharp and saturated logits, in float64."""
    spreads = torch.tensor([0.1, 1.0, 3.0, 10.0, 30.0, 1000.0], dtype=torch.float64)
    return (
        torch.randn(len(spreads), 3, classes, dtype=torch.float64).mul(spreads[:, None, None]).flatten(0, 1)
    )


def _every_label(loss: Loss, classes: int) -> Tensor:
    """L(k) of predictions and labels: (N, K)."""
    logits = _predictions(classes)
    with torch.no_grad():
        return torch.stack([_each(loss, logits, k) for k in range(classes)], dim=1)


def _range(loss: Loss) -> Finding:
    seen = torch.cat([_every_label(loss, classes).flatten() for classes in CLASSES])
    text = f"seen from {seen.min() + 0.0:.4g} to {seen.max():.4g}"
    if not seen.isfinite().all():
        return Finding(
            "range", "wrong", f"{text}; {int((~seen.isfinite()).sum())} of {len(seen)} are not finite"
        )
    return Finding("range", "note" if seen.min() < 0 else "fine", text)


def _gradient(loss: Loss, listed: LossRecord | None) -> Finding:
    """Autograd's gradient against central differences, in float64, away from kinks by chance."""
    worst, size, step = 0.0, 1e-12, 1e-6
    for classes in CLASSES:
        logits = torch.randn(4, classes, dtype=torch.float64) * 2
        for number, row in enumerate(logits):
            label = torch.tensor([number % classes])
            asked = row.clone().requires_grad_()
            value = loss(asked[None], label).reshape(())
            if value.dtype != torch.float64:
                return Finding("gradient", "wrong", f"float64 logits give a loss of {value.dtype}")
            if not value.requires_grad:
                return Finding(
                    "gradient",
                    "wrong",
                    "the loss has no gradient: part of it is detached or not computed by torch",
                )
            (gradient,) = torch.autograd.grad(value, asked)
            shifts = torch.eye(classes, dtype=torch.float64) * step
            with torch.no_grad():
                ends = [
                    torch.stack([loss((row + sign * e)[None], label).reshape(()) for e in shifts])
                    for sign in (1, -1)
                ]
            numeric = (ends[0] - ends[1]) / (2 * step)
            if not gradient.isfinite().all() and value.isfinite():
                return Finding(
                    "gradient",
                    "wrong",
                    f"not finite where the value is {value:.4g}; branches that torch.where does not take count too",
                )
            _finite_values(numeric)
            worst = max(worst, float((gradient - numeric).abs().max()))
            size = max(size, float(numeric.abs().max()))
    if worst <= 1e-5 * max(size, 1.0):
        return Finding("gradient", "fine", f"agrees with finite differences to {worst:.0e}")
    text = f"not the derivative of the value: differs by up to {worst:.2g}, where the largest is {size:.2g}"
    if listed is not None and listed.defaults.get("detach_modulator"):
        return Finding(
            "gradient", "note", f"{text}; this is intended, detach_modulator=False gives the derivative"
        )
    return Finding("gradient", "wrong", f"{text}; is part of it detached, or is your own backward wrong?")


def _finite(loss: Loss) -> Finding:
    for size, dtype in ((1e4, torch.float32), (6e4, torch.bfloat16), (6e4, torch.float16)):
        for sign in (1, -1):
            logits = torch.zeros(1, 10, dtype=dtype)
            logits[0, 3] = sign * size
            for label in (3, 4):
                asked = logits.clone().requires_grad_()
                value = loss(asked, torch.tensor([label])).reshape(())
                (gradient,) = torch.autograd.grad(value, asked)
                what = "the value" if not value.isfinite() else "the gradient"
                if not (value.isfinite() and gradient.isfinite().all()):
                    where = "of the label" if label == 3 else "of another class"
                    return Finding(
                        "extreme logits",
                        "wrong",
                        f"{what} is not finite if the logit {where} is {sign * size:g} ({dtype})",
                    )
    return Finding(
        "extreme logits",
        "fine",
        "value and gradient are finite for logits of ±10,000, in half precision ±60,000",
    )


def _half_precision(loss: Loss) -> Finding:
    for dtype in (torch.bfloat16, torch.float16):
        logits = (torch.randn(8, 10) * 3).to(dtype)
        exact, half = _each(loss, logits.float(), 2), _each(loss, logits, 2)
        if half.dtype != torch.float32:
            return Finding(
                "half precision", "note", f"logits of {dtype} are evaluated in {half.dtype}, not float32"
            )
        if not torch.allclose(exact, half, rtol=1e-5, atol=1e-6):
            off = float((exact - half).abs().max())
            return Finding(
                "half precision",
                "wrong",
                f"the loss of {dtype} logits differs from that in float32 by {off:.2g}",
            )
    return Finding("half precision", "fine", "bfloat16 and float16 logits are evaluated in float32")


# --- what noise does ----------------------------------------------------------------------------------------


def _standing_out(classes: int, p: Tensor) -> Tensor:
    """Logits with probability p of class 0, which the others share the rest of."""
    logits = torch.zeros(len(p), classes, dtype=torch.float64)
    logits[:, 0] = p.log() - ((1 - p) / (classes - 1)).log()
    return logits


def _probabilities(least: float) -> Tensor:
    return torch.linspace(least, 1, 201, dtype=torch.float64).clamp(max=1 - 1e-9)


def _monotone(loss: Loss) -> Finding:
    with torch.no_grad():
        values = _finite_values(_each(loss, _standing_out(10, _probabilities(0.001)), 0))
    if values.max() == values.min():
        return Finding("falls as p_y rises", "note", f"no: it is {values[0] + 0.0:.4g} for every p_y")
    rises = (values.diff() > 1e-9 * values.abs().max()).sum()
    if rises:
        return Finding(
            "falls as p_y rises", "note", f"no: it rises in {int(rises)} of {len(values) - 1} steps of p_y"
        )
    return Finding("falls as p_y rises", "fine", "yes, if the other classes share the rest equally")


def _symmetric(loss: Loss, listed: LossRecord | None) -> Finding:
    sums, spread = [], 0.0
    for classes in CLASSES:
        total = _finite_values(_every_label(loss, classes)).sum(1)
        sums.append(float(total.mean()))
        spread = max(spread, float((total.max() - total.min()) / total.abs().max().clamp(min=1e-12)))
    found = spread < SUM_TOLERANCE
    numbers = f"{', '.join(f'{each:.4g}' for each in sums)} for K = {', '.join(map(str, CLASSES))}"
    if found:
        near = all(math.isclose(each, k - 1, rel_tol=1e-6) for each, k in zip(sums, CLASSES, strict=True))
        text = f"yes: its sum over all labels is {f'K − 1 ({numbers})' if near else numbers}"
    else:
        text = f"no: its sum over all labels varies by {min(spread, 1):.2%} with the prediction"
    if listed is not None and listed.symmetric != found:
        said = "symmetric" if listed.symmetric else "not symmetric"
        return Finding("symmetric", "wrong", f"{text}; its record says it is {said}")
    return Finding("symmetric", "fine" if found else "note", text)


def _bounded(loss: Loss) -> Finding:
    gaps = torch.zeros(2, 10, dtype=torch.float64)
    gaps[0, 0], gaps[1, 0] = -1e4, -1e7
    with torch.no_grad():
        less, more = _finite_values(_each(loss, gaps, 0)).tolist()
    if more > less + 0.01 * max(abs(less), 1e-12):
        return Finding(
            "bounded", "note", f"no: the loss of an ever less likely label is {less:.4g}, then {more:.4g}, …"
        )
    return Finding(
        "bounded",
        "fine",
        f"yes: it is {more:.4g} for a label with probability 0, if the other classes are equally likely",
    )


def _others_alike() -> tuple[Tensor, Tensor]:
    """Probabilities of the true class and logits to them: the other classes share the rest."""
    p = _probabilities(0.1)
    return p, _standing_out(10, p)


def _one_other() -> tuple[Tensor, Tensor]:
    """The same where one other class has the rest, but for a trace."""
    p = _probabilities(0.0).clamp(min=1e-9)
    logits = torch.full((len(p), 10), math.log(1e-9), dtype=torch.float64)
    logits[:, 0], logits[:, 1] = p.log(), (1 - p).log()
    return p, logits


class _Noise(NamedTuple):
    subject: str
    rates: tuple[float, ...]
    where_to: str
    predictions: Callable[[], tuple[Tensor, Tensor]]


_SYMMETRIC_NOISE = _Noise("symmetric noise", (0.2, 0.4, 0.6), "", _others_alike)
_ASYMMETRIC_NOISE = _Noise("asymmetric noise", (0.2, 0.4), ", all to one class", _one_other)


def _best_prediction(loss: Loss, noise: _Noise) -> Finding:
    """How sure of the true class the prediction is that noisy labels reward most."""
    p, logits = noise.predictions()
    with torch.no_grad():
        right, wrong = (_finite_values(_each(loss, logits, label)) for label in (0, 1))
    best = []
    for rate in noise.rates:
        risk = (1 - rate) * right + rate * wrong
        best.append(float(p[risk <= risk.min() + EVEN_RISK * risk.min().abs()].max()))
    percent = ", ".join(f"{100 * rate:.0f}" for rate in noise.rates)
    text = (
        f"best p_y with {percent}% wrong labels{noise.where_to}: {', '.join(f'{each:.2f}' for each in best)}"
    )
    return Finding(noise.subject, "fine" if min(best) > 0.99 else "note", text)


# --- copies ---------------------------------------------------------------------------------------------------


def _copies(loss: nn.Module) -> Finding:
    logits, labels = torch.randn(1, 5), torch.tensor([2])
    value = loss(logits, labels)
    try:
        same = torch.equal(pickle.loads(pickle.dumps(loss))(logits, labels), value)
    except Exception as error:  # pickle raises nearly every kind
        return Finding(
            "pickling",
            "note",
            f"not possible: {error}. Use functions and classes from the top level of a module",
        )
    return Finding(
        "pickling",
        "fine" if same else "wrong",
        "a copy gives the same loss" if same else "a copy gives a different loss",
    )


def _function(loss: Loss, listed: LossRecord) -> Finding:
    logits, labels = torch.randn(3, 5), torch.tensor([0, 1, 2])
    same = close(torch.as_tensor(listed.function(logits, labels), dtype=torch.float32), loss(logits, labels))
    text = "gives the same loss as the Module" if same else "gives a different loss from the Module"
    return Finding("function", "fine" if same else "wrong", text)
