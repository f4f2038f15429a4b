# SPDX-License-Identifier: Apache-2.0
"""A malicious pickle, in every place that reads a file: nothing in it runs, and the error is one of ours."""

import hashlib
import io
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from noiseproof import models, torch_files
from noiseproof.datasets import BadFileError, cache, cifar_files, human_label_files, load_split
from noiseproof.models.weight_files import WeightsError
from noiseproof.noise import NoisyLabels, human
from noiseproof.noise.masks import NoisyMasks
from noiseproof.training import checkpoint
from noiseproof.training.examples import load_examples

CLEAN = np.array([0, 1, 2, 1])


class Touches:
    """Makes a file when it is unpickled."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self):
        return os.mkdir, (str(self.witness),)


def plain(witness: Path, protocol: int) -> bytes:
    return pickle.dumps({"labels": Touches(witness)}, protocol=protocol)


def torch_file(witness: Path, new: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save({"worse_label": Touches(witness)}, buffer, _use_new_zipfile_serialization=new)
    return buffer.getvalue()


def object_array(witness: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([Touches(witness)], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def npz(witness: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in (
            "description",
            "labels",
            "kinds",
            "bits",
            "train",
            "validation",
            "format_version",
            "kind",
        ):
            archive.writestr(f"{name}.npy", object_array(witness))
    return buffer.getvalue()


PAYLOADS = {
    "pickle-0": lambda witness: plain(witness, 0),
    "pickle-2": lambda witness: plain(witness, 2),
    "pickle-5": lambda witness: plain(witness, 5),
    "torch": lambda witness: torch_file(witness, True),
    "torch-legacy": lambda witness: torch_file(witness, False),
    "npy": object_array,
    "npz": npz,
}


def read_checkpoint(path: Path) -> None:
    payload = path.read_bytes()
    path.write_bytes(
        checkpoint.MAGIC + hashlib.sha256(payload).digest() + payload
    )  # a forger knows the checksum
    checkpoint.load(path, torch.device("cpu"))


def read_weights(path: Path, suffix: str) -> None:
    models.load_weights(torch.nn.Linear(2, 2), path.rename(path.with_suffix(suffix)))


def read_cached(path: Path) -> None:
    cache.write(path.parent, {"labels": np.arange(3)}, source="x")
    path.replace(path.parent / "labels.npy")
    cache.read_array(path.parent, "labels")


READERS = {
    "CIFAR batch": (lambda path: cifar_files.read_python(path, 4, ("labels",)), BadFileError),
    "CIFAR-N file": (human_label_files.read, BadFileError),
    "human labels": (lambda path: human.from_file(path, "worse_label", CLEAN), ValueError),
    "noise file": (lambda path: NoisyLabels.load(path, clean=CLEAN), ValueError),
    "mask noise file": (lambda path: NoisyMasks.load(path, clean=np.ones((2, 3, 3), bool)), ValueError),
    "split": (load_split, BadFileError),
    "examples": (load_examples, BadFileError),
    "cached array": (read_cached, BadFileError),
    "checkpoint": (read_checkpoint, checkpoint.BadCheckpointError),
    ".pt weights": (lambda path: read_weights(path, ".pt"), WeightsError),
    ".pth weights": (lambda path: read_weights(path, ".pth"), WeightsError),
    ".safetensors weights": (lambda path: read_weights(path, ".safetensors"), WeightsError),
}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("reader", READERS)
def test_nothing_runs(tmp_path, reader, payload):
    witness, path = tmp_path / "witness", tmp_path / "file"
    path.write_bytes(PAYLOADS[payload](witness))
    read, error = READERS[reader]
    with pytest.raises(error):
        read(path)
    assert not witness.exists()


@pytest.mark.parametrize("payload", ["pickle-0", "pickle-2", "pickle-5"])
def test_the_payload_would_have_run(tmp_path, payload):
    pickle.loads(PAYLOADS[payload](tmp_path / "witness"))
    assert (tmp_path / "witness").exists()


def test_the_torch_payload_would_have_run(tmp_path):
    torch.load(io.BytesIO(torch_file(tmp_path / "witness", True)), weights_only=False)
    assert (tmp_path / "witness").exists()


def doubled(depth: int) -> bytes:
    """A tuple of itself twice, so many times: a few hundred bytes whose hash or text takes 2^depth steps."""
    program = b")q\x00"
    for level in range(depth):
        program += b"h%ch%c\x86q%c" % (level, level, level + 1)
    return program


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (doubled(60) + b"}h\x3cK\x01s.", "a key of type tuple"),
        (doubled(60) + b"}(h\x3cK\x01u.", "a key of type tuple"),
        (doubled(60) + b"}U\x06labels](h\x3ces.", "values are left at the end"),
    ],
)
def test_what_doubles_itself_is_neither_hashed_nor_shown(tmp_path, program, found):
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02" + program)
    with pytest.raises(BadFileError, match=found):
        cifar_files.read_python(path, 1, ("labels",))


def test_labels_that_double_themselves_are_named_by_their_type(tmp_path):
    nested: list[object] = []
    for _ in range(60):
        nested = [nested, nested]
    with pytest.raises(BadFileError, match="a list at position 0"):
        cifar_files.byte_labels(tmp_path / "x", [nested], 1, "labels")


def test_an_array_with_ten_thousand_dimensions(tmp_path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(
        b"\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01("
        + b"J\xff\xff\xff\x7f" * 10_000
        + b"tcnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN"
        + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x00tbs."
    )
    with pytest.raises(BadFileError, match="no few whole numbers"):
        cifar_files.read_python(path, 1, ("labels",))


def test_a_long_name_does_not_fill_the_message(tmp_path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(b"\x80\x02cos\n" + b"x" * 100_000 + b"\n.")
    with pytest.raises(BadFileError) as caught:
        cifar_files.read_python(path, 1, ("labels",))
    assert len(str(caught.value)) < 500 + len(str(path))


def test_a_tensor_that_claims_a_million_million_labels(tmp_path):
    one = torch.zeros(1, dtype=torch.int64)
    path = tmp_path / "labels.pt"
    torch.save({"worse_label": one.expand(10**12), "clean_label": torch.as_tensor(CLEAN)}, path)
    with pytest.raises(ValueError, match="at most 10000000 labels, got shape"):
        human.from_file(path, "worse_label", CLEAN)


def test_weights_of_any_claimed_size_are_refused_by_their_shape(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save({"weight": torch.ones(1).expand(10**12), "bias": torch.zeros(2)}, path)
    with pytest.raises(WeightsError, match=r"expected shape \(2, 2\)"):
        models.load_weights(torch.nn.Linear(2, 2), path)


@pytest.mark.parametrize(
    "reader", ["CIFAR-N file", "human labels", "checkpoint", ".pt weights", ".pth weights"]
)
@pytest.mark.parametrize("legacy", [False, True])
def test_torch_is_not_given_what_takes_for_ever(tmp_path, reader, legacy):
    program = b"\x80\x02" + doubled(60) + b"}h\x3cK\x01s."
    path = tmp_path / "file"
    path.write_bytes(program)
    if not legacy:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", program)
            archive.writestr("archive/version", b"3\n")
    read, error = READERS[reader]
    with pytest.raises(error) as caught:
        read(path)
    assert reader == "CIFAR-N file" or "without end" in str(caught.value)


@pytest.mark.parametrize("new", [True, False])
def test_long_lists_and_tuples_are_no_bombs(new):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.zeros(1, 3)).sum().backward()
    optimizer.step()
    nested = ((1, 2), [(3, (4, 5))] * 50, {"a": ({"b": (6,)},)})
    content = {"optimizer": optimizer.state_dict(), "long": tuple(range(20_000)), "nested": nested}
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=new)
    found = torch_files.load(buffer.getvalue())
    assert found["long"] == content["long"]
    assert found["nested"] == nested
