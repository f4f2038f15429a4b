# SPDX-License-Identifier: Apache-2.0
"""Every shipped grid: it expands, its configs resolve, and its numbers are the paper's."""

import json
from itertools import product
from pathlib import Path

import pytest

from noiseproof.grids import KINDS, load, names
from noiseproof.losses import record

PUBLISHED = Path(__file__).parents[3] / "shared" / "paper" / "published-tables.json"
TEN = (
    "clean",
    *("sym-0.2", "sym-0.4", "sym-0.6", "sym-0.8"),
    *("asym-0.2", "asym-0.4", "dep-0.2", "dep-0.4"),
    "real",
)
STRENGTHS = (1e-7, 5e-7, 1e-6, 5e-6, 1e-5, 5e-5, 1e-4)
ADDED = {"isic-table": {"CE"}}
"""Methods that the paper's table does not have."""

RUNS = {
    "cifar10-table": 12 * 10 * 3,
    "cifar100-table": 12 * 10 * 3,
    "webvision-table": 7,
    "animal10n-table": 3 * 3,
    "clothing1m-table": 4,
    "cifar10-parts": 3 * 5 * 3,
    "overfitting-curves": 5,
    "overfitting-curves-cifar100": 5,
    "marginals": 2,
    "regularisers-anl": 1 + 3 * 7,
    "regularisers-apl": 1 + 3 * 7,
    "gradients": 2,
    "alpha-beta-grid": 25,
    "cifar10-beyond": 4 * 10 * 3,
    "cifar100-beyond": 4 * 10 * 3,
    "cifar10-alternatives": 7 * 13 * 3,
    "cifar10-precision": 6 * 2 * 3,
    "cifar10-lost-classes": 7 * 3 * 8,
    "digits-table": 12 * 6 * 3,
    "digits-parts": 3 * 5 * 3,
    "digits-beyond": 4 * 6 * 3,
    "digits-overfitting": 5,
    "digits-marginals": 2,
    "digits-gradients": 2,
    "digits-regularisers-anl": 1 + 3 * 7,
    "digits-regularisers-apl": 1 + 3 * 7,
    "digits-alpha-beta": 25,
    "fashion-table": 8 * 3 * 2,
    "isic-table": 7 * 7 * 3,
    "isic-tuning": 2 + 5 * 3,
    "isic-alternatives": (5 + 5 + 2 + 2 + 2) * 2,
}


def test_these_grids_are_shipped():
    assert set(names()) == set(RUNS)


@pytest.mark.parametrize("name", names())
def test_every_config_of_a_shipped_grid_resolves(name):
    grid = load(name)
    cells = grid.cells()
    assert len(cells) == RUNS[name]
    assert len({cell.config.hash for cell in cells}) == len(cells)
    assert grid.kind in KINDS
    assert grid.title != grid.name
    for cell in cells:
        config = cell.config
        assert record(config.loss).name == config.loss
        assert (config.dataset, config.noise, config.seed) == (grid.dataset, cell.noise, cell.seed)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells), "one seed after another"


@pytest.mark.parametrize("name", [name for name in names() if load(name).published])
def test_labels_and_columns_are_those_of_the_paper(name):
    if not PUBLISHED.exists():
        pytest.skip("the paper's tables are not beside this checkout")
    grid = load(name)
    table = json.loads(PUBLISHED.read_text())["tables"][grid.published]
    methods = [method for method in grid.methods if method.label not in ADDED.get(name, set())]
    assert [method.label for method in methods] == list(table)
    for method in methods:
        columns = [grid.column(noise) for noise in grid.noises]
        assert set(columns) <= set(table[method.label])
        if name != "webvision-table":  # whose other column is another set of test pictures
            assert columns == list(table[method.label])


def test_every_table_of_the_paper_has_a_grid():
    if not PUBLISHED.exists():
        pytest.skip("the paper's tables are not beside this checkout")
    tables = set(json.loads(PUBLISHED.read_text())["tables"])
    assert {load(name).published for name in names()} - {None} == tables


