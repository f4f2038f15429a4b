# SPDX-License-Identifier: Apache-2.0
"""Every loss of the catalogue a second time, in NumPy and mpmath, from the written formulas alone.

Nothing here knows torch. A loss is written as the matrix L(k) of its value for every label k of every
sample, as plainly as its formula reads, so that a reader can check it by eye. The same lines run in
float64 and, for extreme points and for derivatives, in mpmath with as many digits as asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np

Array = np.ndarray[Any, Any]


class Tolerance(NamedTuple):
    """How far a value and a gradient may stand from the reference: relative, absolute."""

    value: tuple[float, float]
    gradient: tuple[float, float]


# By dtype of the logits. float32's absolute part is one unit in the last place of the largest numbers that a
# default takes the difference of (NCE+AUL: 4/1.5 of 5.3^1.5). Half inputs are computed in float32, so their
# values are as good as float32's; their gradients come back in half precision and carry its rounding.
TOLERANCE = {
    "float64": Tolerance(value=(1e-9, 1e-12), gradient=(1e-8, 1e-11)),
    "float32": Tolerance(value=(1e-5, 5e-6), gradient=(1e-4, 2e-6)),
    "float16": Tolerance(value=(1e-5, 5e-6), gradient=(2e-3, 1e-6)),
    "bfloat16": Tolerance(value=(1e-5, 5e-6), gradient=(1e-2, 2e-6)),
}


def assert_close(actual: Any, expected: Any, dtype: str, kind: str = "value", message: str = "") -> None:
    """Fail unless `actual` is within the table's tolerance for logits of this dtype."""
    relative, absolute = getattr(TOLERANCE[dtype], kind)
    actual, expected = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    assert actual.shape == expected.shape, f"{message}: shape {actual.shape}, expected {expected.shape}"
    np.testing.assert_allclose(actual, expected, rtol=relative, atol=absolute, err_msg=message)


class Arithmetic(NamedTuple):
    """The three things that differ between float64 arrays and arrays of mpmath numbers."""

    number: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]


FLOAT64 = Arithmetic(lambda x: np.asarray(x, dtype=np.float64), np.exp, np.log)
EXACT = Arithmetic(*(np.frompyfunc(f, 1, 1) for f in (mpmath.mpf, mpmath.exp, mpmath.log)))


class Prediction:
    """Softmax of the logits. `held` is the prediction that a detached modulator is made from."""

    def __init__(self, logits: Array, math: Arithmetic, held_logits: Array | None = None):
        self.math = math
        self.logits = math.number(logits)
        shifted = self.logits - np.max(self.logits, axis=1, keepdims=True)
        self.log_p = shifted - math.log(np.sum(math.exp(shifted), axis=1, keepdims=True))
        self.p = math.exp(self.log_p)
        self.classes = self.p.shape[1]
        self.held = self if held_logits is None else Prediction(held_logits, math)


def one_hot(classes: int) -> Array:
    """Row k is the distribution q that belongs to label k."""
    return np.eye(classes)


# --- losses that do not depend on another loss ---------------------------------------------------------


def ce(x: Prediction) -> Array:
    return -x.log_p


def fl(x: Prediction, gamma: float) -> Array:
    return -((1 - x.held.p) ** gamma) * x.log_p


def mae(x: Prediction, scale: float = 1) -> Array:
    return scale * (1 - x.p)


def rce(x: Prediction, label_floor: float) -> Array:
    log_q = x.math.log(x.math.number(np.maximum(one_hot(x.classes), label_floor)))
    return np.stack([-np.sum(x.p * log_q[k], axis=1) for k in range(x.classes)], axis=1)


def gce(x: Prediction, q: float, p_min: float) -> Array:
    return (1 - np.maximum(x.p, p_min) ** q) / q


def phce(x: Prediction, tau: float) -> Array:
    log_tau = x.math.log(x.math.number(tau))
    return np.where(x.p > 1 / x.math.number(tau), -x.log_p, -tau * x.p + log_tau + 1)


def tce(x: Prediction, t: int) -> Array:
    return sum((1 - x.p) ** i / i for i in range(1, t + 1))


def agce(x: Prediction, a: float, q: float) -> Array:
    return ((x.math.number(a) + 1) ** q - (a + x.p) ** q) / q


def aul(x: Prediction, a: float, q: float) -> Array:
    return ((a - x.p) ** q - (x.math.number(a) - 1) ** q) / q


