# SPDX-License-Identifier: Apache-2.0
"""What an audit writes, and what it reads back: nothing that came from a file name or a class name is ever run."""

import csv
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.audit import apply_review, score_labels
from noiseproof.audit.dynamics import Dynamics
from noiseproof.audit.files import write_labels, write_suspects
from noiseproof.audit.sheet import write_sheet
from noiseproof.command_line import app
from noiseproof.datasets.errors import BadFileError

NAMES = ("=cmd|'calc'", "<script>alert(1)</script>")


@pytest.fixture
def photos(tmp_path):
    """A folder of 40 pictures of two classes, dark and bright ones; the first of each is in the wrong place."""
    random = np.random.RandomState(0)
    for label, name in enumerate(("dark", "bright")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(20):
            bright = (number == 0) != bool(label)
            pixels = random.randint(0, 60, (24, 24, 3)) + (180 if bright else 0)
            pixels[::2, :: 2 if bright else 3] //= 2
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / name / f"{number:02}.png")
    return tmp_path / "photos"


def named_data(names=NAMES):
    return datasets.LabeledData(
        name="mine",
        split="train",
        labels=np.array([0, 0, 1, 1]),
        class_names=names,
        images=np.arange(4 * 8 * 8 * 3, dtype=np.uint8).reshape(4, 8, 8, 3),
    )


def found_in(data):
    probabilities = np.array([[0.9, 0.1], [0.1, 0.9], [0.2, 0.8], [0.1, 0.9]])
    return score_labels(data.labels, probabilities, score="margin")


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_suspects_stand_worst_first_and_no_cell_is_a_formula(tmp_path):
    data = named_data()
    assert write_suspects(found_in(data), data, tmp_path / "suspects.csv") == (1, 0)
    (row,) = rows_of(tmp_path / "suspects.csv")
    assert list(row) == ["index", "path", "given", "suggested", "score", "decision"]
    assert (row["index"], row["given"], row["suggested"], row["score"]) == (
        "1",
        "'" + NAMES[0],
        NAMES[1],
        "0.9000",
    )


def test_a_review_comes_back(tmp_path):
    data = named_data(("keep", "b"))
    lines = ["index,path,given,suggested,score,decision", "0,,keep,b,0.9,keep", "1,,keep,b,0.8,change"]
    lines += ["2,,b,keep,0.7,label:keep", "3,,b,keep,0.6,drop"]
    (tmp_path / "reviewed.csv").write_text("\n".join(lines))
    made = apply_review(data, tmp_path / "reviewed.csv")
    assert made.labels.tolist()[:3] == [0, 1, 0]
    assert made.kept.tolist() == [0, 1, 2]
    assert (made.changed, made.confirmed, made.dropped, made.undecided) == (2, 1, 1, 0)
    write_labels(data, made.labels, tmp_path / "corrected.csv", kept=made.kept.tolist())
    assert [row["label"] for row in rows_of(tmp_path / "corrected.csv")] == ["keep", "b", "keep"]


def test_a_guarded_name_comes_back_as_it_was(tmp_path):
    data = named_data()
    write_suspects(found_in(data), data, tmp_path / "suspects.csv")
    text = (tmp_path / "suspects.csv").read_text()
    (tmp_path / "reviewed.csv").write_text(text.replace(",0.9000,", ",0.9000,change"))
    assert apply_review(data, tmp_path / "reviewed.csv").labels.tolist() == [0, 1, 1, 1]


def test_zeros_before_a_number_are_kept_from_a_spreadsheet(tmp_path):
    data = named_data(("00001", "00010"))
    write_suspects(found_in(data), data, tmp_path / "suspects.csv")
    text = (tmp_path / "suspects.csv").read_text()
    assert "'00001,'00010," in text
    (tmp_path / "reviewed.csv").write_text(text.replace(",0.9000,", ",0.9000,change"))
    assert apply_review(data, tmp_path / "reviewed.csv").labels.tolist() == [0, 1, 1, 1]


def test_a_single_class_cannot_be_audited(photos, tmp_path):
    made = CliRunner().invoke(app, ["audit", f"folder:{photos.parent}", "--out", str(tmp_path / "audit")])
    assert made.exit_code == 2
    assert f"did you mean folder:{photos}?" in made.output
    assert not (tmp_path / "audit").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_review_is_read_as_any_spreadsheet_saves_it(tmp_path, separator, encoding):
    names = ("=a;b, c\t'd'", "é\n;-2")
    data = named_data(names)
    write_suspects(found_in(data), data, tmp_path / "suspects.csv")
    rows = [{**row, "score": "0,9000", "decision": "change"} for row in rows_of(tmp_path / "suspects.csv")]
    with (tmp_path / "reviewed.csv").open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    assert apply_review(data, tmp_path / "reviewed.csv").labels.tolist() == [0, 1, 1, 1]


