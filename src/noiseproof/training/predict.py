# SPDX-License-Identifier: Apache-2.0
"""A trained run at work: classes for new pictures, and its weights in forms that other programs read."""

import csv
import hashlib
import io
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noiseproof import models
from noiseproof.datasets import BadFileError, LabeledData
from noiseproof.datasets.augment.normalize import normalize
from noiseproof.datasets.cache import replacing_file
from noiseproof.datasets.decode import IMAGE_SUFFIXES, CentreAfterResize, Fit, Squash
from noiseproof.datasets.loader import StreamingLoader
from noiseproof.losses import checks
from noiseproof.models.timm_models import PREFIX
from noiseproof.plugins import command_name
from noiseproof.spreadsheet import safe_cell
from noiseproof.training.config_checks import DEEPEST_NESTING, nesting

_EXPORTED = {"safetensors": "weights.safetensors", "torch-export": "model.pt2", "onnx": "model.onnx"}
FORMS = tuple(_EXPORTED)

_FITS: dict[str, type[Fit]] = {"squash": Squash, "centre-after-resize": CentreAfterResize}


@dataclass(frozen=True)
class TrainedModel:
    """A network with what its user must know.

    Attributes:
        network: in evaluation mode, on the device.
        class_names: the name of each output.
        mean: by channel, on the scale 0..1.
        std: likewise.
        shape: channels, height and width of an input.
        fit: how picture files are brought to that size, as they were for testing.
        task: ``"classification"`` or ``"segmentation"``; for the latter see
            :mod:`noiseproof.training.predict_masks`.
        ignored_class: of masks, the class that training was told to ignore, if there is one; it has no Dice.
    """

    network: nn.Module
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    shape: tuple[int, int, int]
    fit: Fit
    task: str = "classification"
    ignored_class: int | None = None

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """Probabilities (N, K) of uint8 images (N, C, H, W)."""
        device = next(self.network.parameters()).device
        logits: Tensor = self.network(normalize(images.to(device), self.mean, self.std))
        return logits.float().softmax(1).cpu()


def load_trained(folder: Path | str, device: torch.device | str = "cpu") -> TrainedModel:
    """Read what a finished run left in its folder.

    Args:
        folder: that of the run, in the runs folder; or one that ``noiseproof export`` wrote.
        device: where the network goes.
    """
    folder = Path(folder)
    described, weights = folder / "model.json", folder / "weights.safetensors"
    if not described.exists():
        if (folder / "checkpoint.pt").exists():
            raise ValueError(
                f"{folder}: this run has not finished; go on with it: {command_name()} train --resume {folder.name}"
            )
        raise ValueError(
            f"{folder} holds no trained model: the run did not finish, or its files were removed, or it is no "
            "run's folder, such as runs/RUN"
        )
    try:
        facts: dict[str, Any] = json.loads(described.read_text(encoding="utf-8"))
        size = facts["input"]
        _check_facts(facts)
        network = _network_of(facts, weights)
        fit = fit_from_data(facts.get("fit"), size["height"], size["width"])
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        raise ValueError(f"{described} is damaged: {error!r:.300}") from error
    if facts.get("checksum") not in (None, checksum_of(facts)):
        raise ValueError(
            f"{described} is damaged: it is not what was written (its checksum differs); put back a copy or train "
            'the run again. If you changed it on purpose, remove "checksum" from it'
        )
    models.load_weights(network, weights)
    return TrainedModel(
        network.to(device).eval(),
        tuple(facts["class_names"]),
        tuple(facts["mean"]),
        tuple(facts["std"]),
        (size["channels"], size["height"], size["width"]),
        fit,
        str(facts.get("task", "classification")),
        facts.get("ignored_class"),
    )


