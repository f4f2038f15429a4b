# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from noiseproof import datasets
from noiseproof.datasets import (
    DataError,
    LabeledData,
    NotInCacheError,
    Source,
    UnknownDataError,
    cache,
    registry,
)

NAMES = [source.name for source in datasets.sources()]


def test_the_sets_of_the_core_are_listed_digits_first() -> None:
    core = ["digits", "fashion-mnist", "cifar10", "cifar100", "cifar10n", "cifar100n"]
    assert NAMES[: len(core)] == core


@pytest.mark.parametrize("source", datasets.sources(), ids=NAMES)
def test_a_listed_set_says_what_it_is_and_where_it_comes_from(source: Source) -> None:
    assert source.description
    assert source.form
    assert source.where
    assert set(source.splits) <= {"train", "test", "validation"}
    assert {facts.split for facts in source.facts} <= set(source.splits)


@pytest.mark.parametrize("source", datasets.sources(), ids=NAMES)
def test_a_set_not_in_the_cache_says_how_to_get_it(source: Source, tmp_path: Path) -> None:
    if source.embedded:
        assert len(datasets.load(source.name, root=tmp_path))
        return
    with pytest.raises(NotInCacheError, match=f"noiseproof data get {source.name}") as error:
        datasets.load(source.name, source.splits[0], root=tmp_path)
    assert "--from" in str(error.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("cifra10", "cifar10"), ("CIFAR10", "cifar10"), ("fashion_mnist", "fashion-mnist"), ("digit", "digits")],
)
def test_a_slip_offers_the_nearest_name(name: str, nearest: str) -> None:
    with pytest.raises(UnknownDataError, match=f"did you mean '{nearest}'"):
        datasets.load(name)


def test_a_path_without_its_prefix_is_told_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lesions").mkdir()
    Path("labels.csv").write_text("path,label")
    for name, said in (
        ("lesions", "folder:lesions"),
        ("./lesions", "folder:./lesions"),
        ("labels.csv", "csv:labels.csv"),
    ):
        with pytest.raises(UnknownDataError, match=f"for your own .* there, use '{said}', or "):
            datasets.load(name)
    with pytest.raises(UnknownDataError, match="known: digits"):
        datasets.load("x" * 5000 + "\0")


def test_a_name_like_no_other_lists_them_all() -> None:
    with pytest.raises(UnknownDataError, match=r"known: digits, fashion-mnist.* folder:PATH.* tuning:NAME"):
        datasets.load("qqqqqq")


@pytest.mark.parametrize("prefix", ["folder", "csv", "tuning"])
def test_nothing_after_the_colon_is_not_the_folder_one_is_in(prefix: str) -> None:
    with pytest.raises(UnknownDataError, match=f"'{prefix}:' names nothing after the colon"):
        datasets.load(f"{prefix}:")


def test_a_split_that_does_not_exist() -> None:
    with pytest.raises(DataError, match="digits has the splits train, test, not 'validation'"):
        datasets.load("digits", "validation")


def test_from_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        datasets.get("cifar10", source_folder=tmp_path / "nowhere", root=tmp_path)


@pytest.fixture
def own_source(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """A made-up set whose list of preparations is returned."""
    monkeypatch.setattr(registry, "_sources", dict(registry._sources))
    prepared: list[Path | None] = []

    def prepare(origin: Path | None, folder: Path) -> None:
        prepared.append(origin)
        with cache.replacing(folder) as new:
            cache.write(new, {"labels": np.arange(3)}, source="made up")

    def read(folder: Path, split: str) -> LabeledData:
        labels = np.array(cache.read_array(folder, "labels"))
        return LabeledData("mine", split, labels, ("a", "b", "c"), images=np.zeros((3, 1, 1, 1), np.uint8))

    datasets.register(Source("mine", "made up", ("train",), "array", "From nowhere.", prepare, read))
    return prepared


def test_get_prepares_once_unless_asked_again(own_source: list[Path | None], tmp_path: Path) -> None:
    datasets.get("mine", root=tmp_path)
    datasets.get("mine", root=tmp_path)
    assert own_source == [None]
    datasets.get("mine", root=tmp_path, again=True)
    datasets.get("mine", root=tmp_path, source_folder=tmp_path)
    assert own_source == [None, None, tmp_path]
    assert datasets.load("mine", root=tmp_path).labels.tolist() == [0, 1, 2]


def test_a_name_is_given_once(own_source: list[Path | None]) -> None:
    with pytest.raises(ValueError, match="'mine' is already registered"):
        datasets.register(registry.find("mine"))


@pytest.mark.parametrize("name", ["a:b", "a/b", "..", ""])
def test_a_name_must_be_a_folder_name(name: str, own_source: list[Path | None]) -> None:
    made_up = registry.find("mine")
    with pytest.raises(ValueError, match="usable as a folder's name"):
        datasets.register(Source(name, "d", ("train",), "f", "w", prepare=made_up.prepare, read=made_up.read))


def test_names_with_a_prefix_go_to_the_readers_of_that_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_prefixes", {})
    seen: list[tuple[Path, str]] = []

    def read(path: Path, split: str) -> LabeledData:
        seen.append((path, split))
        return LabeledData("own", split, np.zeros(1, np.int64), ("a",), paths=(path,))

    datasets.register_prefix(datasets.PrefixSource("own", "one file", read))
    datasets.load("own:/some/where:odd.png", "test")
    assert seen == [(Path("/some/where:odd.png"), "test")]
    with pytest.raises(DataError, match="read in place"):
        datasets.get("own:/some/where")
    with pytest.raises(UnknownDataError, match="did you mean 'own:PATH'"):
        datasets.load("ownn:/x")
    with pytest.raises(ValueError, match="already registered"):
        datasets.register_prefix(datasets.PrefixSource("own", "again", read))
