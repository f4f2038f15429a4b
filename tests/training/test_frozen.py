# SPDX-License-Identifier: Apache-2.0
"""Training the final layer alone: on features that are made once, with the same result as on the images."""

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.stopping import StopAfter
from torch import nn
from torch.nn import functional

from noiseproof import datasets, models
from noiseproof.audit import dynamics
from noiseproof.audit.cross_validation import network_probabilities
from noiseproof.datasets.augment import recipe_for
from noiseproof.models import imagenet
from noiseproof.models.final_layer import freeze_all_but_final_layer
from noiseproof.planning.trials import train_trial, trial_data
from noiseproof.training import Interrupted, checkpoint, frozen, resolve, train, train_pack
from noiseproof.training import engine as engine_module
from noiseproof.training.data import load_data, of_given_labels
from noiseproof.training.run import Run
from noiseproof.training.stepwise import Stepwise
from noiseproof.training.store import Store


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of weights of a network that has learnt the digits a little, whose batch norm has seen some."""
    folder = tmp_path_factory.mktemp("learnt")
    config = resolve("digits", epochs=2, device="cpu", loss="ce", seed=7)
    train(config, folder=folder, quiet=True)
    (file,) = folder.rglob("*.safetensors")
    return str(file)


def small(weights, **changes):
    said = {
        "noise": "sym-0.4",
        "epochs": 3,
        "device": "cpu",
        "weights": weights,
        "freeze": True,
        "loss": "ce",
    }
    return resolve("digits", **(said | changes))


@pytest.fixture
def passed(monkeypatch):
    """How many images each call passed through the frozen network."""
    counts = []
    usual = frozen.features_of

    def counted(model, images):
        counts.append(len(images))
        return usual(model, images)

    monkeypatch.setattr(frozen, "features_of", counted)
    return counts


def only_stepwise(monkeypatch):
    monkeypatch.setattr(frozen, "can_keep_features", lambda run: False)


def network_of(folder, config):
    model = models.create("mlp", 10, image_size=8, **config.model_options)
    models.load_weights(model, folder / config.run_id / "weights.safetensors")
    return model


@pytest.mark.parametrize("way", ["features", "images"])
def test_only_the_final_layer_changes(way, weights, tmp_path, monkeypatch):
    if way == "images":
        only_stepwise(monkeypatch)
    config = small(weights, l1=0.01, weight_decay=0.1)
    train(config, folder=tmp_path, quiet=True)
    before = models.create("mlp", 10, image_size=8, **config.model_options)
    models.load_weights(before, weights)
    after = network_of(tmp_path, config).state_dict()
    changed = {name for name, tensor in before.state_dict().items() if not torch.equal(tensor, after[name])}
    assert changed == {"fc.weight", "fc.bias"}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loss": "anl-ce*", "l1": 1e-3, "clip_norm": 1.0},
        {"optimizer": "adam", "learning_rate": 0.01, "train_size": 300},
        {"ema": 0.9, "batch_size": 17},
    ],
    ids=str,
)
def test_features_give_what_images_give(changes, weights, tmp_path, monkeypatch):
    config = small(weights, **changes)
    on_features = train(config, folder=tmp_path / "features", quiet=True)
    only_stepwise(monkeypatch)
    on_images = train(config, folder=tmp_path / "images", quiet=True)
    assert on_features.result["test_accuracy"] == pytest.approx(on_images.result["test_accuracy"], abs=0.3)
    for first, second in zip(on_features.epochs, on_images.epochs, strict=True):
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-4)
    ours, theirs = (network_of(tmp_path / way, config).fc for way in ("features", "images"))
    torch.testing.assert_close(ours.weight, theirs.weight, rtol=1e-3, atol=1e-4)


def test_it_learns_what_the_features_know(weights, tmp_path):
    record = train(small(weights, noise="clean", epochs=10), folder=tmp_path, quiet=True)
    assert record.result["test_accuracy"] > 90


@pytest.mark.parametrize("stop", [1, 2, 3, 30], ids="after {} steps".format)
def test_stopped_anywhere_it_goes_on_to_the_same_end(stop, weights, tmp_path, monkeypatch):
    """The first steps here pass images through the network: nothing is trained yet."""
    monkeypatch.setattr(frozen, "IMAGES_AT_A_TIME", 1_000)
    config = small(weights)
    whole = train(config, folder=tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(stop))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "parts", quiet=True)
    with Store(tmp_path / "parts") as store:
        assert store.get(config.run_id).status == "interrupted"
    parts = train(config, folder=tmp_path / "parts", quiet=True)
    assert parts.result == pytest.approx(whole.result)
    ours, theirs = (network_of(tmp_path / way, config).fc for way in ("whole", "parts"))
    assert torch.equal(ours.weight, theirs.weight)


class Read(nn.Module):
    """A network that reads its features in some way of its own."""

    def __init__(self, classes, pixels, way):
        super().__init__()
        self.body = nn.Linear(pixels, 16)
        self.norm = nn.BatchNorm1d(16, affine=False)
        self.past = nn.Linear(16, classes)
        self.fc = nn.Linear(16, classes)
        self.way = way

    def forward(self, images):
        features = self.norm(self.body(images.flatten(1))).relu()
        if self.way == "noisy":
            features = functional.dropout(features, 0.5, self.training)
        if self.way == "in places":
            return self.fc(features[:, None].expand(-1, 3, -1)).mean(1)
        logits = self.fc(features)
        if self.way == "scaled":
            return 16 * logits
        return logits + self.past(features) if self.way == "past the layer" else logits


@pytest.fixture
def own_network(monkeypatch):
    monkeypatch.setattr(models.catalogue, "_RECORDS", dict(models.catalogue._RECORDS))

    def build(num_classes, in_channels, image_size, *, way="plain"):
        return Read(num_classes, in_channels * image_size[0] * image_size[1], way)

    models.register(replace(models.record("mlp"), name="own", build=build))


@pytest.mark.parametrize("way", ["plain", "scaled", "past the layer", "in places", "noisy"])
def test_features_stand_for_images_only_where_the_final_layer_reads_them_as_they_are(
    way, own_network, tmp_path
):
    model = models.create("own", 10, image_size=8, seed=1, way=way)
    with torch.no_grad():
        model.norm.running_mean += 0.1
    models.save_weights(model, tmp_path / "own.safetensors")
    config = small(str(tmp_path / "own.safetensors"), model="own", model_options={"way": way})
    data = load_data(config, torch.device("cpu"))
    assert frozen.can_keep_features(Run(config, data)) == (way == "plain")
    record = train(config, folder=tmp_path, quiet=True, data=data)
    models.load_weights(model, tmp_path / config.run_id / "weights.safetensors")
    with torch.no_grad():
        right = (model.eval()(data.recipe.for_testing(data.test_images)).argmax(1) == data.test_labels).sum()
    assert record.result["test_accuracy"] == pytest.approx(100 * right.item() / len(data.test), abs=1e-6)
    torch.testing.assert_close(model.norm.running_mean, torch.full((16,), 0.1), rtol=0, atol=0)


def test_a_pack_whose_features_do_not_fit_on_the_gpu_is_trained_on_images(
    weights, tmp_path, monkeypatch, capsys
):
    """The error is real in type and words only: a CPU has no such memory to run out of."""
    tried = []

    def too_large(way):
        tried.append(way.run.config.loss)
        raise torch.OutOfMemoryError("CUDA out of memory")
        yield

    monkeypatch.setattr(frozen.OnFeatures, "_compute", too_large)
    records = train_pack([small(weights, loss=loss) for loss in ("ce", "gce")], folder=tmp_path)
    assert [record.status for record in records] == ["finished"] * 2
    assert tried == ["ce"]
    assert "needs more memory than the GPU has: step by step, then" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "written"), [(1_000.0, 0), (0.0, 3)])
def test_short_epochs_leave_a_checkpoint_now_and_then(weights, tmp_path, monkeypatch, seconds, written):
    monkeypatch.setattr(frozen, "CHECKPOINT_SECONDS", seconds)
    usual, saved = checkpoint.save, []
    monkeypatch.setattr(checkpoint, "save", lambda path, state: (saved.append(path), usual(path, state)))
    train(small(weights), folder=tmp_path, quiet=True)
    assert len(saved) == written


def test_a_training_set_keeps_the_features_of_one_network_at_a_time(weights, tmp_path):
    other = tmp_path / "other.safetensors"
    models.save_weights(models.create("mlp", 10, image_size=8, seed=3, **small(weights).model_options), other)
    data = load_data(small(weights), torch.device("cpu"))
    for file in (weights, str(other)):
        train(small(file), folder=tmp_path, quiet=True, data=data)
    ((_, _, kept, _),) = data.features
    assert kept == str(other)


def test_grey_images_are_told_that_imagenets_weights_are_for_colours():
    config = resolve("digits", model="efficientnet-lite0", weights="imagenet", device="cpu")
    with pytest.raises(
        ValueError,
        match="weights: those of efficientnet-lite0 from ImageNet are for images of 3 channels, got 1",
    ):
        Run(config, load_data(config, torch.device("cpu")))


def test_runs_of_a_pack_share_features_and_get_their_own_results(weights, tmp_path, passed):
    configs = [small(weights, loss=loss) for loss in ("ce", "gce", "anl-ce*")]
    alone = [train(config, folder=tmp_path / "alone", quiet=True) for config in configs]
    passed.clear()
    together = train_pack(configs, folder=tmp_path / "together", quiet=True)
    assert sum(passed) == 1_797  # every image of both parts once
    assert [each.result for each in together] == [each.result for each in alone]


def test_each_fold_of_an_audit_is_trained_on_features_of_its_own_images(weights, tmp_path, monkeypatch):
    config = small(weights, noise="clean")
    train = datasets.load("digits").subset(range(300))
    found = []
    for way in ("features", "images"):
        if way == "images":
            only_stepwise(monkeypatch)
        data = of_given_labels(config, train, torch.device("cpu"))
        found.append(network_probabilities(config, data, tmp_path / way, quiet=True))
    np.testing.assert_allclose(*found, rtol=0, atol=1e-3)


def test_trials_of_a_search_are_trained_on_features_that_are_made_once(weights, passed, monkeypatch):
    config = small(weights)
    data = trial_data(config).noisy
    scores = []
    for _ in range(2):
        train_trial(config, data, lambda epoch, score: scores.append(score))
    assert sum(passed) == len(data.train) + len(data.test)
    only_stepwise(monkeypatch)
    train_trial(config, data, lambda epoch, score: scores.append(score))
    assert scores[:3] == scores[3:6] == pytest.approx(scores[6:], abs=1)


def test_dynamics_are_those_of_training_on_images(weights, passed, monkeypatch):
    config, told = small(weights, noise="clean"), []
    data = of_given_labels(config, datasets.load("digits").subset(range(300)), torch.device("cpu"))
    on_features = dynamics.record_dynamics(config, data, tell=lambda what, share: told.append(what))
    assert sum(passed) == 600  # for training, and for a test that nobody looks at
    assert told[0] == "passing the images through the network" != told[-1]
    only_stepwise(monkeypatch)
    on_images = dynamics.record_dynamics(config, data)
    np.testing.assert_allclose(on_features.margin, on_images.margin, rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, None),
        ({"jacobian": 0.1}, "the penalty is on images"),
        ({"model_options": {"dropout": 0.2}}, "its dropout draws anew"),
        ({"augment": None}, "images are mirrored"),
        ({"freeze": False}, "the features are learnt"),
    ],
    ids=["none", "jacobian", "dropout", "augmentation", "all layers"],
)
def test_features_are_not_kept_where_they_would_change(changes, why, photos, tmp_path):
    model = models.create("efficientnet-lite0", 3, seed=1)
    models.save_weights(model, tmp_path / "lite.safetensors")
    said = {
        "model": "efficientnet-lite0",
        "image_size": 10,
        "epochs": 1,
        "learning_rate": 0.1,
        "device": "cpu",
    }
    said |= {"weights": str(tmp_path / "lite.safetensors"), "freeze": True, "augment": "none"}
    config = resolve(f"folder:{photos()}", **(said | changes))
    run = Run(config, load_data(config, torch.device("cpu")))
    assert frozen.can_keep_features(run) == (why is None), why


def test_features_too_large_for_memory_are_not_kept(weights, tmp_path, monkeypatch):
    monkeypatch.setattr(frozen, "MOST_BYTES", 100_000)
    monkeypatch.setattr(frozen.OnFeatures, "epoch", lambda way: pytest.fail("features were kept"))
    seen = []
    usual = Stepwise.epoch

    def epoch(way):
        seen.append(way.run.config.run_id)
        return usual(way)

    monkeypatch.setattr(Stepwise, "epoch", epoch)
    train(small(weights), folder=tmp_path, quiet=True)
    assert len(seen) == 3


def test_fewer_large_images_are_passed_at_a_time(weights, passed, tmp_path, monkeypatch):
    monkeypatch.setattr("noiseproof.training.stepwise.EVALUATION_PIXELS_OF_CLASSES", 20 * 8 * 8)
    train(small(weights, train_size=90), folder=tmp_path, quiet=True)
    assert passed[:5] == [20, 20, 20, 20, 10]


def test_the_trained_network_is_whole_and_predicts_as_it_was_tested(weights, tmp_path):
    config = small(weights)
    record = train(config, folder=tmp_path, quiet=True)
    test = datasets.load("digits", split="test")
    model = network_of(tmp_path, config).eval()
    images = recipe_for("digits").for_testing(torch.from_numpy(test.images).permute(0, 3, 1, 2))
    with torch.no_grad():
        right = (model(images).argmax(1).numpy() == test.labels).mean()
    assert 100 * right == pytest.approx(record.result["test_accuracy"], abs=1e-4)


def test_the_time_of_a_run_counts_what_comes_before_its_first_step(weights, tmp_path, monkeypatch):
    usual = frozen.features_of

    def slow(model, images):
        time.sleep(0.3)
        return usual(model, images)

    monkeypatch.setattr(frozen, "features_of", slow)
    monkeypatch.setattr(frozen, "IMAGES_AT_A_TIME", 1_000)
    record = train(small(weights), folder=tmp_path, quiet=True)
    assert record.epochs[0]["seconds"] > 0.9
    assert record.epochs[1]["seconds"] < record.epochs[0]["seconds"]


def test_how_far_it_is_before_the_first_step_is_told(weights, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("noiseproof.training.progress.BETWEEN_LINES", 0)
    monkeypatch.setattr(frozen, "IMAGES_AT_A_TIME", 500)
    train(small(weights), folder=tmp_path)
    told = [line for line in capsys.readouterr().out.splitlines() if "passed through the network" in line]
    assert told[0].endswith("28% of the images have passed through the network")
    assert told[-1].endswith("100% of the images have passed through the network")


def test_freezing_random_weights_is_refused():
    with pytest.raises(
        ValueError, match='freeze: only the final layer would learn.*say which weights.*"imagenet"'
    ):
        resolve("digits", freeze=True)


def test_a_network_without_a_final_layer_cannot_be_frozen():
    with pytest.raises(ValueError, match="freeze: this network has no final layer of its own"):
        freeze_all_but_final_layer(torch.nn.Conv2d(3, 10, 1))


def test_the_name_imagenet_stands_for_the_networks_own_file(weights, tmp_path, monkeypatch):
    """Its contents are known, so that a config with the name has the same hash on every machine."""
    with pytest.raises(ValueError, match="none from ImageNet of mlp"):
        small("imagenet")
    digest = hashlib.sha256(Path(weights).read_bytes()).hexdigest()
    file = Path(weights).with_name(f"mlp-{digest[:8]}.safetensors")
    file.write_bytes(Path(weights).read_bytes())
    known = imagenet.ImageNetWeights(file.name)
    monkeypatch.setattr(imagenet, "KNOWN", {"mlp": known})
    monkeypatch.setattr(imagenet.ImageNetWeights, "place", lambda known: file)
    config = small("imagenet")
    assert config.inputs is None
    by_name = train(config, folder=tmp_path / "name", quiet=True)
    by_file = train(small(weights), folder=tmp_path / "file", quiet=True)
    assert by_name.result == by_file.result


def test_a_network_that_goes_on_from_a_runs_file_sees_images_as_in_that_run(photos, tmp_path):
    models.save_weights(models.create("efficientnet-lite0", 3), tmp_path / "lite.safetensors")
    said = {"model": "efficientnet-lite0", "image_size": 10, "epochs": 1, "learning_rate": 0.1}
    folder, own = f"folder:{photos()}", imagenet.normalization("efficientnet-lite0")
    for weights in ("imagenet", str(tmp_path / "lite.safetensors")):
        recipe = load_data(resolve(folder, weights=weights, **said), torch.device("cpu")).recipe
        assert (recipe.mean, recipe.std) == own