def config_of(name, label, noise=None):
    grid = load(name)
    found = [
        cell.config
        for cell in grid.cells()
        if cell.method.label == label and cell.noise == (noise or grid.noises[0]) and cell.seed == 1
    ]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("name", "label", "parameters", "l1", "weight_decay"),
    [
        ("cifar10-table", "SCE", {"alpha": 0.1, "beta": 1}, 0, 1e-4),
        ("cifar10-table", "PHCE", {"tau": 2}, 0, 1e-4),
        ("cifar10-table", "ALF", {"alpha": 1, "beta": 4, "a": 6, "q": 1.5}, 0, 1e-4),
        ("cifar10-table", "ANL-FL", {"alpha": 5, "beta": 5, "gamma": 0.5}, 5e-5, 0),
        ("cifar10-table", "ANL-CE*", {"alpha": 5, "beta": 5, "entropy_weight": 2}, 5e-5, 0),
        ("cifar100-table", "APL", {"alpha": 10, "beta": 0.1}, 0, 1e-5),
        ("cifar100-table", "TCE", {"t": 8}, 0, 1e-5),
        ("cifar100-table", "ANL-CE*", {"alpha": 10, "beta": 1, "entropy_weight": 0.01}, 5e-7, 0),
        ("webvision-table", "ALF", {"alpha": 50, "beta": 0.1, "a": 2.5, "q": 3}, 0, 3e-5),
        ("webvision-table", "ANL-CE", {"alpha": 20, "beta": 1}, 6e-6, 0),
        ("animal10n-table", "CE", {}, 0, 1e-3),
        ("animal10n-table", "GCE", {"q": 0.5}, 0, 1e-4),
        ("animal10n-table", "ANL-CE", {"alpha": 0.5, "beta": 1}, 1e-6, 0),
        ("clothing1m-table", "GCE", {"q": 0.6}, 0, 1e-3),
        ("clothing1m-table", "APL", {"alpha": 10, "beta": 1}, 0, 1e-3),
        ("clothing1m-table", "ANL-CE", {"alpha": 5, "beta": 0.1}, 0, 1e-3),
        ("cifar10-parts", "NCE", {"alpha": 5, "beta": 0}, 5e-5, 0),
        ("cifar10-parts", "NNCE", {"alpha": 0, "beta": 5}, 5e-5, 0),
        ("overfitting-curves", "ANL-CE (w/ L2)", {"alpha": 5, "beta": 5}, 0, 1e-4),
        ("overfitting-curves", "ANL-CE (w/ L1)", {"alpha": 5, "beta": 5}, 5e-5, 0),
        ("overfitting-curves-cifar100", "ANL-CE (w/ L2)", {"alpha": 10, "beta": 1}, 0, 1e-5),
        ("regularisers-anl", "none", {"alpha": 5, "beta": 5}, 0, 0),
        ("regularisers-anl", "L2 δ=5e-6", {"alpha": 5, "beta": 5}, 0, 5e-6),
        ("regularisers-anl", "L1 δ=1e-4", {"alpha": 5, "beta": 5}, 1e-4, 0),
        ("regularisers-apl", "L2 δ=1e-7", {"alpha": 1, "beta": 1}, 0, 1e-7),
        ("regularisers-apl", "L1 δ=1e-5", {"alpha": 1, "beta": 1}, 1e-5, 0),
        ("regularisers-apl", "ANL-CE", {"alpha": 5, "beta": 5}, 5e-5, 0),
        ("alpha-beta-grid", "α=0.1 β=10", {"alpha": 0.1, "beta": 10}, 0, 1e-4),
        ("marginals", "ANL-CE*", {"alpha": 5, "beta": 5, "entropy_weight": 2}, 5e-5, 0),
        ("cifar10-beyond", "JAL-CE", {"alpha": 1, "beta": 1, "a": 30}, 5e-5, 0),
        ("cifar100-beyond", "JAL-CE", {"alpha": 5, "beta": 1, "a": 20}, 5e-6, 0),
        ("cifar10-alternatives", "ANL-FL (true gradient)", {"alpha": 5, "detach_modulator": False}, 5e-5, 0),
    ],
)
def test_numbers_are_the_specified_ones(name, label, parameters, l1, weight_decay):
    config = config_of(name, label)
    assert {key: config.loss_parameters[key] for key in parameters} == parameters
    assert (config.l1, config.weight_decay) == (l1, weight_decay)


