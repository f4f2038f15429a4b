# SPDX-License-Identifier: Apache-2.0
"""Write the first corpus of every target: small good files, and bad ones of the kinds that are known to hurt.

python fuzz/seeds.py          writes fuzz/corpus/TARGET/seed-NN where missing
"""

import io
import json
import pickle
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import wrapping
from targets import CLEAN

if TYPE_CHECKING:
    import torch

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Write what is missing."""
    for name, contents in SEEDS.items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents()):
            (folder / f"seed-{number:02}").write_bytes(content)


def _array_program(shape: bytes, content: bytes) -> bytes:
    """The instructions that the official CIFAR files have for an array of bytes."""
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01"
        + shape
        + b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
        + content
        + b"tb"
    )


def _cifar_pickle() -> Iterator[bytes]:
    pixels = _array_program(b"K\x01M\x00\x0c\x86", b"T\x00\x0c\x00\x00" + bytes(3072))
    yield b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03K\x07aU\x04data" + pixels + b"u."
    small = _array_program(b"K\x02K\x02\x86", b"U\x04abcd")
    yield b"\x80\x02}q\x01(U\x06labelsq\x02]q\x03(K\x07M\x01\x01eU\x04data" + small + b"u."
    yield pickle.dumps({"data": np.zeros((2, 2), np.uint8), "labels": [1, True, None, "x"]}, protocol=2)
    yield pickle.dumps({"a": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), {}]}, protocol=2)
    yield pickle.dumps(print, protocol=2)
    yield b"\x80\x02}q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(40)) + b"K\x01s."


def _idx() -> Iterator[bytes]:
    good = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 3, *range(18)])
    yield good
    yield good[:-1]
    yield bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 2])
    yield wrapping.gzipped(good)
    yield wrapping.gzipped(good)[:-6]


def _archive() -> Iterator[bytes]:
    yield _tar(("cifar/a.bin", tarfile.REGTYPE, b"abc"), ("b.bin", tarfile.REGTYPE, b"b" * 600))
    yield _tar(("cifar", tarfile.DIRTYPE, b""), ("../a.bin", tarfile.REGTYPE, b"abc"))
    yield _tar(("a.bin", tarfile.SYMTYPE, b""), ("a.bin", tarfile.REGTYPE, b"abc"))
    yield _tar(("x", tarfile.LNKTYPE, b""), ("/a.bin", tarfile.REGTYPE, b""))
    yield _tar(("x", tarfile.FIFOTYPE, b""))
    yield _tar(("y" * 120, tarfile.REGTYPE, b"1"), form=tarfile.PAX_FORMAT)
    yield _tar(("z" * 120, tarfile.REGTYPE, b"1"), form=tarfile.GNU_FORMAT)
    yield wrapping.gzipped(_tar(("a.bin", tarfile.REGTYPE, b"abc")))[:-9]
    yield wrapping.gzipped(_tar(("a.bin", tarfile.REGTYPE, bytes(1 << 21))))
    yield wrapping.gzipped(_tar(("x", tarfile.REGTYPE, bytes(1 << 20)), ("a.bin", tarfile.REGTYPE, b"1")))
    yield _tar(("a.bin", tarfile.REGTYPE, b"abc"), ("x/a.bin", tarfile.REGTYPE, b"abc"))
    yield _tar(*[(f"x{number}", tarfile.DIRTYPE, b"") for number in range(22)])


def _tar(*members: tuple[str, bytes, bytes], form: int = tarfile.USTAR_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(content), "target" if kind in b"12" else ""
            archive.addfile(member, io.BytesIO(content))
    used = len(buffer.getvalue().rstrip(b"\0"))
    return buffer.getvalue()[: -(-used // 512) * 512 + 1024]  # without the zeros that fill up a tape's block


def _pictures(size: tuple[int, int]) -> Iterator[bytes]:
    from PIL import Image

    def saved(image: Image.Image, form: str, **options: object) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, form, **options)
        return buffer.getvalue()

    flat = Image.new("RGB", size, (200, 10, 30))
    yield saved(flat, "PNG")
    yield saved(flat, "WEBP", lossless=True)
    yield saved(flat.convert("P"), "PNG", transparency=0)
    yield saved(Image.new("I;16", size, 40000), "PNG")
    if size == (32, 32):
        return
    turned = Image.Exif()
    turned[0x0112] = 6
    yield saved(flat, "JPEG", exif=turned, quality=30)
    yield saved(flat.convert("CMYK"), "JPEG", quality=30)
    yield saved(flat, "JPEG", progressive=True, quality=30)
    yield saved(flat.convert("1"), "PNG")
    yield saved(flat, "GIF")
    yield saved(flat, "GIF", save_all=True, append_images=[Image.new("RGB", size)])
    yield saved(flat, "PNG", save_all=True, append_images=[Image.new("RGB", size)])
    yield saved(flat, "BMP")
    yield saved(flat, "TIFF", compression="tiff_lzw")
    yield saved(Image.new("F", (3, 2)), "TIFF")
    yield saved(flat, "PPM")
    yield saved(flat.convert("L"), "PPM")
    yield b"P3\n2 1\n255\n1 2 3 4 5 6\n"
    yield b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n%%EndComments\nquit\n"


def _csv() -> Iterator[bytes]:
    yield "path,label,split\n1.png,cat,train\n2.jpg,dög 🐕,test\n".encode()
    yield b'path,label\r\n1.png,"=HYPERLINK(""x"")"\r\n"2.jpg","a\nb"\r\n'
    yield b"\xef\xbb\xbfpath,label\n1.png,0\n2.jpg,007\n"
    yield "path,label\n1.png,cat\n".encode("utf-16")
    yield b"path,label\n1.png,caf\xe9\n"
    yield b"path,label\n" + b"x" * 300 + b".png,1\n"
    yield b"label,label,path\n1,2,1.png\n1.png\n1,2,3,4\n"


def _file_list() -> Iterator[bytes]:
    yield b"images/0/1.jpg 0\nimages/1/2.jpg 13\n"
    yield b"../1.jpg 1\n/etc/x 2\n"
    yield "a 99999999999999999999\nb ٣\n".encode()


def _noise() -> Iterator[bytes]:
    from noiseproof.noise import record

    about = {
        "format": record.FORMAT,
        "version": 1,
        "num_classes": 3,
        "kind": "symmetric",
        "rate": 0.5,
        "seed": 1,
        "generator": "exact",
        "details": {"key": "value"},
        "clean_fingerprint": record.fingerprint(CLEAN),
        "labels_fingerprint": "$LABELS",
    }
    labels = wrapping.npy(np.array([0, 1, 1, 2]))
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), labels])
    arrays = wrapping.npy(np.array([-1, 3, -1, 0])), wrapping.npy(np.zeros((4, 2), np.int64))
    yield wrapping.SEPARATOR.join([wrapping.as_json(about | {"rate": None}), labels, *arrays])
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), wrapping.npy(np.array(["x", "y"]))])
    yield wrapping.SEPARATOR.join([b"[" * 200, labels])
    yield wrapping.zipped({"description.npy": wrapping.as_npy(b"{}"), "labels.npy": labels})
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), _claims(b"(4000000000000,)"), *arrays])


def _claims(shape: bytes) -> bytes:
    """An ``.npy`` file that claims a shape and holds next to nothing."""
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': " + shape + b", }\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(8)


def _split() -> Iterator[bytes]:
    good = [np.int64(1), np.array([0, 2]), np.array([1]), np.array("abc"), np.int64(3)]
    yield b"s" + wrapping.SEPARATOR.join(wrapping.npy(np.asarray(part)) for part in good)
    yield b"s" + wrapping.SEPARATOR.join([*map(wrapping.npy, good[:1]), _claims(b"(99999999999,)")])
    shown = [
        np.array(["erode"]),
        np.array([3]),
        *[np.zeros((1, 2, 2, 1), np.uint8)] + [np.zeros((1, 2, 2), np.uint8)] * 3,
        np.array([50.0]),
    ]
    yield b"e" + wrapping.SEPARATOR.join(map(wrapping.npy, shown))


def _cache() -> Iterator[bytes]:
    def manifest(dtype: str) -> bytes:
        described = {
            "train_labels": {"dtype": dtype, "shape": [2], "sha256": "$LABELS"},
            "train_files": {"dtype": "|u1", "shape": [11], "sha256": "$FILES"},
        }
        facts = {"root": "$ROOT", "class_names": ["a", "b"], "splits": ["train"]}
        return wrapping.as_json({"format_version": 1, "source": "x", "arrays": described, "facts": facts})

    yield wrapping.SEPARATOR.join([manifest("<i8"), wrapping.npy(np.array([0, 1]))])
    yield wrapping.SEPARATOR.join([manifest("<f8"), wrapping.npy(np.array([0.0, 1.0]))])
    yield wrapping.SEPARATOR.join([b'{"format_version": 1}', _claims(b"(2,)")])


class _Runs:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this was run",)


def _stored(values: "torch.Tensor") -> "torch.Tensor":
    """The same values at the beginning of a storage of 64 bytes, which is what the targets give every tensor."""
    storage = values.new_zeros(wrapping.STORAGE_BYTES // values.element_size())
    storage[: values.numel()] = values.flatten()
    return storage[: values.numel()].view(values.shape)


def _human() -> Iterator[bytes]:
    import torch

    labels = np.array([0, 2, 2, 1])
    entries = {"clean_label": CLEAN.astype(np.int64), "worse_label": labels, "aggre_label": [0, 1, 2, 1]}
    yield wrapping.pickle_of(entries).replace(b"numpy._core", b"numpy.core")
    few = torch.arange(8)[:4] % 3
    yield wrapping.pickle_of({"clean_label": _stored(few), "worse_label": _stored(few)})
    yield wrapping.pickle_of({"worse_label": _stored(few)[:1].expand(10**12), "clean_label": _stored(few)})
    yield pickle.dumps({"worse_label": _Runs()}, protocol=2)


def _checkpoint() -> Iterator[bytes]:
    import torch

    weight = _stored(torch.arange(8.0))
    random = _stored(torch.zeros(4, dtype=torch.uint8))
    yield wrapping.pickle_of({"epoch": 3, "model": {"w": weight}, "random": random})
    yield wrapping.pickle_of([weight, {"a": (1, 2.5, None, "x")}])
    yield pickle.dumps({"epoch": _Runs()}, protocol=2)


def _torch_weights() -> Iterator[bytes]:
    import torch

    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    weights = {key: _stored(value) for key, value in layers.state_dict().items()}
    yield wrapping.pickle_of({"state_dict": {f"module.{key}": value for key, value in weights.items()}})
    yield wrapping.pickle_of(weights)
    one = _stored(torch.ones(1))
    yield wrapping.pickle_of({"0.weight": one.expand(10**12), "1.bias": one})
    yield wrapping.pickle_of({"1.bias": torch.eye(2).to_sparse()})
    yield pickle.dumps({"0.weight": _Runs()}, protocol=2)
    buffer = io.BytesIO()
    torch.save({"1.bias": torch.zeros(2)}, buffer, _use_new_zipfile_serialization=False)
    yield buffer.getvalue()


def _safetensors() -> Iterator[bytes]:
    def tensor(dtype: str, shape: list[int], start: int, end: int) -> dict[str, object]:
        return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}

    header = {
        "__metadata__": {"format": "pt"},
        "1.bias": tensor("F32", [2], 0, 8),
        "x": tensor("I64", [], 8, 16),
    }
    yield wrapping.SEPARATOR.join([wrapping.as_json(header), bytes(16)])
    wrong = {"1.bias": tensor("F32", [3], 0, 12), "1.weight": tensor("F16", [2, 4], 12, 28)}
    yield wrapping.SEPARATOR.join([wrapping.as_json(wrong), bytes(28)])
    yield wrapping.SEPARATOR.join([wrapping.as_json({"a": tensor("F32", [2**40], 0, 2**42)}), bytes(4)])
    yield b"\xff" * 8 + b"{}"


def _recipe() -> Iterator[bytes]:
    yield b'model = "mlp"\nepochs = 3\nlearning_rate = 0.1\nnoise = "sym-0.4"\nloss = "anl-ce"\n'
    yield (
        b'published_for = "cifar10"\nmodel = "mlp"\nepochs = 9\nlearning_rate = 1e-2\nschedule = "milestones"\n'
        b"schedule_milestones = [0.5, 0.75]\nema = 0.99\n[loss_parameters]\nalpha = 2\n"
        b'[for_loss."gce"]\nl1 = 1e-5\n[model_options]\nhidden = [8, 8]\n'
    )
    yield b'model = "mlp"\nepochs = 9999999999999999999999999\nlearning_rate = 1e999\nimage_size = 1000000000\n'
    yield b'model = "mlp"\nepochs = 9\nlearning_rate = 1\nschedule = "exponential"\nschedule_factor = 1e300\n'
    yield b"a = " + b"[" * 300 + b"]" * 300
    yield b"seed = " + b"9" * 5000


def _grid() -> Iterator[bytes]:
    from noiseproof import grids

    folder = Path(grids.__file__).parent / "shipped"
    yield (folder / "alpha-beta-grid.toml").read_bytes()
    yield (
        b'title = "t"\ndataset = "digits"\nnoises = ["clean", "sym-0.2"]\nseeds = [1, 2]\nkind = "table"\n'
        b'[settings]\nmodel = "mlp"\nepochs = 2\nlearning_rate = 0.1\n[columns]\nclean = "test"\n'
        b'[[methods]]\nlabel = "CE"\nloss = "ce"\n[[methods]]\nlabel = "G {q}"\nloss = "gce"\n'
        b"[methods.for_each]\nloss_parameters.q = [0.3, 0.7]\n"
    )
    ranges = b"".join(b"loss_parameters.p%d = [1,2,3,4,5,6,7,8,9]\n" % number for number in range(12))
    yield (
        b'dataset = "digits"\nnoises = ["clean"]\nseeds = [1]\n[[methods]]\nlabel = "x"\nloss = "ce"\n'
        b"[methods.for_each]\n" + ranges
    )


def _records() -> Iterator[bytes]:
    line = {
        "dataset": "digits",
        "loss": "ce",
        "noise": "sym-0.4",
        "seed": 1,
        "test_accuracy": 91.5,
        "config_hash": "abc",
        "method": "<b>CE</b>",
        "noise_facts": {"transition": [[0.9, 0.1], [0.2, 0.8]], "class_names": ["a", "=b"]},
        "epochs": {
            "test": [1.0, None, 3],
            "strongest_pull": {"quantiles": [0.5], "clean": [[1.0], None], "flipped": [[2.0], None]},
        },
        "predicted_marginals": [0.5, 0.5],
        "environment": {"versions": {"torch": "2"}, "device": "cpu"},
    }
    yield wrapping.as_json(line) + b"\n"
    yield wrapping.as_json({**line, "test_dice": 80, "seconds": 10**400, "seed": "7"}) + b"\n\n[1]\n"
    yield b'{"seed": ' + b"[" * 300 + b"\n"
    yield b'{"dataset": "caf\xe9"}\n'


def _trained_model() -> Iterator[bytes]:
    about = {
        "model": "mlp",
        "model_options": {"hidden": [4]},
        "class_names": ["cat", "dog"],
        "mean": [0.5],
        "std": [0.25],
        "input": {"channels": 1, "height": 8, "width": 8},
        "fit": {"kind": "squash", "height": 8, "width": 8},
        "task": "classification",
    }
    yield wrapping.as_json(about)
    yield wrapping.as_json({**about, "fit": {"kind": "centre-after-resize", "size": 8, "shorter_side": 9}})
    yield wrapping.as_json({**about, "model": "resnet18", "class_names": 3, "mean": "x"})
    yield wrapping.as_json({**about, "input": {"channels": 10**12, "height": 10**12, "width": 1}})


def _store() -> Iterator[bytes]:
    from noiseproof.training.store import Store

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store(folder) as store:
            store.begin("digits-s1", {"loss": "ce"}, "3f2a", environment={}, noise={"rate": 0.6})
            store.record_epoch("digits-s1", 1, {"test_accuracy": 93.4, "loss": float("nan")}, seconds=0.5)
            store.finish("digits-s1", {"test_accuracy": 93.4})
        import sqlite3

        connection = sqlite3.connect(folder / "runs.sqlite")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA page_size=512")
        connection.execute("VACUUM")
        connection.close()
        yield (folder / "runs.sqlite").read_bytes()
    yield b"SQLite format 3\0" + bytes(84)
    yield json.dumps({}).encode()


def _review() -> Iterator[bytes]:
    header = b"index,path,given,suggested,score,decision\n"
    yield (
        header
        + b"0,a.png,ant,bee,0.9,change\n1,b.png,bee,ant,0.8,keep\n2,c.png,'=cat,ant,0.7,drop\n3,,bee,ant,0.6,\n"
    )
    yield header + b"0,,ant,bee,1,label:'=cat\n0,,ant,bee,1,ant\n"
    yield header + b"9" * 30 + b",,ant,bee,1,keep\n"
    yield b'index;given\n"0'


def _noise_array() -> Iterator[bytes]:
    given = np.array([0, 1, 1, 2])
    for dtype in ("<i8", ">i2", "|u1", "<f8"):
        yield wrapping.npy(given.astype(dtype))
    yield wrapping.npy(given + 1)
    yield wrapping.npy(given.reshape(2, 2))
    yield _claims(b"(4000000000000,)")
    yield next(_noise())
    yield wrapping.zipped({"description.npy": wrapping.as_npy(b"{}"), "labels.npy": wrapping.npy(given)})


def _noise_text() -> Iterator[bytes]:
    yield b"0\n1\n1\n2\n"
    yield "\ufeff0.0\r\n1e0\r\n\r\n 2 \r\n٢\r\n".encode()
    yield b"ant\nbee\n=cat\nbee\n"
    yield b"1\n2\n3\n3\n"
    yield b"nan\n1e999\n" + b"9" * 400 + b"\n-1\n"
    yield b"c0\n1\n2\n2\n"
    yield b"clabel\n0\n1\n2\n2\n"
    yield b"cindex,label\n3,2\n0,0\n2,1\n1,1\n"
    yield b"cindex,label\n3,2\n0,0\n2,1\n2,1\n"
    yield b'clabel,note\n"=cat","a ""b"" c"\nant,\nbee,x\nant,"y\n'
    yield b"cpath,label\n1.png,2\n"
    yield b"clabel\nant\nbee,ant\n"


def _noise_masks() -> Iterator[bytes]:
    from noiseproof.noise import masks as of_masks

    about = {
        "format": of_masks.FORMAT,
        "version": 1,
        "share": 0.5,
        "strength": 0.7,
        "seed": 1,
        "shape": [2, 2, 4],
        "clean_fingerprint": "$MASKS",
    }
    arrays = wrapping.npy(np.array([3, 15], np.uint8)), wrapping.npy(np.array([0, 2]))
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), *arrays])
    yield wrapping.SEPARATOR.join([wrapping.as_json(about | {"share": 1, "seed": 10**40}), *arrays])
    other = about | {"clean_fingerprint": "0" * 64}
    yield wrapping.SEPARATOR.join([wrapping.as_json(other), *arrays])
    yield wrapping.SEPARATOR.join([wrapping.as_json(other | {"shape": [[10**40], None, "x"]}), *arrays])
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), arrays[0], wrapping.npy(np.array([0, 4]))])
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), arrays[1], arrays[0], arrays[0]])
    yield wrapping.SEPARATOR.join([wrapping.as_json(about), _claims(b"(4000000000000,)"), arrays[1]])


def _probabilities() -> Iterator[bytes]:
    good = np.array([[0.9, 0.1, 0], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0, 1, 0]])
    for dtype in ("<f8", ">f4", "<f2"):
        yield wrapping.npy(good.astype(dtype))
    yield wrapping.npy(good.T.copy().T)
    yield wrapping.npy(np.full((4, 3), np.nan))
    yield wrapping.npy(np.array([[1, 0, 0]] * 4))
    yield wrapping.npy(good[:, :2])
    yield wrapping.zipped({"a.npy": wrapping.npy(good)})
    yield _claims(b"(4, 4000000000000)").replace(b"<i8", b"<f8")


def _mask_folder() -> Iterator[bytes]:
    for level in (1, 2, 200, 255):
        yield wrapping.picture((4, 3), level)
    yield wrapping.picture((4, 3), 2) + wrapping.SEPARATOR + "grass\nsky\nDäch\n".encode()
    yield wrapping.picture((4, 3), 255) + wrapping.SEPARATOR + b"a\nb\n"
    yield wrapping.picture((4, 3), 7) + wrapping.SEPARATOR + b"a\nb\nc\n"
    yield wrapping.picture((4, 3), 1, "P")
    yield wrapping.picture((4, 3), 1, "1")
    yield wrapping.picture((3, 4), 1) + wrapping.SEPARATOR + b"\xff\xfe"


def _binary() -> Iterator[bytes]:
    yield b"c\x07"
    yield b"c\x0c"
    yield b"c\x07more"
    yield b"a" + bytes(7) + b"\x05"
    yield b"a" + bytes(7) + b"\x0f"
    yield b"a" + bytes(9)
    yield b"j[0, 9, 3, 3]"
    yield b"j[0, true, 3.0, 10]"
    yield b"j" + b"[" * 1200
    yield b"j" + b"9" * 4400


def _own_data() -> Iterator[bytes]:
    yield b"path,label\nlist.csv,a\n,b\n../x,c\n"
    yield b"path\n" + b"a" * 300 + b"\n\x00\n"
    yield b'path,path\n"a\n'
    yield b"\xff\xfe"
    yield b"label\n1,2,3\n"


SEEDS = {
    "cifar-pickle": _cifar_pickle,
    "idx": _idx,
    "archive": _archive,
    "sheet": lambda: _pictures((32, 32)),
    "picture": lambda: _pictures((5, 3)),
    "csv": _csv,
    "review": _review,
    "file-list": _file_list,
    "noise": _noise,
    "noise-array": _noise_array,
    "noise-text": _noise_text,
    "noise-masks": _noise_masks,
    "probabilities": _probabilities,
    "mask-folder": _mask_folder,
    "binary": _binary,
    "own-data": _own_data,
    "split": _split,
    "cache": _cache,
    "human": _human,
    "checkpoint": _checkpoint,
    "torch-weights": _torch_weights,
    "safetensors": _safetensors,
    "recipe": _recipe,
    "grid": _grid,
    "records": _records,
    "trained-model": _trained_model,
    "store": _store,
}

if __name__ == "__main__":
    main()
