# SPDX-License-Identifier: Apache-2.0
"""The restricted reader: official files come out right, everything else is refused, and nothing ever runs."""

import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noiseproof.datasets import BadFileError, cifar10, pickle_reader
from noiseproof.datasets.cifar100_classes import CLASS_NAMES, COARSE_NAMES

Writer = Callable[[Any], bytes]


def read(path: Path, content: bytes) -> dict[str, Any]:
    path.write_bytes(content)
    return pickle_reader.read(path)


def test_the_meta_files_are_written_as_the_official_ones_and_read_back(
    tmp_path: Path, python2_pickle: Writer
) -> None:
    # https://www.cs.toronto.edu/~kriz/cifar.html; the md5 are those of batches.meta in cifar-10-python.tar.gz
    # and of meta in cifar-100-python.tar.gz.
    ten = {"num_cases_per_batch": 10000, "label_names": list(cifar10.CLASS_NAMES), "num_vis": 3072}
    hundred = {"fine_label_names": list(CLASS_NAMES), "coarse_label_names": list(COARSE_NAMES)}
    for content, md5 in (
        (ten, "5ff9c542aee3614f3951f8cda6e48888"),
        (hundred, "7973b15100ade9c7d40fb424638fde48"),
    ):
        program = python2_pickle(content)
        assert hashlib.md5(program).hexdigest() == md5
        assert read(tmp_path / "meta", program) == content


def test_a_batch(tmp_path: Path, python2_pickle: Writer) -> None:
    data = np.random.RandomState(0).randint(0, 256, (1500, 3072)).astype(np.uint8)
    content = {
        "batch_label": "training batch 1 of 5",
        "labels": [int(value) for value in data[:, 0] % 10],
        "data": data,
        "filenames": [f"leptodactylus_pentadactylus_s_{index:06d}.png" for index in range(1500)],
    }
    found = read(tmp_path / "data_batch_1", python2_pickle(content))
    assert np.array_equal(found.pop("data"), content.pop("data"))
    assert found == content


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_other_writers_are_read_or_refused_but_never_run(tmp_path: Path, protocol: int) -> None:
    content = pickle.dumps({"data": np.zeros((2, 2), np.uint8), "labels": [1, 2]}, protocol=protocol)
    try:
        found = read(tmp_path / "x", content)
    except BadFileError:
        return
    assert found["labels"] == [1, 2]


class Evil:
    """What an attacker would write: unpickling it runs a command."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.call = call
        self.arguments = arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("call", [os.mkdir, eval, getattr, np.load, pickle.loads])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, call: Any, protocol: int) -> None:
    target = tmp_path / "it-ran"
    evil = {"data": Evil(call, str(target)), "labels": [0]}
    with pytest.raises(BadFileError, match="expected an official CIFAR pickle, found the (name|instruction)"):
        read(tmp_path / "data_batch_1", pickle.dumps(evil, protocol=protocol))
    assert not target.exists()


def test_the_same_pickle_would_have_run(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Evil(os.mkdir, str(tmp_path / "it-ran")), protocol=2))
    assert (tmp_path / "it-ran").exists()


MARKS = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n"


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x80\x02cos\nsystem\n.", "the name 'os system'"),
        (b"\x80\x02cnumpy\nload\n.", "the name 'numpy load'"),
        (b"\x80\x02cnumpy.core.multiarray\nscalar\n.", "the name"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "a call of numpy ndarray"),
        (b"\x80\x02cnumpy\ndtype\nU\x02O8\x85R.", "a call of numpy dtype"),
        (b"\x80\x02cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01<NNNtb.", "not the unsigned byte"),
        (b"\x80\x02}}b.", "a state for dict"),
        (b"\x80\x02cnumpy\ndtype\n)\x81.", "the instruction NEWOBJ"),
        (b"(ios\nsystem\n.", "the instruction INST"),
        (b"(cos\nsystem\no.", "the name"),
        (b"\x80\x02Pabc\n.", "the instruction PERSID"),
        (b"\x80\x02\x82\x01.", "the instruction EXT1"),
        (b"\x80\x02U\x01a2.", "the instruction DUP"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "the instruction SHORT_BINUNICODE|STACK_GLOBAL"),
    ],
)
def test_instructions_and_names_outside_the_few_are_refused(
    tmp_path: Path, program: bytes, message: str
) -> None:
    with pytest.raises(BadFileError, match=message):
        read(tmp_path / "data_batch_1", program)


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b".",
        b"\x80\x02}",
        b"\x80\x02}u.",
        b"\x80\x02U\x05ab",
        b"\x80\x02T\xff\xff\xff\xffab.",
        b"\x80\x02h\x05.",
        b"\x80\x02q\x01.",
        b"\x80\x02(U\x01a}e.",
        b"\x80\x02](K\x01e](K\x02e.",
        b"\x80\x02}(U\x01au.",
        b"\x80\x02}(]K\x01u.",
        b"\x80\x02\x85.",
        b"\x80\x02R.",
        b"\x80\x02b.",
        b"\x80\x02K\x01K\x02R.",
        b"random bytes, not a pickle",
    ],
)
def test_broken_programs_are_refused(tmp_path: Path, program: bytes) -> None:
    with pytest.raises(BadFileError, match="data_batch_1: expected"):
        read(tmp_path / "data_batch_1", program)


def test_something_other_than_a_dictionary(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match="a dictionary, found list"):
        read(tmp_path / "x", pickle.dumps([1], protocol=2))


def test_an_array_shorter_than_its_shape(tmp_path: Path, python2_pickle: Writer) -> None:
    program = python2_pickle({"data": np.zeros((3, 5), np.uint8)})
    with pytest.raises(BadFileError, match=r"an array of shape \(3, 6\) from 15 bytes"):
        read(tmp_path / "x", program.replace(b"(K\x01K\x03K\x05\x86", b"(K\x01K\x03K\x06\x86"))


@pytest.mark.parametrize("share", [0.001, 0.2, 0.5, 0.9, 0.9999])
def test_truncated_anywhere(tmp_path: Path, python2_pickle: Writer, share: float) -> None:
    program = python2_pickle({"data": np.zeros((30, 50), np.uint8), "labels": list(range(30))})
    with pytest.raises(BadFileError, match="damaged or truncated"):
        read(tmp_path / "x", program[: int(len(program) * share)])


def test_flipped_bytes_are_read_or_refused_but_never_run(tmp_path: Path, python2_pickle: Writer) -> None:
    program = python2_pickle({"data": np.zeros((3, 4), np.uint8), "labels": [0, 1, 2], "batch_label": "x"})
    random = np.random.RandomState(0)
    refused = 0
    for _ in range(2000):
        damaged = bytearray(program)
        damaged[random.randint(len(damaged))] = random.randint(256)
        try:
            found = read(tmp_path / "x", bytes(damaged))
        except BadFileError:
            refused += 1
        else:
            assert isinstance(found, dict)
    assert 0 < refused < 2000


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle_reader, "MOST_BYTES", 10)
    with pytest.raises(BadFileError, match="at most 10 bytes, found 11"):
        read(tmp_path / "x", bytes(11))
