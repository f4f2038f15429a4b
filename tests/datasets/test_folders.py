# SPDX-License-Identifier: Apache-2.0
"""``folder:`` and ``csv:``: the user's own data, and every way it can be wrong."""

import re

import numpy as np
import pytest
from PIL import Image

from noiseproof.datasets import csv_file, folders
from noiseproof.datasets.errors import BadFileError, DataError
from noiseproof.datasets.registry import load
from noiseproof.spreadsheet import safe_cell
from noiseproof.training.store import Store


def picture(path, size=(10, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)
    return path


def test_class_folders_without_splits(tmp_path):
    for name in ("dog/2.png", "cat/b/1.jpg", "cat/a.JPEG", "zebra/3.webp"):
        picture(tmp_path / name)
    (tmp_path / "cat" / ".DS_Store").write_text("")
    (tmp_path / "cat" / "Thumbs.db").write_text("")
    data = load(f"folder:{tmp_path}")
    assert data.class_names == ("cat", "dog", "zebra")
    assert data.labels.tolist() == [0, 0, 1, 2]
    assert [path.relative_to(tmp_path).as_posix() for path in data.paths] == [
        "cat/a.JPEG",
        "cat/b/1.jpg",
        "dog/2.png",
        "zebra/3.webp",
    ]
    with pytest.raises(DataError, match="has no split folders, so all of it is training data"):
        load(f"folder:{tmp_path}", "test")


def test_runs_beside_the_classes_are_no_class(tmp_path):
    """As after `noiseproof train folder:.`, which writes them into the current folder."""
    picture(tmp_path / "cat" / "1.png")
    picture(tmp_path / "dog" / "2.png")
    with Store(tmp_path / "runs") as store:
        store.begin("a-run", {}, "0" * 64, {}, {})
    assert (tmp_path / "runs" / folders.RUNS_FILE).is_file()
    assert load(f"folder:{tmp_path}").class_names == ("cat", "dog")


def test_class_folders_below_split_folders_share_the_classes_of_train(tmp_path):
    for name in (
        "train/a/1.png",
        "train/b/1.png",
        "train/c/1.png",
        "val/b/2.png",
        "test/c/3.png",
        "test/a/3.png",
    ):
        picture(tmp_path / name)
    assert load(f"folder:{tmp_path}", "train").labels.tolist() == [0, 1, 2]
    assert load(f"folder:{tmp_path}", "validation").labels.tolist() == [1]
    assert load(f"folder:{tmp_path}", "test").labels.tolist() == [0, 2]
    assert load(f"folder:{tmp_path}", "test").class_names == ("a", "b", "c")
    picture(tmp_path / "test/d/1.png")
    with pytest.raises(DataError, match=r"test/d: expected a class of train/ \(a, b, c\), found 'd'"):
        load(f"folder:{tmp_path}", "test")


def test_what_is_wrong_with_a_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="expected a folder, found nothing"):
        folders.read(tmp_path / "gone", "train")
    with pytest.raises(DataError, match="expected a sub-folder for each class, found none"):
        folders.read(tmp_path, "train")
    picture(tmp_path / "a/1.png")
    (tmp_path / "b").mkdir()
    with pytest.raises(DataError, match="b: expected images of the class, found none"):
        folders.read(tmp_path, "train")
    (tmp_path / "b" / "notes.heic").write_text("")
    with pytest.raises(
        BadFileError, match=r"notes.heic: expected an image .* found another kind of file; move it"
    ):
        folders.read(tmp_path, "train")
    (tmp_path / "a" / "notes.txt").write_text("")
    (tmp_path / "c").mkdir()
    with pytest.raises(BadFileError, match=r"notes.txt: .* move it elsewhere, and 1 more: .*notes.heic; "):
        folders.read(tmp_path, "train")
    for name in ("a/notes.txt", "b/notes.heic"):
        (tmp_path / name).unlink()
    with pytest.raises(DataError, match=r"b: expected images .* found none, nor in c; .* remove the folders"):
        folders.read(tmp_path, "train")
    picture(tmp_path / "set/train/a/1.png")
    with pytest.raises(
        DataError, match=r"expected a folder validation/ or val/ or valid/ for the validation split"
    ):
        folders.read(tmp_path / "set", "validation")
    with pytest.raises(DataError, match="split must be one of train, test, validation, got 'dev'"):
        folders.read(tmp_path, "dev")


