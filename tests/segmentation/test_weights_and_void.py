# SPDX-License-Identifier: Apache-2.0
"""Class weights and pixels without a label, from files on disk to recorded Dice."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.segmentation.conftest import discs
from torch.nn import functional as F
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.datasets import DataError
from noiseproof.training import engine as engine_module
from noiseproof.training import resolve, train, train_pack
from noiseproof.training.data import give_labels, label_marginals, load_data, remark_on_classes
from noiseproof.training.evaluate import evaluate
from noiseproof.training.predict import load_trained
from noiseproof.training.run import Run
from noiseproof.training.store import Store

CPU = torch.device("cpu")
VOID = 255


def three_classes(count, seed):
    """Discs, of which the left half is class 1 and the right half class 2."""
    images, masks = discs(count, seed=seed)
    masks[:, :, 8:] *= 2
    images[masks == 2] -= 60
    return images, masks


@pytest.fixture
def write(tmp_path):
    """A function that writes pictures with masks, each changed by ``change``, and returns the data set's name."""

    def save(name, change, *, classes=3, names=()):
        for split, count, seed in (("train", 20, 0), ("test", 8, 1)):
            images, masks = (discs if classes == 2 else three_classes)(count, seed=seed)
            for kind, arrays in (("images", images), ("masks", change(masks))):
                place = tmp_path / name / split / kind
                place.mkdir(parents=True)
                for number, pixels in enumerate(arrays):
                    Image.fromarray(pixels).save(place / f"{number:03}.png")
        if names:
            (tmp_path / name / "classes.txt").write_text("\n".join(names))
        return f"folder:{tmp_path / name}"

    return save


def with_void_edges(masks):
    """Void as people leave it: a frame, and a line between the classes."""
    masks = masks.copy()
    masks[:, :2] = masks[:, :, 8] = VOID
    return masks


def small(dataset, **changes):
    said = {
        "recipe": "blobs",
        "epochs": 2,
        "batch_size": 8,
        "device": "cpu",
        "model_options": {"base_width": 4},
    }
    return resolve(dataset, **(said | changes))


def dice_by_hand(predicted, true, class_index, counted):
    ours, theirs = (predicted == class_index) & counted, (true == class_index) & counted
    return 2 * (ours & theirs).sum() / (ours.sum() + theirs.sum())


def test_two_epochs_with_both_from_the_command_line(write, tmp_path):
    name = write("mc", with_void_edges)
    command = ["train", name, "--recipe", "blobs", "--loss", "ce", "--epochs", "2", "--batch-size", "8"]
    command += ["--set", "weight=1,2,3", "--set", "ignore_index=255", "--lr", "0.02", "--device", "cpu"]
    done = CliRunner().invoke(app, [*command, "--folder", str(tmp_path / "runs")])
    assert done.exit_code == 0, done.output
    with Store(tmp_path / "runs") as store:
        record = store.get(store.runs()[0].id)
    assert record.config["loss_parameters"] == {"weight": [1.0, 2.0, 3.0], "ignore_index": 255}
    assert len(record.noise["label_marginals"]) == 3
    assert sum(record.noise["label_marginals"]) == pytest.approx(1, abs=1e-4)
    config = small(name, loss="ce", loss_parameters=record.config["loss_parameters"])
    test = load_data(config, CPU).test
    model = load_trained(tmp_path / "runs" / record.id)
    images = torch.from_numpy(test.images.transpose(0, 3, 1, 2).copy())
    predicted = model.probabilities(images).argmax(1).numpy()
    by_hand = [dice_by_hand(predicted, test.masks, k, test.masks != VOID) for k in (1, 2)]
    assert record.epochs[-1]["test_dice"] == pytest.approx(100 * np.mean(by_hand))
    again = CliRunner().invoke(
        app,
        [
            "predict",
            record.id,
            str(tmp_path / "mc" / "test" / "images"),
            "--out",
            str(tmp_path / "out"),
            "--folder",
            str(tmp_path / "runs"),
            "--device",
            "cpu",
        ],
    )
    assert again.exit_code == 0, again.output


@pytest.mark.parametrize("loss", ["ce", "anl-ce", "ce+dice"])
def test_an_ignored_class_is_as_void(write, tmp_path, loss):
    """Pixels of class 2 teach nothing and count nowhere: training is the same where they are saved as void."""
    names = ("ground", "left", "right")
    kept = write("kept", lambda masks: masks, names=names)
    void = write("void", lambda masks: np.where(masks == 2, VOID, masks).astype(np.uint8), names=names)
    weights = {"weight": [1.0, 4.0, 2.0]}
    options = [{"ignore_index": 2, **weights}, {"ignore_index": VOID, **weights}]
    configs = [
        small(name, loss=loss, loss_parameters=each) for name, each in zip((kept, void), options, strict=True)
    ]
    records = [train(config, folder=tmp_path / "runs", quiet=True) for config in configs]
    for one, other in zip(*(record.epochs for record in records), strict=True):
        for key in (
            "loss",
            "loss_parts",
            "gradient_norm",
            "train_accuracy",
            "clean_accuracy",
            "predicted_marginals",
        ):
            assert one[key] == other[key], key
    ours, theirs = (load_trained(tmp_path / "runs" / record.id).network.state_dict() for record in records)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    # The class that is ignored has no Dice; void is no class, so that class 2, never true, has one there.
    data = load_data(configs[0], CPU)
    model = load_trained(tmp_path / "runs" / records[0].id)
    predicted = model.probabilities(data.test_images).argmax(1).numpy()
    by_hand = dice_by_hand(predicted, data.test.masks, 1, data.test.masks != 2)
    assert records[0].epochs[-1]["test_dice"] == pytest.approx(100 * by_hand)
    assert evaluate(model, data.test).scores["dice"] == pytest.approx(100 * by_hand)
    with_void = data.test.masks.copy()
    with_void[:, :3] = VOID
    scored = evaluate(model, replace(data.test, masks=with_void)).scores["dice"]
    counted = (with_void != 2) & (with_void != VOID)
    assert scored == pytest.approx(100 * dice_by_hand(predicted, with_void, 1, counted))


