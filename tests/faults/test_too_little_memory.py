# SPDX-License-Identifier: Apache-2.0
"""Memory that runs out: in training processes, in decode workers, on a GPU. Half as many go on, and it is said."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tests import warm

from noiseproof.datasets import LabeledData
from noiseproof.datasets.decode import Fit, Squash
from noiseproof.datasets.loader import StreamingLoader
from noiseproof.training import Config, resolve, train, train_pack
from noiseproof.training import data as data_room
from noiseproof.training import processes as processes_module

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="kills processes and limits memory as Linux does"
)


def small(**changes):
    return resolve(
        "digits", **({"noise": "sym-0.4", "epochs": 2, "device": "cpu", "train_size": 300} | changes)
    )


def weights_of(folder, config):
    return load_file(folder / config.run_id / "weights.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def children_of(pid):
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class Killer(threading.Thread):
    """Kills a training process of this one with SIGKILL, as the system does, as soon as a run has a checkpoint."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.victim, self.stop = folder, None, threading.Event()

    def run(self):
        while not self.stop.is_set() and self.victim is None:
            time.sleep(0.02)
            if list(self.folder.glob("*/checkpoint.pt")):
                alive = [child.pid for child in multiprocessing.active_children() if child.is_alive()]
                if alive:
                    self.victim = alive[0]
                    os.kill(self.victim, signal.SIGKILL)


def test_a_killed_training_process_leaves_its_runs_to_half_as_many(tmp_path, capsys, monkeypatch):
    warm.for_packs(monkeypatch)
    configs = [small(seed=seed, epochs=15) for seed in (1, 2)]
    killer = Killer(tmp_path / "runs")
    killer.start()
    records = train_pack(configs, folder=tmp_path / "runs", processes=2)
    killer.stop.set()
    assert killer.victim is not None, "nothing was killed while it worked"
    assert [record.status for record in records] == ["finished", "finished"]
    assert (
        "a training process was killed, perhaps for want of memory: 1 at a time, then"
        in capsys.readouterr().out
    )
    for config, record in zip(configs, records, strict=True):
        assert [epoch["epoch"] for epoch in record.epochs] == list(range(15))
        train(config, folder=tmp_path / "alone", quiet=True)
        assert same(weights_of(tmp_path / "alone", config), weights_of(tmp_path / "runs", config))


def test_a_process_that_is_killed_even_alone_ends_in_words(tmp_path, monkeypatch):
    def always_killed(*_):
        return "was killed"

    monkeypatch.setattr(processes_module, "_train_at_once", always_killed)
    with pytest.raises(
        RuntimeError, match=r"also with no other beside it; what was finished is kept: free memory"
    ):
        train_pack([small(seed=seed) for seed in (1, 2, 3)], folder=tmp_path, quiet=True, processes=3)


GREEDY = """
import os, resource, sys
from pathlib import Path
import torch
import noiseproof.training.engine as engine
from noiseproof.training import resolve, train_pack

usual, mark = engine.train_pack, Path(sys.argv[1]) / "mark"

def greedy(configs, **options):
    try:
        mark.unlink()  # the first process of all, and no other
    except FileNotFoundError:
        return usual(configs, **options)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + (64 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    torch.empty(1 << 30)  # which the system refuses

if __name__ == "__main__":
    mark.touch()
    settings = {"noise": "sym-0.4", "epochs": 2, "device": "cpu", "train_size": 300}
    configs = [resolve("digits", seed=seed, **settings) for seed in (1, 2)]
    print([record.status for record in train_pack(configs, folder=Path(sys.argv[1]) / "runs", processes=2)])
else:
    engine.train_pack = greedy
"""


@pytest.mark.slow
def test_a_training_process_that_gets_no_memory_leaves_its_runs_to_half_as_many(tmp_path):
    (tmp_path / "script.py").write_text(GREEDY)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "a training process had too little memory: 1 at a time, then" in done.stdout
    assert "['finished', 'finished']" in done.stdout


