# SPDX-License-Identifier: Apache-2.0
"""Masks for new pictures: of the picture's own size, in files that can be trained on again, and a sheet."""

import re

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.command_line import app
from noiseproof.datasets import BadFileError
from noiseproof.training import resolve, train
from noiseproof.training.predict import load_trained
from noiseproof.training.predict_masks import overlay, predict_masks, write_masks


@pytest.fixture
def trained(lesions, tmp_path):
    config = resolve(
        lesions(train=60),
        recipe="blobs",
        loss="ce",
        epochs=10,
        batch_size=8,
        learning_rate=0.01,
        schedule="cosine",
        device="cpu",
        model_options={"base_width": 8},
    )
    record = train(config, folder=tmp_path / "runs", quiet=True)
    assert record.epochs[-1]["test_dice"] > 85
    return tmp_path / "runs", record


def large_disc(path, width, height):
    """A disc like those trained on, in a picture of another size and shape."""
    rows, columns = np.indices((height, width))
    inside = ((rows / height - 0.5) ** 2 + (columns / width - 0.5) ** 2) < 0.04
    pixels = np.full((height, width, 3), 45, np.uint8)
    pixels[inside] = 165
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return inside


def test_masks_have_the_pictures_own_size(trained, tmp_path):
    folder, record = trained
    inside = large_disc(tmp_path / "new" / "a.png", 96, 64)
    model = load_trained(folder / record.id)
    ((path, mask),) = predict_masks(model, [tmp_path / "new" / "a.png"])
    assert path.name == "a.png"
    assert mask.shape == (64, 96)
    assert mask.dtype == np.uint8
    assert 2 * (mask.astype(bool) & inside).sum() / (mask.sum() + inside.sum()) > 0.85


def test_the_command_writes_masks_and_a_sheet(trained, tmp_path, monkeypatch):
    folder, record = trained
    monkeypatch.chdir(tmp_path)
    large_disc(tmp_path / "new" / "a.png", 40, 30)
    large_disc(tmp_path / "new" / "a.jpg", 31, 50)
    large_disc(tmp_path / "new" / "deep" / "sheet.png", 20, 20)
    command = ["predict", record.id, "new", "--folder", str(folder), "--device", "cpu"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "Wrote 3 masks to predictions" in result.output
    written = sorted(
        str(path.relative_to(tmp_path / "predictions")) for path in (tmp_path / "predictions").rglob("*.png")
    )
    assert written == ["a.png", "a.png.png", "deep/sheet.png", "sheet.png"]
    sizes = {Image.open(tmp_path / "predictions" / name).size for name in ("a.png", "a.png.png")}
    assert sizes == {(40, 30), (31, 50)}
    levels = set(np.unique(np.asarray(Image.open(tmp_path / "predictions" / "a.png"))))
    assert levels == {0, 255}
    sheet = Image.open(tmp_path / "predictions" / "sheet.png")
    assert sheet.width > 3 * 180


def test_pictures_that_cannot_be_read_are_left_out_and_listed(trained, tmp_path):
    folder, record = trained
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "a.png").write_bytes(b"no picture")
    command = ["predict", record.id, str(tmp_path / "new"), "--out", str(tmp_path / "out"), "--folder"]
    command += [str(folder), "--device", "cpu"]
    assert CliRunner().invoke(app, command).exit_code == 2, "none can be read"
    large_disc(tmp_path / "new" / "b.png", 24, 20)
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "Wrote 1 mask to" in result.stdout
    assert re.search(r"Not segmented: .*a\.png", result.stderr)
    assert (tmp_path / "out" / "b.png").is_file()
    assert not (tmp_path / "out" / "a.png").exists()
    with pytest.raises(BadFileError):
        list(predict_masks(load_trained(folder / record.id), [tmp_path / "new" / "a.png"]))


def bytes_below(place):
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


PLACES_OF_PICTURES = (
    ("new", "new"),
    ("new", "./new/../new"),
    ("new", "linked"),
    ("new/a.png", "new"),
    ("new/a.jpg", "new"),  # a.png lies there too, and is another picture
    ("new", "hard"),
    (".", "new"),  # new/sheet.png
)


