# SPDX-License-Identifier: Apache-2.0
"""Every reader of files as a fuzz target: bytes go in; an answer or one of our own errors must come out.

An error counts as ours when its class is one that the target names and a ``raise`` statement of noiseproof raised
it: a ``ValueError`` that escaped from a library is a defect, however fitting its class.
"""

import contextlib
import functools
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wrapping

CLEAN = np.array([0, 1, 2, 1])
"""The true labels that noise files of the corpus belong to."""

NAMES = ("ant", "bee", "=cat")
"""What their classes are called."""

CLEAN_MASKS = np.array([[[0, 0, 1, 1], [0, 1, 1, 0]], [[0, 0, 0, 0], [1, 1, 1, 1]]], dtype=np.uint8)
"""The true masks, likewise."""


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
        name: of the target and its corpus.
        read: feeds bytes to the reader, with a folder to write them in.
        modules: the reader's own modules, each with the functions that read where others stand in it too; their
            lines are counted.
        errors: names of the classes that it may raise.
    """

    name: str
    read: Callable[[bytes, Path], object]
    modules: tuple[str, ...]
    errors: tuple[str, ...] = ("BadFileError",)


class NotOurOwnError(Exception):
    """What a reader raised is not an error of noiseproof's own."""


def run(target: Target, content: bytes, folder: Path) -> None:
    """Feed bytes to a reader.

    Raises:
        NotOurOwnError: it raised what it should not; the message says what and where.
    """
    try:
        target.read(content, folder)
    except Exception as error:
        if type(error).__name__ not in target.errors or not _raised_by_us(error):
            raise NotOurOwnError(f"{type(error).__name__} at {place_of(error)}: {error}"[:400]) from error


