# SPDX-License-Identifier: Apache-2.0
"""A finished run scored on labelled data: on its own test set it gets what it recorded."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import recall_score
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.command_line import app
from noiseproof.training import resolve, train
from noiseproof.training.evaluate import _places_of_masks, evaluate
from noiseproof.training.predict import load_trained


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A short run on digits: the runs folder, its record, its model and the test set."""
    folder = tmp_path_factory.mktemp("digits")
    record = train(resolve("digits", loss="ce", epochs=3, device="cpu"), folder=folder, quiet=True)
    return folder, record, load_trained(folder / record.id), datasets.load("digits", "test")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_its_own_test_set_gives_what_the_run_recorded(digits):
    _, record, model, test = digits
    found = evaluate(model, test)
    assert found.scores["accuracy"] == pytest.approx(record.result["test_accuracy"], abs=1e-3)
    assert found.samples == len(test)
    counts = {name: count for name, (count, _) in found.by_class.items()}
    assert counts == {str(k): int((test.labels == k).sum()) for k in range(10)}
    mean = sum(count * right for count, right in found.by_class.values()) / len(test)
    assert mean == pytest.approx(found.scores["accuracy"])


def test_balanced_accuracy_is_that_of_scikit_learn(digits):
    _, _, model, test = digits
    rows = np.flatnonzero((test.labels != 3) & ((test.labels < 8) | (np.arange(len(test)) % 5 == 0)))
    uneven = test.subset(rows)
    images = torch.from_numpy(uneven.images).permute(0, 3, 1, 2)
    predicted = model.probabilities(images).argmax(1).numpy()
    found = evaluate(model, uneven).scores
    assert found["balanced_accuracy"] == pytest.approx(
        100 * recall_score(uneven.labels, predicted, average="macro", labels=np.unique(uneven.labels))
    )
    assert found["balanced_accuracy"] != pytest.approx(found["accuracy"])


def test_classes_are_matched_by_name_and_may_be_fewer(digits):
    _, _, model, test = digits
    whole = evaluate(model, test)
    order = np.random.RandomState(0).permutation(10)
    turned = replace(
        test, labels=np.argsort(order)[test.labels], class_names=tuple(test.class_names[k] for k in order)
    )
    assert evaluate(model, turned).scores == whole.scores
    assert evaluate(model, turned).by_class == whole.by_class
    rows = np.flatnonzero(test.labels >= 7)
    some = replace(test.subset(rows), labels=test.labels[rows] - 7, class_names=("7", "8", "9"))
    assert evaluate(model, some).by_class == {name: whole.by_class[name] for name in ("7", "8", "9")}


def test_pictures_of_other_sizes_and_channels_are_fitted(digits):
    _, _, model, test = digits
    colour = replace(test, images=np.repeat(test.images, 3, axis=3))
    assert evaluate(model, colour).scores == evaluate(model, test).scores
    doubled = replace(test, images=test.images.repeat(2, axis=1).repeat(2, axis=2))
    assert evaluate(model, doubled).scores["accuracy"] == pytest.approx(
        evaluate(model, test).scores["accuracy"], abs=2.0
    )


def test_what_does_not_belong_to_the_run_is_refused_in_words(digits):
    _, _, model, test = digits
    with pytest.raises(ValueError, match=r"not the run's, which knows '0', .* and 5 more; it has 'ten'"):
        evaluate(model, replace(test, class_names=(*test.class_names[:9], "ten")))
    with pytest.raises(ValueError, match="has no test pictures"):
        evaluate(model, test.subset(np.array([], dtype=np.int64)))
    with pytest.raises(ValueError, match="blobs has masks, but the run was trained on labels"):
        evaluate(model, datasets.load("blobs", "test"))


def test_the_command_on_a_folder_without_a_test_part(digits, tmp_path):
    folder, record, _, test = digits
    for row in range(40):
        place = tmp_path / "newer" / str(test.labels[row])
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(test.images[row, :, :, 0]).save(place / f"{row}.png")
    done = run("evaluate", record.id, f"folder:{tmp_path / 'newer'}", "--folder", folder)
    assert done.exit_code == 0, done.output
    assert "on all 40 images of" in done.output
    plain = run("evaluate", record.id, f"folder:{tmp_path / 'newer'}", "--folder", folder, "--json")
    data = json.loads(plain.output)
    expected = evaluate(load_trained(folder / record.id), test.subset(np.arange(40)))
    assert data["accuracy"] == pytest.approx(expected.scores["accuracy"])
    assert f"accuracy {data['accuracy']:.2f}% on all 40 images" in done.output
    assert {name: facts["samples"] for name, facts in data["by_class"].items()} == {
        name: count for name, (count, _) in expected.by_class.items()
    }


