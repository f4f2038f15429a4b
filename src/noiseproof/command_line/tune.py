# SPDX-License-Identifier: Apache-2.0
"""``noiseproof tune``: search α, β, δ and the learning rate on labels that are wrong, as users have them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line import places
from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import KeptIn, Quiet

if TYPE_CHECKING:
    from noiseproof.planning.tuning import Search, Trial

EPILOG = """
Needs Optuna: pip install 'noiseproof\\[tune]'. Trials are kept in tuning.sqlite in the runs folder, so you can
stop with Ctrl-C and continue with the same command; given in a second terminal, it shares the work.

[bold]Examples[/bold]

  noiseproof tune folder:photos --loss anl-ce --trials 30

  noiseproof tune folder:photos --loss anl-ce --trials 30 --out tuned.toml

  noiseproof train folder:photos --recipe tuned.toml

  noiseproof tune digits --noise sym-0.4 --loss anl-ce --epochs 20 --trials 15

  noiseproof tune digits --noise sym-0.4 --on clean   judge by true labels, for comparison only

  noiseproof tune digits --noise sym-0.4 --loss gce --search q=0.3:0.9   search only q

  noiseproof --import mine tune digits --noise sym-0.4 --loss nsquare --search alpha=0.5:5 --search learning_rate
"""


def tune(
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A name from noiseproof data list, or folder:PATH or csv:PATH."),
    ],
    loss: Annotated[str | None, typer.Option(help="Name of a loss; noiseproof losses lists them.")] = None,
    trials: Annotated[
        int, typer.Option(help="Total number of trials, including earlier ones of the study.")
    ] = 30,
    noise: Annotated[
        str | None, typer.Option(help="Label noise to add, for experiments: sym-RATE, asym-RATE, …")
    ] = None,
    numbers: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            metavar="NAME=LOW:HIGH",
            help="Search this number instead of the usual ones: a hyperparameter of the loss, learning_rate, l1, "
            "weight_decay, momentum, jacobian or clip_norm; NAME alone searches around its value. May be repeated.",
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option(help="Name of the study; by default derived from the other options.")
    ] = None,
    on: Annotated[
        str, typer.Option(help="Judge trials by noisy labels, or by clean ones if --noise adds the noise.")
    ] = "noisy",
    share: Annotated[
        float, typer.Option(help="Share of the training data to hold out for judging trials.")
    ] = 0.1,
    pruner: Annotated[
        str, typer.Option(help="How to stop poor trials early: median, hyperband or none.")
    ] = "median",
    recipe: Annotated[
        str | None, typer.Option(help="Start from this recipe (name or TOML file), not the data set's own.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A name from noiseproof models.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs per trial.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per training step.")] = None,
    train_size: Annotated[int | None, typer.Option(help="Use only this many training images.")] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Resize images to squares of this size, in pixels.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed for the trials and the search.")] = None,
    device: Annotated[str | None, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes for decoding images.")] = None,
    folder: KeptIn = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the best hyperparameters to this TOML file, for train.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Search for good hyperparameters, judged on held-out training data with labels as noisy as the rest."""
    given: dict[str, Any] = {
        "loss": loss,
        "noise": noise,
        "model": model,
        "epochs": epochs,
        "batch_size": batch_size,
        "train_size": train_size,
        "image_size": image_size,
        "seed": seed,
        "device": device,
        "workers": workers,
    }
    said = {name: value for name, value in given.items() if value is not None}
    from noiseproof.datasets import DataError
    from noiseproof.datasets.cache import replacing_file
    from noiseproof.planning import tuning
    from noiseproof.planning.own_data import config_of
    from noiseproof.planning.space import left_alone, named_space, space_of
    from noiseproof.plugins import command_name
    from noiseproof.training.interruption import Interrupted
    from noiseproof.training.store import default_folder

    def tell(trial: "Trial", over: int) -> None:
        if not quiet:
            typer.echo(f"trial {trial.number} ({over} of {trials} done): {_told(trial)}")

    try:
        tuning.optuna_or_error()
        if out is not None:
            places.require_file(out)
        config = config_of(dataset, recipe, said)
        name = study or tuning.study_name(config, on, numbers or ())
        space = named_space(config, numbers) if numbers else space_of(config)
        if not quiet:
            ranges = ", ".join(f"{each.name} {each.low:.2g}–{each.high:.2g}" for each in space)
            typer.echo(f"Study {name}: {ranges}; {config.epochs} epochs per trial.")
            if not numbers and (others := left_alone(config, space)):
                typer.echo(
                    f"Not searched: {', '.join(others)}; choose what to search with --search NAME=LOW:HIGH."
                )
        found = tuning.search(
            config,
            trials=trials,
            folder=folder or default_folder(),
            study=study,
            on=on,
            share=share,
            pruner=pruner,
            tell=tell,
            numbers=numbers or (),
        )
        text = _recipe(found, on)
        if out is not None:
            with replacing_file(out) as file:
                file.write(text.encode())
    except Interrupted as stopped:
        typer.echo(
            f"Stopped; all completed trials are kept. Continue with: {_same_command(str(stopped))}",
            err=True,
        )
        raise typer.Exit(130) from None
    except (ValueError, TypeError, DataError, OSError, ImportError, RuntimeError) as error:
        fail(error)
    _print_table(found)
    if out is None:
        typer.echo(text, nl=False)
    else:
        words = [command_name(), "train", shlex.quote(dataset), "--recipe", shlex.quote(str(out))]
        if config.noise != "clean":  # a recipe is for any labels, and does not make them wrong
            words += ["--noise", shlex.quote(config.noise)]
        typer.echo(f"Wrote {out}. Train with: {' '.join(words)}")


