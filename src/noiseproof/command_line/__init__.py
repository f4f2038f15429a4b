# SPDX-License-Identifier: Apache-2.0
"""The ``noiseproof`` command: one sub-command a verb, each in a module of its own.

Nothing here imports torch: a sub-command imports what it needs when it runs, so that ``--help`` answers at
once.
"""

import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from noiseproof import __version__
from noiseproof.command_line import (
    audit,
    bench,
    data,
    demo,
    demo_segmentation,
    losses,
    models,
    noise,
    plan,
    predict,
    report,
    runs,
    table,
    train,
    tune,
)
from noiseproof.command_line.failures import fail
from noiseproof.plugins import import_plugins, own_place


class _Commands(TyperGroup):
    """All commands.

    Their paths may begin with ``~``, also where no shell has replaced it, as in ``--out=~/audit``. An error in a
    module of the user's own is told in a line, whatever its kind.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [_with_home(each) for each in args])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if own_place(error):
                fail(error)
            raise


def _with_home(argument: str) -> str:
    """An argument, or the value of an option, with the home folder for a ``~`` at its beginning.

    >>> _with_home("--out=~/audit") == f"--out={os.path.expanduser('~/audit')}", _with_home("--noise=sym-0.4")
    (True, '--noise=sym-0.4')
    """
    option, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
    return f"{option}{equals}{os.path.expanduser(value) if value.startswith('~/') else value}"


app = typer.Typer(
    name="noiseproof",
    cls=_Commands,
    help="Train accurate models on wrong labels.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"noiseproof {__version__}")
        raise typer.Exit


@app.callback()
def noiseproof(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    imported: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import this module first, to register your own losses, noise, networks or data sets.",
        ),
    ] = None,
) -> None:
    """Train accurate models on wrong labels."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        import_plugins(imported or ())
    except ValueError as error:
        fail(error)


demos = typer.Typer(invoke_without_command=True)
demos.callback(epilog=demo.EPILOG)(demo.demo)
demos.command("segmentation", epilog=demo_segmentation.EPILOG)(demo_segmentation.demo_segmentation)
app.add_typer(demos, name="demo")
app.command("plan", epilog=plan.EPILOG)(plan.plan)
app.command("train", epilog=train.EPILOG)(train.train)
app.command("tune", epilog=tune.EPILOG)(tune.tune)
app.command("predict", epilog=predict.PREDICT_EPILOG)(predict.predict)
app.command("evaluate", epilog=predict.EVALUATE_EPILOG)(predict.evaluate)
app.command("export", epilog=predict.EXPORT_EPILOG)(predict.export)
app.command("audit", epilog=audit.EPILOG)(audit.audit)
app.command("bench", epilog=bench.EPILOG)(bench.bench)
app.command("table", epilog=table.EPILOG)(table.table)
app.command("report", epilog=report.EPILOG)(report.report)
app.add_typer(runs.app, name="runs")
app.add_typer(data.app, name="data")
app.command("models", epilog=models.EPILOG)(models.models)
app.command("noise", epilog=noise.EPILOG)(noise.noise)
app.command("losses", epilog=losses.EPILOG)(losses.losses)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(errors="replace")  # a question mark for a letter that it does not have
    sys.argv[1:] = imports_first(sys.argv[1:])
    app()


def imports_first(words: list[str]) -> list[str]:
    """Let ``--import MODULE`` stand anywhere, as people write it.

    >>> imports_first(["train", "digits", "--import", "mine", "--loss=nsquare"])
    ['--import', 'mine', 'train', 'digits', '--loss=nsquare']
    """
    first, rest, waiting = [], [], list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":  # what comes after is no option
            rest += [word, *waiting]
            break
        if word == "--import" and waiting:
            first += [word, waiting.pop(0)]
        elif word.startswith("--import="):
            first.append(word)
        else:
            rest.append(word)
    return first + rest
