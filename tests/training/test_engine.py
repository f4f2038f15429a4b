# SPDX-License-Identifier: Apache-2.0
"""The engine on embedded data: it learns, repeats itself bit for bit, goes on where it stopped, and tells."""

import signal
import subprocess
import time

import numpy as np
import pytest
import torch
from tests import warm
from tests.stopping import StopAfter

from noiseproof.training import Interrupted, NotFiniteError, checkpoint, resolve, train, train_pack
from noiseproof.training import books as books_module
from noiseproof.training import engine as engine_module
from noiseproof.training.checkpoint import BadCheckpointError
from noiseproof.training.data import load_data
from noiseproof.training.run import Run
from noiseproof.training.store import Store


def small(**changes):
    """A config that trains in a second."""
    said = {"noise": "sym-0.4", "epochs": 3, "device": "cpu"} | changes
    return resolve("digits", **said)


def weights_of(folder, config):
    from safetensors.torch import load_file

    return load_file(folder / config.run_id / "weights.safetensors")


def assert_same_weights(first, second):
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def test_a_run_learns_and_is_recorded(tmp_path):
    config = small(epochs=8)
    record = train(config, folder=tmp_path, quiet=True)
    assert record.status == "finished"
    assert record.result["test_accuracy"] > 60
    with Store(tmp_path) as store:
        full = store.get(record.id)
    assert len(full.epochs) == 8
    last = full.epochs[-1]
    assert last["test_accuracy"] == record.result["test_accuracy"]
    assert last["clean_accuracy"] > last["flipped_accuracy"]
    assert sum(last["predicted_marginals"]) == pytest.approx(1.0, abs=1e-3)
    assert sum(full.noise["label_marginals"]) == pytest.approx(1.0, abs=1e-3)
    assert set(last["loss_parts"]) == {"normalized(ce)", "normalizednegative(ce)"}
    parts, parameters = last["loss_parts"], config.loss_parameters
    assert last["loss"] == pytest.approx(
        parameters["alpha"] * parts["normalized(ce)"] + parameters["beta"] * parts["normalizednegative(ce)"],
        rel=1e-5,
    )
    assert full.noise["realised_rate"] == pytest.approx(0.37, abs=0.04)
    assert full.config["loss"] == "anl-ce"
    assert full.environment["versions"]["torch"] == torch.__version__


def test_the_same_seed_gives_the_same_weights_bit_for_bit(tmp_path):
    config = small()
    train(config, folder=tmp_path / "a", quiet=True)
    train(config, folder=tmp_path / "b", quiet=True)
    assert_same_weights(weights_of(tmp_path / "a", config), weights_of(tmp_path / "b", config))
    other = small(seed=2)
    train(other, folder=tmp_path / "c", quiet=True)
    different = weights_of(tmp_path / "c", other)
    assert any(not torch.equal(t, different[n]) for n, t in weights_of(tmp_path / "a", config).items())


def test_nothing_global_is_touched(tmp_path):
    before = torch.random.get_rng_state().clone(), np.random.get_state()[1].copy()  # noqa: NPY002
    train(small(epochs=1), folder=tmp_path, quiet=True)
    assert torch.equal(torch.random.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ema": 0.9, "optimizer": "adam"},
        {"gradient_quantiles": True},
        {"loss_parameters": {"weight": [1.0] * 9 + [3.0]}},
    ],
    ids=str,
)
def test_stopped_at_any_step_a_run_ends_with_the_same_weights_and_records(tmp_path, monkeypatch, changes):
    config = small(**changes)
    train(config, folder=tmp_path / "whole", quiet=True)
    for steps in (0, 5, 22, 20):  # 23 steps an epoch: early, again in the first, in the second, in the third
        monkeypatch.setattr(engine_module, "Interruption", lambda steps=steps: StopAfter(steps))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "parts", quiet=True)
        with Store(tmp_path / "parts") as store:
            assert store.get(config.run_id).status == "interrupted"
    monkeypatch.undo()
    train(config, folder=tmp_path / "parts", quiet=True)
    assert_same_weights(weights_of(tmp_path / "whole", config), weights_of(tmp_path / "parts", config))
    with Store(tmp_path / "whole") as whole, Store(tmp_path / "parts") as parts:
        records = [[{**m, "seconds": 0} for m in store.get(config.run_id).epochs] for store in (whole, parts)]
    assert records[0] == records[1]


def test_a_finished_run_is_not_trained_again(tmp_path):
    config = small(epochs=1)
    first = train(config, folder=tmp_path, quiet=True)
    started = time.perf_counter()
    assert train(config, folder=tmp_path, quiet=True).ended == first.ended
    assert time.perf_counter() - started < 1


