# SPDX-License-Identifier: Apache-2.0
"""Tables: what is bold, ranked, judged and found, against cases worked out by hand."""

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from tests.results.making import gathered_of, grid_of, result_of
from typer.testing import CliRunner

from noiseproof.command_line import table as table_command
from noiseproof.command_line import terminal
from noiseproof.grids import Method, load
from noiseproof.results import TEXT_FORMATS, build_table, gather, table_of, write_results
from noiseproof.training.store import Store

EVIL = '=cmd|"/C calc"!A0'


def table_with(accuracies, noises=("sym-0.6",)):
    """A table of losses whose seeds have these accuracies; None for a run that is missing."""
    most = max(map(len, accuracies.values()))
    grid = grid_of(methods=tuple(accuracies), noises=noises, seeds=tuple(range(1, most + 1)))
    return table_of(gathered_of(grid, lambda cell: accuracies[cell.method.loss][cell.seed - 1]))


def bold(table, noise="sym-0.6"):
    return {method for method in table.methods if table.cells[method, noise].is_bold}


def test_the_best_is_bold_and_so_is_what_it_is_not_shown_to_beat():
    """CE is far behind by the same margin each seed; GCE is ahead once: no interval leaves its sign alone."""
    table = table_with({"ce": (60, 61, 62), "gce": (81, 79, 80), "anl-ce": (80, 81, 82)})
    assert bold(table) == {"ANL-CE", "GCE"}


def test_a_small_but_steady_lead_is_a_lead():
    """+0.5, +0.5, +0.6: mean 0.533, s 0.0577, half-width 4.303·0.0577/√3 = 0.143."""
    table = table_with({"gce": (80, 81, 82), "anl-ce": (80.5, 81.5, 82.6)})
    assert bold(table) == {"ANL-CE"}


def test_nothing_is_bold_with_few_seeds_nor_beside_a_higher_single_seed():
    assert bold(table_with({"ce": (60, 61, None), "anl-ce": (80, 81, None)})) == set()
    assert bold(table_with({"ce": (60, None, None), "anl-ce": (80, None, None)})) == set()
    assert bold(table_with({"ce": (60, 61, 62), "gce": (70, 71, 72), "anl-ce": (90, None, None)})) == set()
    table = table_with({"ce": (60, 61, 62), "gce": (70, 71, 72.5), "anl-ce": (10, None, None)})
    assert bold(table) == {"GCE"}
    assert any(rule.startswith("Bold:") for rule in table.rules())


def test_seeds_are_paired_only_where_both_have_them():
    """They share three of four, by which neither is ahead."""
    table = table_with({"gce": (50, 80, 81, 82, None), "anl-ce": (None, 81, 80, 82, 90)})
    assert bold(table) == {"GCE", "ANL-CE"}


def test_a_second_one_is_bold_only_by_three_shared_seeds_or_more():
    """Of two, or none, no interval could say that it is beaten by thirty points."""
    for accuracies in (
        {"gce": (50, 51, 52, None, None, None), "anl-ce": (None, None, None, 80, 81, 82)},
        {"gce": (50, 51, 52, None), "anl-ce": (None, 80, 99, 82)},
    ):
        table = table_with(accuracies)
        assert bold(table) == {"ANL-CE"}
        assert any("three shared seeds or more" in rule for rule in table.rules())


def test_means_that_only_rounding_parts_share_rank_and_bold():
    """On 359 test images these are (354 + 353 + 353) and (353.67 · 3) right ones: 98.5144 and 98.51436̅."""
    first, second = (98.8858, 98.3287, 98.3287), (98.6072, 98.6072, 98.3287)
    for order in (("gce", "alf"), ("alf", "gce")):
        table = table_with(dict(zip(order, (first, second), strict=True)) | {"ce": (10, 11, 12)})
        assert [table.cells[method, "sym-0.6"].rank for method in table.methods] == [1.5, 1.5, 3.0]
        assert bold(table) == {"GCE", "ALF"}
    steady = table_with({"gce": (80, 81, 82), "anl-ce": (80.0001, 81.0001, 82.0001)})
    assert bold(steady) == {"GCE", "ANL-CE"}, "a lead as small as rounding is none"


