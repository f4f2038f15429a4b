# SPDX-License-Identifier: Apache-2.0
"""A trained run at work on pictures: a mask for each, of the picture's own size, and a sheet to look at."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from noiseproof.datasets.augment.normalize import normalize
from noiseproof.datasets.decode import decode_rgb, opened
from noiseproof.datasets.errors import BadFileError
from noiseproof.datasets.sheet import caption_font, shortened
from noiseproof.training.predict import TrainedModel, pictures_in

SHEET_NAME = "sheet.png"
WRITTEN_BY = "noiseproof predict"
"""Stands in each PNG as its software: such a file may be written anew, a mask that somebody drew may not."""

MOST_SHOWN = 24
CELL, CAPTION, GAP, COLUMNS = 180, 14, 6, 4
TINTS = ((220, 40, 40), (40, 120, 220), (240, 180, 20), (60, 170, 90), (150, 80, 200), (20, 180, 180))
"""Colours of the classes after the background, over and over where there are more."""

Mask = NDArray[np.uint8]


def predict_masks(
    model: TrainedModel, paths: Iterable[Path], *, unreadable: list[BadFileError] | None = None
) -> Iterator[tuple[Path, Mask]]:
    """``(file, class indices of the picture's own size)`` of each picture, one after the other.

    The network sees the picture at the size it was trained on. Its logits are brought back to the picture's size,
    bilinearly, before the class of each pixel is taken, so that edges are smooth.

    Args:
        model: a trained network.
        paths: of the pictures.
        unreadable: as of :func:`noiseproof.training.predict.predict`.
    """
    random = np.random.default_rng(0)  # no fit of a segmentation draws from it
    device = next(model.network.parameters()).device
    for path, picture in _readable(paths, unreadable):
        pixels = torch.from_numpy(np.array(model.fit(picture, random))).permute(2, 0, 1)[None]
        if model.shape[0] == 1:  # pictures are read in colour; the network was trained on grey ones
            pixels = pixels.float().mean(1, keepdim=True).round().to(torch.uint8)
        with torch.no_grad():
            logits = model.network(normalize(pixels.to(device), model.mean, model.std)).float()
        size = (picture.height, picture.width)
        whole = F.interpolate(logits, size, mode="bilinear", align_corners=False)
        yield path, whole.argmax(1)[0].to(torch.uint8).cpu().numpy()


def _readable(
    paths: Iterable[Path], unreadable: list[BadFileError] | None
) -> Iterator[tuple[Path, Image.Image]]:
    any_read = False
    for path in paths:
        try:
            picture = decode_rgb(path)
        except BadFileError as error:
            if unreadable is None:
                raise
            unreadable.append(error)
            continue
        any_read = True
        yield path, picture
    if unreadable and not any_read:
        raise unreadable[0]


def write_masks(
    found: Iterable[tuple[Path, Mask]], class_names: Sequence[str], place: Path, out: Path
) -> tuple[int, Path]:
    """Write each mask as PNG and a sheet of the first pictures with their masks; returns how many, and the sheet.

    Masks of two classes are written as 0 and 255, others as class indices; both is what ``folder:PATH`` reads. No
    picture of ``place`` is ever written over, nor a file that was not written here before, such as a mask drawn by
    hand: where one would be, that is an error before the first mask is found.

    Args:
        found: pictures of ``place``, all or some, and their masks.
        class_names: of the network.
        place: the picture, or the folder below which the pictures lie; masks lie the same way below ``out``.
        out: the folder to write to.
    """
    sheet = out / SHEET_NAME
    targets = _targets(pictures_in(place), place, out)
    refuse_to_overwrite(targets, [*targets.values(), sheet])
    if out.exists() and out.samefile(place if place.is_dir() else place.parent):
        raise ValueError(f"--out: {out} is the folder of the pictures; name another folder")
    kept = [file for file in (*targets.values(), sheet) if not _may_be_replaced(file)]
    if kept:
        raise ValueError(
            f"--out: would overwrite {kept[0]}, which is no earlier prediction; name another folder"
        )
    out.mkdir(parents=True, exist_ok=True)
    count = 0
    shown: list[tuple[str, Image.Image]] = []
    for path, mask in found:
        target = targets[path]
        target.parent.mkdir(parents=True, exist_ok=True)
        _save(Image.fromarray(mask * 255 if len(class_names) == 2 else mask), target)
        count += 1
        if len(shown) < MOST_SHOWN:
            shown.append((path.name, overlay(decode_rgb(path), mask)))
    _save(_sheet(shown, class_names), sheet)
    return count, sheet


def refuse_to_overwrite(
    pictures: Iterable[Path], targets: Iterable[Path], advice: str = "name another folder"
) -> None:
    """Stop where a file to be written is one of the pictures, by whatever name or link."""
    by_file = {_identity(picture): picture for picture in pictures if picture.exists()}
    for target in targets:
        if target.exists() and (picture := by_file.get(_identity(target))) is not None:
            raise ValueError(f"--out: would overwrite {picture}; {advice}")


def _may_be_replaced(file: Path) -> bool:
    """Whether nothing lies there, or what was predicted before."""
    if not os.path.lexists(file):
        return True
    try:
        with opened(file) as image:
            return image.info.get("Software") == WRITTEN_BY
    except BadFileError:
        return False


def _identity(path: Path) -> tuple[int, int]:
    """The same of two paths if they are one file, as names alone do not tell: links, and letters of either case."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def overlay(picture: Image.Image, mask: Mask) -> Image.Image:
    """The picture with each class tinted and outlined, of a size for a sheet.

    A large one is made smaller; a small one is enlarged by a whole factor, so that its pixels stay square.
    """
    shown = picture.copy()
    shown.thumbnail((CELL, CELL), Image.Resampling.BILINEAR)
    factor = CELL // max(shown.size)
    if factor > 1:
        shown = shown.resize((factor * shown.width, factor * shown.height), Image.Resampling.NEAREST)
    classes = np.asarray(Image.fromarray(mask).resize(shown.size, Image.Resampling.NEAREST))
    pixels = np.asarray(shown, dtype=np.float64).copy()
    for k in range(1, int(classes.max()) + 1):
        inside = classes == k
        tint = np.array(TINTS[(k - 1) % len(TINTS)], dtype=np.float64)
        pixels[inside] = 0.65 * pixels[inside] + 0.35 * tint
        pixels[inside & ~_inner(inside)] = tint
    return Image.fromarray(pixels.round().astype(np.uint8))


def _inner(inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels whose four neighbours are inside too."""
    framed = np.pad(inside, 1, mode="edge")
    inner: NDArray[np.bool_] = framed[:-2, 1:-1] & framed[2:, 1:-1] & framed[1:-1, :-2] & framed[1:-1, 2:]
    return inner


def _targets(pictures: Iterable[Path], place: Path, out: Path) -> dict[Path, Path]:
    """Where the mask of each picture goes."""
    targets: dict[Path, Path] = {}
    taken = {out / SHEET_NAME}
    for path in pictures:
        below = path.relative_to(place) if place.is_dir() else Path(path.name)
        target = out / below.with_suffix(".png")
        if target in taken:  # a.jpg and a.png, or a picture called as the sheet is
            target = out / below.with_name(f"{below.name}.png")
        targets[path] = target
        taken.add(target)
    return targets


def _save(image: Image.Image, target: Path) -> None:
    """Write a PNG, whole or not at all."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    made = PngInfo()
    made.add_text("Software", WRITTEN_BY)
    try:
        image.save(temporary, format="PNG", pnginfo=made)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _sheet(shown: Sequence[tuple[str, Image.Image]], class_names: Sequence[str]) -> Image.Image:
    columns = min(COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    width = columns * (CELL + GAP) + GAP
    sheet = Image.new("RGB", (width, rows * (CELL + CAPTION + GAP) + GAP + CAPTION + GAP), "white")
    draw, font = ImageDraw.Draw(sheet), caption_font()
    left = GAP
    for whole, tint in zip(class_names[1:], TINTS, strict=False):
        name = shortened(whole, font, CELL)
        draw.rectangle((left, GAP + 2, left + 9, GAP + 11), fill=tint)
        draw.text((left + 14, GAP), name, fill="black", font=font)
        left += 26 + int(draw.textlength(name, font=font))
    for number, (name, picture) in enumerate(shown):
        row, column = divmod(number, columns)
        corner = GAP + column * (CELL + GAP), GAP + CAPTION + GAP + row * (CELL + CAPTION + GAP)
        sheet.paste(picture, corner)
        below = corner[0], corner[1] + picture.height
        draw.text(below, shortened(name, font, CELL), fill="black", font=font)
    return sheet
