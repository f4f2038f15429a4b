# SPDX-License-Identifier: Apache-2.0
"""What a person decided stays when the audit is made again, and what there was to test on stays with it."""

import csv

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.audit import score_labels
from noiseproof.audit.files import write_labels, write_suspects
from noiseproof.command_line import app
from noiseproof.training import resolve
from noiseproof.training.data import load_data


@pytest.fixture
def photos(tmp_path):
    """Two classes of dark and of bright pictures, a few of them in the wrong folder; a test split beside them."""
    random = np.random.default_rng(0)
    for split, each in (("train", 20), ("test", 3)):
        for name, level in (("dark", 40), ("light", 200)):
            folder = tmp_path / "photos" / split / name
            folder.mkdir(parents=True)
            for i in range(each):
                wrong = split == "train" and i < 2
                shade = 240 - level if wrong else level
                pixels = np.clip(random.normal(shade, 10, (8, 8, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(folder / f"{i}.png")
    return tmp_path / "photos"


def found_in(data):
    bright = np.array([np.asarray(Image.open(path)).mean() > 120 for path in data.paths])
    return score_labels(data.labels, np.where(bright[:, None], [[0.05, 0.95]], [[0.95, 0.05]]))


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_decisions_stay_when_suspects_are_written_again(photos, tmp_path):
    data = datasets.load(f"folder:{photos}")
    file = tmp_path / "suspects.csv"
    assert write_suspects(found_in(data), data, file) == (4, 0)
    rows = rows_of(file)
    rows[0]["decision"], rows[1]["decision"] = "change", "drop"
    sound = {"index": "9", "path": str(data.paths[9]), "given": "dark", "suggested": "dark", "score": "0"}
    rows.append(sound | {"decision": "keep"})  # not suspect, and yet looked at
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    assert write_suspects(found_in(data), data, file) == (4, 3)
    again = {row["index"]: row["decision"] for row in rows_of(file)}
    assert again == {row["index"]: row["decision"] for row in rows}


def test_a_decision_on_a_label_that_was_changed_since_goes(photos, tmp_path):
    data = datasets.load(f"folder:{photos}")
    file = tmp_path / "suspects.csv"
    file.write_text(f"index,path,given,suggested,score,decision\n0,{data.paths[0]},light,dark,0.9,keep\n")
    assert write_suspects(found_in(data), data, file) == (4, 0)


def test_a_file_that_is_no_list_of_suspects_is_kept_beside(photos, tmp_path):
    data = datasets.load(f"folder:{photos}")
    file = tmp_path / "suspects.csv"
    file.write_text("my own notes\n")
    assert write_suspects(found_in(data), data, file) == (4, 0)
    assert (tmp_path / "suspects.csv.earlier").read_text() == "my own notes\n"


def test_corrected_labels_keep_the_test_split(photos, tmp_path):
    data = datasets.load(f"folder:{photos}")
    test = datasets.load(f"folder:{photos}", split="test")
    file = tmp_path / "out" / "corrected.csv"
    write_labels(data, found_in(data).cleaned, file, others=[test])
    for split, expected in (("train", data), ("test", test)):
        read = datasets.load(f"csv:{file}", split=split)
        assert [p.resolve() for p in read.paths] == [p.resolve() for p in expected.paths]
    assert (datasets.load(f"csv:{file}").labels != data.labels).sum() == 4


def test_the_command_keeps_both(photos, tmp_path):
    words = ["audit", f"folder:{photos}", "--out", str(tmp_path / "audit")]
    data = datasets.load(f"folder:{photos}")
    bright = np.array([np.asarray(Image.open(path)).mean() > 120 for path in data.paths])
    np.save(tmp_path / "p.npy", np.where(bright[:, None], [[0.05, 0.95]], [[0.95, 0.05]]))
    quick = ["--probabilities", str(tmp_path / "p.npy"), "--quiet"]
    assert CliRunner().invoke(app, [*words, *quick]).exit_code == 0
    file = tmp_path / "audit" / "suspects.csv"
    rows = rows_of(file)
    assert len(rows) == 4
    file.write_text(file.read_text().replace(",\n", ",change\n").replace(",\r\n", ",change\r\n"))
    again = CliRunner().invoke(app, [*words, *quick])
    assert f"Kept {len(rows)} decisions already in suspects.csv" in again.output
    applied = CliRunner().invoke(app, [*words, "--apply", str(file)])
    assert applied.exit_code == 0, applied.output
    corrected = f"csv:{tmp_path / 'audit' / 'corrected.csv'}"
    assert len(datasets.load(corrected, split="test")) == 6


def test_a_broken_test_split_is_told_and_not_replaced(photos):
    import torch

    config = resolve(f"folder:{photos}", model="mlp", epochs=1, learning_rate=0.1, image_size=8)
    assert not load_data(config, torch.device("cpu")).held_out
    (photos / "test" / "unknown").mkdir()
    Image.new("RGB", (8, 8)).save(photos / "test" / "unknown" / "1.png")
    with pytest.raises(datasets.DataError, match="unknown"):
        load_data(config, torch.device("cpu"))
