# SPDX-License-Identifier: Apache-2.0
"""``noiseproof train``: from a fresh folder to a result, on after a stop, and one line for every mistake."""

import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests import warm
from tests.stopping import StopAfter
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.training import engine as engine_module
from noiseproof.training import resolve
from noiseproof.training.run_lock import locked
from noiseproof.training.store import Store


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["train", *map(str, arguments)])


SHORT = ("digits", "--noise", "sym-0.4", "--epochs", "2", "--device", "cpu")


@pytest.fixture
def photos(tmp_path):
    """Pictures of two colours, some of them grey."""
    random = np.random.RandomState(0)
    for class_name, colour in (("red", (220, 30, 30)), ("grey", (90, 90, 90))):
        place = tmp_path / "my photos" / class_name
        place.mkdir(parents=True)
        for i in range(10):
            pixels = random.randint(0, 30, (9, 12, 3)) + colour
            image = Image.fromarray(pixels.astype(np.uint8))
            (image.convert("L") if class_name == "grey" else image).save(place / f"{i}.png")
    return "folder:my photos"


def only_run(folder=Path("runs")):
    with Store(folder) as store:
        (record,) = store.runs()
        return store.get(record.id)


def test_classes_that_are_hardly_predicted_are_named(run):
    """MAE with long steps gives classes up within two epochs; cross-entropy does not."""
    words = ("digits", "--noise", "asym-0.4", "--epochs", "2", "--lr", "0.5", "--device", "cpu")
    lost, kept = run(*words, "--loss", "mae"), run(*words, "--loss", "ce")
    assert (lost.exit_code, kept.exit_code) == (0, 0), lost.output + kept.output
    with Store(Path("runs")) as store:
        (record,) = (store.get(each.id) for each in store.runs() if each.config["loss"] == "mae")
    shares = zip(record.epochs[-1]["predicted_marginals"], record.noise["label_marginals"], strict=True)
    names = [f"class {k}" for k, (predicted, named) in enumerate(shares) if predicted < 0.1 * named]
    assert names
    assert f"though labels name them: {', '.join(names)}." in lost.output
    assert "such as gce or ce." in lost.output
    assert "Hardly ever predicted" not in kept.output
    page = CliRunner().invoke(app, ["runs", record.id])
    assert f"classes lost  {', '.join(names)}" in page.output


def test_a_run_from_start_to_result(run):
    done = run(*SHORT, "--loss", "anl-ce", "--seed", "3", "--set", "alpha=2", "--l1", "0", "--lr", "0.02")
    assert done.exit_code == 0, done.output
    record = only_run()
    assert record.config["seed"] == 3
    assert record.config["loss_parameters"] == {"alpha": 2.0, "beta": 5.0}
    assert (record.config["l1"], record.config["learning_rate"]) == (0.0, 0.02)
    assert f"{record.id}: epoch 2/2" in done.output
    last = done.output.strip().splitlines()[-1]
    assert last.startswith(f"{record.id}: test accuracy {record.result['test_accuracy']:.2f}%")
    tested = f"{record.result['test_samples']} images"
    assert f"on test data ({tested}, so ±" in last
    assert f"noiseproof runs {record.id}" in last


def test_the_help_names_what_masks_take(run):
    told = " ".join(run("--help").output.replace("│", " ").split())
    assert "masks-SHARE-STRENGTH" in told
    assert "weight=1,2,3" in told
    assert "noiseproof train isic2017 --noise masks-0.7-0.7 --loss t-loss" in told


def test_quiet_prints_the_result_only(run):
    done = run(*SHORT, "--quiet")
    assert len(done.output.strip().splitlines()) == 1