def _told(trial: "Trial") -> str:
    numbers = ", ".join(f"{name} {value:.3g}" for name, value in trial.numbers.items())
    if trial.state == "pruned":
        return f"stopped early after {trial.epochs} epochs at {trial.score:.2f}%; {numbers}"
    return f"{trial.score:.2f}%; {numbers}" if trial.score is not None else f"failed; {numbers}"


def _same_command(study: str) -> str:
    """The command that was typed, with the study's name in it."""
    import sys

    words = sys.argv[1:]
    named = any(word == "--study" or word.startswith("--study=") for word in words)
    return shlex.join(["noiseproof", *words, *([] if named else ["--study", study])])


def _print_table(found: "Search") -> None:
    """The best trials, and where the start stands among them."""
    from rich.console import Console
    from rich.table import Table

    complete = sorted(
        (each for each in found.trials if each.state == "complete"),
        key=lambda each: (-(each.score or 0.0), each.number),
    )
    pruned = sum(each.state == "pruned" for each in found.trials)
    failed = sum(each.state == "fail" for each in found.trials)
    table = Table(
        title=f"{found.study}: {len(found.trials)} trials, {pruned} stopped early, {failed} failed",
        title_justify="left",
    )
    table.add_column("trial", justify="right")
    table.add_column("held-out labels", justify="right")
    for each in found.space:
        table.add_column(each.name, justify="right")
    shown = complete[:5] + [each for each in complete[5:] if each.number == 0]
    for trial in shown:
        number = f"{trial.number} (start)" if trial.number == 0 else str(trial.number)
        cells = [f"{trial.numbers[each.name]:.3g}" for each in found.space]
        table.add_row(number, f"{trial.score:.2f}%", *cells)
    Console().print(table)


def _recipe(found: "Search", on: str) -> str:
    """The best config as a recipe for ``train``."""
    from noiseproof.planning.recipe_file import recipe_text

    judged = "labels as wrong as the rest" if on == "noisy" else "true labels, which users do not have"
    searched = {each.name for each in found.space}
    remark = (
        f"Chosen by noiseproof tune: the best of {len(found.trials)} trials of study {found.study}, "
        f"{found.best.score:.2f}% on held-out {judged}. Searched: {', '.join(sorted(searched))}."
    )
    return recipe_text(found.config, remark)
