# SPDX-License-Identifier: Apache-2.0
"""Sinks: asked for by name, imported only then, and never able to stop training."""

import math
import subprocess
import sys
import types
from pathlib import Path

import pytest

from noiseproof.training import sinks
from noiseproof.training.sinks import SINKS, MissingSinkError, open_sinks, scalars

CONFIG = {"dataset": "digits", "loss": "anl-ce", "loss_parameters": {"alpha": 5.0}, "seed": 1}
METRICS = {
    "test_accuracy": 93.4,
    "loss": math.nan,
    "parts": {"nce": 0.5},
    "marginals": [0.5, 0.5],
    "note": "x",
}
NUMBERS = ["test_accuracy", "loss", "parts/nce"]


class Recorder:
    """Keeps the calls it gets, by the name they are made by, and fails where it is told to."""

    def __init__(self, fails=()):
        self.calls, self.fails = [], fails

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            if name in self.fails:
                raise ConnectionError(f"{name} went wrong")

        return call

    def named(self, name):
        return [(arguments, options) for called, arguments, options in self.calls if called == name]


def run_through(opened):
    """Three epochs of one run, as the engine tells of them."""
    for sink in opened:
        sink.begin("digits-s1", CONFIG)
    for epoch in range(3):
        for sink in opened:
            sink.epoch("digits-s1", epoch, METRICS)
    for sink in opened:
        sink.end("digits-s1", {})
    for sink in opened:
        sink.close()


@pytest.mark.parametrize("name", SINKS)
def test_a_missing_package_is_named_with_its_remedy(name, monkeypatch, tmp_path):
    package = "torch.utils.tensorboard" if name == "tensorboard" else name
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(MissingSinkError, match=rf"the sink '{name}' needs a package.*pip install") as missing:
        open_sinks([name], tmp_path)
    assert SINKS[name][1] in str(missing.value)
    assert isinstance(missing.value, ImportError)


def test_the_extra_is_named_where_tensorboard_is_absent(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingSinkError, match=r"noiseproof\[tensorboard\]"):
        open_sinks(["tensorboard"], tmp_path)


def test_nothing_is_imported_before_it_is_asked_for():
    code = (
        "import sys, noiseproof.training.sinks as sinks; from pathlib import Path; sinks.open_sinks([], Path('.'));"
        "print([name for name in ('tensorboard', 'mlflow', 'wandb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_name_suggests_the_nearest(tmp_path):
    with pytest.raises(ValueError, match="unknown 'wandbb'; did you mean 'wandb'"):
        open_sinks(["wandbb"], tmp_path)


def test_scalars_leave_out_what_is_no_number():
    assert list(scalars(METRICS)) == NUMBERS
    assert scalars({"flag": True, "text": "1", "none": None}) == {"flag": 1.0}


class TestFailures:
    @pytest.fixture
    def opened(self, monkeypatch, tmp_path):
        def opened(*recorders):
            made = dict(zip(SINKS, recorders, strict=False))
            monkeypatch.setattr(sinks, "_made", lambda name, folder: made[name])
            return open_sinks(list(made), tmp_path)

        return opened

    @pytest.mark.parametrize("step", ["begin", "epoch", "end", "close"])
    def test_a_failing_sink_warns_once_and_is_dropped(self, opened, step):
        failing, healthy = Recorder(fails=(step,)), Recorder()
        both = opened(failing, healthy)
        with pytest.warns(RuntimeWarning, match=f"sink 'tensorboard' failed .*{step} went wrong") as warned:
            run_through(both)
        # Whatever is collected meanwhile, of another test even, may warn too.
        assert len([each for each in warned if "sink" in str(each.message)]) == 1
        assert len(failing.named(step)) == (2 if step == "close" else 1), "closed once more, tried no more"
        assert [name for name, *_ in failing.calls][-1] == "close", "even a failing sink is let go of"
        assert [name for name, *_ in healthy.calls] == ["begin", *["epoch"] * 3, "end", "close"]

    def test_a_sink_that_cannot_even_close(self, opened):
        (sink,) = opened(Recorder(fails=("epoch", "close")))
        with pytest.warns(RuntimeWarning, match="epoch went wrong"):
            sink.epoch("digits-s1", 0, METRICS)
        sink.close()

    def test_ctrl_c_is_not_a_failure_of_the_sink(self, opened, monkeypatch):
        recorder = Recorder()
        (sink,) = opened(recorder)

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(recorder, "epoch", interrupted, raising=False)
        with pytest.raises(KeyboardInterrupt):
            sink.epoch("digits-s1", 0, METRICS)


def test_tensorboard_writes_what_can_be_read_back(tmp_path):
    pytest.importorskip(
        "tensorboard", reason="tensorboard is not installed: pip install 'noiseproof[tensorboard]'"
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for first in (0, 2):  # stopped after epoch 2, resumed before it
        (sink,) = open_sinks(["tensorboard"], tmp_path)
        for seed in (1, 2):
            sink.begin(f"digits-s{seed}", CONFIG)
        for epoch in range(first, first + 3):
            for seed in (1, 2):
                sink.epoch(f"digits-s{seed}", epoch, METRICS | {"test_accuracy": 10.0 * seed + epoch + first})
        if first:
            sink.end("digits-s1", {"test_accuracy": 14.0})
        sink.close()
    for seed in (1, 2):
        events = EventAccumulator(str(tmp_path / "tensorboard" / f"digits-s{seed}"))
        events.Reload()
        assert set(events.Tags()["scalars"]) == set(NUMBERS)
        assert ("result/text_summary" in events.Tags()["tensors"]) == (seed == 1)
        found = [(each.step, each.value - 10 * seed) for each in events.Scalars("test_accuracy")]
        assert found == [(0, 0.0), (1, 1.0), (2, 4.0), (3, 5.0), (4, 6.0)]


class TestTensorBoard:
    def test_the_right_calls(self, monkeypatch, tmp_path):
        writers = {}

        def writer(folder, purge_step):
            writers[Path(folder).name] = Recorder()
            assert (Path(folder).parent, purge_step) == (tmp_path / "tensorboard", 5)
            return writers[Path(folder).name]

        stand_in = types.ModuleType("torch.utils.tensorboard")
        stand_in.SummaryWriter = writer
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stand_in)
        (sink,) = open_sinks(["tensorboard"], tmp_path)
        sink.begin("digits-s1", CONFIG)
        sink.begin("digits-s2", CONFIG)
        sink.epoch("digits-s1", 5, METRICS)
        sink.epoch("digits-s2", 5, METRICS)
        sink.end("digits-s1", {"test_accuracy": 93.4})
        sink.end("digits-s3", None)  # ended before its first epoch: there is nothing to close
        sink.close()
        scalar_calls = [arguments for arguments, _ in writers["digits-s1"].named("add_scalar")]
        assert [(name, step) for name, _, step in scalar_calls] == [(name, 5) for name in NUMBERS]
        assert [arguments[0] for arguments, _ in writers["digits-s1"].named("add_text")] == [
            "config",
            "result",
        ]
        assert '"alpha": 5.0' in writers["digits-s1"].named("add_text")[0][0][1]
        assert [len(each.named("close")) for each in writers.values()] == [1, 1]


class Client(Recorder):
    """Stands in for mlflow.MlflowClient."""

    known = ()

    def get_experiment_by_name(self, name):
        self.calls.append(("get_experiment_by_name", (name,), {}))

    def create_experiment(self, name):
        return "experiment"

    def search_runs(self, experiments, asked, max_results):
        self.calls.append(("search_runs", (experiments, asked), {}))
        return list(self.known)

    def create_run(self, experiment, tags):
        self.calls.append(("create_run", (experiment,), tags))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=f"ml-{tags['noiseproof.run']}"))