def test_stray_files_are_refused_with_the_command_that_leaves_them_out(tmp_path):
    folder = tmp_path / "my photos"
    for name in ("train/a/1.png", "train/b/1.png"):
        picture(folder / name)
    (folder / "train/a/notes.txt").write_text("")
    command = f"noiseproof data check 'folder:{folder}' --readable list.csv"
    with pytest.raises(BadFileError, match=f"or list the images without it: {re.escape(command)}$"):
        load(f"folder:{folder}")


def test_stray_files_are_told_to_whoever_asks_and_the_rest_is_read(tmp_path):
    for name in ("a/1.png", "b/1.png"):
        picture(tmp_path / name)
    (tmp_path / "a/notes.txt").write_text("")
    strays = []
    data = folders.read(tmp_path, "train", strays=strays)
    assert strays == [tmp_path / "a/notes.txt"]
    assert data.paths == (tmp_path / "a/1.png", tmp_path / "b/1.png")
    assert data.labels.tolist() == [0, 1]
    (tmp_path / "c").mkdir()
    with pytest.raises(DataError, match="c: expected images of the class, found none"):
        folders.read(tmp_path, "train", strays=[])


@pytest.mark.parametrize(
    ("pictures", "masks"),
    [
        ("images", "labels"),
        ("Images", "Masks"),
        ("imgs", "masks"),
        ("images", None),
        ("img", "Ground_Truth"),
        ("image", "segmentations"),
        ("images", "of-the-expert"),  # which no name tells: a file for every picture does
    ],
)
def test_pictures_and_masks_in_other_folders_are_not_taken_for_classes(tmp_path, pictures, masks):
    picture(tmp_path / pictures / "1.png")
    if masks:
        picture(tmp_path / masks / "1.png", mode="L")
    found = f"found .*{pictures}/.*; call the folders .* images and masks"
    with pytest.raises(
        DataError, match=f"expected images/ and masks/, or a sub-folder for each class, {found}"
    ):
        folders.read(tmp_path, "train")


@pytest.mark.parametrize("name", ["images", "image", "imgs", "IMG"])
def test_a_class_may_be_called_images_where_nothing_beside_may_be_masks(tmp_path, name):
    for number in range(4):  # numbered alike, in colours
        for each in (name, "drawings", "texts"):
            picture(tmp_path / "three" / each / f"{number}.png")
        picture(tmp_path / "two" / name / f"scan-{number}.png", mode="L")
        picture(tmp_path / "two" / "texts" / f"page-{number}.png", mode="L")
    assert set(folders.read(tmp_path / "three", "train").class_names) == {"drawings", "texts", name}
    found = folders.read(tmp_path / "two", "train")
    assert found.class_names == tuple(sorted([name, "texts"]))
    assert np.bincount(found.labels).tolist() == [4, 4]


def test_what_may_be_masks_beside_several_folders_is_told(tmp_path):
    for number in range(3):
        for name in ("images", "contours", "overlays"):
            picture(tmp_path / name / f"{number}.png", mode="P" if name == "contours" else "RGB")
    with pytest.raises(DataError, match="found contours/, images/, overlays/; .* rename the one for images"):
        folders.read(tmp_path, "train")
    picture(tmp_path / "images" / "more.png")  # which has no mask
    assert folders.read(tmp_path, "train").class_names == ("contours", "images", "overlays")
    picture(tmp_path / "left-masks" / "x.png")
    with pytest.raises(DataError, match="expected images/ and masks/, or a sub-folder for each class"):
        folders.read(tmp_path, "train")


