# SPDX-License-Identifier: Apache-2.0
"""``noiseproof demo``: a table that people and programs read, and a page."""

import html
import re
from pathlib import Path

import pytest
from tests.docs.commands import calls_in, trouble_with
from typer.testing import CliRunner

from noiseproof.command_line import app, demo, demo_segmentation
from noiseproof.losses import available
from noiseproof.training import engine as engine_module
from noiseproof.training import resolve
from noiseproof.training.run_lock import locked
from noiseproof.training.store import Store


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
    return lambda *arguments: CliRunner().invoke(app, ["demo", "--epochs", "1", *map(str, arguments)])


def table_of(output):
    """The lines after the table's head, by what they begin with."""
    lines = output.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("loss "))
    return lines[head], lines[head + 1 :]


def test_a_line_a_loss_with_the_last_epochs_test_accuracy_first(run):
    done = run()
    assert done.exit_code == 0, done.output
    head, after = table_of(done.output)
    rows = after[: len(demo.LOSSES)]
    assert [row.split()[0] for row in rows] == list(demo.LOSSES)
    with Store(Path("runs")) as store:
        recorded = {record.config["loss"]: record.result for record in store.runs()}
    for row in rows:
        first = re.search(r"\d+\.\d+", row).group()
        assert first == f"{recorded[row.split()[0]]['test_accuracy']:.1f}"
        assert len(row) == len(head)
    for line in after[len(rows) :]:
        assert line.split()[:1] == [] or line.split()[0].lower() not in available()
    assert "% of the training labels are wrong" in done.output


def test_the_page_is_written_where_it_was_asked_for(run):
    done = run("--out", "new/folder/page.html", "--seed", "2", "--rate", "0.4")
    assert done.exit_code == 0, done.output
    page = Path("new/folder/page.html").read_text(encoding="utf-8")
    assert done.output.strip().endswith("Page: new/folder/page.html")
    assert "noiseproof train digits --epochs 1 --loss anl-ce --noise sym-0.4 --seed 2" in page


def test_a_page_that_cannot_be_written_does_not_hide_the_table(run):
    Path("taken").write_text("a file, not a folder")
    done = run("--out", "taken/page.html")
    assert done.exit_code == 2
    assert "Error: cannot write the page" in done.output
    assert len(table_of(done.output)[1]) >= len(demo.LOSSES)


def test_without_wrong_labels_their_column_is_empty(run):
    done = run("--rate", "0")
    assert done.exit_code == 0, done.output
    assert all("–" in row for row in table_of(done.output)[1][: len(demo.LOSSES)])


def test_nothing_but_wrong_labels_is_no_obstacle(run):
    assert run("--rate", "1").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "1.5"), "rate"),
        (("--seed", "-1"), "seed: expected"),
        (("--epochs", "0"), "epochs: expected"),
    ],
)
def test_a_mistake_is_one_line(run, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_a_demo_beside_another_refuses(run):
    config = resolve("digits", loss="gce", noise="sym-0.6", epochs=1, device="cpu")
    with locked(Path("runs"), config.run_id):
        done = run()
    assert done.exit_code == 2
    assert "is in use by" in done.output
    assert "Traceback" not in done.output


def test_a_stopped_demo_goes_on(run, monkeypatch):
    class AtOnce:
        requested = True

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", AtOnce)
        done = run()
    assert done.exit_code == 130
    assert "Continue with the same command" in done.output
    assert run().exit_code == 0


def test_help_ends_with_examples():
    text = CliRunner().invoke(app, ["demo", "--help"]).output
    assert text.rindex("Examples") > text.rindex("--folder")


def commands_of(page):
    """What a page shows to be typed."""
    text = Path(page).read_text(encoding="utf-8")
    shown = [html.unescape(each) for each in re.findall(r"<code>(noiseproof .*?)</code>", text)]
    assert not [each for each in shown if "#" in each]  # a remark would be something that the command lacks
    return [call for each in shown for call in calls_in(each, "noiseproof")]


def test_commands_of_the_page_are_known(run):
    assert run("--out", "page.html").exit_code == 0
    whole, *runs = commands_of("page.html")
    assert whole == ["demo", "--rate", "0.6", "--seed", "1", "--epochs", "1"]
    assert len(runs) == len(demo.LOSSES)
    assert not [trouble for call in (whole, *runs) if (trouble := trouble_with(call))]


def test_commands_of_the_page_on_masks_repeat_its_runs(tmp_path, monkeypatch):
    """Given to the command line again, each finds what it would train trained already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
    monkeypatch.setitem(demo_segmentation.SETTINGS, "model_options", {"base_width": 2})  # only smaller
    monkeypatch.setitem(demo_segmentation.SETTINGS, "train_size", 32)
    quick = ["--processes", "1", "--out", "page.html"]
    said = ["demo", "segmentation", "--share", "0.5", "--strength", "0.7", "--seed", "3", "--epochs", "1"]
    done = CliRunner().invoke(app, [*said, *quick])
    assert done.exit_code == 0, done.output
    with Store(Path("runs")) as store:
        trained = {record.id: record.ended for record in store.runs()}
    whole, *runs = commands_of("page.html")
    assert whole == said
    assert len(trained) == len(runs) == len(demo_segmentation.METHODS)
    for call in {tuple(call) for call in (whole, *runs)}:
        again = CliRunner().invoke(app, [*call, *quick])
        assert again.exit_code == 0, again.output
    with Store(Path("runs")) as store:
        assert {record.id: record.ended for record in store.runs()} == trained


@pytest.mark.slow
def test_the_whole_demo_shows_what_it_promises(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--folder", str(tmp_path), "--out", str(tmp_path / "page.html")])
    rows = {row.split()[0]: float(row.split()[1]) for row in table_of(done.output)[1][: len(demo.LOSSES)]}
    assert rows["anl-ce"] >= rows["ce"] + 15
