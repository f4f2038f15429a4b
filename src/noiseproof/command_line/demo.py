# SPDX-License-Identifier: Apache-2.0
"""``noiseproof demo``: handwritten digits with wrong labels, four losses, a table and a page to look at."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import KeptIn
from noiseproof.command_line.terminal import percent

if TYPE_CHECKING:
    from noiseproof.training.store import RunRecord

TITLE = "Training on wrong labels: handwritten digits"

LOSSES = ("ce", "gce", "nce+rce", "anl-ce")

EPILOG = """
[bold]Examples[/bold]

  noiseproof demo

  noiseproof demo --rate 0.4 --seed 7 --out page.html

  noiseproof demo segmentation
"""


def demo(
    context: typer.Context,
    rate: Annotated[float, typer.Option(help="Share of wrong training labels.")] = 0.6,
    seed: Annotated[int, typer.Option(help="Seed for noise, initial weights and order.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("noiseproof-demo.html"),
    folder: KeptIn = None,
) -> None:
    """Train with four losses on handwritten digits with wrong labels; takes about a minute."""
    if context.invoked_subcommand is not None:
        return
    import torch

    from noiseproof.training import Interrupted, resolve, train_pack
    from noiseproof.training.store import Store, default_folder

    torch.set_num_threads(1)  # a second thread costs such small networks more than it brings
    folder = folder or default_folder()
    said: dict[str, Any] = {"noise": f"sym-{rate:g}", "seed": seed, "device": "cpu"}
    if epochs is not None:
        said["epochs"] = epochs
    try:
        configs = [resolve("digits", loss=loss, **said) for loss in LOSSES]
        finished = train_pack(configs, folder=folder)
    except Interrupted:
        typer.echo("Stopped; nothing is lost. Continue with the same command.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, OSError, RuntimeError) as error:
        fail(error)
    with Store(folder) as store:
        records = [store.get(record.id) for record in finished]
    typer.echo(f"\n{table(records)}")
    repeats = f"noiseproof demo --rate {rate:g} --seed {seed}"
    try:
        _write_page(records, out, repeats + (f" --epochs {epochs}" if epochs is not None else ""))
    except OSError as error:
        fail(f"cannot write the page: {error}")
    typer.echo(f"\nPage: {out}")


def table(records: "Sequence[RunRecord]") -> str:
    """What came out, a line a loss."""
    share = _wrong_share(records)
    lines = [
        f"{share:.1%} of the training labels are wrong; accuracies in percent after the last epoch:",
        "",
        f"{'loss':9} {'test':>6} {'best (epoch)':>14} {'right labels':>13} {'wrong labels':>13} {'seconds':>8}",
    ]
    for record in records:
        last, result = record.epochs[-1], record.result or {}
        best = f"{result['best_test_accuracy']:.1f} ({result['best_epoch']})"
        right, wrong = (percent(last[f"{kind}_accuracy"], 1, without="–") for kind in ("clean", "flipped"))
        lines.append(
            f"{record.config['loss']:9} {last['test_accuracy']:6.1f} {best:>14} {right:>13} {wrong:>13} "
            f"{record.seconds:8.0f}"
        )
    return "\n".join(lines)


def _write_page(records: "Sequence[RunRecord]", out: Path, repeats: str) -> None:
    from noiseproof.grids import Grid, Method
    from noiseproof.report import write_report
    from noiseproof.results import Gathered, result_of_record

    config, share = records[0].config, _wrong_share(records)
    methods = tuple(Method(loss, loss) for loss in LOSSES)
    grid = Grid("demo", TITLE, "digits", "curves", methods, (config["noise"],), (config["seed"],))
    write_report(
        Gathered(grid, tuple(result_of_record(record) for record in records), expected=len(records)),
        out,
        introduction=f"1,438 handwritten digits, {share:.1%} of them with wrong labels, and 359 with right labels "
        "for testing. Network and wrong labels are the same throughout; only the loss differs.",
        command=repeats,
    )


def _wrong_share(records: "Sequence[RunRecord]") -> float:
    share: float = records[0].noise["realised_rate"]
    return share