def test_pictures_are_never_written_over(trained, tmp_path, monkeypatch):
    folder, record = trained
    work = tmp_path / "work"
    for name in ("a.png", "a.jpg", "deep/b.png", "sheet.png"):
        large_disc(work / "new" / name, 24, 20)
    (work / "linked").symlink_to("new")
    (work / "hard" / "deep").mkdir(parents=True)
    (work / "hard" / "deep" / "b.png").hardlink_to(work / "new" / "deep" / "b.png")
    monkeypatch.chdir(work)
    before = bytes_below(work)
    for pictures, out in PLACES_OF_PICTURES:
        command = ["predict", record.id, pictures, "--out", out, "--folder", str(folder), "--device", "cpu"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 2, (pictures, out)
        assert "--out: " in result.stderr
        assert "name another folder" in result.stderr
        assert bytes_below(work) == before


def test_the_picture_that_would_be_lost_is_named(tmp_path):
    large_disc(tmp_path / "p.png", 8, 8)
    with pytest.raises(ValueError, match=r"--out: would overwrite .*p\.png; name another folder"):
        write_masks(iter(()), ("a", "b"), tmp_path / "p.png", tmp_path)


def test_masks_drawn_by_hand_are_never_written_over_and_predictions_are(tmp_path):
    large_disc(tmp_path / "images" / "p.jpg", 8, 8)
    drawn = tmp_path / "masks" / "p.png"
    large_disc(drawn, 8, 8)
    before = drawn.read_bytes()

    def write(out, level):
        found = iter([(tmp_path / "images" / "p.jpg", np.full((8, 8), level, np.uint8))])
        write_masks(found, ("a", "b"), tmp_path / "images", tmp_path / out)

    with pytest.raises(ValueError, match=r"would overwrite .*p\.png, which is no earlier prediction"):
        write("masks", 0)
    assert bytes_below(tmp_path / "masks") == {drawn: before}
    for level in (0, 1):
        write("out", level)
    assert np.asarray(Image.open(tmp_path / "out" / "p.png")).min() == 255


def test_masks_are_not_written_into_a_folder_called_like_a_file(trained, tmp_path):
    folder, record = trained
    large_disc(tmp_path / "new" / "a.png", 24, 20)
    command = ["predict", record.id, str(tmp_path / "new"), "--out", str(tmp_path / "out.csv")]
    result = CliRunner().invoke(app, [*command, "--folder", str(folder), "--device", "cpu"])
    assert result.exit_code == 2
    assert "expected a folder for the masks" in result.stderr
    assert not (tmp_path / "out.csv").exists()
    command = ["predict", record.id, str(tmp_path / "new" / "a.png"), "--out", str(tmp_path / "mask.png")]
    result = CliRunner().invoke(app, [*command, "--folder", str(folder), "--device", "cpu"])
    assert result.exit_code == 2
    assert "expected a folder" in result.stderr
    assert not (tmp_path / "mask.png").exists()


def test_predicted_masks_can_be_trained_on(trained, tmp_path):
    folder, record = trained
    model = load_trained(folder / record.id)
    for name in ("1.png", "2.png"):
        large_disc(tmp_path / "own" / "images" / name, 24, 24)
    pictures = sorted((tmp_path / "own" / "images").iterdir())
    found = predict_masks(model, pictures)
    count, sheet = write_masks(
        found, model.class_names, tmp_path / "own" / "images", tmp_path / "own" / "masks"
    )
    assert count == 2
    sheet.unlink()
    data = datasets.load(f"folder:{tmp_path / 'own'}")
    assert data.masks.shape == (2, 24, 24)
    assert set(np.unique(data.masks)) == {0, 1}


def test_three_classes_are_written_as_they_are(tmp_path):
    mask = np.zeros((8, 8), np.uint8)
    mask[:4], mask[4:, :4] = 1, 2
    large_disc(tmp_path / "p.png", 8, 8)
    write_masks(
        [(tmp_path / "p.png", mask)], ("ground", "cell", "core"), tmp_path / "p.png", tmp_path / "out"
    )
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "p.png")), mask)


def test_the_overlay_tints_the_mask_and_leaves_the_rest():
    picture = Image.new("RGB", (100, 100), (100, 100, 100))  # too large to be enlarged
    mask = np.zeros((100, 100), np.uint8)
    mask[5:15, 5:15] = 1
    shown = np.asarray(overlay(picture, mask))
    assert (shown[0, 0] == 100).all()
    assert tuple(shown[5, 5]) == (220, 40, 40)  # the outline
    assert tuple(shown[10, 10]) == (142, 79, 79)  # 0.65·100 + 0.35 of the tint


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((64, 64), (128, 128)),
        ((64, 40), (128, 80)),
        ((7, 20), (63, 180)),
        ((90, 90), (180, 180)),
        ((91, 30), (91, 30)),
        ((180, 180), (180, 180)),
        ((360, 180), (180, 90)),
    ],
)
def test_small_pictures_are_enlarged_by_whole_factors(size, expected):
    random = np.random.RandomState(0)
    pixels = random.randint(0, 256, (size[1], size[0], 3)).astype(np.uint8)
    shown = overlay(Image.fromarray(pixels), np.zeros(size[::-1], np.uint8))
    assert shown.size == expected
    factor = expected[0] // size[0]
    if factor >= 1:
        np.testing.assert_array_equal(
            np.asarray(shown), np.kron(pixels, np.ones((factor, factor, 1), np.uint8))
        )


def test_masks_are_enlarged_with_their_pictures():
    mask = np.zeros((60, 60), np.uint8)
    mask[10:30, 40:50] = 2
    shown = np.asarray(overlay(Image.new("RGB", (60, 60)), mask))
    tinted = np.zeros((180, 180), bool)
    tinted[30:90, 120:150] = True
    np.testing.assert_array_equal(shown.any(2), tinted)


def test_a_grey_network_reads_colour_pictures(tmp_path):
    from noiseproof import models
    from noiseproof.datasets.decode import Squash
    from noiseproof.training.predict import TrainedModel

    network = models.create("unet-small", 2, in_channels=1, image_size=16, base_width=4).eval()
    model = TrainedModel(network, ("a", "b"), (0.5,), (0.5,), (1, 16, 16), Squash(16, 16), "segmentation")
    large_disc(tmp_path / "p.png", 19, 23)
    ((_, mask),) = predict_masks(model, [tmp_path / "p.png"])
    assert mask.shape == (23, 19)
