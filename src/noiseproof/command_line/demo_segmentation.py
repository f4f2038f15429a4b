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
    strength: Annotated[float, typer.Option(help="How much of the area of such a mask is wrong.")] = 0.7,
    seed: Annotated[int, typer.Option(help="Seed for noise, initial weights and order.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
    processes: Annotated[int, typer.Option(help="Losses to train at the same time.")] = 2,
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("noiseproof-segmentation.html"),
    folder: KeptIn = None,
) -> None:
    """Train with three losses on synthetic blobs with corrupted masks; takes about two minutes on two cores."""
    import torch

    from noiseproof.training import Interrupted, train_pack
    from noiseproof.training.store import default_folder

    torch.set_num_threads(1)  # two processes of one thread each use two cores better than one of two
    folder = folder or default_folder()
    try:
        grid = demo_grid(share, strength, seed, epochs)
        records = train_pack([cell.config for cell in grid.cells()], folder=folder, processes=processes)
    except Interrupted:
        typer.echo("Stopped; nothing is lost. Continue with the same command.", err=True)
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
        f"{noise['realised_rate']:.0%} of the training masks are wrong, which makes {noise['wrong_pixels']:.1%} "
        "of all pixels wrong.",
        "Dice in percent on test images with right masks, averaged over the tests in the last 10 epochs:",
        "",
        f"{'loss':8} {'pooled':>7} {'per image':>10} {'right pixels':>13} {'wrong pixels':>13} {'seconds':>8}",
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
        "Right and wrong pixels: the share of them in the training masks that the model reproduces.",
    ]
    return "\n".join(lines)


def _write_page(grid: "Grid", folder: Path, out: Path, repeats: str) -> None:
    from noiseproof.report import write_report
    from noiseproof.results import gather

    write_report(gather(grid, folder=folder), out, command=repeats)
