# SPDX-License-Identifier: Apache-2.0
"""Segmentation through the engine: masks move with images, runs are stopped and go on, Dice is recorded."""

import numpy as np
import pytest
import torch
from tests.stopping import StopAfter

from noiseproof import datasets
from noiseproof.datasets import DataError
from noiseproof.datasets.augment import RandomCropFlip, RandomGamma, RandomMirror, RandomRotation, Recipe
from noiseproof.training import Interrupted, resolve, train, train_pack
from noiseproof.training import engine as engine_module
from noiseproof.training.data import give_labels, load_data
from noiseproof.training.dice import per_image, pooled
from noiseproof.training.masks import moved_masks
from noiseproof.training.outcome import result_of
from noiseproof.training.run import Run
from noiseproof.training.store import Store

CPU = torch.device("cpu")


def small(dataset, **changes):
    """A config that trains in a second."""
    said = {
        "recipe": "blobs",
        "noise": "masks-0.5-0.5",
        "epochs": 2,
        "batch_size": 8,
        "device": "cpu",
        "model_options": {"base_width": 4},
    } | changes
    return resolve(dataset, **said)


def epochs_of(folder, config):
    with Store(folder) as store:
        return [{**metrics, "seconds": 0} for metrics in store.get(config.run_id).epochs]


# --- data --------------------------------------------------------------------------------------------------


def test_masks_move_as_their_images_do():
    """A picture that shows its own mask must still show it after every augmentation."""
    random = np.random.RandomState(0)
    masks = torch.from_numpy((random.rand(40, 12, 12) < 0.4).astype(np.uint8))
    images = (masks * 255).unsqueeze(1).repeat(1, 3, 1, 1)
    steps = (
        RandomMirror(0.5, 0.5),
        RandomGamma(),
        RandomCropFlip(2),
        RandomRotation(30.0, resampling="nearest"),
    )
    recipe = Recipe("own", steps, (0.0,) * 3, (1.0,) * 3)
    seen = recipe.for_training(images, torch.Generator().manual_seed(3))
    moved, flipped = moved_masks(recipe, (masks, masks.bool()), torch.Generator().manual_seed(3))
    assert moved.dtype == torch.uint8
    assert flipped.dtype == torch.bool
    assert torch.equal(flipped, moved.bool())
    assert torch.equal(seen[:, 0], moved.float())
    assert not torch.equal(moved, masks)


def test_a_step_sees_image_and_mask_moved_together(lesions):
    """In the engine itself: bright pixels are the given mask, where it is clean."""
    config = small(lesions(), noise="clean")
    run = Run(config, load_data(config, CPU))
    for step, images, indices in run.batches.epoch(0, 0):
        given, flipped = run.targets(indices, run.epoch, step)
        inside = images.mean(1)[given.bool()].mean()
        outside = images.mean(1)[~given.bool()].mean()
        assert inside > outside + 1.0
        assert not flipped.any()


def test_given_masks_and_what_is_known_of_them(lesions):
    config = small(lesions(), noise="masks-0.5-0.7", seed=3)
    data = load_data(config, CPU)
    assert data.has_masks
    assert data.num_classes == 2
    assert data.test_labels.shape == (10, 16, 16)
    labels = give_labels(config, data)
    clean = torch.from_numpy(data.train.masks.copy())
    assert labels.given.dtype == torch.uint8
    assert torch.equal(labels.flipped, labels.given != clean)
    assert labels.summary["realised_rate"] == 0.5
    assert labels.summary["kinds"]["kept"] == 13
    assert sum(labels.summary["kinds"].values()) == 26
    assert labels.summary["wrong_pixels"] == pytest.approx(labels.flipped.float().mean().item())
    again = give_labels(config, data)
    assert torch.equal(again.given, labels.given)
    assert not torch.equal(
        give_labels(small(lesions("b"), noise="masks-0.5-0.7", seed=4), data).given, labels.given
    )


def test_pictures_are_brought_to_the_size_asked_for(lesions):
    config = small(lesions(side=20), image_size=16)
    data = load_data(config, CPU)
    assert data.images.shape == (26, 3, 16, 16)
    assert data.train.masks.shape == (26, 16, 16)
    assert set(np.unique(data.train.masks)) == {0, 1}
    assert data.test_labels.shape == (10, 16, 16)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model": "mlp", "model_options": {}},
            "model: 'mlp' is for classification, and .* is for segmentation",
        ),
        (
            {"noise": "sym-0.4"},
            "noise: 'sym-0.4' is for class labels, and .* has masks; say masks-SHARE-STRENGTH",
        ),
        ({"jacobian": 0.1}, "jacobian: is for classification"),
        ({"gradient_quantiles": True}, "gradient_quantiles: is for classification"),
    ],
)
def test_what_does_not_fit_masks_is_told(lesions, changes, message):
    config = small(lesions(), **changes)
    with pytest.raises(ValueError, match=message):
        Run(config, load_data(config, CPU))


