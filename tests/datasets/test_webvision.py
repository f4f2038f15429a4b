# SPDX-License-Identifier: Apache-2.0
"""WebVision-mini and ILSVRC-2012's validation images, from small folders in exactly the published layouts."""

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from noiseproof.datasets import webvision
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.registry import get, load

WORDNET_NAMES = [f"n{1440764 + 7 * number:08}" for number in range(1000)]


def write_picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 16), (200, 30, 30)).save(path, format="JPEG")


@pytest.fixture
def published(tmp_path):
    """Lines as in the official files: labels up to 999, paths with the query's folder, val names alone."""
    root = tmp_path / "webvision"
    (root / "info").mkdir(parents=True)
    synsets = [f"{name} animal {number}, Animal numero {number}" for number, name in enumerate(WORDNET_NAMES)]
    (root / "info" / "synsets.txt").write_text("\n".join(synsets) + "\n")
    train, val = [], []
    for label in range(0, 1000, 7):
        for number in range(2):
            train.append(f"google/q{label + 1:04}/pic-{number}_XyZ.jpg {label}")
            if label < 50:
                write_picture(root / train[-1].split()[0])
    for number, label in enumerate((49, 3, 51, 0, 999), start=1):
        val.append(f"val{number:06}.jpg {label}")
        write_picture(root / "val_images_256" / f"val{number:06}.jpg")
    (root / "info" / "train_filelist_google.txt").write_text("\n".join(train) + "\n")
    (root / "info" / "val_filelist.txt").write_text("\n".join(val) + "\n")
    return root


def test_the_first_fifty_classes_are_kept_in_list_order(published, tmp_path):
    get("webvision-mini", source_folder=published, root=tmp_path / "cache")
    train = load("webvision-mini", "train", root=tmp_path / "cache")
    assert train.labels.tolist() == [label for label in range(0, 50, 7) for _ in range(2)]
    assert train.num_classes == 50
    assert train.class_names[1] == "animal 1"
    assert train.paths[2] == published.resolve() / "google/q0008/pic-0_XyZ.jpg"
    assert all(path.is_file() for path in train.paths)
    test = load("webvision-mini", "test", root=tmp_path / "cache")
    assert test.labels.tolist() == [49, 3, 0]
    assert [path.name for path in test.paths] == ["val000001.jpg", "val000002.jpg", "val000004.jpg"]
    with pytest.raises(DataError, match="webvision-mini has the splits train, test, not 'validation'"):
        load("webvision-mini", "validation", root=tmp_path / "cache")


@pytest.mark.parametrize("form", ["wordnet", "number", "flat"])
def test_ilsvrc_validation_in_each_form(published, tmp_path, form):
    expected = {0: 2, 49: 1}
    if form == "flat":
        truth = []
        ids = np.random.default_rng(0).permutation(1000) + 1  # ILSVRC2012_IDs are not in WordNet order
        for number, label in enumerate((0, 700, 49, 0, 999), start=1):
            write_picture(published / "ILSVRC2012_img_val" / f"ILSVRC2012_val_{number:08}.JPEG")
            truth.append(str(ids[label]))
        kit = published / "ILSVRC2012_devkit_t12" / "data"
        kit.mkdir(parents=True)
        (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("\n".join(truth) + "\n")
        fields = [("ILSVRC2012_ID", object), ("WNID", object), ("words", object), ("num_children", object)]
        synsets = np.zeros((1000, 1), dtype=fields)
        for row, label in enumerate(np.argsort(ids)):
            synsets[row, 0] = (float(ids[label]), WORDNET_NAMES[label], f"words {label}", 0.0)
        savemat(kit / "meta.mat", {"synsets": synsets})
    else:
        for label in range(50):
            name = WORDNET_NAMES[label] if form == "wordnet" else str(label)
            for number in range(expected.get(label, 1)):
                write_picture(
                    published / "imagenet" / "val" / name / f"ILSVRC2012_val_{label * 2 + number:08}.JPEG"
                )
    get("webvision-mini-ilsvrc12", source_folder=published, root=tmp_path / "cache")
    test = load("webvision-mini-ilsvrc12", "test", root=tmp_path / "cache")
    assert all(path.is_file() for path in test.paths)
    if form == "flat":
        assert test.labels.tolist() == [0, 49, 0]
        assert test.paths[1].name == "ILSVRC2012_val_00000003.JPEG"
    else:
        assert np.bincount(test.labels).tolist() == [2] + [1] * 49
    assert test.class_names == tuple(f"animal {number}" for number in range(50))


def test_damage_names_file_line_and_finding_and_leaves_the_cache_alone(published, tmp_path):
    root = tmp_path / "cache"
    lists = published / "info" / "train_filelist_google.txt"
    good = lists.read_text()

    def refused(text, message):
        lists.write_text(text)
        with pytest.raises(BadFileError, match=message):
            get("webvision-mini", source_folder=published, root=root)
        assert not (root / "webvision-mini").exists()

    refused(
        good.replace("pic-1_XyZ.jpg 0", "pic-1_XyZ.jpg"),
        r"train_filelist_google.txt: expected 'FILE LABEL' on line 2",
    )
    refused(good.replace("pic-1_XyZ.jpg 0", "pic-1_XyZ.jpg 1000"), r"a label in 0..999 on line 2, found 1000")
    refused("../secret.jpg 0\n" + good, r"a file below the set's folder on line 1, found '../secret.jpg'")
    refused("/etc/passwd 0\n" + good, r"a file below the set's folder on line 1")
    refused(
        "google/q0001/gone.jpg 0\n" + good,
        r"gone.jpg: expected a file \(entry 1 of train_filelist_google.txt\)",
    )
    lists.unlink()
    with pytest.raises(
        BadFileError, match=r"train_filelist_google.txt: .* no such file; unpack the whole set"
    ):
        get("webvision-mini", source_folder=published, root=root)


def test_a_set_whose_files_are_gone_says_where_they_were(published, tmp_path):
    get("webvision-mini", source_folder=published, root=tmp_path / "cache")
    published.rename(tmp_path / "elsewhere")
    with pytest.raises(
        DataError, match="which no longer exists; import it again with: noiseproof data get webvision-mini"
    ):
        load("webvision-mini", root=tmp_path / "cache")


def test_without_a_folder_it_says_what_to_get(tmp_path):
    with pytest.raises(
        DataError, match="--from FOLDER, where FOLDER holds info/, google/ and val_images_256/"
    ):
        get("webvision-mini", root=tmp_path)
    assert webvision.NAME == "webvision-mini"
