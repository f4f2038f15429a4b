# SPDX-License-Identifier: Apache-2.0
"""tools/evidence.py: which runs are asked for, and that they are trained once, in order, within the time."""

import importlib.util
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import warm

from noiseproof.grids import load
from noiseproof.results import read_records, write_results

TOOLS = Path(__file__).parents[2] / "tools"
pytestmark = pytest.mark.skipif(not TOOLS.is_dir(), reason="tools/ is not part of an installed package")

GRID = 'dataset = "digits"\nkind = "table"\nnoises = ["clean"]\nseeds = [1, 2]\n'
GRID += '[settings]\nepochs = 2\ntrain_size = 200\ndevice = "cpu"\n'
GRID += '[[methods]]\nlabel = "CE"\nloss = "ce"\n[[methods]]\nlabel = "MAE"\nloss = "mae"\n'


@pytest.fixture
def evidence(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    spec = importlib.util.spec_from_file_location("evidence", TOOLS / "evidence.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "evidence", module)
    spec.loader.exec_module(module)
    return module


def test_the_slices_are_the_runs_that_are_wanted(evidence):
    hashes = {piece.name: piece.hashes() for piece in evidence.SLICES}
    table = hashes["cifar10-1"] | hashes["cifar10-2"] | hashes["cifar10-3"]
    assert (len(hashes["cifar10-1"]), len(table)) == (120, 220)
    assert table < hashes["cifar10-all"]
    assert len(hashes["cifar10-all"]) == 360
    assert (len(hashes["isic-tuning"]), len(hashes["isic-1"]), len(hashes["isic-all"])) == (17, 49, 147)
    assert len(hashes["cifar100-1"]) == 9
    assert len(hashes["outside"]) == 28
    assert hashes["outside"] < hashes["cifar10-all"] - table
    assert hashes["cifar100-1"] < hashes["cifar100-more"]
    for piece in evidence.SLICES:
        shared = {cell.config.hash for grid in piece.others for cell in load(grid).cells()}
        assert not piece.others or hashes[piece.name] & shared, f"{piece.name} shares nothing"


def start_warm(command, check):
    """The tool's commands, in processes that need not import torch."""
    assert (command[0], check) == (sys.executable, False)
    done = warm.run(command[1:])
    print(done.stdout + done.stderr)
    return done


def test_slices_are_trained_in_turn_and_once(evidence, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(GRID)
    first = evidence.Slice("first", "mine.toml", methods="MAE", seeds="2")
    rest = evidence.Slice("rest", "mine.toml")
    elsewhere = evidence.Slice("elsewhere", "webvision-table")
    results, folder = Path("results"), Path("runs")
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(evidence, "subprocess", SimpleNamespace(run=start_warm))

    assert evidence.train([first, elsewhere], results, folder, evidence.Limits()) == 0
    told = capfd.readouterr().out
    assert "first: runs to train: 1" in told
    assert "elsewhere: skipped" in told
    assert {(line.loss, line.seed) for line in read_records(results / "mine.jsonl")} == {("mae", 2)}
    before = (results / "mine.jsonl").read_text()

    short = evidence.Limits(evidence.LEAST_SECONDS - 1)
    assert evidence.train([first, rest], results, folder, short) == 0
    told = capfd.readouterr().out
    assert "Stopped before rest" in told
    assert "$" not in told, "nothing was started"

    shutil.rmtree(folder)  # another machine
    limits = evidence.Limits(600.5, "--stop-after", pack=2)
    assert evidence.train([first, rest], results, folder, limits) == 0
    told = capfd.readouterr().out
    assert "--pack 2 --stop-after 600s" in told
    assert "rest: runs to train: 3" in told
    assert "first:" not in told
    lines = (results / "mine.jsonl").read_text()
    assert lines.startswith(before)
    assert len(read_records(results / "mine.jsonl")) == 4
    evidence.tell([first, rest], results, folder)
    assert "4 of   4" in capfd.readouterr().out


def test_a_run_that_fails_does_not_hold_up_the_slices_after_it(evidence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(GRID)
    pieces = [evidence.Slice(f"seed-{seed}", "mine.toml", seeds=seed) for seed in "12"]

    def started(status):
        """Seeds of the slices that were begun, where the first of them ends so."""
        seeds = []

        def run(command, check):
            seeds.append(command[command.index("--seeds") + 1])
            return SimpleNamespace(returncode=status if len(seeds) == 1 else 0)

        monkeypatch.setattr(evidence, "subprocess", SimpleNamespace(run=run))
        return evidence.train(pieces, Path("results"), Path("runs"), evidence.Limits()), seeds

    assert started(1) == (1, ["1", "2"])
    assert "seed-1: a run failed; going on with the next slice" in capsys.readouterr().out
    for status in (2, 130, -9):
        assert started(status) == (status, ["1"])
    assert started(0) == (0, ["1", "2"])


def test_only_the_slices_that_are_named_are_chosen(evidence):
    def names(only):
        return [piece.name for piece in evidence.chosen(only)]

    assert names("") == [piece.name for piece in evidence.SLICES]
    assert names("parts,") == ["parts"]
    assert names(" marginals , parts") == ["parts", "marginals"]
    assert names("cifar100-1") == ["cifar100-1"]
    assert names("isic-") == ["isic-tuning", "isic-1", "isic-alternatives", "isic-all"]
    with pytest.raises(ValueError, match="no slice begins with prats; there are isic-tuning,"):
        names("parts,prats")


def test_runs_that_lack_what_their_grid_is_about_are_trained_again(evidence, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("pulls.toml").write_text(
        GRID.replace("seeds = [1, 2]", "seeds = [1]").replace('device = "cpu"', "gradient_quantiles = true")
    )
    piece = evidence.Slice("pulls", "pulls.toml")
    monkeypatch.setattr(evidence, "subprocess", SimpleNamespace(run=start_warm))
    results, folder = Path("results"), Path("runs")
    assert evidence.train([piece], results, folder, evidence.Limits()) == 0
    whole, *others = read_records(results / "pulls.jsonl")
    assert evidence.has_all(whole)
    assert len(others) == 1
    half = replace(whole.pulls.floored, clean=(None, *whole.pulls.floored.clean[1:]))
    assert not evidence.has_all(replace(whole, pulls=replace(whole.pulls, floored=half)))
    earlier = replace(whole, pulls=replace(whole.pulls, floored=None))
    write_results(results / "pulls.jsonl", [earlier])
    before = (results / "pulls.jsonl").read_bytes()

    def fails(command, check):
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(evidence, "subprocess", SimpleNamespace(run=fails))
    assert evidence.train([piece], results, folder, evidence.Limits()) == 1
    assert (results / "pulls.jsonl").read_bytes() == before, "nothing is lost where nothing was trained"

    monkeypatch.setattr(evidence, "subprocess", SimpleNamespace(run=start_warm))
    capfd.readouterr()
    assert evidence.train([piece], results, folder, evidence.Limits()) == 0
    assert "pulls: runs to train: 1" in capfd.readouterr().out
    again = {line.config_hash: line for line in read_records(results / "pulls.jsonl")}
    assert len(again) == 2
    assert again[whole.config_hash].pulls == whole.pulls
    assert evidence.train([piece], results, folder, evidence.Limits()) == 0
    assert "runs to train" not in capfd.readouterr().out


def test_what_wins_the_tuning_goes_into_the_recipes_and_the_tuning_stays_whole(
    evidence, tmp_path, monkeypatch
):
    winners = evidence.isic_winners
    recipes = tmp_path / "recipes"
    shutil.copytree(winners.RECIPES, recipes)
    monkeypatch.setattr(winners, "RECIPES", recipes)
    cells = load("isic-tuning").cells()
    lines = []
    for place, cell in enumerate(cells):  # the last candidate of every loss is its best
        config = cell.config.as_data()
        lines.append({"loss": config["loss"], "config": config, "test_dice": float(place)})
    (tmp_path / "tuning.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    winners.main(tmp_path / "tuning.jsonl")
    best = {line["loss"]: line["config"] for line in lines}
    import tomllib

    for name in winners.FILES:
        recipe = tomllib.loads((recipes / name).read_text())
        before = tomllib.loads((Path(evidence.__file__).parents[1] / winners.RECIPES / name).read_text())
        assert {key: value for key, value in recipe.items() if key != "for_loss"} == {
            key: value for key, value in before.items() if key != "for_loss"
        }
        for loss, said in recipe["for_loss"].items():
            assert said.get("loss_parameters", {}) == best[loss]["loss_parameters"]
            assert said.get("l1", 0.0) == best[loss]["l1"]


def test_the_recipes_hold_what_won_on_record(evidence, tmp_path, monkeypatch):
    """Whoever changes either is told."""
    winners = evidence.isic_winners
    before = {name: (winners.RECIPES / name).read_text() for name in winners.FILES}
    recipes = tmp_path / "recipes"
    shutil.copytree(winners.RECIPES, recipes)
    monkeypatch.setattr(winners, "RECIPES", recipes)
    winners.main(Path(__file__).parents[2] / "results" / "isic-tuning.jsonl")
    assert {name: (recipes / name).read_text() for name in winners.FILES} == before
