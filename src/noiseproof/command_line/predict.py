# SPDX-License-Identifier: Apache-2.0
"""``noiseproof predict``, ``evaluate`` and ``export``: what a finished run is good for."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noiseproof.command_line import places
from noiseproof.command_line.failures import fail
from noiseproof.command_line.options import Json, KeptIn
from noiseproof.command_line.terminal import printable

if TYPE_CHECKING:
    from noiseproof.datasets import LabeledData

PREDICT_EPILOG = """
[bold]Examples[/bold]

  noiseproof predict RUN photos/ --out predictions.csv

  noiseproof predict RUN one.jpg

  noiseproof predict RUN lesions/ --out masks/            a run on masks: one mask per image
"""

EVALUATE_EPILOG = """
[bold]Examples[/bold]

  noiseproof evaluate RUN folder:newer-photos             one folder per class; its test split or all of it

  noiseproof evaluate RUN csv:checked.csv --json

  noiseproof evaluate RUN webvision-mini-ilsvrc12         the paper's second test set for WebVision
"""

EXPORT_EPILOG = """
[bold]Examples[/bold]

  noiseproof export RUN --out model/                      weights and a model.json with classes and input size

  noiseproof export RUN --out model/ --form torch-export  a model that runs without noiseproof
"""


def predict(
    run: Annotated[str, typer.Argument(help="Name of a finished run, or the beginning of it.")],
    pictures: Annotated[Path, typer.Argument(help="An image, or a folder of images.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV file to write; by default predictions.csv. For masks: a folder; by default predictions."
        ),
    ] = None,
    folder: KeptIn = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = "auto",
    workers: Annotated[int, typer.Option(help="Processes for decoding images.")] = 0,
) -> None:
    """Classify images with a finished run and write a CSV, or segment them and write masks as PNGs."""
    from noiseproof.datasets import BadFileError
    from noiseproof.datasets.decode import IMAGE_SUFFIXES
    from noiseproof.training import predict as prediction
    from noiseproof.training import predict_masks
    from noiseproof.training.environment import choose_device

    unreadable: list[BadFileError] = []
    try:
        model = prediction.load_trained(_folder_of(run, folder), choose_device(device))
        paths = prediction.pictures_in(pictures)
        if model.task == "segmentation":
            folder_out = out or Path("predictions")
            if folder_out.suffix.lower() in (".csv", *IMAGE_SUFFIXES) and not folder_out.is_dir():
                raise ValueError(
                    f"--out: expected a folder for the masks that {run} predicts, which are PNG files, got {out}"
                )
            places.require_folder(folder_out)
            found = predict_masks.predict_masks(model, paths, unreadable=unreadable)
            count, sheet = predict_masks.write_masks(found, model.class_names, pictures, folder_out)
        else:
            table = out or Path("predictions.csv")
            predict_masks.refuse_to_overwrite(paths, [table], "name another file")
            places.require_file(table, makes_folder=True)
            rows = prediction.predict(model, paths, workers=workers, unreadable=unreadable)
            count = prediction.write_predictions(rows, model.class_names, table)
    except (ValueError, OSError, LookupError, ImportError, RuntimeError) as error:
        fail(error)
    if model.task == "segmentation":
        left_out = "Not segmented"
        typer.echo(f"Wrote {count} mask{'s' * (count != 1)} to {folder_out}; overview: {sheet}")
    else:
        left_out = "Not classified"
        typer.echo(f"Classified {count} image{'s' * (count != 1)}: {table}")
    for each in unreadable:
        typer.echo(f"{left_out}: {printable(str(each))}", err=True)
    if unreadable:
        raise typer.Exit(1)


def evaluate(
    run: Annotated[str, typer.Argument(help="Name of a finished run, or the beginning of it.")],
    dataset: Annotated[
        str, typer.Argument(help="Data set with correct labels: a name, folder:PATH or csv:PATH.")
    ],
    split: Annotated[
        str | None,
        typer.Option(
            help="train, test or validation; by default test, or everything if your own data has no test split."
        ),
    ] = None,
    folder: KeptIn = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:N.")] = "auto",
    workers: Annotated[int, typer.Option(help="Processes for decoding images.")] = 0,
    json_: Json = False,
) -> None:
    """Score a finished run on labelled data: accuracy, also per class, or Dice for masks."""
    import json

    from noiseproof.datasets import DataError
    from noiseproof.training import predict as prediction
    from noiseproof.training.environment import choose_device
    from noiseproof.training.evaluate import evaluate as score

    try:
        model = prediction.load_trained(_folder_of(run, folder), choose_device(device))
        data = _split_of(dataset, split, model.shape[1] if model.task == "segmentation" else None)
        found = score(model, data, workers=workers)
        if remark := _trained_on(run, folder, data):
            typer.echo(remark, err=True)
    except (ValueError, DataError, OSError, LookupError, ImportError, RuntimeError) as error:
        fail(error)
    if json_:
        typer.echo(json.dumps(found.as_data(), ensure_ascii=False))
        return
    words = {
        "accuracy": "accuracy",
        "balanced_accuracy": "balanced accuracy (mean over classes)",
        "dice": "Dice (pooled)",
        "dice_per_image": "Dice (per image)",
    }
    data_name = printable(found.dataset)
    which = f"{found.samples} {found.split}" if split or found.split != "train" else f"all {found.samples}"
    for score_name, value in found.scores.items():
        typer.echo(f"{words[score_name]} {value:.2f}% on {which} images of {data_name}")
    classes = [(printable(name), *facts) for name, facts in found.by_class.items()]
    width = max((len(name) for name, _, _ in classes), default=0)
    for name, count, right in sorted(classes, key=lambda each: each[2]):
        typer.echo(f"  {name:{width}}  {right:6.2f}%  of {count}")


def _split_of(dataset: str, split: str | None, side: int | None) -> "LabeledData":
    from noiseproof.datasets import NoSuchSplitError
    from noiseproof.datasets.identity import OWN
    from noiseproof.training.data import load_split

    if split is not None or not dataset.startswith(OWN):
        return load_split(dataset, split or "test", side)
    try:
        return load_split(dataset, "test", side)
    except NoSuchSplitError:  # all of it is what to score on; a test part that cannot be read is an error
        return load_split(dataset, "train", side)


def _trained_on(run: str, folder: Path | None, data: "LabeledData") -> str | None:
    """A remark where image files are the run's own training data, as far as that is still there."""
    import os

    from noiseproof.datasets import DataError
    from noiseproof.datasets.identity import OWN
    from noiseproof.training.data import load_split
    from noiseproof.training.store import Store, default_folder

    with Store(folder or default_folder()) as store:
        dataset = str(store.get(run, epochs=False).config["dataset"])
    if data.paths is None or not dataset.startswith(OWN):
        return None
    try:
        trained = {os.path.realpath(path) for path in load_split(dataset, "train", None).paths or ()}
    except (DataError, OSError, ValueError):
        return None
    count = sum(os.path.realpath(path) in trained for path in data.paths)
    if not count:
        return None
    return (
        f"Note: {count} of these {len(data)} images belong to {printable(dataset)}, which the run was trained on, "
        "so the score says little about new images."
    )


def export(
    run: Annotated[str, typer.Argument(help="Name of a finished run, or the beginning of it.")],
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    form: Annotated[str, typer.Option(help="Format: safetensors, torch-export or onnx.")] = "safetensors",
    folder: KeptIn = None,
) -> None:
    """Export the model of a finished run for use by other programs."""
    from noiseproof.training import predict as prediction

    try:
        target = prediction.export(_folder_of(run, folder), out, form)
    except (ValueError, OSError, LookupError, ImportError, RuntimeError) as error:
        fail(error)
    typer.echo(f"Wrote {target} and {out / 'model.json'}")


def _folder_of(run: str, folder: Path | None) -> Path:
    from noiseproof.training.store import Store, default_folder

    folder = folder or default_folder()
    with Store(folder) as store:
        return folder / store.get(run, epochs=False).id
