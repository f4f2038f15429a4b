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


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are other things there")
def test_a_link_stays_one_and_a_mode_too(tmp_path: Path) -> None:
    kept, link = tmp_path / "elsewhere", tmp_path / "link"
    kept.write_bytes(b"old")
    kept.chmod(0o600)
    link.symlink_to(kept)
    with cache.replacing_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (b"new", 0o600)
    assert sorted(found.name for found in tmp_path.iterdir()) == ["elsewhere", "link"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no such devices")
def test_devices_are_written_to_and_errors_name_what_was_asked_for(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        with cache.replacing_file(path) as file:
            file.write(b"x" * 100_000)

    write(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write(Path("/dev/full"))
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with pytest.raises(FileNotFoundError, match="none/file'$"):
        write(tmp_path / "none" / "file")
    write(tmp_path / ("ü" * 127))  # of 254 bytes, and one beside it must have a name too


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="this system has no such device")
def test_standard_output_in_a_file_is_not_replaced(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from noiseproof.datasets.cache import replacing_file\n"
        "print('before', flush=True)\n"
        "with replacing_file(Path('/dev/stdout')) as file: file.write(b'table\\n')\n"
        "print('after')"
    )
    with (tmp_path / "said").open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert (tmp_path / "said").read_text().split() == ["before", "table", "after"]
