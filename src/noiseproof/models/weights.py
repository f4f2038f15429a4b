# SPDX-License-Identifier: Apache-2.0
"""Weights of a model to a file and back, with a report of what was used and what was not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from noiseproof.models import weight_files
from noiseproof.models.final_layer import final_layer_name, plain
from noiseproof.models.weight_files import WeightsError

WRAPPER_PREFIXES = ("module.", "_orig_mod.", "model.")
"""What data parallelism, ``torch.compile`` and training programs put before every name."""

AVERAGE_COUNTER = "n_averaged"
"""The one entry of torch's averaged models that has no such prefix."""

BATCH_COUNTER = "num_batches_tracked"
"""Last part of the names of batch norm's counters, which weight files before 2018 lack."""

SHOWN_NAMES = 4


@dataclass(frozen=True)
class WeightsReport:
    """What became of a weight file, by names of tensors.

    Attributes:
        path: the file.
        loaded: tensors of the model that now have the file's values.
        skipped: tensors of the file left out since they belong to a final layer of other classes.
        missing: tensors of the model that the file lacks; they kept the values they had.
        unexpected: tensors of the file that the model lacks.
        final_layer: what happened to the final layer, in words.
    """

    path: Path
    loaded: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    final_layer: str

    def __str__(self) -> str:
        parts = [f"{self.path.name}: {len(self.loaded)} tensors loaded", self.final_layer]
        if self.missing:
            parts.append(f"not in the file: {_some(self.missing)}")
        if self.unexpected:
            parts.append(f"not in the model: {_some(self.unexpected)}")
        return "; ".join(parts)


def load_weights(model: nn.Module, path: str | PathLike[str], *, partial: bool = False) -> WeightsReport:
    """Load weights from a file into a model, all but a final layer made for another number of classes.

    Nothing in the file is run, and the model is changed only if the whole file fits it. Prefixes that
    wrappers put before names (``module.`` and the like) do not matter.

    Args:
        model: what to load into, e.g. from :func:`noiseproof.models.create`.
        path: a ``.safetensors`` file, or a ``.pth`` or ``.pt`` file of tensors.
        partial: load what fits by name even if the file lacks layers of the model or has others. Without it
            that is an error: a ResNet-18's file fills half a ResNet-34 and leaves the rest random.

    Raises:
        FileNotFoundError: there is no such file.
        WeightsError: the file is damaged, hostile, or made for another model; it names the tensor.
        ImportError: a ``.safetensors`` file, and safetensors is not installed.

    Example:
        >>> import tempfile
        >>> from noiseproof import models
        >>> file = Path(tempfile.mkdtemp()) / "trained.safetensors"
        >>> save_weights(models.create("mlp", 1000, in_features=8), file)
        >>> print(load_weights(models.create("mlp", 10, in_features=8), file))
        trained.safetensors: 4 tensors loaded; the final layer fc keeps its own weights, since the file has 1000
        classes and the model 10
    """
    file = Path(path)
    inner = plain(model)
    own: dict[str, Tensor] = inner.state_dict()
    if any(tensor.is_meta for tensor in own.values()):
        raise ValueError(
            "model: expected weights in memory, got a model on the meta device; use to_empty first"
        )
    found = _named_as_ours(_without_wrapper_prefixes(weight_files.read(file), own), inner)
    final = final_layer_name(inner)
    replaced = _names_of_another_final_layer(found, own, final)
    report = WeightsReport(
        path=file,
        loaded=tuple(name for name in own if name in found and name not in replaced),
        skipped=tuple(name for name in own if name in replaced),
        missing=tuple(name for name in own if name not in found),
        unexpected=tuple(name for name in found if name not in own),
        final_layer=_fate_of_final_layer(found, own, final, replaced),
    )
    _check_names(report, own, final, partial)
    for name in report.loaded:
        _check_tensor(file, name, own[name], found[name])
    with torch.no_grad():
        for name in report.loaded:
            own[name].copy_(found[name])
    return report


def save_weights(model: nn.Module, path: str | PathLike[str]) -> None:
    """Write a model's weights and buffers to a ``.safetensors`` file, whole or not at all.

    Names are those of the model itself, without the prefixes of ``torch.compile`` and data parallelism.

    Raises:
        ValueError: the name does not end in ``.safetensors``.
        ImportError: safetensors is not installed.
    """
    weight_files.write(Path(path), plain(model).state_dict())