def test_what_does_not_fit_classes_is_told():
    for changes, message in (
        ({"loss": "t-loss"}, "loss: 't-loss' looks at masks, and digits has none"),
        ({"model": "unet-small", "model_options": {}}, "model: 'unet-small' is for segmentation"),
        ({"noise": "masks-0.5-0.5"}, "noise: 'masks-0.5-0.5' does not apply to classification"),
    ):
        config = resolve("digits", device="cpu", **changes)
        with pytest.raises(ValueError, match=message):
            Run(config, load_data(config, CPU))


def test_masks_of_another_size_and_masks_with_strange_levels_are_refused(lesions, tmp_path):
    from PIL import Image

    name = lesions()
    mask = tmp_path / "lesions" / "train" / "masks" / "004.png"
    good = mask.read_bytes()
    Image.new("L", (16, 15)).save(mask)
    with pytest.raises(DataError, match=r"004.png: expected the size of its image, 16x16, found 16x15"):
        load_data(small(name), CPU)
    Image.fromarray(np.full((16, 16), 128, np.uint8)).save(mask)
    with pytest.raises(DataError, match=r"004.png|masks/.*: expected class indices .*level"):
        load_data(small(name), CPU)
    mask.write_bytes(good)
    load_data(small(name), CPU)


# --- training ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["anl-ce", "t-loss", "ce+dice"])
def test_stopped_and_gone_on_is_as_if_never_stopped(lesions, tmp_path, monkeypatch, loss):
    config = small(lesions(), loss=loss)  # 4 steps an epoch
    whole = train(config, folder=tmp_path / "whole", quiet=True)
    for steps in (1, 1, 2):
        monkeypatch.setattr(engine_module, "Interruption", lambda steps=steps: StopAfter(steps))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "parts", quiet=True)
    monkeypatch.undo()
    parts = train(config, folder=tmp_path / "parts", quiet=True)
    assert parts.result == whole.result
    assert epochs_of(tmp_path / "parts", config) == epochs_of(tmp_path / "whole", config)


def test_what_is_recorded(lesions, tmp_path):
    config = small(lesions(), loss="ce", epochs=3)
    record = train(config, folder=tmp_path, quiet=True)
    assert record.status == "finished"
    for metrics in record.epochs:
        assert 0 <= metrics["test_dice"] <= 100
        assert 0 <= metrics["test_dice_per_image"] <= 100
        assert "test_accuracy" not in metrics
        assert metrics["clean_accuracy"] > 0
        assert metrics["flipped_accuracy"] is not None
    for key in ("test_dice", "test_dice_per_image"):
        mean = np.mean([metrics[key] for metrics in record.epochs])
        assert record.result[key] == pytest.approx(mean)  # fewer than ten epochs: all of them
    assert record.result["averaged_epochs"] == 3
    assert record.progress.last_accuracy == record.epochs[-1]["test_dice"]
    assert record.noise["kinds"]["kept"] == 13


def test_the_result_is_the_mean_of_the_last_ten_epochs():
    epochs = [{"test_dice": float(n), "test_dice_per_image": float(2 * n)} for n in range(30)]
    result = result_of(epochs)
    assert result["test_dice"] == np.mean(range(20, 30))
    assert result["test_dice_per_image"] == 2 * np.mean(range(20, 30))
    assert (result["best_test_dice"], result["best_epoch"]) == (29.0, 30)
    for number in (21, 23, 25, 27):  # tested every second epoch, and the last
        epochs[number] = {"loss": 1.0}
    assert result_of(epochs)["test_dice"] == np.mean([20, 22, 24, 26, 28, 29])
    assert result_of(epochs)["averaged_epochs"] == 6


def test_recorded_dice_is_that_of_the_saved_network(lesions, tmp_path):
    from noiseproof.training.dice import count_pixels
    from noiseproof.training.predict import load_trained

    config = small(lesions(), loss="ce", epochs=2, learning_rate=0.01)
    record = train(config, folder=tmp_path, quiet=True)
    model = load_trained(tmp_path / record.id)
    assert model.task == "segmentation"
    test = datasets.load(config.dataset, "test")
    images = torch.from_numpy(test.images.transpose(0, 3, 1, 2).copy())
    predicted = model.probabilities(images).argmax(1)
    counts = count_pixels(predicted, torch.from_numpy(test.masks), 2)
    assert record.epochs[-1]["test_dice"] == pytest.approx(pooled(counts))
    assert record.epochs[-1]["test_dice_per_image"] == pytest.approx(per_image(counts))


def test_t_loss_learns_its_own_parameter_at_its_own_rate(lesions, tmp_path):
    said = {"loss": "t-loss", "epochs": 3, "noise": "clean"}
    slow = train(small(lesions(), **said), folder=tmp_path, quiet=True)
    fast = train(
        small(lesions("b"), **said, loss_parameters={"nu_learning_rate": 0.05}), folder=tmp_path, quiet=True
    )
    steps = 3 * 4
    learned = [record.epochs[-1]["loss_learned"]["nu"] for record in (slow, fast)]
    # In one direction a step of Adam is about its learning rate, which the schedule does not lower.
    assert 0.9 * steps * 1e-3 < abs(learned[0] - 1) < 1.1 * steps * 1e-3
    assert 0.9 * steps * 0.05 < abs(learned[1] - 1) < 1.1 * steps * 0.05
    still = train(
        small(lesions("c"), **said, loss_parameters={"nu_learning_rate": 0.0}), folder=tmp_path, quiet=True
    )
    assert still.epochs[-1]["loss_learned"]["nu"] == 1.0


