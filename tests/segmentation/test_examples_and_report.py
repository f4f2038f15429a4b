# SPDX-License-Identifier: Apache-2.0
"""What a finished run keeps to be looked at, and the report that shows it; data to choose settings on."""

import base64
import html.parser
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from noiseproof import datasets, grids
from noiseproof.grids.files import parsed
from noiseproof.report import write_report
from noiseproof.report.figures import draw_all, segmentation
from noiseproof.results.gather import gather
from noiseproof.training import resolve, train_pack
from noiseproof.training.dice import count_pixels, of_each_image
from noiseproof.training.examples import FILE_NAME, load_examples
from noiseproof.training.predict import load_trained

GRID = """
title = "Discs"
kind = "table"
dataset = "{dataset}"
recipe = "blobs"
noises = ["clean", "masks-0.5-0.7"]
seeds = [1]

[settings]
epochs = 2
batch_size = 8
device = "cpu"
model_options = {{ base_width = 4 }}

[[methods]]
label = "CE & co"
loss = "ce"

[[methods]]
label = "T-Loss"
loss = "t-loss"
"""


@pytest.fixture
def trained(lesions, tmp_path):
    grid = parsed(GRID.format(dataset=lesions()), "discs")
    records = train_pack([cell.config for cell in grid.cells()], folder=tmp_path / "runs", quiet=True)
    return grid, tmp_path / "runs", records


def test_a_run_keeps_examples_of_each_kind_and_its_best_and_worst(trained):
    grid, folder, records = trained
    record = next(each for each in records if each.config["noise"] != "clean" and each.config["loss"] == "ce")
    kept = load_examples(folder / record.id / FILE_NAME)
    assert kept.kind == (*["erode"] * 2, *["dilate"] * 2, *["affine"] * 2, *["best"] * 3, *["worst"] * 3)
    train, test = (datasets.load(grid.dataset, split) for split in ("train", "test"))
    model = load_trained(folder / record.id)
    scores = of_each_image(_counts(model, test)).numpy()
    for place, kind in enumerate(kept.kind):
        source = test if kind in ("best", "worst") else train
        index = kept.index[place]
        assert np.array_equal(kept.images[place], source.images[index])
        assert np.array_equal(kept.true[place], source.masks[index])
        changed = not np.array_equal(kept.given[place], kept.true[place])
        assert changed == (kind not in ("best", "worst"))
    is_best, is_worst = (np.array(kept.kind) == kind for kind in ("best", "worst"))
    assert kept.dice[is_best] == pytest.approx(np.sort(scores)[::-1][:3])
    assert kept.dice[is_worst] == pytest.approx(np.sort(scores)[:3])


def _counts(model, data):
    images = torch.from_numpy(data.images.transpose(0, 3, 1, 2).copy())
    return count_pixels(model.probabilities(images).argmax(1), torch.from_numpy(data.masks), 2)


def test_clean_runs_keep_only_test_pictures(trained):
    _, folder, records = trained
    clean = next(each for each in records if each.config["noise"] == "clean")
    assert set(load_examples(folder / clean.id / FILE_NAME).kind) == {"best", "worst"}


def test_of_three_test_pictures_none_is_shown_twice_and_nothing_corrupted_is_spoken_of(lesions, tmp_path):
    text = GRID.format(dataset=lesions(test=3)).replace(', "masks-0.5-0.7"', "")
    grid = parsed(text, "discs").narrowed(methods=["ce"])
    (record,) = train_pack([cell.config for cell in grid.cells()], folder=tmp_path, quiet=True)
    kept = load_examples(tmp_path / record.id / FILE_NAME)
    assert kept.kind == ("best", "best", "worst")
    assert sorted(kept.index) == [0, 1, 2]
    (drawing,) = [each for each in draw_all(gather(grid, folder=tmp_path)) if each.key == "segmentation"]
    assert drawing.caption.startswith("Under clean, seed 1: for each method, the test images")
    assert "Grey" not in drawing.caption


def test_pixels_without_a_label_are_grey_in_a_report_and_no_class_is():
    shown = segmentation._mask(np.array([[0, 1, 2, 3, 4, 5, 255]], dtype=np.uint8))
    *classes, void = np.asarray(Image.open(io.BytesIO(base64.b64decode(shown))).convert("RGB"))[0].tolist()
    assert void == [128, 128, 128]
    assert void not in classes
    assert len({tuple(colour) for colour in classes[:5]}) == 5
    assert classes[5] == classes[1]


