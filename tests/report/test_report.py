# SPDX-License-Identifier: Apache-2.0
"""The page: complete in itself, true to the records, and text stays text."""

import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from tests.results.making import gathered_of, grid_of, result_of, shipped
from typer.testing import CliRunner

from noiseproof.command_line import report as report_command
from noiseproof.grids import Method, load
from noiseproof.report import write_report
from noiseproof.results import Failure, Gathered, write_results

EVIL = "<script>alert(1)</script>"


class Reader(HTMLParser):
    """What a browser would do with the page: tags it would open, places it would fetch, text it would show."""

    VOID = ("meta", "br", "link", "img", "input", "hr")

    def __init__(self, html):
        super().__init__()
        self.tags, self.fetched, self.shown, self.ids, self.links, self.open = [], [], [], [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        values = dict(attributes)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        self.fetched += [
            v for k, v in attributes if k in ("src", "href", "xlink:href", "data", "action", "srcset")
        ]
        self.fetched += [v for _, v in attributes if v and "url(" in v and "url(#" not in v]
        assert not any(k.startswith("on") for k, _ in attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] not in (["style"], ["script"]):
            self.shown.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.shown).split())


def page_of(tmp_path, gathered, **said):
    path = tmp_path / "new" / "page.html"
    write_report(gathered, path, **said)
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]
    return path.read_text(encoding="utf-8")


GRIDS = (
    "cifar10-parts",
    "overfitting-curves",
    "marginals",
    "regularisers-anl",
    "regularisers-apl",
    "gradients",
    "alpha-beta-grid",
)


@pytest.mark.parametrize("name", GRIDS)
def test_the_page_is_complete_in_itself(tmp_path, name):
    html = page_of(tmp_path, shipped(name, epochs=12))
    read = Reader(html)
    assert html.startswith("<!doctype html>")
    assert all(place.startswith("#") for place in read.fetched)
    assert not re.search(r"@import|url\(\s*['\"]?(https?:)?//", html)
    assert not {"link", "iframe", "object", "embed", "img"} & set(read.tags)
    assert read.tags.count("script") == 1
    assert len(set(read.ids)) == len(read.ids)
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)


def test_the_same_runs_give_the_same_page(tmp_path):
    assert page_of(tmp_path, shipped("gradients", 12)) == page_of(tmp_path, shipped("gradients", 12))


def test_the_numbers_are_there_and_lead_to_their_runs(tmp_path):
    grid = load("cifar10-table").narrowed(["ce", "anl-ce"], ["sym-0.8"], [1, 2])
    gathered = gathered_of(grid, lambda cell: {"ce": 18.0, "anl-ce": 62.0}[cell.method.loss] + cell.seed)
    html = page_of(tmp_path, gathered, price_per_hour=2.0)
    text = Reader(html).text
    assert "63.50 ±0.71 (2)" in text
    assert "61.27 ±0.55 +2.23 ✗" in text
    assert "1 of 2 cells within the published spread" in text
    assert "noiseproof train cifar10 --loss anl-ce --noise sym-0.8 --seed 2 --precision bf16" in text
    assert "6 min 00 s computing time" in text
    assert "0.20 cost at 2 per hour" in text
    assert "torch 2.9" in text
    assert "0123456789ab" in text
    anchor = re.search(r'<a href="#([\w-]+)"><span class="ours[^"]*">63\.50', html)[1]
    row = html[html.index(f'id="{anchor}"') :].partition("</tr>")[0]
    assert grid.cells()[1].config.run_id in row
    assert "ANL-CE" in row


def test_classes_that_runs_lost_are_named(tmp_path):
    """Beside each such run, and escaped like all that comes from data."""
    gathered = gathered_of(grid_of(("mae", "ce"), seeds=(1,)))
    assert "Lost classes" not in Reader(page_of(tmp_path, gathered)).text
    first, *others = gathered.results
    facts = first.noise_facts | {"class_names": [EVIL, *map(str, range(1, 10))]}
    losing = replace(first, noise_facts=facts, predicted_marginals=(0.0, 0.0, *[0.125] * 8))
    html = page_of(tmp_path, replace(gathered, results=(losing, *others)))
    read = Reader(html)
    assert "These runs hardly ever predict some classes" in read.text
    assert f"MAE sym-0.6 1 51.00 {EVIL}, class 1" in read.text
    assert "A lost class costs up to its share of the test set" in read.text
    assert "1 of 2 runs lost a class (up to 2 in one run)" in read.text
    assert EVIL not in html
    assert {link.removeprefix("#") for link in read.links} <= set(read.ids)