def test_a_pack_steps_masks_side_by_side(lesions, tmp_path, monkeypatch):
    """The path that a GPU takes, without a graph: each run of a pack as it would be alone, stopped or not."""
    name = lesions()
    configs = [
        small(name, loss="ce"),
        small(name, loss="t-loss", seed=2),
        small(name, loss="anl-ce", noise="clean"),
    ]
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    together = train_pack(configs, folder=tmp_path / "pack", quiet=True)
    for config, record in zip(configs, together, strict=True):
        alone = train(config, folder=tmp_path / "alone", quiet=True)
        assert alone.result == pytest.approx(record.result, rel=1e-6)
        for one, other in zip(alone.epochs, record.epochs, strict=True):
            assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)
            assert one["clean_accuracy"] == pytest.approx(other["clean_accuracy"])
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(5))
        with pytest.raises(Interrupted):
            train_pack(configs, folder=tmp_path / "parts", quiet=True)
    parts = train_pack(configs, folder=tmp_path / "parts", quiet=True)
    for record, again in zip(together, parts, strict=True):
        assert again.result == pytest.approx(record.result, rel=1e-6)


def test_every_loss_of_labels_takes_masks(lesions, tmp_path):
    """One step of each family on dense targets, with finite numbers."""
    name = lesions(train=8, test=2)
    configs = [
        small(name, loss=loss, epochs=1)
        for loss in ("gce", "mae", "sce", "nce+rce", "anl-fl", "anl-ce*", "fl")
    ]
    for record in train_pack(configs, folder=tmp_path, quiet=True):
        assert record.status == "finished"
        assert np.isfinite(record.epochs[0]["loss"])


def test_it_learns_discs(lesions, tmp_path):
    config = small(
        lesions(train=60),
        noise="clean",
        loss="anl-ce",
        epochs=12,
        learning_rate=0.01,
        schedule="cosine",
        model_options={"base_width": 8},
    )
    assert train(config, folder=tmp_path, quiet=True).epochs[-1]["test_dice"] > 90


def test_bfloat16(lesions, tmp_path):
    record = train(small(lesions(), precision="bf16", loss="t-loss", epochs=1), folder=tmp_path, quiet=True)
    assert record.status == "finished"


# --- recipes and plans -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["isic2017", "isic2017-128px"])
def test_the_recipe_is_the_papers(name):
    config = resolve(name, noise="masks-0.7-0.7", loss="anl-ce")
    assert (config.model, config.epochs, config.batch_size) == ("nnunet", 100, 16)
    assert (config.optimizer, config.learning_rate, config.schedule) == ("adam", 1e-3, "exponential")
    assert (config.schedule_factor, config.clip_norm) == (0.8, 0.0)
    assert resolve(name, loss="ce").weight_decay == 5e-6
    assert config.learning_rate_at(3) == pytest.approx(1e-3 * 0.8**3)


def test_a_recipe_may_speak_of_one_loss(tmp_path):
    (tmp_path / "own.toml").write_text(
        'model = "unet-small"\nepochs = 3\nlearning_rate = 0.1\nl1 = 1e-6\n'
        "[for_loss.apl]\nl1 = 0.0\nloss_parameters = { alpha = 2.0, beta = 3.0 }\n"
        "[for_loss.gce.loss_parameters]\nq = 0.4\n"
    )
    recipe = str(tmp_path / "own.toml")
    apl = resolve("blobs", recipe=recipe, loss="nce+rce")
    assert (apl.l1, dict(apl.loss_parameters)) == (0.0, {"alpha": 2.0, "beta": 3.0})
    gce = resolve("blobs", recipe=recipe, loss="gce")
    assert (gce.l1, dict(gce.loss_parameters)) == (1e-6, {"q": 0.4})
    assert dict(resolve("blobs", recipe=recipe, loss="gce", loss_parameters={"q": 0.9}).loss_parameters) == {
        "q": 0.9
    }
    assert dict(resolve("blobs", recipe=recipe, loss="ce").loss_parameters) == {}
    (tmp_path / "own.toml").write_text("[for_loss.ce]\nlr = 1.0\n")
    with pytest.raises(ValueError, match="key of for_loss.'ce': unknown name 'lr'"):
        resolve("blobs", recipe=recipe, loss="ce")


def test_a_plan_for_masks_of_ones_own(lesions):
    from noiseproof.planning.own_data import plan_for

    choices = {choice.field: choice.value for choice in plan_for(lesions(side=40), {"batch_size": 4})}
    assert choices["model"] == "unet"
    assert choices["image_size"] == 32
    assert "batch_size" not in choices
    assert choices["optimizer"] == "adam"