def ael(x: Prediction, a: float) -> Array:
    return x.math.exp(-x.p / a)


def amse(x: Prediction, a: float) -> Array:
    q = one_hot(x.classes)
    return np.stack([np.sum((x.p - a * q[k]) ** 2, axis=1) / x.classes for k in range(x.classes)], axis=1)


# --- conversions: normalised, negative, normalised negative ----------------------------------------------


def normalized(loss: Array) -> Array:
    return loss / np.sum(loss, axis=1, keepdims=True)


def negative(loss: Array, largest: Any) -> Array:
    """Σ_{k≠y} (A − L(k)), where A = `largest`."""
    flipped = largest - loss
    others = 1 - one_hot(loss.shape[1])
    return np.stack([np.sum(others[y] * flipped, axis=1) for y in range(loss.shape[1])], axis=1)


def normalized_negative(loss: Array, largest: Any) -> Array:
    flipped = largest - loss
    return 1 - flipped / np.sum(flipped, axis=1, keepdims=True)


def floored_ce(x: Prediction, p_min: float) -> tuple[Array, Any]:
    """CE with p clamped to ≥ p_min, and A, its value at p_min."""
    log_p_min = x.math.log(x.math.number(p_min))
    return -np.maximum(x.log_p, log_p_min), -log_p_min


def floored_fl(x: Prediction, gamma: float, p_min: float) -> tuple[Array, Any]:
    """FL with p clamped to ≥ p_min (in the modulator too, or A would not be the largest), and A."""
    cross_entropy, largest = floored_ce(x, p_min)
    modulator = (1 - np.maximum(x.held.p, p_min)) ** gamma
    return modulator * cross_entropy, (1 - x.math.number(p_min)) ** gamma * largest


def nce(x: Prediction) -> Array:
    return normalized(ce(x))


def nfl(x: Prediction, gamma: float) -> Array:
    return normalized(fl(x, gamma))


def nnce(x: Prediction, p_min: float) -> Array:
    return normalized_negative(*floored_ce(x, p_min))


def nnfl(x: Prediction, gamma: float, p_min: float) -> Array:
    return normalized_negative(*floored_fl(x, gamma, p_min))


# --- terms that change the prediction, or look at the whole batch ----------------------------------------


def entropy_gap(x: Prediction, p_min: float) -> Any:
    """log K + Σ_k π_k log π_k, π the batch mean of p; zero when π is uniform."""
    clamp = lambda p: np.minimum(np.maximum(p, p_min), 1 - x.math.number(p_min))  # noqa: E731
    pi = clamp(np.sum(clamp(x.p), axis=0) / len(x.p))
    return x.math.log(x.math.number(x.classes)) + np.sum(pi * x.math.log(pi))


def epsilon_softmax(x: Prediction, m: float, p_floor: float) -> Array:
    """(p + m·onehot(argmax p)) / (m + 1), clamped to ≥ p_floor; the first of equal maxima counts."""
    top = one_hot(x.classes)[np.argmax(x.held.logits, axis=1)]
    return np.maximum((x.p + m * top) / (x.math.number(m) + 1), p_floor)


def eps_ce_mae(x: Prediction, alpha: float, beta: float, m: float, p_floor: float) -> Array:
    return -alpha * x.math.log(epsilon_softmax(x, m, p_floor)) + beta * 2 * (1 - x.p)


def eps_fl_mae(x: Prediction, alpha: float, beta: float, m: float, p_floor: float, gamma: float) -> Array:
    modulator = (1 - epsilon_softmax(x.held, m, p_floor)) ** gamma
    focal = -modulator * x.math.log(epsilon_softmax(x, m, p_floor))
    return alpha * focal + beta * 2 * (1 - x.p)


def logitclip_ce(x: Prediction, bound: float, published: bool) -> Array:
    norm = np.sum(x.logits**2, axis=1, keepdims=True) ** x.math.number(0.5)
    clipped = norm > (1 / x.math.number(bound) if published else bound)
    scale = np.where(clipped, bound / np.where(clipped, norm, 1), 1)
    return ce(Prediction(x.logits * scale, x.math))


# --- the catalogue ---------------------------------------------------------------------------------------