class TestMLflow:
    @pytest.fixture
    def client(self, monkeypatch):
        client = Client()
        stand_in = types.ModuleType("mlflow")
        stand_in.MlflowClient = lambda: client
        monkeypatch.setitem(sys.modules, "mlflow", stand_in)
        return client

    def test_the_right_calls(self, client, tmp_path):
        (sink,) = open_sinks(["mlflow"], tmp_path)
        sink.begin("digits-s1", CONFIG)
        sink.begin("digits-s2", CONFIG)
        sink.epoch("digits-s1", 4, METRICS)
        sink.end("digits-s1", {"test_accuracy": 93.4, "best": None})
        sink.close()
        assert len(client.named("get_experiment_by_name")) == 1
        tags = {"noiseproof.run": "digits-s1", "mlflow.runName": "digits-s1"}
        assert client.named("create_run")[0] == (("experiment",), tags)
        parameters = [arguments for arguments, _ in client.named("log_param")]
        assert ("ml-digits-s1", "loss", "anl-ce") in parameters
        assert len(parameters) == 2 * len(CONFIG)
        logged = client.named("log_metric")
        assert [(arguments[1], options) for arguments, options in logged[:3]] == [
            (name, {"step": 4}) for name in NUMBERS
        ]
        assert logged[3] == (("ml-digits-s1", "result/test_accuracy", 93.4), {})
        assert [arguments for arguments, _ in client.named("set_terminated")] == [
            ("ml-digits-s1", "FINISHED"),
            ("ml-digits-s2", "KILLED"),
        ]

    def test_a_resumed_run_goes_on_in_the_same_place(self, client, tmp_path):
        client.known = [types.SimpleNamespace(info=types.SimpleNamespace(run_id="ml-7"))]
        (sink,) = open_sinks(["mlflow"], tmp_path)
        sink.begin("digits-s1", CONFIG)
        assert client.named("search_runs")[0][0] == (["experiment"], "tags.`noiseproof.run` = 'digits-s1'")
        assert client.named("update_run") == [(("ml-7",), {"status": "RUNNING"})]
        assert client.named("create_run") == client.named("log_param") == []


class TestWandb:
    def test_the_right_calls(self, monkeypatch, tmp_path):
        started, runs = [], {}

        def init(**options):
            started.append(options)
            run = runs[options["id"]] = Recorder()
            run.summary = {}
            return run

        stand_in = types.ModuleType("wandb")
        stand_in.init = init
        monkeypatch.setitem(sys.modules, "wandb", stand_in)
        monkeypatch.delenv("WANDB_PROJECT", raising=False)
        (sink,) = open_sinks(["wandb"], tmp_path / "runs")
        sink.begin("digits-s1", CONFIG)
        monkeypatch.setenv("WANDB_PROJECT", "mine")
        sink.begin("digits-s2", CONFIG)
        sink.epoch("digits-s1", 4, METRICS)
        sink.end("digits-s1", {"test_accuracy": 93.4})
        sink.close()
        assert [each["project"] for each in started] == ["noiseproof", "mine"]
        assert (started[0]["config"], started[0]["resume"]) == (CONFIG, "allow")
        assert started[0]["dir"] == str(tmp_path / "runs")
        ((logged,), options) = runs["digits-s1"].named("log")[0]
        assert (list(logged), options) == (NUMBERS, {"step": 4})
        assert runs["digits-s1"].summary == {"result/test_accuracy": 93.4}
        assert runs["digits-s1"].named("finish") == [((), {"exit_code": 0})]
        assert runs["digits-s2"].named("finish") == [((), {"exit_code": 1})]
