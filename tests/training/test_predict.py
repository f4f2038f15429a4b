# SPDX-License-Identifier: Apache-2.0
"""A finished run at work: classes for new pictures in a CSV, and its weights for other programs."""

import csv
import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.docs.pages import ROOT, blocks_of
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.datasets.decode import CentreAfterResize, RandomWindow, Squash
from noiseproof.training import Config, Interrupted, predict, resolve, train
from noiseproof.training import engine as engine_module
from noiseproof.training.predict import (
    fit_as_data,
    fit_from_data,
    load_trained,
    pictures_in,
    write_predictions,
)


@pytest.fixture
def trained(photos, tmp_path):
    """A run that has learned to tell colours apart; its runs folder and its own."""
    config = Config(
        f"folder:{photos()}",
        "mlp",
        epochs=8,
        learning_rate=0.05,
        loss="ce",
        batch_size=8,
        image_size=8,
        workers=0,
        device="cpu",
    )
    record = train(config, folder=tmp_path / "runs", quiet=True)
    return tmp_path / "runs", tmp_path / "runs" / record.id


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_folder_may_be_a_text_and_one_without_a_model_is_told(tmp_path):
    config = resolve("digits", loss="ce", epochs=1, train_size=100, device="cpu")
    record = train(config, folder=str(tmp_path / "runs"), quiet=True)
    model = load_trained(str(tmp_path / "runs" / record.id))
    assert model.probabilities(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).shape == (2, 10)
    with pytest.raises(ValueError, match="holds no trained model: .* or it is no run's folder"):
        load_trained(str(tmp_path / "runs"))
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "checkpoint.pt").write_bytes(b"what an epoch left")
    with pytest.raises(ValueError, match="has not finished; go on with it: .* train --resume begun"):
        load_trained(tmp_path / "begun")


def rows_of(path):
    with path.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


def test_a_csv_is_never_written_over_a_picture(trained, tmp_path):
    runs, folder = trained
    picture = pictures_in(tmp_path / "photos")[0]
    before = picture.read_bytes()
    done = run("predict", folder.name, tmp_path / "photos", "--folder", runs, "--out", picture)
    assert done.exit_code == 2
    assert f"--out: would overwrite {picture}; name another file" in done.stderr
    assert picture.read_bytes() == before


def test_pictures_are_classified_into_a_csv(trained, tmp_path):
    runs, folder = trained
    done = run(
        "predict", folder.name[:8], tmp_path / "photos", "--folder", runs, "--out", tmp_path / "out.csv"
    )
    assert done.exit_code == 0, done.output
    assert "Classified 36 images" in done.output
    rows = rows_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["path", "predicted", "probability"]
    right = [row["predicted"] == os.path.basename(os.path.dirname(row["path"])) for row in rows]
    assert sum(right) >= 34
    assert [row["path"] for row in rows] == sorted(row["path"] for row in rows)
    assert all(1 / 3 <= float(row["probability"]) <= 1 for row in rows)


def test_predictions_are_those_of_the_network_that_was_tested(trained, tmp_path):
    """The same normalisation and size as in training, by hand."""
    model = load_trained(trained[1])
    path = tmp_path / "photos" / "cat" / "000.png"
    pixels = np.asarray(Image.open(path).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR))
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    images = (((torch.tensor(pixels) / 255) - mean) / std).permute(2, 0, 1)[None]
    expected = model.network(images).softmax(1)[0]
    ((found_path, found),) = predict.predict(model, [path])
    assert found_path == path
    assert torch.allclose(found, expected, atol=1e-5)


def test_one_grey_picture(trained, tmp_path):
    Image.new("L", (5, 9), 200).save(tmp_path / "grey.png")
    done = run(
        "predict", trained[1].name, tmp_path / "grey.png", "--folder", trained[0], "--out", tmp_path / "o.csv"
    )
    assert done.exit_code == 0, done.output
    assert len(rows_of(tmp_path / "o.csv")) == 1


def test_a_network_for_grey_pictures_takes_coloured_ones(tmp_path):
    train(resolve("digits", epochs=1, device="cpu"), folder=tmp_path / "runs", quiet=True)
    Image.new("RGB", (20, 20), (200, 10, 10)).save(tmp_path / "red.png")
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    ((_, probabilities),) = predict.predict(load_trained(folder), [tmp_path / "red.png"])
    assert probabilities.shape == (10,)


