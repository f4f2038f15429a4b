# SPDX-License-Identifier: Apache-2.0
"""Configs: the paper's recipes, who wins over whom, the hash, and names that every file system holds."""

import json
import math
from dataclasses import fields

import pytest
import torch

from noiseproof.losses import available, published_recipe
from noiseproof.training import Config, recipe_names, resolve
from noiseproof.training.config import (
    NOT_PART_OF_THE_RESULT,
    default_recipe,
    read_recipe,
    with_changes,
)
from noiseproof.training.run_names import checked_run_id

# Typed from the paper's tables, not from the files: network, epochs, batch, learning rate, weight decay, schedule.
PAPER = {
    "cifar10": ("cnn8", 120, 128, 0.01, 1e-4, ("cosine",)),
    "cifar100": ("resnet34-cifar", 200, 128, 0.1, 1e-5, ("cosine",)),
    "mnist-like": ("mnist-cnn", 50, 128, 0.01, 1e-3, ("cosine",)),
    "webvision-mini": ("resnet50", 250, 512, 0.4, 3e-5, ("exponential", 0.97)),
    "animal10n": ("vgg19-bn", 100, 128, 0.1, 1e-3, ("milestones", 0.2, 0.5, 0.75)),
    "clothing1m": ("resnet50", 10, 32, 1e-3, 1e-3, ("milestones", 0.1, 0.5)),
}

# Loss, data: hyper-parameters, L1, weight decay. From the tables again.
PUBLISHED = {
    ("ce", "cifar10"): ({}, 0.0, 1e-4),
    ("ce", "cifar100"): ({}, 0.0, 1e-5),
    ("ce", "fashion-mnist"): ({}, 0.0, 1e-3),
    ("ce", "animal10n"): ({}, 0.0, 1e-3),
    ("fl", "cifar10"): ({"gamma": 0.5}, 0.0, 1e-4),
    ("gce", "cifar10"): ({"q": 0.7}, 0.0, 1e-4),
    ("gce", "animal10n"): ({"q": 0.5}, 0.0, 1e-4),
    ("gce", "clothing1m"): ({"q": 0.6}, 0.0, 1e-3),
    ("sce", "cifar100"): ({"alpha": 6.0, "beta": 0.1}, 0.0, 1e-5),
    ("sce", "webvision-mini"): ({"alpha": 10.0, "beta": 1.0}, 0.0, 3e-5),
    ("phce", "cifar100"): ({"tau": 8.0}, 0.0, 1e-5),
    ("tce", "cifar10"): ({"t": 2}, 0.0, 1e-4),
    ("nce+rce", "cifar100"): ({"alpha": 10.0, "beta": 0.1}, 0.0, 1e-5),
    ("nce+rce", "webvision-mini"): ({"alpha": 50.0, "beta": 0.1}, 0.0, 3e-5),
    ("nce+rce", "clothing1m"): ({"alpha": 10.0, "beta": 1.0}, 0.0, 1e-3),
    ("nce+agce", "cifar10"): ({"alpha": 1.0, "beta": 4.0, "a": 6.0, "q": 1.5}, 0.0, 1e-4),
    ("nce+agce", "fashion-mnist"): ({"alpha": 0.0, "beta": 1.0, "a": 4.0, "q": 0.2}, 0.0, 1e-3),
    ("nce+aul", "cifar100"): ({"alpha": 10.0, "beta": 0.015, "a": 6.0, "q": 3.0}, 0.0, 1e-5),
    ("nce+ael", "cifar10"): ({"alpha": 1.0, "beta": 4.0, "a": 5.0}, 0.0, 1e-4),
    ("anl-ce", "cifar10"): ({"alpha": 5.0, "beta": 5.0}, 5e-5, 0.0),
    ("anl-ce", "cifar100"): ({"alpha": 10.0, "beta": 1.0}, 5e-7, 0.0),
    ("anl-ce", "fashion-mnist"): ({"alpha": 1.0, "beta": 1.0}, 1e-6, 0.0),
    ("anl-ce", "webvision-mini"): ({"alpha": 20.0, "beta": 1.0}, 6e-6, 0.0),
    ("anl-ce", "animal10n"): ({"alpha": 0.5, "beta": 1.0}, 1e-6, 0.0),
    ("anl-ce", "clothing1m"): ({"alpha": 5.0, "beta": 0.1}, 0.0, 1e-3),
    ("anl-fl", "cifar100"): ({"alpha": 10.0, "beta": 1.0, "gamma": 0.5}, 5e-7, 0.0),
    ("anl-ce*", "cifar10"): ({"alpha": 5.0, "beta": 5.0, "entropy_weight": 2.0}, 5e-5, 0.0),
    ("anl-ce*", "cifar100"): ({"alpha": 10.0, "beta": 1.0, "entropy_weight": 0.01}, 5e-7, 0.0),
}