LOSSES: dict[str, Callable[..., Array]] = {
    "ce": ce,
    "fl": fl,
    "mae": mae,
    "rce": rce,
    "gce": gce,
    "sce": lambda x, alpha, beta, label_floor: alpha * ce(x) + beta * rce(x, label_floor),
    "phce": phce,
    "tce": tce,
    "nce": nce,
    "nfl": nfl,
    "nmae": lambda x: normalized(mae(x)),
    "nrce": lambda x, label_floor: normalized(rce(x, label_floor)),
    "agce": agce,
    "aul": aul,
    "ael": ael,
    "nlf-ce": lambda x, p_min: negative(*floored_ce(x, p_min)),
    "nlf-fl": lambda x, gamma, p_min: negative(*floored_fl(x, gamma, p_min)),
    "nnce": nnce,
    "nnfl": nnfl,
    "nce+mae": lambda x, alpha, beta: alpha * nce(x) + beta * mae(x),
    "nce+rce": lambda x, alpha, beta, label_floor: alpha * nce(x) + beta * rce(x, label_floor),
    "nfl+mae": lambda x, alpha, beta, gamma: alpha * nfl(x, gamma) + beta * mae(x),
    "nfl+rce": lambda x, alpha, beta, gamma, label_floor: alpha * nfl(x, gamma) + beta * rce(x, label_floor),
    "nce+agce": lambda x, alpha, beta, a, q: alpha * nce(x) + beta * agce(x, a, q),
    "nce+aul": lambda x, alpha, beta, a, q: alpha * nce(x) + beta * aul(x, a, q),
    "nce+ael": lambda x, alpha, beta, a: alpha * nce(x) + beta * ael(x, a),
    "anl-ce": lambda x, alpha, beta, p_min: alpha * nce(x) + beta * nnce(x, p_min),
    "anl-fl": lambda x, alpha, beta, gamma, p_min: alpha * nfl(x, gamma) + beta * nnfl(x, gamma, p_min),
    "anl-ce*": lambda x, alpha, beta, entropy_weight, p_min: (
        alpha * nce(x) + beta * nnce(x, p_min) + entropy_weight * entropy_gap(x, p_min)
    ),
    "jal-ce": lambda x, alpha, beta, a: alpha * nce(x) + beta * amse(x, a),
    "jal-fl": lambda x, alpha, beta, a, gamma: alpha * nfl(x, gamma) + beta * amse(x, a),
    "eps-ce+mae": eps_ce_mae,
    "eps-fl+mae": eps_fl_mae,
    "logitclip-ce": logitclip_ce,
}

FOCAL = tuple(name for name in LOSSES if "fl" in name)
SWITCHES = ("detach_modulator", "across_ranks")

# A second set of hyper-parameters, different from every default, legal for every loss that has them.
OTHER = {
    "alpha": 0.7,
    "beta": 2.5,
    "gamma": 2.0,
    "q": 2.3,
    "a": 2.2,
    "tau": 5.0,
    "t": 6,
    "scale": 3.0,
    "label_floor": 1e-3,
    "p_min": 1e-4,
    "entropy_weight": 1.7,
    "m": 50.0,
    "p_floor": 1e-3,
    "bound": 0.8,
    "published": True,
}


def hyperparameters(name: str) -> set[str]:
    """Names of the hyper-parameters that the formula has."""
    switches = {"detach_modulator"} if name in FOCAL else {"across_ranks"} if name == "anl-ce*" else set()
    return (set(inspect.signature(_formula(name)).parameters) - {"x"}) | switches


def other_params(name: str) -> dict[str, Any]:
    """Hyper-parameters that are nowhere the defaults."""
    params = {key: OTHER[key] for key in hyperparameters(name) & set(OTHER)}
    if name == "gce":
        params["q"] = 0.35  # GCE's q stands in (0, 1]
    if name in FOCAL:
        params["detach_modulator"] = False
    return params


def _formula(name: str) -> Callable[..., Array]:
    if name not in LOSSES:
        raise KeyError(f"no reference for the loss {name!r}: write it from its formula in {__file__}")
    return LOSSES[name]


def per_class(name: str, logits: Any, *, exact: bool = False, digits: int = 50, **params: Any) -> Array:
    """L(k) for every sample and every label k: (N, K) logits give (N, K) float64 values.

    The switches `detach_modulator` and `across_ranks` are accepted and ignored: the one changes no value,
    the other none in a single process.
    """
    params = {key: value for key, value in params.items() if key not in SWITCHES}
    with mpmath.workdps(digits):
        values = _formula(name)(Prediction(np.asarray(logits), EXACT if exact else FLOAT64), **params)
        return np.asarray(values, dtype=np.float64)


