# SPDX-License-Identifier: Apache-2.0
"""``noiseproof runs``: the list, one run, and what is said where there is nothing or something is wrong."""

import json
import math
import re

import pytest
import typer
from typer.testing import CliRunner

from noiseproof import losses, plugins
from noiseproof.command_line import run_page, runs
from noiseproof.datasets.identity import OWN
from noiseproof.training import books
from noiseproof.training.run_lock import locked
from noiseproof.training.store import Store

app = typer.Typer()
app.add_typer(runs.app, name="runs")
app.callback()(lambda: None)

HOSTILE = "[red]anl[/red] \x1b[31m [/] \\"


def run(*arguments):
    return CliRunner().invoke(app, ["runs", *map(str, arguments)])


def words(text):
    """Output without the spaces that align it."""
    return re.sub(r"\s+", " ", text)


def train(store, run_id, epochs=3, **config):
    defaults = {
        "dataset": "digits",
        "noise": "sym-0.6",
        "loss": "anl-ce",
        "seed": 1,
        "epochs": 3,
        "model": "mlp",
    }
    environment = {"versions": {"torch": "2.8"}, "device": "cpu", "commit": None}
    noise = {"rate": 0.6, "realised_rate": 0.5981, "label_marginals": [0.1] * 10}
    store.begin(run_id, {**defaults, **config}, run_id, environment, noise)
    for epoch in range(epochs):
        accuracy = 90.0 - abs(epoch - 1)  # the second epoch is the best
        metrics = {"test_accuracy": accuracy, "clean_accuracy": 95.0, "loss": 0.25, "learning_rate": 0.01}
        store.record_epoch(run_id, epoch, metrics, seconds=100.0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "runs"
    monkeypatch.setenv("NOISEPROOF_RUNS", str(folder))
    return folder


@pytest.fixture
def filled(folder):
    with Store(folder) as store:
        train(store, "digits-anl-ce-s1")
        store.finish("digits-anl-ce-s1", {"test_accuracy": 89.0})
        train(store, "digits-ce-s1", epochs=2, loss="ce", noise="sym-0.2")
        store.interrupt("digits-ce-s1")
        train(store, "cifar10-s2", epochs=0, dataset="cifar10", seed=2)
        store.fail("cifar10-s2", "loss is NaN\nin [b]step[/b] 7")
    return folder


class TestNothing:
    def test_no_runs_yet(self, folder):
        result = run()
        assert result.exit_code == 0
        assert "No runs yet. Start one with: noiseproof train digits --loss anl-ce" in result.stdout
        assert not folder.exists()

    def test_default_folder_is_runs_in_the_current_one(self, tmp_path, monkeypatch):
        monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
        monkeypatch.chdir(tmp_path)
        assert "(Looked in runs.)" in run().stdout

    def test_json_of_nothing(self, folder):
        assert json.loads(run("--json").stdout) == []

    def test_one_run_of_none(self, folder):
        result = run("digits")
        assert result.exit_code == 2
        assert "there are no runs in" in result.stderr

    def test_no_match(self, filled):
        result = run("--loss", "gce")
        assert result.exit_code == 0
        assert "No run matches loss gce; " in result.stdout


class TestList:
    def test_a_line_a_run_newest_first(self, filled):
        lines = [words(line) for line in run().stdout.splitlines() if "-s" in line]
        assert re.fullmatch(
            r" ?cifar10-s2 cifar10 sym-0.6 anl-ce 2 0/3 failed \d{4}-\d\d-\d\d \d\d:\d\d 0.0 s ?", lines[0]
        )
        assert lines[1].strip().startswith("digits-ce-s1 digits sym-0.2 ce 1 2/3 90.00 90.00 (2) interrupted")
        assert (
            lines[2]
            .strip()
            .startswith("digits-anl-ce-s1 digits sym-0.6 anl-ce 1 3/3 89.00 90.00 (2) finished")
        )
        assert lines[2].strip().endswith("5 min 00 s")

    def test_best_is_marked_as_such(self, filled):
        assert "best: the best of all epochs, picked on the test set, so for comparison only" in words(
            run().stdout
        )

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--dataset", "cifar10"], ["cifar10-s2"]),
            (["--loss", "ce"], ["digits-ce-s1"]),
            (["--noise", "sym-0.6", "--dataset", "digits"], ["digits-anl-ce-s1"]),
            (["--status", "finished"], ["digits-anl-ce-s1"]),
            (["--status", "interrupted"], ["digits-ce-s1"]),
            (["--limit", "2"], ["cifar10-s2", "digits-ce-s1"]),
            (["--status", "failed", "--loss", "ce"], []),
        ],
    )
    def test_filters(self, filled, options, expected):
        assert [each["id"] for each in json.loads(run(*options, "--json").stdout)] == expected
        assert re.findall(r"^ ?(\S+-s\d)", run(*options).stdout, re.M) == expected

    def test_folder_option_wins(self, filled, tmp_path):
        with Store(tmp_path / "elsewhere") as store:
            train(store, "another")
        assert [
            each["id"] for each in json.loads(run("--folder", tmp_path / "elsewhere", "--json").stdout)
        ] == ["another"]

    def test_labels_of_ones_own_data_are_not_called_clean(self, folder):
        with Store(folder) as store:
            train(store, "photos-s1", dataset="folder:/data/photos", noise="clean")
            train(store, "digits-s1", dataset="digits", noise="clean")
        own, ours = reversed([line for line in run().stdout.splitlines() if "-s1 " in line])
        assert runs.AS_GIVEN in own
        assert "clean" in ours
        assert runs.OWN_DATA == OWN

    def test_long_lists_are_cut_and_say_so(self, folder):
        with Store(folder) as store:
            for number in range(runs.LISTED + 2):
                train(store, f"digits-{number:02}", epochs=0)
        table = run().stdout
        assert len(re.findall(r"^ ?digits-\d\d", table, re.M)) == runs.LISTED
        assert "Only the newest 30 are shown; use --limit for more" in table
        assert len(json.loads(run("--json").stdout)) == runs.LISTED + 2

    def test_a_killed_run_is_not_called_running(self, folder):
        with Store(folder) as store:
            train(store, "digits-s1", epochs=1)
        assert "interrupted" in run().stdout
        assert json.loads(run("--status", "running", "--json").stdout) == []
        with locked(folder, "digits-s1"):
            assert " running " in run().stdout
            (found,) = json.loads(run("--status", "running", "--json").stdout)
            assert (found["status"], found["at_work"]) == ("running", True)