def test_a_test_part_that_cannot_be_read_is_not_replaced_by_training_pictures(digits, tmp_path):
    folder, record, _, test = digits
    for part in ("train", "test"):
        (tmp_path / "set" / part / "0").mkdir(parents=True)
        Image.fromarray(test.images[0, :, :, 0]).save(tmp_path / "set" / part / "0" / "a.png")
    (tmp_path / "set/test/0/notes.txt").write_text("")
    done = run("evaluate", record.id, f"folder:{tmp_path / 'set'}", "--folder", folder)
    assert done.exit_code == 2
    assert "notes.txt: expected an image" in done.output


def test_errors_of_the_command_are_one_line(digits, tmp_path):
    folder, record, _, _ = digits
    for words, told in [
        (("evaluate", record.id, "digitz"), "digitz"),
        (("evaluate", "nothing", "digits"), "nothing"),
        (("evaluate", record.id, "digits", "--split", "half"), "half"),
        (("evaluate", record.id, f"folder:{tmp_path / 'none'}"), "none"),
    ]:
        done = run(*words, "--folder", folder)
        assert done.exit_code == 2, done.output
        assert told in done.output
        assert "Traceback" not in done.output


def test_masks_give_the_dice_that_the_run_recorded(tmp_path):
    small = {"epochs": 1, "batch_size": 16, "model_options": {"base_width": 4}}
    config = resolve("blobs", loss="ce", noise="masks-0.5-0.5", device="cpu", **small)
    record = train(config, folder=tmp_path, quiet=True)
    model, test = load_trained(tmp_path / record.id), datasets.load("blobs", "test")
    found = evaluate(model, test)
    last = record.epochs[-1]
    assert found.scores["dice"] == pytest.approx(last["test_dice"], abs=0.01)
    assert found.scores["dice_per_image"] == pytest.approx(last["test_dice_per_image"], abs=0.01)
    assert not found.by_class
    with pytest.raises(ValueError, match="masks have 32 x 32 pixels, the run's network"):
        evaluate(model, replace(test, masks=test.masks[:, :32, :32]))


def test_masks_without_names_of_classes_are_matched_by_number():
    """Masks of 0 and 255 have a background and a foreground, those of 0 and 1 the classes 0 and 1: the same two."""
    pair, numbers = ("background", "foreground"), ("0", "1")
    for names, known in (
        (numbers, pair),
        (pair, numbers),
        (pair, ("skin", "lesion")),
        (numbers, ("a", "b", "c")),
    ):
        assert _places_of_masks(names, known, "folder:checked").tolist() == [0, 1]
    assert _places_of_masks(("sea", "sky"), ("sky", "sea"), "folder:checked").tolist() == [1, 0]
    for names, known in ((("0", "1", "2"), pair), (pair, ("0", "1", "2")), (("sea", "fog"), ("sky", "sea"))):
        with pytest.raises(ValueError, match=r"classes are not the run's.* Name them in classes\.txt"):
            _places_of_masks(names, known, "folder:checked")


def test_a_score_on_the_images_that_were_trained_on_is_told_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("photos", "checked"):
        for label, kind in enumerate(("dark", "bright")):
            (tmp_path / name / kind).mkdir(parents=True)
            for number in range(10):
                Image.new("RGB", (8, 8), (20 + 180 * label + number,) * 3).save(f"{name}/{kind}/{number}.png")
    settings = {"loss": "ce", "model": "mlp", "epochs": 1, "learning_rate": 0.01, "image_size": 8}
    record = train(resolve("folder:photos", device="cpu", **settings), folder=tmp_path / "runs", quiet=True)
    told = "Note: 20 of these 20 images belong to folder:photos, which the run was trained on"
    assert told in run("evaluate", record.id, f"folder:{tmp_path / 'photos'}").stderr
    assert "Note" not in run("evaluate", record.id, "folder:checked").stderr
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    made = run("evaluate", record.id, "folder:elsewhere")
    assert (made.exit_code, made.stderr) == (0, "")
