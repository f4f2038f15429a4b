# SPDX-License-Identifier: Apache-2.0
"""A grid of one's own: what it may say, and one plain line for every slip."""

import re
from pathlib import Path

import pytest
from tests.results.making import gathered_of

from noiseproof.grids import Grid, Method, files, load
from noiseproof.results import table_of

GOOD = """
title = "Mine"
dataset = "digits"
noises = ["clean", "sym-0.4"]
seeds = [1, 2]

[settings]
epochs = 3

[[methods]]
label = "CE"
loss = "ce"

[[methods]]
label = "ANL β={beta} lr={learning_rate}"
loss = "anl-ce"
loss_parameters = { alpha = 2.0 }

[methods.for_each]
learning_rate = [0.01, 0.1]
loss_parameters = { beta = [1.0, 5.0] }
"""


@pytest.fixture
def write(tmp_path):
    def written(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def test_a_file_expands_ranges_and_merges_settings(write):
    grid = load(write(GOOD))
    assert (grid.name, grid.title, grid.kind, grid.published) == ("mine", "Mine", "table", None)
    assert [method.label for method in grid.methods] == [
        "CE",
        *("ANL β=1 lr=0.01", "ANL β=5 lr=0.01", "ANL β=1 lr=0.1", "ANL β=5 lr=0.1"),
    ]
    cells = grid.cells()
    assert len(cells) == 5 * 2 * 2
    assert {cell.config.epochs for cell in cells} == {3}
    last = cells[-1].config
    assert dict(last.loss_parameters) == {"alpha": 2.0, "beta": 5.0}
    assert (last.learning_rate, last.noise, last.seed) == (0.1, "sym-0.4", 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("noises =", "noise =", "key in grid mine: unknown name 'noise'; did you mean 'noises'"),
        (
            "epochs = 3",
            "epoch = 3",
            "grid mine, settings: setting: unknown name 'epoch'; did you mean 'epochs'",
        ),
        ("epochs = 3", "seed = 3", "grid mine, settings: seed is not a setting"),
        ("epochs = 3", "epochs = 0", "grid mine, method 'CE', noise clean: epochs: expected an integer >= 1"),
        ('"CE"', '"C,E"', "method 'C,E': expected a label without a comma"),
        ('label = "CE"', 'labl = "CE"', "grid mine, method 1: expected label to be a text, got None"),
        ('loss = "ce"', 'loss = "cee"', "loss: unknown name 'cee'; did you mean 'ce'"),
        ('loss = "ce"', 'loss = "ce"\nl2 = 1', "method 'CE': setting: unknown name 'l2'; did you mean 'l1'"),
        ('loss = "ce"', 'loss = "gce"\nq = 1', "number of the loss is set with loss_parameters = { q = … }"),
        ('"sym-0.4"', '"symm-0.4"', "got 'symm-0.4'. Did you mean 'sym-0.4'"),
        ('"sym-0.4"', '"clean"', "'clean' stands twice among its noises"),
        ("[1, 2]", "[1, 1]", "1 stands twice among its seeds"),
        ("[1, 2]", "[]", "expected at least one of its seeds, got none"),
        ("[1, 2]", "[1.5]", "expected seeds that are whole numbers, got 1.5"),
        ("[1, 2]", "3", "expected seeds to be a list, got 3"),
        ('dataset = "digits"', "", "grid mine: expected dataset, which it does not say"),
        ('dataset = "digits"', 'dataset = "digts"', "no data set is called 'digts'; did you mean 'digits'?"),
        ("{beta}", "{bta}", "{…} in its label: unknown name 'bta'; did you mean 'beta'"),
        ("ANL β={beta} lr={learning_rate}", "ANL", "'ANL' stands twice among its methods"),
        ("beta = [1.0, 5.0]", "beta = 5.0", "expected for_each to be a table of lists, got 5.0"),
        ('title = "Mine"', 'kind = "tabel"', "kind of grid mine: unknown name 'tabel'; did you mean 'table'"),
        ('title = "Mine"', "title = ", "grid mine: not TOML"),
        (
            'title = "Mine"',
            'published = "cifar11"',
            "published of grid mine: unknown name 'cifar11'; did you mean 'cifar10'",
        ),
        (
            'title = "Mine"',
            'columns = { "sym-0.4" = "a", "sym-0.40" = "b" }',
            "'sym-0.4' stands twice among its columns",
        ),
    ],
)
def test_a_slip_is_told_with_its_place_and_the_nearest_name(write, old, new, message):
    assert old in GOOD
    path = write(GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=re.escape(message)):
        load(path).cells()