class TestOne:
    def test_everything_about_it(self, filled):
        text = words(run("digits-anl").stdout)
        for part in (
            "digits-anl-ce-s1: finished",
            "training 5 min 00 s",
            "epochs 3 of 3",
            "test 89.00 % at epoch 3",
            "best (epoch) 90.00 (2)",
            "Config dataset digits noise sym-0.6",
            "realised_rate 0.5981",
            "label_marginals [0.1, 0.1, 0.1, … 10 values]",
            "versions torch=2.8 device cpu",
            "Result test_accuracy 89.0",
            "epoch test on given labels loss learning rate seconds",
            "2 90.00 95.00 0.25 0.01 100.0 best",
            "3 89.00 95.00 0.25 0.01 100.0",
        ):
            assert part in text
        assert "--resume" not in text

    def test_labels_are_called_right_only_where_wrong_ones_are_known(self, folder):
        with Store(folder) as store:
            for run_id, flipped in (("digits-s1", 20.0), ("mine-s1", None)):
                train(store, run_id, epochs=0)
                metrics = {"test_accuracy": 90.0, "clean_accuracy": 95.0, "flipped_accuracy": flipped}
                store.record_epoch(run_id, 0, metrics, seconds=1.0)
        assert "epoch test on right labels on wrong labels seconds" in words(run("digits-s1").stdout)
        assert "on given labels" in words(run("mine-s1").stdout)
        assert "on right labels" not in words(run("mine-s1").stdout)

    def test_how_to_go_on(self, filled):
        assert (
            "Resume where it stopped with: noiseproof train --resume digits-ce-s1\n"
            in run("digits-ce").stdout
        )

    def test_why_it_failed(self, filled):
        text = run("cifar10").stdout
        assert "Error\n  loss is NaN\n  in [b]step[/b] 7" in text
        assert "last good checkpoint with: noiseproof train --resume cifar10-s2\n" in text

    def test_another_folder_is_part_of_the_way_on(self, filled, monkeypatch):
        monkeypatch.delenv("NOISEPROOF_RUNS")
        assert f"--resume digits-ce-s1 --folder {filled}\n" in run("digits-ce", "--folder", filled).stdout

    def test_who_is_at_work_on_it(self, folder):
        with Store(folder) as store:
            train(store, "digits-s1", epochs=1)
        assert "as if killed" in run("digits").stdout
        with locked(folder, "digits-s1"):
            assert "digits-s1: running" in run("digits").stdout
            assert "Being trained by this very process." in run("digits").stdout

    def test_where_the_weights_lie(self, filled):
        assert "weights.safetensors" not in run("digits-anl").stdout
        (filled / "digits-anl-ce-s1").mkdir()
        (filled / "digits-anl-ce-s1" / "weights.safetensors").touch()
        assert str(filled / "digits-anl-ce-s1" / "weights.safetensors") in run("digits-anl").stdout

    def test_long_runs_are_thinned(self, folder):
        with Store(folder) as store:
            train(store, "digits-s1", epochs=120)
        text = run("digits").stdout
        assert f"{run_page.SHOWN_EPOCHS} of 120 (--json has all)" in text
        shown = [int(number) for number in re.findall(r"^ +(\d+) +-?\d+\.\d\d ", text, re.M)]
        assert len(shown) == run_page.SHOWN_EPOCHS
        assert {1, 2, 120} <= set(shown)
        assert len(json.loads(run("digits", "--json").stdout)["epochs"]) == 120

    def test_epochs_that_were_not_tested(self, folder):
        with Store(folder) as store:
            train(store, "digits-s1", epochs=2)
            store.record_epoch("digits-s1", 2, {"loss": math.inf}, 1.0)
        text = words(run("digits").stdout)
        assert "test 90.00 % at epoch 2" in text
        assert "3 inf 1.0" in text

    @pytest.mark.parametrize(
        "order", [["digits-anl", "--json"], ["--json", "digits-anl"], ["show", "digits-anl", "--json"]]
    )
    def test_options_may_stand_before_or_after(self, filled, order):
        assert json.loads(run(*order).stdout)["id"] == "digits-anl-ce-s1"

    def test_unknown_and_ambiguous_names(self, filled):
        for name, message in (("digit-ce-s1", "did you mean digits-ce-s1?"), ("digits", "names of 2 runs")):
            result = run(name)
            assert result.exit_code == 2
            assert message in result.stderr
            assert "Traceback" not in result.stderr

    def test_filters_do_not_belong_here(self, filled):
        result = run("--loss", "ce", "digits-anl")
        assert result.exit_code == 2
        assert "filters apply to the list of runs" in result.stderr


