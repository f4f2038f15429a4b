# SPDX-License-Identifier: Apache-2.0
"""What a config only names, the user's own data and weights, decides which run it is."""

import csv
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.stopping import StopAfter

from noiseproof.datasets.augment import recipe_for
from noiseproof.datasets.identity import identity_of, in_earlier_form
from noiseproof.planning import Noise, plan
from noiseproof.training import engine, resolve, train
from noiseproof.training.data import load_data
from noiseproof.training.interruption import Interrupted

SETTINGS = {"model": "mlp", "epochs": 2, "learning_rate": 0.05, "batch_size": 8, "loss": "ce"}


@pytest.fixture
def photos(tmp_path):
    """A folder of two classes, twelve pictures each."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(12):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    return tmp_path / "photos"


def config_of(name, **more):
    return resolve(str(name), image_size=8, **SETTINGS | more)


def test_a_corrected_label_makes_another_run(photos, tmp_path):
    before = config_of(f"folder:{photos}")
    first = train(before, folder=tmp_path / "runs", quiet=True)
    assert config_of(f"folder:{photos}").hash == before.hash
    (photos / "cat" / "3.png").rename(photos / "dog" / "was-a-cat.png")
    after = config_of(f"folder:{photos}")
    assert after.run_id != before.run_id
    second = train(after, folder=tmp_path / "runs", quiet=True)
    assert (first.id, second.id) == (before.run_id, after.run_id)
    assert second.status == "finished"


def test_a_folder_below_home_is_looked_into(photos, monkeypatch):
    monkeypatch.setenv("HOME", str(photos.parent))
    assert identity_of("folder:~/photos") == identity_of(f"folder:{photos}") is not None


def test_another_folder_of_the_same_name_is_another_run(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = config_of("folder:photos")
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(photos, tmp_path / "elsewhere" / "photos")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert config_of("folder:photos").hash == before.hash  # a copy is the same data
    shutil.rmtree(tmp_path / "elsewhere" / "photos" / "dog")
    assert config_of("folder:photos").hash != before.hash


def test_a_corrected_line_of_a_csv_file_makes_another_run(photos):
    file = photos / "labels.csv"
    rows = [[f"{name}/{i}.png", name] for name in ("cat", "dog") for i in range(12)]

    def write():
        with file.open("w", newline="") as out:
            csv.writer(out).writerows([["path", "label"], *rows])
        return config_of(f"csv:{file}").hash

    first = write()
    assert write() == first
    rows[5][1] = "dog"
    assert write() != first


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("space", ["", " "])
def test_another_picture_in_the_place_of_a_listed_one_makes_another_run(photos, separator, space):
    file = photos / "labels.csv"
    rows = ["path,label", *(f"{space}{name}/{i}.png,{name}" for name in ("cat", "dog") for i in range(12))]
    file.write_text("\n".join(rows).replace(",", separator))
    before = config_of(f"csv:{file}").hash
    assert config_of(f"csv:{file}").hash == before
    Image.new("RGB", (9, 9)).save(photos / "cat" / "3.png")
    assert config_of(f"csv:{file}").hash != before


def test_class_folders_may_be_links_and_are_looked_into(photos, tmp_path):
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("cat", "dog"):
        (linked / name).symlink_to(photos / name)
    before = config_of(f"folder:{linked}")
    assert before.inputs == identity_of(f"folder:{photos}"), "a copy is the same data"
    assert load_data(before, torch.device("cpu")).train.num_classes == 2
    (photos / "cat" / "3.png").rename(photos / "dog" / "was-a-cat.png")
    assert config_of(f"folder:{linked}").hash != before.hash


def test_links_in_a_circle_come_to_an_end(photos, tmp_path):
    for place in (photos / "cat", photos / "dog"):
        (place / "round").symlink_to(photos)
        (place / "self").symlink_to(place)
    before = identity_of(f"folder:{photos}")
    assert before is not None
    assert before == identity_of(f"folder:{photos}")
    (photos / "dog" / "3.png").unlink()
    assert identity_of(f"folder:{photos}") != before


def write_masks(place, levels=(0, 1, 2)):
    for kind in ("images", "masks"):
        (place / kind).mkdir(parents=True)
    for i in range(12):
        Image.new("RGB", (8, 8), (i, 9, 9)).save(place / "images" / f"{i}.png")
        Image.fromarray(np.array(levels, np.uint8)[np.arange(64).reshape(8, 8) % len(levels)]).save(
            place / "masks" / f"{i}.bmp"
        )


@pytest.mark.parametrize("below", ["", "train"])
@pytest.mark.parametrize("link", [False, True])
def test_a_corrected_mask_of_the_same_size_makes_another_run(tmp_path, below, link):
    root = tmp_path / "cells"
    write_masks(root / below)
    if link:
        (root / below / "masks").rename(root / below / "annotated")
        (root / below / "masks").symlink_to("annotated")
    before = identity_of(f"folder:{root}")
    mask = root / below / "masks" / "3.bmp"
    size = mask.stat().st_size
    Image.new("L", (8, 8), 1).save(mask)
    assert mask.stat().st_size == size
    after = identity_of(f"folder:{root}")
    assert after != before
    Image.new("RGB", (8, 8), (3, 9, 8)).save(root / below / "images" / "3.bmp")
    (root / "classes.txt").write_text("sky\nsea\n")
    listed = identity_of(f"folder:{root}")
    assert listed != after
    (root / "classes.txt").write_text("sea\nsky\n")
    assert identity_of(f"folder:{root}") != listed


def of_bytes(place, content):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def test_data_without_links_and_masks_keep_the_digests_that_are_recorded(tmp_path):
    """As they were taken before links were followed and masks counted by their bytes."""
    for name in ("a/1.png", "a/deep/2.jpg", "b/1.png", "classes.txt", "b/masks/3.png", ".hidden/4.png"):
        of_bytes(tmp_path / "photos" / name, name.encode())
    of_bytes(tmp_path / "photos" / "list.csv", b"path,label\na/1.png,x\nb/1.png,y\nnone.png,y\n")
    assert identity_of(f"folder:{tmp_path}/photos") == "33046cb678c60ed5"
    assert identity_of(f"csv:{tmp_path}/photos/list.csv") == "b7c4bdd82f195dee"


def test_a_run_whose_masks_were_recorded_by_size_goes_on(tmp_path):
    for name in ("images/1.png", "masks/1.png"):
        of_bytes(tmp_path / "cells" / name, name.encode())
    name = f"folder:{tmp_path}/cells"
    now, before = identity_of(name), "ca3373855f56a3b1"
    assert now != before
    assert in_earlier_form(now, name) == before
    assert in_earlier_form(f"{now}-noise=81f3", name) == f"{before}-noise=81f3"
    config = config_of(name, model="mlp")
    assert config.inputs == now
    for recorded in (now, before):
        engine._check_inputs([replace(config, inputs=recorded)])
    of_bytes(tmp_path / "cells" / "masks" / "2.png", b"2")
    for recorded in (now, before):
        with pytest.raises(ValueError, match="has changed since this run was begun"):
            engine._check_inputs([replace(config, inputs=recorded)])


def test_other_weights_in_the_same_file_make_another_run(tmp_path):
    file = tmp_path / "start.pt"
    hashes = set()
    for value in (0.0, 1.0):
        torch.save({"weight": torch.full((3,), value)}, file)
        hashes.add(resolve("digits", weights=str(file)).hash)
    assert len(hashes) == 2


def test_a_stopped_run_does_not_go_on_with_other_data(photos, tmp_path, monkeypatch):
    config = config_of(f"folder:{photos}")
    with monkeypatch.context() as patch:
        patch.setattr(engine, "Interruption", lambda: StopAfter(4))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "runs", quiet=True)
    (photos / "cat" / "3.png").rename(photos / "dog" / "was-a-cat.png")
    with pytest.raises(ValueError, match="has changed since this run was begun"):
        train(config, folder=tmp_path / "runs", quiet=True)
    (photos / "dog" / "was-a-cat.png").rename(photos / "cat" / "3.png")
    assert train(config, folder=tmp_path / "runs", quiet=True).status == "finished"


def test_a_folder_that_is_not_here_is_not_said_to_have_changed(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = config_of("folder:photos")
    engine._check_inputs([config])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(
        ValueError, match="there is no photos here. A relative path counts from where the command"
    ):
        engine._check_inputs([config])


def test_weights_from_imagenet_are_not_said_to_have_changed(photos):
    config = config_of(f"folder:{photos}")
    config = replace(config, model="resnet18", model_options={}, weights="imagenet", inputs="others")
    with pytest.raises(ValueError, match=f": folder:{re.escape(str(photos))} has changed since"):
        engine._check_inputs([config])


def test_runs_on_sets_of_the_package_keep_their_names():
    """As recorded in results/ before configs knew their inputs."""
    config = resolve("cifar10", loss="anl-ce", noise="sym-0.8", precision="bf16", seed=1)
    assert config.hash == "b303e243ebfb9990"
    assert "inputs" not in config.as_data()


def test_what_is_not_there_has_no_identity(tmp_path):
    (tmp_path / "bad.csv").write_bytes(b"path,label\n\xff\xfe,x\n")
    for name in ("cifar10", f"folder:{tmp_path}/none", f"csv:{tmp_path}/none.csv", f"csv:{tmp_path}/bad.csv"):
        assert identity_of(name) is None
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.png").write_bytes(b"12")
    before = identity_of(f"folder:{tmp_path}/one")
    for name in (".hidden.png", "Thumbs.db", "notes.txt"):  # as systems and people leave behind
        (tmp_path / "one" / name).write_bytes(b"12")
    assert identity_of(f"folder:{tmp_path}/one") == before == identity_of(f"tuning:folder:{tmp_path}/one")
    (tmp_path / "one" / "a.png").write_bytes(b"123")
    assert identity_of(f"folder:{tmp_path}/one") != before


def test_pictures_are_mirrored_unless_told_otherwise(photos):
    device = torch.device("cpu")
    usual = load_data(config_of(f"folder:{photos}"), device)
    plain = load_data(config_of(f"folder:{photos}", augment="none"), device)
    assert [type(each).__name__ for each in usual.recipe.train] == ["RandomMirror"]
    assert plain.recipe.train == ()
    images = plain.images[:4]
    random = torch.Generator().manual_seed(0)
    unchanged = plain.recipe.for_training(images, random)
    torch.testing.assert_close(unchanged, plain.recipe.for_testing(images))
    assert config_of(f"folder:{photos}").hash != config_of(f"folder:{photos}", augment="none").hash
    with pytest.raises(ValueError, match="augment: unknown name 'mirror'"):
        config_of(f"folder:{photos}", augment="mirror")


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "isic2017", "webvision-mini", "animal10n"])
def test_pictures_can_be_changed_as_those_of_another_data_set(photos, name):
    """Only at random: size and normalisation stay their own."""
    usual = load_data(config_of(f"folder:{photos}"), torch.device("cpu"))
    other = load_data(config_of(f"folder:{photos}", augment=name), torch.device("cpu"))
    assert other.recipe.train == recipe_for(name).train
    assert (other.recipe.train_fit, other.recipe.test_fit) == (usual.recipe.train_fit, usual.recipe.test_fit)
    assert (other.recipe.mean, other.recipe.std) == (usual.recipe.mean, usual.recipe.std)
    changed = other.recipe.for_training(other.images[:4], torch.Generator().manual_seed(0))
    assert changed.shape == usual.recipe.for_testing(usual.images[:4]).shape


def test_a_plan_says_that_pictures_are_mirrored(photos):
    assert "mirrored at random" in plan(f"folder:{photos}", noise=Noise(0.1)).as_toml()
    assert "mirrored" not in plan(f"folder:{photos}", noise=Noise(0.1), said={"augment": "none"}).as_toml()
    assert "mirrored" not in plan("digits", noise=Noise(0.1)).as_toml()