def test_the_recipes_are_the_papers_and_digits():
    assert set(recipe_names()) == {*PAPER, "digits", "isic2017", "isic2017-128px", "blobs"}


@pytest.mark.parametrize("name", PAPER)
def test_a_recipe_is_the_papers(name):
    network, epochs, batch, learning_rate, weight_decay, (schedule, *numbers) = PAPER[name]
    config = resolve({"mnist-like": "fashion-mnist"}.get(name, name), loss="mae")
    assert (config.model, config.epochs, config.batch_size) == (network, epochs, batch)
    assert (config.learning_rate, config.weight_decay, config.l1) == (learning_rate, weight_decay, 0.0)
    assert (config.optimizer, config.momentum, config.clip_norm) == ("sgd", 0.9, 5.0)
    assert config.nesterov == (name == "webvision-mini")
    assert config.schedule == schedule
    if numbers:
        assert [config.schedule_factor, *config.schedule_milestones] == numbers
    assert config.precision == "float32"
    assert config.noise == "clean"


@pytest.mark.parametrize(("loss", "data"), PUBLISHED)
def test_what_was_published_for_a_loss_is_in_its_config(loss, data):
    config = resolve(data, loss=loss)
    assert (dict(config.loss_parameters), config.l1, config.weight_decay) == PUBLISHED[loss, data]


def test_what_the_authors_chose_by_noise_follows_the_noise():
    bounds = {"sym-0.4": 1.0, "sym-0.6": 1.5, "asym-0.4": 2.5, "dep-0.4": 2.0, "real": 2.5, "clean": 1.0}
    for noise, bound in bounds.items():
        said = resolve("cifar10", loss="logitclip-ce", noise=noise).loss_parameters
        assert said == {"bound": bound, "published": True}


@pytest.mark.parametrize("loss", ["logitclip-ce", "eps-ce+mae"])
@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_labels_that_people_gave_are_trained_on_alike_under_either_name(data, loss):
    human = resolve(data, loss=loss, noise="real").loss_parameters
    for name in (f"{data}n", f"tuning:{data}n"):
        assert resolve(name, loss=loss).loss_parameters == human
    clean = resolve(data, loss=loss).loss_parameters
    assert (clean == human) == ((data, loss) in {("cifar10", "eps-ce+mae"), ("cifar100", "logitclip-ce")})


def test_every_loss_has_a_config_for_every_recipe():
    for data in (*PAPER, "digits"):
        for loss in available():
            config = resolve("fashion-mnist" if data == "mnist-like" else data, loss=loss)
            assert config.loss == loss
            assert config.epochs == read_recipe(data)["epochs"]


def test_files_then_published_values_then_flags(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'published_for = "cifar100"\nmodel = "mlp"\nepochs = 7\nlearning_rate = 0.5\nweight_decay = 0.25\n'
        "l1 = 0.125\n[loss_parameters]\nalpha = 3\np_min = 1e-6\n"
    )
    config = resolve("digits", recipe=str(file), loss="anl-ce")
    assert (config.epochs, config.learning_rate) == (7, 0.5)
    # What was published for the loss wins over the file, which keeps what was not.
    assert config.loss_parameters == {"alpha": 10.0, "beta": 1.0, "p_min": 1e-6}
    assert (config.l1, config.weight_decay) == (5e-7, 0.0)
    said = resolve(
        "digits",
        recipe=str(file),
        loss="anl-ce",
        epochs=9,
        l1=0.0,
        weight_decay=0.5,
        loss_parameters={"beta": 2},
    )
    assert (said.epochs, said.l1, said.weight_decay) == (9, 0.0, 0.5)
    assert said.loss_parameters == {"alpha": 10.0, "beta": 2.0, "p_min": 1e-6}


def test_a_file_without_published_for_takes_nothing_published(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'model = "mlp"\nepochs = 7\nlearning_rate = 0.5\nl1 = 0.125\n[loss_parameters]\nalpha = 3\n'
    )
    config = resolve("digits", recipe=str(file), loss="anl-ce")
    assert config.loss_parameters == {"alpha": 3.0}
    assert config.l1 == 0.125


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epoch = 3", "unknown name 'epoch'; did you mean 'epochs'"),
        ('published_for = "cifar-10"', "published_for: unknown name 'cifar-10'; did you mean 'cifar10'"),
        ("epochs = ", "is not TOML"),
        ('model = "mlp"\nepochs = 0\nlearning_rate = 1', "epochs: expected an integer >= 1, got 0"),
        ('model = "mlp"\nepochs = "3"\nlearning_rate = 1', "epochs: expected an integer, got '3'"),
    ],
)
def test_a_bad_recipe_file_is_refused(tmp_path, content, message):
    file = tmp_path / "bad.toml"
    file.write_text(content)
    with pytest.raises((ValueError, TypeError), match=message):
        resolve("digits", recipe=str(file))


