# SPDX-License-Identifier: Apache-2.0
"""Samples as scikit-learn's users hold them, made into what a network reads."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from torch import Tensor

DENSE_NUMBERS = 1 << 26
"""A sparse table of at most so many numbers (256 MB of float32) is unpacked once instead of batch by batch."""


def off_torch(values: Any) -> Any:
    """Tensors as NumPy arrays, sparse ones of two dimensions as sparse tables; everything else as it came."""
    if not isinstance(values, Tensor):
        return values
    values = values.detach().cpu()
    if values.dtype == torch.bfloat16:
        values = values.float()
    if values.layout is torch.strided:
        return values.numpy()
    if values.ndim != 2 or values.dense_dim():
        return values.to_dense().numpy()
    cells = (
        values if values.layout is torch.sparse_coo else values.to_sparse(layout=torch.sparse_coo)
    ).coalesce()
    return sparse.csr_array((cells.values().numpy(), cells.indices().numpy()), shape=tuple(values.shape))


MERGED_NUMBERS = 1 << 20


def merged(
    samples: Any, labels: NDArray[np.int64], weights: NDArray[np.float64]
) -> tuple[Any, NDArray[np.int64], NDArray[np.float64]]:
    """A small table in sorted order, equal rows with equal labels made one whose weight is their sum.

    Training on it does not depend on the order in which samples came, nor on whether one of them came twice or
    with a weight of 2. Large tables stay as they are.
    """
    if np.prod(samples.shape) > MERGED_NUMBERS or samples.ndim != 2:
        return samples, labels, weights
    dense = samples.toarray() if sparse.issparse(samples) else samples
    _, first, which = np.unique(
        np.column_stack([dense, labels]), axis=0, return_index=True, return_inverse=True
    )
    summed = np.zeros(len(first))
    np.add.at(summed, which.ravel(), weights)
    return samples[first], labels[first], summed


class Scaling:
    """Brings features to one scale, as learnt from the training samples and their weights.

    Dense tables: zero mean and unit variance a column. Sparse tables, whose zeros must stay: each column by its
    largest absolute value. Images and other samples of several dimensions: zero mean and unit variance a channel
    (the first dimension of a sample).
    """

    def __init__(self, samples: Any, weights: NDArray[np.float64]) -> None:
        if sparse.issparse(samples):
            self._scaler: Any = MaxAbsScaler().fit(samples)
        else:
            self._scaler = StandardScaler().fit(_as_table(samples), _for_table(weights, samples))

    def __call__(self, samples: Any) -> Any:
        """Scaled samples, in the shape in which they came."""
        if sparse.issparse(samples) or samples.ndim == 2:
            return self._scaler.transform(samples)
        scaled = self._scaler.transform(_as_table(samples))
        channels_last = scaled.reshape(len(samples), *samples.shape[2:], samples.shape[1])
        return np.moveaxis(channels_last, -1, 1)


def _as_table(samples: NDArray[Any]) -> NDArray[Any]:
    """Samples of several dimensions as one row a position and one column a channel."""
    return samples if samples.ndim == 2 else np.moveaxis(samples, 1, -1).reshape(-1, samples.shape[1])


def _for_table(weights: NDArray[np.float64], samples: NDArray[Any]) -> NDArray[np.float64]:
    return weights if samples.ndim == 2 else np.repeat(weights, samples[0, 0].size)


def as_floats(samples: Any) -> Any:
    """Numbers that can be scaled without loss: small integers as float32, others as float64."""
    if samples.dtype.kind == "f":
        return samples if samples.dtype.itemsize in (4, 8) else samples.astype(np.float32)
    return samples.astype(np.float32 if samples.dtype.itemsize <= 2 else np.float64)


class Rows:
    """Samples from which batches are taken; sparse ones are unpacked, at once if they are few."""

    def __init__(self, samples: Any, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        if sparse.issparse(samples) and np.prod(samples.shape) <= DENSE_NUMBERS:
            samples = samples.toarray()
        self._sparse = samples.tocsr() if sparse.issparse(samples) else None
        self._dense = None if self._sparse is not None else self._tensor(samples)
        self.shape: tuple[int, ...] = tuple(samples.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def _tensor(self, samples: NDArray[Any]) -> Tensor:
        if not samples.flags.writeable or any(stride < 0 for stride in samples.strides):
            samples = samples.copy()
        return torch.from_numpy(samples).to(self._device, self._dtype)

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        if self._dense is not None:
            return self._dense[which]
        assert self._sparse is not None
        part = which if isinstance(which, slice) else which.cpu().numpy()
        return self._tensor(self._sparse[part].toarray())
