# SPDX-License-Identifier: Apache-2.0
"""Training on labels that lie in a file: which labels, whose they must be, and what counts as the same run."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.stopping import StopAfter
from typer.testing import CliRunner

from noiseproof import datasets, noise
from noiseproof.command_line import app
from noiseproof.grids import Grid, Method, files
from noiseproof.planning.trials import trial_data
from noiseproof.report import write_report
from noiseproof.results import TEXT_FORMATS, gather, read_records, table_of, write_records
from noiseproof.training import Config, engine, resolve, train
from noiseproof.training.config import MOST_FILE_BYTES, NOT_PART_OF_THE_RESULT, with_changes
from noiseproof.training.data import give_labels, load_data
from noiseproof.training.interruption import Interrupted
from noiseproof.training.run_names import MAX_ID_BYTES, checked_run_id
from noiseproof.training.store import Store

CPU = torch.device("cpu")
TRUE = datasets.load("digits", "train").labels


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def noisy():
    """40% wrong labels of digits, in labels/noisy.npz."""
    os.mkdir("labels")
    made = noise.symmetric(TRUE, 0.4, 10, seed=5)
    made.save("labels/noisy.npz")
    return made


def config_of(path="labels/noisy.npz", dataset="digits", **more):
    return resolve(dataset, noise=f"file:{path}", **{"loss": "ce", "epochs": 1} | more)


def labels_of(config):
    return give_labels(config, load_data(config, CPU))


def begin_and_stop(config, folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engine, "Interruption", lambda: StopAfter(4))
        with pytest.raises(Interrupted):
            train(config, folder=folder, quiet=True)


def test_it_trains_as_the_same_noise_drawn(noisy):
    drawn = resolve("digits", noise="sym-0.4", noise_seed=5, loss="ce", epochs=2, seed=3)
    saved = config_of(epochs=2, seed=3)
    one, two = (train(config, folder=Path(config.run_id), quiet=True) for config in (drawn, saved))
    assert one.result == two.result
    assert saved.run_id.startswith("digits-file-noisy-ce-s3-")
    same = ("realised_rate", "class_rates", "transition", "kind", "seed", "generator", "label_marginals")
    assert {key: two.noise[key] for key in same} == {key: one.noise[key] for key in same}
    assert two.noise["realised_rate"] == noisy.realised_rate
    assert (two.noise["name"], two.noise["file"]) == ("file:noisy", "noisy.npz")


def test_plain_labels_train_too(noisy):
    np.save("given.npy", noisy.labels.astype(np.uint8))
    np.savetxt("given.txt", noisy.labels, fmt="%d")
    for path in ("given.npy", "given.txt"):
        found = labels_of(config_of(path))
        assert found.given.tolist() == noisy.labels.tolist()
        assert found.flipped.tolist() == noisy.flipped.tolist()
        assert found.summary["kind"] == "file"
        np.testing.assert_allclose(found.summary["transition"], noisy.transition, atol=1e-4)


def test_a_part_of_the_data_takes_its_labels_from_the_whole(noisy):
    config = config_of(train_size=300)
    data = load_data(config, CPU)
    assert data.rows.size == 300
    assert np.array_equal(TRUE[data.rows], data.train.labels)
    assert give_labels(config, data).given.tolist() == noisy.labels[data.rows].tolist()


def test_held_out_pictures_keep_their_labels(tmp_path):
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(20):
            pixels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i:02}.png")
    whole = datasets.load("folder:photos", "train")
    made = noise.symmetric(whole.labels, 0.4, 2, seed=1)
    made.save("given.npz")
    config = config_of("given.npz", "folder:photos", model="mlp", learning_rate=0.1, image_size=8)
    data = load_data(config, CPU)
    assert (data.held_out, len(data.train), len(data.test)) == (True, 36, 4)
    found = give_labels(config, data)
    position = {path: i for i, path in enumerate(whole.paths)}
    wanted = [made.labels[position[path]] for path in data.train.paths]
    assert found.given.tolist() == wanted
    true = {"cat": 0, "dog": 1}
    assert data.test.labels.tolist() == [true[path.parent.name] for path in data.test.paths]
    part = load_data(with_changes(config, train_size=10), CPU)
    assert give_labels(config, part).given.tolist() == [
        made.labels[position[path]] for path in part.train.paths
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: noise.symmetric(TRUE[:-1], 0.4, 10, 1),
            "it holds 1437 labels, and there are 1438 clean ones",
        ),
        (
            lambda: noise.symmetric(TRUE[::-1], 0.4, 10, 1),
            "other clean labels, or to the same in another order",
        ),
        (lambda: noise.symmetric(TRUE, 0.4, 12, 1), "made for 12 classes, and the data has 10"),
        (lambda: noise.open_set(TRUE, 0.2, 10, 1, 100), "open-set noise, which puts images of other data"),
    ],
)
def test_what_is_not_for_the_data_is_refused(tmp_path, make, message):
    make().save("noisy.npz")
    with pytest.raises(ValueError, match=message) as refused:
        train(config_of("noisy.npz"), folder=tmp_path / "runs", quiet=True)
    assert str(refused.value).startswith("noise: ")
    if "open-set" not in message:
        assert "the training split of digits: 1438 samples, 10 classes" in str(refused.value)


def test_a_missing_file_is_told_at_once_and_a_cut_one_in_words(tmp_path, noisy, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engine, "load_data", lambda *_: pytest.fail("loaded data first"))
        with pytest.raises(
            FileNotFoundError,
            match=r"noise: no file none\.npz; put it back .*: noiseproof noise digits --out none",
        ):
            train(config_of("none.npz"), folder=tmp_path / "runs", quiet=True)
    whole = (tmp_path / "labels" / "noisy.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"noise: cut\.npz is not a readable file of noisy labels"):
        train(config_of("cut.npz"), folder=tmp_path / "runs", quiet=True)


def test_people_s_labels_of_uncertain_places_are_left_to_real_noise(noisy):
    from dataclasses import replace

    from noiseproof.training.label_noise import draw_noise

    data = replace(datasets.load("digits", "train"), uncertain=np.array([3, 5]))
    noise.NoisyLabels(noisy.labels.copy(), TRUE.copy(), 10, "human").save("human.npz")
    with pytest.raises(ValueError, match="the place of 2 images of digits .* say --noise real"):
        draw_noise(config_of("human.npz"), data)
    assert draw_noise(config_of(), data) == noisy


def test_contents_of_the_file_belong_to_the_run(tmp_path, noisy, monkeypatch):
    before = config_of()
    assert config_of().hash == before.hash
    assert before.inputs is not None
    noise.symmetric(TRUE, 0.4, 10, seed=6).save("labels/noisy.npz")
    assert config_of().hash != before.hash
    noisy.save("labels/noisy.npz")
    assert config_of().hash == before.hash  # saved again, it is the same file
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_of("~/labels/noisy.npz").inputs == before.inputs
    assert with_changes(before, noise="clean").inputs is None
    assert with_changes(resolve("digits"), noise=before.noise).inputs == before.inputs
    assert Config(**json.loads(json.dumps(before.as_data()))).hash == before.hash


def test_one_file_is_one_run_however_its_path_is_written(tmp_path, noisy, monkeypatch):
    config = config_of()
    train(config, folder=tmp_path / "runs", quiet=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    os.makedirs("elsewhere/labels")
    ways = ["./labels/noisy.npz", "labels/../labels/noisy.npz", f"{tmp_path}/labels/noisy.npz"]
    for way in (*ways, "~/labels/noisy.npz"):
        assert (config_of(way).hash, config_of(way).run_id) == (config.hash, config.run_id), way
    monkeypatch.chdir("elsewhere")
    said = ["train", "digits", "--noise", "file:../labels/noisy.npz", "--loss", "ce", "--epochs", "1", "-q"]
    again = CliRunner().invoke(app, [*said, "--folder", "../runs"])
    assert "was already trained" in again.output
    noisy.save("labels/noisy.npz")  # the same labels in another folder
    assert config_of().hash == config.hash
    noise.symmetric(TRUE, 0.4, 10, seed=6).save("labels/noisy.npz")
    assert config_of().hash != config.hash  # others under the same path
    noisy.save("other.npz")
    assert config_of("other.npz").hash != config.hash  # tables call it by another name


@pytest.mark.parametrize("another_lies_there", [False, True])
def test_a_stopped_run_goes_on_from_another_folder(tmp_path, noisy, monkeypatch, another_lies_there):
    config = config_of(epochs=2)
    begin_and_stop(config, tmp_path / "runs", monkeypatch)
    os.makedirs("elsewhere/labels")
    monkeypatch.chdir("elsewhere")
    if another_lies_there:
        noise.symmetric(TRUE, 0.4, 10, seed=6).save("labels/noisy.npz")
    said = ["train", "--resume", config.run_id, "--folder", "../runs", "-q"]
    resumed = CliRunner().invoke(app, said)
    assert resumed.exit_code == 0, resumed.output
    with Store(tmp_path / "runs") as store:
        (record,) = store.runs()
        assert (record.id, record.status, record.progress.epochs) == (config.run_id, "finished", 2)
        assert record.environment["noise_file"] == str(tmp_path / "labels" / "noisy.npz")
        write_records(tmp_path / "all.jsonl", [store.get(record.id)], labels={})
    # Whose folder it is, is nobody's business.
    assert str(tmp_path) not in (tmp_path / "all.jsonl").read_text()


def test_a_stopped_run_does_not_take_another_file_for_its_own(tmp_path, noisy, monkeypatch):
    config = config_of(epochs=2)
    begin_and_stop(config, tmp_path / "runs", monkeypatch)
    noise.symmetric(TRUE, 0.4, 10, seed=6).save("labels/noisy.npz")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    said = ["train", "--resume", config.run_id, "--folder", "../runs", "-q"]
    resumed = CliRunner().invoke(app, said)
    assert resumed.exit_code == 2
    assert f"{tmp_path}/labels/noisy.npz has changed since this run was begun" in resumed.output


def test_runs_from_before_files_were_known_by_contents_load_and_go_on(tmp_path, noisy, monkeypatch):
    now = config_of(epochs=2)
    data = now.as_data() | {"inputs": now.inputs.removeprefix("noise=")}
    before = Config(**data)
    decisive = {key: value for key, value in data.items() if key not in NOT_PART_OF_THE_RESULT}
    assert before.hash == hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()[:16]
    begin_and_stop(before, tmp_path / "runs", monkeypatch)
    resumed = CliRunner().invoke(app, ["train", "--resume", before.run_id, "--folder", "runs", "-q"])
    assert resumed.exit_code == 0, resumed.output
    noise.symmetric(TRUE, 0.4, 10, seed=6).save("labels/noisy.npz")
    with pytest.raises(ValueError, match="has changed since this run was begun"):
        train(with_changes(before, seed=2), folder=tmp_path / "runs", quiet=True)


def test_a_stopped_run_goes_on_with_the_same_file_only(tmp_path, noisy, monkeypatch):
    config = config_of(epochs=2)
    begin_and_stop(config, tmp_path / "runs", monkeypatch)
    noise.symmetric(TRUE, 0.4, 10, seed=6).save("labels/noisy.npz")
    with pytest.raises(ValueError, match=r": labels/noisy\.npz has changed since this run was begun"):
        train(config, folder=tmp_path / "runs", quiet=True)
    os.remove("labels/noisy.npz")
    with pytest.raises(FileNotFoundError, match=r"noise: no file labels/noisy\.npz"):
        train(config, folder=tmp_path / "runs", quiet=True)
    noisy.save("labels/noisy.npz")
    resumed = CliRunner().invoke(app, ["train", "--resume", config.run_id, "--folder", "runs", "-q"])
    assert resumed.exit_code == 0, resumed.output
    whole = train(config, folder=tmp_path / "again", quiet=True)
    with Store(tmp_path / "runs") as store:
        assert store.get(config.run_id).result == whole.result


def test_names_of_runs_stay_short():
    for path in ("x" * 300 + ".npz", "語" * 80 + ".csv", "...npy", " ,\0.txt", "a b/c d.npz"):
        config = Config(f"folder:{'畵' * 40}", "mlp", 1, 0.1, noise=f"file:{path}", seed=2**32 - 1)
        assert len(checked_run_id(config.run_id).encode()) <= MAX_ID_BYTES
    assert Config("digits", "mlp", 1, 0.1, noise="file:a/b c,d.v2.npz").run_id.startswith(
        "digits-file-b-c-d.v2-anl-ce"
    )
    assert MOST_FILE_BYTES < 30


def test_it_can_be_listed_compared_and_predicted_with(tmp_path, noisy):
    run = CliRunner().invoke
    said = [
        "train",
        "digits",
        "--noise",
        "file:labels/noisy.npz",
        "--loss",
        "anl-ce",
        "--set",
        "alpha=2",
        "-q",
    ]
    trained = run(app, [*said, "--epochs", "1", "--folder", "runs"])
    assert trained.exit_code == 0, trained.output
    again = run(app, [*said, "--epochs", "1", "--folder", "runs"])
    assert "was already trained" in again.output
    with Store(tmp_path / "runs") as store:
        (record,) = store.runs()
        for searched in ("file:noisy", "file:labels/noisy.npz"):
            assert [each.id for each in store.runs(noise=searched)] == [record.id]
        assert store.runs(noise="file:other") == []
    listed = run(app, ["runs", "--noise", "file:noisy", "--folder", "runs"])
    assert "file:noisy" in listed.output
    assert "labels/noisy" not in listed.output
    assert "labels/noisy.npz" in run(app, ["runs", record.id, "--folder", "runs"]).output
    Image.fromarray(datasets.load("digits", "test").images[0, :, :, 0]).save("one.png")
    predicted = run(app, ["predict", record.id, "one.png", "--folder", "runs", "--out", "found.csv"])
    assert predicted.exit_code == 0, predicted.output


def grid_of(*noises):
    return Grid("mine", "Mine", "digits", "table", (Method("CE", "ce"), Method("MAE", "mae")), noises, (1, 2))


def test_a_grid_takes_files(tmp_path, noisy):
    np.save("other.npy", noise.symmetric(TRUE, 0.2, 10, seed=1).labels)
    written = """
    dataset = "digits"
    noises = ["sym-0.2", "file:labels/noisy.npz", "file:other.npy"]
    seeds = [1]
    settings = { epochs = 1 }
    methods = [{ label = "CE", loss = "ce" }, { label = "MAE", loss = "mae" }]
    """
    (tmp_path / "mine.toml").write_text(written)
    bench = CliRunner().invoke(
        app, ["bench", "mine.toml", "--folder", "runs", "--records", "mine.jsonl", "--processes", "1"]
    )
    assert bench.exit_code == 0, bench.output
    assert "CE, file:noisy, seed 1" in bench.output
    grid = files.load("mine.toml")
    found = gather(grid, folder=tmp_path / "runs")
    table = table_of(found)
    assert table.noises == ("sym-0.2", "file:noisy", "file:other")
    assert all(cell.ours is not None for cell in table.cells.values())
    for text in TEXT_FORMATS.values():
        assert "labels/noisy" not in text(table)
    lines = read_records(tmp_path / "mine.jsonl")
    assert {line.noise for line in lines} == set(table.noises)
    rates = {line.noise: line.realised_rate for line in lines}
    assert rates["file:noisy"] == pytest.approx(noisy.realised_rate, abs=1e-6)
    page = tmp_path / "page.html"
    write_report(found, page)
    text = page.read_text(encoding="utf-8")
    assert "<strong>file:noisy</strong>" in text  # with its transition matrix
    assert "--noise file:labels/noisy.npz" in text  # in the command that repeats a run
    os.remove("labels/noisy.npz")  # records are read without it
    from_file = gather(grid, files=[tmp_path / "mine.jsonl"])
    assert (len(from_file.results), from_file.missing) == (6, 0)
    part = grid.narrowed(noises=["file:noisy", "file:other.npy"])
    assert part.noises == ("file:labels/noisy.npz", "file:other.npy")
    with pytest.raises(ValueError, match="did you mean 'file:noisy'"):
        grid.narrowed(noises=["file:nosy"])


def test_files_of_a_grid_have_names_of_their_own():
    with pytest.raises(
        ValueError, match="'file:a/noisy.npz' and 'file:b/noisy.csv' would both be called 'file:noisy'"
    ):
        grid_of("file:a/noisy.npz", "file:b/noisy.csv")
    with pytest.raises(ValueError, match="stands twice"):
        grid_of("file:a.npz", "file: a.npz")


def test_seeds_of_a_pack_share_what_is_in_the_file(noisy):
    configs = [cell.config for cell in grid_of("file:labels/noisy.npz").cells()]
    data = load_data(configs[0], CPU)
    assert len({id(give_labels(config, data)) for config in configs}) == 1


def test_a_search_holds_out_a_part_with_its_given_labels(noisy):
    found = trial_data(config_of())
    assert len(found.noisy.train) + len(found.noisy.test) == len(noisy)
    wrong = (found.noisy.test_labels != found.clean.test_labels).sum()
    trained = give_labels(config_of(), found.noisy)
    assert int(wrong) + int(trained.flipped.sum()) == int(noisy.flipped.sum())


def test_masks_in_a_file(tmp_path):
    true = datasets.load("blobs", "train").masks
    made = noise.corrupt_masks(true, 0.7, 0.5, seed=4)
    made.save("masks.npz")
    drawn = resolve("blobs", noise="masks-0.7-0.5", noise_seed=4, loss="ce", epochs=1, train_size=20)
    saved = resolve("blobs", noise="file:masks.npz", loss="ce", epochs=1)
    whole = labels_of(saved)
    assert torch.equal(whole.given, torch.from_numpy(np.array(made.masks)))
    assert whole.kinds.tolist() == made.kinds.tolist()
    assert whole.summary["realised_rate"] == made.realised_share
    assert (whole.summary["name"], whole.summary["share"]) == ("file:masks", 0.7)
    config = with_changes(saved, train_size=20)
    data = load_data(config, CPU)
    assert torch.equal(give_labels(config, data).given, whole.given[torch.from_numpy(data.rows)])
    assert len(give_labels(drawn, load_data(drawn, CPU)).given) == 20
    noise.symmetric(TRUE, 0.4, 10, seed=1).save("labels.npz")
    with pytest.raises(
        ValueError, match=r"labels\.npz is not a readable file of noisy masks: there is no bits"
    ):
        labels_of(resolve("blobs", noise="file:labels.npz", loss="ce", epochs=1))
    with pytest.raises(
        ValueError, match=r"masks\.npz is not a readable file of noisy labels: there is no labels"
    ):
        labels_of(config_of("masks.npz"))
