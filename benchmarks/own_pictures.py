# SPDX-License-Identifier: Apache-2.0
"""A folder of images as people have them, with doubtful labels whose true classes are known.

For docs/howto/doubtful-labels.md. 3,000 images of ten classes of CIFAR-100 (fruit, vessels, animals, vehicles) and
five of an eleventh become files of many kinds, sizes and names. A quarter of the labels are wrong, two thirds of
them in favour of a similar-looking class. Some files are broken, and some are in two classes. ``checked/`` holds
2,000 other images with correct labels.

    noiseproof data get cifar100
    python benchmarks/own_pictures.py make                             photos/, checked/ and truth.csv here
    python benchmarks/own_pictures.py score audit/suspects.csv         how many are wrong, and how many are found
    python benchmarks/own_pictures.py review audit/suspects.csv 400    decide on the 400 worst by the true classes
"""

import argparse
import csv
import random
import shutil
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from noiseproof import datasets

ALIKE = {
    "apple": ["orange", "pear"],
    "pear": ["apple"],
    "orange": ["apple", "sweet_pepper"],
    "sweet_pepper": ["orange", "apple"],
    "cup": ["can"],
    "can": ["cup"],
    "wolf": ["fox"],
    "fox": ["wolf"],
    "bus": ["streetcar"],
    "streetcar": ["bus"],
}
FOLDERS = {
    "apple": "Äpfel",
    "pear": "Birnen",
    "orange": "orange",
    "sweet_pepper": "Sweet Pepper",
    "cup": "Tassen & Becher",
    "can": "cans",
    "wolf": "Wolf",
    "fox": "Füchse",
    "bus": "bus (Stadt)",
    "streetcar": "Straßenbahn",
}
COUNTS = dict(zip(FOLDERS, (340, 300, 320, 280, 330, 260, 300, 290, 310, 270), strict=True))
TAKEN = 400  # of the 500 training pictures of a class; the others are for checked/
WRONG, WRONG_ALIKE = 0.25, 0.65
KINDS = {
    "jpg": 60, "png": 15, "rgba": 5, "grey": 4, "palette": 4, "i16": 2, "cmyk": 1, "exif": 6, "webp": 3, "bmp": 2
}  # fmt: skip
ENDINGS = {
    "jpg": [".jpg", ".JPG", ".jpeg", ".JPEG"],
    "exif": [".jpg", ".JPG"],
    "cmyk": [".jpg"],
    "webp": [".webp", ".WEBP"],
    "bmp": [".bmp", ".BMP"],
}
TURNED = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
ORIENTATION = 0x0112
TRUTH = Path("truth.csv")


