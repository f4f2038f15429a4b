# SPDX-License-Identifier: Apache-2.0
"""Arrays in one ``.npz`` file from anywhere: no pickle, no bomb, and one kind of error whatever is wrong."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseproof.datasets.errors import BadFileError


def read(path: Path, most_bytes: int, expected: str, advice: str = "") -> dict[str, NDArray[Any]]:
    """Read all arrays of a file.

    Args:
        path: the file.
        most_bytes: what its arrays can take together; a file that would unpack to more is refused before it does.
        expected: what the file should be, for the message.
        advice: what to do where it is not.

    Raises:
        FileNotFoundError: there is no such file.
        BadFileError: it is damaged, hostile or something else.
    """
    try:
        with open(path, "rb") as file:  # NumPy would leave it open where it is no archive
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("one bare array")
            with content:
                size = sum(member.file_size for member in content.zip.infolist()) if content.zip else 0
                if size > most_bytes:
                    raise ValueError(f"{size} bytes inside, {most_bytes} are the most there can be")
                arrays = {name: content[name] for name in content.files}
                if strangers := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
                    raise ValueError(f"{strangers[0][:60]!r} in it is no array")
                return arrays
    except FileNotFoundError:
        raise
    except Exception as error:  # on damaged bytes NumPy and the zip reader raise nearly every kind
        raise BadFileError(path, expected, f"something else ({error})", advice) from error
