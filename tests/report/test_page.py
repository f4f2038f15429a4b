"""The page: complete in itself, true to the records, and text stays text."""

import re
import shlex
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.report import write_page
from noiseproof.report.command import command_of
from noiseproof.report.curves import accuracy_curves
from noiseproof.training import Config, resolve
from noiseproof.training.plan import Choice
from noiseproof.training.run_record import RunRecord

EVIL = "<script>alert(1)</script>"


def record_of(config=None, epochs=3):
    config = config or resolve("digits", loss="anl-ce", noise="sym-0.6", epochs=epochs)
    metrics = [
        {"clean_accuracy": 70.0 + n, "flipped_accuracy": 10.0 + n, "test_accuracy": 80.0 + n}
        for n in range(epochs)
    ]
    return RunRecord(
        id=config.run_id,
        config=config.as_data(),
        config_hash=config.hash,
        status="finished",
        started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T00:00:09+00:00",
        seconds=8.6,
        environment={"hardware": "x86_64", "device": "cpu", "threads": 1, "versions": {"torch": "2.9"}},
        noise={"name": "sym-0.6", "realised_rate": 0.5987},
        result={"test_accuracy": 80.0 + epochs - 1, "best_test_accuracy": 93.21, "best_epoch": 2},
        error=None,
        epochs=tuple(metrics),
    )


def page_of(tmp_path, records, title="Title", introduction="Introduction"):
    path = tmp_path / "new" / "page.html"
    write_page(records, path, title, introduction)
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]
    return path.read_text(encoding="utf-8")


class Reader(HTMLParser):
    """What a browser would do with the page: tags it would open, places it would fetch, text it would show."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.fetched, self.shown = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.fetched += [
            v for k, v in attributes if k in ("src", "href", "xlink:href", "data", "action", "srcset")
        ]
        self.fetched += [v for _, v in attributes if v and "url(" in v and "url(#" not in v]
        assert not any(k.startswith("on") for k, _ in attributes)

    def handle_data(self, data):
        self.shown.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.shown).split())


def test_the_page_is_complete_in_itself(tmp_path):
    html = page_of(tmp_path, [record_of(), record_of(resolve("digits", loss="ce", noise="sym-0.6"))])
    read = Reader(html)
    assert all(place.startswith("#") for place in read.fetched)
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", html)
    assert not {"script", "link", "iframe", "object", "embed", "img"} & set(read.tags)
    assert "svg" in read.tags
    assert html.startswith("<!doctype html>")
    assert '<meta charset="utf-8">' in html


def test_the_numbers_are_there(tmp_path):
    text = Reader(page_of(tmp_path, [record_of()])).text
    for number in (
        "82.0%",
        "93.2% (2)",
        "72.0%",
        "12.0%",
        "59.9% wrong",
        "alpha=5, beta=5",
        "5e-05",
        "torch 2.9",
    ):
        assert number in text, number
    assert "noiseproof train digits --epochs 3 --loss anl-ce --noise sym-0.6 --seed 1" in text


def test_measurements_that_do_not_exist_are_dashes(tmp_path):
    epochs = tuple({**epoch, "flipped_accuracy": None} for epoch in record_of().epochs)
    assert "–" in Reader(page_of(tmp_path, [replace(record_of(), epochs=epochs)])).text


def test_hostile_texts_stay_texts(tmp_path):
    config = record_of().config
    record = replace(
        record_of(),
        config={
            **config,
            "loss": EVIL,
            "dataset": f"folder:{EVIL}",
            "noise": EVIL,
            "loss_parameters": {EVIL: EVIL, "ok": True},
        },
        environment={"hardware": EVIL, "device": "cpu", "threads": 1, "versions": {EVIL: EVIL}},
    )
    html = page_of(tmp_path, [record, record_of()], title=EVIL, introduction=f"-->{EVIL}")
    read = Reader(html)
    assert "script" not in read.tags
    assert EVIL not in html
    assert read.text.count("alert(1)") >= 8
    figure = html[html.index("<svg") : html.index("</svg>")]
    assert "<script" not in figure


@pytest.mark.parametrize("name", ["--><b>", "$\\frac{$", "a$b$c", "&<>\"'", "ünïcode"])
def test_any_name_can_head_a_panel(name):
    record = record_of()
    svg = accuracy_curves([replace(record, config={**record.config, "loss": name})])
    assert svg.startswith("<svg")
    assert "<b>" not in svg


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_any_number_of_runs_has_a_panel_each(count):
    svg = accuracy_curves([record_of()] * count)
    assert len(re.findall(r'id="axes_\d+"', svg)) in (count, count + count % 2)


def words_of(config):
    record = record_of(config)
    return shlex.split(command_of(record).partition("  # ")[0])


@pytest.mark.parametrize(
    "config",
    [
        resolve("cifar10", loss="anl-ce*", noise="asym-0.4", seed=3),
        resolve(
            "cifar100",
            loss="nce+agce",
            noise="sym-0.2",
            loss_parameters={"q": 2.5},
            epochs=7,
            precision="bf16",
        ),
        resolve(
            "digits",
            loss="ce",
            train_size=100,
            learning_rate=0.123456789,
            noise_seed=4,
            gradient_quantiles=True,
        ),
        Config(
            "folder:my photos/it's",
            "resnet18",
            5,
            0.02,
            l1=1e-5,
            image_size=32,
            loss_parameters={"alpha": 2.0},
        ),
    ],
)
def test_the_command_repeats_the_run(config, monkeypatch, tmp_path):
    """Give the command to the command line, and see which config comes out."""
    from noiseproof import training

    found = []

    def stop_here(given, **options):
        found.append(given)
        raise ValueError("seen")

    monkeypatch.setattr(training, "train", stop_here)
    planned = {
        "model": "mlp",
        "epochs": 1,
        "learning_rate": 9.0,
        "batch_size": 3,
        "l1": 9.0,
        "weight_decay": 9.0,
    }
    plan = [Choice(name, value, "another plan") for name, value in planned.items()]
    monkeypatch.setattr("noiseproof.training.plan.plan_for", lambda dataset, said: plan)
    words = words_of(config)
    assert words[0] == "noiseproof"
    done = CliRunner().invoke(app, [*words[1:], "--folder", str(tmp_path)])
    assert "seen" in done.output, done.output
    assert found[0].hash == config.hash


def test_what_has_no_flag_is_named_after_the_command():
    command = command_of(record_of(resolve("digits", momentum=0.5, model_options={"hidden": [8]})))
    assert command.endswith("# and in a recipe file: model_options = {'hidden': [8]}; momentum = 0.5")
