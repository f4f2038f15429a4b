# SPDX-License-Identifier: Apache-2.0
"""Two real processes train as one does on the joined batch, write one record, and stop and go on together."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests import warm

from noiseproof.training import Config, Interrupted, NotFiniteError, ranks, resolve, train
from noiseproof.training import data as data_room
from noiseproof.training import engine as engine_module
from noiseproof.training.data import Batches, load_data
from noiseproof.training.run import Run
from noiseproof.training.store import Store

PLAIN = {"model_options": {"batch_norm": False}}
# 205 samples in batches of 40: the last batch of 5 gives one process 3 rows and the other 2.
WEIGHTS = [1.0, 8.0, 0.1, 1.0, 2.0, 0.0, 1.0, 1.0, 5.0, 1.0]
SMALL = {"noise": "sym-0.4", "epochs": 3, "device": "cpu", "train_size": 205, "batch_size": 40}


def configs(photos):
    own = Config(
        f"folder:{photos}",
        "mlp",
        3,
        0.02,
        loss="anl-ce*",
        batch_size=8,
        image_size=8,
        workers=1,
        device="cpu",
    )
    return {
        "anl-ce": resolve("digits", loss="anl-ce", gradient_quantiles=True, **SMALL, **PLAIN),
        "anl-ce*": resolve("digits", loss="anl-ce*", **SMALL, **PLAIN),
        "weighted": resolve("digits", loss="anl-ce*", loss_parameters={"weight": WEIGHTS}, **SMALL, **PLAIN),
        "ignored": resolve("digits", loss="anl-ce", loss_parameters={"ignore_index": 3}, **SMALL, **PLAIN),
        "jacobian": resolve("digits", loss="nce+rce", jacobian=0.1, **SMALL, **PLAIN),
        "batch-norm": resolve("digits", loss="anl-ce", **SMALL),
        "streamed": own,
        "not-finite": resolve("digits", loss="anl-ce", seed=3, **SMALL, **PLAIN),
        "stopped": resolve("digits", loss="anl-ce*", seed=2, gradient_quantiles=True, **SMALL, **PLAIN),
    }


class StopAfter:
    """Stands where Ctrl-C is watched, and asks one process to stop after some steps."""

    def __init__(self, steps):
        self.steps = steps

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    @property
    def requested(self):
        self.steps -= 1
        return self.steps < 0


def one_rank(folder, photos):
    """What each of the two processes does."""
    torch.set_num_threads(1)
    made = configs(photos)
    for name in ("anl-ce", "anl-ce*", "weighted", "ignored", "jacobian", "batch-norm"):
        train(made[name], folder=folder, quiet=True)
    usual_memory, data_room._free_bytes = data_room._free_bytes, lambda device: 0.0
    train(made["streamed"], folder=folder, quiet=True)
    data_room._free_bytes = usual_memory
    usual = engine_module.Interruption
    for steps in (1, 5):  # in the first epoch, then in the second; only the second process hears of it
        if os.environ["RANK"] == "1":
            engine_module.Interruption = lambda steps=steps: StopAfter(steps)
        try:
            train(made["stopped"], folder=folder, quiet=True)
        except Interrupted:
            print("stopped", flush=True)
    engine_module.Interruption = usual
    train(made["stopped"], folder=folder, quiet=True)
    if os.environ["RANK"] == "1":
        lose_the_loss_at(4)
    try:
        train(made["not-finite"], folder=folder, quiet=True)
    except NotFiniteError as error:
        print("not finite:", error, flush=True)


def lose_the_loss_at(step):
    """From now on the loss of that step is infinite here, though its gradient is not."""
    usual = Run.optimize

    def optimize(run, *given):
        logits, loss, norm = usual(run, *given)
        return logits, loss + (float("inf") if run.step == step - 1 else 0.0), norm

    Run.optimize = optimize


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Records by the two processes and by one, under the same names."""
    from PIL import Image

    place = tmp_path_factory.mktemp("ranks")
    random = np.random.RandomState(0)
    for class_name in ("cat", "dog"):
        (place / "photos" / class_name).mkdir(parents=True)
        for i in range(16):  # 29 to train on, so that the last batch has 5
            pixels = random.randint(0, 255, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(place / "photos" / class_name / f"{i}.png")
    environment = os.environ | {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
    }
    processes = [
        warm.Popen(
            [__file__, place / "two", place / "photos"],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    try:
        ended = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (out, said) in zip(processes, ended, strict=True):
        assert process.returncode == 0, said[-3000:]
        assert out.count("stopped") == 2, out
    (place / "said").write_text("".join(out for out, _ in ended))
    for name, config in configs(place / "photos").items():
        if name != "not-finite":
            train(config, folder=place / "one", quiet=True)
    return place


def records_of(place, name):
    config = configs(place / "photos")[name]
    with Store(place / "one") as one, Store(place / "two") as two:
        return one.get(config.run_id), two.get(config.run_id)


def weights_of(place, name):
    run_id = configs(place / "photos")[name].run_id
    return [load_file(place / side / run_id / "weights.safetensors") for side in ("one", "two")]


@pytest.mark.parametrize(
    "name", ["anl-ce", "anl-ce*", "weighted", "ignored", "jacobian", "streamed", "stopped"]
)
def test_two_processes_compute_what_one_does(both, name):
    one, two = records_of(both, name)
    assert len(one.epochs) == len(two.epochs) == 3
    for alone, together in zip(one.epochs, two.epochs, strict=True):
        assert alone.keys() == together.keys()
        for key in ("loss", "gradient_norm", "largest_gradient_norm", "learning_rate"):
            assert together[key] == pytest.approx(alone[key], rel=1e-4), key
        assert together["loss_parts"] == pytest.approx(alone["loss_parts"], rel=1e-4, abs=1e-6)
        assert together["predicted_marginals"] == pytest.approx(alone["predicted_marginals"], abs=1e-4)
        for key in ("train_accuracy", "clean_accuracy", "flipped_accuracy"):
            assert together[key] == pytest.approx(alone[key], abs=0.6), key  # one sample in 205 may tip over
        assert together["test_accuracy"] == pytest.approx(alone["test_accuracy"], abs=0.6)
        if "strongest_pull" in alone:
            pulls, expected = together["strongest_pull"], alone["strongest_pull"]
            for found, spread in ((pulls, expected), (pulls["floored"], expected["floored"])):
                for which in ("clean", "flipped", "clean_mean", "flipped_mean"):
                    assert found[which] == pytest.approx(spread[which], rel=2e-3), which
    for tensor, other in zip(*(weights.values() for weights in weights_of(both, name)), strict=True):
        assert torch.allclose(tensor, other, rtol=1e-3, atol=1e-5)


def test_records_are_written_once(both):
    with Store(both / "two") as store:
        runs = store.runs()
    assert len(runs) == 9
    assert {run.status for run in runs if run.config["seed"] != 3} == {"finished"}
    assert not list((both / "two").rglob("*.partial"))


def test_a_loss_that_is_not_finite_in_one_process_stops_both(both):
    """Told alike by both: the one in which it was finite would otherwise wait for the other until it gives up."""
    said = [line for line in (both / "said").read_text().splitlines() if line.startswith("not finite")]
    assert len(said) == 2
    assert len(set(said)) == 1
    assert "epoch 1 at step 4, in the loss" in said[0]
    with Store(both / "two") as store:
        record = store.get(configs(both / "photos")["not-finite"].run_id)
    assert record.status == "failed"


def test_batch_norm_sees_its_own_rows_unless_told_otherwise(both):
    """Without sync_batch_norm each process normalises by its half of the batch: near, but not the same."""
    one, two = records_of(both, "batch-norm")
    first, other = one.epochs[0]["loss"], two.epochs[0]["loss"]
    assert first != pytest.approx(other, rel=1e-4)
    assert first == pytest.approx(other, rel=0.1)
    assert two.result["test_accuracy"] == pytest.approx(one.result["test_accuracy"], abs=15)


def test_a_last_batch_without_two_samples_for_each_process_is_left_out(monkeypatch):
    config = resolve("digits", train_size=203, batch_size=40)
    data = load_data(config, torch.device("cpu"))
    assert Batches(config, data).steps == 6
    monkeypatch.setattr(ranks, "count", lambda: 2)
    assert Batches(config, data).steps == 5


def test_synchronised_batch_norm_on_a_cpu_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "count", lambda: 2)
    config = resolve("digits", sync_batch_norm=True, device="cpu")
    with pytest.raises(ValueError, match="sync_batch_norm: torch has it for GPUs only"):
        train(config, folder=tmp_path, quiet=True)


THREADS_AT_THE_END = """
import atexit, os, runpy, sys
from pathlib import Path

def threads_left():
    names = [task.joinpath("comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    Path(f"threads-{os.environ['RANK']}").write_text(" ".join(names))

if os.path.isdir("/proc/self/task"):
    atexit.register(threads_left)  # before the program's own, so it runs after those
sys.argv[0] = "noiseproof"
runpy.run_module("noiseproof", run_name="__main__")
"""


def test_torchrun_trains_tells_the_result_once_and_leaves_no_thread(tmp_path):
    """A thread of the group that outlives the interpreter may abort a process that has done all its work."""
    (tmp_path / "program.py").write_text(THREADS_AT_THE_END)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--master-addr", "127.0.0.1", "--master-port", free_port()),
            *("program.py", "train", "digits", "--epochs", "1", "--device", "cpu", "--folder", "runs"),
        ],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("test accuracy") == 1
    assert done.stdout.count("epoch 1/1") == 1
    with Store(tmp_path / "runs") as store:
        (record,) = store.runs()
    assert record.status == "finished"
    if os.path.isdir("/proc/self/task"):
        left = [file.read_text() for file in tmp_path.glob("threads-*")]
        assert len(left) == 2
        assert not any("gloo" in names for names in left)


if __name__ == "__main__":
    one_rank(Path(sys.argv[1]), Path(sys.argv[2]))
