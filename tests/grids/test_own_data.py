# SPDX-License-Identifier: Apache-2.0
"""Grids on data of the user's own: numbers that the grid leaves open are those that ``noiseproof train`` plans."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.grids import load
from noiseproof.planning import own_data
from noiseproof.planning.own_data import NOT_PLANNED, config_of
from noiseproof.results import gather
from noiseproof.training import resolve

EXAMPLES = re.findall(
    r"```toml\n(.*?)```", (Path(__file__).parents[2] / "docs" / "grids.md").read_text(encoding="utf-8"), re.S
)


@pytest.fixture(autouse=True)
def photos(tmp_path, monkeypatch):
    """Two classes of pictures in ./photos, and the grids of the document beside them."""
    monkeypatch.chdir(tmp_path)
    own_data._known.cache_clear()  # every test has the same pictures
    random = np.random.RandomState(0)
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(20):
            pixels = random.randint(0, 80, (12, 12, 3))
            pixels[..., number] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / name / f"{i}.png")
    for name, example in zip(
        ("my-grid.toml", "losses.toml", "mine.toml", "one-more.toml"), EXAMPLES, strict=True
    ):
        Path(name).write_text(example, encoding="utf-8")
    return tmp_path / "photos"


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_numbers_that_a_grid_leaves_open_are_those_of_train():
    for cell in load("losses.toml").cells():
        said = {"loss": cell.method.loss, "noise": "clean", "seed": 1}
        assert cell.config == config_of("folder:photos", None, said)
    ce, anl = (cell.config for cell in load("losses.toml").cells())
    assert (ce.model, ce.image_size, ce.epochs, ce.weight_decay, ce.l1) == ("cnn8", 32, 120, 1e-4, 0.0)
    assert (anl.l1, anl.weight_decay, dict(anl.loss_parameters)) == (5e-5, 0.0, {"alpha": 5.0, "beta": 5.0})
    assert anl.batch_size < ce.batch_size  # little data and a loss that fits slowly


def test_a_grid_like_one_of_the_paper_is_planned_for_the_data_at_hand():
    cells, table = load("mine.toml").cells(), load("cifar10-table")
    assert [cell.method.label for cell in cells] == [method.label for method in table.methods]
    for cell in cells:
        assert cell.config == config_of(
            "folder:photos", None, {"loss": cell.method.loss, "noise": "clean", "seed": 1}
        )


def test_what_a_grid_says_wins_and_the_rest_is_planned():
    cells = load("my-grid.toml").cells()
    assert {(cell.config.model, cell.config.epochs) for cell in cells} == {("resnet18", 40)}
    for cell in cells:
        settings = cell.method.settings
        said = {"model": "resnet18", "epochs": 40, "loss": cell.method.loss, "noise": cell.noise, **settings}
        assert cell.config == config_of("folder:photos", None, said | {"seed": cell.seed})
    assert {cell.config.l1 for cell in cells} == {0.0, 1e-6, 1e-5, 1e-4}


def test_a_run_that_bench_has_trained_is_known_to_train():
    said = ["--folder", "runs", "-q"]
    trained = run(
        "bench", "losses.toml", "--set", "epochs=1", "--set", "model=mlp", "--processes", "1", *said
    )
    assert trained.exit_code == 0, trained.output
    for loss in ("ce", "anl-ce"):
        again = run("train", "folder:photos", "--loss", loss, "--epochs", "1", "--model", "mlp", *said)
        assert "was already trained" in again.output, again.output


def test_the_data_is_looked_at_once(monkeypatch, photos):
    looked = []
    original = own_data.load_split
    monkeypatch.setattr(own_data, "load_split", lambda *said: looked.append(said) or original(*said))
    load("my-grid.toml").cells()
    load("losses.toml").cells()
    assert looked == [("folder:photos", "train", None)]
    Image.new("RGB", (12, 12)).save(photos / "cat" / "another.png")
    load("losses.toml").cells()
    assert len(looked) == 2


def test_other_recipes_are_taken_as_they_are():
    text = Path("losses.toml").read_text()
    Path("cifar.toml").write_text(f'recipe = "cifar10"\n{text}')
    for cell in load("cifar.toml").cells():
        assert cell.config == resolve("folder:photos", recipe="cifar10", loss=cell.method.loss, seed=1)
    Path("digits.toml").write_text('recipe = "auto"\n' + text.replace("folder:photos", "digits"))
    for cell in load("digits.toml").cells():
        assert cell.config == config_of("digits", "auto", {"loss": cell.method.loss, "seed": 1})


def test_tables_are_made_where_the_data_is_gone(photos):
    said = ["--set", "epochs=1", "--set", "model=mlp"]
    trained = run(
        *["bench", "losses.toml", *said, "--processes", "1", "--folder", "runs", "--records", "all.jsonl"]
    )
    assert trained.exit_code == 0, trained.output
    photos.rename("elsewhere")
    cells = load("losses.toml").cells()
    assert {cell.config.model for cell in cells} == {NOT_PLANNED["model"]}
    found = gather(load("losses.toml"), files=[Path("all.jsonl")])
    assert (len(found.results), found.missing) == (2, 0)
    told = run("bench", "losses.toml", "--folder", "runs")
    assert told.exit_code == 2
    assert "folder:photos: expected a folder, found nothing" in told.output


def test_trouble_with_the_data_is_told_with_the_grid(photos):
    (photos / "cat" / "notes.txt").touch()
    with pytest.raises(
        ValueError, match=r"grid losses, method 'CE', noise clean: .*notes\.txt: expected an image"
    ):
        load("losses.toml").cells()
    with pytest.raises(ValueError, match="image_size: expected"):
        load("losses.toml").narrowed(settings={"image_size": [3]}).cells()
