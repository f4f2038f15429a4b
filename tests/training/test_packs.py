# SPDX-License-Identifier: Apache-2.0
"""Packs: stopped together, sharing what they must, and leaving nothing running or switched behind them."""

import gc
import multiprocessing
import weakref

import pytest
import torch
from tests.stopping import StopAfter

from noiseproof.training import Config, Interrupted, NotFiniteError, captured, resolve, train, train_pack
from noiseproof.training import data as data_room
from noiseproof.training import engine as engine_module
from noiseproof.training.captured import SideBySide
from noiseproof.training.checkpoint_writer import CheckpointWriter
from noiseproof.training.stepwise import Stepwise
from noiseproof.training.store import Store
from noiseproof.training.store_file import StoreError


def small(**changes):
    said = {"noise": "sym-0.4", "epochs": 2, "device": "cpu", "train_size": 300} | changes
    return resolve("digits", **said)


def test_every_run_of_a_pack_that_is_stopped_saves_its_last_step(tmp_path, monkeypatch):
    """As on a GPU, where the runs of a pack step side by side; sums of an epoch may be added in another order."""
    configs = [small(loss="ce"), small(loss="gce", seed=2), small(loss="anl-ce*", seed=3)]
    train_pack(configs, folder=tmp_path / "whole", quiet=True)
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(7))
        with pytest.raises(Interrupted, match="digits-sym-0.4"):
            train_pack(configs, folder=tmp_path / "parts", quiet=True)
    with Store(tmp_path / "parts") as store:
        assert [record.status for record in store.runs()] == ["interrupted"] * 3
    for config in configs:
        assert (tmp_path / "parts" / config.run_id / "checkpoint.pt").exists()
    train_pack(configs, folder=tmp_path / "parts", quiet=True)
    with Store(tmp_path / "whole") as whole, Store(tmp_path / "parts") as parts:
        for config in configs:
            for first, second in zip(
                whole.get(config.run_id).epochs, parts.get(config.run_id).epochs, strict=True
            ):
                assert first.keys() == second.keys()
                for key in first.keys() - {"seconds"}:
                    assert second[key] == pytest.approx(first[key], rel=1e-6), key


@pytest.mark.parametrize("thread_is_faster", [False, True])
def test_a_run_that_cannot_be_saved_costs_the_others_of_its_pack_nothing(
    tmp_path, monkeypatch, thread_is_faster
):
    """Whether or not the thread that writes checkpoints finds out first, from the epoch that has just ended."""
    usual_put = CheckpointWriter.put

    def put_and_wait(writer, path, state):
        usual_put(writer, path, state)
        with writer._changed:
            writer._changed.wait_for(lambda: not writer._waiting and writer._at_work is None)

    if thread_is_faster:
        monkeypatch.setattr(CheckpointWriter, "put", put_and_wait)
    configs = [small(loss="ce"), small(loss="gce", seed=2)]
    blocked = tmp_path / configs[0].run_id / "checkpoint.pt"

    class StopInTheWay(StopAfter):
        @property
        def requested(self):
            stops = super().requested
            if stops:
                (blocked / "in the way").mkdir(parents=True)
            return stops

    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    monkeypatch.setattr(engine_module, "Interruption", lambda: StopInTheWay(7))
    with pytest.raises(OSError, match="cannot write the checkpoint"):
        train_pack(configs, folder=tmp_path, quiet=True)
    assert (tmp_path / configs[1].run_id / "checkpoint.pt").is_file()
    with Store(tmp_path) as store:
        assert store.get(configs[1].run_id).status == "interrupted"


def test_a_record_that_cannot_be_written_costs_the_others_of_a_stopped_pack_nothing(tmp_path, monkeypatch):
    configs = [small(loss="ce"), small(loss="gce", seed=2)]
    usual = Store.interrupt

    def interrupt(store, run_id):
        if run_id == configs[0].run_id:
            raise StoreError("the database is locked")
        usual(store, run_id)

    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    monkeypatch.setattr(engine_module, "Interruption", lambda: StopAfter(7))
    monkeypatch.setattr(Store, "interrupt", interrupt)
    with pytest.raises(StoreError, match="locked"):
        train_pack(configs, folder=tmp_path, quiet=True)
    for config in configs:
        assert (tmp_path / config.run_id / "checkpoint.pt").is_file()
    with Store(tmp_path) as store:
        assert store.get(configs[1].run_id).status == "interrupted"


