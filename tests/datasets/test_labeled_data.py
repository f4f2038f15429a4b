# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from noiseproof.datasets import LabeledData, fingerprint


def make(**changes: object) -> LabeledData:
    values: dict[str, object] = {
        "name": "mine",
        "split": "train",
        "labels": np.array([0, 1, 2, 1]),
        "class_names": ("a", "b", "c"),
        "images": np.arange(4 * 12, dtype=np.uint8).reshape(4, 2, 2, 3),
    }
    return LabeledData(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "dev"}, "split must be one of train, test, validation, got 'dev'"),
        ({"labels": np.array([0, 1, 2, 1], dtype=np.int32)}, "labels of mine must be int64 .* got int32"),
        ({"labels": np.zeros((4, 1), dtype=np.int64)}, r"got int64 of shape \(4, 1\)"),
        ({"labels": np.array([0, 1, 3, 1])}, r"must lie in 0\.\.2, got 0\.\.3"),
        ({"labels": np.array([0, 1, -1, 1])}, r"must lie in 0\.\.2, got -1\.\.1"),
        ({"class_names": ()}, "at least one class"),
        ({"images": None}, "needs either images or paths, got neither"),
        ({"paths": (Path("a"),) * 4}, "needs either images or paths, got both"),
        ({"images": np.zeros((4, 2, 2, 3))}, "images of mine must be uint8"),
        ({"images": np.zeros((4, 2, 2), dtype=np.uint8)}, r"shape \(N, H, W, C\), got"),
        ({"images": np.zeros((3, 2, 2, 3), dtype=np.uint8)}, "has 4 labels but 3 images"),
        ({"images": None, "paths": (Path("a"),)}, "has 4 labels but 1 paths"),
        ({"masks": np.zeros((4, 2, 2), dtype=np.int64)}, "masks of mine must be uint8"),
        ({"masks": np.zeros((5, 2, 2), dtype=np.uint8)}, "4 labels but 5 masks"),
        ({"coarse_labels": np.zeros(4)}, "coarse_labels of mine must be int64"),
        ({"coarse_labels": np.zeros(3, dtype=np.int64)}, "4 labels but 3 coarse_labels"),
        ({"uncertain": np.array([4])}, r"uncertain of mine must lie in 0\.\.3"),
        ({"uncertain": np.array([0.5])}, "uncertain of mine must be int64"),
    ],
)
def test_inconsistent_data_is_refused_with_a_reason(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_fingerprint_ignores_the_name_and_nothing_else() -> None:
    data = make()
    assert make(name="other", split="test").fingerprint == data.fingerprint
    assert make(labels=np.array([0, 1, 1, 2])).fingerprint != data.fingerprint
    assert make(images=data.images[::-1]).fingerprint != data.fingerprint
    assert make(masks=np.zeros((4, 2, 2), dtype=np.uint8)).fingerprint != data.fingerprint
    assert make(images=data.images.reshape(4, 1, 4, 3)).fingerprint != data.fingerprint


def test_fingerprint_of_paths_moves_with_their_folder() -> None:
    here = make(images=None, paths=tuple(Path("/x") / f"{i % 2}/{i}.png" for i in range(4)))
    there = make(images=None, paths=tuple(Path("/home/y/z") / f"{i % 2}/{i}.png" for i in range(4)))
    other = make(images=None, paths=tuple(Path("/x") / f"{i % 2}/{i + 1}.png" for i in range(4)))
    assert here.fingerprint == there.fingerprint != other.fingerprint


def test_fingerprint_of_a_memory_map_is_that_of_the_array(tmp_path: Path) -> None:
    array = np.random.RandomState(0).randint(0, 256, (3000, 40, 40)).astype(np.uint8)  # more than one piece
    np.save(tmp_path / "a.npy", array)
    assert fingerprint.of_array(np.load(tmp_path / "a.npy", mmap_mode="r")) == fingerprint.of_array(array)
    assert fingerprint.of_array(np.asfortranarray(array)) == fingerprint.of_array(array)


def test_fingerprint_refuses_objects() -> None:
    with pytest.raises(TypeError, match="plain numbers"):
        fingerprint.of_array(np.array([object()]))


def test_subset_takes_every_part_along() -> None:
    data = make(
        masks=np.arange(16, dtype=np.uint8).reshape(4, 2, 2),
        coarse_labels=np.array([0, 0, 1, 0]),
        uncertain=np.array([1, 2]),
    )
    part = data.subset(np.array([3, 2]))
    assert part.labels.tolist() == [1, 2]
    assert part.images is not None
    assert data.images is not None
    assert np.array_equal(part.images, data.images[[3, 2]])
    assert part.masks is not None
    assert part.masks[0, 0, 0] == 12
    assert part.coarse_labels is not None
    assert part.coarse_labels.tolist() == [0, 1]
    assert part.uncertain is not None
    assert part.uncertain.tolist() == [1]
    assert data.subset([0, 3]).uncertain is None
    assert len(data.subset([])) == 0


@pytest.mark.parametrize("indices", [[4], [-1], [0, 99]])
def test_subset_refuses_indices_out_of_range(indices: list[int]) -> None:
    with pytest.raises(IndexError, match=r"must lie in 0\.\.3"):
        make().subset(indices)


def test_subset_refuses_a_mask_of_booleans() -> None:
    with pytest.raises(ValueError, match="1-D sequence of integers"):
        make().subset(np.array([True, False, True, False]))  # type: ignore[arg-type]


def test_repr_is_short() -> None:
    assert repr(make()) == "LabeledData('mine', 'train', 4 of 2x2x3, 3 classes)"
