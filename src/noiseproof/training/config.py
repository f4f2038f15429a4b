# SPDX-License-Identifier: Apache-2.0
"""One object holds everything that decides what a run computes; files and flags fill the same fields.

A config starts from its recipe (a TOML file of the package, one for each data set of the paper), then takes what
was published for its loss, or what the recipe itself says of that loss (``for_loss``), then what the user says.
Whoever comes later wins; a key nobody knows is an error.
"""

import functools
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from noiseproof.datasets import registry
from noiseproof.datasets.identity import OWN, identity_of, identity_of_file
from noiseproof.datasets.tuning import PREFIX as TUNING
from noiseproof.losses import checks, published_recipe, record
from noiseproof.losses.recipes import RECIPE_NAMES
from noiseproof.models.imagenet import NAME as IMAGENET
from noiseproof.noise import parse_name, short_name
from noiseproof.noise.names import FILE
from noiseproof.training import config_checks
from noiseproof.training.config_checks import DEEPEST_NESTING, nesting

PUBLISHED_NOISE_SEED = 0
"""Instance-dependent noise was published as one realisation, whatever the run's seed."""

MOST_RECIPE_BYTES = 1 << 20
MOST_FILE_BYTES = 24
"""Of the name of a file with noise, in the name of a run."""

OF_THE_LOSS = ("loss_parameters", "l1", "weight_decay")
"""What a recipe that names a loss says for that loss only."""

NOISE_DIGEST = "noise="
"""Marks the digest of a file with noise among the inputs. Such a file is known by its name and contents, however
its path is written; configs from before the mark are known by the path, and keep their hashes."""

ADDED = {"augment": None, "freeze": False, "inputs": None}
"""Fields that came later, and what they are where nobody uses them: such a config keeps its hash."""

NOT_PART_OF_THE_RESULT = ("device", "compile", "workers", "evaluate_every")
"""Fields that say how to compute, not what: they are stored with a run but not hashed."""