# Decode workers --------------------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path):
    """48 small pictures in two classes."""
    random = np.random.RandomState(0)
    for class_name in ("cat", "dog"):
        (tmp_path / "photos" / class_name).mkdir(parents=True)
        for number in range(24):
            pixels = random.randint(0, 255, (10, 10, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / class_name / f"{number:03}.png")
    return tmp_path / "photos"


@dataclass(frozen=True)
class Unlucky(Fit):
    """Reads files; while a mark exists, the first to see it removes it and is killed or gets no memory."""

    mark: str
    what: str

    @property
    def shape(self):
        return (8, 8, 3)

    def __call__(self, image, random):
        return Squash(8, 8)(image, random)

    def read(self, path, random):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.mark)
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise MemoryError
        return super().read(path, random)


@pytest.mark.parametrize("what", ["kill", "memory"])
def test_a_decode_worker_without_memory_leaves_its_work_to_half_as_many(photos, tmp_path, what):
    paths = tuple(sorted(photos.rglob("*.png")))
    data = LabeledData("photos", "train", np.arange(48) % 2, ("cat", "dog"), paths=paths)

    def batches(workers):
        with StreamingLoader(data, Unlucky(str(tmp_path / "mark"), what), 7, num_workers=workers) as loader:
            return [(batch.indices.tolist(), batch.images.clone()) for _ in range(2) for batch in loader]

    expected = batches(0)
    (tmp_path / "mark").touch()
    with pytest.warns(RuntimeWarning, match="try fewer workers or smaller batches; continuing with 1 worker"):
        found = batches(2)
    assert [indices for indices, _ in found] == [indices for indices, _ in expected]
    assert all(torch.equal(one, other) for (_, one), (_, other) in zip(found, expected, strict=True))
    assert multiprocessing.active_children() == []


def test_a_decode_worker_that_is_killed_during_training_changes_nothing(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(data_room, "_free_bytes", lambda device: 0.0)  # so that pictures are streamed
    config = Config(
        f"folder:{photos}", "mlp", 3, 0.01, batch_size=4, image_size=8, workers=2, device="cpu", loss="ce"
    )
    train(config, folder=tmp_path / "whole", quiet=True)
    killed = []

    def kill_one():
        while not killed:
            time.sleep(0.005)
            for child in multiprocessing.active_children():
                if child.name.startswith("noiseproof-decode") and list(
                    (tmp_path / "runs").glob("*/checkpoint.pt")
                ):
                    os.kill(child.pid, signal.SIGKILL)
                    killed.append(child.pid)
                    break

    threading.Thread(target=kill_one, daemon=True).start()
    with pytest.warns(RuntimeWarning, match="continuing with 1 worker"):
        train(config, folder=tmp_path / "runs", quiet=True)
    assert killed
    assert same(weights_of(tmp_path / "whole", config), weights_of(tmp_path / "runs", config))


# A GPU -----------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_pack_that_does_not_fit_on_the_gpu_goes_in_halves(tmp_path, capsys):
    """Really out of memory: eight runs may have half as much again as one of them took alone."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")

    def config(seed):
        settings = {
            "model": "resnet18",
            "model_options": {},
            "epochs": 1,
            "batch_size": 256,
            "device": "cuda",
        }
        return resolve("digits", noise="sym-0.4", seed=seed, **settings)

    train(config(100), folder=tmp_path, quiet=True)  # cuDNN tries its ways, which takes memory once
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    train(config(101), folder=tmp_path, quiet=True)
    enough_for_one = torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 1.5 * enough_for_one / total))
    try:
        records = train_pack([config(seed) for seed in range(8)], folder=tmp_path)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [record.status for record in records] == ["finished"] * 8
    assert "8 runs at once need more memory than the GPU has: 4 at a time, then" in capsys.readouterr().out
