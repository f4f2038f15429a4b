# SPDX-License-Identifier: Apache-2.0
"""``noiseproof demo``: handwritten digits with wrong labels, four losses, a table and a page to look at."""

from pathlib import Path
from typing import Annotated, Any

import typer

from noiseproof.command_line.failures import fail

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
    seed: Annotated[int, typer.Option(help="Decides noise, initial weights and order.")] = 1,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("noiseproof-demo.html"),
    folder: Annotated[
        Path | None, typer.Option(help="Where runs are kept; else NOISEPROOF_RUNS or runs.")
    ] = None,
) -> None:
    """Train four losses on handwritten digits with wrong labels; about a minute."""
    if context.invoked_subcommand is not None:
        return
    import torch

    from noiseproof.grids import Grid, Method
    from noiseproof.report import write_report
    from noiseproof.results import Gathered, result_of_record
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
        typer.echo("Stopped, nothing lost. Go on with the same command.", err=True)
        raise typer.Exit(130) from None
    except (ValueError, OSError, RuntimeError) as error:
        fail(error)
    with Store(folder) as store:
        records = [store.get(record.id) for record in finished]
    wrong = records[0].noise["realised_rate"]
    typer.echo(
        f"\n{wrong:.1%} of the training labels are wrong; accuracies in percent after the last epoch:\n"
    )
    typer.echo(
        f"{'loss':9} {'test':>6} {'best (epoch)':>14} {'right labels':>13} {'wrong labels':>13} {'seconds':>8}"
    )
    for record in records:
        last, result = record.epochs[-1], record.result or {}
        best = f"{result['best_test_accuracy']:.1f} ({result['best_epoch']})"
        typer.echo(
            f"{record.config['loss']:9} {last['test_accuracy']:6.1f} {best:>14} "
            f"{_percent(last['clean_accuracy']):>13} {_percent(last['flipped_accuracy']):>13} "
            f"{record.seconds:8.0f}"
        )
    try:
        results = tuple(result_of_record(record) for record in records)
        methods = tuple(Method(loss, loss) for loss in LOSSES)
        grid = Grid("demo", TITLE, "digits", "curves", methods, (configs[0].noise,), (seed,))
        write_report(
            Gathered(grid, results, expected=len(results)),
            out,
            introduction=f"1,438 handwritten digits, {wrong:.1%} of whose labels are wrong, and 359 with right "
            "labels to test on. The same network, the same wrong labels; only the loss differs.",
            command=f"noiseproof demo --rate {rate:g} --seed {seed}"
            + (f" --epochs {epochs}" if epochs is not None else ""),
        )
    except OSError as error:
        fail(f"cannot write the page: {error}")
    typer.echo(f"\nPage: {out}")


def _percent(accuracy: float | None) -> str:
    """An accuracy, or a dash where there were no such labels."""
    return "–" if accuracy is None else f"{accuracy:.1f}"