def test_ranks_count_whole_columns_only():
    accuracies = {"ce": 60.0, "gce": 70.0, "anl-ce": 80.0}
    grid = grid_of(methods=tuple(accuracies), noises=("clean", "sym-0.6"), seeds=(1,))
    gathered = gathered_of(
        grid,
        lambda cell: (
            None if (cell.method.loss, cell.noise) == ("ce", "clean") else accuracies[cell.method.loss]
        ),
    )
    table = table_of(gathered)
    assert [table.mean_rank(method) for method in table.methods] == [3.0, 2.0, 1.0]
    assert table.cells["GCE", "clean"].rank == 2.0
    assert table.whole_columns == ("sym-0.6",)
    assert table.reference() == "ANL-CE"
    assert table.notes == ("5 of 6 runs of the grid are recorded.",)


def test_the_papers_numbers_stand_beside_ours():
    grid = load("cifar10-table").narrowed(["ce", "anl-ce"], ["sym-0.8"], [1])
    table = table_of(gathered_of(grid, lambda cell: 62.92 if cell.method.loss == "anl-ce" else 19.49))
    cell = table.cells["ANL-CE", "sym-0.8"]
    # One seed: 2·√(0.55² + 0.55²/3) = 1.270; 62.92 − 61.27 = 1.65 is more.
    assert (cell.difference, round(cell.tolerance, 3), cell.verdict) == (1.65, 1.27, "outside")
    assert table.cells["CE", "sym-0.8"].verdict == "within"
    assert table.verdicts == (1, 2)


def test_columns_have_the_papers_names():
    grid = load("animal10n-table").narrowed(seeds=[1])
    table = table_of(gathered_of(grid, lambda cell: 80.0))
    assert table.cells["GCE", "clean"].published.mean == 80.39


def test_runs_of_a_folder_are_found_by_their_hash(tmp_path):
    grid = grid_of(seeds=(1, 2))
    finished, failed, other, _ = grid.cells()
    with Store(tmp_path) as store:
        for cell in (finished, failed):
            store.begin(
                cell.config.run_id, cell.config.as_data(), cell.config.hash, {}, {"realised_rate": 0.6}
            )
            store.record_epoch(cell.config.run_id, 0, {"test_accuracy": 71.5}, 1.0)
        store.finish(finished.config.run_id, {"test_accuracy": 71.5})
        store.fail(failed.config.run_id, "it broke")
    gathered = gather(grid, folder=tmp_path)
    assert [(r.method, r.seed, r.score) for r in gathered.results] == [("CE", 1, 71.5)]
    assert [(f.method, f.error) for f in gathered.failures] == [("ANL-CE", "it broke")]
    assert (gathered.expected, gathered.missing) == (4, 3)
    file = tmp_path / "file.jsonl"
    write_results(file, [result_of(other, 44.0), result_of(finished, 72.0)])
    both = gather(grid, folder=tmp_path, files=[file])
    assert [r.score for r in both.results] == [72.0, 44.0]  # the file's counts
    write_results(tmp_path / "other.jsonl", [replace(result_of(finished, 33.0), config_hash="0" * 16)])
    other_settings = gather(grid, folder=tmp_path, files=[tmp_path / "other.jsonl"])
    assert [r.score for r in other_settings.results] == [71.5]  # but not that of another config
    assert (other_settings.other_config, other_settings.left_out) == (0, 1)


def test_a_line_is_found_by_method_noise_and_seed_when_its_hash_is_of_another_day(tmp_path):
    grid = grid_of(seeds=(1,))
    first, second = grid.cells()
    file = tmp_path / "file.jsonl"
    old = replace(result_of(first, 70.0), config_hash="0" * 16, method=first.config.loss)
    doubled = replace(old, config_hash="1" * 16, variant="bf16")
    foreign = replace(old, config_hash="2" * 16, dataset="cifar10")
    extra = replace(old, config_hash="3" * 16, method="mine", loss="mae")
    write_results(file, [doubled, old, foreign, extra, result_of(second, 60.0)])
    gathered = gather(grid, files=[file])
    assert [(r.method, r.score, r.variant) for r in gathered.results] == [
        ("CE", 70.0, None),
        ("ANL-CE", 60.0, None),
        ("mine", 70.0, None),
    ]
    assert (gathered.other_config, gathered.left_out, gathered.missing) == (1, 2, 0)
    table = table_of(gathered)
    assert table.methods == ("CE", "ANL-CE", "mine")
    assert len(table.notes) == 2


