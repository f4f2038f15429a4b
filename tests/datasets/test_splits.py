# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseproof import datasets
from noiseproof.datasets import (
    BadFileError,
    DataError,
    LabeledData,
    Split,
    fingerprint,
    load_split,
    tuning_split,
)


@pytest.fixture(scope="module")
def data() -> LabeledData:
    return datasets.load("digits")


def make(labels: list[int]) -> LabeledData:
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
    return LabeledData("made up", "train", np.array(labels, dtype=np.int64), ("a", "b", "c"), images=images)


def test_a_seed_gives_the_same_split_for_ever(data: LabeledData) -> None:
    assert fingerprint.of_array(tuning_split(data, seed=1).validation).startswith("28f60dea954974a4")
    assert fingerprint.of_array(tuning_split(data, seed=1, stratified=True).validation).startswith(
        "a0f1867d25e8eed5"
    )


def test_seeds_differ(data: LabeledData) -> None:
    assert not np.array_equal(tuning_split(data, seed=1).validation, tuning_split(data, seed=2).validation)


@given(
    labels=st.lists(st.integers(0, 2), min_size=1, max_size=60),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
    stratified=st.booleans(),
)
def test_the_parts_share_out_the_whole(labels: list[int], share: float, seed: int, stratified: bool) -> None:
    data = make(labels)
    split = tuning_split(data, share=share, seed=seed, stratified=stratified)
    assert sorted([*split.train, *split.validation]) == list(range(len(labels)))
    train, validation = split.apply(data)
    assert (train.split, validation.split) == ("train", "validation")
    assert len(train) == len(split.train)
    if not stratified:
        assert len(validation) == round(share * len(labels))
    else:
        for label in range(3):
            assert np.sum(validation.labels == label) == round(share * labels.count(label))


def test_validation_is_as_noisy_as_training(data: LabeledData) -> None:
    split = tuning_split(data, seed=1)
    noisy = (data.labels + 1) % 10
    train, validation = split.apply(data, labels=noisy)
    assert np.array_equal(train.labels, noisy[split.train])
    assert np.array_equal(validation.labels, noisy[split.validation])
    _, clean = split.apply(data, labels=noisy, clean_validation=True)
    assert np.array_equal(clean.labels, data.labels[split.validation])


def test_labels_of_another_length_are_refused(data: LabeledData) -> None:
    with pytest.raises(ValueError, match="1437 labels but 1438 images"):
        tuning_split(data).apply(data, labels=data.labels[1:])


def test_other_data_is_refused(data: LabeledData) -> None:
    split = tuning_split(data)
    with pytest.raises(DataError, match="drawn for other data than digits train"):
        split.apply(data.subset(np.arange(len(data))[::-1]))


def test_saved_and_loaded(data: LabeledData, tmp_path: Path) -> None:
    split = tuning_split(data, seed=7)
    split.save(tmp_path / "split.npz")
    loaded = load_split(tmp_path / "split.npz")
    assert np.array_equal(loaded.train, split.train)
    assert np.array_equal(loaded.validation, split.validation)
    assert (loaded.fingerprint, loaded.seed) == (data.fingerprint, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["split.npz"]


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_outside_is_refused(data: LabeledData, share: float) -> None:
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        tuning_split(data, share=share)


@pytest.mark.parametrize(
    ("train", "validation"), [([0, 1], [1, 2]), ([0, 1], [3]), ([0, 0], [1]), ([-1, 0], [1])]
)
def test_overlapping_or_incomplete_indices_are_refused(train: list[int], validation: list[int]) -> None:
    with pytest.raises(ValueError, match="share out"):
        Split(np.array(train), np.array(validation), "x", 0)


def test_a_strange_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    parts = {
        "format_version": 1,
        "train": np.array([0]),
        "validation": np.array([1]),
        "fingerprint": "x",
        "seed": 0,
    }
    for change, message in (
        ({"format_version": 2}, "format_version 1, found 2"),
        ({"train": np.array([1])}, "a split written by"),
        ({"train": np.array([0.0])}, "a split written by"),
        ({"train": np.array([{}], dtype=object)}, "a split written by"),
    ):
        np.savez(path, **{**parts, **change})  # type: ignore[arg-type]
        with pytest.raises(BadFileError, match=message):
            load_split(path)
    del parts["seed"]
    np.savez(path, **parts)  # type: ignore[arg-type]
    with pytest.raises(BadFileError, match="seed"):
        load_split(path)
    path.write_bytes(b"not a zip file")
    with pytest.raises(BadFileError, match="a split written by"):
        load_split(path)
    with pytest.raises(FileNotFoundError):
        load_split(tmp_path / "nowhere.npz")