def test_the_loss_is_torchs_with_both(write):
    name = write("mc", with_void_edges)
    config = small(name, loss="ce", loss_parameters={"weight": [1, 2, 3], "ignore_index": VOID})
    run = Run(config, load_data(config, CPU))
    _, images, indices = next(run.batches.epoch(0, 0))
    given, _ = run.targets(indices, 0, 0)
    assert (given == VOID).any()
    logits = run.network(images)
    expected = F.cross_entropy(logits, given.long(), torch.tensor([1.0, 2.0, 3.0]), ignore_index=VOID)
    assert run.loss(logits, given.long()).item() == pytest.approx(expected.item(), rel=1e-6)


def test_a_pack_with_both_is_as_its_runs_alone(write, tmp_path, monkeypatch):
    """The path that a GPU takes, without a graph; runs of a pack may ignore and weigh differently."""
    name = write("mc", lambda masks: masks)
    configs = [
        small(name, loss="anl-ce", loss_parameters={"weight": [1, 2, 3], "ignore_index": 2}),
        small(name, loss="ce", loss_parameters={"ignore_index": 0}),
        small(name, loss="dice"),
    ]
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    together = train_pack(configs, folder=tmp_path / "pack", quiet=True)
    for config, record in zip(configs, together, strict=True):
        alone = train(config, folder=tmp_path / "alone", quiet=True)
        assert alone.result == pytest.approx(record.result, rel=1e-6)
        for one, other in zip(alone.epochs, record.epochs, strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
            assert one["loss_parts"] == pytest.approx(other["loss_parts"], rel=1e-5)
            assert one["clean_accuracy"] == pytest.approx(other["clean_accuracy"])


def test_noise_leaves_void_pixels_void(write):
    name = write("two", lambda masks: with_void_edges(masks), classes=2)
    config = small(name, noise="masks-0.5-0.7", loss_parameters={"ignore_index": VOID})
    data = load_data(config, CPU)
    clean, labels = torch.from_numpy(data.train.masks.copy()), give_labels(config, data)
    void = clean == VOID
    assert torch.equal(labels.given == VOID, void)
    assert torch.equal(labels.flipped, labels.given != clean)
    assert labels.flipped.any()
    assert labels.summary["wrong_pixels"] == pytest.approx(labels.flipped[~void].float().mean().item())
    assert label_marginals(labels.given, 2)[1] == pytest.approx(
        (labels.given[~void] == 1).float().mean().item(), abs=1e-5
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, r"ignore_index: masks of .* hold class indices and also 255. .* say --set ignore_index=255"),
        ({"ignore_index": 2}, r"ignore_index: masks of .*, got 2"),
        (
            {"ignore_index": VOID, "weight": [1, 2]},
            r"weight: expected 3 numbers, one for each class of .*, got \[1.0, 2.0\]",
        ),
    ],
)
def test_what_does_not_fit_the_masks_is_told(write, parameters, message):
    config = small(write("mc", with_void_edges), loss="ce", loss_parameters=parameters)
    with pytest.raises(ValueError, match=message):
        Run(config, load_data(config, CPU))


def test_a_class_without_a_pixel_is_named_before_training(write, tmp_path):
    assert remark_on_classes(load_data(small(write("all", with_void_edges)), CPU)) is None
    for level, absent in ((0, "foreground"), (VOID, "background")):
        name = write(absent, lambda masks, level=level: np.full_like(masks, level), classes=2)
        told = remark_on_classes(load_data(small(name), CPU))
        assert told.startswith(f"Not a pixel to learn from in 20 training masks of 16x16: '{absent}'.")
    listed = write("listed", lambda masks: masks, names=("sky", "sea", "land", "fog"))
    assert "'fog'." in remark_on_classes(load_data(small(listed), CPU))


def test_a_class_that_only_test_masks_have_is_refused(write, tmp_path):
    name = write("more", lambda masks: masks)
    mask = next((tmp_path / "more" / "test" / "masks").iterdir())
    Image.fromarray(np.full((16, 16), 3, np.uint8)).save(mask)
    with pytest.raises(DataError, match=r"test split hold 4 classes, .* training split 3.* in classes\.txt"):
        load_data(small(name), CPU)
    (tmp_path / "more" / "classes.txt").write_text("sky\nsea\nland\nfog\n")
    assert load_data(small(name), CPU).num_classes == 4


def test_masks_of_several_sizes_can_be_split_for_tuning(write, tmp_path):
    name = write("sizes", lambda masks: masks)
    for kind in ("images", "masks"):
        file = sorted((tmp_path / "sizes" / "train" / kind).iterdir())[0]
        Image.open(file).resize((20, 24), Image.Resampling.NEAREST).save(file)
    loaded = load_data(replace(small(name, image_size=16), dataset=f"tuning:{name}"), CPU)
    assert (len(loaded.train), len(loaded.test)) == (18, 2)
    assert loaded.images.shape[2:] == loaded.test_labels.shape[1:] == (16, 16)
    assert remark_on_classes(loaded) is None


def test_the_only_class_cannot_be_ignored(lesions):
    config = small(lesions(), loss="ce", loss_parameters={"ignore_index": 1})
    with pytest.raises(ValueError, match="ignore_index: without class 1 there is nothing to find"):
        Run(config, load_data(config, CPU))
