# SPDX-License-Identifier: Apache-2.0
"""``noiseproof train``: one run from the command line, with the paper's recipe or a plan for the user's data."""

import math
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail
from noiseproof.command_line.initial_weights import remark_on
from noiseproof.command_line.options import KeptIn, Quiet, read_setting
from noiseproof.command_line.set_option import OPTIONS_OF_WORDS, is_field, numbers_of, parameter_of
from noiseproof.command_line.terminal import mean_over

if TYPE_CHECKING:
    from noiseproof.training import Config
    from noiseproof.training.store import RunRecord

MANY_TESTED = 400
"""Test pictures from which on chance makes less than 5 points of accuracy."""

EPILOG = """
[bold]Examples[/bold]

  noiseproof train digits --noise sym-0.6 --loss anl-ce

  noiseproof train cifar10 --noise sym-0.8 --loss anl-ce --seed 1

  noiseproof train cifar10 --noise file:noisy.npz --loss anl-ce   noise saved by noiseproof noise

  noiseproof train folder:photos --loss anl-ce --model resnet18

  noiseproof train folder:photos --recipe plan.toml   a plan written by noiseproof plan

  noiseproof train isic2017 --noise masks-0.7-0.7 --loss t-loss

  noiseproof train folder:cells --loss ce --set weight=1,2,3 --set ignore_index=255

  noiseproof train cifar10 --loss anl-ce --set alpha=2 --set beta=3 --epochs 30

  noiseproof train cifar10 --noise sym-0.8 --loss anl-ce --l1 1e-5 --dry-run   compare with the recipe

  noiseproof train --resume cifar10-sym-0.8-anl-ce-s1-3f2a91c0

  torchrun --nproc-per-node 2 -m noiseproof train cifar10 --loss anl-ce
"""


