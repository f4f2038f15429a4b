# SPDX-License-Identifier: Apache-2.0
"""What a run trains on: its wrong labels, its share of the data, and the same batches from memory and from disk."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noiseproof import datasets, noise
from noiseproof.datasets import DataError, HumanLabels, LabeledData
from noiseproof.datasets.decode import RandomWindow, Squash
from noiseproof.noise.flips import CIFAR10, CIFAR100_BLOCKS, MNIST_LIKE
from noiseproof.training import Config, resolve, train_pack
from noiseproof.training import data as data_room
from noiseproof.training.data import Batches, draw_noise, give_labels, load_data, remark_on_classes
from noiseproof.training.data import test_batches as batches_of_test

CPU = torch.device("cpu")


def own(folder, **changes):
    return Config(
        f"folder:{folder}", "mlp", 2, 0.01, **({"batch_size": 4, "image_size": 8, "workers": 0} | changes)
    )


@pytest.mark.parametrize("seed", [1, 4])
def test_noise_is_what_the_noise_room_draws_with_that_seed(seed):
    train = datasets.load("digits")
    drawn = {
        "sym-0.4": noise.symmetric(train.labels, 0.4, 10, seed),
        "asym-0.3": noise.asymmetric(train.labels, 0.3, "mnist-like", seed),
        "dep-0.4": noise.instance_dependent(train.images, train.labels, 0.4, 10, 0),
        "sym-0.4-bernoulli": noise.symmetric(train.labels, 0.4, 10, seed, "bernoulli"),
        "asym-0.3-bernoulli": noise.asymmetric(train.labels, 0.3, "mnist-like", seed, generator="bernoulli"),
        "dep-0.4-fixed-count": noise.instance_dependent(
            train.images, train.labels, 0.4, 10, 0, "fixed-count"
        ),
    }
    for name, expected in drawn.items():
        config = resolve("digits", noise=name, seed=seed)
        given = give_labels(config, load_data(config, CPU))
        assert np.array_equal(given.given.numpy(), expected.labels)
        assert np.array_equal(given.flipped.numpy(), expected.labels != train.labels)
        assert given.summary["realised_rate"] == expected.realised_rate
        assert (given.summary["name"], given.summary["seed"]) == (name, 0 if name.startswith("dep") else seed)
    other = resolve("digits", noise="sym-0.4", seed=seed, noise_seed=77)
    assert np.array_equal(draw_noise(other, train).labels, noise.symmetric(train.labels, 0.4, 10, 77).labels)


def test_clean_labels_stay_as_they_are():
    config = resolve("digits")
    given = give_labels(config, load_data(config, CPU))
    assert torch.equal(given.given, torch.from_numpy(datasets.load("digits").labels))
    assert not given.flipped.any()
    names = [str(digit) for digit in range(10)]
    assert given.summary == {"name": "clean", "realised_rate": 0.0, "class_names": names}


@pytest.mark.parametrize(
    ("dataset", "classes", "flips"),
    [
        ("cifar10", 10, CIFAR10),
        ("cifar10n", 10, CIFAR10),
        ("cifar100", 100, CIFAR100_BLOCKS),
        ("fashion-mnist", 10, MNIST_LIKE),
        ("digits", 10, MNIST_LIKE),
        ("tuning:cifar10", 10, CIFAR10),
        ("tuning:cifar100", 100, CIFAR100_BLOCKS),
        ("folder:photos", 3, {0: 1, 1: 2, 2: 0}),
    ],
)
def test_asymmetric_noise_flips_as_the_data_set_does(dataset, classes, flips):
    labels = np.arange(classes).repeat(50)
    train = LabeledData(dataset, "train", labels, tuple(map(str, range(classes))), images=_black(len(labels)))
    drawn = draw_noise(Config(dataset, "mlp", 1, 0.1, noise="asym-0.4"), train).labels
    wrong = drawn != labels
    assert {int(a): int(b) for a, b in zip(labels[wrong], drawn[wrong], strict=True)} == dict(flips)
    assert wrong.sum() == 20 * len(flips)


def _black(count):
    return np.zeros((count, 2, 2, 3), dtype=np.uint8)


def people(monkeypatch, uncertain=None):
    """A tiny stand-in for CIFAR and its human labels."""
    clean = np.arange(6) % 3
    train = LabeledData("cifar100", "train", clean, ("a", "b", "c"), images=_black(6), uncertain=uncertain)
    human = HumanLabels("noisy_label", np.array([0, 2, 2, 1, 1, 2]), clean)
    monkeypatch.setattr(datasets, "load", lambda name, split="train": train)
    monkeypatch.setattr(datasets, "human_labels", lambda name: {"cifar10n": human, "cifar100n": human}[name])
    return clean, human


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100"])
def test_real_noise_is_what_people_said(monkeypatch, dataset):
    clean, human = people(monkeypatch)
    config = resolve(dataset, noise="real")
    given = give_labels(config, load_data(config, CPU))
    assert given.given.tolist() == human.labels.tolist()
    assert given.flipped.tolist() == (human.labels != clean).tolist()


def test_real_noise_leaves_out_images_whose_place_is_not_certain(monkeypatch):
    people(monkeypatch, uncertain=np.array([1, 4]))
    real, drawn = resolve("cifar100", noise="real"), resolve("cifar100", noise="sym-0.5")
    data = load_data(real, CPU)
    assert give_labels(real, data).given.tolist() == [0, 2, 1, 2]
    assert len(load_data(drawn, CPU).train) == 6
    with pytest.raises(ValueError, match="2 images of cifar100 have no certain human label"):
        give_labels(real, load_data(drawn, CPU))


@pytest.mark.parametrize("order", [1, -1])
def test_real_noise_does_not_take_images_from_another_run_of_its_pack(monkeypatch, tmp_path, order):
    """Whichever stands first: the other one would be trained on fewer, and nobody would be told."""
    people(monkeypatch, uncertain=np.array([1, 4]))
    options = {"device": "cpu", "model": "mlp", "model_options": {}, "epochs": 1, "batch_size": 4}
    configs = [resolve("cifar100", noise=noise, **options) for noise in ("real", "sym-0.5")][::order]
    with pytest.raises(ValueError, match="real noise cannot share a pack with another one"):
        train_pack(configs, folder=tmp_path, quiet=True)


def test_real_noise_elsewhere_is_refused(monkeypatch):
    train = datasets.load("digits")
    with pytest.raises(ValueError, match="real labels exist for cifar10 and cifar100, not for digits"):
        draw_noise(resolve("digits", noise="real"), train)
    with pytest.raises(ValueError, match="not for cifar10n; its labels are those already"):
        draw_noise(resolve("cifar10n", noise="real"), train)
    with pytest.raises(ValueError, match="train_size: human labels belong to the whole"):
        draw_noise(resolve("cifar10", noise="real", train_size=100), train)


def test_a_part_of_the_data_is_the_same_for_every_seed():
    """The runs of a pack share their data, so that no seed of theirs may decide it."""
    whole = datasets.load("digits")
    first, second = (load_data(resolve("digits", train_size=300, seed=seed), CPU) for seed in (1, 2))
    assert len(first.train) == 300
    assert first.train.fingerprint == second.train.fingerprint
    rows = {row.tobytes() for row in whole.images}
    assert all(row.tobytes() in rows for row in first.train.images)
    assert np.bincount(first.train.labels).min() > 10
    assert len(load_data(resolve("digits", train_size=10**6), CPU).train) == len(whole)


def test_a_folder_without_test_pictures_holds_a_tenth_out(photos):
    folder = photos(each=20)
    first, second = (load_data(own(folder, seed=seed), CPU) for seed in (1, 2))
    assert first.held_out
    assert (len(first.train), len(first.test)) == (54, 6)
    assert not set(first.train.paths) & set(first.test.paths)
    assert first.test.paths == second.test.paths
    noisy = give_labels(own(folder, noise="sym-0.6"), first)
    assert 0.4 < noisy.summary["realised_rate"] < 0.65
    assert first.test_labels.tolist() == first.test.labels.tolist()


def test_a_class_of_few_pictures_is_trained_on_and_one_that_can_spare_some_is_tested(photos):
    """Over all 56 pictures together the draw would be left to chance."""
    for seed_of_names in range(3):
        name = f"few{seed_of_names}"
        folder = photos(name, classes=tuple("abcdef"), each=9)
        photos(name, classes=("rare", f"{seed_of_names}"), each=1)
        loaded = load_data(own(folder), CPU)
        assert np.bincount(loaded.train.labels, minlength=8).min() == 1
        tested = {loaded.test.class_names[label] for label in loaded.test.labels}
        assert tested == set("abcdef")


def test_a_single_class_is_refused_before_training(photos):
    folder = photos("one", classes=("cat",), each=20)
    with pytest.raises(DataError, match="expected two classes or more, got one, 'cat'"):
        load_data(own(folder), CPU)


def test_classes_with_hardly_a_picture_are_named(photos):
    folder = photos("few", classes=("cat", "dog"), each=9)
    assert remark_on_classes(load_data(own(folder), CPU)) is None
    photos("few", classes=("lynx", "owl"), each=3)
    told = remark_on_classes(load_data(own(folder), CPU))
    assert told == "Too few images to learn from: 'lynx' (3), 'owl' (3). Add some, or leave out such classes."
    assert remark_on_classes(load_data(resolve("digits", train_size=10), CPU)) is None


def test_ones_own_data_can_be_split_for_tuning(photos):
    folder = photos(each=20)
    config = replace(own(folder), dataset=f"tuning:folder:{folder}")
    loaded = load_data(config, CPU)
    assert (len(loaded.train), len(loaded.test), loaded.held_out) == (54, 6, True)
    assert loaded.images.shape == (54, 3, 8, 8)
    assert [type(each).__name__ for each in loaded.recipe.train] == ["RandomMirror"]
    assert remark_on_classes(loaded) is None
    photos(classes=("rare",), each=3)
    assert "'rare'" in remark_on_classes(load_data(config, CPU))


def test_too_few_pictures_to_hold_out_for_tuning_are_told(photos):
    folder = photos(classes=("cat", "dog"), each=2)
    with pytest.raises(DataError, match="4 pictures are too few to hold out a tenth of them"):
        load_data(replace(own(folder), dataset=f"tuning:folder:{folder}"), CPU)


def test_where_no_class_can_spare_a_picture_a_tenth_of_all_is_tested(photos):
    loaded = load_data(own(photos(classes=tuple("abcdef"), each=4)), CPU)
    assert (len(loaded.train), len(loaded.test)) == (22, 2)


def test_a_folder_with_test_pictures_is_tested_on_them(photos):
    folder = photos(split="train")
    photos(split="test", each=3)
    loaded = load_data(own(folder), CPU)
    assert not loaded.held_out
    assert (len(loaded.train), len(loaded.test)) == (36, 9)
    assert loaded.images.shape == (36, 3, 8, 8)
    assert loaded.image_shape == (3, 8, 8)


def test_grey_pictures_become_three_equal_channels(photos):
    images = load_data(own(photos(mode="L")), CPU).images
    assert torch.equal(images[:, 0], images[:, 2])


def test_data_that_cannot_be_trained_on_is_refused(photos, tmp_path):
    with pytest.raises(DataError, match="3 pictures are too few to hold out a tenth"):
        load_data(own(photos(name="few", each=1)), CPU)
    for kind in ("images", "masks"):
        photos(name="masked", classes=(kind,), each=2, mode="RGB" if kind == "images" else "L")
    with pytest.raises(ValueError, match="model: 'mlp' is for classification, and .* is for segmentation"):
        load_data(own(_same_size(tmp_path / "masked")), CPU)
    with pytest.raises(ValueError, match="image_size: the images of digits have a fixed size"):
        load_data(resolve("digits", image_size=16), CPU)
    with pytest.raises(DataError, match="expected at least 2 training samples, got 1"):
        load_data(resolve("digits", train_size=1), CPU)
    with pytest.raises(ValueError, match="instance-dependent noise needs images in memory"):
        give_labels(own(photos(), noise="dep-0.4"), load_data(own(tmp_path / "photos"), CPU))


def _same_size(folder):
    from PIL import Image

    for path in folder.rglob("*.png"):
        Image.open(path).resize((8, 8)).point(lambda level: min(level, 1)).save(path)
    return folder


def streamed(monkeypatch, config):
    """The same data, as if it did not fit into memory."""
    monkeypatch.setattr(data_room, "_free_bytes", lambda device: 0.0)
    data = load_data(config, CPU)
    assert data.images is None
    assert data.test_images is None
    return data


def epoch_of(config, data, epoch=0, first_step=0):
    batches = Batches(config, data)
    try:
        return [
            (step, images.clone(), rows.clone()) for step, images, rows in batches.epoch(epoch, first_step)
        ]
    finally:
        batches.close()


def assert_same_batches(first, second):
    assert len(first) == len(second) > 0
    for (step, images, rows), (other_step, other_images, other_rows) in zip(first, second, strict=True):
        assert step == other_step
        assert torch.equal(rows, other_rows)
        assert torch.equal(images, other_images)


@pytest.mark.parametrize("workers", [0, 2])
def test_whether_images_fit_into_memory_changes_nothing(photos, monkeypatch, workers):
    config = own(photos(), workers=workers)
    resident = load_data(config, CPU)
    assert resident.images is not None
    expected = [epoch_of(config, resident, epoch) for epoch in (0, 1)]
    tested = [(i.clone(), y.clone()) for i, y in batches_of_test(resident, 2, 0)]
    data = streamed(monkeypatch, config)
    for epoch in (0, 1):
        assert_same_batches(epoch_of(config, data, epoch), expected[epoch])
    for (images, labels), (other_images, other_labels) in zip(
        tested, batches_of_test(data, 2, workers), strict=True
    ):
        assert torch.equal(images, other_images)
        assert torch.equal(labels, other_labels)


def test_arrays_that_do_not_fit_on_the_device_are_streamed_too(monkeypatch):
    config = resolve("digits", train_size=100, batch_size=30)
    expected = epoch_of(config, load_data(config, CPU))
    data = streamed(monkeypatch, config)
    assert data.image_shape == (1, 8, 8)
    assert_same_batches(epoch_of(config, data), expected)


def test_a_start_in_the_middle_gives_the_rest_of_the_epoch(photos, monkeypatch):
    config = own(photos())
    for data in (load_data(config, CPU), streamed(monkeypatch, config)):
        whole = epoch_of(config, data, epoch=3)
        for first in (0, 1, len(whole) - 1):
            assert_same_batches(epoch_of(config, data, 3, first), whole[first:])
        # Stopped after the last step, before the epoch ended.
        assert epoch_of(config, data, 3, len(whole)) == []


def test_a_streamed_epoch_may_be_left_and_another_begun(photos, monkeypatch):
    config = own(photos(), workers=2)
    data = streamed(monkeypatch, config)
    batches = Batches(config, data)
    left = batches.epoch(0, 0)
    next(left)
    left.close()
    again = [(step, images.clone(), rows.clone()) for step, images, rows in batches.epoch(1, 2)]
    assert_same_batches(again, epoch_of(config, data, 1, 2))
    batches.close()


@pytest.mark.parametrize(("size", "sizes"), [(8, [8, 8, 8, 8]), (32, [32]), (31, [31, 2]), (100, [33])])
def test_one_sample_left_over_is_left_out(photos, monkeypatch, size, sizes):
    config = own(photos(), batch_size=size)
    for data in (load_data(config, CPU), streamed(monkeypatch, config)):
        assert len(data.train) == 33
        assert [len(rows) for _, _, rows in epoch_of(config, data)] == sizes
        assert Batches(config, data).steps == len(sizes)


def test_random_windows_are_never_kept(photos):
    data = datasets.load(f"folder:{photos()}")
    assert data_room._resident(data, Squash(8, 8), CPU) is not None
    assert data_room._resident(data, RandomWindow(8), CPU) is None


def test_label_marginals_are_shares_of_all_classes():
    assert data_room.label_marginals(torch.tensor([0, 0, 2, 2]), 4) == [0.5, 0.0, 0.5, 0.0]