def main() -> None:
    """Make the folder, or score or review what an audit found in it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make")
    for name in ("score", "review"):
        commands.add_parser(name).add_argument("suspects", type=Path)
    commands.choices["review"].add_argument("count", type=int)
    said = parser.parse_args()
    if said.command == "make":
        make(random.Random(7))
    elif said.command == "score":
        score(said.suspects)
    else:
        review(said.suspects, said.count)


def make(draw: random.Random) -> None:
    """Write ``photos/``, ``checked/`` and what is true of each file of ``photos/``."""
    train, test = datasets.load("cifar100"), datasets.load("cifar100", "test")
    assert train.images is not None
    assert test.images is not None
    number_of = {name: index for index, name in enumerate(train.class_names)}
    truth: list[tuple[Path, str, str, str]] = []
    rest = {}
    for name in FOLDERS:
        drawn = np.flatnonzero(train.labels == number_of[name]).tolist()
        draw.shuffle(drawn)
        rest[name] = drawn[TAKEN:]
        for index in drawn[: COUNTS[name]]:
            given = _given(name, draw)
            kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
            place = Path("photos", FOLDERS[given])
            place.mkdir(parents=True, exist_ok=True)
            path = place / _name(len(truth) + 1, kind, draw)
            _write(train.images[index], path, kind, draw)
            truth.append((path, FOLDERS[given], FOLDERS[name], kind))
    Path("photos", "Pilze").mkdir()
    for index in np.flatnonzero(train.labels == number_of["mushroom"])[:5].tolist():
        path = Path("photos", "Pilze", f"pilz {len(truth) + 1}.jpg")
        _write(train.images[index], path, "jpg", draw)
        truth.append((path, "Pilze", "Pilze", "jpg"))
    _double(truth, draw)
    _break(truth, draw)
    with TRUTH.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(truth)
    for name, folder in FOLDERS.items():
        place = Path("checked", folder)
        place.mkdir(parents=True)
        for number, index in enumerate(rest[name]):
            _write(train.images[index], place / f"t{number}.png", "png", draw)
        for number, index in enumerate(np.flatnonzero(test.labels == number_of[name]).tolist()):
            _write(test.images[index], place / f"s{number}.jpg", "jpg", draw)
    wrong = sum(given != true for _, given, true, _ in truth)
    print(f"{len(truth)} images, {wrong} with a wrong label ({wrong / len(truth):.1%})")


def _given(name: str, draw: random.Random) -> str:
    if draw.random() >= WRONG:
        return name
    if draw.random() < WRONG_ALIKE:
        return draw.choice(ALIKE[name])
    return draw.choice([other for other in FOLDERS if other != name])


def _name(number: int, kind: str, draw: random.Random) -> str:
    stems = ("IMG_{0:05d}", "Foto {0} (Kopie)", "Bild ü{0}", "pic.{0}.v2", "{0}", "DSC {0:04d} – neu")
    endings = ENDINGS.get(kind, [".png", ".PNG", ".Png"])
    return draw.choice(stems).format(number) + draw.choice(endings)


def _write(pixels: NDArray[np.uint8], path: Path, kind: str, draw: random.Random) -> None:
    height = draw.choice([32, 40, 48, 64, 96, 128])
    width = max(24, int(height * draw.uniform(0.8, 1.3)))
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC)
    exif = Image.Exif()
    if kind == "rgba":
        image = image.convert("RGBA")
        image.putalpha(draw.choice([255, 200]))
    elif kind == "grey":
        image = image.convert("L")
    elif kind == "palette":
        image = image.convert("P", palette=Image.Palette.ADAPTIVE)
    elif kind == "i16":
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
    elif kind == "cmyk":
        image = image.convert("CMYK")
    elif kind == "exif":
        exif[ORIENTATION] = draw.choice(list(TURNED))
        image = image.transpose(TURNED[exif[ORIENTATION]])
    if path.suffix.lower() not in (".jpg", ".jpeg"):
        image.save(path)
    elif kind == "exif":
        image.save(path, quality=92, exif=exif)
    else:
        image.save(path, quality=92)


def _double(truth: list[tuple[Path, str, str, str]], draw: random.Random) -> None:
    """Copy fifteen pictures into another class, and ten within theirs."""
    for path, given, true, _ in draw.sample([row for row in truth if row[3] == "jpg"], 15):
        other = draw.choice([folder for folder in FOLDERS.values() if folder != given])
        truth.append((Path("photos", other, f"copy of {path.name}"), other, true, "copy"))
        shutil.copy(path, truth[-1][0])
    for path, given, true, _ in draw.sample([row for row in truth if row[3] == "png"], 10):
        truth.append((path.with_name(f"again {path.name}"), given, true, "copy"))
        shutil.copy(path, truth[-1][0])


def _break(truth: list[tuple[Path, str, str, str]], draw: random.Random) -> None:
    """Add eight files that cannot be read: cut off, empty, or a page of a web server."""
    chosen = draw.sample([row for row in truth if row[3] in ("jpg", "png")], 8)
    for number, (path, _, _, _) in enumerate(chosen):
        whole = path.read_bytes()
        content = whole[: len(whole) // 2] if number < 5 else b"" if number == 5 else b"<html>404</html>"
        path.with_name(f"broken {number}{path.suffix}").write_bytes(content)


def _known() -> dict[str, tuple[str, str]]:
    with TRUTH.open(newline="", encoding="utf-8") as file:
        return {str(Path(path)): (given, true) for path, given, true, _ in csv.reader(file)}


def _suspects(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def score(path: Path) -> None:
    """Print how many suspects are wrong, and how many of the wrong labels are suspect."""
    truth, rows = _known(), _suspects(path)
    wrong = [truth[row["path"]][0] != truth[row["path"]][1] for row in rows]
    right = sum(row["suggested"] == truth[row["path"]][1] for row in rows)
    total = sum(given != true for given, true in truth.values())
    print(
        f"{len(rows)} suspects: {sum(wrong) / len(rows):.1%} wrong, {sum(wrong) / total:.1%} of all wrong labels"
    )
    print(f"the suggestion is right for {right / len(rows):.1%}")
    for count in (100, 200, 400):
        print(f"of the {count} worst, {sum(wrong[:count]) / count:.1%} are wrong")


def review(path: Path, count: int) -> None:
    """Decide on the worst suspects as somebody would who sees the truth; writes ``reviewed.csv``."""
    truth, rows = _known(), _suspects(path)
    for row in rows[:count]:
        given, true = truth[row["path"]]
        row["decision"] = (
            "change" if row["suggested"] == true else "keep" if given == true else f"label:{true}"
        )
    with open("reviewed.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
