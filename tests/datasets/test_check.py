# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from noiseproof import datasets
from noiseproof.datasets import (
    DataError,
    LabeledData,
    NotInCacheError,
    PrefixSource,
    Source,
    UnknownDataError,
    cache,
    registry,
)
from noiseproof.datasets.check import Report, check, check_several_classes
from noiseproof.datasets.registry import SplitFacts

Filler = Callable[..., None]


def said(report: Report, subject: str) -> tuple[str, str]:
    (finding,) = [finding for finding in report.findings if finding.subject == subject]
    return finding.level, finding.text


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Filler:
    """Put a made-up set of two splits, 3 classes, 2×2 grey images into a cache."""
    monkeypatch.setattr(registry, "_sources", {})

    def read(folder: Path, split: str) -> LabeledData:
        labels = np.array(cache.read_array(folder, f"{split}_labels"))
        images = cache.read_array(folder, f"{split}_images")
        return LabeledData("mine", split, labels, ("a", "b", "c"), images=images)

    facts = (SplitFacts("train", 6, (2, 2, 1)), SplitFacts("test", 3, (2, 2, 1)))
    datasets.register(Source("mine", "d", ("train", "test"), "f", "w", lambda *_: None, read, facts=facts))

    def fill(**changes: np.ndarray) -> None:
        arrays = {
            "train_labels": np.array([0, 1, 2, 0, 1, 2]),
            "train_images": np.arange(24, dtype=np.uint8).reshape(6, 2, 2, 1),
            "test_labels": np.array([0, 1, 2]),
            "test_images": np.arange(100, 112, dtype=np.uint8).reshape(3, 2, 2, 1),
        }
        with cache.replacing(tmp_path / "mine") as new:
            cache.write(new, {**arrays, **changes}, source="the test")

    return fill


def test_a_sound_set(fill: Filler, tmp_path: Path) -> None:
    fill()
    report = check("mine", root=tmp_path)
    assert report.is_sound
    assert {finding.level for finding in report.findings} == {"fine"}
    assert said(report, "checksums") == ("fine", "4 arrays are as they were written")
    assert said(report, "train count") == ("fine", "6")
    assert said(report, "test image shape") == ("fine", "(2, 2, 1)")
    assert said(report, "train label range") == ("fine", "0..2")
    assert said(report, "train class balance") == ("fine", "2 per class (3 classes)")
    assert said(report, "train and test") == ("fine", "0 test images are also in train")
    data = datasets.load("mine", root=tmp_path)
    assert said(report, "train fingerprint") == ("fine", data.fingerprint)


def test_what_differs_from_the_facts_is_a_fault(fill: Filler, tmp_path: Path) -> None:
    fill(test_labels=np.array([0, 1]), test_images=np.zeros((2, 3, 3, 1), np.uint8))
    report = check("mine", root=tmp_path)
    assert not report.is_sound
    assert said(report, "test count") == ("fault", "expected 3, found 2")
    assert said(report, "test image shape") == ("fault", "expected (2, 2, 1), found (3, 3, 1)")
    assert said(report, "test classes") == ("note", "1 have no sample: c")


def test_labels_out_of_range_are_a_fault(fill: Filler, tmp_path: Path) -> None:
    fill(test_labels=np.array([0, 1, 3]))
    report = check("mine", root=tmp_path)
    level, text = said(report, "test split")
    assert level == "fault"
    assert "must lie in 0..2" in text


def test_a_split_that_was_never_read_in_is_a_note(fill: Filler, tmp_path: Path) -> None:
    fill()
    source = registry.find("mine")

    def read(folder: Path, split: str) -> LabeledData:
        if split == "validation":
            raise datasets.DataError("mine was imported without a validation split")
        return source.read(folder, split)

    registry._sources["mine"] = replace(source, splits=("train", "test", "validation"), read=read)
    assert said(check("mine", root=tmp_path), "validation split")[0] == "fault"
    arrays = {
        name: np.array(cache.read_array(tmp_path / "mine", name)) for name in cache.verify(tmp_path / "mine")
    }
    with cache.replacing(tmp_path / "mine") as new:
        cache.write(new, arrays, source="the test", facts={"splits": ["train", "test"]})
    report = check("mine", root=tmp_path)
    assert said(report, "validation split") == ("note", "mine was imported without a validation split")
    assert report.is_sound


def test_the_users_own_data_without_any_split_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_prefixes", {})

    def read(_path: Path, _split: str) -> LabeledData:
        raise datasets.DataError("nothing here")

    datasets.register_prefix(PrefixSource("files", "d", read))
    report = check("files:here")
    assert said(report, "splits") == ("fault", "none can be read")