def test_a_noise_may_be_spelt_in_any_way_that_can_be_read(write):
    """Runs are recorded, and the paper's columns called, by one spelling."""
    path = write(
        'dataset = "cifar10"\npublished = "cifar10"\nnoises = ["sym-0.40", "asym-.2"]\nseeds = [1]\n'
        'methods = [{ label = "CE", loss = "ce" }]\ncolumns = { "asym-0.20" = "sym-0.8" }\n'
    )
    grid = load(path)
    assert grid.noises == ("sym-0.4", "asym-0.2")
    assert (grid.column("sym-0.40"), grid.column("asym-0.2")) == ("sym-0.4", "sym-0.8")
    assert [cell.noise for cell in grid.cells()] == [cell.config.noise for cell in grid.cells()]
    assert [noise for _, noise in grid.narrowed(cells=["ce@sym-.4"]).pairs] == ["sym-0.4"]
    found = gathered_of(grid, lambda cell: 50.0)
    assert found.only_of_the_grid(methods=True, noises=True).results == found.results
    table = table_of(found)
    assert table.noises == ("sym-0.4", "asym-0.2")
    assert all(cell.ours is not None and cell.published is not None for cell in table.cells.values())


def test_a_grid_takes_what_it_does_not_say_from_the_one_it_is_like(write):
    grid = load(write('like = "cifar10-table"\ndataset = "digits"\nnoises = ["sym-0.4"]\nseeds = [7]\n'))
    table = load("cifar10-table")
    assert (grid.name, grid.title, grid.dataset) == ("mine", "mine", "digits")
    assert (grid.methods, grid.kind, grid.like) == (table.methods, "table", "cifar10-table")
    assert (grid.noises, grid.seeds) == (("sym-0.4",), (7,))
    assert (grid.published, grid.columns) == (None, {}), "numbers of the paper are for its own data"
    assert "precision" in table.settings
    assert "precision" not in grid.settings
    assert {cell.config.dataset for cell in grid.cells()} == {"digits"}


def test_settings_of_a_grid_are_laid_over_those_of_the_one_it_is_like(write):
    text = 'like = "alpha-beta-grid"\ndataset = "digits"\n[settings]\nweight_decay = 0.5\nepochs = 3\n'
    grid = load(write(text))
    assert grid.kind == "alpha-beta"
    assert grid.settings == {"l1": 0.0, "weight_decay": 0.5, "epochs": 3}
    own = load(write(f'{text}[[methods]]\nlabel = "CE"\nloss = "ce"\n'))
    assert [method.label for method in own.methods] == ["CE"]


def test_a_grid_may_be_like_one_that_is_itself_like_another(write):
    grid = load(write('like = "digits-gradients"\ndataset = "fashion-mnist"\nseeds = [1]\n'))
    assert grid.methods == load("gradients").methods
    assert grid.settings == {"gradient_quantiles": True}
    assert grid.like == "digits-gradients"


def test_methods_that_the_other_grid_adds_are_taken_too(write, monkeypatch):
    added = 'like = "gradients"\ndataset = "digits"\nmore_methods = [{ label = "CE", loss = "ce" }]'
    usual = files._shipped
    monkeypatch.setattr(files, "_shipped", lambda name: added if name == "digits-gradients" else usual(name))
    one = 'more_methods = [{ label = "GCE", loss = "gce" }]'
    grid = load(write(f'like = "digits-gradients"\ndataset = "fashion-mnist"\n{one}'))
    assert [method.label for method in grid.methods] == ["ANL-CE", "CE", "GCE"]