def _without_wrapper_prefixes(found: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Take off prefixes that all names of the file have and the model's names do not."""
    names = {name: name for name in found}
    while True:
        counted = [name for name in names.values() if name != AVERAGE_COUNTER]
        prefix = next(
            (p for p in WRAPPER_PREFIXES if counted and all(n.startswith(p) for n in counted)), None
        )
        if prefix is None or any(name.startswith(prefix) for name in own):
            return {short: found[name] for name, short in names.items()}
        names = {
            name: short.removeprefix(prefix) for name, short in names.items() if short != AVERAGE_COUNTER
        }


def _named_as_ours(found: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Rename tensors of a published file whose names are not quite the model's; those that are stay."""
    renamed = getattr(model, "name_from_file", None)
    return {renamed(name) if callable(renamed) else name: tensor for name, tensor in found.items()}


def _names_of_another_final_layer(
    found: Mapping[str, Tensor], own: Mapping[str, Tensor], final: str | None
) -> set[str]:
    """Return the file's names of the final layer, if it differs from the model's in nothing but classes."""
    names = {name for name in own if name in found and final is not None and name.startswith(f"{final}.")}
    # The first axis of a final layer's tensors, weight and bias alike, is the classes.
    same_but_for_classes = all(
        found[name].dim() == own[name].dim() > 0 and found[name].shape[1:] == own[name].shape[1:]
        for name in names
    )
    if not names or not same_but_for_classes:
        return set()
    file_classes, *others = {found[name].shape[0] for name in names}
    model_classes = {own[name].shape[0] for name in names}
    return names if not others and file_classes not in model_classes else set()


def _fate_of_final_layer(
    found: Mapping[str, Tensor], own: Mapping[str, Tensor], final: str | None, replaced: set[str]
) -> str:
    if final is None:
        return "the model has no final layer of its own"
    if replaced:
        weight = next(name for name in own if name in replaced)
        return (
            f"the final layer {final} keeps its own weights, since the file has {found[weight].shape[0]} classes "
            f"and the model {own[weight].shape[0]}"
        )
    if not any(name.startswith(f"{final}.") for name in found):
        return f"the final layer {final} keeps its own weights, since the file has none"
    return f"the final layer {final} among them"


def _check_names(report: WeightsReport, own: Mapping[str, Tensor], final: str | None, partial: bool) -> None:
    """Refuse a file made for another model, unless a part of it was asked for."""
    if not report.loaded:
        raise WeightsError(
            f"{report.path}: made for another model, no tensor fits; it has {_some(report.unexpected)}, the model "
            f"{_some(own)}"
        )
    lacking = [
        name
        for name in report.missing
        if not name.endswith(f".{BATCH_COUNTER}") and not (final and name.startswith(f"{final}."))
    ]
    if partial or not (lacking or report.unexpected):
        return
    faults = []
    if lacking:
        faults.append(f"the file lacks {_some(lacking)}")
    if report.unexpected:
        faults.append(f"the model lacks {_some(report.unexpected)}")
    raise WeightsError(
        f"{report.path}: made for another model: {' and '.join(faults)}; partial=True loads what there is"
    )


def _check_tensor(path: Path, name: str, ours: Tensor, theirs: Tensor) -> None:
    if ours.shape != theirs.shape:
        raise WeightsError(f"{path}: {name}: expected shape {tuple(ours.shape)}, found {tuple(theirs.shape)}")
    if theirs.is_complex() or (theirs.is_floating_point() and not ours.is_floating_point()):
        raise WeightsError(f"{path}: {name}: expected values of type {ours.dtype}, found {theirs.dtype}")
    if theirs.is_floating_point() and not bool(torch.isfinite(theirs.to(ours.dtype)).all()):
        raise WeightsError(
            f"{path}: {name}: expected finite values, found NaN, infinity or values beyond {ours.dtype}"
        )


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN_NAMES} more" if len(listed) > SHOWN_NAMES else ""
    return ", ".join(listed[:SHOWN_NAMES]) + more