def test_flags_reach_the_config(run, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('model = "mlp"\nepochs = 9\nlearning_rate = 0.3\nschedule = "step"\nmomentum = 0.5\n')
    flags = {
        "batch-size": 50,
        "optimizer": "adam",
        "schedule": "constant",
        "weight-decay": 1e-3,
        "jacobian": 1e-4,
        "clip-norm": 1.0,
        "ema": 0.9,
        "precision": "bf16",
        "train-size": 150,
        "evaluate-every": 2,
        "noise-seed": 8,
        "workers": 0,
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    done = run(*SHORT, "--recipe", file, "--gradient-quantiles", "--quiet", *words)
    assert done.exit_code == 0, done.output
    config = only_run().config
    for name, value in flags.items():
        assert config[name.replace("-", "_")] == value
    assert (config["epochs"], config["learning_rate"], config["momentum"]) == (2, 0.3, 0.5)
    assert config["gradient_quantiles"]


def test_a_dry_run_shows_the_config_beside_the_recipe_and_trains_nothing(run):
    words = ("cifar10", "--noise", "sym-0.8", "--loss", "anl-ce", "--dry-run")  # whose data is not there
    changed = run(
        *words, "--l1", "1e-5", "--set", "beta=2", "--set", "momentum=0.95", "--set", "optimizer=adam"
    )
    assert changed.exit_code == 0, changed.output
    shown = " ".join(changed.stdout.split())
    expected = {"l1": 1e-5, "loss_parameters": {"beta": 2}, "momentum": 0.95, "optimizer": "adam"}
    said = {"noise": "sym-0.8", "loss": "anl-ce"}
    assert changed.stdout.startswith(f"{resolve('cifar10', **said, **expected).run_id}: not trained yet\n")
    for text in (
        "l1 1e-05 (recipe: 5e-05)",
        "beta=2.0, p_min=1e-07 (recipe: alpha=5.0, beta=5.0)",
        "momentum 0.95 (recipe: 0.9)",
        "optimizer adam (recipe: sgd)",
        "Different from the recipe: loss_parameters, optimizer, momentum, l1. Without that: "
        f"{resolve('cifar10', **said).run_id}.",
    ):
        assert text in shown
    assert run(*words).stdout.endswith("\n\nEverything as in the recipe.\n")
    assert not Path("runs").exists()


def test_a_dry_run_knows_what_was_trained_and_what_is_planned(run, photos):
    assert run(*SHORT, "--quiet").exit_code == 0
    assert "already trained, so it would not be trained again" in run(*SHORT, "--dry-run").stdout
    resumed = run("--resume", only_run().id, "--dry-run").stdout
    assert resumed.startswith(f"{only_run().id}: already trained")
    assert "recipe" not in resumed
    planned = run(photos, "--epochs", "3", "--dry-run").stdout
    assert "Different from the plan: epochs." in planned


def test_a_dry_run_shows_fields_that_came_later_beside_the_recipe(run):
    Path("frozen.toml").write_text(
        'model = "resnet18"\nepochs = 3\nlearning_rate = 0.1\nfreeze = true\nweights = "imagenet"\n',
        encoding="utf-8",
    )
    words = ("digits", "--recipe", "frozen.toml", "--dry-run")
    assert run(*words).stdout.endswith("\n\nEverything as in the recipe.\n")
    changed = run(*words, "--no-freeze", "--augment", "none").stdout
    assert "  freeze               False    (recipe: True)\n" in changed
    assert "  augment              none    (recipe: as usual)\n" in changed
    assert "Different from the recipe: augment, freeze." in changed


def test_a_dry_run_shows_a_config_that_is_none_without_what_was_said(run):
    """Pictures with masks of several sizes need one; a plan without it has nothing to be shown beside."""
    for side in (16, 20):
        for part in ("images", "masks"):
            Path("set", part).mkdir(parents=True, exist_ok=True)
            Image.new("L", (side, side), 255).save(Path("set", part, f"{side}.png"))
    shown = run("folder:set", "--image-size", "16", "--dry-run", "--quiet")
    assert shown.exit_code == 0, shown.stderr
    assert "image_size           16\n" in shown.stdout


def test_a_number_of_the_loss_is_set_though_a_field_has_its_name(run):
    from noiseproof.losses import LossRecord, RobustLoss, catalogue, cross_entropy, register

    class Remembering(RobustLoss):
        def __init__(self, momentum=0.5, **options):
            super().__init__(lambda log_p: -momentum * log_p, **options)

    name = "remembering"
    register(LossRecord(name, "?", "?", "?", False, "mine", Remembering, cross_entropy))
    try:
        shown = run("digits", "--loss", name, "--set", "momentum=0.25", "--dry-run")
    finally:
        del catalogue._RECORDS[name]
    fields = dict(line.split(maxsplit=1) for line in shown.stdout.splitlines() if line.startswith("  "))
    assert (fields["momentum"], fields["loss_parameters"].split()[0]) == ("0.9", "momentum=0.25"), (
        shown.output
    )


def test_a_field_may_be_left_to_the_recipe_or_written_as_it_is_shown(run):
    shown = run("digits", "--set", "momentum=auto", "--set", "nesterov=True", "--dry-run")
    assert "nesterov             True    (recipe: False)" in shown.stdout, shown.stderr
    assert "Different from the recipe: nesterov." in shown.stdout


def test_set_says_fields_that_have_no_option(run):
    assert run(*SHORT, "--set", "momentum=0.5", "--set", "alpha=2", "--quiet").exit_code == 0
    config = only_run().config
    assert (config["momentum"], config["loss_parameters"]["alpha"]) == (0.5, 2)
    twice = run(*SHORT, "--set", "epochs=3")
    assert (twice.exit_code, "--set epochs: given twice" in twice.stderr) == (2, True)


def test_a_stopped_run_goes_on(run, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(3))
        done = run(*SHORT)
    assert done.exit_code == 130
    record = only_run()
    assert record.status == "interrupted"
    assert f"noiseproof train --resume {record.id}" in done.output
    done = run("--resume", record.id[:-4], "--device", "cpu", "--workers", "0")
    assert done.exit_code == 0, done.output
    assert only_run().status == "finished"
    again = run("--resume", record.id)
    assert again.exit_code == 0
    assert "test accuracy" in again.output


def test_what_was_trained_before_is_said_to_have_been(run):
    assert run(*SHORT, "-q").exit_code == 0
    time.sleep(1.1)  # records are to the second
    done = run(*SHORT, "-q")
    assert "was already trained" in done.output
    assert "it is not trained again" in done.output
    resumed = run("--resume", only_run().id)
    assert "was already trained" in resumed.output


def test_the_users_own_pictures_are_planned_and_the_reasons_printed(run, photos):
    done = run(
        photos, "--model", "mlp", "--epochs", "2", "--image-size", "8", "--set", "alpha=1", "--workers", "0"
    )
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    told = (
        "batch_size = 16: 20 training images in the paper's batches of 128 give 120 steps in 120 epochs, too"
    )
    assert f"{told} few to learn much; batches of 16 give 240" in lines
    weights = "loss_parameters = {'beta': 5.0, 'entropy_weight': 2.0}"
    assert f"{weights}: 2 classes: published for CIFAR-10 and anl-ce*" in lines
    assert any(line.startswith("learning_rate = 0.01: ") for line in lines)
    assert not any(line.startswith(("model =", "epochs =", "image_size =")) for line in lines)
    assert "held-out training images, whose labels may be wrong too (2 images, so ±" in lines[-1]
    record = only_run()
    assert record.id.startswith("my-photos-given-anl-ce-er-s1-")
    assert record.noise["class_names"] == ["grey", "red"]
    assert record.config["loss_parameters"] == {"alpha": 1.0, "beta": 5.0, "entropy_weight": 2.0}
    assert record.result["held_out"] is True


def test_noise_that_small_classes_round_away_is_told(run, photos):
    """Nine pictures of a class: 5% of them are none."""
    short = (photos, "--model", "mlp", "--epochs", "1", "--image-size", "8", "--workers", "0")
    done = run(*short, "--noise", "sym-0.05")
    assert done.exit_code == 0, done.output
    assert "sym-0.05 made 0.0% of the labels wrong" in done.output
    assert "made" not in run(*short, "--noise", "sym-0.4").output


def test_the_users_own_pictures_with_a_recipe(run, photos):
    done = run(
        photos, "--recipe", "cifar10", "--epochs", "1", "--image-size", "32", "--quiet", "--workers", "0"
    )
    assert done.exit_code == 0, done.output
    config = only_run().config
    assert (config["model"], config["l1"], config["batch_size"]) == ("cnn8", 5e-5, 128)


BAD = [
    ((), "name the data to train on"),
    (("digitz",), "no data set is called 'digitz'; did you mean 'digits'"),
    (("digits", "--loss", "anlce"), "did you mean 'anl-ce'"),
    (("digits", "--noise", "sim-0.4"), "Did you mean 'sym-0.4'"),
    (("digits", "--noise", "sym-1.4"), "rate"),
    (("digits", "--noise", "real"), "real labels exist for cifar10 and cifar100"),
    (("digits", "--noise", "open-0.4"), "does not apply"),
    (("digits", "--model", "resnt18"), "did you mean 'resnet18'"),
    (("digits", "--optimizer", "sdg"), "did you mean 'sgd'"),
    (("digits", "--precision", "fp8"), "precision: unknown name 'fp8'"),
    (("digits", "--device", "tpu"), "device: expected auto, cpu"),
    (("digits", "--recipe", "cifar"), "did you mean 'cifar10'"),
    (("digits", "--recipe", "none.toml"), "cannot read 'none.toml'"),
    (("digits", "--set", "alpha"), "--set: expected NAME=VALUE, such as alpha=5, weight=1,2,3"),
    (("digits", "--set", "weight=1,x"), "got 'weight=1,x'"),
    (("digits", "--set", "weight=2"), "weight: expected numbers, one a class, such as [1.0, 2.0], got 2"),
    (("digits", "--set", "weight=1,-2"), "weight: expected a number >= 0, got -2.0"),
    (("digits", "--set", "weight=1,2,3"), "weight: expected 10 numbers, one for each class of digits"),
    (("digits", "--set", "ignore_index=2.5"), "ignore_index: expected an integer, got 2.5"),
    (("digits", "--set", "alpha=x"), "got 'alpha=x'"),
    (("digits", "--set", "alfa=1"), "did you mean 'alpha'"),
    (("digits", "--set", "loss=ce"), "--set loss: give it as --loss"),
    (("digits", "--set", "noise=sym-0.4"), "--set noise: give it as --noise"),
    (("digits", "--set", "alpha=-1"), "alpha: expected a number >= 0"),
    (("digits", "--set", "alpha=nan"), "alpha: expected a finite number"),
    (("digits", "--epochs", "0"), "epochs: expected an integer >= 1"),
    (("digits", "--lr", "0"), "learning_rate: expected a number > 0"),
    (("digits", "--seed", "-1"), "seed: expected an integer from 0"),
    (("digits", "--batch-size", "-2"), "batch_size: expected an integer >= 1"),
    (("digits", "--image-size", "9"), "image_size: the images of digits have a fixed size"),
    (("digits", "--weights", "none.pth"), "none.pth"),
    (("digits", "--sink", "tensorbord"), "did you mean 'tensorboard'"),
    (("folder:nowhere",), "expected a folder, found nothing"),
    (("csv:nowhere.csv",), "expected a CSV file, found nothing"),
    (("--resume", "nothing"), "no run 'nothing'"),
    (("digits", "--resume", "x"), "may change, got DATASET"),
    (("--resume", "x", "--lr", "1"), "may change, got learning_rate"),
    (("--resume", "x", "--set", "alpha=1"), "may change, got --set"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=range(len(BAD)))
def test_a_mistake_is_one_line_and_leaves_nothing(run, arguments, message):
    done = run(*arguments, "--device", "cpu") if "--device" not in arguments else run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert done.output.startswith("Error: ")
    assert len(done.output.strip().splitlines()) == 1, done.output
    assert "Traceback" not in done.output
    with Store(Path("runs")) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    ("package", "arguments"),
    [("timm", ("--model", "timm:resnet18")), ("tensorboard", ("--sink", "tensorboard"))],
)
def test_a_package_that_is_missing_is_one_line_too(run, monkeypatch, package, arguments):
    for name in [name for name in sys.modules if package in name.split(".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = run("digits", *arguments)
    assert done.exit_code == 2
    assert "install" in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_data_that_is_not_there_says_how_to_get_it(run):
    done = run("cifar10", "--noise", "real")
    assert done.exit_code == 2
    assert "noiseproof data get cifar10" in done.output
    assert "Traceback" not in done.output


def test_the_second_process_on_a_run_refuses(run):
    config = resolve("digits", noise="sym-0.4", epochs=2, device="cpu")
    with locked(Path("runs"), config.run_id):
        done = run(*SHORT)
    assert done.exit_code == 2
    assert f"run {config.run_id} is in use by" in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_an_explosion_says_where_and_keeps_the_record(run):
    done = run(*SHORT, "--loss", "ce", "--lr", "1e30", "--clip-norm", "0", "--schedule", "constant")
    assert done.exit_code == 2
    (told,) = [line for line in done.output.splitlines() if line.startswith("Error: ")]
    assert "not a finite number in epoch 1 at step" in told
    assert only_run().status == "failed"


def test_help_ends_with_examples(run):
    done = run("--help")
    assert done.exit_code == 0
    text = done.output
    assert text.rindex("Examples") > text.rindex("--quiet")
    assert "noiseproof train --resume" in text[text.rindex("Examples") :]
    assert "torchrun" in text[text.rindex("Examples") :]


def test_sigterm_saves_like_ctrl_c(tmp_path):
    """What batch systems send before they kill."""
    words = ("train", "digits", "--epochs", "5000", "--device", "cpu", "-q", "--folder", str(tmp_path))
    process = warm.Popen(["-m", "noiseproof", *words])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/checkpoint.pt")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped; nothing is lost" in said
    assert only_run(tmp_path).status == "interrupted"