def test_a_copy_of_a_line_is_not_a_second_run(tmp_path):
    grid = grid_of(seeds=(1,))
    lines = [result_of(cell, 70.0) for cell in grid.cells()]
    files = [tmp_path / "all.jsonl", tmp_path / "part-1.jsonl", tmp_path / "again.jsonl"]
    for file, held in zip(files, (lines, lines[:1], [replace(lines[1], score=60.0)]), strict=True):
        write_results(file, held)
    assert gather(grid, files=files[:2]).left_out == 0
    gathered = gather(grid, files=files)
    assert (gathered.left_out, [each.score for each in gathered.results]) == (1, [70.0, 70.0])


def test_other_seeds_of_a_part_of_a_grid_have_no_other_config(tmp_path):
    whole = grid_of(seeds=(1, 2))
    file = tmp_path / "file.jsonl"
    write_results(file, [result_of(cell, 70.0) for cell in whole.cells()])
    part = gather(whole.narrowed(seeds=[1]), files=[file])
    assert (part.other_config, part.left_out, part.missing, len(part.results)) == (0, 0, 0, 4)


def test_a_line_of_another_config_never_joins_a_cell_that_has_its_own(tmp_path):
    """Seed 2 was trained for 30 epochs, seed 1 for the grid's 4: their mean would be of two experiments."""
    grid = grid_of(methods=("ce",), seeds=(1, 2))
    longer = grid.narrowed(settings={"epochs": 30})
    file = tmp_path / "file.jsonl"
    write_results(file, [result_of(grid.cells()[0], 50.0), result_of(longer.cells()[1], 90.0)])
    for part in (grid, grid.narrowed(seeds=[1]), grid.narrowed(seeds=[2])):
        gathered = gather(part, files=[file])
        assert [(each.seed, each.score) for each in gathered.results] == [(1, 50.0)]
        assert (gathered.other_config, gathered.left_out) == (0, 1)
        assert any("other data or other settings" in note for note in table_of(gathered).notes)


def test_every_line_of_another_config_that_is_shown_is_told(tmp_path):
    """Also one whose seed the grid does not have, until that seed is left out."""
    grid = grid_of(methods=("ce",), seeds=(1,))
    longer = grid.narrowed(seeds=[1, 7])
    file = tmp_path / "file.jsonl"
    lines = [result_of(cell, 70.0) for cell in longer.narrowed(settings={"epochs": 30}).cells()]
    write_results(file, lines)
    gathered = gather(grid, files=[file])
    assert [each.seed for each in gathered.results] == [1, 7]
    assert gathered.other_config == 2
    assert any(note.startswith("2 runs were recorded with a config") for note in table_of(gathered).notes)
    assert gathered.only_of_the_grid(seeds=True).other_config == 1


def test_numbers_of_runs_without_what_was_said_are_not_shown_as_if_they_had_it(tmp_path):
    grid = grid_of(methods=("ce", "gce"), seeds=(1,))
    file = tmp_path / "file.jsonl"
    extra = replace(result_of(grid.cells()[0], 70.0), method="mine", loss="mae", config_hash="1" * 16)
    write_results(file, [*(result_of(cell, 70.0) for cell in grid.cells()), extra])
    for said in ({"epochs": 30}, {"precision": "bf16"}, {"loss_parameters": {"q": 0.5}}):
        methods = ["gce"] if "loss_parameters" in said else None
        gathered = gather(grid.narrowed(methods, settings=said), files=[file])
        assert (gathered.results, gathered.left_out) == ((), 3)
    # What was said and a config of another day: still shown.
    said = grid.narrowed(settings={"epochs": 30, "device": "cpu"})
    old = [replace(result_of(cell, 71.0), config_hash=f"{n:016}") for n, cell in enumerate(said.cells())]
    write_results(file, old)
    gathered = gather(said, files=[file])
    assert [each.score for each in gathered.results] == [71.0, 71.0]
    assert (gathered.other_config, gathered.left_out) == (2, 3)


