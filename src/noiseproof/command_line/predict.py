"""``noiseproof predict`` and ``noiseproof export``: what a finished run is good for."""

from pathlib import Path
from typing import Annotated

import typer

PREDICT_EPILOG = """
[bold]Examples[/bold]

  noiseproof predict RUN photos/ --out predictions.csv

  noiseproof predict RUN one.jpg
"""

EXPORT_EPILOG = """
[bold]Examples[/bold]

  noiseproof export RUN --out model/                      weights as safetensors, classes as JSON

  noiseproof export RUN --out model/ --form torch-export  a program that runs without noiseproof
"""


def predict(
    run: Annotated[str, typer.Argument(help="A finished run, or the beginning of its name.")],
    pictures: Annotated[Path, typer.Argument(help="A picture or a folder of them.")],
    out: Annotated[Path, typer.Option(help="The CSV to write.")] = Path("predictions.csv"),
    folder: Annotated[
        Path | None, typer.Option(help="Where runs are kept; else NOISEPROOF_RUNS or runs.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    workers: Annotated[int, typer.Option(help="Processes that decode pictures.")] = 0,
) -> None:
    """Classify pictures with a finished run; writes a CSV."""
    from noiseproof.training import predict as prediction
    from noiseproof.training.environment import choose_device

    try:
        model = prediction.load_trained(_folder_of(run, folder), choose_device(device))
        paths = prediction.pictures_in(pictures)
        rows = prediction.predict(model, paths, workers=workers)
        count = prediction.write_predictions(rows, model.class_names, out)
    except (ValueError, OSError, LookupError, ImportError, RuntimeError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{count} pictures classified: {out}")


def export(
    run: Annotated[str, typer.Argument(help="A finished run, or the beginning of its name.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    form: Annotated[str, typer.Option(help="safetensors, torch-export or onnx.")] = "safetensors",
    folder: Annotated[
        Path | None, typer.Option(help="Where runs are kept; else NOISEPROOF_RUNS or runs.")
    ] = None,
) -> None:
    """Write a finished run's model for other programs."""
    from noiseproof.training import predict as prediction

    try:
        target = prediction.export(_folder_of(run, folder), out, form)
    except (ValueError, OSError, LookupError, ImportError, RuntimeError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{target} and {out / 'model.json'}")


def _folder_of(run: str, folder: Path | None) -> Path:
    from noiseproof.training.store import Store, default_folder

    folder = folder or default_folder()
    with Store(folder) as store:
        return folder / store.get(run, epochs=False).id
