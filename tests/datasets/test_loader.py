# SPDX-License-Identifier: Apache-2.0
"""The streaming loader: the same batches however it is run, resumable, bounded, and never hanging."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from noiseproof.datasets.decode import CentreAfterResize, Fit, RandomWindow, Squash
from noiseproof.datasets.errors import BadFileError
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.loader import Place, StreamingLoader, order_of_epoch
from noiseproof.datasets.loader_workers import WorkerDiedError

FIT = Squash(16, 16)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> LabeledData:
    """Thirty-seven small JPEG files of different sizes, five classes."""
    folder = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(0)
    paths = []
    for number in range(37):
        height, width = random.integers(20, 50, 2)
        small = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        path = folder / f"{number:03}.jpg"
        Image.fromarray(small).resize((int(width), int(height))).save(path, quality=90)
        paths.append(path)
    labels = np.arange(37, dtype=np.int64) % 5
    return LabeledData("pictures", "train", labels, tuple("abcde"), paths=tuple(paths))


def collect(loader, epochs=1):
    with loader:
        return [batch for _ in range(epochs) for batch in loader]


def assert_same(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one.indices, other.indices)
        assert torch.equal(one.labels, other.labels)
        assert torch.equal(one.images, other.images)


def no_workers_left(within=5.0):
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not [child for child in multiprocessing.active_children() if "decode" in child.name]:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("num_workers", [0, 2])
def test_every_sample_once_an_epoch_with_its_own_label_and_pixels(data, num_workers):
    batches = collect(StreamingLoader(data, FIT, 8, seed=3, num_workers=num_workers))
    assert [len(batch.indices) for batch in batches] == [8, 8, 8, 8, 5]
    indices = torch.cat([batch.indices for batch in batches])
    assert indices.sort().values.tolist() == list(range(37))
    assert indices.tolist() != list(range(37))
    for batch in batches:
        assert batch.images.dtype == torch.uint8
        assert batch.images.shape[1:] == (3, 16, 16)
        assert batch.images.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(batch.labels, batch.indices % 5)
        for image, index in zip(batch.images, batch.indices.tolist(), strict=True):
            with Image.open(data.paths[index]) as picture:
                expected = np.array(picture.resize((16, 16), Image.Resampling.BILINEAR))
            np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), expected)


@pytest.mark.parametrize("fit", [FIT, CentreAfterResize(20, 16), RandomWindow(16)], ids=str)
def test_batches_do_not_depend_on_the_number_of_workers(data, fit):
    here = collect(StreamingLoader(data, fit, 8, seed=3, num_workers=0), epochs=2)
    for num_workers, prefetch in ((1, 1), (3, 4), (2, 9)):
        loader = StreamingLoader(data, fit, 8, seed=3, num_workers=num_workers, prefetch=prefetch)
        assert_same(collect(loader, epochs=2), here)
    assert no_workers_left()


def test_spawned_workers_give_the_same_batches(data):
    here = collect(StreamingLoader(data, RandomWindow(16), 8, seed=3, num_workers=0))
    spawned = StreamingLoader(data, RandomWindow(16), 8, seed=3, num_workers=1, start_method="spawn")
    assert_same(collect(spawned), here)


def test_random_fits_change_from_epoch_to_epoch(data):
    loader = StreamingLoader(data, RandomWindow(16), 37, shuffle=False, num_workers=0)
    first, second = collect(loader, epochs=2)
    assert not torch.equal(first.images, second.images)


def test_order_depends_on_seed_and_epoch_alone():
    assert order_of_epoch(8, 1, 0).tolist() == [0, 6, 5, 3, 4, 7, 2, 1]  # golden: the same on every machine
    orders = {tuple(order_of_epoch(50, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
    first = np.array([order_of_epoch(10, seed, 0)[0] for seed in range(5000)])
    assert ((np.bincount(first, minlength=10) - 500) ** 2 / 500).sum() < 27.9  # chi-square


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_new_loader_continues_where_the_old_one_stopped(data, num_workers):
    def new() -> StreamingLoader:
        return StreamingLoader(data, RandomWindow(16), 8, seed=3, num_workers=num_workers)

    whole = collect(new(), epochs=3)
    with new() as stopped:
        seen = list(stopped)
        for batch in stopped:
            seen.append(batch)
            if len(seen) == 7:
                break
        assert stopped.place == Place(epoch=1, step=2)
        state = stopped.state_dict()
    with new() as resumed:
        resumed.load_state_dict(state)
        rest = [batch for _ in range(2) for batch in resumed]
        assert resumed.place == Place(epoch=3, step=0)
    assert_same(seen + rest, whole)


def test_a_state_of_another_order_is_refused(data):
    state = StreamingLoader(data, FIT, 8, seed=3).state_dict()
    with pytest.raises(ValueError, match="batch_size was 8, this loader has 4; make the loader as it was"):
        StreamingLoader(data, FIT, 4, seed=3).load_state_dict(state)
    with pytest.raises(ValueError, match="seed was 3, this loader has 4"):
        StreamingLoader(data, FIT, 8, seed=4).load_state_dict(state)
    with pytest.raises(ValueError, match="step must lie in"):
        StreamingLoader(data, FIT, 8, seed=3).load_state_dict({**state, "step": 5})


def test_stopping_early_and_iterating_again(data):
    with StreamingLoader(data, FIT, 4, seed=3, num_workers=2) as loader:
        first = next(iter(loader))
        rest = list(loader)
        assert len(rest) == len(loader) - 1
        everything = torch.cat([batch.indices for batch in [first, *rest]])
        assert everything.sort().values.tolist() == list(range(37))


def test_two_iterations_at_once_are_refused_and_the_newer_one_goes_on(data):
    with StreamingLoader(data, FIT, 4, seed=3, num_workers=2) as loader:
        older = iter(loader)
        next(older)
        newer = iter(loader)
        next(newer)
        with pytest.raises(RuntimeError, match="ended by a newer one"):
            next(older)
        assert len(list(newer)) == len(loader) - 2


def test_drop_last_and_small_sets(data):
    assert [
        len(b.indices) for b in collect(StreamingLoader(data, FIT, 8, drop_last=True, num_workers=1))
    ] == [8] * 4
    (batch,) = collect(StreamingLoader(data.subset([4, 2]), FIT, 8, shuffle=False, num_workers=1))
    assert batch.labels.tolist() == [4, 2]
    with pytest.raises(ValueError, match="must hold at least one batch, got 2 samples"):
        StreamingLoader(data.subset([4, 2]), FIT, 8, drop_last=True)


def test_images_in_memory_are_served_without_workers():
    images = np.random.default_rng(0).integers(0, 256, (10, 5, 6, 1), dtype=np.uint8)
    data = LabeledData("mine", "train", np.zeros(10, dtype=np.int64), ("a",), images=images)
    for batch in StreamingLoader(data, None, 4, num_workers=2):
        np.testing.assert_array_equal(batch.images.permute(0, 2, 3, 1).numpy(), images[batch.indices.numpy()])
    assert no_workers_left()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be 1 or more, got 0"),
        ({"seed": -1}, r"seed must lie in 0..2\*\*63 - 1, got -1"),
        ({"num_workers": -2}, "num_workers must be 0 or more, got -2"),
        ({"prefetch": 0}, "prefetch must be 1 or more, got 0"),
        ({"fit": None}, "fit must say how the images of pictures get one size, got None"),
    ],
)
def test_bad_settings(data, settings, message):
    with pytest.raises(ValueError, match=message):
        StreamingLoader(data, **{"fit": FIT, "batch_size": 8, **settings})


# What can go wrong --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trap(Fit):
    """Reads files, but does something else at one of them."""

    name: str
    what: str

    @property
    def shape(self):
        return (16, 16, 3)

    def __call__(self, image, random):
        return FIT(image, random)

    def read(self, path, random):
        if path.name == self.name:
            if self.what == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.what == "exit":
                os._exit(3)
            raise RuntimeError("the codec is upset")
        return super().read(path, random)


@pytest.mark.parametrize(
    ("what", "how"), [("kill", r"killed by SIGKILL.*memory runs out"), ("exit", r"exit code 3")]
)
def test_a_dying_worker_names_the_file(data, what, how):
    loader = StreamingLoader(data, Trap("021.jpg", what), 4, num_workers=2)
    started = time.monotonic()
    with pytest.raises(WorkerDiedError, match=r"021\.jpg \(sample 21\)") as caught:
        list(loader)
    assert time.monotonic() - started < 10
    assert "decode worker" in str(caught.value)
    assert re.search(how, str(caught.value))
    assert no_workers_left()


def test_an_exception_in_a_worker_names_the_file(data):
    with pytest.raises(Exception, match=r"005\.jpg: decoding failed with RuntimeError: the codec is upset"):
        list(StreamingLoader(data, Trap("005.jpg", "raise"), 4, num_workers=2))
    assert no_workers_left()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_truncated_file_is_named(data, tmp_path, num_workers):
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(data.paths[0].read_bytes()[:-200])
    broken = LabeledData("broken", "train", data.labels[:3], data.class_names, paths=(*data.paths[:2], cut))
    with pytest.raises(BadFileError, match=r"cut\.jpg: expected a whole image, found a truncated") as caught:
        list(StreamingLoader(broken, FIT, 2, num_workers=num_workers))
    assert caught.value.path == cut
    assert no_workers_left()


def test_an_exception_in_the_consumer_stops_the_workers(data):
    class Upset(Exception):
        pass

    def consume():
        with StreamingLoader(data, FIT, 4, num_workers=2) as loader:
            for _ in loader:
                raise Upset

    with pytest.raises(Upset):
        consume()
    assert no_workers_left()


@dataclass(frozen=True)
class Marking(Fit):
    """Leaves a mark for each file it reads."""

    folder: Path

    @property
    def shape(self):
        return (16, 16, 3)

    def __call__(self, image, random):
        return FIT(image, random)

    def read(self, path, random):
        (self.folder / path.name).touch()
        return super().read(path, random)


def test_a_slow_consumer_is_not_run_away_from(data, tmp_path):
    with StreamingLoader(data, Marking(tmp_path), 4, num_workers=2, prefetch=2) as loader:
        next(iter(loader))
        time.sleep(0.7)
        assert 4 < len(list(tmp_path.iterdir())) <= 12  # one batch handed out and two ahead


SCRIPT = """
import sys, time, multiprocessing
import numpy as np
from pathlib import Path
from noiseproof.datasets.decode import Squash
from noiseproof.datasets.labeled_data import LabeledData
from noiseproof.datasets.loader import StreamingLoader

paths = tuple(sorted(Path(sys.argv[1]).glob("*.jpg")))
data = LabeledData("p", "train", np.zeros(len(paths), dtype=np.int64), ("a",), paths=paths)
if __name__ == "__main__":
    loader = StreamingLoader(data, Squash(16, 16), 4, num_workers=2)
    while True:
        for batch in loader:
            pids = [child.pid for child in multiprocessing.active_children()]
            print("pids", *pids, flush=True)
            time.sleep(0.05)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals as on Unix")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_a_killed_parent_leave_no_worker_behind(data, tmp_path, how):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    process = subprocess.Popen(
        [sys.executable, str(script), str(data.paths[0].parent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that a shell runs in the background are born deaf to Ctrl-C, and so would be their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    pids = [int(pid) for pid in process.stdout.readline().split()[1:]]
    assert len(pids) == 2
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # what a terminal does: the whole group gets it
    else:
        process.kill()
    _, errors = process.communicate(timeout=20)
    if how == signal.SIGINT:
        assert errors.count("KeyboardInterrupt") == 1
        assert "decode" not in errors.replace("noiseproof-decode", "")
    end = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