def test_bad_fields_are_refused_by_name():
    def error(**changes):
        with pytest.raises((ValueError, TypeError)) as caught:
            resolve("digits", **changes)
        return str(caught.value)

    assert "did you mean 'learning_rate'" in error(learningrate=1)
    assert "did you mean 'anl-ce'" in error(loss="anlce")
    assert "Did you mean 'asym-0.4'" in error(noise="asim-0.4")
    assert "did you mean 'cosine'" in error(schedule="cosin")
    assert "did you mean 'alpha'" in error(loss="anl-ce", loss_parameters={"alfa": 1})
    assert "alpha: expected a number >= 0, got -1" in error(loss="anl-ce", loss_parameters={"alpha": -1})
    assert "ema: expected a decay in [0, 1), got 1" in error(ema=1.0)
    assert "learning_rate: expected a number > 0" in error(learning_rate=0)
    assert "seed: expected an integer from 0 to 4294967295, got -1" in error(seed=-1)
    assert "noise_seed: expected an integer" in error(noise_seed=2**40)
    assert "train_size: expected an integer >= 1, got 0" in error(train_size=0)
    assert "workers: expected an integer from 0" in error(workers=-1)
    assert "shares of all epochs between 0 and 1" in error(schedule_milestones=[50])
    assert "recipe: unknown name 'cifar'; did you mean 'cifar10'" in error(recipe="cifar")
    assert "cannot read 'nowhere.toml'" in error(recipe="nowhere.toml")


def test_a_slip_before_the_colon_is_told_with_the_nearest_kind_of_data():
    with pytest.raises(
        LookupError, match="no data set is called 'fodler:photos'; did you mean 'folder:PATH'"
    ):
        resolve("fodler:photos")


def test_data_without_a_recipe_says_what_is_missing():
    with pytest.raises(ValueError, match="has no recipe of its own, so say model, learning_rate yourself"):
        resolve("folder:photos", epochs=3)
    with pytest.raises(LookupError, match="no data set is called 'cifar11'; did you mean 'cifar10'"):
        resolve("cifar11")
    assert default_recipe("cifar10n") == "cifar10"
    assert default_recipe("fashion-mnist") == "mnist-like"
    assert default_recipe("folder:cifar10") is None


CHANGED = {
    "dataset": "fashion-mnist",
    "model": "mnist-cnn",
    "loss": "nce+rce",
    "loss_parameters": {"alpha": 2.0},
    "noise": "sym-0.2",
    "model_options": {"hidden": (8,)},
    "weights": "some.safetensors",
    "optimizer": "adam",
    "schedule": "step",
    "schedule_milestones": (0.5,),
    "precision": "bf16",
    "device": "cpu",
    "augment": "none",
    "inputs": "0123456789abcdef",
}


@pytest.mark.parametrize("field", [each.name for each in fields(Config)])
def test_the_hash_covers_what_decides_the_result_and_nothing_else(field):
    config = Config("digits", "mlp", 3, 0.1, weights="weights.pth" if field == "freeze" else None)
    before = getattr(config, field)
    if field in CHANGED:
        changed = CHANGED[field]
    elif before is None:
        changed = 3
    else:
        changed = (
            (not before) if isinstance(before, bool) else before + (1 if isinstance(before, int) else 0.5)
        )
    other = with_changes(config, **{field: changed})
    assert (other.hash == config.hash) == (field in ("device", "compile", "workers", "evaluate_every"))
    assert (field in NOT_PART_OF_THE_RESULT) == (other.hash == config.hash)


def test_another_network_does_not_get_the_options_of_the_recipes():
    assert resolve("digits").model_options == {"batch_norm": True}
    assert resolve("digits", model="mlp").model_options == {"batch_norm": True}
    assert resolve("digits", model="resnet18").model_options == {}
    assert resolve("digits", model="mlp", model_options={"hidden": [8]}).model_options == {"hidden": [8]}


def test_the_same_experiment_written_otherwise_has_the_same_hash():
    config = resolve("cifar10", loss="anl-ce", noise="sym-0.8")
    for same in (
        resolve(
            "cifar10", loss="ANL-CE", noise="sym-0.80", loss_parameters={"alpha": 5, "beta": 5}, clip_norm=5
        ),
        resolve("cifar10", loss="anl-ce", noise="sym-.8", model_options={}, schedule_milestones=[]),
    ):
        assert same == config
        assert (same.hash, same.run_id) == (config.hash, config.run_id)
    assert resolve("cifar10", loss="tce", loss_parameters={"t": 3}).loss_parameters == {"t": 3}
    weighted = [
        resolve("digits", loss_parameters={"weight": each}) for each in ([1, 2], (1.0, 2.0), [1.0, 2])
    ]
    assert len({config.hash for config in weighted}) == 1
    assert weighted[0].loss_parameters["weight"] == [1.0, 2.0]