def train(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="A name from noiseproof data list, or folder:PATH or csv:PATH."
        ),
    ] = None,
    loss: Annotated[str | None, typer.Option(help="Name of a loss; noiseproof losses lists them.")] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="Label noise to add: clean (none, the default), sym-RATE, asym-RATE, dep-RATE or real (human "
            "labels); masks-SHARE-STRENGTH for masks; file:PATH for noise saved by noiseproof noise. Generators "
            "other than the published one: sym-RATE-bernoulli and so on."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed for noise, initial weights, order and augmentation.")
    ] = None,
    noise_seed: Annotated[int | None, typer.Option(help="Use another seed for the noise.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A hyperparameter of the loss, such as alpha=5, weight=1,2,3 (one number per class) or "
            "published=true; or a config field that has no option, such as momentum=0.95. May be repeated.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            help="Recipe to use instead of the data set's own: a name or TOML file; auto: plan one for the data."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="A name from noiseproof models, or timm:NAME.")] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Start from the weights in this file, or from ImageNet's: imagenet.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per training step.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--lr", help="Initial learning rate.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="Optimiser: sgd, adam or adamw.")] = None,
    schedule: Annotated[
        str | None,
        typer.Option(help="Learning rate over time: constant, cosine, exponential, step or milestones."),
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="Weight decay (L2), applied by the optimiser.")
    ] = None,
    freeze: Annotated[
        bool | None,
        typer.Option("--freeze/--no-freeze", help="Train the final layer only, and keep those weights."),
    ] = None,
    l1: Annotated[float | None, typer.Option("--l1", help="Strength δ of L1 on the weights.")] = None,
    jacobian: Annotated[float | None, typer.Option(help="Strength of the Jacobian penalty.")] = None,
    clip_norm: Annotated[
        float | None, typer.Option(help="Clip the gradient to this norm; 0: do not clip.")
    ] = None,
    augment: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Change training images at random as those of cifar10, cifar100, isic2017 (flips both ways, "
            "gamma) or webvision-mini; none: not at all, e.g. for digits or text.",
        ),
    ] = None,
    ema: Annotated[
        float | None, typer.Option(help="Keep a moving average of the weights with this decay.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Numeric precision: float32, tf32 or bf16.")] = None,
    train_size: Annotated[int | None, typer.Option(help="Use only this many training images.")] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Resize images and masks to squares of this size, in pixels.")
    ] = None,
    evaluate_every: Annotated[int | None, typer.Option(help="Number of epochs between tests.")] = None,
    device: Annotated[str | None, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes for decoding images.")] = None,
    compile_: Annotated[
        bool, typer.Option("--compile", help="Compile the network with torch.compile.")
    ] = False,
    sync_batch_norm: Annotated[
        bool, typer.Option("--sync-batch-norm", help="Compute batch-norm statistics over all GPUs.")
    ] = False,
    gradient_quantiles: Annotated[
        bool, typer.Option("--gradient-quantiles", help="Record the distribution of ∂NNCE/∂p.")
    ] = False,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Resume a run that was stopped.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only show the config and how it differs from the recipe; needs no data."
        ),
    ] = False,
    folder: KeptIn = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(help="Also send metrics to tensorboard, mlflow or wandb. May be repeated."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train a network on labels that may be wrong."""
    given = {
        "loss": loss,
        "noise": noise,
        "seed": seed,
        "noise_seed": noise_seed,
        "model": model,
        "weights": weights,
        "freeze": freeze,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "optimizer": optimizer,
        "schedule": schedule,
        "weight_decay": weight_decay,
        "l1": l1,
        "jacobian": jacobian,
        "clip_norm": clip_norm,
        "augment": augment,
        "ema": ema,
        "precision": precision,
        "train_size": train_size,
        "image_size": image_size,
        "evaluate_every": evaluate_every,
        "device": device,
        "workers": workers,
        "compile": compile_ or None,
        "sync_batch_norm": sync_batch_norm or None,
        "gradient_quantiles": gradient_quantiles or None,
    }
    said = {name: value for name, value in given.items() if value is not None}
    _run(dataset, recipe, said, set_ or [], resume, folder, sink or [], quiet, dry_run)


def _run(
    dataset: str | None,
    recipe: str | None,
    said: dict[str, Any],
    parameters: list[str],
    resume: str | None,
    folder: Path | None,
    sinks: list[str],
    quiet: bool,
    dry_run: bool,
) -> None:
    from noiseproof import training
    from noiseproof.datasets import DataError
    from noiseproof.planning.own_data import is_planned
    from noiseproof.plugins import command_name
    from noiseproof.training import ranks
    from noiseproof.training.store import Store, default_folder

    place = "" if folder in (None, default_folder()) else f" --folder {shlex.quote(str(folder))}"
    folder = folder or default_folder()
    try:
        if resume is not None:
            more = {"DATASET": dataset, "--recipe": recipe, "--set": parameters}
            config = _config_of(resume, folder, said | {name: value for name, value in more.items() if value})
        elif dataset is None:
            raise ValueError("name the data to train on, e.g. noiseproof train digits, or give --resume RUN")
        else:
            config = _new_config(dataset, recipe, said, parameters, quiet)
        with Store(folder) as store:
            is_known = bool(store.find(config.hash))
        if dry_run:
            source = "plan" if is_planned(config.dataset, recipe) else "recipe"
            _show_config(config, None if resume else _as_it_stands(config, recipe), source, is_known)
            return
        remark = remark_on([config], "--weights imagenet")
        if remark and ranks.is_first() and not quiet:
            typer.echo(remark, err=True)
        record = training.train(config, folder=folder, quiet=quiet, sinks=sinks)
    except training.Interrupted as stopped:
        command = f"{command_name()} train --resume {stopped}{place}"
        typer.echo(f"Stopped; nothing is lost. Resume with: {command}", err=True)
        raise typer.Exit(130) from None
    except (ValueError, TypeError, DataError, OSError, ImportError, RuntimeError) as error:
        fail(error)
    if ranks.is_first() and record.result is not None:
        if is_known:
            typer.echo(
                f"This config was already trained (finished {record.ended}), so it is not trained again."
            )
        typer.echo(f"{_told(record)}{place}")
        if lost := _lost(record):
            typer.echo(lost)


def _told(record: "RunRecord") -> str:
    """The result in a line or two."""
    result = record.result or {}
    count = result.get("test_samples")  # older records do not have it
    on = "held-out training images, whose labels may be wrong too" if result.get("held_out") else "test data"
    tested = [f"{count} images"] if count else []
    if "test_dice" in result:
        best = result["best_test_dice"]
        score = (
            f"test Dice {result['test_dice']:.2f}% ({result['test_dice_per_image']:.2f}% per image), "
            f"{mean_over(result['averaged_epochs'])}"
        )
    else:
        best = result["best_test_accuracy"]
        score = f"test accuracy {result['test_accuracy']:.2f}% after the last epoch"
        if count and count < MANY_TESTED:
            tested.append(f"so ±{_by_chance(result['test_accuracy'], count):.0f} points by chance alone")
    on += f" ({', '.join(tested)})" if tested else ""
    return (
        f"{record.id}: {score}, on {on}; best {best:.2f}% at epoch {result['best_epoch']}; trained in "
        f"{record.seconds:.0f} s. Details: noiseproof runs {record.id}"
    )


def _lost(record: "RunRecord") -> str:
    """What to do about classes that the run does not predict; empty where it predicts all."""
    from noiseproof.command_line.terminal import printable
    from noiseproof.results import result_of_record
    from noiseproof.results.lost_classes import lost_classes, named

    lost = lost_classes(result_of_record(record))
    if not lost:
        return ""
    others = " or ".join(name for name in ("gce", "ce") if name != record.config["loss"])
    return (
        f"Hardly ever predicted, although labels name them: {printable(named(lost))}. The loss has given them up "
        "or training was too short: try more epochs, a smaller batch, another seed, or a loss less prone to losing "
        f"classes, such as {others}. From a handful of images, no loss learns a class."
    )


def _by_chance(accuracy: float, count: int) -> float:
    """Half of the 95% interval (Wilson's) of an accuracy in percent that was measured on so many pictures.

    >>> round(_by_chance(50.0, 100)), round(_by_chance(100.0, 1))
    (10, 40)
    """
    share, z = accuracy / 100, 1.96
    return 100 * z * math.sqrt(share * (1 - share) / count + (z / count / 2) ** 2) / (1 + z * z / count)


def _new_config(
    dataset: str, recipe: str | None, said: dict[str, Any], parameters: list[str], quiet: bool
) -> "Config":
    from noiseproof.planning.own_data import Choice, config_of
    from noiseproof.training import ranks

    def show(choice: Choice) -> None:
        if not quiet and ranks.is_first():
            typer.echo(f"{choice.field} = {choice.value!r}: {choice.reason}")

    fields: dict[str, Any] = {}
    of_loss: dict[str, Any] = {}
    its_own = numbers_of(said.get("loss"))
    for text in parameters:
        name = text.partition("=")[0].strip()
        if name in OPTIONS_OF_WORDS and name not in its_own:
            raise ValueError(f"--set {name}: give it as {OPTIONS_OF_WORDS[name]} instead")
        if text.endswith("=auto"):  # that is: by recipe or plan
            continue
        if name in its_own or not is_field(name):
            of_loss.update([parameter_of(text)])
            continue
        if name in said:
            raise ValueError(
                f"--set {name}: given twice, as it also has its own option; leave one of the two out"
            )
        fields.update([read_setting(text)])
    return config_of(dataset, recipe, {**said, **fields, "loss_parameters": of_loss}, show)


def _as_it_stands(config: "Config", recipe: str | None) -> "Config | None":
    """The config of the same loss, noise and seed with nothing else said; None where that cannot be trained.

    Recipe and published numbers, or plan. It takes what was said to train on some data, such as one size of masks.
    """
    from noiseproof.datasets import DataError
    from noiseproof.planning.own_data import config_of

    said = {"loss": config.loss, "noise": config.noise, "seed": config.seed, "noise_seed": config.noise_seed}
    with suppress(ValueError, TypeError, DataError):
        return config_of(config.dataset, recipe, said)
    return None


def _show_config(config: "Config", usual: "Config | None", source: str, is_known: bool) -> None:
    """Print a config, and beside each field that is not as its source, a recipe or plan, has it what that has."""
    from noiseproof.losses import record
    from noiseproof.training.config import ADDED

    state = "already trained, so it would not be trained again" if is_known else "not trained yet"
    typer.echo(f"{config.run_id}: {state}\n")
    fields, others = config.as_data(), None if usual is None else ADDED | usual.as_data()
    if others is not None:
        fields |= {
            name: value for name, value in ADDED.items() if name not in fields and others[name] != value
        }
    width = max(map(len, fields))
    changed = []
    for name, value in fields.items():
        aside = ""
        if others is not None and others.get(name) != value:
            changed.append(name)
            aside = f"    ({source}: {_as_shown(name, others.get(name))})"
        if name == "loss_parameters":
            value = record(config.loss).defaults | value
        typer.echo(f"  {name:{width}}  {_as_shown(name, value)}{aside}")
    if usual is not None:
        said = (
            f"Different from the {source}: {', '.join(changed)}"
            if changed
            else f"Everything as in the {source}"
        )
        typer.echo(f"\n{said}.{f' Without that: {usual.run_id}.' if usual.hash != config.hash else ''}")


def _as_shown(name: str, value: Any) -> str:
    """A value on one line; of augmentation, none is another one than what is usual.

    >>> _as_shown("augment", "none"), _as_shown("augment", None), _as_shown("weights", None)
    ('none', 'as usual', 'none')
    """
    from noiseproof.command_line.run_page import readable

    return "as usual" if name == "augment" and value is None else readable(value)


def _config_of(run: str, folder: Path, said: dict[str, Any]) -> "Config":
    from noiseproof.training import Config
    from noiseproof.training.config import NOT_PART_OF_THE_RESULT
    from noiseproof.training.noise_files import found_again
    from noiseproof.training.store import Store

    not_allowed = sorted(set(said) - set(NOT_PART_OF_THE_RESULT))
    if not_allowed:
        raise ValueError(
            f"--resume continues the run as it was; only {', '.join(sorted(NOT_PART_OF_THE_RESULT))} may "
            f"change, got {', '.join(not_allowed)}"
        )
    with Store(folder) as store:
        record = store.get(run)
    return found_again(Config(**(record.config | said)), record.environment)
