# SPDX-License-Identifier: Apache-2.0
"""Weight files: named tensors in safetensors, or in torch's format read without running any code in it."""

import hashlib
import importlib
import json
import os
import pickle
import secrets
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from noiseproof import torch_files

SAFETENSORS = ".safetensors"
TORCH_SUFFIXES = (".pth", ".pt")

CHECKSUM = "noiseproof_sha256"
"""What a file's metadata call the checksum of its tensors; files of other programs have none, and are believed."""

CHECKPOINT_ENTRIES = ("state_dict", "model_state_dict", "model")
"""Where checkpoints of common training programs keep the weights."""


SIGNS_OF_CODE = ("GLOBAL", "Can only create new object", "Can only build", "reduce for")
"""How torch's restricted reader says that a file names a function or class that holds no tensors."""


class WeightsError(ValueError):
    """A weight file that cannot be used: damaged, hostile, or made for another model."""


def read(path: Path) -> dict[str, Tensor]:
    """Read the named tensors of a weight file onto the CPU.

    Args:
        path: a ``.safetensors`` file, or a ``.pth`` or ``.pt`` file that holds a dictionary of tensors, alone
            or as an entry ``state_dict``, ``model_state_dict`` or ``model`` of a checkpoint.

    Raises:
        FileNotFoundError: there is no such file.
        WeightsError: the file is damaged, holds something else, or asks to run code.
        ImportError: a ``.safetensors`` file, and safetensors is not installed.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such weight file")
    if not path.is_file():
        raise WeightsError(f"{path}: expected a file, found a folder or a device")
    if path.suffix == SAFETENSORS:
        content: object = _read_safetensors(path)
    elif path.suffix in TORCH_SUFFIXES:
        content = _read_torch(path)
    else:
        known = ", ".join((SAFETENSORS, *TORCH_SUFFIXES))
        raise WeightsError(f"{path}: expected a weight file ending in one of {known}, got {path.suffix!r}")
    return _named_tensors(path, content)


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors as safetensors, whole or not at all.

    The bytes go to a temporary file beside ``path``, are forced to the disk, and take its name in one step. Their
    checksum is written with them, and :func:`read` believes no file whose tensors have another.
    """
    if path.suffix != SAFETENSORS:
        raise ValueError(f"path: expected a name ending in {SAFETENSORS}, got {str(path)!r}")
    safetensors_torch = _safetensors_torch(f"writing {path}")
    plain = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        metadata = {"format": "pt", CHECKSUM: checksum(plain)}
        safetensors_torch.save_file(plain, temporary, metadata=metadata)
        _put_metadata_in_order(temporary, metadata)
        _force_to_disk(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if _is_of_the_disk(error):
            raise OSError(
                f"{path}: cannot write the weights ({_reason(error)}); an earlier file is untouched: make room or "
                "choose a folder that can be written, then start again"
            ) from error
        raise
    if os.name == "posix":
        _force_to_disk(path.parent)


def _put_metadata_in_order(path: Path, metadata: Mapping[str, str]) -> None:
    """Write the metadata, which safetensors puts in any order, in ours: the same weights give the same bytes."""
    items = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in metadata.items()]
    with path.open("r+b") as file:
        header = file.read(int.from_bytes(file.read(8), "little"))
        file.seek(8)
        ordered = header.replace(
            f"{{{','.join(reversed(items))}}}".encode(), f"{{{','.join(items)}}}".encode(), 1
        )
        file.write(ordered)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    safetensors_torch = _safetensors_torch(f"reading {path}")
    try:
        with importlib.import_module("safetensors").safe_open(path, framework="pt") as file:
            expected = (file.metadata() or {}).get(CHECKSUM)
        tensors: dict[str, Tensor] = safetensors_torch.load_file(path, device="cpu")
    except Exception as error:  # its reader is another language's: what it raises on damage is not one class
        raise WeightsError(f"{path}: damaged, or not a safetensors file ({_reason(error)})") from error
    if expected is not None and checksum(tensors) != expected:
        raise WeightsError(
            f"{path}: damaged: its tensors are not those it was written with (their checksum differs); put back a "
            "copy, or train the run again"
        )
    return tensors


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """Sha256 of names, types, shapes and values of dense tensors on the CPU, whatever their order.

    >>> one, other = torch.tensor([1.0]), torch.tensor([2.0])
    >>> checksum({"a": one, "b": other}) == checksum({"b": other, "a": one})
    True
    >>> checksum({"a": one, "b": other}) == checksum({"a": other, "b": one})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _is_of_the_disk(error: BaseException) -> bool:
    """Whether writing failed in the system; safetensors tells it as an error of its own."""
    return isinstance(error, OSError) or type(error).__name__ == "SafetensorError"


def _read_torch(path: Path) -> object:
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # advice on other ways to load
            return torch_files.load(path, map_location="cpu")
    except Exception as error:  # a damaged archive makes torch raise nearly anything
        reason = _reason(error)
        if isinstance(error, pickle.UnpicklingError) and any(sign in str(error) for sign in SIGNS_OF_CODE):
            raise WeightsError(
                f"{path}: refused, since it holds more than tensors and numbers and loading it could run code "
                f"({reason}); save model.state_dict() alone, or as safetensors"
            ) from error
        raise WeightsError(f"{path}: damaged, or not a file of torch.save ({reason})") from error


def _named_tensors(path: Path, content: object) -> dict[str, Tensor]:
    """Return the tensors of a file's content, taken out of a checkpoint where they are inside one."""
    if isinstance(content, Mapping):
        for entry in CHECKPOINT_ENTRIES:
            if isinstance(content.get(entry), Mapping):
                content = content[entry]
                break
    if not isinstance(content, Mapping) or not content:
        raise WeightsError(f"{path}: expected a dictionary of named tensors, found {_described(content)}")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise WeightsError(
                f"{path}: expected a dictionary of named tensors, found {_described(value)} under {name!r}"
            )
        if value.layout != torch.strided or value.is_meta or value.is_quantized:
            raise WeightsError(
                f"{path}: {name}: expected a dense tensor with values, found {_described(value)}"
            )
    return dict(content)


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of layout {value.layout}, type {value.dtype}, on {value.device}"
    if isinstance(value, Mapping) and not value:
        return "an empty one"
    return f"a value of type {type(value).__name__}"


def _reason(error: BaseException) -> str:
    """Return the sentence that says what is wrong, without torch's paragraphs of advice around it."""
    inner = error.__context__ if isinstance(error.__context__, pickle.UnpicklingError) else error
    sentence = str(inner).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return sentence or type(error).__name__


def _safetensors_torch(purpose: str) -> ModuleType:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs safetensors, which cannot be imported ({error}): pip install safetensors"
        ) from error


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
