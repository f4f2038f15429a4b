# SPDX-License-Identifier: Apache-2.0
"""``noiseproof demo segmentation``: synthetic blobs with corrupted masks, three losses, a table and a page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import KeptIn
from noiseproof.command_line.terminal import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from noiseproof.grids import Grid
    from noiseproof.training.run_record import RunRecord

METHODS = {"CE": "ce", "T-Loss": "t-loss", "ANL-CE": "anl-ce"}

SETTINGS: dict[str, Any] = {
    "epochs": 45,
    "train_size": 100,
    "schedule": "cosine",
    "evaluate_every": 3,
    "model_options": {"base_width": 12},
}
"""Few pictures and many epochs, so that a network can learn wrong masks by heart within a minute."""

EPILOG = """
[bold]Examples[/bold]

  noiseproof demo segmentation

  noiseproof demo segmentation --share 0.5 --strength 0.5 --out page.html
"""


def demo_segmentation(
    share: Annotated[float, typer.Option(help="Share of corrupted training masks.")] = 0.7,
    strength: Annotated[float, typer.Option(help="How much of their area is wrong.")] = 0.7,
    seed: Annotated[int, typer.Option(help="Decides noise, initial weights and order.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    processes: Annotated[int, typer.Option(help="Losses trained at a time.")] = 2,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("noiseproof-segmentation.html"),
    folder: KeptIn = None,
) -> None:
    """Train three losses on blobs with corrupted masks; about two minutes on two cores."""
    import torch

    from noiseproof.training import Interrupted, train_pack
    from noiseproof.training.store import default_folder

    torch.set_num_threads(1)  # two processes of one thread each use two cores better than one of two
    folder = folder or default_folder()
    try:
        grid = demo_grid(share, strength, seed, epochs)
        records = train_pack([cell.config for cell in grid.cells()], folder=folder, processes=processes)
    except Interrupted:
        typer.echo("Stopped, nothing lost. Go on with the same command.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, OSError, RuntimeError) as error:
        fail(error)
    typer.echo(f"\n{table(records)}")
    try:
        _write_page(grid, folder, out, command(share, strength, seed, epochs))
    except OSError as error:
        fail(f"cannot write the page: {error}")
    typer.echo(f"\nPage: {out}")


def demo_grid(share: float, strength: float, seed: int, epochs: int | None) -> "Grid":
    """What the demo trains."""
    from noiseproof.grids import Grid, Method

    settings = SETTINGS | {"device": "cpu"} | ({} if epochs is None else {"epochs": epochs})
    return Grid(
        name="segmentation-demo",
        title="Training on wrong masks: synthetic blobs",
        dataset="blobs",
        kind="table",
        methods=tuple(Method(label, loss) for label, loss in METHODS.items()),
        noises=(f"masks-{share:g}-{strength:g}",),
        seeds=(seed,),
        settings=settings,
    )


def command(share: float, strength: float, seed: int, epochs: int | None) -> str:
    """What repeats the demo."""
    words = f"noiseproof demo segmentation --share {share:g} --strength {strength:g} --seed {seed}"
    return words + (f" --epochs {epochs}" if epochs is not None else "")


def table(records: "Sequence[RunRecord]") -> str:
    """The results, in a few lines."""
    noise = records[0].noise
    lines = [
        f"{noise['realised_rate']:.0%} of the training masks are wrong, and with them {noise['wrong_pixels']:.1%} "
        "of all pixels.",
        "Dice in percent on test pictures with right masks, mean over the tests of the last 10 epochs:",
        "",
        f"{'loss':8} {'pooled':>7} {'a picture':>10} {'right pixels':>13} {'wrong pixels':>13} {'seconds':>8}",
    ]
    for record in records:
        last, result = record.epochs[-1], record.result or {}
        right, wrong = (percent(last[f"{kind}_accuracy"], 1, without="–") for kind in ("clean", "flipped"))
        lines.append(
            f"{record.config['loss']:8} {result['test_dice']:7.1f} {result['test_dice_per_image']:10.1f} "
            f"{right:>13} {wrong:>13} {record.seconds:8.0f}"
        )
    lines += [
        "",
        "The two columns on pixels are shares of the training masks that were learned, right and wrong.",
    ]
    return "\n".join(lines)


def _write_page(grid: "Grid", folder: Path, out: Path, repeats: str) -> None:
    from noiseproof.report import write_report
    from noiseproof.results import gather

    write_report(gather(grid, folder=folder), out, command=repeats)