def test_hostile_names_stay_names(trained, tmp_path):
    place = tmp_path / "new"
    place.mkdir()
    names = [
        "=1+1.png",
        "@SUM(A1).png",
        "a,b\"c'.png",
        "line\nbreak.png",
        "ünïcode 照片.png",
        "-x.png",
        "+y.PNG",
    ]
    if sys.platform == "linux":
        names.append(os.fsdecode(b"raw-\xff\xfe.png"))
    for name in names:
        Image.new("RGB", (8, 8)).save(place / name, format="png")
    (place / "notes.txt").write_text("not a picture")
    (place / "._hidden.png").write_text("left by another system")
    rows = list(predict.predict(load_trained(trained[1]), pictures_in(place)))
    assert len(rows) == len(names)
    bare = ((path.relative_to(place), probabilities) for path, probabilities in rows)
    out = tmp_path / "not there yet" / "out.csv"
    assert write_predictions(bare, ["=cmd|'/c calc'!A0", "@b", "c"], out) == len(names)
    written = rows_of(out)
    found = {row["path"] for row in written}
    assert found == {f"'{name}" if name[0] in "=@+-" else name for name in names}
    assert not any(row[column][0] in "=@+-\t\r" for row in written for column in ("path", "predicted"))


def test_a_damaged_picture_is_named_and_no_half_table_is_left(trained, tmp_path):
    place = tmp_path / "new"
    place.mkdir()
    (place / "bad.png").write_bytes(b"\x89PNG damaged")
    done = run("predict", trained[1].name, place, "--folder", trained[0], "--out", tmp_path / "out.csv")
    assert done.exit_code == 2
    assert "bad.png" in done.output
    assert len(done.output.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*out.csv*"))


def test_the_page_on_training_says_how_to_use_an_export_without_this_package(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    (tmp_path / "new").mkdir()
    for name in ("a.png", "b.jpg", "ü c.PNG"):
        Image.fromarray(random.integers(0, 256, (20, 14, 3), np.uint8)).save(tmp_path / "new" / name)
    predict.export(trained[1], tmp_path / "model", "torch-export")
    (block,) = (each for each in blocks_of(ROOT / "docs/training.md") if "torch.export.load" in each.code)
    assert "noiseproof" not in block.code
    found: dict = {}
    exec(compile(block.code, block.name, "exec"), found)
    model = load_trained(trained[1])
    expected = list(predict.predict(model, pictures_in(tmp_path / "new")))
    assert found["files"] == [Path("new", path.name) for path, _ in expected]
    torch.testing.assert_close(
        found["probabilities"], torch.stack([row for _, row in expected]), atol=1e-5, rtol=0
    )
    assert found["predicted"] == [model.class_names[row.argmax()] for _, row in expected]


@pytest.mark.parametrize("workers", [0, 1])
def test_pictures_beside_damaged_ones_are_classified(trained, tmp_path, workers):
    """One file that broke on its way does not cost the classes of all others; the exit status tells."""
    place = tmp_path / "new"
    place.mkdir()
    for index in range(70):  # more than a batch
        Image.new("RGB", (8, 8), (index, 0, 0)).save(place / f"{index:02}.png")
    whole = (place / "03.png").read_bytes()
    for name in ("03.png", "66.png", "69.png"):
        (place / name).write_bytes(whole[: len(whole) // 2])
    words = ("--folder", trained[0], "--out", tmp_path / "out.csv", "--workers", workers)
    done = run("predict", trained[1].name, place, *words)
    assert done.exit_code == 1
    assert "Classified 67 images" in done.output
    told = [line for line in done.output.splitlines() if line.startswith("Not classified: ")]
    assert len(told) == 3
    assert all(name in line for name, line in zip(("03.png", "66.png", "69.png"), told, strict=True))
    names = [row["path"][-6:] for row in rows_of(tmp_path / "out.csv")]
    assert names == [f"{index:02}.png" for index in range(70) if index not in (3, 66, 69)]


def test_mistakes_are_one_line_each(trained, tmp_path):
    runs, folder = trained
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (("predict", "nothing", tmp_path), "no run 'nothing'"),
        (("predict", folder.name, tmp_path / "nowhere"), "found nothing"),
        (("predict", folder.name, tmp_path / "empty"), "holds no pictures"),
        (("predict", folder.name, tmp_path / "photos", "--device", "gpu"), "device: expected auto"),
        (
            ("export", folder.name, "--out", tmp_path / "model", "--form", "onx"),
            "form: expected safetensors, torch",
        ),
    ):
        done = run(*arguments, "--folder", runs)
        assert done.exit_code == 2
        assert message in done.output
        assert len(done.output.strip().splitlines()) == 1, done.output
    assert not (tmp_path / "model").exists()


def test_an_unfinished_run_says_so(tmp_path, monkeypatch):
    class AtOnce:
        requested = True
        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731

    config = resolve("digits", epochs=2, device="cpu")
    monkeypatch.setattr(engine_module, "Interruption", AtOnce)
    with pytest.raises(Interrupted):
        train(config, folder=tmp_path, quiet=True)
    done = run("predict", config.run_id, tmp_path, "--folder", tmp_path)
    assert done.exit_code == 2
    assert (
        f"this run has not finished; go on with it: noiseproof train --resume {config.run_id}" in done.output
    )


@pytest.mark.parametrize("damage", ["{", "{}", '{"model": 3}', "[1]"])
def test_a_damaged_description_is_refused(trained, damage):
    (trained[1] / "model.json").write_text(damage)
    with pytest.raises(ValueError, match="is damaged"):
        load_trained(trained[1])


def test_exports_agree_with_the_run(trained, tmp_path):
    runs, folder = trained
    model = load_trained(folder)
    images = torch.randn(5, *model.shape)
    expected = model.network(images)
    for form in ("safetensors", "torch-export"):
        done = run("export", folder.name, "--out", tmp_path / form, "--form", form, "--folder", runs)
        assert done.exit_code == 0, done.output
        facts = json.loads((tmp_path / form / "model.json").read_text())
        assert facts["class_names"] == ["cat", "dog", "owl"]
        assert facts["mean"] == [0.485, 0.456, 0.406]
        assert facts["input"] == {"channels": 3, "height": 8, "width": 8}
    assert torch.equal(load_trained(tmp_path / "safetensors").network(images), expected)
    program = torch.export.load(tmp_path / "torch-export" / "model.pt2").module()
    for count in (1, 2, 5):
        assert torch.allclose(program(images[:count]), expected[:count], atol=1e-5)


@pytest.mark.parametrize("absent", ["onnx", "onnxscript"])
def test_onnx_that_is_not_installed_is_named(trained, tmp_path, monkeypatch, absent):
    for name in [name for name in sys.modules if name.partition(".")[0] == absent]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(ValueError, match="pip install 'noiseproof\\[onnx\\]'"):
        predict.export(trained[1], tmp_path / "model", "onnx")


def logits_of_onnx(file, images):
    """What the file says, by onnxruntime, or where that is missing by ONNX's own slow reference."""
    if importlib.util.find_spec("onnxruntime"):
        from onnxruntime import InferenceSession as Session
    else:
        from onnx.reference import ReferenceEvaluator as Session
    (logits,) = Session(str(file)).run(["logits"], {"images": images.numpy()})
    return logits


ONNX = all(importlib.util.find_spec(each) for each in ("onnx", "onnxscript"))


@pytest.mark.skipif(not ONNX, reason="ONNX is not installed: pip install 'noiseproof[onnx]'")
def test_onnx_agrees_with_the_run(trained, tmp_path):
    runs, folder = trained
    done = run("export", folder.name, "--out", tmp_path, "--form", "onnx", "--folder", runs)
    assert done.exit_code == 0, done.output
    assert "torch.onnx" not in done.output
    assert sorted(path.name for path in tmp_path.glob("model*")) == ["model.json", "model.onnx"]
    model = load_trained(folder)
    for count in (1, 2, 5):
        images = torch.randn(count, *model.shape)
        logits = logits_of_onnx(tmp_path / "model.onnx", images)
        assert np.allclose(logits, model.network(images).detach().numpy(), atol=1e-4)


def test_pictures_are_fitted_as_they_were_for_testing():
    for fit in (Squash(8, 6), Squash(256, 256, centre=224), CentreAfterResize(256, 224)):
        again = fit_from_data(json.loads(json.dumps(fit_as_data(fit))), 1, 1)
        assert again == fit
    assert fit_as_data(None) is None
    assert fit_as_data(RandomWindow(224)) is None
    assert fit_from_data(None, 8, 6) == Squash(8, 6)