def per_sample(name: str, logits: Any, labels: Any, *, exact: bool = False, **params: Any) -> Array:
    """The loss of each sample, before class weights: (N, K) logits and N labels give N values."""
    return per_class(name, logits, exact=exact, **params)[np.arange(len(labels)), labels]


def gradient(name: str, logits: Any, labels: Any, *, digits: int = 60, **params: Any) -> Array:
    """d (sum of the losses) / d logits, by central differences 1e-20 wide in mpmath.

    The difference is good to about 1e-35, far beyond float64, wherever the loss has no kink. With
    `detach_modulator` the focal modulator keeps the value it has at `logits`.
    """
    formula, detached = _formula(name), params.get("detach_modulator", False)
    params = {key: value for key, value in params.items() if key not in SWITCHES}
    rows = np.arange(len(labels))
    with mpmath.workdps(digits):
        here = EXACT.number(np.asarray(logits))
        step = mpmath.mpf(10) ** -20

        def total(moved: Array) -> Any:
            prediction = Prediction(moved, EXACT, held_logits=here if detached else None)
            return np.sum(formula(prediction, **params)[rows, labels])

        slopes = np.zeros(here.shape)
        for position in np.ndindex(here.shape):
            above, below = here.copy(), here.copy()
            above[position] += step
            below[position] -= step
            slopes[position] = float((total(above) - total(below)) / (2 * step))
        return slopes


# --- the published hyper-parameters ----------------------------------------------------------------------

UNSCALED = ("nce", "nnce", "rce", "mae")  # in every recipe

# recipe -> loss -> hyper-parameters, where the recipe is the same under every noise.
RECIPES: dict[str, dict[str, dict[str, float]]] = {
    "cifar10": {
        "fl": {"gamma": 0.5},
        "gce": {"q": 0.7},
        "sce": {"alpha": 0.1, "beta": 1},
        "phce": {"tau": 2},
        "tce": {"t": 2},
        "nce+rce": {"alpha": 1, "beta": 1},
        "nce+mae": {"alpha": 1, "beta": 1},
        "nfl+rce": {"alpha": 1, "beta": 1, "gamma": 0.5},
        "nce+agce": {"alpha": 1, "beta": 4, "a": 6, "q": 1.5},
        "nce+aul": {"alpha": 1, "beta": 4, "a": 6.3, "q": 1.5},
        "nce+ael": {"alpha": 1, "beta": 4, "a": 5},
        "anl-ce": {"alpha": 5, "beta": 5},
        "anl-fl": {"alpha": 5, "beta": 5, "gamma": 0.5},
        "anl-ce*": {"alpha": 5, "beta": 5, "entropy_weight": 2},
        "jal-ce": {"alpha": 1, "beta": 1, "a": 30},
        "jal-fl": {"alpha": 1, "beta": 1, "a": 30, "gamma": 0.5},
    },
    "cifar100": {
        "fl": {"gamma": 0.5},
        "gce": {"q": 0.7},
        "sce": {"alpha": 6, "beta": 0.1},
        "phce": {"tau": 8},
        "tce": {"t": 8},
        "nce+rce": {"alpha": 10, "beta": 0.1},
        "nce+mae": {"alpha": 10, "beta": 0.1},
        "nfl+rce": {"alpha": 10, "beta": 0.1, "gamma": 0.5},
        "nce+agce": {"alpha": 10, "beta": 0.1, "a": 1.8, "q": 3},
        "nce+aul": {"alpha": 10, "beta": 0.015, "a": 6, "q": 3},
        "nce+ael": {"alpha": 10, "beta": 0.1, "a": 1.5},
        "anl-ce": {"alpha": 10, "beta": 1},
        "anl-fl": {"alpha": 10, "beta": 1, "gamma": 0.5},
        "anl-ce*": {"alpha": 10, "beta": 1, "entropy_weight": 0.01},
        "jal-ce": {"alpha": 5, "beta": 1, "a": 20},
        "jal-fl": {"alpha": 5, "beta": 1, "a": 20, "gamma": 0.5},
    },
    "webvision-mini": {
        "gce": {"q": 0.7},
        "sce": {"alpha": 10, "beta": 1},
        "nce+rce": {"alpha": 50, "beta": 0.1},
        "nce+agce": {"alpha": 50, "beta": 0.1, "a": 2.5, "q": 3},
        "anl-ce": {"alpha": 20, "beta": 1},
        "anl-fl": {"alpha": 20, "beta": 1, "gamma": 0.5},
        "jal-ce": {"alpha": 50, "beta": 1, "a": 30},
        "jal-fl": {"alpha": 50, "beta": 1, "a": 30, "gamma": 0.5},
        "eps-ce+mae": {"alpha": 0.015, "beta": 0.3, "m": 1e3},
        "eps-fl+mae": {"alpha": 0.015, "beta": 0.3, "m": 1e3, "gamma": 0.1},
        "logitclip-ce": {"bound": 1.2, "published": True},
    },
    "animal10n": {"gce": {"q": 0.5}, "anl-ce": {"alpha": 0.5, "beta": 1}},
    "clothing1m": {
        "gce": {"q": 0.6},
        "nce+rce": {"alpha": 10, "beta": 1},
        "anl-ce": {"alpha": 5, "beta": 0.1},
        "jal-ce": {"alpha": 5, "beta": 0.1, "a": 5},
        "jal-fl": {"alpha": 5, "beta": 0.1, "a": 5, "gamma": 0.5},
        "eps-ce+mae": {"alpha": 0.012, "beta": 0.1, "m": 1e3},
        "eps-fl+mae": {"alpha": 0.012, "beta": 0.1, "m": 1e3, "gamma": 0.1},
    },
    "mnist-like": {
        "gce": {"q": 0.7},
        "sce": {"alpha": 0.01, "beta": 1},
        "nce+rce": {"alpha": 1, "beta": 10},
        "nce+mae": {"alpha": 1, "beta": 10},
        "nfl+rce": {"alpha": 1, "beta": 10},
        "nce+agce": {"alpha": 0, "beta": 1, "a": 4, "q": 0.2},
        "nce+aul": {"alpha": 0, "beta": 1, "a": 3, "q": 0.1},
        "nce+ael": {"alpha": 0, "beta": 1, "a": 3.5},
        "anl-ce": {"alpha": 1, "beta": 1},
        "anl-fl": {"alpha": 1, "beta": 1},
    },
}