def test_classes_of_train_settle_what_the_same_name_is_elsewhere(tmp_path):
    for name in ("train/images/a.png", "train/texts/b.png", "train/drawings/c.png", "test/images/d.png"):
        picture(tmp_path / name)
    assert folders.read(tmp_path, "test").labels.tolist() == [1]
    picture(tmp_path / "train/masks-of-glass/e.png")
    with pytest.raises(DataError, match=r"test: expected images/ and masks/"):
        folders.read(tmp_path, "test")


def test_a_part_of_pictures_with_masks_is_told_of_the_whole(tmp_path):
    picture(tmp_path / "cells/images/1.png")
    picture(tmp_path / "cells/masks/1.png", mode="L")
    for part in ("images", "masks"):
        with pytest.raises(DataError, match="for images with their masks, use folder:.*cells$"):
            folders.read(tmp_path / "cells" / part, "train")


def test_a_test_folder_without_masks_is_told_of_not_that_for_training(tmp_path):
    for name in ("train/images", "train/masks", "test/images", "test/labels"):
        picture(tmp_path / name / "1.png", mode="L")
    with pytest.raises(DataError, match=r"test: expected images/ and masks/, .* found images/, labels/"):
        folders.read(tmp_path, "test")


def write_mask(path, numbers):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(numbers).save(path)


@pytest.mark.parametrize("ending", ["", "_mask", "_segmentation"])
def test_images_with_binary_masks(tmp_path, ending):
    for number in range(3):
        picture(tmp_path / f"images/{number}.jpg", (10, 8))
        mask = np.zeros((8, 10), dtype=np.uint8)
        mask[number] = 255
        write_mask(tmp_path / f"masks/{number}{ending}.png", mask)
    data = load(f"folder:{tmp_path}")
    assert data.images.shape == (3, 8, 10, 3)
    assert data.class_names == ("background", "foreground")
    assert [np.flatnonzero(mask.any(axis=1)).tolist() for mask in data.masks] == [[0], [1], [2]]
    assert set(np.unique(data.masks)) == {0, 1}


def test_images_with_masks_of_several_classes(tmp_path):
    picture(tmp_path / "train/images/1.png", (4, 4))
    write_mask(tmp_path / "train/masks/1.png", np.array([[0, 1, 2, 3]] * 4, dtype=np.uint8))
    assert load(f"folder:{tmp_path}").class_names == ("0", "1", "2", "3")
    (tmp_path / "classes.txt").write_text("sky\nsea\nland\ncloud\nbird\n")
    assert load(f"folder:{tmp_path}").class_names == ("sky", "sea", "land", "cloud", "bird")
    (tmp_path / "classes.txt").write_text("sky\nsea\n\n")
    with pytest.raises(
        BadFileError, match=r"1.png: expected class indices 0..1, found the level 3; name more"
    ):
        load(f"folder:{tmp_path}")


def test_two_classes_stored_as_zero_and_one(tmp_path):
    picture(tmp_path / "images/1.png", (4, 4))
    write_mask(tmp_path / "masks/1.png", np.array([[0, 1, 0, 1]] * 4, dtype=np.uint8))
    assert load(f"folder:{tmp_path}").masks[0, 0].tolist() == [0, 1, 0, 1]