def test_runs_that_the_grid_does_not_have_can_be_left_out(tmp_path):
    grid = grid_of(seeds=(1,))
    own = result_of(grid.cells()[0], 70.0)
    others = [
        replace(own, config_hash="1" * 16, method="mine", loss="mae"),
        replace(own, config_hash="2" * 16, noise="asym-0.1"),
        result_of(grid.narrowed(seeds=[7]).cells()[0], 70.0),
    ]
    file = tmp_path / "file.jsonl"
    write_results(file, [own, *others])
    gathered = gather(grid, files=[file])
    assert len(gathered.results) == 4
    assert gathered.only_of_the_grid(methods=True, noises=True, seeds=True).results == gathered.results[:1]
    by_seed = gathered.only_of_the_grid(seeds=True).results
    assert [(each.method, each.noise) for each in by_seed] == [
        (each.method, each.noise) for each in gathered.results if each.seed == 1
    ]


def hostile_table():
    grid = grid_of(
        methods=(Method(EVIL.replace(",", ""), "ce"), Method("50%_of <b> | *x* $a$ \\input{x} δ", "anl-ce"))
    )
    return table_of(gathered_of(grid))


def test_csv_can_be_read_back_and_runs_nothing():
    rows = list(csv.DictReader(io.StringIO(TEXT_FORMATS["csv"](hostile_table(), True))))
    assert [row["method"] for row in rows] == ["'" + EVIL, "50%_of <b> | *x* $a$ \\input{x} δ"]
    assert (rows[0]["mean"], rows[0]["std"], rows[0]["seeds"]) == ("52", "1", "3")
    assert len(rows[0]["runs"].split()) == 3
    table = table_of(gathered_of(load("cifar10-table").narrowed(["ce"], ["clean"], [1]), lambda cell: 80.0))
    (row,) = csv.DictReader(io.StringIO(TEXT_FORMATS["csv"](table, True)))
    assert row["difference"] == "-10.38"  # a number stays one
    assert "published mean" not in TEXT_FORMATS["csv"](table, False)


def test_markdown_is_a_table_in_which_nothing_is_markup():
    text = TEXT_FORMATS["markdown"](hostile_table(), True)
    head, rule, *rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in (head, rule, *rows)]
    assert {len(each) for each in cells} == {3}
    assert r"\<b\> \| \*x\*" in text
    assert "52.00 ± 1.00 (3)" in text


def check_latex(text):
    """Braces and environments are balanced, and every row of the table has as many cells as its columns."""
    plain = re.sub(r"(?<!\\)%.*", "", text)
    plain_braces = re.sub(r"\\[{}]", "", plain)
    depth = 0
    for mark in re.findall(r"[{}]", plain_braces):
        depth += 1 if mark == "{" else -1
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\begin\{(\w+)\}", plain) == list(reversed(re.findall(r"\\end\{(\w+)\}", plain)))
    assert len(re.findall(r"(?<!\\)\$", plain)) % 2 == 0
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", plain)[1])
    body = plain[plain.index(r"\toprule") : plain.index(r"\bottomrule")]
    rows = [row for row in body.split(r"\\" + "\n") if "&" in row]
    assert rows
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {columns - 1}


def test_latex_is_well_formed():
    check_latex(TEXT_FORMATS["latex"](hostile_table(), True))
    assert r"\textbackslash{}input\{x\} $\delta$" in TEXT_FORMATS["latex"](hostile_table(), True)
    table = table_of(gathered_of(load("cifar10-table"), lambda cell: 50.0 + cell.seed))
    text = TEXT_FORMATS["latex"](table, True)
    check_latex(text)
    assert text.isascii()
    assert text.count("paper}") == 12
    assert r"\toprule" in text
    assert "paper}" not in TEXT_FORMATS["latex"](table, False)


