# SPDX-License-Identifier: Apache-2.0
"""A grid on a real Ray cluster of two nodes, one of which is killed with SIGKILL: every cell, none twice."""

import hashlib
import os
import signal
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from noiseproof.grids import load
from noiseproof.grids.display import Silence
from noiseproof.training.store import Store, StoreError

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'noiseproof[ray]'")
pytestmark = pytest.mark.slow

EPOCHS = 40
EPOCHS_BEFORE_THE_KILL = 5


@pytest.fixture
def local(monkeypatch):
    """Where Ray keeps its sessions and workers train what they cannot share; short, as names of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as place:
        monkeypatch.setenv("TMPDIR", place)
        yield Path(place)


@pytest.fixture
def cluster(local):
    """A head without a core for tasks, and two nodes of one core each."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
    made.workers = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def cells():
    settings = {"epochs": EPOCHS, "evaluate_every": EPOCHS, "device": "cpu"}
    return load("digits-table").narrowed(["ce", "gce", "anl-ce"], ["sym-0.4"], [1, 2], settings).cells()


class Notes(Silence):
    """Keeps what is told."""

    def __init__(self):
        self.lines, self.endings = [], []

    def ended(self, text):
        self.endings.append(text)

    def say(self, text):
        self.lines.append(text)


def processes_of(node):
    """The node's raylet with all that it has started, its workers among them; by id, with their command lines."""
    parents, commands = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(process.name)] = (process / "cmdline").read_text()
        except OSError:
            continue
    family = {node.all_processes["raylet"][0].process.pid}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return {pid: commands[pid] for pid in family if pid in commands}


class Killer(threading.Thread):
    """Waits until a worker has trained some epochs, then kills its whole node, as a power cut would."""

    def __init__(self, cluster, cells, places):
        super().__init__(daemon=True)
        self.cluster, self.places = cluster, places
        self.by_pack = {hashlib.sha256(c.config.hash.encode()).hexdigest()[:16]: c for c in cells}
        self.victims, self.cell, self.epochs, self.when = [], None, (), None

    def run(self):
        while not self.victims:
            time.sleep(0.05)
            for node in self.cluster.workers:
                processes = processes_of(node)
                for pack, cell in self.by_pack.items():
                    if any(f"ray::noiseproof-{pack}" in command for command in processes.values()):
                        epochs = self.epochs_of(cell)
                        if EPOCHS_BEFORE_THE_KILL <= len(epochs) < EPOCHS // 2:
                            self.cell, self.epochs, self.when = cell, epochs, datetime.now(UTC)
                            for pid in processes:
                                os.kill(pid, signal.SIGKILL)
                            self.victims = list(processes)
                            return

    def epochs_of(self, cell):
        for place in self.places():
            try:
                with Store(place) as store:
                    return store.get(cell.config.run_id).epochs
            except StoreError:
                continue
        return ()


@pytest.mark.parametrize("shared", [True, False], ids=["shared folder", "folders of their own"])
def test_a_killed_node_loses_no_cell_and_none_is_trained_twice(cluster, local, cells, tmp_path, shared):
    from noiseproof.grids.ray_cluster import run_cells_on_ray

    folder = tmp_path / "runs"
    where = (folder / "ray", "*") if shared else (local, "noiseproof-*")
    notes, came_back = Notes(), []
    killer = Killer(cluster, cells, lambda: where[0].glob(where[1]))
    killer.start()
    outcome = run_cells_on_ray(
        cells,
        address=cluster.address,
        folder=folder,
        display=notes,
        finished=lambda records: came_back.extend(record.id for record in records),
        shared=shared,
    )

    assert killer.victims, "nothing was killed while it worked"
    lost = killer.cell.config.run_id
    assert f"{lost}: its worker was lost" in "\n".join(notes.lines)
    assert (outcome.stopped, outcome.trained, outcome.count("finished")) == (None, 6, 6)
    assert sorted(came_back) == sorted(cell.config.run_id for cell in cells)
    assert len(notes.endings) == 6
    with Store(folder) as store:
        records = {record.id: store.get(record.id) for record in store.runs()}
    assert sorted(record.config_hash for record in records.values()) == sorted(c.config.hash for c in cells)
    for record in records.values():
        assert [epoch["epoch"] for epoch in record.epochs] == list(range(EPOCHS))
        assert (folder / record.id / "weights.safetensors").stat().st_size > 100_000
    assert not list((folder / "ray").glob("*")), "packs are cleared away"
    assert not list(folder.glob(".ray-*"))

    # What the dead node had trained is kept where the folder is shared, and done again where it is not.
    began = datetime.fromisoformat(records[lost].environment["elsewhere"]["started"])
    kept = records[lost].epochs[: len(killer.epochs) - 1] == killer.epochs[:-1]
    assert (kept, began <= killer.when) == (shared, shared)


def test_the_same_grid_again_trains_nothing_and_one_machine_goes_on(local, tmp_path):
    """A cluster and a single machine share a folder's records, and failed runs come back as failed."""
    from noiseproof.grids.ray_cluster import run_cells_on_ray
    from noiseproof.grids.runner import run_cells

    grid = load("digits-table").narrowed(["ce", "gce"], ["clean"], [1], {"epochs": 2, "device": "cpu"})
    bad = grid.narrowed(["gce"], settings={"learning_rate": 1e30, "clip_norm": 0.0})
    first, second = grid.cells()
    before = run_cells([first], folder=tmp_path, processes=1)
    assert before.trained == 1
    outcome = run_cells_on_ray([first, second, *bad.cells()], address="local", folder=tmp_path)
    assert [state.status for state in outcome.states] == ["finished", "finished", "failed"]
    assert outcome.trained == 1
    assert "not a finite number" in outcome.states[2].record.error
    after = run_cells([first, second, *bad.cells()], folder=tmp_path, processes=1)
    assert after.trained == 0


def test_ctrl_c_saves_what_workers_have_and_one_machine_goes_on(local, tmp_path):
    from noiseproof.grids.ray_cluster import run_cells_on_ray
    from noiseproof.grids.runner import run_cells

    settings = {"epochs": 300, "device": "cpu"}
    cells = load("digits-table").narrowed(["ce"], ["clean"], [1, 2, 3], settings).cells()

    def press():
        while not list((tmp_path / "ray").glob("*/*/checkpoint.pt")):
            time.sleep(0.1)
        time.sleep(1.0)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    outcome = run_cells_on_ray(cells, address="local", folder=tmp_path)
    assert outcome.stopped == "interrupted"
    begun = [state for state in outcome.states if state.status == "begun"]
    assert begun
    assert outcome.count("finished") == 0
    assert not list((tmp_path / "ray").glob("*"))
    for state in begun:
        assert (tmp_path / state.record.id / "checkpoint.pt").exists()
        assert state.record.progress.epochs > 0
    with Store(tmp_path) as store:
        trained = store.get(begun[0].record.id).epochs
    after = run_cells([begun[0].cell], folder=tmp_path, processes=1)
    assert after.trained == 1
    with Store(tmp_path) as store:
        assert store.get(begun[0].record.id).epochs[: len(trained) - 1] == trained[:-1]