def test_255_beside_class_indices_is_void(tmp_path):
    for split in ("train", "test"):
        picture(tmp_path / split / "images/1.png", (4, 4))
    write_mask(tmp_path / "train/masks/1.png", np.array([[0, 1, 2, 255]] * 4, dtype=np.uint8))
    write_mask(tmp_path / "test/masks/1.png", np.array([[0, 0, 255, 255]] * 4, dtype=np.uint8))
    train, test = load(f"folder:{tmp_path}"), load(f"folder:{tmp_path}", "test")
    assert train.class_names == ("0", "1", "2")
    assert train.masks[0, 0].tolist() == [0, 1, 2, 255]
    assert test.masks[0, 0].tolist() == [0, 0, 255, 255]  # as in train/, not the foreground
    write_mask(tmp_path / "train/masks/1.png", np.array([[0, 1, 1, 255]] * 4, dtype=np.uint8))
    assert load(f"folder:{tmp_path}").class_names == ("0", "1")
    assert load(f"folder:{tmp_path}").masks[0, 0].tolist() == [0, 1, 1, 255]
    (tmp_path / "classes.txt").write_text("sky\nsea\nland\n")
    for split in ("train", "test"):
        assert load(f"folder:{tmp_path}", split).class_names == ("sky", "sea", "land")
        assert load(f"folder:{tmp_path}", split).masks.max() == 255
    write_mask(tmp_path / "train/masks/1.png", np.array([[0, 1, 254, 255]] * 4, dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"1.png: expected class indices 0..2, found the level 254"):
        load(f"folder:{tmp_path}")


def test_what_is_wrong_with_masks_is_named(tmp_path):
    picture(tmp_path / "images/1.png", (4, 4))
    picture(tmp_path / "images/2.png", (4, 4))
    write_mask(tmp_path / "masks/1.png", np.zeros((4, 4), dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"2.png: expected its mask masks/2.png, found no such file"):
        load(f"folder:{tmp_path}")
    write_mask(tmp_path / "masks/2.png", np.zeros((4, 5), dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"2.png: expected the size of its image, 4x4, found 5x4"):
        load(f"folder:{tmp_path}")
    picture(tmp_path / "images/2.png", (4, 6))
    write_mask(tmp_path / "masks/2.png", np.zeros((4, 6), dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"its image, 4x6, found 6x4; rotate the mask like the image"):
        load(f"folder:{tmp_path}")
    picture(tmp_path / "images/2.png", (4, 4))
    write_mask(tmp_path / "masks/2.png", np.full((4, 4), 200, dtype=np.uint8))
    two_levels = (
        r"2.png: expected class indices \(or only 0 and 255\), found the level 200; save .* as 0 and 255"
    )
    with pytest.raises(BadFileError, match=two_levels):
        load(f"folder:{tmp_path}")
    write_mask(tmp_path / "masks/2.png", np.array([[0, 100, 150, 200]] * 4, dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"found the level 200; save .* 0 and 255, .* classes.txt"):
        load(f"folder:{tmp_path}")
    write_mask(tmp_path / "masks/2.png", np.zeros((4, 4), dtype=np.uint8))
    write_mask(tmp_path / "masks/3.png", np.zeros((4, 4), dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"3.png: expected an image of that name in images/, found none"):
        load(f"folder:{tmp_path}")
    (tmp_path / "masks/3.png").unlink()
    picture(tmp_path / "images/2.png", (6, 4))
    write_mask(tmp_path / "masks/2.png", np.zeros((4, 6), dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"2.png: expected 4x4 like the first image, found 6x4; resize"):
        load(f"folder:{tmp_path}")


def square(row):
    mask = np.zeros((4, 4), dtype=np.uint8)
    mask[row] = 255
    return mask


def test_pictures_of_the_same_name_in_two_folders_keep_their_own_masks(tmp_path):
    for row, place in enumerate(["a/1", "b/1", "2"]):
        picture(tmp_path / f"images/{place}.jpg", (4, 4))
        write_mask(tmp_path / f"masks/{place}_mask.png", square(row))
    data = load(f"folder:{tmp_path}")
    # In the order of the pictures' paths: 2, a/1, b/1.
    assert [np.flatnonzero(mask.any(axis=1)).tolist() for mask in data.masks] == [[2], [0], [1]]
    # A name of its own is found anywhere.
    (tmp_path / "masks/2_mask.png").rename(tmp_path / "masks/a/2_mask.png")
    assert load(f"folder:{tmp_path}").masks[0, 2].all()
    (tmp_path / "masks/a/1_mask.png").rename(tmp_path / "masks/1_mask.png")
    with pytest.raises(
        BadFileError, match=r"a/1.jpg: expected one mask with its name, found .*1_mask.png and "
    ):
        load(f"folder:{tmp_path}")


def test_umlauts_are_the_same_however_a_system_writes_them(tmp_path):
    apart, together = "Gro\u0308\u00dfe", "Gr\u00f6\u00dfe"
    picture(tmp_path / f"images/{apart}.png", (4, 4))
    write_mask(tmp_path / f"masks/{together}_mask.png", square(1))
    picture(tmp_path / f"images/{together}/1.png", (4, 4))
    write_mask(tmp_path / f"masks/{apart}/1.png", square(2))
    assert load(f"folder:{tmp_path}").masks.any(axis=2).tolist() == [
        [False, True, False, False],
        [False, False, True, False],
    ]


def test_two_pictures_do_not_share_a_mask(tmp_path):
    picture(tmp_path / "images/1.jpg", (4, 4))
    picture(tmp_path / "images/1.png", (4, 4))
    write_mask(tmp_path / "masks/1.png", square(1))
    with pytest.raises(BadFileError, match=r"1.png: expected its own mask, found 1.png, which is 1.jpg's"):
        load(f"folder:{tmp_path}")


def test_pictures_of_different_sizes_are_brought_to_one(tmp_path):
    random = np.random.RandomState(0)
    for number, (width, height) in enumerate([(10, 9), (7, 13), (6, 6)]):
        for kind in ("images", "masks"):
            (tmp_path / kind).mkdir(exist_ok=True)
        pixels = random.randint(0, 256, (height, width, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"images/{number}.png")
        write_mask(tmp_path / f"masks/{number}.png", random.randint(0, 3, (height, width)).astype(np.uint8))
    with pytest.raises(
        BadFileError, match=r"1.png: expected 10x9 like .*, found 7x13; resize .*--image-size 256"
    ):
        load(f"folder:{tmp_path}")
    data = folders.read(tmp_path, "train", side=6)
    assert data.images.shape == (3, 6, 6, 3)
    for number in range(3):
        image, mask = (Image.open(tmp_path / f"{kind}/{number}.png") for kind in ("images", "masks"))
        np.testing.assert_array_equal(data.images[number], np.asarray(image.resize((6, 6), Image.BILINEAR)))
        rows, columns = ((np.arange(6) + 0.5) * np.array(mask.size[::-1])[:, None] / 6).astype(int)
        np.testing.assert_array_equal(data.masks[number], np.asarray(mask)[np.ix_(rows, columns)])
    write_mask(tmp_path / "masks/1.png", np.zeros((6, 6), dtype=np.uint8))
    with pytest.raises(BadFileError, match=r"1.png: expected the size of its image, 7x13, found 6x6"):
        folders.read(tmp_path, "train", side=6)


def test_a_class_that_is_lost_on_the_way_to_the_side_is_still_a_class(tmp_path):
    picture(tmp_path / "images/1.png", (40, 40))
    mask = np.zeros((40, 40), dtype=np.uint8)
    mask[:20], mask[0, 0] = 1, 2
    write_mask(tmp_path / "masks/1.png", mask)
    data = folders.read(tmp_path, "train", side=4)
    assert set(np.unique(data.masks)) == {0, 1}
    assert data.num_classes == 3


# CSV ----------------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path):
    for name in ("p/1.jpg", "p/2.png", "p/with, comma.png"):
        picture(tmp_path / name)
    return tmp_path


def test_names_relative_paths_and_quotes(pictures):
    absolute = picture(pictures / "elsewhere" / "4.png")
    (pictures / "mine.csv").write_text(
        f'﻿path,label,remark\np/1.jpg,dog,x\r\n"p/with, comma.png",cat,\n{absolute},dog,"two\nlines"\n',
        encoding="utf-8",
    )
    data = load(f"csv:{pictures / 'mine.csv'}")
    assert data.class_names == ("cat", "dog")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.paths == (pictures / "p/1.jpg", pictures / "p/with, comma.png", absolute)


def test_whole_numbers_are_class_indices_and_splits_are_kept_apart(pictures):
    (pictures / "mine.csv").write_text("label,split,path\n3,train,p/1.jpg\n10,test,p/2.png\n")
    train, test = load(f"csv:{pictures / 'mine.csv'}"), load(f"csv:{pictures / 'mine.csv'}", "test")
    assert train.labels.tolist() == [3]
    assert test.labels.tolist() == [10]
    assert train.num_classes == test.num_classes == 11
    with pytest.raises(DataError, match="expected rows of the validation split, found only test, train"):
        load(f"csv:{pictures / 'mine.csv'}", "validation")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_as_spreadsheets_of_other_countries_save_it(pictures, separator):
    rows = [("path", "label", "note"), ("p/1.jpg", "cat", "a, b"), ("p/2.png", "dog", "")]
    text = "\n".join(separator.join(row) for row in rows)
    (pictures / "mine.csv").write_text(text, encoding="utf-8-sig")
    data = load(f"csv:{pictures / 'mine.csv'}")
    assert (data.class_names, data.labels.tolist()) == (("cat", "dog"), [0, 1])


def test_files_of_a_csv_that_are_not_there_are_counted(pictures):
    (pictures / "mine.csv").write_text("path,label\np/1.jpg,a\nq/1.jpg,a\nq/2.jpg,b\nq/3.jpg,b\n")
    with pytest.raises(BadFileError) as caught:
        load(f"csv:{pictures / 'mine.csv'}")
    assert str(caught.value).endswith(
        f"expected the file of line 3, found no file {pictures / 'q/1.jpg'}; 2 more of 4 files are missing "
        "too; paths are relative to the folder of the CSV file"
    )


def test_a_csv_in_an_older_encoding_says_how_to_save_it(pictures):
    (pictures / "mine.csv").write_bytes("path,label\np/1.jpg,Füchse\n".encode("cp1252"))
    with pytest.raises(BadFileError, match='expected UTF-8 CSV text, .* save it as "CSV UTF-8"'):
        load(f"csv:{pictures / 'mine.csv'}")


def test_labels_that_an_audit_guarded_from_spreadsheets_are_the_classes_they_were(pictures):
    """`corrected.csv` writes '-other for the class -other; training on it must not make a new class."""
    (pictures / "mine.csv").write_text(f"path,label\np/1.jpg,{safe_cell('-other')}\np/2.png,dog\n")
    assert load(f"csv:{pictures / 'mine.csv'}").class_names == ("-other", "dog")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"columns path and label on line 1, found ''"),
        ("file,label\np/1.jpg,a\n", r"columns path and label on line 1, found 'file,label'"),
        ("path,label\n", "at least one row below the header, found none"),
        ("path,label\np/1.jpg,a\np/9.jpg,b\n", r"the file of line 3, found no file .*9.jpg"),
        ("path,label\np/1.jpg\n", "as many fields as the header on line 2"),
        ("path,label\np/1.jpg,a,b\n", "as many fields as the header on line 2"),
        ("path,label\np/1.jpg,\n", "a path and a label on line 2, found path 'p/1.jpg', label ''"),
        ("path,label\nmine.csv,a\n", "an image on line 2, found 'mine.csv'"),
        ("path,label,split\np/1.jpg,a,dev\n", "split train, test, validation on line 2, found 'dev'"),
        ("path,label\np/1.jpg,123456\n", "class indices below 100000, found 123456"),
    ],
)
def test_what_is_wrong_with_a_csv_is_named_with_its_line(pictures, text, message):
    path = pictures / "mine.csv"
    path.write_text(text)
    with pytest.raises(BadFileError, match=message) as caught:
        csv_file.read(path, "train")
    assert caught.value.path == path


def test_bytes_that_are_not_text(pictures):
    path = pictures / "mine.csv"
    path.write_bytes(b"path,label\np/1.jpg,\xff\xfe\n")
    with pytest.raises(BadFileError, match="expected UTF-8 CSV text"):
        csv_file.read(path, "train")
    with pytest.raises(DataError, match="expected a CSV file, found a folder"):
        csv_file.read(pictures, "train")