def checksum_of(facts: dict[str, Any]) -> str:
    """Sha256 of a model's description, less that number itself."""
    rest = {name: value for name, value in facts.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _network_of(facts: dict[str, Any], weights: Path) -> nn.Module:
    """The network that is described; one with more numbers than the file of its weights has bytes is not made."""
    size, options = facts["input"], facts["model_options"]
    made_of = {
        "in_channels": size["channels"],
        "image_size": (size["height"], size["width"]),
        # The weights come from the file beside, so nothing else is fetched or read for them.
        **{key: value for key, value in options.items() if key not in _OTHER_WEIGHTS},
    }
    classes = len(facts["class_names"])
    if weights.is_file() and not facts["model"].startswith(PREFIX):  # timm's do not all stand the meta device
        with torch.device("meta"):
            outline = models.create(facts["model"], classes, **made_of).state_dict()
        numbers = sum(tensor.numel() for tensor in outline.values())
        if numbers > weights.stat().st_size:
            raise ValueError(
                f"it describes {numbers} weights, and {weights.name} has {weights.stat().st_size} bytes"
            )
    return models.create(facts["model"], classes, **made_of)


_OTHER_WEIGHTS = ("pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "checkpoint_path", "cache_dir")
"""Options of timm that name weights elsewhere."""

MOST_CLASSES, MOST_CHANNELS, MOST_PIXELS = 1_000_000, 1_000, 10_000_000
"""Of a network in ``model.json``: beyond them no memory would hold it."""


def _check_facts(facts: Any) -> None:
    """Refuse a description whose numbers would make a network that no one trained."""
    size, names = facts["input"], facts["class_names"]
    sizes = size["channels"], size["height"], size["width"]
    if any(type(side) is not int or side < 1 for side in sizes):
        raise ValueError(f"input: expected whole numbers, got {checks.shown(size)}")
    if sizes[0] > MOST_CHANNELS or sizes[1] * sizes[2] > MOST_PIXELS:
        raise ValueError(
            f"input: expected {MOST_CHANNELS} channels and {MOST_PIXELS} pixels at most, got {sizes}"
        )
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"class_names: expected a list of texts, got {checks.shown(names)}")
    if not 1 <= len(names) <= MOST_CLASSES:
        raise ValueError(f"class_names: expected 1 to {MOST_CLASSES}, got {len(names)}")
    if nesting(facts["model_options"]) > DEEPEST_NESTING:
        raise ValueError("model_options: expected a table, got one without end")
    for name in ("mean", "std"):
        values = facts[name]
        if not isinstance(values, list) or len(values) != sizes[0]:
            raise ValueError(f"{name}: expected a number a channel, got {checks.shown(values)}")
        for value in values:
            checks.number(name, value)
    if facts.get("task", "classification") not in ("classification", "segmentation"):
        raise ValueError(checks.unknown("task", facts["task"], ("classification", "segmentation")))
    ignored = facts.get("ignored_class")
    if ignored is not None and (type(ignored) is not int or not 0 <= ignored < len(names)):
        raise ValueError(f"ignored_class: expected an index of class_names, got {checks.shown(ignored)}")


def fit_as_data(fit: Fit | None) -> dict[str, Any] | None:
    """Write down how pictures were fitted for testing, for ``model.json``; ``None`` where there were no files."""
    for name, kind in _FITS.items():
        if type(fit) is kind:
            return {"kind": name, **asdict(fit)}  # type: ignore[call-overload]
    return None


def fit_from_data(data: dict[str, Any] | None, height: int, width: int) -> Fit:
    """Read what :func:`fit_as_data` wrote; without it pictures are squashed to the network's size."""
    if data is None:
        return Squash(height, width)
    arguments = dict(data)
    fit = _FITS[arguments.pop("kind")](**arguments)
    if fit.shape[0] * fit.shape[1] > MOST_PIXELS:
        raise ValueError(f"fit: expected at most {MOST_PIXELS} pixels, got {fit.shape}")
    return fit


def pictures_in(place: Path) -> tuple[Path, ...]:
    """A picture, or all pictures below a folder, in the order of their names."""
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise ValueError(f"{place}: expected an image or a folder of images, found nothing")
    found = tuple(
        sorted(
            path
            for path in place.rglob("*")
            if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".")
        )
    )
    if not found:
        raise ValueError(f"{place} holds no pictures (looked for {', '.join(sorted(IMAGE_SUFFIXES))})")
    return found


