"""A trained run at work: classes for new pictures, and its weights in forms that other programs read."""

import csv
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from noiseproof import models
from noiseproof.datasets import LabeledData
from noiseproof.datasets.augment.normalize import normalize
from noiseproof.datasets.decode import IMAGE_SUFFIXES, CentreAfterResize, Fit, Squash
from noiseproof.datasets.loader import StreamingLoader
from noiseproof.spreadsheet import safe_cell

FORMS = ("safetensors", "torch-export", "onnx")

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
    """

    network: nn.Module
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    shape: tuple[int, int, int]
    fit: Fit
    task: str = "classification"

    @torch.no_grad()
    def probabilities(self, images: Tensor) -> Tensor:
        """Probabilities (N, K) of uint8 images (N, C, H, W)."""
        device = next(self.network.parameters()).device
        logits: Tensor = self.network(normalize(images.to(device), self.mean, self.std))
        return logits.float().softmax(1).cpu()


def load_trained(folder: Path, device: torch.device | str = "cpu") -> TrainedModel:
    """Read what a finished run left in its folder."""
    described = folder / "model.json"
    if not described.exists():
        raise ValueError(
            f"{folder} holds no trained model: the run did not finish, or its files were removed"
        )
    try:
        facts: dict[str, Any] = json.loads(described.read_text())
        size = facts["input"]
        network = models.create(
            facts["model"],
            len(facts["class_names"]),
            in_channels=size["channels"],
            image_size=(size["height"], size["width"]),
            **facts["model_options"],
        )
        fit = fit_from_data(facts.get("fit"), size["height"], size["width"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{described} is damaged: {error!r}") from error
    models.load_weights(network, folder / "weights.safetensors")
    return TrainedModel(
        network.to(device).eval(),
        tuple(facts["class_names"]),
        tuple(facts["mean"]),
        tuple(facts["std"]),
        (size["channels"], size["height"], size["width"]),
        fit,
        str(facts.get("task", "classification")),
    )


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
    return _FITS[arguments.pop("kind")](**arguments)


def pictures_in(place: Path) -> tuple[Path, ...]:
    """A picture, or all pictures below a folder, in the order of their names."""
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise ValueError(f"{place}: expected a picture or a folder of them, found nothing")
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


def predict(model: TrainedModel, paths: Sequence[Path], *, workers: int = 0) -> Iterator[tuple[Path, Tensor]]:
    """``(file, probabilities)`` of pictures, fitted to the network as they were when it was tested."""
    channels = model.shape[0]
    data = LabeledData("pictures", "test", np.zeros(len(paths), np.int64), ("unknown",), paths=tuple(paths))
    with StreamingLoader(data, model.fit, 64, shuffle=False, num_workers=workers) as loader:
        for batch in loader:
            images = batch.images
            if channels == 1:  # pictures are read in colour; the network was trained on grey ones
                images = images.float().mean(1, keepdim=True).round().to(torch.uint8)
            for index, row in zip(batch.indices, model.probabilities(images), strict=True):
                yield paths[int(index)], row


def write_predictions(rows: Iterator[tuple[Path, Tensor]], class_names: Sequence[str], out: Path) -> int:
    """Write ``path, predicted, probability`` of each picture as CSV, whole or not at all; returns how many."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    count = 0
    try:
        # A file name may hold bytes that are no text; they come out as they are.
        with temporary.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
            writer = csv.writer(file)
            writer.writerow(["path", "predicted", "probability"])
            for path, probabilities in rows:
                best = int(probabilities.argmax())
                writer.writerow(
                    [safe_cell(str(path)), safe_cell(class_names[best]), f"{probabilities[best]:.6f}"]
                )
                count += 1
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def export(folder: Path, out: Path, form: str) -> Path:
    """Write a trained run as ``"safetensors"`` (with its JSON), ``"torch-export"`` or ``"onnx"``."""
    import shutil

    if form not in FORMS:
        raise ValueError(f"form: expected {', '.join(FORMS[:-1])} or {FORMS[-1]}, got {form!r}")
    out.mkdir(parents=True, exist_ok=True)
    model = load_trained(folder)
    shutil.copyfile(folder / "model.json", out / "model.json")
    example = (torch.zeros(2, *model.shape),)
    batch = {0: torch.export.Dim("batch", min=1)}
    if form == "safetensors":
        target = out / "weights.safetensors"
        shutil.copyfile(folder / "weights.safetensors", target)
    elif form == "torch-export":
        target = out / "model.pt2"
        torch.export.save(torch.export.export(model.network, example, dynamic_shapes=(batch,)), target)
    else:
        target = out / "model.onnx"
        try:
            torch.onnx.export(model.network, example, str(target), dynamo=True, dynamic_shapes=(batch,))
        except ImportError as error:
            raise ValueError(f"ONNX needs more ({error}); try: pip install onnx onnxscript") from error
    return target