def test_a_label_at_the_head_of_a_latex_row_is_no_option_of_the_line_break():
    labels = ("[1cm] first", "*starred", "plain [x]")
    table = build_table(
        grid_of(methods=[Method(label, "ce", {"l1": n}) for n, label in enumerate(labels)]), []
    )
    text = TEXT_FORMATS["latex"](table, True)
    assert "\n{}[1cm] first &" in text
    assert "\n{}*starred &" in text
    assert "\nplain [x] &" in text


def test_without_the_papers_numbers_nothing_is_said_of_them():
    table = table_of(gathered_of(load("cifar10-table"), lambda cell: 50.0 + cell.seed))
    for form in ("markdown", "latex"):
        with_them, without = (TEXT_FORMATS[form](table, said) for said in (True, False))
        assert "published spread" in with_them
        assert "paper" not in without
        assert "published" not in without
    assert set(table.agreement_in_words) <= set(table.rules())
    assert not set(table.agreement_in_words) & set(table.rules(with_published=False))


def test_an_empty_table_is_one():
    table = build_table(grid_of(), [])
    assert table.is_empty
    for write in TEXT_FORMATS.values():
        assert "ANL-CE" in write(table, True)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOISEPROOF_RUNS", raising=False)
    app = typer.Typer()
    app.command("table", epilog=table_command.EPILOG)(table_command.table)
    app.command("other")(lambda: None)
    return lambda *words: CliRunner().invoke(app, ["table", *map(str, words)])


@pytest.fixture
def recorded(tmp_path):
    grid = load("cifar10-table").narrowed(["ce", "anl-ce"], ["sym-0.6", "sym-0.8"], [1, 2])
    path = tmp_path / "records.jsonl"
    write_results(path, gathered_of(grid, lambda cell: 60.0 + cell.seed).results)
    return path


def test_the_command_prints_the_table(run, recorded):
    done = run("cifar10-table", "--from", recorded)
    assert done.exit_code == 0, done.output
    assert "61.50 ± 0.71 (2)" in done.output
    assert "61.27 +0.23" in done.output
    assert "8 of 360 runs of the grid are recorded." in done.output
    assert "61.27" not in run("cifar10-table", "--from", recorded, "--no-published").output


def test_the_command_writes_files(run, recorded):
    assert run("cifar10-table", "--from", recorded, "--format", "latex", "--out", "new/t.tex").exit_code == 0
    check_latex(Path("new/t.tex").read_text())
    printed = run("cifar10-table", "--from", recorded, "--format", "csv").output
    assert len(list(csv.reader(io.StringIO(printed)))) == 121


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cifar10-tabel",), "cifar10-table"),
        (
            ("digits-table",),
            "no finished run of digits-table in runs; train some with: noiseproof bench digits-table",
        ),
        (("digits-table", "--from", "nowhere.jsonl"), "nowhere.jsonl"),
        (("cifar10-table", "--from", "records.jsonl", "--out", "x"), "--format markdown"),
    ],
)
def test_a_mistake_is_one_line(run, recorded, words, message):
    done = run(*words)
    assert done.exit_code == 2
    assert message in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_a_narrow_terminal_gets_the_table_in_parts(run, recorded, monkeypatch):
    monkeypatch.setattr(terminal, "PIPED_WIDTH", 60)
    output = run("cifar10-table", "--from", recorded).output
    heads = [line for line in output.splitlines() if line.strip().startswith("method")]
    assert len(heads) > 1
    assert " ".join(heads).count("sym-0.8") == 1
    table_lines = output[: output.index("Second line")].splitlines()
    assert max(map(len, table_lines)) <= 60


def test_a_label_cannot_steer_the_terminal(run, tmp_path):
    grid = tmp_path / "g.toml"
    grid.write_text(
        'dataset = "digits"\nnoises = ["clean"]\nseeds = [1]\n'
        '[[methods]]\nlabel = "\\u001b[31mred [bold]"\nloss = "ce"\n'
    )
    write_results(tmp_path / "r.jsonl", gathered_of(load(str(grid))).results)
    output = run(str(grid), "--from", tmp_path / "r.jsonl").output
    assert "\x1b[31m" not in output
    assert "\\x1b[31mred [bold]" in output
    assert json.loads((tmp_path / "r.jsonl").read_text())["method"].startswith("\x1b")