def test_what_was_not_recorded_is_not_invented(tmp_path):
    """A line with the least that every line has still makes a page."""
    grid = grid_of(seeds=(1,))
    cell = grid.cells()[0]
    bare = replace(
        result_of(cell, 50.0),
        run=None,
        config={},
        seconds=None,
        realised_rate=None,
        noise_facts={},
        curves=result_of(cell, 50.0).curves.__class__(),
        predicted_marginals=None,
        environment={},
    )
    failure = Failure("ANL-CE", "sym-0.6", 1, "some-run", f"it broke {EVIL}")
    text = Reader(page_of(tmp_path, Gathered(grid, (bare,), (failure,), expected=2, missing=1))).text
    assert "No config is recorded for 1 run." in text
    assert "noiseproof bench small --methods CE --noise sym-0.6 --seeds 1" in text
    assert "not recorded" in text
    assert f"it broke {EVIL}" in text
    assert "1 of 2 runs recorded" in text


def hostile():
    """A grid in which every text that can be chosen is hostile."""
    grid = grid_of(
        methods=(Method(EVIL, "ce"), Method(f"\"'>{EVIL}", "anl-ce")), title=EVIL, kind="marginals"
    )
    facts = {
        "kind": EVIL,
        "generator": EVIL,
        "class_names": [EVIL] * 10,
        "transition": [[0.1] * 10] * 10,
        "label_marginals": [0.1] * 10,
    }
    results = tuple(
        replace(
            result_of(cell, 50.0 + cell.seed),
            run=EVIL,
            variant=EVIL,
            noise_facts=facts,
            config={**cell.config.as_data(), "loss_parameters": {EVIL: EVIL}, "model": EVIL, "dataset": EVIL},
            environment={"hardware": EVIL, "device": EVIL, "versions": {EVIL: EVIL}, "commit": EVIL},
        )
        for cell in grid.cells()
    )
    return Gathered(grid, results, expected=len(results))


def test_hostile_texts_stay_texts(tmp_path):
    html = page_of(tmp_path, hostile(), introduction=f"-->{EVIL}", grid_argument=EVIL)
    read = Reader(html)
    assert EVIL not in html
    assert read.tags.count("script") == 1
    assert "b" not in read.tags
    assert read.text.count("alert(1)") > 50
    assert "</style>" in html[: html.index("<body>")]
    assert "<script" not in html[html.index("<body>") : html.rindex("<script")]


LABELS = ("--><b>", "$\\frac{$", "a$b$c", "&<>\"'", "ünïcode δ=1e-5", "L1 δ=zero", "L2 δ=1e-4")


@pytest.mark.parametrize("kind", ["table", "marginals", "regularisers", "gradients", "alpha-beta"])
def test_any_label_can_be_drawn(tmp_path, kind):
    methods = tuple(
        Method(label, "anl-ce", {"loss_parameters": {"alpha": 1.0 + place}})
        for place, label in enumerate(LABELS)
    )
    settings = {"epochs": 2, "gradient_quantiles": kind == "gradients"}
    read = Reader(page_of(tmp_path, gathered_of(grid_of(methods, seeds=(1,), kind=kind, settings=settings))))
    assert "b" not in read.tags
    for label in LABELS:
        assert label in read.text


def test_a_grid_of_360_runs_is_quick_and_small(tmp_path):
    gathered = shipped("cifar10-table", epochs=120)
    assert len(gathered.results) == 360
    begun = time.perf_counter()
    html = page_of(tmp_path, gathered)
    assert time.perf_counter() - begun < 30
    assert len(html.encode()) < 10_000_000
    assert html.count('class="panel small"') == 120


def test_settings_that_depend_on_the_noise_say_so(tmp_path):
    grid = load("cifar10-beyond").narrowed(["eps-ce+mae", "logitclip-ce"], ["sym-0.2", "asym-0.4"], [1])
    text = Reader(page_of(tmp_path, gathered_of(grid))).text
    assert re.search(r"0\.01 \(sym-0\.2\); 0\.02 \(asym-0\.4\)", text)


KINDS = {"kept": 30, "erode": 19, "dilate": 22, "affine": 29}


def of_masks(noises=("masks-0.7-0.7",), seeds=(1, 2), **facts):
    """Results of segmentation, made up, with the noise facts that such runs record."""
    grid = grid_of(("ce", "t-loss", "anl-ce"), noises, seeds, dataset="blobs")
    made = gathered_of(grid, lambda cell: 60.0 + cell.seed + 3 * (cell.method.loss == "anl-ce"))
    results = []
    for result in made.results:
        own = {"kind": "masks", "seed": result.seed, "wrong_pixels": 0.05 + result.seed / 100, "kinds": KINDS}
        results.append(replace(result, metric="test_dice", noise_facts=own | facts))
    return replace(made, results=tuple(results))


def section(html, key):
    return Reader(re.search(rf'<section id="{key}">.*?</section>', html, re.S)[0])


