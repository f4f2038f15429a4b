# SPDX-License-Identifier: Apache-2.0
"""``noise = "file:PATH"``: labels or masks that lie in a file, for the whole training split of a data set.

Where a run trains on a part of the split (``train_size``, a tenth held out), the file is still one for all of it,
in the order of ``datasets.load(NAME, "train")``, and the part takes its labels from there.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from noiseproof import noise
from noiseproof.datasets import LabeledData
from noiseproof.datasets.folders import VOID
from noiseproof.datasets.identity import identity_of_file
from noiseproof.noise import NoisyLabels, NoisyMasks
from noiseproof.noise.names import FILE
from noiseproof.training.config import NOISE_DIGEST, Config, inputs_of, noise_file

PLACE = "noise_file"
"""Where the path stands in the environment of a record; results files leave it out."""


def is_in_a_file(name: str) -> bool:
    """Whether a noise is one that lies in a file."""
    return noise_file(name) is not None


def file_name(name: str) -> dict[str, str]:
    """What a record says of the file, if there is one: its name, not whose folder it is in."""
    path = noise_file(name)
    return {} if path is None else {"file": os.path.basename(path)}


def place_of(name: str) -> dict[str, str]:
    """Where the file lies, if there is one: for the runs folder alone, where a run may go on from any folder."""
    path = noise_file(name)
    return {} if path is None else {PLACE: os.path.abspath(path)}


def found_again(config: Config, environment: Mapping[str, Any]) -> Config:
    """A recorded config with its file where it lay, if its path does not lead there from here; the same run."""
    place, digests = environment.get(PLACE), (config.inputs or "").split("-")
    if NOISE_DIGEST not in (config.inputs or "") or inputs_of("", None, config.noise) in digests:
        return config
    return replace(config, noise=FILE + place) if isinstance(place, str) and os.path.isfile(place) else config


def unmarked(inputs: str | None) -> str | None:
    """Digests as they stood in configs before that of noise was marked as one.

    >>> unmarked("d0c5-noise=81f3"), unmarked(None)
    ('d0c5-81f3', None)
    """
    return None if inputs is None else inputs.replace(NOISE_DIGEST, "")


def require_file(config: Config) -> None:
    """Say that a file of noise is missing before anything else is loaded.

    Raises:
        FileNotFoundError: it is not there.
    """
    path = noise_file(config.noise)
    if path is None or os.path.isfile(path):
        return
    if os.path.exists(path):
        found = "a folder" if os.path.isdir(path) else "a device or a pipe"
        raise FileNotFoundError(f"noise: no file {path}, but {found}; put the file with the noise there")
    raise FileNotFoundError(
        f"noise: no file {path}; put it back if it was there, or make one: "
        f"{shlex.join(['noiseproof', 'noise', config.dataset, '--out', os.path.basename(path)])}. A relative path "
        "counts from where the command is given"
    )


def saved_labels(config: Config, train: LabeledData) -> NoisyLabels:
    """Labels of a config's file, for the whole training split.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, or is not for this data.
    """
    path = noise_file(config.noise)
    assert path is not None
    with _of(config, train):
        found = noise.read_labels(path, train.labels, train.num_classes, train.class_names)
    if found.outside is not None:
        raise ValueError(
            f"noise: {path} holds open-set noise, which puts images of other data in the place of some; training "
            "takes labels from a file, not images"
        )
    if found.kind == "human" and train.uncertain is not None:
        raise ValueError(
            f"noise: the place of {len(train.uncertain)} images of {config.dataset} in the official order of human "
            "labels is not certain; say --noise real, which leaves them out"
        )
    return found


def saved_masks(config: Config, train: LabeledData) -> NoisyMasks:
    """Masks of a config's file, for the whole training split; void pixels count as background.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read, or is not for these masks.
    """
    path = noise_file(config.noise)
    assert path is not None
    assert train.masks is not None
    with _of(config, train):
        return noise.read_masks(path, np.where(train.masks == VOID, 0, train.masks).astype(np.uint8))


@contextmanager
def _of(config: Config, train: LabeledData) -> Iterator[None]:
    """Say whose labels a file does not fit; refuse one that became another after the run was named by it."""
    try:
        yield
    except ValueError as error:
        wanted = f"{len(train)} samples, {train.num_classes} classes"
        if train.masks is not None and config.image_size is not None:
            wanted += f", brought to {config.image_size} (noiseproof noise --image-size {config.image_size})"
        raise ValueError(
            f"noise: {error}. Wanted is noise for the training split of {config.dataset}: {wanted}"
        ) from error
    path = noise_file(config.noise)
    assert path is not None
    # Whoever began the run has looked as well, but the file was read only now.
    digests = unmarked(config.inputs)
    if digests is not None and identity_of_file(Path(path)) not in digests.split("-"):
        raise ValueError(
            f"noise: {path} has changed since this run was begun. Put it back, or give the command again: it "
            "begins a new run"
        )