def test_doubles_are_notes(fill: Filler, tmp_path: Path) -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2, 1)
    images[5] = images[0]
    fill(train_images=images, test_images=images[[0, 1, 0]])
    report = check("mine", root=tmp_path)
    assert report.is_sound
    assert said(report, "train duplicates") == ("note", "1 image repeats another of this split")
    assert said(report, "test duplicates") == ("note", "1 image repeats another of this split")
    assert said(report, "train and test") == ("note", "3 test images are also in train")


def test_a_changed_byte_in_the_cache_is_a_fault(fill: Filler, tmp_path: Path) -> None:
    fill()
    path = tmp_path / "mine" / "train_images.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    level, text = said(check("mine", root=tmp_path), "checksums")
    assert level == "fault"
    assert "train_images.npy: expected sha256" in text


def test_what_is_not_there_cannot_be_checked(fill: Filler, tmp_path: Path) -> None:
    with pytest.raises(NotInCacheError):
        check("mine", root=tmp_path)
    with pytest.raises(UnknownDataError):
        check("nothing", root=tmp_path)


def test_files_and_masks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(registry, "_prefixes", {})
    for index, shade in enumerate((10, 10, 200)):
        Image.new("L", (4, 4), shade).save(tmp_path / f"{index}.png")
    paths = tuple(tmp_path / f"{index}.png" for index in range(3))

    def read_files(_path: Path, split: str) -> LabeledData:
        if split != "train":
            raise datasets.DataError("no such split")
        return LabeledData("own", split, np.array([0, 1, 1]), ("a", "b"), paths=paths)

    def read_masks(_path: Path, split: str) -> LabeledData:
        masks = np.zeros((3, 4, 4), np.uint8)
        masks[0] = 1
        masks[1] = 5 if split == "test" else 1
        return LabeledData("own", split, np.zeros(3, np.int64), ("back", "front"), paths=paths, masks=masks)

    datasets.register_prefix(PrefixSource("files", "d", read_files))
    datasets.register_prefix(PrefixSource("masks", "d", read_masks))
    report = check("files:here")
    assert report.is_sound
    assert said(report, "test split") == ("note", "no such split")
    assert said(report, "train files") == ("fine", "all 3 are there")
    assert said(report, "train duplicates") == ("note", "1 image repeats another of this split")
    report = check("masks:here")
    assert said(report, "train mask values") == ("fine", "0..1 (2 classes)")
    assert said(report, "test mask values") == ("fault", "0..5 (2 classes)")
    assert said(report, "train masks") == ("note", "1 have no foreground at all")
    paths[1].unlink()
    level, text = said(check("files:here"), "train files")
    assert level == "fault"
    assert text.startswith("1 of 3 files is missing, the first")


def test_pictures_that_cannot_be_read_are_all_named(tmp_path: Path) -> None:
    """Training would stop at the first of them, and after that at the next."""
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for index in range(3):
            noise = random.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / name / f"{index}.jpg")
    assert said(check(f"folder:{tmp_path}"), "train images") == ("fine", "all can be read")
    cut, empty, page = tmp_path / "a/0.jpg", tmp_path / "a/1.jpg", tmp_path / "b/2.jpg"
    cut.write_bytes(cut.read_bytes()[:-200])
    empty.write_bytes(b"")
    page.write_text("<html>404</html>")
    report = check(f"folder:{tmp_path}")
    assert not report.is_sound
    assert report.unreadable == (cut, empty, page)
    level, text = said(report, "train images")
    assert level == "fault"
    head, *lines = text.split("\n")
    assert head == "3 cannot be read:"
    assert [line.partition(": ")[0] for line in lines] == [str(cut), str(empty), str(page)]
    assert "truncated" in lines[0]
    assert "0 bytes that no image reader knows" in lines[1]