@pytest.mark.parametrize(
    ("name", "epochs", "learning_rate", "batch_size", "model"),
    [
        ("cifar10-table", 120, 0.01, 128, "cnn8"),
        ("cifar100-table", 200, 0.1, 128, "resnet34-cifar"),
        ("webvision-table", 250, 0.4, 512, "resnet50"),
        ("animal10n-table", 100, 0.1, 128, "vgg19-bn"),
        ("clothing1m-table", 10, 1e-3, 32, "resnet50"),
        ("alpha-beta-grid", 120, 0.01, 128, "cnn8"),
    ],
)
def test_schedules_are_the_data_sets_own(name, epochs, learning_rate, batch_size, model):
    for cell in load(name).cells():
        config = cell.config
        assert (config.epochs, config.learning_rate) == (epochs, learning_rate)
        assert (config.batch_size, config.model, config.precision) == (batch_size, model, "bf16")


def test_ranges_are_whole():
    for name, kinds in (
        ("regularisers-anl", {"L2": "weight_decay", "L1": "l1", "Jacobian": "jacobian"}),
        ("regularisers-apl", {"L2": "weight_decay", "L1": "l1", "Jacobian": "jacobian"}),
    ):
        cells = load(name).cells()
        for kind, field in kinds.items():
            chosen = [cell.config for cell in cells if cell.method.label.startswith(f"{kind} ")]
            assert [getattr(config, field) for config in chosen] == list(STRENGTHS)
            for other in set(kinds.values()) - {field}:
                assert {getattr(config, other) for config in chosen} == {0.0}
    weights = [0.1, 0.5, 1.0, 5.0, 10.0]
    found = [cell.config.loss_parameters for cell in load("alpha-beta-grid").cells()]
    assert [(each["alpha"], each["beta"]) for each in found] == list(product(weights, weights))


def test_noises_are_the_papers():
    for name in ("cifar10-table", "cifar100-table", "cifar10-beyond", "cifar100-beyond"):
        assert load(name).noises == TEN
    assert load("overfitting-curves").noises == ("sym-0.8",)
    assert load("overfitting-curves-cifar100").noises == ("sym-0.6",)
    assert load("marginals").noises == ("asym-0.4",)
    assert load("gradients").noises == ("sym-0.6", "sym-0.8")
    assert all(cell.config.gradient_quantiles for cell in load("gradients").cells())


def test_losses_beyond_the_paper_follow_their_authors_by_noise():
    assert config_of("cifar10-beyond", "LogitClip", "sym-0.8").loss_parameters["bound"] == 1.5
    assert config_of("cifar10-beyond", "LogitClip", "real").loss_parameters["bound"] == 2.5
    softmax = config_of("cifar10-beyond", "ε-softmax CE+MAE", "dep-0.4").loss_parameters
    assert (softmax["alpha"], softmax["beta"], softmax["m"]) == (0.045, 10, 1e5)


def test_alternatives_stand_beside_the_tables_own_runs():
    table = {cell.config.hash for cell in load("cifar10-table").cells()}
    shared = [cell for cell in load("cifar10-alternatives").cells() if cell.config.hash in table]
    assert {(cell.method.label, cell.noise) for cell in shared} == set(
        product(("CE", "FL", "ANL-CE", "ANL-FL"), ("sym-0.4", "sym-0.8", "asym-0.4", "dep-0.2", "dep-0.4"))
    )


def test_alternatives_for_masks_stand_beside_the_tables_own_runs():
    table = {cell.config.hash: cell.method.label for cell in load("isic-table").cells()}
    cells = load("isic-alternatives").cells()
    assert {cell.method.label for cell in cells if table.get(cell.config.hash) == cell.method.label} == {
        "CE",
        "GCE",
        "APL",
        "T-Loss",
        "ANL-CE",
    }
    for cell in cells:
        _, _, changed = cell.method.label.partition(" (")
        config = cell.config
        assert (config.hash in table) == (not changed)
        assert config.augment == ("none" if changed == "not augmented)" else None)
        slowly = changed == "×0.8 every 10 epochs)"
        first = 3e-3 if changed == "learning rate 0.003)" else 1e-3
        rates = [config.learning_rate_at(epoch) for epoch in (0, 10, 99)]
        assert rates == pytest.approx([0.8 ** (n // 10 if slowly else n) * first for n in (0, 10, 99)])


def test_reading_a_grid_needs_no_data(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "nothing here"))
    for name in names():
        assert load(name).cells()
    assert not list(tmp_path.iterdir())