@dataclass(frozen=True)
class Config:
    """What one run computes.

    Attributes:
        dataset: name of a data set, or ``folder:PATH`` or ``csv:PATH``.
        noise: short name of the label noise, such as ``"sym-0.8"``; ``"clean"`` leaves labels as they are, and
            ``"file:PATH"`` takes them from a file, for all of the training split.
        loss: name of a loss in the catalogue.
        loss_parameters: its hyper-parameters; also ``weight``, a list of numbers, one a class, and
            ``ignore_index``, the label of samples or pixels that count nowhere.
        seed: the run's seed, from which noise, initial weights, order and augmentation have streams of their own.
        noise_seed: seed of the label noise alone; by default the run's, and 0 for instance-dependent noise. What
            lies in a file, or was given by people, is not drawn.
        train_size: use only so many training samples, the same ones for every seed; all by default.
        model: name of a network.
        model_options: options of the network.
        weights: file of weights to start from, or ``"imagenet"``, see :mod:`noiseproof.models.imagenet`.
        freeze: train the final layer only, on what the rest of the network makes of images with those weights.
        image_size: side to which image files are brought.
        epochs: passes over the training data.
        batch_size: samples a step, over all processes together.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adamw"``.
        learning_rate: at the start.
        momentum: of SGD.
        nesterov: Nesterov's form of momentum.
        schedule: how the learning rate falls: ``"constant"``, ``"cosine"`` (to 0), ``"exponential"`` (by
            ``schedule_factor`` each epoch), ``"step"`` (by it every ``schedule_every`` epochs) or
            ``"milestones"`` (by it at each of ``schedule_milestones``, shares of all epochs).
        weight_decay: L2, applied by the optimiser.
        l1: strength δ of ``δ·Σ|w|``, through the gradient, before clipping.
        jacobian: strength of the Jacobian's squared norm.
        clip_norm: largest norm of the gradient; 0 does not clip.
        ema: decay of a moving average of the weights, which is then what is tested; 0 keeps none.
        precision: ``"float32"``, ``"tf32"`` or ``"bf16"``.
        sync_batch_norm: take batch-norm's statistics over all processes.
        gradient_quantiles: record how ∂NNCE/∂p is spread over clean and flipped samples.
        compile: compile the network with torch.compile.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, …
        workers: processes that decode image files.
        evaluate_every: epochs between tests; the last epoch is always tested.
        augment: how training pictures are changed at random: as those of this data set, such as ``"cifar10"`` or
            ``"isic2017"``, or ``"none"``; by default as the data set's own recipe says, and the user's own are
            mirrored left to right. Their size and normalisation stay.
        inputs: digest of what is only named above, the user's own data, weights and noise in files.
            :func:`resolve` fills it, so that a run on corrected labels is another run.
    """

    dataset: str
    model: str
    epochs: int
    learning_rate: float
    loss: str = "anl-ce"
    loss_parameters: Mapping[str, Any] = field(default_factory=dict)
    noise: str = "clean"
    seed: int = 1
    noise_seed: int | None = None
    train_size: int | None = None
    model_options: Mapping[str, Any] = field(default_factory=dict)
    weights: str | None = None
    freeze: bool = False
    image_size: int | None = None
    batch_size: int = 128
    optimizer: str = "sgd"
    momentum: float = 0.9
    nesterov: bool = False
    schedule: str = "cosine"
    schedule_factor: float = 0.1
    schedule_every: int = 30
    schedule_milestones: tuple[float, ...] = ()
    weight_decay: float = 0.0
    l1: float = 0.0
    jacobian: float = 0.0
    clip_norm: float = 5.0
    ema: float = 0.0
    precision: str = "float32"
    sync_batch_norm: bool = False
    gradient_quantiles: bool = False
    compile: bool = False
    device: str = "auto"
    workers: int = 2
    evaluate_every: int = 1
    augment: str | None = None
    inputs: str | None = None

    def __post_init__(self) -> None:
        config_checks.check_kinds(self)
        object.__setattr__(self, "loss", record(self.loss).name)
        object.__setattr__(self, "noise", str(parse_name(self.noise)))
        object.__setattr__(self, "schedule_milestones", tuple(self.schedule_milestones))
        config_checks.check_values(self)
        self._write_numbers_one_way()
        config_checks.check_loss(self)
        config_checks.check_schedule(self)

    def _write_numbers_one_way(self) -> None:
        """Turn 5 into 5.0 where a float is meant, so that the same experiment has the same hash."""
        for each in fields(self):
            if each.type is float:
                object.__setattr__(self, each.name, float(getattr(self, each.name)))
        defaults = record(self.loss).defaults
        parameters = {
            name: _written_one_way(value, isinstance(defaults.get(name), float))
            for name, value in self.loss_parameters.items()
        }
        object.__setattr__(self, "loss_parameters", parameters)

    @property
    def drawn_with(self) -> int:
        """The seed of the label noise."""
        if self.noise_seed is not None:
            return self.noise_seed
        return PUBLISHED_NOISE_SEED if parse_name(self.noise).kind in ("dep", "file") else self.seed

    def learning_rate_at(self, epoch: int) -> float:
        """Learning rate during an epoch, counted from 0: a function of the epoch, so that nothing is stored.

        >>> config = Config("digits", "mlp", epochs=4, learning_rate=0.1)
        >>> [round(config.learning_rate_at(epoch), 4) for epoch in range(4)]
        [0.1, 0.0854, 0.05, 0.0146]
        """
        from math import cos, pi

        if self.schedule == "cosine":
            return self.learning_rate * (1 + cos(pi * epoch / self.epochs)) / 2
        if self.schedule == "exponential":
            return self.learning_rate * float(self.schedule_factor**epoch)
        if self.schedule == "step":
            return self.learning_rate * float(self.schedule_factor ** (epoch // self.schedule_every))
        if self.schedule == "milestones":
            # 0.55 of 100 epochs is 55, not 55.00000000000001.
            passed = sum(epoch >= round(share * self.epochs, 6) for share in self.schedule_milestones)
            return self.learning_rate * float(self.schedule_factor**passed)
        return self.learning_rate

    def as_data(self) -> dict[str, Any]:
        """Every field, in types that JSON knows."""
        data = asdict(self)
        data["loss_parameters"] = dict(self.loss_parameters)
        data["model_options"] = {
            k: list(v) if isinstance(v, tuple) else v for k, v in self.model_options.items()
        }
        data["schedule_milestones"] = list(self.schedule_milestones)
        return {key: value for key, value in data.items() if key not in ADDED or value != ADDED[key]}

    @property
    def hash(self) -> str:
        """Hash of all that decides the result: two runs with the same hash are the same experiment."""
        decisive = {k: v for k, v in self.as_data().items() if k not in NOT_PART_OF_THE_RESULT}
        if NOISE_DIGEST in (self.inputs or ""):
            decisive["noise"] = short_name(self.noise)
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def run_id(self) -> str:
        """Name of the run: readable, and different for different configs.

        >>> Config("digits", "mlp", 3, 0.1, loss="anl-ce*", noise="sym-0.6").run_id[:-8]
        'digits-sym-0.6-anl-ce-er-s1-'
        """
        kind, _, path = self.dataset.partition(":")
        source = Path(os.path.abspath(path)).stem if path else kind
        # Other alphabets may take four bytes a letter, and file names hold 255; no dot, lest "con.x" be "con".
        source = "".join(c if c.isalnum() else "-" for c in source)[:30].strip("-") or "data"
        loss = self.loss.replace("*", "-er").replace("+", "-")
        # Nobody knows that the labels of one's own data are clean. Runs from before configs had inputs keep names.
        own = self.dataset.startswith(OWN) and self.inputs is not None
        noise = "given" if own and self.noise == "clean" else _in_a_run_id(self.noise)
        return f"{source}-{noise}-{loss}-s{self.seed}-{self.hash[:8]}"


@functools.cache
def recipe_names() -> tuple[str, ...]:
    """Recipes that come with the package."""
    folder = resources.files("noiseproof.training") / "recipes"
    return tuple(
        sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))
    )