def test_a_pack_equals_its_runs_alone(tmp_path):
    configs = [small(loss="ce"), small(loss="anl-ce", seed=2), small(loss="anl-ce*", noise="asym-0.4")]
    records = train_pack(configs, folder=tmp_path / "pack", quiet=True)
    assert [record.config["loss"] for record in records] == ["ce", "anl-ce", "anl-ce*"]
    for config in configs:
        train(config, folder=tmp_path / "alone", quiet=True)
        assert_same_weights(weights_of(tmp_path / "pack", config), weights_of(tmp_path / "alone", config))


def test_side_by_side_equals_one_after_another(tmp_path, monkeypatch):
    """What a GPU captures, on a CPU: the runs of a pack step together and never touch one another."""
    configs = [small(loss="ce"), small(loss="gce", seed=3, epochs=2)]
    train_pack(configs, folder=tmp_path / "in-line", quiet=True)
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    train_pack(configs, folder=tmp_path / "together", quiet=True)
    for config in configs:
        assert_same_weights(
            weights_of(tmp_path / "in-line", config), weights_of(tmp_path / "together", config)
        )


def test_packs_that_do_not_share_are_refused(tmp_path):
    with pytest.raises(ValueError, match="a pack shares its batch_size, got 32, 64"):
        train_pack([small(batch_size=32), small()], folder=tmp_path)
    with pytest.raises(ValueError, match="the same config stands twice"):
        train_pack([small(), small()], folder=tmp_path)
    with pytest.raises(ValueError, match="expected at least one, got none"):
        train_pack([], folder=tmp_path)


def test_a_loss_that_explodes_stops_the_run_and_keeps_the_last_checkpoint(tmp_path):
    config = small(loss="ce", learning_rate=1e30, clip_norm=0.0, schedule="constant")
    with pytest.raises(
        NotFiniteError, match=r"not a finite number in epoch 1 at step \d+, in the (loss|gradient)"
    ):
        train(config, folder=tmp_path, quiet=True)
    with Store(tmp_path) as store:
        record = store.get(config.run_id)
    assert record.status == "failed"
    assert "smaller learning rate" in record.error


def test_damaged_and_foreign_checkpoints_are_refused(tmp_path, monkeypatch):
    config = small()
    monkeypatch.setattr(engine_module, "Interruption", lambda: StopAfter(3))
    with pytest.raises(Interrupted):
        train(config, folder=tmp_path, quiet=True)
    monkeypatch.undo()
    path = tmp_path / config.run_id / "checkpoint.pt"
    good = path.read_bytes()
    for bad, message in (
        (good[: len(good) // 2], "checksum"),
        (good[:10], "not a checkpoint"),
        (good[:5000] + bytes([good[5000] ^ 1]) + good[5001:], "checksum"),
        (b"", "not a checkpoint"),
    ):
        path.write_bytes(bad)
        with pytest.raises(BadCheckpointError, match=message):
            train(config, folder=tmp_path, quiet=True)
    path.write_bytes(good)
    assert train(config, folder=tmp_path, quiet=True).status == "finished"


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adamw", "schedule": "exponential", "schedule_factor": 0.9},
        {"nesterov": True, "schedule": "step", "schedule_every": 1},
        {"jacobian": 1e-3, "schedule": "milestones", "schedule_milestones": [0.5]},
        {"model": "mnist-cnn", "model_options": {}},
        {"train_size": 300, "evaluate_every": 2},
        {"precision": "bf16", "epochs": 1},
        {"loss": "nce+rce", "noise": "dep-0.4"},
    ],
)
def test_options_train(tmp_path, changes):
    record = train(small(**changes), folder=tmp_path, quiet=True)
    assert record.status == "finished"
    assert record.result["test_accuracy"] > 5


def test_instance_dependent_noise_is_one_realisation_for_all_seeds(tmp_path):
    assert small(noise="dep-0.4", seed=3).drawn_with == 0
    assert small(noise="sym-0.4", seed=3).drawn_with == 3
    assert small(noise="dep-0.4", seed=3, noise_seed=7).drawn_with == 7


COMMAND = ["-m", "noiseproof", "train", "digits", "--noise", "sym-0.4", "--device", "cpu", "-q"]


def run_killed_at_random(folder, epochs, kills, longest):
    """Train through the command line, killing it again and again, after so many seconds at most."""
    random = np.random.RandomState(0)
    arguments = [*COMMAND, "--epochs", str(epochs), "--folder", str(folder)]
    killed = 0
    while killed < kills:
        process = warm.Popen(arguments)
        try:
            process.wait(timeout=random.uniform(0.3, longest))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            with Store(folder) as store:
                for record in store.runs():  # sound after every kill
                    store.get(record.id)
    done = warm.run(arguments)
    assert done.returncode == 0, done.stderr
    return killed


@pytest.mark.slow
def test_twenty_kills_change_nothing(tmp_path):
    config = small(epochs=400)
    assert run_killed_at_random(tmp_path / "killed", 400, 20, 1.0) == 20
    torch.set_num_threads(1)
    train(config, folder=tmp_path / "whole", quiet=True)
    assert_same_weights(weights_of(tmp_path / "whole", config), weights_of(tmp_path / "killed", config))


