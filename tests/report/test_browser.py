# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: opens from disk, asks for nothing, complains of nothing, sorts, and runs no text."""

import pytest
from tests.report import browser as browsers
from tests.report.test_report import EVIL, hostile
from tests.results.making import gathered_of, grid_of, shipped

from noiseproof.report import write_report

pytestmark = pytest.mark.skipif(browsers.EXECUTABLE is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser():
    opened = browsers.Browser()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def table_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "a name with spaces & <b>.html"
    write_report(shipped("cifar10-parts", epochs=20), path)
    return path


COLUMN = (
    "[...document.querySelectorAll('table.headline tbody tr')].map(row => row.cells[{0}].dataset.v ?? '')"
)
HEADS = "[...document.querySelectorAll('table.headline thead th')]"


def test_it_opens_from_disk_in_peace(browser, table_page):
    browser.open(table_page)
    assert browser.requests == [table_page.as_uri()]
    assert browser.complaints == []
    assert browser.run("document.title").startswith("CIFAR-10")


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("marginals", 1),
        ("regularisers-apl", 1),
        ("gradients", 1),
        ("alpha-beta-grid", 25),
        ("overfitting-curves", 5),
    ],
)
def test_figures_are_there_and_have_a_size(browser, tmp_path, name, figures):
    path = tmp_path / f"{name}.html"
    write_report(shipped(name, epochs=6), path)
    browser.open(path)
    sizes = browser.run(
        "[...document.querySelectorAll('figure.drawing svg[role=img]')].map(e => e.getBoundingClientRect().width)"
    )
    assert len(sizes) >= figures
    assert min(sizes) > 50
    assert browser.complaints == []
    assert browser.requests == [path.as_uri()]


def test_tables_sort_both_ways(browser, table_page):
    browser.open(table_page)
    before = [float(v) for v in browser.run(COLUMN.format(2))]
    browser.run(f"{HEADS}[2].querySelector('button').click()")
    assert [float(v) for v in browser.run(COLUMN.format(2))] == sorted(before, reverse=True)
    assert browser.run(f"{HEADS}[2].getAttribute('aria-sort')") == "descending"
    browser.run(f"{HEADS}[2].querySelector('button').click()")
    assert [float(v) for v in browser.run(COLUMN.format(2))] == sorted(before)
    browser.run(f"{HEADS}[0].querySelector('button').click()")
    names = browser.run("[...document.querySelectorAll('table.headline tbody th')].map(th => th.textContent)")
    assert names == sorted(names, key=str.lower)
    assert browser.run(f"{HEADS}[2].getAttribute('aria-sort')") is None


def test_missing_numbers_sort_last(browser, tmp_path):
    accuracies = {"ce": 40.0, "gce": None, "anl-ce": 80.0}
    gathered = gathered_of(grid_of(tuple(accuracies), seeds=(1,)), lambda cell: accuracies[cell.method.loss])
    write_report(gathered, tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    for expected in (["80.0", "40.0", ""], ["40.0", "80.0", ""]):
        browser.run(f"{HEADS}[1].querySelector('button').click()")
        assert browser.run(COLUMN.format(1)) == expected


def test_a_number_leads_to_its_runs(browser, table_page):
    browser.open(table_page)
    browser.run("document.querySelector('table.headline tbody a').click()")
    assert browser.run("document.querySelector('table.runs tr:target th').textContent") == "NCE"


def test_hostile_text_stays_text(browser, tmp_path):
    write_report(hostile(), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.run("document.scripts.length") == 1
    assert browser.run("document.querySelector('table.headline tbody th').textContent") == EVIL
    assert EVIL in browser.run("document.querySelector('.maps rect title').textContent")
    assert EVIL in browser.run("document.querySelector('#marginals svg').textContent")
    assert not [event for event in browser.events if event.get("method") == "Page.javascriptDialogOpening"]
    assert browser.complaints == []


def test_a_script_that_got_in_would_not_run(browser, table_page, tmp_path):
    """The page allows its own script and no other, should a text ever escape."""
    text = table_page.read_text().replace("<main>", "<main><script>document.title = 'mine'</script>")
    (tmp_path / "page.html").write_text(text)
    browser.open(tmp_path / "page.html")
    assert browser.run("document.title") != "mine"
    assert browser.run("document.querySelectorAll('th button').length") > 0


def test_light_and_dark(browser, table_page):
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.open(table_page)
    light = browser.run(colour)
    browser.open(table_page, dark=True)
    dark = browser.run(colour)
    assert light != dark
    assert browser.run("document.querySelector('#theme').textContent") == "Light"
    browser.run("document.querySelector('#theme').click()")
    assert browser.run(colour) == light


def test_a_phone_scrolls_tables_not_the_page(browser, table_page):
    browser.open(table_page, width=360, height=740, mobile=True)
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("parseFloat(getComputedStyle(document.body).fontSize)") >= 14


def test_it_prints(browser, table_page):
    browser.open(table_page)
    assert browser.pdf().startswith(b"%PDF")