def read_recipe(name: str) -> dict[str, Any]:
    """Read a recipe of the package by name, or a TOML file of the user's by path.

    >>> read_recipe("cifar10")["epochs"]
    120
    """
    if name.endswith(".toml"):
        try:
            if os.path.getsize(name) > MOST_RECIPE_BYTES:
                raise ValueError(f"recipe: expected at most {MOST_RECIPE_BYTES} bytes, {name!r} has more")
            text = Path(name).read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"recipe: cannot read {name!r}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"recipe: {name!r} is not UTF-8 text: {error}") from error
    elif name in recipe_names():
        text = (resources.files("noiseproof.training") / "recipes" / f"{name}.toml").read_text("utf-8")
    else:
        raise ValueError(checks.unknown("recipe", name, recipe_names()))
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of too many digits, and lists without end
        raise ValueError(f"recipe: {name!r} is not TOML: {error}") from error
    _check_keys(values, f"key in {name}")
    for key in ("loss_parameters", "model_options", "for_loss"):
        if not isinstance(values.get(key, {}), dict):
            raise ValueError(
                f"recipe: {name!r}: expected {key} to be a table, got {checks.shown(values[key])}"
            )
    for loss, changes in values.get("for_loss", {}).items():
        if not isinstance(changes, dict) or not isinstance(changes.get("loss_parameters", {}), dict):
            raise ValueError(
                f"recipe: {name!r}: expected for_loss.{loss} to be a table, got {checks.shown(changes)}"
            )
    if nesting(values) > DEEPEST_NESTING:
        raise ValueError(f"recipe: {name!r}: expected at most {DEEPEST_NESTING} levels of tables, found more")
    return values


def resolve(dataset: str, *, recipe: str | None = None, **given: Any) -> Config:
    """Make the config of a run: recipe, then what was published for the loss, then what is ``given``.

    Args:
        dataset: data set to train on.
        recipe: name of a recipe or path of a TOML file; by default the data set's own.
        **given: fields of :class:`Config`, which win. ``loss_parameters`` are added to the published ones.

    Example:
        >>> config = resolve("cifar10", loss="anl-ce", noise="sym-0.8")
        >>> config.epochs, config.l1, config.weight_decay, dict(config.loss_parameters)
        (120, 5e-05, 0.0, {'alpha': 5.0, 'beta': 5.0})
        >>> resolve("cifar10", loss="ce").weight_decay
        0.0001
    """
    _check_keys(given, "argument")
    recipe = recipe or default_recipe(dataset)
    values = read_recipe(recipe) if recipe else {}
    published_for = str(values.pop("published_for", ""))
    loss = record(given.get("loss", values.get("loss", "anl-ce"))).name
    if "loss" in values and record(values["loss"]).name != loss:  # a plan's numbers are those of its own loss
        values = {key: value for key, value in values.items() if key not in OF_THE_LOSS}
    noise = str(given.get("noise", values.get("noise", "clean")))
    if published_for:
        if published_for not in RECIPE_NAMES:
            raise ValueError(checks.unknown("published_for", published_for, RECIPE_NAMES))
        published = published_recipe(loss, published_for)
        values["loss_parameters"] = {
            **values.get("loss_parameters", {}),
            **published.for_noise(_published_noise(dataset, noise)),
        }
        values["l1"] = published.l1 or values.get("l1", 0.0)
        if published.weight_decay is not None:
            values["weight_decay"] = published.weight_decay
    if dataset.startswith(TUNING):  # where what a recipe says of single losses is still to be chosen
        values.pop("for_loss", None)
    if "model" in given and given["model"] != values.get("model"):
        values.pop("model_options", None)
    values = _for_loss(values, loss)
    parameters = {**values.get("loss_parameters", {}), **given.get("loss_parameters", {})}
    values = {
        **values,
        **given,
        "loss": loss,
        "noise": noise,
        "loss_parameters": parameters,
        "dataset": dataset,
    }
    missing = [name for name in ("model", "epochs", "learning_rate") if name not in values]
    if missing:
        if dataset.partition(":")[0] not in {source.prefix for source in registry.prefix_sources()}:
            registry.find(dataset)  # a slip in the name, or before the colon, is told with the nearest one
        if recipe is not None:
            raise ValueError(
                f"recipe {recipe}: expected it to say {', '.join(missing)}, or give them yourself"
            )
        raise ValueError(
            f"{dataset!r} has no recipe of its own, so say {', '.join(missing)} yourself, or name a recipe: "
            f"{', '.join(recipe_names())}"
        )
    config = Config(**values)
    inputs = inputs_of(config.dataset, config.weights, config.noise)
    return config if config.inputs == inputs else replace(config, inputs=inputs)  # which checks it all again


