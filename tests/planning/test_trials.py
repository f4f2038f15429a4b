# SPDX-License-Identifier: Apache-2.0
"""What a search draws from and is judged by; Optuna is not needed for it."""

import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from noiseproof import datasets, noise
from noiseproof.command_line import app
from noiseproof.losses import available, create, record
from noiseproof.planning.recipe_file import recipe_text
from noiseproof.planning.space import left_alone, named_space, space_of, with_numbers
from noiseproof.planning.trials import train_trial, trial_data
from noiseproof.training import resolve


@pytest.mark.parametrize("loss", available())
def test_both_ends_of_every_range_make_a_loss(loss):
    config = resolve("digits", loss=loss)
    space = space_of(config)
    assert {"learning_rate"} <= {each.name for each in space}
    for end in ("low", "start", "high"):
        changed = with_numbers(config, space, {each.name: getattr(each, end) for each in space})
        create(changed.loss, **changed.loss_parameters)
    start = with_numbers(config, space, {each.name: each.start for each in space})
    defaults = record(loss).defaults
    assert defaults | dict(start.loss_parameters) == defaults | dict(config.loss_parameters)
    assert (start.l1, start.weight_decay) == (config.l1, config.weight_decay)
    assert all(each.low <= each.start <= each.high for each in space)


def test_ranges_are_around_the_published_numbers():
    ranges = {each.name: each for each in space_of(resolve("cifar100", loss="anl-ce*"))}
    assert set(ranges) == {"alpha", "beta", "entropy_weight", "l1", "learning_rate"}
    assert (ranges["alpha"].low, ranges["alpha"].high) == (1.0, 100.0)
    assert ranges["l1"].start == 5e-7
    assert {each.name for each in space_of(resolve("cifar10", loss="gce"))} == {
        "q",
        "weight_decay",
        "learning_rate",
    }


def test_numbers_that_are_named_are_searched_and_no_others():
    config = resolve("digits", loss="nce+agce", loss_parameters={"q": 2.0})
    q, beta, jacobian = named_space(config, ["q=0.5:3", "beta", "jacobian = 0:0.1"])
    assert (q.name, q.low, q.high, q.start, q.log, q.of_loss) == ("q", 0.5, 3.0, 2.0, False, True)
    assert (beta.low, beta.high, beta.log) == (0.4, 40.0, True)
    assert (jacobian.low, jacobian.start, jacobian.log, jacobian.of_loss) == (0.0, 0.0, False, False)
    (clipped,) = named_space(config, ["learning_rate=0.1:5"])
    assert (clipped.start, clipped.log) == (0.1, True)
    (momentum,) = named_space(config, ["momentum"])
    assert (momentum.low, momentum.high, momentum.start, momentum.log) == (0.0, 0.99, 0.9, False)
    changed = with_numbers(config, (q, jacobian), {"q": 1.0, "jacobian": 0.05})
    assert (changed.loss_parameters["q"], changed.jacobian) == (1.0, 0.05)
    assert left_alone(config, space_of(config)) == ("a", "q")
    assert left_alone(config, named_space(config, ["q"])) == ("alpha", "beta", "a")
    assert left_alone(resolve("digits", loss="anl-ce"), space_of(resolve("digits", loss="anl-ce"))) == ()