def place_of(error: BaseException) -> str:
    """Where an error was raised, and the last place in noiseproof on the way there."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "noiseproof" in Path(frame.filename).parts]
    places = [f"{Path(frame.filename).name}:{frame.name}" for frame in [frames[-1], *ours[-1:]]]
    return " from ".join(dict.fromkeys(places))


def _raised_by_us(error: BaseException) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = "noiseproof" in Path(last.filename).parts
    return is_ours and source(last.filename)[(last.lineno or 1) - 1].strip().startswith("raise")


@functools.cache
def source(file: str) -> list[str]:
    """The lines of a file as they were when it was first looked at: it may be edited while fuzzing goes on."""
    return Path(file).read_text(encoding="utf-8").splitlines()


def _file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def _cifar_pickle(content: bytes, folder: Path) -> object:
    from noiseproof.datasets.cifar_files import read_python

    return read_python(_file(folder, "data_batch_1", content), 1, ("labels",))


def _idx(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import idx

    if content[:2] == b"\x1f\x8b":
        return idx.read(_file(folder, "raw.gz", content), (2, 3, 3))
    packed = _file(folder, "packed.gz", wrapping.gzipped(content))
    try:
        idx.read(packed, (2, 3, 3))
    finally:
        idx.read(_file(folder, "plain", content), (2, 3, 3))
    return None


def _archive(content: bytes, folder: Path) -> object:
    import shutil

    from noiseproof.datasets.archives import unpack

    into = folder / "unpacked"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    packed = content if content[:2] == b"\x1f\x8b" else wrapping.gzipped(content)
    archive = _file(folder, "a.tar.gz", packed)
    try:
        return unpack(archive, {"a.bin", "b.bin"}, into, most_members=20, most_bytes=1 << 20)
    finally:
        written = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
        strange = written - {"a.tar.gz", "unpacked", "unpacked/a.bin", "unpacked/b.bin"}
        if strange or any(path.is_symlink() for path in into.iterdir()):
            raise AssertionError(f"the archive wrote {strange} or a link")


def _sheet(content: bytes, folder: Path) -> object:
    from noiseproof.datasets.cifar_files import read_strip

    return read_strip(_file(folder, "strip.png", wrapping.with_right_checksums(content)), 1)


def _picture(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import decode

    decode.MAX_PIXELS = 1 << 20  # time goes into readers, not into pixels
    path = _file(folder, "picture.jpg", wrapping.with_right_checksums(content))
    random = np.random.default_rng(0)
    fit: decode.Fit = decode.CentreAfterResize(12, 8) if len(content) % 2 else decode.RandomWindow(8)
    try:
        decode.decode_mask(path)
    except decode.BadFileError:
        if decode.image_size(path)[0] < 1:
            raise AssertionError("a picture without pixels") from None
    pixels = fit.read(path, random)
    if pixels.shape != fit.shape or pixels.dtype != np.uint8:
        raise AssertionError(f"{pixels.dtype} of shape {pixels.shape}")
    return pixels


def _csv(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import csv_file

    for name in ("1.png", "2.jpg"):
        (folder / name).touch()
    return csv_file.read(_file(folder, "list.csv", content), "train")


def _review(content: bytes, folder: Path) -> object:
    from noiseproof.audit import apply_review
    from noiseproof.datasets import LabeledData

    data = LabeledData("photos", "train", CLEAN, NAMES, np.zeros((4, 2, 2, 3), np.uint8))
    return apply_review(data, _file(folder, "reviewed.csv", content))


def _file_list(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import file_lists

    return list(file_lists.read_labelled_lines(_file(folder, "list.txt", content), 14))


def _noise(content: bytes, folder: Path) -> object:
    from noiseproof.noise import NoisyLabels

    return NoisyLabels.load(_file(folder, "noise.npz", _noise_file(content)), clean=CLEAN)


def _noise_file(content: bytes) -> bytes:
    if content.startswith(b"PK"):
        return content
    description, *arrays = content.split(wrapping.SEPARATOR)
    names = ("labels.npy", "outside.npy", "answers.npy", "more.npy")
    if arrays:
        stated = wrapping.labels_fingerprint(arrays[0]).encode()
        description = description.replace(b"$LABELS", stated)
    entries = {"description.npy": wrapping.as_npy(description)}
    return wrapping.zipped(entries | dict(zip(names, arrays, strict=False)))


def _noise_array(content: bytes, folder: Path) -> object:
    from noiseproof.noise import read_labels

    if content.startswith(b"\x93"):
        return read_labels(_file(folder, "labels.npy", content), CLEAN, 3, NAMES)
    found = read_labels(_file(folder, "labels.npz", _noise_file(content)), CLEAN, 3, NAMES)
    return found.counts, found.transition, repr(found)


def _noise_text(content: bytes, folder: Path) -> object:
    from noiseproof.noise import read_labels

    ending, text = (".csv", content[1:]) if content[:1] == b"c" else (".txt", content)
    found = read_labels(_file(folder, f"labels{ending}", text), CLEAN, 3, NAMES)
    if found.labels.shape != CLEAN.shape or not 0 <= found.labels.min() <= found.labels.max() < 3:
        raise AssertionError(f"labels {found.labels}")
    return found.counts


def _noise_masks(content: bytes, folder: Path) -> object:
    from noiseproof.noise import read_masks

    packed = content
    if not content.startswith(b"PK"):
        description, *arrays = content.split(wrapping.SEPARATOR)
        description = description.replace(b"$MASKS", wrapping.masks_fingerprint(CLEAN_MASKS).encode())
        names = ("bits.npy", "kinds.npy", "more.npy")
        entries = {"description.npy": wrapping.as_npy(description)}
        packed = wrapping.zipped(entries | dict(zip(names, arrays, strict=False)))
    found = read_masks(_file(folder, "masks.npz", packed), CLEAN_MASKS)
    if found.masks.dtype != CLEAN_MASKS.dtype or not set(np.unique(found.masks)) <= {0, 1}:
        raise AssertionError(f"masks {found.masks.dtype} with {np.unique(found.masks)}")
    return found.differences, found.area_ratios, repr(found)


def _probabilities(content: bytes, folder: Path) -> object:
    from noiseproof.audit.scores import score_labels
    from noiseproof.command_line.audit import _read_probabilities

    given = _read_probabilities(_file(folder, "mine.npy", content))
    if given.ndim == 2 and given.shape[1] != len(NAMES):
        return None  # which the command refuses
    return score_labels(CLEAN, given).worst_first


def _mask_folder(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import decode, folders

    decode.MAX_PIXELS = 1 << 16
    (folder / "images").mkdir(exist_ok=True)
    (folder / "masks").mkdir(exist_ok=True)
    mask, _, classes = content.partition(wrapping.SEPARATOR)
    _file(folder, "classes.txt", classes)
    _file(folder / "images", "1.png", wrapping.picture((4, 3)))
    _file(folder / "masks", "1.png", wrapping.with_right_checksums(mask))
    found = folders.read(folder, "train")
    if found.masks is None or found.masks.shape != (1, 3, 4):
        raise AssertionError("masks of another shape")
    beyond = set(np.unique(found.masks)) - {*range(len(found.class_names)), folders.VOID}
    if beyond:
        raise AssertionError(f"levels {beyond} beyond {len(found.class_names)} classes")
    return found


def _binary(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import animal10n, cifar10, cifar_files

    kind, rest = content[:1], content[1:]
    path = folder / "data_batch_1.bin"
    if kind == b"j":
        return cifar10.read_sheet_labels(_file(folder, "labels.json", rest), 4)
    # Labels, pixels that nobody fuzzes, and what stands behind them.
    if kind == b"a":
        return animal10n._read_binary(_file(folder, path.name, rest[:8].ljust(12_296, b"x") + rest[8:]))
    rows = cifar_files.read_binary(_file(folder, path.name, rest[:1].ljust(3_073, b"x") + rest[1:]), 1, 1)
    return cifar_files.check_range(path, rows.labels[:, 0], 10)


def _own_data(content: bytes, folder: Path) -> object:
    from noiseproof.training.config import inputs_of

    path = _file(folder, "list.csv", content)
    return inputs_of(f"csv:{path}", str(path), f"file:{path}")


def _split(content: bytes, folder: Path) -> object:
    from noiseproof.datasets.splits import load_split
    from noiseproof.training.examples import load_examples

    first = content[:1]
    if content.startswith(b"PK"):
        return load_split(_file(folder, "split.npz", content))
    names = (
        ("kind", "index", "images", "true", "given", "predicted", "dice")
        if first == b"e"
        else ("format_version", "train", "validation", "fingerprint", "seed")
    )
    parts = map(wrapping.as_npy, content[1:].split(wrapping.SEPARATOR))
    entries = {f"{name}.npy": part for name, part in zip(names, parts, strict=False)}
    path = _file(folder, "split.npz", wrapping.zipped(entries))
    return load_examples(path) if first == b"e" else load_split(path)


def _cache(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import cache, file_lists

    manifest, _, array = content.partition(wrapping.SEPARATOR)
    files = wrapping.npy(np.frombuffer(b"1.png\n2.jpg", dtype=np.uint8))
    stated = {
        b"$ROOT": str(folder),
        b"$LABELS": wrapping.array_sum(array),
        b"$FILES": wrapping.array_sum(files),
    }
    for word, value in stated.items():
        manifest = manifest.replace(word, value.encode())
    _file(folder, "manifest.json", manifest)
    _file(folder, "train_labels.npy", array)
    _file(folder, "train_files.npy", files)
    cache.read_array(folder, "train_labels")
    return file_lists.read(folder, "mine", "train")


def _human(content: bytes, folder: Path) -> object:
    from noiseproof.datasets import human_label_files
    from noiseproof.noise import human

    packed = content if content.startswith(b"PK") else wrapping.torch_archive(content)
    path = _file(folder, "labels.pt", packed)
    with contextlib.suppress(human_label_files.BadFileError):
        human_label_files.read(path)
    return human.from_file(path, "worse_label", CLEAN)


def _checkpoint(content: bytes, folder: Path) -> object:
    import torch

    from noiseproof.training import checkpoint

    path = _file(folder, "checkpoint.pt", wrapping.checkpoint(content))
    state = checkpoint.load(path, torch.device("cpu"))
    if not isinstance(state, dict):
        raise AssertionError(f"a {type(state).__name__}")
    return state


def _weights(content: bytes, folder: Path, name: str) -> object:
    import torch

    from noiseproof import models

    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    return models.load_weights(network, _file(folder, name, content), partial=True)


def _torch_weights(content: bytes, folder: Path) -> object:
    legacy = content.startswith((b"PK", b"\x8a\nl\xfc"))
    return _weights(content if legacy else wrapping.torch_archive(content, 4), folder, "weights.pth")


def _safetensors(content: bytes, folder: Path) -> object:
    packed = wrapping.safetensors(content) if content[:1] == b"{" else content
    return _weights(packed, folder, "weights.safetensors")


def _recipe(content: bytes, folder: Path) -> object:
    from noiseproof.training.config import resolve

    config = resolve("digits", recipe=str(_file(folder, "mine.toml", content)))
    return config.run_id, [config.learning_rate_at(epoch) for epoch in (0, config.epochs // 2)]


def _grid(content: bytes, folder: Path) -> object:
    from noiseproof import grids

    grid = grids.load(str(_file(folder, "mine.toml", content)))
    count = len(grid.methods) * len(grid.noises) * len(grid.seeds)
    return grid.cells() if count < 20 else None


def _records(content: bytes, folder: Path) -> object:
    from noiseproof.results.records_file import read_records, write_results

    found = read_records(_file(folder, "table.jsonl", content))
    again = folder / "again.jsonl"
    again.unlink(missing_ok=True)
    write_results(again, found)
    return read_records(again)


_trained: dict[Path, bool] = {}


def _trained_model(content: bytes, folder: Path) -> object:
    from noiseproof import models
    from noiseproof.training.predict import load_trained

    if folder not in _trained:
        models.save_weights(
            models.create("mlp", 2, in_channels=1, image_size=(8, 8), hidden=(4,)),
            folder / "weights.safetensors",
        )
        _trained[folder] = True
    _file(folder, "model.json", content)
    return load_trained(folder)


def _store(content: bytes, folder: Path) -> object:
    from noiseproof.training.store import Store

    for old in folder.glob("runs.sqlite*"):
        old.unlink()
    _file(folder, "runs.sqlite", content)
    with Store(folder) as store:
        return [store.get(run.id) for run in store.runs()]


_DATA = ("BadFileError", "DataError", "NoSuchSplitError")
_STORE = ("StoreError", "DamagedStoreError", "NewerStoreError", "UnknownRunError", "AmbiguousRunError")
_WEIGHTS = (
    "models/weights.py: load_weights _without_wrapper_prefixes _names_of_another_final_layer "
    "_fate_of_final_layer _check_names _check_tensor _some"
)
_CONFIG = (
    "training/config.py: __post_init__ _check_kinds _check_schedule _write_numbers_one_way read_recipe nesting "
    "resolve _for_loss _is_integer_within _published_noise _check_keys"
)
TARGETS = {
    target.name: target
    for target in (
        Target(
            "cifar-pickle",
            _cifar_pickle,
            ("datasets/pickle_reader.py", "datasets/cifar_files.py: read_python byte_labels _from_planes"),
        ),
        Target("idx", _idx, ("datasets/idx.py",)),
        Target("archive", _archive, ("datasets/archives.py",)),
        Target("sheet", _sheet, ("datasets/cifar_files.py: read_strip _decode",)),
        Target(
            "picture",
            _picture,
            (
                "datasets/decode.py: decode_rgb image_size decode_mask _opened _refuse_by_header _to_rgb _swap",
            ),
        ),
        Target("csv", _csv, ("datasets/csv_file.py: _read_rows _check_row _classes",), _DATA),
        Target("review", _review, ("audit/corrections.py",)),
        Target(
            "file-list",
            _file_list,
            ("datasets/file_lists.py: read_lines read_labelled_lines safe_relative",),
            _DATA,
        ),
        Target(
            "noise",
            _noise,
            ("noise/storage.py: read checked_array _arrays", "noise/record.py: load"),
            ("ValueError",),
        ),
        Target(
            "noise-array",
            _noise_array,
            ("noise/files.py: read_labels _ending _array _fitting _warn_of_another_order",),
            ("ValueError",),
        ),
        Target(
            "noise-text",
            _noise_text,
            (
                "noise/files.py: read_labels _ending _texts _column _as_labels _numbers _fitting "
                "_warn_of_another_order _cut",
            ),
            ("ValueError",),
        ),
        Target(
            "noise-masks",
            _noise_masks,
            (
                "noise/files.py: read_masks",
                "noise/masks.py: load",
                "noise/storage.py: read checked_array _arrays",
            ),
            ("ValueError",),
        ),
        Target(
            "probabilities",
            _probabilities,
            (
                "command_line/audit.py: _read_probabilities",
                "audit/checks.py: checked_labels checked_probabilities",
                "audit/scores.py: score_labels",
            ),
            ("ValueError", "TypeError"),
        ),
        Target(
            "mask-folder",
            _mask_folder,
            ("datasets/folders.py: _read_segmentation _listed_classes _classes_of_indices _levels_of",),
            _DATA,
        ),
        Target(
            "binary",
            _binary,
            (
                "datasets/cifar_files.py: read_binary byte_labels check_range",
                "datasets/animal10n.py: _read_binary",
                "datasets/cifar10.py: read_sheet_labels",
            ),
        ),
        Target(
            "own-data",
            _own_data,
            ("datasets/identity.py: identity_of identity_of_file _sizes_of_listed _digest",),
            (),
        ),
        Target(
            "split",
            _split,
            ("datasets/npz_file.py", "datasets/splits.py: load_split", "training/examples.py: load_examples"),
        ),
        Target(
            "cache",
            _cache,
            ("datasets/cache.py: manifest_of _is_described read_array", "datasets/file_lists.py: read"),
            (*_DATA, "ValueError"),
        ),
        Target(
            "human",
            _human,
            (
                "datasets/human_label_files.py",
                "noise/human.py: from_file from_arrays _read _labels",
                "torch_files.py",
            ),
            ("ValueError",),
        ),
        Target("checkpoint", _checkpoint, ("training/checkpoint.py: load",), ("BadCheckpointError",)),
        Target(
            "torch-weights",
            _torch_weights,
            (
                "models/weight_files.py: read _read_torch _named_tensors _described _reason",
                _WEIGHTS,
                "torch_files.py",
            ),
            ("WeightsError",),
        ),
        Target(
            "safetensors",
            _safetensors,
            ("models/weight_files.py: read _read_safetensors _named_tensors", _WEIGHTS),
            ("WeightsError",),
        ),
        Target("recipe", _recipe, (_CONFIG,), ("ValueError", "TypeError", "UnknownDataError")),
        Target(
            "grid",
            _grid,
            (
                "grids/files.py: load parsed _methods _flat _nested _filled written",
                "grids/grid.py: cells _config merged",
                "grids/checks.py: check_grid check_settings _no_doubles",
            ),
            ("ValueError",),
        ),
        Target(
            "records",
            _records,
            (
                "results/records_file.py: read_records _lines",
                "results/result.py: result_of_line _spread _curve _marginals _number",
                "results/line_checks.py",
            ),
            ("ValueError",),
        ),
        Target(
            "trained-model",
            _trained_model,
            ("training/predict.py: load_trained _network_of _check_facts fit_from_data",),
            ("ValueError", "WeightsError"),
        ),
        Target(
            "store",
            _store,
            (
                "training/store_file.py: open_for_reading plain_errors _opened _has_log",
                "training/store.py: get runs _reading _select _record",
            ),
            _STORE,
        ),
    )
}