def test_json_spells_out_what_json_lacks(folder):
    with Store(folder) as store:
        store.begin("digits-s1", {"loss": "ce"}, "h", {}, {"rate": -math.inf})
        store.record_epoch("digits-s1", 0, {"loss": math.nan, "quantiles": [math.inf]}, 1.0)

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(run("digits", "--json").stdout, parse_constant=refuse)
    assert found["noise"] == {"rate": "-Infinity"}
    assert (found["epochs"][0]["loss"], found["epochs"][0]["quantiles"]) == ("NaN", ["Infinity"])


def test_text_from_configs_is_only_text(folder):
    with Store(folder) as store:
        store.begin("digits-s1", {"loss": HOSTILE, HOSTILE: {HOSTILE: [HOSTILE]}}, "h", {}, {})
        store.fail("digits-s1", HOSTILE)
    for output in (run().stdout, run("digits").stdout):
        assert r"[red]anl[/red] \x1b[31m [/] \ " in output + " "
        assert "\x1b" not in output


def test_a_damaged_store_is_a_plain_message(folder):
    folder.mkdir()
    (folder / "runs.sqlite").write_bytes(b"not a database" * 500)
    for arguments in ([], ["digits"], ["--json"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "is damaged" in result.stderr
        assert "Traceback" not in result.stderr + result.stdout


def test_runs_that_differ_in_settings_alone_are_told_apart_and_found(folder):
    with Store(folder) as store:
        for beta, l1, seed in ((1.0, 1e-5, 1), (5.0, 1e-5, 1), (5.0, 1e-5, 2)):
            parameters = {"alpha": 5.0, "beta": beta}
            train(store, f"digits-{beta}-{seed}", loss_parameters=parameters, l1=l1, seed=seed, weights=None)
        train(store, "other", loss="ce", loss_parameters={}, l1=0.0, model_options={"hidden": [3]})
    listed = words(run().stdout)
    assert "seed settings epochs" in listed
    assert "digits-1.0-1 digits sym-0.6 anl-ce 1 beta=1.0 3/3" in listed
    assert "digits-5.0-2 digits sym-0.6 anl-ce 2 beta=5.0 3/3" in listed
    assert "other digits sym-0.6 ce 1 3/3" in listed
    found = run("--set", "beta=5", "--set", "l1=1e-5", "--limit", "5").stdout
    assert "digits-5.0-1" in found
    assert "digits-1.0-1" not in found
    assert "settings" not in found  # they are alike
    assert "No run matches loss ce, beta 5" in run("--loss", "ce", "--set", "beta=5").stdout
    assert [each["id"] for each in json.loads(run("--set", "seed=2", "--json").stdout)] == ["digits-5.0-2"]
    assert "other" in run("--set", "model_options={hidden=[3]}").stdout
    assert "other" in run("--set", "freeze=false").stdout  # which is not recorded where it is not so
    assert [
        each["id"] for each in json.loads(run("--set", "p_min=1e-7", "--set", "beta=1", "--json").stdout)
    ] == ["digits-1.0-1"], "what is not recorded is the loss's default"
    assert "No run matches p_min 0.5" in run("--set", "p_min=0.5").stdout
    wrong = run("--set", "beta")
    assert (wrong.exit_code, "expected KEY=VALUE" in wrong.stderr) == (2, True)
    row = dict.fromkeys(("run", "settings", "epochs", "status"), "x" * 10)
    assert runs.fitting([row], 60) == list(row)
    assert runs.fitting([row], 50) == ["run", "epochs", "status"]


def found_by(*options):
    return [each["id"] for each in json.loads(run(*options, "--json").stdout)]


@pytest.mark.parametrize(("loss", "said"), [("apl", "APL"), ("anl-ce*", "ANL-CE*"), ("mine", "mine")])
def test_a_loss_is_looked_for_as_train_reads_its_name(folder, loss, said):
    with Store(folder) as store:
        train(store, "digits-s1", loss=losses.record(loss).name if loss != "mine" else loss)
        train(store, "digits-s2", loss="gce")
    assert found_by("--loss", said) == ["digits-s1"]


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        ("sym-0.5", "sym-0.50"),
        ("masks-0.7-0.5", "masks-.70-0.5"),
        ("file:/a/noisy.npz", "file:noisy"),
        ("mine-0.5", "mine-0.5"),
    ],
)
def test_noise_is_looked_for_as_train_reads_its_name(folder, noise, said):
    with Store(folder) as store:
        store.begin("digits-s1", {"loss": "ce", "noise": noise}, "h", {}, {"name": noise})
        train(store, "digits-s2", noise="sym-0.6")
    assert found_by("--noise", said) == ["digits-s1"]


