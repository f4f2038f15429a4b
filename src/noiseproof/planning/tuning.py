# SPDX-License-Identifier: Apache-2.0
"""A search for numbers on noisy labels, by Optuna; trials are kept in an SQLite file that processes can share.

Users have no clean labels to choose by, so trials are judged by held-out labels that are as wrong as the rest.
Accuracy on symmetric noise orders models as accuracy on true labels does, up to chance; ``docs/tune.md`` has what
that costs.
"""

import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noiseproof.planning.space import Range, named_space, space_of, with_numbers
from noiseproof.planning.trials import TrialData, train_trial, trial_data
from noiseproof.training.config import NOT_PART_OF_THE_RESULT, Config
from noiseproof.training.interruption import Interrupted, Interruption
from noiseproof.training.run import NotFiniteError
from noiseproof.training.run_names import storable

FILE_NAME = "tuning.sqlite"
PRUNERS = ("median", "hyperband", "none")
JUDGES = ("noisy", "clean")
STARTUP_TRIALS = 8
"""Trials drawn at random before the search learns from them, and before any is cut short."""

INTERRUPTED = "interrupted"
"""Marks a trial that was stopped, not one that failed."""


@dataclass(frozen=True)
class Trial:
    """One trial that is over.

    Attributes:
        number: counted from 0.
        numbers: what was tried, by name.
        score: accuracy on held-out labels in percent, of the last epoch; ``None`` of one that was cut short.
        state: ``"complete"``, ``"pruned"`` or ``"fail"``.
        epochs: epochs that it was trained.
    """

    number: int
    numbers: Mapping[str, float]
    score: float | None
    state: str
    epochs: int


@dataclass(frozen=True)
class Search:
    """How a search came out.

    Attributes:
        study: its name.
        base: the config whose numbers were searched.
        space: what was searched.
        trials: all that are over.
        best: the best one.
    """

    study: str
    base: Config
    space: tuple[Range, ...]
    trials: tuple[Trial, ...]
    best: Trial

    @property
    def config(self) -> Config:
        """The config with the numbers of the best trial."""
        return with_numbers(self.base, self.space, self.best.numbers)


