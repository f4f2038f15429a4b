# SPDX-License-Identifier: Apache-2.0
"""One finished run in short, from a runs folder or from a file: what tables and figures are made of."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from noiseproof.noise import short_name
from noiseproof.results.line_checks import check_line, shown

if TYPE_CHECKING:
    from noiseproof.training.run_record import RunRecord

MOST_CLASSES = 20
"""Classes up to which a line keeps the whole transition matrix; with more it would outweigh all the rest."""

PARTS, MEANS = ("clean", "flipped"), ("clean_mean", "flipped_mean")
"""Of :class:`Pulls`, by epoch."""

KEPT_OF_ENVIRONMENT = ("versions", "device", "hardware", "processor", "threads", "platform", "commit")
"""What a line says of the machine."""


@dataclass(frozen=True)
class Curves:
    """Accuracies in percent by epoch; None where an epoch was not measured.

    Attributes:
        test: on the test set, against clean labels.
        clean: on training samples whose label is right.
        flipped: on training samples whose label is wrong, against that wrong label.
    """

    test: tuple[float | None, ...] = ()
    clean: tuple[float | None, ...] = ()
    flipped: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Pulls:
    """Quantiles and means of ``max_{j≠y} ∂NNCE/∂p_j`` by epoch, of samples with right and with wrong labels.

    An epoch is None where there was no such sample. Runs that recorded no means have none here. Classes below p_min
    have no gradient; ``floored`` is the same by the formula at max(p, p_min), where that was recorded.
    """

    quantiles: tuple[float, ...]
    clean: tuple[tuple[float, ...] | None, ...]
    flipped: tuple[tuple[float, ...] | None, ...]
    clean_mean: tuple[float | None, ...] = ()
    flipped_mean: tuple[float | None, ...] = ()
    floored: "Pulls | None" = None


@dataclass(frozen=True)
class Result:
    """One finished run.

    Attributes:
        dataset: its data set.
        loss: catalogue name of its loss.
        noise: short name of its label noise.
        seed: its seed.
        score: the result in percent: accuracy at the last epoch, or Dice, mean over the last ten.
        config_hash: identifies the experiment.
        method: label of its row in a table; the loss's name unless a grid says otherwise.
        metric: what ``score`` is, ``"test_accuracy"`` or ``"test_dice"``.
        variant: what sets it apart from the table's own runs, if anything.
        run: its name in the runs folder; None in lines that do not say.
        config: the resolved config; empty in lines that do not say.
        seconds: what its epochs took.
        realised_rate: share of wrong labels.
        noise_facts: what else is known of the noise: ``class_rates``, ``transition`` (rows = true class),
            ``label_marginals``, ``class_names``, ``generator``, ``seed``.
        curves: accuracies by epoch.
        predicted_marginals: mean predicted probability of each class over the last epoch's training samples.
        pulls: how gradients were spread, where that was asked for.
        environment: versions, device, hardware, commit.
        per_image: for masks the mean of the images' own Dice, beside ``score``, which is pooled over all.
    """

    dataset: str
    loss: str
    noise: str
    seed: int
    score: float
    config_hash: str
    method: str
    metric: str = "test_accuracy"
    variant: str | None = None
    run: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    realised_rate: float | None = None
    noise_facts: Mapping[str, Any] = field(default_factory=dict)
    curves: Curves = field(default_factory=Curves)
    predicted_marginals: tuple[float, ...] | None = None
    pulls: Pulls | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    per_image: float | None = None

    @property
    def best(self) -> tuple[float, int] | None:
        """The best test accuracy and its epoch, counted from 1: picked on the test set, for comparison only."""
        tested = [(value, -number) for number, value in enumerate(self.curves.test, 1) if value is not None]
        if not tested:
            return None
        value, number = max(tested)  # the first of several equal ones
        return value, -number

    @property
    def name(self) -> str:
        """What to call the run: its name, or its hash where no name is known."""
        return self.run or self.config_hash


def result_of_record(record: "RunRecord", method: str | None = None, variant: str | None = None) -> Result:
    """Turn a finished run of a store into a result.

    Args:
        record: a run as :meth:`noiseproof.training.store.Store.get` returns it, with its epochs.
        method: label of its row; the loss's name by default.
        variant: what sets it apart, if anything.

    Raises:
        ValueError: it has not finished, or comes without its epochs.
    """
    from noiseproof.training.outcome import score_name

    if record.status != "finished":
        raise ValueError(f"run {record.id} is {record.status}, not finished: it has no result yet")
    if not record.epochs:
        raise ValueError(f"run {record.id} comes without its epochs; take it with Store.get, not from a list")
    config, noise, last = record.config, record.noise, record.epochs[-1]
    metric = score_name(last)
    score = _number(last.get(metric) if metric == "test_accuracy" else (record.result or {}).get(metric))
    if score is None:
        raise ValueError(f"run {record.id} has no {metric.replace('_', ' ')} at its last epoch")
    return Result(
        dataset=str(config["dataset"]),
        loss=str(config["loss"]),
        noise=short_name(str(config["noise"])),
        seed=int(config["seed"]),
        score=score,
        config_hash=record.config_hash,
        method=str(config["loss"]) if method is None else method,
        metric=metric,
        per_image=_number((record.result or {}).get(PER_IMAGE)),
        variant=variant,
        run=record.id,
        config=config,
        seconds=record.seconds,
        realised_rate=_number(noise.get("realised_rate")),
        noise_facts={key: value for key, value in noise.items() if key not in ("name", "realised_rate")},
        curves=Curves(
            _curve(epoch.get(metric) for epoch in record.epochs),
            _curve(epoch.get("clean_accuracy") for epoch in record.epochs),
            _curve(epoch.get("flipped_accuracy") for epoch in record.epochs),
        ),
        predicted_marginals=_marginals(last.get("predicted_marginals")),
        pulls=_pulls_of_epochs(record.epochs),
        environment=record.environment,
    )


CURVES = ("test", "clean", "flipped")
METRICS = ("test_accuracy", "test_dice")
PER_IMAGE = "test_dice_per_image"


def result_of_line(line: Mapping[str, Any]) -> Result:
    """Turn one object of a results file into a result; fields that older lines lack stay empty.

    Raises:
        ValueError: it lacks one of the fields that every line has, or one is of another kind.
    """
    metric = next((name for name in METRICS if line.get(name) is not None), METRICS[0])
    for key in ("dataset", "loss", "noise", "seed", metric, "config_hash"):
        if line.get(key) is None:
            raise ValueError(f"a result needs {key!r}; there are {', '.join(sorted(line)) or 'no fields'}")
    check_line(line)
    epochs = line.get("epochs") or {}
    pulls = epochs.get("strongest_pull")
    score = _number(line[metric])
    if score is None:
        raise ValueError(f"{metric}: expected a number, got {shown(line[metric])}")
    return Result(
        dataset=line["dataset"],
        loss=line["loss"],
        noise=line["noise"],
        seed=line["seed"],
        score=score,
        config_hash=line["config_hash"],
        method=str(line.get("method") or line["loss"]),
        metric=metric,
        per_image=_number(line.get(PER_IMAGE)),
        variant=None if line.get("variant") is None else str(line["variant"]),
        run=None if line.get("run") is None else str(line["run"]),
        config=line.get("config") or {},
        seconds=_number(line.get("seconds")),
        realised_rate=_number(line.get("realised_rate")),
        noise_facts=line.get("noise_facts") or {},
        curves=Curves(*(_curve(epochs.get(which) or ()) for which in CURVES)),
        predicted_marginals=_marginals(line.get("predicted_marginals")),
        pulls=_pulls_of_line(pulls, pulls["quantiles"]) if pulls else None,
        environment=line.get("environment") or {},
    )


def line_of_result(result: Result) -> dict[str, Any]:
    """Return what a results file says of a run: rounded, and nothing that a table or figure does not use."""
    facts = {key: value for key, value in result.noise_facts.items() if key != "transition"}
    transition = result.noise_facts.get("transition")
    if transition is not None and len(transition) <= MOST_CLASSES:
        facts["transition"] = [[_rounded(share, 4) for share in row] for row in transition]
    epochs: dict[str, Any] = {
        which: [_rounded(value, 2) for value in getattr(result.curves, which)] for which in CURVES
    }
    if result.pulls is not None:
        epochs["strongest_pull"] = {"quantiles": list(result.pulls.quantiles), **_line_of_pulls(result.pulls)}
    line = {
        "dataset": result.dataset,
        "loss": result.loss,
        "noise": result.noise,
        "seed": result.seed,
        result.metric: _rounded(result.score, 4),
        PER_IMAGE: _rounded(result.per_image, 4),
        "method": result.method,
        "variant": result.variant,
        "config_hash": result.config_hash,
        "run": result.run,
        "seconds": _rounded(result.seconds, 1),
        "realised_rate": _rounded(result.realised_rate, 6),
        "noise_facts": facts,
        "config": dict(result.config),
        "epochs": epochs,
        "predicted_marginals": None
        if result.predicted_marginals is None
        else list(result.predicted_marginals),
        "environment": {k: v for k, v in result.environment.items() if k in KEPT_OF_ENVIRONMENT},
    }
    return {key: value for key, value in line.items() if value is not None}


def _line_of_pulls(pulls: Pulls) -> dict[str, Any]:
    line: dict[str, Any] = {part: [_significant(each) for each in getattr(pulls, part)] for part in PARTS}
    for which in MEANS:
        if means := getattr(pulls, which):
            line[which] = [None if mean is None else float(f"{mean:.4g}") for mean in means]
    if pulls.floored is not None:
        line["floored"] = _line_of_pulls(pulls.floored)
    return line


def _pulls_of_line(line: Mapping[str, Any], levels: Sequence[float]) -> Pulls:
    clean, flipped = (_spread(line[part]) for part in PARTS)
    clean_mean, flipped_mean = (_curve(line.get(means) or ()) for means in MEANS)
    floored = _pulls_of_line(line["floored"], levels) if line.get("floored") else None
    return Pulls(tuple(map(float, levels)), clean, flipped, clean_mean, flipped_mean, floored)


def _pulls_of_epochs(epochs: Sequence[Mapping[str, Any]]) -> Pulls | None:
    recorded = [epoch.get("strongest_pull") for epoch in epochs]
    levels = next((each["quantiles"] for each in recorded if each), None)
    return None if levels is None else _pulls_of_line(_by_key(recorded), levels)


def _by_key(recorded: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Lists over the epochs, as a line has them, of what each epoch recorded."""
    keys = [key for key in (*PARTS, *MEANS) if any(each and key in each for each in recorded)]
    line: dict[str, Any] = {key: [each and each.get(key) for each in recorded] for key in keys}
    if any(each and each.get("floored") for each in recorded):
        line["floored"] = _by_key([each and each.get("floored") for each in recorded])
    return line


def _spread(epochs: Sequence[Sequence[float] | None]) -> tuple[tuple[float, ...] | None, ...]:
    return tuple(map(_marginals, epochs))


def _curve(values: Any) -> tuple[float | None, ...]:
    return tuple(_number(value) for value in values)


def _marginals(values: Sequence[float] | None) -> tuple[float, ...] | None:
    return None if values is None else tuple(map(float, values))


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else stands there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return None
    return number if math.isfinite(number) else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _significant(values: tuple[float, ...] | None) -> list[float] | None:
    return None if values is None else [float(f"{value:.4g}") for value in values]