@pytest.mark.parametrize("recorded", [[1, 2, 3], [1.0, 2.0, 3.0]])
def test_lists_of_numbers_are_looked_for_as_train_reads_them(folder, recorded):
    with Store(folder) as store:
        train(store, "digits-s1", loss="ce", loss_parameters={"weight": recorded}, schedule_milestones=[1, 2])
        train(store, "digits-s2", loss="ce", loss_parameters={"weight": [1.0, 2.0, 4.0]})
    for said in ("weight=1,2,3", "weight=[1, 2.0, 3]", "weight=1.0,2,3", "schedule_milestones=[1.0, 2]"):
        assert found_by("--set", said) == ["digits-s1"], said
    assert found_by("--loss", "ce", "--set", "weight=3,2,1") == []
    assert found_by("--set", f"weight=[{'9' * 400}]") == []


def test_how_to_go_on_names_the_modules_that_were_imported(filled, monkeypatch):
    monkeypatch.setattr(plugins, "_NAMED", ["my_losses"])
    assert "with: noiseproof --import my_losses train --resume digits-ce-s1\n" in run("digits-ce").stdout


def test_a_full_disk_names_the_modules_that_were_imported(monkeypatch):
    monkeypatch.setattr(plugins, "_NAMED", ["my_losses"])
    told = pytest.raises(OSError, match="noiseproof --import my_losses train --resume digits-s1")
    with told, books._plain_errors("digits-s1"):
        raise OSError(28, "No space left on device")


def test_bad_status_names_the_good_ones(filled):
    result = run("--status", "done")
    assert result.exit_code == 2
    assert "expected one of running, finished, interrupted, failed, got 'done'" in result.stderr


def test_help_shows_both_ways_and_ends_with_examples():
    text = run("--help").stdout
    assert "[RUN]" in text
    assert "noiseproof runs --json" in text.split("Examples")[1]


def test_a_deleted_run_is_forgotten_with_its_files(filled, folder):
    (folder / "digits-ce-s1").mkdir(exist_ok=True)
    (folder / "digits-ce-s1" / "checkpoint.pt").write_bytes(b"1")
    asked = CliRunner().invoke(app, ["runs", "delete", "digits-ce"], input="n\n")
    assert asked.exit_code != 0
    assert (folder / "digits-ce-s1" / "checkpoint.pt").exists()
    assert "Deleted digits-ce-s1" in run("delete", "digits-ce", "cifar10", "--yes").output
    assert not (folder / "digits-ce-s1").exists()
    with Store(folder) as store:
        assert [record.id for record in store.runs()] == ["digits-anl-ce-s1"]
        assert len(store.get("digits-anl-ce-s1").epochs) > 0
    assert "no run" in run("delete", "digits-ce", "--yes").output


def test_a_run_at_work_is_not_deleted(filled, folder):
    with locked(folder, "digits-anl-ce-s1"):
        refused = run("delete", "digits-anl-ce-s1", "--yes")
    assert refused.exit_code == 2
    with Store(folder) as store:
        assert store.get("digits-anl-ce-s1").status == "finished"
