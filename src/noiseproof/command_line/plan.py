# SPDX-License-Identifier: Apache-2.0
"""``noiseproof plan``: which loss and which numbers for given data, with reasons, as a recipe for ``train``."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail

if TYPE_CHECKING:
    from noiseproof.planning import Noise

EPILOG = """
[bold]Examples[/bold]

  noiseproof plan folder:photos

  noiseproof plan folder:photos --out photos.toml

  noiseproof train folder:photos --recipe photos.toml

  noiseproof plan folder:cells --image-size 256   pictures with masks that differ in size

  noiseproof plan cifar10 --noise asym-0.4   a rate and a kind that you know

  noiseproof plan csv:labels.csv --no-noise-estimate
"""


def plan(
    dataset: Annotated[
        str, typer.Argument(metavar="DATA", help="A name of noiseproof data list, folder:PATH or csv:PATH.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write the plan to this TOML file, not to the screen.")
    ] = None,
    loss: Annotated[str | None, typer.Option(help="A loss that is settled; its numbers are planned.")] = None,
    model: Annotated[str | None, typer.Option(help="A network that is settled.")] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Side to which pictures and masks are brought, where it is settled.")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="Share of wrong labels, such as 0.4 or sym-0.4: nothing is estimated then."),
    ] = None,
    noise_kind: Annotated[
        str | None, typer.Option(help="sym (at random), asym (classes confused), dep, real (people's).")
    ] = None,
    no_noise_estimate: Annotated[
        bool, typer.Option("--no-noise-estimate", help="Do not look for wrong labels.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Plan a training run: loss, α, β, δ, λ, network, epochs, batch, learning rate, each with its reason."""
    from noiseproof import planning
    from noiseproof.datasets import DataError
    from noiseproof.datasets.cache import replacing_file

    settled = {"loss": loss, "model": model, "image_size": image_size}
    said = {name: value for name, value in settled.items() if value is not None}
    try:
        known = known_noise(noise, noise_kind)
        with progress_on_screen(quiet) as tell:
            made = planning.plan(dataset, said=said, noise=known, estimate=not no_noise_estimate, tell=tell)
        text = made.as_toml()
        made.config()  # a network that does not exist is told of now, not when it is trained
        if out is not None:
            with replacing_file(out) as file:
                file.write(text.encode())
    except (ValueError, TypeError, DataError, OSError) as error:
        fail(error)
    if out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(
            f"Wrote {out}. Train with: noiseproof train {_quoted(dataset)} --recipe {_quoted(str(out))}"
        )


def known_noise(noise: str | None, kind: str | None) -> "Noise | None":
    """What the user said of the noise: ``0.4``, ``sym-0.4``, or a rate and a kind apart."""
    from noiseproof.planning import Noise

    if noise is None:
        if kind is not None:
            raise ValueError(
                f"--noise-kind: expected a share of wrong labels with it, as in --noise {kind}-0.4"
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