def test_a_page_on_masks_speaks_of_dice_and_masks(tmp_path):
    html = page_of(tmp_path, of_masks())
    assert "Dice by epoch" in Reader(html).text
    curves = section(html, "curves").text
    for words in ("test Dice", "training, right pixels", "training, wrong pixels", "the given masks"):
        assert words in curves
    assert "Points of Dice." in section(html, "comparison").text
    runs = section(html, "runs").text
    assert "right pixels wrong pixels wrong masks" in runs
    assert "Dice pooled over the test set, mean over the last ten epochs, in percent" in runs
    said = Reader(html).text
    assert not [each for each in ("labels", "Heat map", "true class", "Points of accuracy") if each in said]


def test_a_page_on_masks_says_what_was_done_to_them(tmp_path):
    noise = section(page_of(tmp_path, of_masks()), "noise").text
    assert "Mask noise" in noise
    assert "70.00% of masks wrong, 6.00–7.00% of pixels" in noise
    assert "30 unchanged, 19 eroded, 22 dilated, 29 affine · 2 realisations" in noise
    assert "Masks: unchanged 30, eroded 19, dilated 22, affine 29." in noise  # of the picture
    assert "Bars: how many masks" in noise
    clean = section(page_of(tmp_path, of_masks(("clean",), kinds=None, wrong_pixels=0.0)), "noise").text
    assert "0.00% of masks wrong, 0.00% of pixels" in clean
    assert "Bars" not in clean
    assert "Drawn" not in clean


@pytest.mark.parametrize(
    "kinds", [EVIL, [1, 2], {EVIL: 3}, {"erode": EVIL}, {"erode": -1}, {"erode": 10**400}]
)
def test_facts_on_masks_that_nothing_can_be_made_of_are_left_out(tmp_path, kinds):
    html = page_of(tmp_path, of_masks(kinds=kinds, wrong_pixels=EVIL))
    assert EVIL not in html
    noise = section(html, "noise").text
    assert "70.00% wrong" in noise
    assert "Bars" not in noise


def test_a_page_on_labels_explains_only_what_it_draws(tmp_path):
    drawn = section(page_of(tmp_path, gathered_of(grid_of())), "noise").text
    assert "wrong training labels over all runs. Heat maps: row = true class" in drawn
    assert "Bars" not in drawn
    bare = tuple(replace(result, noise_facts={}) for result in gathered_of(grid_of()).results)
    assert "Heat maps" not in section(page_of(tmp_path, Gathered(grid_of(), bare, expected=6)), "noise").text


def test_parameters_that_no_config_states_are_the_losses_defaults(tmp_path):
    methods = (Method("plain", "anl-ce"), Method("other", "anl-ce", {"loss_parameters": {"alpha": 2.0}}))
    html = page_of(tmp_path, gathered_of(grid_of((*methods, "ce"), seeds=(1,), recipe="blobs")))
    settings = re.search(r'<section id="settings">.*?</section>', html, re.S)[0]
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', settings)
    rows = {
        row[0]: dict(zip(heads[1:], re.findall(r'<td class="n">(.*?)</td>', row[1]), strict=True))
        for row in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', settings, re.S)
    }
    assert [rows["plain"][name] for name in ("loss", "alpha", "beta", "p min")] == [
        "anl-ce",
        "5",
        "5",
        "1e-07",
    ]
    assert [rows["other"][name] for name in ("loss", "alpha", "beta", "p min")] == [
        "anl-ce",
        "2",
        "5",
        "1e-07",
    ]
    assert [rows["CE"][name] for name in ("loss", "alpha", "beta", "p min")] == ["ce", "–", "–", "–"]
    assert "does not state are the defaults of its loss" in Reader(settings).text.replace("&#39;", "'")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
    app = typer.Typer()
    app.command("report", epilog=report_command.EPILOG)(report_command.report)
    app.command("other")(lambda: None)
    return lambda *words: CliRunner().invoke(app, ["report", *map(str, words)])


def test_the_command_writes_the_page(run):
    gathered = gathered_of(load("cifar10-table").narrowed(["ce"], ["sym-0.8"], [1]))
    write_results(Path("r.jsonl"), gathered.results)
    done = run("cifar10-table", "--from", "r.jsonl")
    assert done.output == "Page: cifar10-table.html\n"
    assert "1 of 360" in Path("cifar10-table.html").read_text()
    assert (
        run("cifar10-table", "--from", "r.jsonl", "--out", "a/b.html", "--price-per-hour", 3).exit_code == 0
    )
    assert "cost at 3 per hour" in Path("a/b.html").read_text()
    Path("taken").write_text("a file")
    done = run("cifar10-table", "--from", "r.jsonl", "--out", "taken/b.html")
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1
    assert "no finished run of digits-table" in run("digits-table").output


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].glob("results/*.jsonl")), ids=lambda p: p.name
)
def test_published_records_make_a_page(run, path):
    from noiseproof.grids import names

    name = path.stem if path.stem in names() else "cifar10-table"
    done = run(name, "--from", path, "--out", "page.html")
    assert done.exit_code == 0, done.output
    Reader(Path("page.html").read_text(encoding="utf-8"))