def test_runs_that_stand_at_different_steps_catch_up_and_go_on_together(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    configs = [small(loss="ce"), small(loss="gce", seed=2)]
    train_pack(configs, folder=tmp_path / "whole", quiet=True)
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(3))
        with pytest.raises(Interrupted):
            train(configs[0], folder=tmp_path / "parts", quiet=True)
    records = train_pack(configs, folder=tmp_path / "parts", quiet=True)
    with Store(tmp_path / "whole") as whole:
        assert [record.result for record in records] == [whole.get(c.run_id).result for c in configs]


@pytest.mark.parametrize("together", [True, False])
def test_a_run_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, together):
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: together)
    bad = small(loss="ce", learning_rate=1e30, clip_norm=0.0)
    configs = [bad, small(loss="gce", seed=2)]
    failed, finished = train_pack(configs, folder=tmp_path / "kept", quiet=True, keep_going=True)
    assert (failed.status, finished.status) == ("failed", "finished")
    assert "not a finite number in epoch 1 at step" in failed.error
    with pytest.raises(NotFiniteError, match="not a finite number"):
        train_pack(configs, folder=tmp_path / "raised", quiet=True)
    with Store(tmp_path / "raised") as store:
        assert store.get(configs[1].run_id).result == finished.result


def out_of_memory():
    raise torch.cuda.OutOfMemoryError("CUDA out of memory")


def no_engine_in_a_capture():
    try:
        raise RuntimeError("FIND was unable to find an engine to execute this computation")
    finally:
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


@pytest.mark.parametrize("fails", [out_of_memory, no_engine_in_a_capture])
def test_a_pack_that_needs_too_much_memory_goes_in_halves(tmp_path, monkeypatch, capsys, fails):
    """The errors are real in type and words only: a CPU has no such memory to run out of."""
    usual = engine_module._train_runs

    def two_at_most(runs, *more):
        if len(runs) > 2:
            fails()
        usual(runs, *more)

    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    monkeypatch.setattr(engine_module, "_train_runs", two_at_most)
    configs = [small(loss="ce", epochs=1, seed=seed) for seed in range(5)]
    records = train_pack(configs, folder=tmp_path)
    assert [record.status for record in records] == ["finished"] * 5
    assert "5 runs at once need more memory than the GPU has: 3 at a time" in capsys.readouterr().out


@pytest.mark.parametrize("together", [True, False])
def test_what_did_not_fit_is_gone_before_less_is_tried(tmp_path, monkeypatch, together):
    """A run that a name, a frame or a kept error still holds keeps its network on the GPU: nothing would fit."""
    opened, usual, usual_run = [], engine_module._train_together, engine_module.Run

    def watched(*arguments):
        run = usual_run(*arguments)
        opened.append(weakref.ref(run))
        return run

    def attempt(*arguments, **named):
        gc.collect()
        assert [run() for run in opened if run() is not None] == []
        usual(*arguments, **named)

    def never_enough(self):
        out_of_memory()
        yield

    gc.collect()
    gc.freeze()  # what was there before, so that the many collections below look at these runs only
    monkeypatch.setattr(engine_module, "Run", watched)
    monkeypatch.setattr(engine_module, "_train_together", attempt)
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: together)
    monkeypatch.setattr(SideBySide, "epoch", never_enough)
    monkeypatch.setattr(Stepwise, "epoch", never_enough)
    configs = [small(loss="ce", epochs=1, seed=seed) for seed in range(4)]
    records = train_pack(configs, folder=tmp_path, quiet=True, keep_going=True)
    assert [record.status for record in records] == ["failed"] * 4
    assert len(opened) == (4 + 2 * 2 + 4 + 4 if together else 1 + 4)  # all, halves, alone, step by step


def test_another_error_is_not_taken_for_a_lack_of_memory(tmp_path, monkeypatch):
    def wrong(runs, *more):
        raise RuntimeError("expected scalar type Float but found Half")

    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    monkeypatch.setattr(engine_module, "_train_runs", wrong)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        train_pack([small(epochs=1, seed=seed) for seed in range(2)], folder=tmp_path, quiet=True)


def test_a_pack_of_seeds_on_part_of_the_data_equals_its_runs_alone(tmp_path):
    configs = [small(seed=1), small(seed=2)]
    records = train_pack(configs, folder=tmp_path / "pack", quiet=True)
    for config, record in zip(configs, records, strict=True):
        alone = train(config, folder=tmp_path / "alone", quiet=True)
        assert alone.result == record.result
        assert alone.noise == record.noise


