# SPDX-License-Identifier: Apache-2.0
"""Plans of real data: what is looked at, the noise that is found, and recipes that train."""

import sys
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from noiseproof import datasets, noise
from noiseproof.command_line import app
from noiseproof.planning import Noise, NoiseGuess, config_for, facts_of, noise_guess, noise_of, plan
from noiseproof.planning.noise_guess import guess_noise
from noiseproof.planning.own_data import plan_for
from noiseproof.training import resolve
from noiseproof.training.store import Store


@pytest.fixture(autouse=True)
def _few_filters(monkeypatch):
    """Digits need no more, and estimates take a tenth of the time."""
    monkeypatch.setattr(noise_guess, "FILTERS", 48)


def run(*words):
    return CliRunner().invoke(app, list(words))


def test_facts_of_arrays_and_files(photos):
    digits = facts_of(datasets.load("digits"))
    assert (digits.samples, digits.classes, digits.side, digits.grey) == (1438, 10, 8, True)
    assert (digits.form, digits.recipe) == ("pictures", "digits")
    name = photos(each=6, side=40, mode="L")
    files = facts_of(datasets.load(name), name)
    assert (files.samples, files.classes, files.side, files.grey) == (18, 3, 40, True)
    assert (files.form, files.recipe, files.balance) == ("files", None, 1.0)


def test_balance_is_of_the_rarest_to_the_commonest():
    data = datasets.load("digits")
    few = np.concatenate([np.flatnonzero(data.labels == 0)[:30], np.flatnonzero(data.labels == 1)[:60]])
    assert facts_of(data.subset(few)).balance == 0.0  # eight classes have no sample
    assert facts_of(replace(data.subset(few), class_names=("0", "1"))).balance == 0.5


def noisy(kind, rate):
    data = datasets.load("digits")
    if kind == "clean":
        return data
    make = noise.symmetric if kind == "sym" else noise.asymmetric
    drawn = make(data.labels, rate, 10 if kind == "sym" else "mnist-like", 1)
    return replace(data, labels=drawn.labels)


@pytest.mark.parametrize(
    ("kind", "rate", "really", "found"),
    [("clean", 0.0, 0.0, None), ("sym", 0.4, 0.376, "sym"), ("asym", 0.4, 0.2, "confused")],
)
def test_noise_of_the_digits(kind, rate, really, found):
    guess = noise_of(noisy(kind, rate))
    assert guess.rate == pytest.approx(really, abs=0.05)
    assert guess.kind == found
    assert guess.transition.sum(1) == pytest.approx(1)
    assert not guess.is_uncertain


def test_a_guess_from_probabilities():
    random = np.random.RandomState(0)
    true = random.randint(4, size=3_000)
    given = np.where(random.rand(3_000) < 0.3, (true + 1) % 4, true)
    sure = 0.96 * np.eye(4)[true] + 0.01
    guess = guess_noise(given, sure @ (0.7 * np.eye(4) + 0.3 * np.roll(np.eye(4), 1, 1)))
    assert guess.rate == pytest.approx((given != true).mean(), abs=0.02)
    assert guess.agreement == pytest.approx((given == true).mean())
    assert guess.concentration > 0.9
    assert guess.kind == "confused"


def test_a_model_that_knows_little_makes_a_guess_only():
    guess = NoiseGuess(0.4, np.full((10, 10), 0.1), agreement=0.2, concentration=0.9, looked_at=99)
    assert guess.is_uncertain
    assert guess.kind is None
    assert str(guess.as_noise()).startswith("perhaps 40% of the labels are wrong (estimated from 99 samples")


def test_of_a_handful_of_samples_the_noise_is_a_guess():
    """Of 40 labels of two classes, 26 right ones are no more than chance gives."""
    given = np.arange(40) % 2
    predicted = np.where(np.arange(40) < 26, given, 1 - given)
    few = guess_noise(given, 0.9 * np.eye(2)[predicted] + 0.05)
    assert few.agreement == 0.65
    assert few.is_uncertain
    assert few.kind is None
    many = guess_noise(np.tile(given, 50), np.tile(0.9 * np.eye(2)[predicted] + 0.05, (50, 1)))
    assert not many.is_uncertain


def test_progress_is_told():
    told = []
    noise_of(datasets.load("digits").subset(range(300)), tell=lambda what, share: told.append((what, share)))
    assert {"reading images", "predicting"} <= {what for what, _ in told}
    assert all(0 <= share <= 1 for _, share in told)


def test_many_samples_are_sampled(monkeypatch):
    monkeypatch.setattr(noise_guess, "MOST_SAMPLES", 500)
    assert noise_of(datasets.load("digits")).looked_at == 500


def test_too_few_samples_are_told(photos):
    with pytest.raises(ValueError, match="at least 3 samples"):
        noise_of(datasets.load(photos(classes=("cat", "dog"), each=1)))


def test_a_plan_in_toml_is_read_back_as_the_same_config(tmp_path, photos):
    for name in ("digits", photos()):
        made = plan(name, noise=Noise(0.2, "asym"))
        file = tmp_path / "plan.toml"
        file.write_text(made.as_toml())
        assert resolve(name, recipe=str(file)).hash == made.config().hash
        assert made.config().loss == "anl-ce*"


