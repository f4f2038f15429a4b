# SPDX-License-Identifier: Apache-2.0
"""Read the official CIFAR-N label files, ``.pt`` files of arrays, without running anything they name."""

import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseproof import torch_files
from noiseproof.datasets.errors import BadFileError

MOST_BYTES = 1 << 25  # the larger of the two files has 2.4 MB


def read(path: Path) -> dict[str, NDArray[np.int64]]:
    """Return the label sets of an official CIFAR-N file by their own keys.

    Raises:
        BadFileError: it is damaged, or holds anything but lists and arrays of whole numbers.
    """
    if path.stat().st_size > MOST_BYTES:
        raise BadFileError(path, f"a label file of at most {MOST_BYTES} bytes", f"{path.stat().st_size}")
    try:
        content = torch_files.load_arrays(path)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("GLOBAL ")[2].split(" was not", 1)[0]
        found = f"one that names {reason}" if reason else "something else, or a damaged one"
        raise BadFileError(path, "a file of label arrays", found, "use the official file") from None
    except Exception as error:  # on damaged bytes torch raises nearly every kind
        found = f"a damaged one ({str(error)[:200]})"
        raise BadFileError(path, "a whole .pt file", found, "download the file again") from error
    if not isinstance(content, dict):
        raise BadFileError(path, "a dictionary of label arrays", type(content).__name__)
    for key in content:
        if not isinstance(key, str):
            raise BadFileError(path, "label arrays by name", f"a key of type {type(key).__name__}")
    return {key: _as_labels(path, key, values) for key, values in content.items()}


def _as_labels(path: Path, key: str, values: object) -> NDArray[np.int64]:
    if not isinstance(values, (list, np.ndarray)):
        raise BadFileError(path, f"{key!r} to be an array or a list", type(values).__name__)
    try:
        labels = np.asarray(values)
    except (ValueError, RuntimeError, TypeError):  # lists of unequal lengths, or of tensors
        labels = np.empty(0, dtype=object)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadFileError(
            path, f"{key!r} to be a row of whole numbers", f"{labels.dtype} of shape {labels.shape}"
        )
    return labels.astype(np.int64)