def test_words_of_decisions_may_have_capitals_where_no_class_is_called_so(tmp_path):
    def labels(names, *decisions):
        cells = [f"{index};{names[0]};{names[1]};{each}" for index, each in enumerate(decisions)]
        (tmp_path / "reviewed.csv").write_text("\n".join(["index;given;suggested;decision", *cells]))
        made = apply_review(named_data(names), tmp_path / "reviewed.csv")
        return made.labels.tolist()[:2], made.confirmed, made.dropped

    assert labels(("a", "b"), "Change", "KEEP") == ([1, 0], 1, 0)
    assert labels(("a", "b"), "Label:b", " Drop ") == ([1, 0], 0, 1)
    assert labels(("Keep", "Drop"), "Keep", "Drop") == ([0, 1], 0, 0)
    assert labels(("Keep", "Drop"), "keep", "drop") == ([0, 0], 1, 1)
    (tmp_path / "reviewed.csv").write_text("index;given;suggested;decision\n0;a;b;Change\n0;a;b;change")
    assert apply_review(named_data(("a", "b")), tmp_path / "reviewed.csv").changed == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,,b,a,0.5,keep", "given 'a' for sample 1 on line 2"),
        ("9,,a,b,0.5,keep", "an index from 0 to 3 on line 2"),
        ("x,,a,b,0.5,keep", "an index from 0 to 3 on line 2"),
        ("9" * 5000 + ",,a,b,0.5,keep", "an index from 0 to 3 on line 2"),
        ("1,,a,b,0.5,chnge", "did you mean 'change'"),
        ("1,,a,b,0.5,keep\n1,,a,b,0.5,drop", "one decision for sample 1"),
    ],
)
def test_a_review_that_does_not_fit_is_refused(tmp_path, row, message):
    (tmp_path / "reviewed.csv").write_text("index,path,given,suggested,score,decision\n" + row)
    with pytest.raises(BadFileError, match=message):
        apply_review(named_data(("a", "b")), tmp_path / "reviewed.csv")


def test_a_review_of_other_files_is_refused_though_labels_fit(photos, tmp_path):
    data = datasets.load(f"folder:{photos}")
    path = data.paths[25]
    header, row = "index,path,given,suggested,score,decision\n", f"25,{path},dark,bright,0.9,change"
    (tmp_path / "reviewed.csv").write_text(header + row)
    assert apply_review(data, tmp_path / "reviewed.csv").changed == 1
    photos.rename(tmp_path / "elsewhere")
    moved = datasets.load(f"folder:{tmp_path / 'elsewhere'}")
    assert apply_review(moved, tmp_path / "reviewed.csv").changed == 1
    (tmp_path / "reviewed.csv").write_text(header + row.replace("/", "\\"))
    assert apply_review(moved, tmp_path / "reviewed.csv").changed == 1
    moved.paths[21].unlink()  # every later one of its class moves up by one
    with pytest.raises(
        BadFileError, match=r"expected the image 06.png for sample 25 on line 2, found .*05.png"
    ):
        apply_review(datasets.load(f"folder:{tmp_path / 'elsewhere'}"), tmp_path / "reviewed.csv")


def test_a_review_without_its_columns_or_file_is_refused(tmp_path):
    (tmp_path / "reviewed.csv").write_text("index,given\n")
    with pytest.raises(BadFileError, match="no suggested and no decision"):
        apply_review(named_data(), tmp_path / "reviewed.csv")
    (tmp_path / "reviewed.csv").write_text("index;given;decision\n")
    with pytest.raises(BadFileError, match="found no suggested$"):
        apply_review(named_data(), tmp_path / "reviewed.csv")
    with pytest.raises(BadFileError, match="a reviewed suspects"):
        apply_review(named_data(), tmp_path / "none.csv")


class Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)


