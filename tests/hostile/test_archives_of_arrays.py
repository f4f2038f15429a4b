# SPDX-License-Identifier: Apache-2.0
"""``.npz`` files that claim or unpack to more than they may, and tar files that the tar reader stumbles over."""

import gzip
import io
import json
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from noiseproof.command_line import app
from noiseproof.datasets import BadFileError, load, load_split
from noiseproof.datasets.archives import unpack
from noiseproof.noise import NoisyLabels, symmetric
from noiseproof.training.examples import Examples, load_examples

CLEAN = np.array([0, 1, 2, 1])


def claims(shape: str, descr: str = "<i8") -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)


def stored(array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def zipped(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def saved_noise(path, **changes) -> None:
    """A noise file of ``CLEAN`` with some entries changed: JSON values in the description, bytes as arrays."""
    symmetric(CLEAN, 0.5, 3, seed=1).save(path)
    with np.load(path) as content:
        description = json.loads(str(content["description"]))
        arrays = {name: content[name] for name in content.files if name != "description"}
    text = changes.pop("text", None) or json.dumps(description | changes.pop("description", {}))
    entries = {"description": np.array(text), **arrays}
    raw = {name: stored(array) for name, array in entries.items()}
    path.write_bytes(zipped(raw | changes))


def test_the_helper_writes_what_is_read(tmp_path):
    saved_noise(tmp_path / "n.npz")
    assert len(NoisyLabels.load(tmp_path / "n.npz", clean=CLEAN)) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": claims("(4000000000000,)")}, "not a readable file of noisy labels"),
        ({"labels": claims("(4,)", "|O")}, "not a readable file of noisy labels"),
        ({"labels": claims("((((")}, "not a readable file of noisy labels"),
        ({"labels": claims("'" + "(" * 5000)}, "not a readable file of noisy labels"),
        ({"answers": bytes(60_000_000)}, "would unpack to 60"),
        ({"description": {"num_classes": 10**9}}, "it states 1000000000 classes"),
        ({"description": {"num_classes": True}}, "lacks a valid num_classes"),
        ({"description": {"details": "x"}}, "lacks a valid details"),
        ({"text": "[" * 100_000}, "description cannot be read"),
        ({"text": '"text"'}, "description cannot be read"),
        ({"text": '{"format": NaN}'}, "description cannot be read"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_noise_files(tmp_path, changes, message):
    saved_noise(tmp_path / "n.npz", **changes)
    with pytest.raises(ValueError, match=message):
        NoisyLabels.load(tmp_path / "n.npz", clean=CLEAN)


@pytest.mark.parametrize(
    "entries",
    [
        {"format_version": claims("(99999999999999,)")},
        {"format_version": claims("()")},
        {"train": claims("(1,)")},
        {},
    ],
)
def test_splits(tmp_path, entries):
    (tmp_path / "s.npz").write_bytes(zipped(entries))
    with pytest.raises(BadFileError, match="a split written by Split.save|format_version 1"):
        load_split(tmp_path / "s.npz")


def test_examples_must_fit_together(tmp_path):
    masks = np.zeros((1, 2, 2), np.uint8)
    good = Examples(
        ("best",), np.array([1]), np.zeros((1, 2, 2, 3), np.uint8), masks, masks, masks, np.array([5.0])
    )
    path = tmp_path / "examples.npz"
    good.save(path)
    assert load_examples(path).kind == ("best",)
    for wrong in (
        {"true": np.zeros((1, 2, 3), np.uint8)},
        {"index": np.array([1, 2])},
        {"dice": np.array(["x"])},
    ):
        Examples(**{**vars(good), **wrong}).save(path)
        with pytest.raises(BadFileError, match="pictures with three masks each"):
            load_examples(path)
    np.savez(path, kind=np.array(["best"]))
    with pytest.raises(BadFileError, match="pictures with three masks each"):
        load_examples(path)


def test_a_size_of_ninety_digits_in_a_tar_header(tmp_path):
    # Found by fuzzing: Python's tar reader raises OverflowError on it.
    block = bytearray(512)
    block[:14] = b"././@PaxHeader"
    block[100:156] = b"0000000\0" * 3 + b"00000000202\0" + b"00000000000\0" + b"\0" * 8
    block[156:157] = b"x"
    block[257:265] = b"ustar\x0000"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    content = bytes(block) + (b"1" * 90).ljust(512, b"\0")
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(content))
    with pytest.raises(BadFileError, match=r"a whole \.tar\.gz archive"):
        unpack(tmp_path / "a.tar.gz", {"a"}, tmp_path)


ROWS = len(load("digits").labels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "saved by numpy.save"),
        (claims("(-90, 3)"), "saved by numpy.save"),
        (claims("(9000000000000, 10)"), "saved by numpy.save"),
        (claims("(2, 10)", "|O"), "saved by numpy.save"),
        (zipped({"a": claims("(1,)")}), "several arrays"),
        (stored(np.full((ROWS, 12), 1 / 12)), "each of the 10 classes, got 12"),
    ],
    ids=["empty", "negative", "terabytes", "objects", "archive", "too-many-columns"],
)
def test_probabilities_of_others_for_an_audit(tmp_path, content, message):
    (tmp_path / "p.npy").write_bytes(content)
    words = ["audit", "digits", "--out", str(tmp_path / "out"), "--probabilities", str(tmp_path / "p.npy")]
    ended = CliRunner().invoke(app, words)
    assert (ended.exit_code, message in ended.stderr) == (2, True), ended.output
    assert "Aborted" not in ended.stderr