def test_what_is_said_stands_in_the_recipe():
    made = plan("digits", said={"loss": "gce", "epochs": 7}, estimate=False)
    content = tomllib.loads(made.as_toml())
    assert (content["loss"], content["epochs"], content["loss_parameters"]) == ("gce", 7, {"q": 0.7})
    assert "# given by the user" in made.as_toml()
    with pytest.raises(KeyError):
        made["epochs"]


def test_the_noise_of_peoples_labels_is_known(monkeypatch):
    from noiseproof.planning import planner

    data = datasets.load("digits")
    monkeypatch.setattr(planner.datasets, "load", lambda name, split: replace(data, name="cifar10n"))
    made = plan("cifar10n")
    assert made.facts.noise.kind == "real"
    assert made["loss"].value == "anl-ce*"


def test_a_config_for_data_that_is_loaded(photos):
    assert config_for(datasets.load("digits"), "digits", {"seed": 4}).seed == 4
    name = photos()
    data = datasets.load(name)
    config = config_for(data, name, {"noise": "clean", "epochs": 3})
    assert (config.model, config.image_size, config.epochs) == ("cnn8", 32, 3)
    assert config_for(data, None, {}).loss == "anl-ce*"


def test_train_plans_by_the_same_rules(photos):
    name = photos()
    said = {"model": "mlp", "epochs": 3}
    by_train = {choice.field: choice.value for choice in plan_for(name, said)}
    by_plan = plan(name, said=said, estimate=False)
    assert by_train == {choice.field: choice.value for choice in by_plan.choices if choice.field != "row"}


@pytest.mark.parametrize("data", ["digits", "photos"])
def test_plan_then_train(data, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = data if data == "digits" else photos()
    done = run(
        "plan",
        name,
        "--out",
        "plan.toml",
        "-q",
        "--model",
        "mlp",
        *(["--noise", "asym-0.4"] * (data != "digits")),
    )
    assert done.exit_code == 0, done.output
    assert "Train with: noiseproof train " in done.output
    assert "noise: " in done.output
    assert "loss = " in done.output, "what was chosen can be seen without opening the file"
    trained = run("train", name, "--recipe", "plan.toml", "--epochs", "1", "-q", "--workers", "0")
    assert trained.exit_code == 0, trained.output
    with Store(tmp_path / "runs") as store:
        (record,) = store.runs()
    written = tomllib.loads((tmp_path / "plan.toml").read_text())
    for field in ("loss", "loss_parameters", "l1", "model", "batch_size", "learning_rate"):
        assert record.config[field] == written[field]


def test_the_plan_goes_to_the_screen(photos):
    done = run("plan", photos(), "--noise", "0.4", "--noise-kind", "sym")
    assert done.exit_code == 0, done.output
    content = tomllib.loads(done.stdout)
    assert (content["loss"], content["model"], content["image_size"]) == ("anl-ce*", "cnn8", 32)
    assert "about 40% of the labels are wrong, at random (given by the user)" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("digitz",), "did you mean 'digits'"),
        (("digits", "--noise", "much"), "--noise: expected a share of wrong labels such as 0.4"),
        (("digits", "--noise", "1.4"), "expected a share of wrong labels from 0 to 1"),
        (("digits", "--noise", "sim-0.4"), "noise kind: expected one of sym"),
        (("digits", "--noise-kind", "sym"), "--noise-kind: expected a share"),
        (("digits", "--noise", "sym-0.4", "--noise-kind", "asym"), "--noise-kind: expected sym"),
        (("digits", "--no-noise-estimate", "--loss", "anlce"), "did you mean 'anl-ce'"),
        (("folder:nowhere",), "nowhere"),
    ],
)
def test_wrong_input_is_told_plainly(words, message):
    done = run("plan", *words)
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--loss", "anlce"), "did you mean 'anl-ce'"), (("--model", "resnet-34"), "did you mean 'resnet34'")],
)
def test_names_that_do_not_exist_are_told_before_the_work(words, message, monkeypatch):
    monkeypatch.setattr("noiseproof.planning.plan", lambda *_, **__: pytest.fail("the work was begun"))
    done = run("plan", "digits", *words)
    assert done.exit_code == 2
    assert message in done.output


def test_a_network_of_timm_is_planned_for_where_timm_is_not(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    done = run("plan", "digits", "--no-noise-estimate", "--model", "timm:resnet18")
    assert done.exit_code == 0, done.output


def test_auto_in_train_is_what_the_rules_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("train", "digits", "--recipe", "auto", "--set", "alpha=auto", "--set", "beta=2", "--epochs", "1")
    done = run(*words)
    assert done.exit_code == 0, done.output
    assert "batch_size = 64: 1438 training images give 23 steps per epoch" in done.output
    with Store(tmp_path / "runs") as store:
        (record,) = store.runs()
    assert record.config["loss_parameters"] == {"alpha": 5.0, "beta": 2.0}