def test_the_sheet_holds_names_as_text_and_asks_no_one_for_anything(tmp_path):
    data = named_data()
    moved = np.zeros((3, 4), np.float32)
    dynamics = Dynamics(moved + 2, moved - 1, moved + 0.5, np.full((4, 2), 0.5, np.float32))
    assert write_sheet(found_in(data), data, tmp_path / "sheet.html", dynamics=dynamics) == 1
    page = Elements()
    page.feed((tmp_path / "sheet.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert any(NAMES[1] in text for text in page.text)
    sources = [value for name, value in page.attributes if name in ("src", "href")]
    assert sources
    assert all(value.startswith("data:image/") for value in sources)
    assert any("loss from start to end: 2 → 2 → 2" in text for text in page.text)


def test_a_sheet_tells_of_a_picture_that_is_gone(photos, tmp_path):
    data = datasets.load(f"folder:{photos}")
    found = score_labels(data.labels, np.eye(2)[1 - data.labels] * 0.8 + 0.1, score="margin")
    data.paths[0].unlink()
    assert write_sheet(found, data, tmp_path / "sheet.html") == 40
    assert "00.png" in (tmp_path / "sheet.html").read_text()


def run(*arguments):
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


def test_the_command_from_pictures_to_corrected_labels(photos, tmp_path):
    out = tmp_path / "audit"
    result = run(f"folder:{photos}", "--out", out, "--filters", 40, "--folds", 4, "--method", "patches")
    assert result.exit_code == 0, result.output
    suspects = rows_of(out / "suspects.csv")
    assert {row["path"].rpartition("photos/")[2] for row in suspects} >= {"dark/00.png", "bright/00.png"}
    summary = json.loads((out / "audit.json").read_text())
    assert summary["samples"] == 40
    assert summary["suspects"] == len(suspects)
    assert (out / "sheet.html").stat().st_size > 1000
    cleaned = datasets.load(f"csv:{out / 'cleaned.csv'}")
    assert len(cleaned) == 40
    assert all(path.is_file() for path in cleaned.paths)

    again = run(f"folder:{photos}", "--out", tmp_path / "again", "--probabilities", out / "probabilities.npy")
    assert again.exit_code == 0, again.output
    assert (tmp_path / "again" / "suspects.csv").read_text() == (out / "suspects.csv").read_text()

    with (tmp_path / "reviewed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(suspects[0]))
        writer.writeheader()
        writer.writerows({**row, "decision": "change" if "00.png" in row["path"] else ""} for row in suspects)
    applied = run(f"folder:{photos}", "--out", out, "--apply", tmp_path / "reviewed.csv")
    assert applied.exit_code == 0, applied.output
    assert applied.output.startswith("2 labels changed, 0 confirmed, 0 images dropped")
    corrected = datasets.load(f"csv:{out / 'corrected.csv'}")
    names = [corrected.class_names[label] for label in corrected.labels]
    truth = ["bright" if ("dark" in str(p)) == (p.name == "00.png") else "dark" for p in corrected.paths]
    assert names == truth


def test_the_command_tells_of_equal_pictures_with_different_labels(photos, tmp_path):
    """No model is needed to know that one of their labels is wrong."""
    probabilities = np.full((41, 2), 0.5) + np.where(np.arange(41)[:, None] < 20, 0.4, -0.4) * [1, -1]
    np.save(tmp_path / "p.npy", probabilities)
    words = (f"folder:{photos}", "--out", tmp_path / "audit", "--probabilities", tmp_path / "p.npy")
    (photos / "bright/copy.png").write_bytes((photos / "bright/01.png").read_bytes())
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "different labels" not in result.output
    (photos / "bright/copy.png").write_bytes((photos / "dark/01.png").read_bytes())
    result = run(*words)
    assert "1 image occurs more than once, with different labels" in result.output
    assert f"noiseproof data check folder:{photos} lists them." in result.output


def test_the_command_warns_of_the_rate_where_the_model_knows_little(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = datasets.load("digits")
    pixels = digits.images.reshape(len(digits), -1) / 255
    for columns, is_weak in (
        (slice(None), False),
        (slice(17, 24), True),
    ):  # all of a picture, or a line of it
        model = LogisticRegression(max_iter=300)
        found = cross_val_predict(model, pixels[:, columns], digits.labels, cv=3, method="predict_proba")
        np.save("p.npy", found)
        result = run("digits", "--probabilities", "p.npy")
        assert result.exit_code == 0, result.output
        assert ("does not know these images well" in result.output) == is_weak


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits", "--method", "patch"], "did you mean 'patches'"),
        (["digts"], "did you mean 'digits'"),
        (["folder:nowhere"], "nowhere"),
        (["digits", "--folds", "1"], "folds: expected a number from 2"),
        (["digits", "--apply", "none.csv"], "a reviewed suspects.csv"),
        (["digits", "--probabilities", "none.npy"], "none.npy"),
    ],
)
def test_the_command_says_what_is_wrong(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "audit").exists()


def test_a_header_that_is_no_csv(tmp_path):
    reviewed = tmp_path / "reviewed.csv"
    reviewed.write_text("index,given,suggested," + "d" * 200_000 + "\n")
    with pytest.raises(BadFileError, match="CSV text"):
        apply_review(named_data(), reviewed)


@pytest.mark.parametrize(
    ("names", "cells", "read"),
    [
        (("17", "3"), ["'17", "'3"], ("17", "3")),  # folders that are called so
        (("0", "1", "10", "2"), ["0", "1", "'10", "'2"], ("0", "1", "10", "2")),
        (("0", "1", "2"), ["0", "1", "2"], ("0", "1", "2")),
        (("'3", "cat"), ["''3", "cat"], ("'3", "cat")),
    ],
)
def test_classes_whose_names_are_numbers_come_back_as_they_were(tmp_path, names, cells, read):
    files = []
    for index in range(len(names)):
        files.append(tmp_path / f"{index}.png")
        Image.new("L", (4, 4)).save(files[-1])
    labels = np.arange(len(names), dtype=np.int64)
    data = datasets.LabeledData("mine", "train", labels, names, paths=tuple(files))
    write_labels(data, labels, tmp_path / "list.csv")
    with (tmp_path / "list.csv").open() as file:
        assert [row["label"] for row in csv.DictReader(file)] == cells
    again = datasets.load(f"csv:{tmp_path / 'list.csv'}")
    assert (again.class_names, again.labels.tolist()) == (read, labels.tolist())