class Seen(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.pictures, self.heads, self.open = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.pictures.append(dict(attributes))
        else:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "th":
            self.heads.append(data)


def test_the_report_shows_them(trained):
    grid, folder, _ = trained
    (drawing,) = [each for each in draw_all(gather(grid, folder=folder)) if each.key == "segmentation"]
    assert "masks-0.5-0.7" in drawing.caption
    seen = Seen()
    seen.feed(drawing.markup)
    assert not seen.open
    # Six training pictures with two methods: picture, true, noisy, two predictions. Six test pictures a method.
    assert len(seen.pictures) == 6 * 5 + 2 * 6 * 3
    assert all(each["src"].startswith("data:image/png;base64,") and each["alt"] for each in seen.pictures)
    assert "CE & co" in seen.heads
    assert [head for head in seen.heads if head in ("affine", "dilated", "eroded")] == [
        *["affine"] * 2,
        *["dilated"] * 2,
        *["eroded"] * 2,
    ]


def test_without_runs_or_masks_there_is_no_such_figure(trained, tmp_path):
    grid, folder, _ = trained
    assert not [
        each
        for each in draw_all(replace(gather(grid, folder=folder), folder=None))
        if each.key == "segmentation"
    ]
    empty = gather(grids.load("digits-table"), folder=tmp_path / "nothing")
    assert not [each for each in draw_all(empty) if each.key == "segmentation"]


def test_tables_of_dice(trained):
    grid, folder, records = trained
    results = gather(grid, folder=folder).results
    assert {result.metric for result in results} == {"test_dice"}
    assert [result.score for result in results] == pytest.approx(
        [next(r for r in records if r.id == result.run).result["test_dice"] for result in results]
    )


def test_a_page_tells_dice_per_image_beside_the_pooled_one(trained, tmp_path):
    def page(gathered):
        write_report(gathered, tmp_path / "page.html")
        return (tmp_path / "page.html").read_text(encoding="utf-8")

    grid, folder, _ = trained
    found = gather(grid, folder=folder)
    text = page(found)
    assert ">per image</th>" in text
    assert all(f">{result.per_image:.2f}</td>" in text for result in found.results)
    older = replace(found, results=tuple(replace(result, per_image=None) for result in found.results))
    assert ">per image</th>" not in page(older)


# --- data to choose settings on ----------------------------------------------------------------------------


def test_a_tenth_of_the_training_data_is_held_out():
    whole = datasets.load("blobs")
    train, test = (datasets.load("tuning:blobs", split) for split in ("train", "test"))
    assert (len(train), len(test)) == (360, 40)
    assert {train.split, test.split} == {"train", "test"}
    pixels = [image.tobytes() for image in np.concatenate([train.images, test.images])]
    assert sorted(pixels) == sorted(image.tobytes() for image in whole.images)
    assert datasets.load("tuning:blobs", "test").fingerprint == test.fingerprint
    with pytest.raises(datasets.DataError, match="has the splits train and test, not 'validation'"):
        datasets.load("tuning:blobs", "validation")
    with pytest.raises(datasets.UnknownDataError, match="no data set is called 'blob'"):
        datasets.load("tuning:blob")


def test_it_has_the_recipe_of_its_set():
    config = resolve("tuning:blobs", loss="ce")
    assert config.model == "unet-small"
    assert config.run_id.startswith("blobs-clean-ce-s1-")
    assert config.hash != resolve("blobs", loss="ce").hash


def test_the_tuning_grid_gives_every_method_with_parameters_three_candidates():
    grid = grids.load("isic-tuning")
    by_loss = {}
    for method in grid.methods:
        by_loss.setdefault(method.loss, []).append(method)
    assert {loss: len(methods) for loss, methods in by_loss.items()} == {
        "ce": 1,
        "mae": 1,
        "gce": 3,
        "sce": 3,
        "nce+rce": 3,
        "t-loss": 3,
        "anl-ce": 3,
    }
    assert grid.dataset == "tuning:isic2017-128px"


def test_candidates_inherit_nothing_from_what_won():
    """Else the grid would change with its own result."""
    for cell in grids.load("isic-tuning").cells():
        assert cell.config.loss_parameters == cell.method.settings.get("loss_parameters", {})
        assert cell.config.l1 == cell.method.settings.get("l1", 0.0)
    won = resolve("isic2017-128px", loss="t-loss").loss_parameters
    assert won == {"nu_learning_rate": 1e-3, "published": True}
    assert resolve("tuning:isic2017-128px", loss="t-loss").loss_parameters == {}