def test_pictures_that_cannot_be_read_repeat_nothing(tmp_path: Path) -> None:
    """Two empty files are not one image of two labels; what can be read is still compared."""
    for name in ("train/a/1", "train/a/2", "train/b/1", "test/a/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), 10).save(tmp_path / f"{name}.png")
    for name in ("train/a/empty", "train/b/broken", "test/b/empty"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.png").write_bytes(b"")
    report = check(f"folder:{tmp_path}")
    assert said(report, "train images")[1].startswith("2 cannot be read:")
    assert said(report, "train duplicates") == ("note", "2 images repeat another of this split")
    _, text = said(report, "train labels of duplicates")
    assert text.startswith("1 image has several labels")
    assert ".png (a)" in text
    assert "empty" not in text
    assert said(report, "test duplicates") == ("fine", "0 images repeat another of this split")
    assert said(report, "train and test") == ("note", "1 test image is also in train")


def test_stray_files_are_named_and_the_pictures_are_looked_at_all_the_same(tmp_path: Path) -> None:
    for name in ("train/a/1", "train/b/1", "test/a/1", "test/b/1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), 10).save(tmp_path / f"{name}.png")
    broken = tmp_path / "train/a/2.png"
    broken.write_bytes(b"")
    strays = tuple(tmp_path / "train" / name for name in ("a/notes.txt", "b/labels.json"))
    for file in strays:
        file.write_text("")
    report = check(f"folder:{tmp_path}")
    assert not report.is_sound
    assert report.strays == strays
    assert report.unreadable == (broken,)
    level, text = said(report, "train stray files")
    assert level == "fault"
    head, *named = text.split("\n")
    assert head.startswith("2 files are no images; move them elsewhere")
    assert named == list(map(str, strays))
    assert said(report, "train count") == ("fine", "3")
    assert said(report, "train images")[1].startswith("1 cannot be read:")
    assert said(report, "test images") == ("fine", "all can be read")
    assert "test stray files" not in {finding.subject for finding in report.findings}


def test_a_class_folder_of_stray_files_alone_does_not_hide_the_other_classes(tmp_path: Path) -> None:
    for name in ("a", "b", "papers"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        Image.new("L", (4, 4)).save(tmp_path / name / "1.png")
    (tmp_path / "papers/licence.txt").write_text("")
    report = check(f"folder:{tmp_path}")
    assert said(report, "train stray files")[1].startswith("1 file is no image; move it elsewhere")
    assert said(report, "train images") == ("fine", "all can be read")
    assert said(report, "train classes") == ("note", "1 have no sample: papers")


def test_stray_files_are_named_beside_another_fault_of_the_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes.txt").write_text("")
    report = check(f"folder:{tmp_path}")
    assert said(report, "train stray files")[1].startswith("2 files are no images")
    assert "expected images in the class folders, found none" in said(report, "train split")[1]


def test_equal_pictures_with_several_labels_are_named(tmp_path: Path) -> None:
    """Of their labels one at most is right, whatever a model says."""
    for name, shade in (("a/1", 10), ("a/2", 10), ("b/1", 10), ("b/2", 200), ("b/3", 200)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (4, 4), shade).save(tmp_path / f"{name}.png")
    report = check(f"folder:{tmp_path}")
    assert report.is_sound
    level, text = said(report, "train labels of duplicates")
    assert level == "note"
    assert text.split("\n") == [
        "1 image has several labels, of which at most one is right:",
        ", ".join(f"{tmp_path / name}.png ({name[0]})" for name in ("a/1", "a/2", "b/1")),
    ]


def test_classes_with_few_samples_are_named(tmp_path: Path) -> None:
    for name, count in (("common", 21), ("rare", 2)):
        (tmp_path / name).mkdir()
        for index in range(count):
            Image.new("L", (4, 4), index).save(tmp_path / name / f"{index}.png")
    report = check(f"folder:{tmp_path}")
    assert said(report, "train rare classes") == ("note", "below a tenth of the commonest: rare (2)")


def test_training_data_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "empty").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "a/1.png")
    level, text = said(check(f"folder:{tmp_path}"), "train split")
    assert level == "fault"
    assert "empty: expected images of the class, found none; put some there, or remove the folder" in text


def test_a_list_that_cannot_be_read_is_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path,label\nnowhere.png,a\n")
    findings = check(f"csv:{tmp_path / 'list.csv'}").findings
    assert [finding.subject for finding in findings] == ["train split", "splits"]


def test_a_folder_one_level_too_high(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("all/photos/cat/1.png", "all/photos/dog/2.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(name)
    level, text = said(check("folder:all"), "train classes")
    assert (level, text[:54]) == ("fault", "expected two classes or more, got one, 'photos': there")
    assert text.endswith("did you mean folder:all/photos?")
    with pytest.raises(DataError, match="^folder:all: expected two classes or more"):
        check_several_classes("folder:all", datasets.load("folder:all"))
    assert said(check("folder:all/photos/"), "train class balance") == ("fine", "1 per class (2 classes)")

    (tmp_path / "all/checked").mkdir()
    Image.new("RGB", (8, 8)).save("all/checked/3.png")
    level, text = said(check("folder:all"), "train class folders")
    assert (level, text[:62]) == ("note", "all images of class photos are in its sub-folders: cat, dog; i")
    assert text.endswith("use folder:all/photos")
    Image.new("RGB", (8, 8)).save("all/photos/4.png")
    assert "train class folders" not in {each.subject for each in check("folder:all").findings}


def test_where_splits_go_is_told_from_the_folder_that_was_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (8, 8)).save(f"{name}/1.png")
    _, text = said(check("folder:."), "test split")
    assert text.endswith("put it into train/ and the test data into test/")