# δ of the L1 term that a training loop adds; 0 where none is stated.
_ANL_L1 = {"cifar10": 5e-5, "cifar100": 5e-7, "webvision-mini": 6e-6, "mnist-like": 1e-6}
_JAL_L1 = {"cifar10": 5e-5, "cifar100": 5e-6}
L1: dict[str, dict[str, float]] = {
    "anl-ce": {**_ANL_L1, "animal10n": 1e-6},
    "anl-fl": _ANL_L1,
    "anl-ce*": {"cifar10": 5e-5, "cifar100": 5e-7},
    "jal-ce": _JAL_L1,
    "jal-fl": _JAL_L1,
}

# (recipe, noise kind, noise rate) -> α, β, m of ε-softmax, where they depend on the noise.
EPSILON_SOFTMAX: dict[tuple[str, str, float], tuple[float, float, float]] = {
    **{("cifar10", "sym", rate): (0.01, 5, 1e5) for rate in (0.2, 0.8)},
    **{("cifar10", "asym", rate): (0.02, 5, 1e3) for rate in (0.2, 0.4)},
    **{("cifar10", "dep", rate): (0.045, 10, 1e5) for rate in (0.2, 0.6)},
    **{
        ("cifar100", kind, rate): (alpha, 1, 1e4)
        for kind in ("sym", "dep")
        for rate, alpha in {0.2: 0.05, 0.4: 0.03, 0.6: 0.00125, 0.8: 0.0075}.items()
    },
    ("cifar100", "sym", 0.0): (0.1, 1, 1e4),
    ("cifar100", "asym", 0.2): (0.007, 1, 1e2),
    ("cifar100", "asym", 0.4): (0.004, 1, 1e2),
}

# (recipe, noise kind, noise rate) -> bound of LogitClip, by the published rule.
LOGIT_CLIP: dict[tuple[str, str, float], float] = {
    ("cifar10", "sym", 0.2): 1,
    ("cifar10", "sym", 0.4): 1,
    ("cifar10", "sym", 0.5): 1.5,
    ("cifar10", "sym", 0.8): 1.5,
    ("cifar10", "asym", 0.4): 2.5,
    ("cifar10", "real", 0.4): 2.5,
    ("cifar10", "dep", 0.4): 2,
    ("cifar100", "sym", 0.4): 0.5,
    ("cifar100", "dep", 0.4): 0.5,
    ("cifar100", "asym", 0.4): 2.5,
}
