# SPDX-License-Identifier: Apache-2.0
"""Samples with their labels, as their owner holds them: arrays, a dataset, a loader."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
)

from noiseproof.sklearn.inputs import off_torch

ROWS_AT_A_TIME = 1024
SAMPLES_AT_A_TIME = 64
EXPECTED = "data: expected a pair (samples, labels), or a dataset or loader of such pairs, got"


def as_array(values: Any) -> NDArray[Any]:
    """Numbers or names as a NumPy array; one that is mapped to a file stays there."""
    values = off_torch(values)
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else np.asarray(values)
    return array


def together(data: Any) -> tuple[Any, NDArray[Any]]:
    """All samples, as a table or array whose rows can be taken, and all labels."""
    pair = _pair(data)
    if pair is not None:
        samples, labels = pair
        return (np.asarray(samples) if isinstance(samples, list) else off_torch(samples)), as_array(labels)
    parts = list(_batches(data))
    if not parts:
        raise ValueError("data: expected at least one sample, got none")
    return np.concatenate([as_array(inputs) for inputs, _ in parts]), np.concatenate([y for _, y in parts])


def in_parts(data: Any) -> Iterator[tuple[Tensor, NDArray[Any]]]:
    """Some inputs and labels at a time, in the order of the data."""
    pair = _pair(data)
    if pair is None:
        yield from _batches(data)
        return
    inputs, labels = _tensor(pair[0]), as_array(pair[1])
    for start in range(0, len(inputs), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        yield inputs[rows], labels[rows]


def _pair(data: Any) -> tuple[Any, Any] | None:
    """Samples and labels that came as two arrays; ``None`` where they came otherwise."""
    if isinstance(data, TensorDataset):
        data = data.tensors
    elif isinstance(data, list) and not all(isinstance(each, tuple) for each in data):
        data = tuple(data)
    if not isinstance(data, tuple):
        return None
    if len(data) != 2:
        raise TypeError(f"{EXPECTED} {len(data)} things")
    samples, labels = data
    if _count(samples) != _count(labels):
        raise ValueError(
            f"data: expected a label for each of {_count(samples)} samples, got {_count(labels)}"
        )
    return samples, labels


def _count(values: Any) -> int:
    shape = getattr(values, "shape", None)
    if shape is None and hasattr(values, "__len__"):
        return len(values)
    if not shape:
        raise TypeError(f"{EXPECTED} a pair with a single {type(values).__name__}")
    return int(shape[0])


def _batches(data: Any) -> Iterator[tuple[Tensor, NDArray[Any]]]:
    for batch in _in_order(data):
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            what = f"{len(batch)} things" if isinstance(batch, tuple | list) else type(batch).__name__
            raise TypeError(f"{EXPECTED} batches of {what}")
        inputs, labels = _tensor(batch[0]), as_array(batch[1])
        if labels.ndim == 0:
            raise TypeError(f"{EXPECTED} single samples; wrap them in a DataLoader")
        if len(inputs) != len(labels):
            raise ValueError(f"data: expected a label for each of {len(inputs)} samples, got {len(labels)}")
        yield inputs, labels


def _in_order(data: Any) -> Iterable[Any]:
    """Batches in the order of the dataset, whatever the order in which a loader would draw them."""
    if isinstance(data, DataLoader):
        if isinstance(data.dataset, IterableDataset):
            return data
        drawn = data.sampler if type(data.batch_sampler) in (BatchSampler, type(None)) else data.batch_sampler
        if type(drawn) not in (SequentialSampler, RandomSampler):
            raise ValueError(
                f"data: expected a loader of all its samples, got one with {type(drawn).__name__}; give the "
                "dataset itself, or torch.utils.data.Subset(…) for a part of it"
            )
        return DataLoader(
            data.dataset,
            batch_size=data.batch_size,
            collate_fn=data.collate_fn,
            num_workers=data.num_workers,
            worker_init_fn=data.worker_init_fn,
        )
    if isinstance(data, Dataset):
        return DataLoader(data, batch_size=SAMPLES_AT_A_TIME)
    if hasattr(data, "shape") or isinstance(data, str | Mapping):
        raise TypeError(f"{EXPECTED} {type(data).__name__}")
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return DataLoader(data, batch_size=SAMPLES_AT_A_TIME)
    if not isinstance(data, Iterable):
        raise TypeError(f"{EXPECTED} {type(data).__name__}")
    return data


def _tensor(values: Any) -> Tensor:
    return values if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