def optuna_or_error() -> Any:
    """Import Optuna, or say how to get it."""
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise ImportError("a search needs Optuna: pip install 'noiseproof[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def study_name(config: Config, on: str = "noisy", numbers: Sequence[str] = ()) -> str:
    """The name that a search has by default: the same for the same config and the same numbers.

    >>> from noiseproof.training import resolve
    >>> study_name(resolve("digits", noise="sym-0.4"))[:-8]
    'digits-sym-0.4-anl-ce-s1-'
    >>> study_name(resolve("digits", noise="sym-0.4"), numbers=["alpha=1:9", "l1"])[-12:]
    '-of-alpha-l1'
    """
    named = [each.partition("=")[0].strip() for each in numbers]
    of = "-of-" + "-".join(named) if named else ""
    return config.run_id + ("" if on == "noisy" else f"-on-{on}") + of


def search(
    config: Config,
    *,
    trials: int = 30,
    folder: Path | str,
    study: str | None = None,
    on: str = "noisy",
    share: float = 0.1,
    pruner: str = "median",
    tell: Callable[[Trial, int], None] | None = None,
    data: TrialData | None = None,
    numbers: Sequence[str] = (),
) -> Search:
    """Search until a study has this many trials, including earlier ones and those of other processes.

    Args:
        config: where to start; its own values are the first trial.
        trials: total number of trials.
        folder: runs folder; the study is kept in ``tuning.sqlite`` there.
        study: name of the study; by default the config's.
        on: ``"noisy"``, or ``"clean"`` to judge trials by true labels where they are known, for comparison.
        share: of the training data to hold out.
        pruner: how trials that fall behind are cut short: ``"median"``, ``"hyperband"`` or ``"none"``.
        tell: called after every trial, with the trial and the number of finished trials.
        data: already made by :func:`~noiseproof.planning.trials.trial_data`.
        numbers: search only these, each as ``NAME=LOW:HIGH`` or ``NAME``: hyperparameters of the loss and fields
            of the config (:func:`~noiseproof.planning.space.named_space`).

    Raises:
        Interrupted: it was asked to stop; finished trials are kept, and the current one is repeated next time.
    """
    optuna = optuna_or_error()
    _check(config, trials, on, share, pruner)
    space = named_space(config, numbers) if numbers else space_of(config)
    name = study or study_name(config, on, numbers)
    storage = _storage(optuna, Path(folder))
    settings = _settings(config, on, share, space if numbers else ())
    found = _open(optuna, name, storage, config, space, settings, pruner)
    if _over(found) < trials:
        data = data or trial_data(config, share=share)
        judged = data.noisy if on == "noisy" else data.clean
        with Interruption() as interruption:
            while _over(found) < trials:
                if interruption.requested:
                    raise Interrupted(name)
                _one_trial(optuna, found, config, space, judged, interruption)
                if tell is not None:
                    tell(_trials(found)[-1], _over(found))
    over = _trials(found)
    complete = [each for each in over if each.score is not None and each.state == "complete"]
    if not complete:
        raise RuntimeError(f"study {name}: none of {len(over)} trials was completed; raise --trials")
    best = max(complete, key=lambda each: (each.score or 0.0, -each.number))
    return Search(name, config, space, tuple(over), best)


def _check(config: Config, trials: int, on: str, share: float, pruner: str) -> None:
    if trials < 1:
        raise ValueError(f"trials: expected at least 1, got {trials}")
    if on not in JUDGES:
        raise ValueError(f"on: expected one of {', '.join(JUDGES)}, got {on!r}")
    if on == "clean" and config.noise == "clean":
        raise ValueError(
            "on: true labels are known only if the noise is added here; use --noise sym-0.4, or leave out --on"
        )
    if not 0 < share < 1:
        raise ValueError(f"share: expected a share of the samples between 0 and 1, got {share}")
    if pruner not in PRUNERS:
        raise ValueError(f"pruner: expected one of {', '.join(PRUNERS)}, got {pruner!r}")


def _storage(optuna: Any, folder: Path) -> Any:
    folder.mkdir(parents=True, exist_ok=True)
    path = (folder / FILE_NAME).absolute()
    # A second process may hold the file for a moment: wait for it instead of failing.
    return optuna.storages.RDBStorage(f"sqlite:///{path}", engine_kwargs={"connect_args": {"timeout": 60}})


def _open(
    optuna: Any,
    name: str,
    storage: Any,
    config: Config,
    space: tuple[Range, ...],
    settings: str,
    pruner: str,
) -> Any:
    """A study, new or found; one that was begun with other settings is refused."""
    new = name not in {each.study_name for each in optuna.get_all_study_summaries(storage)}
    tried = 0 if new else len(optuna.load_study(study_name=name, storage=storage).trials)
    # A sampler begins its random numbers anew in each process: without another seed it would repeat itself.
    seed = config.seed if tried == 0 else (config.seed + 7919 * tried + os.getpid()) % 2**32
    warm_up = max(1, config.epochs // 5)
    pruners = {
        "median": lambda: optuna.pruners.MedianPruner(STARTUP_TRIALS, n_warmup_steps=warm_up),
        "hyperband": lambda: optuna.pruners.HyperbandPruner(max(1, config.epochs // 9), config.epochs),
        "none": lambda: optuna.pruners.NopPruner(),
    }
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction="maximize",
        load_if_exists=True,
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS, constant_liar=True),
        pruner=pruners[pruner](),
    )
    if new:
        study.set_user_attr("settings", settings)
        study.enqueue_trial({each.name: each.start for each in space})
    elif (before := study.user_attrs.get("settings")) not in (None, settings):
        raise ValueError(
            f"study: {name!r} was started with other settings ({_difference(before, settings)}); choose another "
            "--study, or repeat the command that started it"
        )
    return study


def _settings(config: Config, on: str, share: float, named: Sequence[Range]) -> str:
    decisive = {k: v for k, v in config.as_data().items() if k not in NOT_PART_OF_THE_RESULT}
    ranges = {"search": [f"{each.name}={each.low:g}:{each.high:g}" for each in named]} if named else {}
    return json.dumps(decisive | {"on": on, "share": share} | ranges, sort_keys=True)


def _difference(before: str, now: str) -> str:
    then, today = json.loads(before), json.loads(now)
    names = sorted(name for name in {*then, *today} if then.get(name) != today.get(name))
    return ", ".join(f"{name} {then.get(name)!r} instead of {today.get(name)!r}" for name in names)


def _one_trial(
    optuna: Any,
    study: Any,
    config: Config,
    space: tuple[Range, ...],
    data: Any,
    interruption: Interruption,
) -> None:
    asked = study.ask()
    numbers = {each.name: asked.suggest_float(each.name, each.low, each.high, log=each.log) for each in space}
    last: list[float] = []

    def after_epoch(epoch: int, accuracy: float) -> None:
        last.append(accuracy)
        asked.report(accuracy, epoch)
        if epoch < config.epochs and asked.should_prune():
            raise optuna.TrialPruned

    states = optuna.trial.TrialState
    try:
        train_trial(with_numbers(config, space, numbers), data, after_epoch, interruption)
    except optuna.TrialPruned:
        study.tell(asked, state=states.PRUNED)  # its value is then that of its last epoch
    except NotFiniteError as error:
        asked.set_user_attr("error", storable(str(error)))
        study.tell(asked, state=states.FAIL)
    except (Interrupted, KeyboardInterrupt):
        asked.set_user_attr(INTERRUPTED, True)
        study.tell(asked, state=states.FAIL)
        study.enqueue_trial(numbers)
        raise Interrupted(study.study_name) from None
    except BaseException:
        study.tell(asked, state=states.FAIL)
        raise
    else:
        study.tell(asked, last[-1])


def _over(study: Any) -> int:
    return len(_trials(study))


def _trials(study: Any) -> list[Trial]:
    """Trials that are over, in the order in which they were begun; those that were stopped are left out."""
    found = []
    for each in study.get_trials(deepcopy=False):
        state = each.state.name.lower()
        if state in ("complete", "pruned", "fail") and not each.user_attrs.get(INTERRUPTED):
            found.append(
                Trial(each.number, dict(each.params), each.value, state, len(each.intermediate_values))
            )
    return found