@pytest.mark.parametrize(
    "config",
    [
        resolve("cifar10", loss="anl-ce*", noise="asym-0.4"),
        resolve("animal10n", loss="gce"),
        resolve(
            "digits", model_options={"hidden": (64, 32), "batch_norm": True}, train_size=100, noise_seed=7
        ),
    ],
)
def test_a_config_survives_json(config):
    again = Config(**json.loads(json.dumps(config.as_data())))
    assert (again.hash, again.run_id) == (config.hash, config.run_id)
    assert again.as_data() == config.as_data()


@pytest.mark.parametrize(
    "path",
    [
        ".",
        "..",
        "/",
        "photos/",
        "../../etc/passwd",
        ".hidden",
        "con.photos.2",
        "a b$(rm -rf)`x`;|&\n\t\0",
        "-rf",
        "照片" * 60,
        "𝔘" * 200,
        "x" * 400,
        "\udc80\udcff",
        "'\"<script>",
        "C:\\photos",
        "…",
    ],
)
def test_hostile_names_make_run_ids_that_every_file_system_holds(path):
    for prefix in ("folder", "csv"):
        config = Config(f"{prefix}:{path}", "mlp", 3, 0.1, loss="anl-ce*", noise="sym-0.4")
        assert checked_run_id(config.run_id) == config.run_id
        assert len(config.run_id.encode()) < 200


def torch_schedule(config):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], config.learning_rate)
    schedulers = torch.optim.lr_scheduler
    made = {
        "constant": lambda: schedulers.ConstantLR(optimizer, 1.0),
        "cosine": lambda: schedulers.CosineAnnealingLR(optimizer, config.epochs),
        "exponential": lambda: schedulers.ExponentialLR(optimizer, config.schedule_factor),
        "step": lambda: schedulers.StepLR(optimizer, config.schedule_every, config.schedule_factor),
        "milestones": lambda: schedulers.MultiStepLR(
            optimizer,
            [round(share * config.epochs) for share in config.schedule_milestones],
            config.schedule_factor,
        ),
    }[config.schedule]()
    rates = []
    for _ in range(config.epochs):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        made.step()
    return rates


@pytest.mark.parametrize(
    "config",
    [
        *(resolve("fashion-mnist" if name == "mnist-like" else name) for name in PAPER),
        Config("digits", "mlp", 40, 0.3, schedule="constant"),
        Config("digits", "mlp", 40, 0.3, schedule="step", schedule_every=7, schedule_factor=0.5),
        Config("digits", "mlp", 100, 0.3, schedule="milestones", schedule_milestones=(0.55, 0.07, 0.29)),
    ],
    ids=lambda config: f"{config.dataset}-{config.schedule}",
)
def test_learning_rates_are_torchs_at_every_epoch(config):
    found = [config.learning_rate_at(epoch) for epoch in range(config.epochs)]
    assert found == pytest.approx(torch_schedule(config), rel=1e-9, abs=1e-15)
    assert all(math.isfinite(rate) and rate > 0 for rate in found)


def test_instance_dependent_noise_has_its_own_seed_and_others_the_runs():
    assert [resolve("digits", noise=n, seed=5).drawn_with for n in ("sym-0.2", "asym-0.2", "dep-0.2")] == [
        5,
        5,
        0,
    ]
    assert resolve("digits", noise="dep-0.2", seed=5, noise_seed=9).drawn_with == 9


def test_recipes_state_only_what_a_config_knows():
    for name in recipe_names():
        values = read_recipe(name)
        published_recipe("anl-ce", values.pop("published_for", None))
        values.pop("for_loss", None)
        assert set(values) <= {each.name for each in fields(Config)}


def test_a_recipe_of_one_loss_lends_its_numbers_to_no_other(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'loss = "anl-ce"\nmodel = "mlp"\nepochs = 7\nlearning_rate = 0.02\nl1 = 1e-4\nweight_decay = 0.0\n'
        "[loss_parameters]\nalpha = 3.0\nbeta = 4.0\n"
    )
    own = resolve("digits", recipe=str(plan))
    assert (own.l1, own.loss_parameters) == (1e-4, {"alpha": 3.0, "beta": 4.0})
    for loss in ("ce", "anl-fl"):
        other = resolve("digits", recipe=str(plan), loss=loss)
        assert (other.epochs, other.learning_rate) == (7, 0.02)
        assert (other.l1, dict(other.loss_parameters)) == (0.0, {})
    assert resolve("digits", recipe=str(plan), loss="ce", weight_decay=1e-3).weight_decay == 1e-3