@pytest.mark.parametrize(
    ("loss", "wanted", "message"),
    [
        ("gce", ["Q=0:1"], "search: unknown name 'Q'; did you mean 'q'"),
        ("gce", ["epochs=1:9"], "search: unknown name 'epochs'"),
        ("gce", ["q=0.1:0.5", "q"], "search: q is named twice"),
        ("gce", ["q=0.5"], "expected NAME=LOW:HIGH, such as cap=0.5:10, got 'q=0.5'"),
        ("gce", ["q=0.5:high"], "expected NAME=LOW:HIGH"),
        ("gce", ["q=0.5:0.5"], "the smaller one first"),
        ("gce", ["q=0.5:nan"], "expected two numbers"),
        ("gce", ["l1"], "search: l1 is 0, so it has no range by default; give l1=LOW:HIGH"),
        ("tce", ["t"], "search: t is a whole number"),
        (
            "gce",
            ["learning_rate=-1:1"],
            "from -1 to 1 (learning_rate: expected a number > 0, got -1.0); give",
        ),
        ("gce", ["q=0:1"], "search: q cannot be searched from 0 to 1 (q: expected a number > 0, got 0.0)"),
        ("aul", ["a"], "search: a cannot be searched from 0.63 to 63 (a: expected a number > 1, got 0.63)"),
    ],
)
def test_what_cannot_be_searched_is_told(loss, wanted, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        named_space(resolve("digits", loss=loss), wanted)


def test_held_out_labels_are_as_wrong_as_the_rest():
    config = resolve("digits", noise="sym-0.4", seed=3)
    data = trial_data(config)
    train = datasets.load("digits")
    drawn = noise.symmetric(train.labels, 0.4, 10, seed=3).labels  # over all of it, before it is split
    split = datasets.tuning_split(train, seed=1)
    assert torch.equal(data.noisy.test_labels, torch.from_numpy(drawn[split.validation]))
    assert torch.equal(data.clean.test_labels, torch.from_numpy(train.labels[split.validation]))
    (given,) = data.noisy.given.values()
    assert torch.equal(given.given, torch.from_numpy(drawn[split.train]))
    assert np.array_equal(data.noisy.train.labels, train.labels[split.train])
    wrong = (data.noisy.test_labels != data.clean.test_labels).float().mean().item()
    assert wrong == pytest.approx(0.376, abs=0.1)
    assert len(data.noisy.test) == 144
    assert data.noisy.held_out


def test_files_are_split_too(photos):
    name = photos()
    config = resolve(name, model="mlp", epochs=1, learning_rate=0.1, image_size=8, noise="sym-0.4")
    data = trial_data(config, share=0.25)
    assert (len(data.noisy.train), len(data.noisy.test)) == (25, 8)  # of 33: a tenth of each class is tested
    assert data.noisy.images.shape == (25, 3, 8, 8)


def test_a_trial_is_told_epoch_by_epoch_and_learns():
    config = resolve("digits", noise="sym-0.4", epochs=12)
    data = trial_data(config)
    told = []
    train_trial(config, data.clean, lambda epoch, score: told.append((epoch, score)))
    assert [epoch for epoch, _ in told] == list(range(1, 13))
    assert told[-1][1] > 80


def test_masks_and_too_little_data_are_refused(photos):
    with pytest.raises(ValueError, match="these have masks"):
        trial_data(resolve("blobs"))
    config = resolve(photos(each=4), model="mlp", epochs=1, learning_rate=0.1, image_size=8)
    with pytest.raises(ValueError, match="too few to hold out 1%"):
        trial_data(config, share=0.01)


def test_a_config_is_read_back_from_its_recipe(tmp_path):
    for dataset in ("digits", "cifar100", "animal10n", "webvision-mini", "isic2017"):
        config = resolve(dataset, loss="anl-ce", loss_parameters={"alpha": 0.3})
        file = tmp_path / "recipe.toml"
        file.write_text(recipe_text(config, "a remark"))
        assert resolve(dataset, recipe=str(file)).hash == config.hash


def test_the_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    done = CliRunner().invoke(app, ["tune", "digits"])
    assert done.exit_code == 2
    assert "pip install 'noiseproof[tune]'" in done.output


def test_the_page_shows_what_was_measured():
    root = Path(__file__).parents[2]
    lines = [json.loads(line) for line in (root / "docs/performance/tuning.jsonl").read_text().splitlines()]
    table = runpy.run_path(str(root / "benchmarks/tuning.py"))["table"](lines)
    page = (root / "docs/tune.md").read_text()
    assert table in page
    chosen = [
        [max(line["trials"], key=lambda trial: trial[by])["test"] for by in ("noisy", "clean")]
        for line in lines
    ]
    lost = sorted(round(clean - noisy, 1) for noisy, clean in chosen if clean != noisy)
    assert f"In the other three, noisy labels cost {lost[0]}, {lost[1]} and {lost[2]}" in page
    assert len(lost) == 3
    assert len(lines) == 12
    assert f"{sum(lost) / len(lines):.1f} points" in page
    gained = np.mean(
        [noisy - line["trials"][0]["test"] for (noisy, _), line in zip(chosen, lines, strict=True)]
    )
    assert f"choosing gains {gained:.0f} over" in page
