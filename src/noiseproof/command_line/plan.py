# SPDX-License-Identifier: Apache-2.0
"""``noiseproof plan``: which loss and which numbers for given data, with reasons, as a recipe for ``train``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line import places
from noiseproof.command_line.failures import fail

if TYPE_CHECKING:
    from noiseproof.planning import Noise

EPILOG = """
[bold]Examples[/bold]

  noiseproof plan folder:photos

  noiseproof plan folder:photos --out photos.toml

  noiseproof train folder:photos --recipe photos.toml

  noiseproof plan folder:cells --image-size 256   images and masks of different sizes

  noiseproof plan cifar10 --noise asym-0.4   if you know the noise

  noiseproof plan csv:labels.csv --no-noise-estimate
"""


def plan(
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A name from noiseproof data list, or folder:PATH or csv:PATH."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the plan to this TOML file instead of the screen.")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Use this loss; its hyperparameters are still planned.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Use this network.")] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Resize images and masks to squares of this size, in pixels.")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="Known share of wrong labels, such as 0.4 or sym-0.4; it is then not estimated."),
    ] = None,
    noise_kind: Annotated[
        str | None,
        typer.Option(
            help="Kind of noise: sym (at random), asym (similar classes confused), dep (dependent on the image) or "
            "real (human mistakes)."
        ),
    ] = None,
    no_noise_estimate: Annotated[
        bool, typer.Option("--no-noise-estimate", help="Do not estimate the share of wrong labels.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")] = False,
) -> None:
    """Choose loss, network and hyperparameters for your data, and give the reason for each."""
    from noiseproof import losses, models, planning
    from noiseproof.datasets import DataError
    from noiseproof.datasets.cache import replacing_file

    settled = {"loss": loss, "model": model, "image_size": image_size}
    said = {name: value for name, value in settled.items() if value is not None}
    try:
        known = known_noise(noise, noise_kind)
        if loss is not None:
            losses.record(loss)
        if model is not None:
            with suppress(ImportError):  # a plan may be made where timm is not
                models.record(model)
        if out is not None:
            places.require_file(out)
        with progress_on_screen(quiet) as tell:
            made = planning.plan(dataset, said=said, noise=known, estimate=not no_noise_estimate, tell=tell)
        text = made.as_toml()
        made.config()  # what no config takes is told of now, not when it is trained
        if out is not None:
            with replacing_file(out) as file:
                file.write(text.encode())
    except (ValueError, TypeError, DataError, OSError) as error:
        fail(error)
    if out is None:
        typer.echo(text, nl=False)
    else:
        estimated = made.facts.noise
        typer.echo("noise: not estimated" if estimated is None else f"noise: {estimated}")
        for choice in made.choices:
            if choice.field in ("loss", "model", "batch_size", "epochs"):
                typer.echo(f"{choice.field} = {choice.value!r}: {choice.reason}")
        typer.echo(
            f"Wrote {out}. Train with: noiseproof train {_quoted(dataset)} --recipe {_quoted(str(out))}"
        )


def known_noise(noise: str | None, kind: str | None) -> "Noise | None":
    """What the user said of the noise: ``0.4``, ``sym-0.4``, or a rate and a kind apart."""
    from noiseproof.planning import Noise

    if noise is None:
        if kind is not None:
            raise ValueError(
                f"--noise-kind: expected a share of wrong labels as well, as in --noise {kind}-0.4"
            )
        return None
    start, dash, rate = noise.partition("-")
    if noise == "clean":
        start, dash, rate = "", "-", "0"
    if not dash:
        start, rate = "", noise
    if kind is not None and start not in ("", kind):
        raise ValueError(f"--noise-kind: expected {start} as in --noise {noise}, got {kind}")
    try:
        share = float(rate)
    except ValueError:
        raise ValueError(
            f"--noise: expected a share of wrong labels such as 0.4, or sym-0.4, got {noise!r}"
        ) from None
    return Noise(share, kind or start or None)


@contextmanager
def progress_on_screen(quiet: bool) -> Iterator[Any]:
    """A bar on the terminal's error stream, so that the plan itself can be sent to a file; else ``None``."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def tell(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=1.0)
            bars.update(tasks[what], completed=share)

        yield tell


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)