def inputs_of(dataset: str, weights: str | None, noise: str = "clean") -> str | None:
    """Digest of the user's own data, weights and noise as they are now; ``None`` where a config names none."""
    digests = [identity_of(dataset)]
    own_weights = None if weights == IMAGENET else weights  # those of ImageNet do not change
    for path, mark in ((own_weights, ""), (noise_file(noise), NOISE_DIGEST)):
        if path is not None and os.path.isfile(path):
            with suppress(OSError):  # whoever reads them says what is wrong
                digests.append(mark + identity_of_file(Path(path)))
    return "-".join(each for each in digests if each) or None


def noise_file(noise: str) -> str | None:
    """Path of the file that a noise lies in, if it does.

    >>> noise_file("file:labels/noisy.npz"), noise_file("sym-0.8")
    ('labels/noisy.npz', None)
    """
    return os.path.expanduser(noise.removeprefix(FILE)) if noise.startswith(FILE) else None


def _for_loss(values: Mapping[str, Any], loss: str) -> dict[str, Any]:
    """A recipe's values with those that it states for one loss."""
    common = {key: value for key, value in values.items() if key != "for_loss"}
    own: dict[str, Any] = {}
    for name, changes in values.get("for_loss", {}).items():
        _check_keys(changes, f"key of for_loss.{name!r}")
        if record(name).name == loss:
            own = changes
    parameters = {**common.get("loss_parameters", {}), **own.get("loss_parameters", {})}
    return {**common, **own, "loss_parameters": parameters}


def default_recipe(dataset: str) -> str | None:
    """Return the recipe that a data set has by default, if any."""
    same = {"cifar10n": "cifar10", "cifar100n": "cifar100", "fashion-mnist": "mnist-like"}
    dataset = dataset.removeprefix(TUNING)
    name = same.get(dataset, dataset)
    return name if name in recipe_names() else None


def with_changes(config: Config, **changes: Any) -> Config:
    """Return a copy with some fields changed, all checked again."""
    _check_keys(changes, "argument")
    changed = replace(config, **changes)
    in_a_file = noise_file(config.noise) or noise_file(changed.noise)
    if in_a_file and changed.noise != config.noise and "inputs" not in changes:
        return replace(changed, inputs=inputs_of(changed.dataset, changed.weights, changed.noise))
    return changed


def _written_one_way(value: Any, is_float: bool) -> Any:
    """A hyper-parameter as configs hold it: floats where floats are meant, and lists of them."""
    if isinstance(value, list | tuple):
        return [float(each) if type(each) is int else each for each in value]
    return float(value) if is_float and type(value) is int else value


def _in_a_run_id(noise: str) -> str:
    """A noise as a part of a run's name; a file's own is cut by bytes, of which the whole may have 200."""
    if not noise.startswith(FILE):
        return noise
    text = "".join(c if c.isalnum() or c in "._" else "-" for c in short_name(noise).removeprefix(FILE))
    cut = text.encode(errors="ignore")[:MOST_FILE_BYTES].decode(errors="ignore")
    return f"file-{cut.strip('-._') or 'labels'}"


def _published_noise(dataset: str, noise: str) -> str | None:
    """The noise by which hyper-parameters were published; CIFAR-N's labels as they are were given by people."""
    kind = noise.partition("-")[0]
    if kind == "clean" and dataset.removeprefix(TUNING) in ("cifar10n", "cifar100n"):
        return "real"
    return noise if kind in ("clean", "sym", "asym", "dep", "real") else None


def _check_keys(values: Mapping[str, Any], what: str) -> None:
    known = [each.name for each in fields(Config)]
    if what.startswith("key in"):
        known += ["published_for", "for_loss"]
    for key in values:
        if key not in known:
            raise ValueError(checks.unknown(what, key, known))