def predict(
    model: TrainedModel,
    paths: Sequence[Path],
    *,
    workers: int = 0,
    unreadable: list[BadFileError] | None = None,
) -> Iterator[tuple[Path, Tensor]]:
    """``(file, probabilities)`` of pictures, fitted to the network as they were when it was tested.

    Args:
        model: a trained network.
        paths: of the pictures.
        workers: processes that decode them.
        unreadable: where a list is given, pictures that cannot be read are left out, and why is added to it; only
            if none can be read it is an error. By default the first of them is an error.
    """
    left = tuple(paths)
    any_read = False
    while left:
        done = 0
        try:
            for path, row in _predict_all(model, left, workers):
                yield path, row
                done += 1
                any_read = True
            return
        except BadFileError as error:
            if unreadable is None or error.path not in left[done:]:
                raise
            unreadable.append(error)
            left = tuple(path for path in left[done:] if path != error.path)
    if unreadable and not any_read:
        raise unreadable[0]


def _predict_all(model: TrainedModel, paths: tuple[Path, ...], workers: int) -> Iterator[tuple[Path, Tensor]]:
    channels = model.shape[0]
    data = LabeledData("pictures", "test", np.zeros(len(paths), np.int64), ("unknown",), paths=paths)
    with StreamingLoader(data, model.fit, 64, shuffle=False, num_workers=workers) as loader:
        for batch in loader:
            images = batch.images
            if channels == 1:  # pictures are read in colour; the network was trained on grey ones
                images = images.float().mean(1, keepdim=True).round().to(torch.uint8)
            for index, row in zip(batch.indices, model.probabilities(images), strict=True):
                yield paths[int(index)], row


def write_predictions(rows: Iterator[tuple[Path, Tensor]], class_names: Sequence[str], out: Path) -> int:
    """Write ``path, predicted, probability`` of each picture as CSV, whole or not at all; returns how many."""
    count = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    # A file name may hold bytes that are no text; they come out as they are.
    with replacing_file(out) as raw:
        file = io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape", newline="")
        writer = csv.writer(file)
        writer.writerow(["path", "predicted", "probability"])
        for path, probabilities in rows:
            best = int(probabilities.argmax())
            writer.writerow(
                [safe_cell(str(path)), safe_cell(class_names[best]), f"{probabilities[best]:.6f}"]
            )
            count += 1
        file.flush()
        file.detach()
    return count


def export(folder: Path, out: Path, form: str) -> Path:
    """Write a trained run as ``"safetensors"`` (with its JSON), ``"torch-export"`` or ``"onnx"``.

    What lies in ``out`` from before is replaced when all of it is written, and stays where that fails.
    """
    import shutil
    import tempfile

    if form not in FORMS:
        raise ValueError(f"form: expected {', '.join(FORMS[:-1])} or {FORMS[-1]}, got {form!r}")
    out.mkdir(parents=True, exist_ok=True)
    if out.samefile(folder):
        raise ValueError(f"out: expected another folder than the run's own, got {out}")
    model = load_trained(folder)
    example = (torch.zeros(2, *model.shape),)
    batch = {0: torch.export.Dim("batch", min=1)}
    name = _EXPORTED[form]
    with tempfile.TemporaryDirectory(prefix=".export-", dir=out) as unfinished:
        written = Path(unfinished, name)
        if form == "safetensors":
            shutil.copyfile(folder / name, written)
        elif form == "torch-export":
            buffer = io.BytesIO()  # torch's own writer aborts the whole process where a disk is full
            torch.export.save(torch.export.export(model.network, example, dynamic_shapes=(batch,)), buffer)
            written.write_bytes(buffer.getvalue())
        else:
            _export_onnx(model.network, example, batch, written)
        shutil.copyfile(folder / "model.json", Path(unfinished, "model.json"))
        for each in (name, "model.json"):
            Path(unfinished, each).replace(out / each)
    return out / name


def _export_onnx(network: nn.Module, example: tuple[Tensor], batch: dict[int, Any], target: Path) -> None:
    """Write a network as one ONNX file, with ``images`` in and ``logits`` out."""
    said = logging.getLogger("torch.onnx")
    level = said.level
    said.setLevel(logging.ERROR)  # it tells of every package that it could use and does not need
    try:
        torch.onnx.export(
            network,
            example,
            str(target),
            input_names=["images"],
            output_names=["logits"],
            dynamic_shapes=(batch,),
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    except ImportError as error:
        raise ValueError(f"ONNX needs more ({error}); try: pip install 'noiseproof[onnx]'") from error
    finally:
        said.setLevel(level)
