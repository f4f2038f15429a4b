# SPDX-License-Identifier: Apache-2.0
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from noiseproof.datasets import BadFileError, NotInCacheError, cache


def fill(folder: Path, values: np.ndarray) -> None:
    with cache.replacing(folder) as new:
        cache.write(new, {"values": values}, source="the test", facts={"n": len(values)})


def test_written_arrays_come_back_memory_mapped_and_read_only(tmp_path: Path) -> None:
    fill(tmp_path / "set", np.arange(10))
    values = cache.read_array(tmp_path / "set", "values")
    assert isinstance(values, np.memmap)
    assert values.tolist() == list(range(10))
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 1
    manifest = cache.manifest_of(tmp_path / "set")
    assert manifest["source"] == "the test"
    assert manifest["facts"] == {"n": 10}
    assert list(cache.verify(tmp_path / "set")) == ["values"]


def test_a_failure_leaves_what_was_there_and_no_litter(tmp_path: Path) -> None:
    fill(tmp_path / "set", np.arange(10))

    def fail_half_way() -> None:
        with cache.replacing(tmp_path / "set") as new:
            cache.write(new, {"values": np.zeros(3)}, source="the test")
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        fail_half_way()
    assert cache.read_array(tmp_path / "set", "values").tolist() == list(range(10))
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_a_failure_of_the_first_filling_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), cache.replacing(tmp_path / "set"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    assert not cache.is_filled(tmp_path / "set")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_process_killed_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    fill(tmp_path / "set", np.arange(10))
    program = f"""
import os, signal
from pathlib import Path
import numpy as np
from noiseproof.datasets import cache
with cache.replacing(Path({str(tmp_path)!r}) / "set") as new:
    cache.write(new, {{"values": np.zeros(3)}}, source="the test")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert cache.read_array(tmp_path / "set", "values").tolist() == list(range(10))
    fill(tmp_path / "set", np.arange(4))
    assert cache.read_array(tmp_path / "set", "values").tolist() == list(range(4))


def test_a_new_filling_takes_the_place_of_the_old_and_old_maps_stay_readable(tmp_path: Path) -> None:
    fill(tmp_path / "set", np.arange(10))
    old = cache.read_array(tmp_path / "set", "values")
    fill(tmp_path / "set", np.arange(5))
    assert cache.read_array(tmp_path / "set", "values").tolist() == list(range(5))
    assert old.tolist() == list(range(10))
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_when_the_swap_fails_the_old_folder_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "set", np.arange(10))
    real_rename = Path.rename

    def failing_rename(self: Path, target: Path) -> Path:
        if self.suffix == ".partial":
            raise OSError("disk trouble")
        return real_rename(self, target)

    monkeypatch.setattr(Path, "rename", failing_rename)
    with pytest.raises(OSError, match="disk trouble"):
        fill(tmp_path / "set", np.arange(5))
    assert cache.read_array(tmp_path / "set", "values").tolist() == list(range(10))


def test_the_folder_can_be_read_by_others(tmp_path: Path) -> None:
    fill(tmp_path / "set", np.arange(3))
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "set").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_damage_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    fill(folder, np.arange(10))
    path = folder / "values.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\x07")
    with pytest.raises(BadFileError, match=r"values.npy: expected sha256 .* found sha256"):
        cache.verify(folder)
    path.write_bytes(whole[:-8])
    with pytest.raises(BadFileError, match=r"values.npy: expected a whole .npy file"):
        cache.read_array(folder, "values")
    np.save(path, np.arange(9))
    with pytest.raises(BadFileError, match=r"shape \(10,\), found .* shape \(9,\)"):
        cache.read_array(folder, "values")
    path.unlink()
    with pytest.raises(BadFileError, match="no such file"):
        cache.read_array(folder, "values")
    with pytest.raises(BadFileError, match="an array 'other'"):
        cache.read_array(folder, "other")


def test_a_pickled_array_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    fill(folder, np.arange(3))
    np.save(folder / "values.npy", np.array([{}, {}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(BadFileError, match=r"a whole .npy file"):
        cache.read_array(folder, "values")


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 99}', "{"])
def test_a_strange_manifest_is_refused(tmp_path: Path, text: str) -> None:
    fill(tmp_path / "set", np.arange(3))
    (tmp_path / "set" / cache.MANIFEST).write_text(text)
    with pytest.raises(BadFileError, match="manifest.json"):
        cache.manifest_of(tmp_path / "set")


def test_a_manifest_is_plain_json(tmp_path: Path) -> None:
    fill(tmp_path / "set", np.arange(3, dtype=np.uint8))
    described = json.loads((tmp_path / "set" / "manifest.json").read_text())["arrays"]["values"]
    assert described["shape"] == [3]
    assert described["dtype"] == "|u1"
    assert len(described["sha256"]) == 64


def test_no_manifest_means_not_in_the_cache(tmp_path: Path) -> None:
    with pytest.raises(NotInCacheError):
        cache.manifest_of(tmp_path)


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOISEPROOF_DATA", str(tmp_path))
    assert cache.folder_of("x") == tmp_path / "x"
    assert cache.folder_of("x", tmp_path / "other") == tmp_path / "other" / "x"
    monkeypatch.delenv("NOISEPROOF_DATA")
    for platform, variable, expected in (
        ("linux", "XDG_CACHE_HOME", tmp_path / "noiseproof" / "data"),
        ("win32", "LOCALAPPDATA", tmp_path / "noiseproof" / "data"),
    ):
        monkeypatch.setattr("sys.platform", platform)
        monkeypatch.setenv(variable, str(tmp_path))
        assert cache.default_root() == expected
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache.default_root() == Path.home() / "Library" / "Caches" / "noiseproof" / "data"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail_half_way() -> None:
        with cache.replacing_file(path) as file:
            file.write(b"half")
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        fail_half_way()
    assert path.read_bytes() == b"old"
    with cache.replacing_file(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