def test_a_method_is_compared_with_those_of_a_built_in_grid(write):
    one = '[[more_methods]]\nlabel = "LogitClip"\nloss = "logitclip-ce"\n'
    grid, table = load(write(f'like = "cifar10-table"\ndataset = "cifar10"\n{one}')), load("cifar10-table")
    assert [method.label for method in grid.methods] == [
        *(method.label for method in table.methods),
        "LogitClip",
    ]
    assert (grid.published, grid.columns, grid.settings) == (table.published, table.columns, table.settings)
    own = [cell.config.hash for cell in grid.cells()]
    assert {cell.config.hash for cell in table.cells()} < set(own), (
        "their recorded runs are taken as they are"
    )
    elsewhere = load(write(f'like = "cifar10-table"\ndataset = "digits"\nmethods = []\n{one}'))
    assert [method.label for method in elsewhere.methods] == ["LogitClip"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'dataset = "digits"\nnoises = []\nseeds = []\nmethods = []\nmore_methods = []',
            "grid mine: more_methods goes with like",
        ),
        (
            'like = "gradients"\ndataset = "digits"\nmore_methods = 3',
            "grid mine: expected more_methods to be a list of tables, [[more_methods]], got 3",
        ),
        (
            'like = "gradients"\ndataset = "digits"\nmore_methods = [{ label = "ANL-CE", loss = "ce" }]',
            "grid mine: 'ANL-CE' stands twice among its methods",
        ),
        (
            'like = "cifar10-tabel"\ndataset = "digits"',
            "like in grid mine: unknown name 'cifar10-tabel'; did you",
        ),
        ('like = "mine.toml"\ndataset = "digits"', "like in grid mine: unknown name 'mine.toml'"),
        ("like = 3\ndataset = 'digits'", "like in grid mine: unknown name '3'"),
        ('like = "cifar10-table"', "grid mine: expected dataset, which it does not say"),
        (
            'like = "gradients"\ndataset = "digits"\nsettings = 3',
            "grid mine: expected settings to be a table, got 3",
        ),
    ],
)
def test_slips_in_a_grid_that_is_like_another(write, text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load(write(text))


def test_two_labels_for_one_experiment_are_refused(write):
    again = '\n[[methods]]\nlabel = "CE again"\nloss = "ce"\n'
    with pytest.raises(ValueError, match="'CE' and 'CE again' are the same experiment"):
        load(write(GOOD + again)).cells()


def test_names_and_files_that_are_not_there(tmp_path):
    with pytest.raises(ValueError, match="grid: unknown name 'cifar10-tabel'; did you mean 'cifar10-table'"):
        load("cifar10-tabel")
    with pytest.raises(ValueError, match="grid: cannot read .*No such file"):
        load(str(tmp_path / "none.toml"))
    other = tmp_path / "grid.yaml"
    other.write_text("a: b")
    with pytest.raises(ValueError, match="a file of your own must end in .toml"):
        load(str(other))


def test_narrowing_by_label_loss_noise_and_seed():
    grid = load("cifar10-table")
    assert [m.label for m in grid.narrowed(["Anl-Ce*", "apl"]).methods] == ["APL", "ANL-CE*"]
    assert [m.label for m in load("overfitting-curves").narrowed(["anl-ce"]).methods] == [
        "ANL-CE (w/ L2)",
        "ANL-CE (w/ L1)",
    ]
    assert grid.narrowed(noises=["real", "sym-0.80"]).noises == ("sym-0.8", "real")
    assert grid.narrowed(seeds=[7]).seeds == (7,)
    with pytest.raises(ValueError, match="methods of grid cifar10-table: unknown name 'anl'.*Known: CE, FL"):
        grid.narrowed(["anl"])
    with pytest.raises(ValueError, match="noises of grid cifar10-table: unknown name 'sym-0.5'"):
        grid.narrowed(noises=["sym-0.5"])


def test_narrowing_to_pairs_keeps_what_they_name_and_can_be_narrowed_again():
    grid = load("cifar10-table").narrowed(seeds=[1], cells=["mae@dep-0.4", "CE@real", "ce@dep-0.4"])
    assert ([each.label for each in grid.methods], grid.noises) == (["CE", "MAE"], ("dep-0.4", "real"))
    pairs = [(cell.method.label, cell.noise) for cell in grid.cells()]
    assert pairs == [("CE", "dep-0.4"), ("CE", "real"), ("MAE", "dep-0.4")]
    assert [cell.noise for cell in grid.narrowed(["mae"]).cells()] == ["dep-0.4"]
    once_more = grid.narrowed(cells=["ce@real", "ce@dep-0.4"])
    assert ([each.label for each in once_more.methods], once_more.noises) == (["CE"], ("dep-0.4", "real"))
    assert [cell.noise for cell in once_more.narrowed(cells=["ce@real"]).cells()] == ["real"]
    with pytest.raises(ValueError, match="none of grid cifar10-table is left"):
        grid.narrowed(["mae"], ["real"])


def test_pairs_of_whole_grids_and_of_parts_outside_one_another():
    grid = load("cifar10-table")
    assert len(grid.pairs) == 120
    first = grid.narrowed(cells=["mae@real", "ce@real"])
    with pytest.raises(ValueError, match="unknown name 'dep-0.4'"):
        first.narrowed(cells=["ce@dep-0.4"])
    crossed = grid.narrowed(cells=["mae@real", "ce@clean"])
    with pytest.raises(ValueError, match="is left"):
        crossed.narrowed(cells=["mae@clean"])


def test_a_pair_with_a_noise_from_a_file_is_split_before_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("me@lab").mkdir()
    Path("mine.toml").write_text(
        'dataset = "digits"\nkind = "table"\nnoises = ["file:me@lab/noisy.csv", "clean"]\nseeds = [1]\n'
        '[[methods]]\nlabel = "a@b"\nloss = "ce"\n'
    )
    part = load("mine.toml").narrowed(cells=["a@b@file:me@lab/noisy.csv"])
    assert [(method.label, noise) for method, noise in part.pairs] == [("a@b", "file:me@lab/noisy.csv")]


def test_settings_of_the_narrowed_grid_win_over_all():
    grid = load("overfitting-curves").narrowed(settings={"precision": "float32", "l1": 0.25})
    assert {(cell.config.precision, cell.config.l1) for cell in grid.cells()} == {("float32", 0.25)}
    again = grid.narrowed(settings={"l1": 0.5})
    assert {(cell.config.precision, cell.config.l1) for cell in again.cells()} == {("float32", 0.5)}


def test_a_grid_can_be_made_in_python():
    methods = (Method("one", "ce"), Method("two", "ce", {"learning_rate": 0.5}))
    grid = Grid("mine", "Mine", "digits", "table", methods, ("clean",), (1,))
    assert [cell.config.learning_rate for cell in grid.cells()] == [0.01, 0.5]