def test_two_kills_change_nothing(tmp_path):
    config = small(epochs=30)
    assert run_killed_at_random(tmp_path / "killed", 30, 2, 1.0) >= 1  # a fast machine may be done by then
    train(config, folder=tmp_path / "whole", quiet=True)
    assert_same_weights(weights_of(tmp_path / "whole", config), weights_of(tmp_path / "killed", config))


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    process = warm.Popen([*COMMAND, "--epochs", "5000", "--folder", str(tmp_path)])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/checkpoint.pt")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "noiseproof train --resume digits-sym-0.4-anl-ce-s1-" in said
    with Store(tmp_path) as store:
        (record,) = store.runs()
    assert record.status == "interrupted"


def test_dropout_is_the_runs_own_and_goes_on_where_it_was(tmp_path, monkeypatch):
    """The paper's VGG has dropout, which torch draws from its global stream; here in a network that is small."""

    def with_dropout(name, num_classes, *, in_channels, image_size, seed, **options):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return torch.nn.Sequential(
                torch.nn.Flatten(),
                torch.nn.Linear(in_channels * image_size[0] * image_size[1], 32),
                torch.nn.Dropout(0.5),
                torch.nn.Linear(32, num_classes),
            )

    monkeypatch.setattr("noiseproof.models.create", with_dropout)
    config = small(loss="ce")
    torch.manual_seed(1)
    before = torch.get_rng_state()
    train(config, folder=tmp_path / "whole", quiet=True)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(7))
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "parts", quiet=True)
    torch.manual_seed(3)
    train(config, folder=tmp_path / "parts", quiet=True)
    assert_same_weights(weights_of(tmp_path / "whole", config), weights_of(tmp_path / "parts", config))


def test_sums_of_the_optimiser_come_back_dense_however_they_were_laid_out(tmp_path):
    """A checkpoint of the fast form holds corners of larger places; fused steps elsewhere would misread them."""
    config = small(loss="ce", momentum=0.9)
    data = load_data(config, torch.device("cpu"))
    run = Run(config, data)
    for parameter in run.model.parameters():
        place = torch.randn([2 * size for size in parameter.shape])
        run.optimizer.state[parameter]["momentum_buffer"] = place[tuple(slice(s) for s in parameter.shape)]
    run.optimizer.param_groups[0]["fused"] = True
    checkpoint.save(tmp_path / "checkpoint.pt", run.state())
    other = Run(config, data)
    other.restore(tmp_path / "checkpoint.pt")
    assert not other.optimizer.param_groups[0]["fused"]  # that is for the device to say, not for the file
    for mine, theirs in zip(run.model.parameters(), other.model.parameters(), strict=True):
        kept = other.optimizer.state[theirs]["momentum_buffer"]
        assert torch.equal(kept, run.optimizer.state[mine]["momentum_buffer"])
        assert kept.stride() == theirs.stride()


@pytest.mark.parametrize("together", [True, False])
def test_a_run_stopped_after_it_exploded_keeps_its_last_good_checkpoint(tmp_path, monkeypatch, together):
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: together)
    config = small(loss="ce", learning_rate=1e30, clip_norm=0.0)
    monkeypatch.setattr(engine_module, "Interruption", lambda: StopAfter(3))
    with pytest.raises((Interrupted, NotFiniteError)):
        train(config, folder=tmp_path, quiet=True)
    assert not (tmp_path / config.run_id / "checkpoint.pt").exists()  # there was no good one yet


def test_a_step_that_all_parameters_shared_is_counted_once_by_each(tmp_path):
    """The fast form has one count for all parameters, and a checkpoint keeps that they share it."""
    config = small(loss="ce", optimizer="adam")
    data = load_data(config, torch.device("cpu"))
    run = Run(config, data)
    shared = torch.tensor(7.0)
    for parameter in run.model.parameters():
        zeros = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        run.optimizer.state[parameter] = {"step": shared} | zeros
    checkpoint.save(tmp_path / "checkpoint.pt", run.state())
    other = Run(config, data)
    other.restore(tmp_path / "checkpoint.pt")
    for parameter in other.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    other.optimizer.step()
    assert {float(state["step"]) for state in other.optimizer.state.values()} == {8.0}


def test_a_run_that_fails_while_it_is_finished_does_not_pass_for_finished(tmp_path, monkeypatch):
    config = small(loss="ce")
    save, calls = books_module.models.save_weights, []

    def too_large_at_first(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise torch.cuda.OutOfMemoryError("no memory left")
        return save(*arguments)

    monkeypatch.setattr(books_module.models, "save_weights", too_large_at_first)
    record = train(config, folder=tmp_path, quiet=True)
    assert (record.status, len(record.epochs)) == ("finished", config.epochs)
    assert (tmp_path / config.run_id / "weights.safetensors").exists()