def test_a_pack_shares_its_precision():
    """TF32 is one switch for the whole process."""
    with pytest.raises(ValueError, match="a pack shares its precision, got bf16, float32"):
        train_pack([small(), small(precision="bf16")])


def test_switches_of_torch_are_left_as_they_were(tmp_path, monkeypatch):
    seen = []
    usual = engine_module._train_together
    monkeypatch.setattr(
        engine_module,
        "_train_together",
        lambda *all_of_it: (seen.append(torch.backends.cuda.matmul.allow_tf32), usual(*all_of_it)),
    )
    for before in (True, False):
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = before
        for precision in ("float32", "tf32"):
            train(small(epochs=1, precision=precision), folder=tmp_path / str(before), quiet=True)
            assert torch.backends.cuda.matmul.allow_tf32 is before
            assert torch.backends.cudnn.allow_tf32 is before
    assert seen == [False, True, False, True]
    torch.backends.cudnn.allow_tf32 = True


def test_decode_workers_end_with_the_run_however_it_ends(tmp_path, photos, monkeypatch):
    monkeypatch.setattr(data_room, "_free_bytes", lambda device: 0.0)
    config = Config(
        f"folder:{photos()}", "mlp", 2, 0.01, batch_size=4, image_size=8, workers=2, device="cpu", loss="ce"
    )
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(7))  # after the epoch's last step
        with pytest.raises(Interrupted):
            train(config, folder=tmp_path / "runs", quiet=True)
    assert multiprocessing.active_children() == []
    assert train(config, folder=tmp_path / "runs", quiet=True).status == "finished"
    assert multiprocessing.active_children() == []


def test_the_best_epoch_is_the_first_of_equals(tmp_path):
    # Learns nothing and has no batch statistics: all epochs are equal.
    config = small(epochs=3, learning_rate=1e-12, model_options={"batch_norm": False})
    result = train(config, folder=tmp_path, quiet=True).result
    assert result["best_test_accuracy"] == result["test_accuracy"]
    assert result["best_epoch"] == 1


@pytest.mark.parametrize(("seconds", "expected"), [(0.0, [1, 2, 3, 4]), (1e9, [1])])
def test_checkpoints_of_a_pack_keep_their_distance_and_a_crash_costs_what_came_after(
    tmp_path, monkeypatch, seconds, expected
):
    """The records of lost epochs are replaced by those of their repetition."""
    monkeypatch.setattr(engine_module, "can_capture", lambda runs: True)
    configs = [small(loss="ce", epochs=5), small(loss="gce", epochs=5, seed=2)]
    whole = train_pack(configs, folder=tmp_path / "whole", quiet=True)
    monkeypatch.setattr(captured, "CHECKPOINT_SECONDS", seconds)
    written, usual = [], CheckpointWriter.put
    monkeypatch.setattr(
        CheckpointWriter,
        "put",
        lambda self, path, state: (written.append(state["epoch"]), usual(self, path, state)),
    )
    with monkeypatch.context() as patch:
        patch.setattr(SideBySide, "end_epoch", _crash_after_epoch(4))
        with pytest.raises(RuntimeError, match="the power was cut"):
            train_pack(configs, folder=tmp_path / "parts", quiet=True)
    assert written == [epoch for epoch in expected for _ in configs]
    again = train_pack(configs, folder=tmp_path / "parts", quiet=True)
    assert [record.result for record in again] == [record.result for record in whole]
    assert [len(record.epochs) for record in again] == [5, 5]


def _crash_after_epoch(number):
    usual = SideBySide.end_epoch

    def end_epoch(self):
        if self.runs[0].epoch == number:
            raise RuntimeError("the power was cut")
        return usual(self)

    return end_epoch


def test_of_runs_that_go_one_by_one_only_those_that_had_their_turn_are_begun(tmp_path, monkeypatch):
    configs = [small(loss="ce"), small(loss="gce"), small(loss="anl-ce")]
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "Interruption", lambda: StopAfter(13))  # an epoch has five steps
        with pytest.raises(Interrupted, match=configs[1].run_id):
            train_pack(configs, folder=tmp_path, quiet=True)
    with Store(tmp_path) as store:
        assert {record.config["loss"]: record.status for record in store.runs()} == {
            "ce": "finished",
            "gce": "interrupted",
        }
    assert [record.status for record in train_pack(configs, folder=tmp_path, quiet=True)] == ["finished"] * 3
