# SPDX-License-Identifier: Apache-2.0
"""From image files to arrays of one size: what is read, what is refused, and how it is resized.

Reading policy, one rule a case:

* grey, palette, RGB, with or without transparency, CMYK: converted to RGB; transparency is dropped, as
  everywhere in the field;
* 16 bits a channel: divided by 257, so that 65535 becomes 255 (a plain conversion would clip);
* the camera's rotation mark (EXIF) is applied; a camera's several pictures in one file (MPO): the first;
* animations, several pages, floating-point and 32-bit pixels: refused;
* more than 80 million pixels: refused before any pixel is decoded;
* any other format, whatever the file's name: refused. Some of Pillow's readers start programs (Ghostscript);
* anything truncated or damaged: refused, with the file's name.

Resizing policy: bilinear with antialiasing (a triangle as wide as the reduction, Pillow's ``BILINEAR``),
masks by the nearest pixel. Where a picture is reduced at least fourfold, a JPEG file is first decoded at a
half, a quarter or an eighth of its size, never below twice the size wanted, which saves most of the work.

This module imports neither torch nor the rest of the package's data sets, so that decode workers start fast.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from noiseproof.datasets.errors import BadFileError

MAX_PIXELS = 80_000_000  # the largest official ISIC-2017 picture has 30 million; Pillow warns at 89 million
IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
)

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "DIB", "GIF", "TIFF", "PPM")  # JPEG finds the cameras' MPO itself

Size = tuple[int, int]  # (width, height), Pillow's order

_EXIF_ORIENTATION, _UPRIGHT, _SIDES_SWAPPED = 0x0112, 1, (5, 6, 7, 8)
_PLAIN_MODES = frozenset({"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "La", "RGBa"})


def decode_rgb(path: Path, *, at_least: Callable[[Size], Size | None] = lambda _: None) -> Image.Image:
    """Read one image file as RGB, upright.

    Args:
        path: the file.
        at_least: given the upright picture's (width, height), the one below which a JPEG must not be decoded;
            it may then come at a half, a quarter or an eighth of its size. By default it is decoded whole.

    Raises:
        BadFileError: the file is missing, damaged or of a kind that is refused; the message names it.
    """
    with opened(path) as image:
        orientation = image.getexif().get(_EXIF_ORIENTATION, _UPRIGHT)
        swapped = orientation in _SIDES_SWAPPED
        smallest = at_least(_swap(image.size) if swapped else image.size)
        if smallest is not None:
            image.draft(image.mode, _swap(smallest) if swapped else smallest)
        image.load()
        return _to_rgb(image if orientation == _UPRIGHT else ImageOps.exif_transpose(image), path)


def image_size(path: Path) -> Size:
    """Return the (width, height) of the upright picture."""
    with opened(path) as image:
        turned = image.getexif().get(_EXIF_ORIENTATION, _UPRIGHT) in _SIDES_SWAPPED
        return _swap(image.size) if turned else image.size


def decode_mask(path: Path) -> NDArray[np.uint8]:
    """Read one mask file as its stored numbers, uint8 of shape (H, W): levels of grey, or palette indices."""
    with opened(path) as image:
        if image.mode not in {"1", "L", "P"}:
            raise BadFileError(
                path, "a mask of one 8-bit channel", f"mode {image.mode}", "save it as grey or palette PNG"
            )
        return np.array(image, dtype=np.uint8)


@contextmanager
def opened(path: Path) -> Iterator[Image.Image]:
    """Open an image file, refuse what its header tells, name the file whatever goes wrong in the block."""
    try:
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            raise BadFileError(path, "an image file", "a folder, a pipe or a device")
        with Image.open(path, formats=FORMATS) as image:
            _refuse_by_header(path, image)
            yield image
    except (BadFileError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise BadFileError(path, "an image file", "no such file") from error
    except Image.DecompressionBombError as error:
        raise BadFileError(path, f"at most {MAX_PIXELS:,} pixels", "far more", _TOO_LARGE) from error
    except UnidentifiedImageError as error:
        size = path.stat().st_size
        found, known = f"{size} bytes that no image reader knows", "JPEG, PNG, WebP, BMP, GIF, TIFF, PPM"
        raise BadFileError(path, "an image file", found, f"known: {known}; {_DAMAGED}") from error
    except Exception as error:  # on damaged bytes Pillow's readers raise nearly every kind
        raise BadFileError(
            path, "a whole image", f"a truncated or damaged one ({error})", _DAMAGED
        ) from error


def _refuse_by_header(path: Path, image: Image.Image) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise BadFileError(path, f"at most {MAX_PIXELS:,} pixels", f"{width}x{height}", _TOO_LARGE)
    if image.format != "MPO" and getattr(image, "is_animated", False):
        frames = getattr(image, "n_frames", "several")
        raise BadFileError(path, "a single image", f"{frames} frames", "export the one you want")


_DAMAGED = "replace or remove it; noiseproof data check names all such files"
_TOO_LARGE = "reduce it, or raise noiseproof.datasets.decode.MAX_PIXELS if you trust the file"


def _swap(size: Size) -> Size:
    return size[1], size[0]


def _to_rgb(image: Image.Image, path: Path) -> Image.Image:
    if image.mode == "RGB":
        return image.copy()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        levels = np.asarray(image, dtype=np.int64)
        return Image.fromarray(((levels + 128) // 257).astype(np.uint8)).convert("RGB")
    if image.mode not in _PLAIN_MODES:
        raise BadFileError(path, "8 or 16 bits a channel", f"Pillow mode {image.mode}", "convert the file")
    if image.mode in {"P", "PA"}:
        return image.convert("RGBA").convert("RGB")
    return image.convert("RGB")


class Fit(ABC):
    """How a picture of any size becomes an array of one size."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(height, width, 3) of every result."""

    @abstractmethod
    def __call__(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        """Bring an RGB picture to the size; only random fits use ``random``."""

    def at_least(self, size: Size) -> Size | None:
        """(width, height) below which a picture of ``size`` must not be decoded; ``None``: decode it all."""
        return None

    def read(self, path: Path, random: np.random.Generator) -> NDArray[np.uint8]:
        """Decode a file and bring it to the size: uint8 of shape ``self.shape``."""
        return np.asarray(self(decode_rgb(path, at_least=self.at_least), random))


@dataclass(frozen=True)
class Squash(Fit):
    """Resize to ``height`` × ``width`` whatever the proportions; then, if asked, keep the middle.

    Example:
        >>> Squash(256, 256, centre=224).shape
        (224, 224, 3)
    """

    height: int
    width: int
    centre: int | None = None

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1:
            raise ValueError(f"height and width must be 1 or more, got {self.height} and {self.width}")
        if self.centre is not None and not 1 <= self.centre <= min(self.height, self.width):
            raise ValueError(f"centre must lie in 1..{min(self.height, self.width)}, got {self.centre}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, 3) of every result."""
        if self.centre is not None:
            return self.centre, self.centre, 3
        return self.height, self.width, 3

    def at_least(self, size: Size) -> Size | None:
        """Twice the size wanted."""
        return 2 * self.width, 2 * self.height

    def __call__(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        """Resize, and keep the middle if asked."""
        resized = image.resize((self.width, self.height), Image.Resampling.BILINEAR)
        return resized if self.centre is None else _middle(resized, self.centre)


@dataclass(frozen=True)
class CentreAfterResize(Fit):
    """Bring the shorter side to ``shorter_side``, keep the middle ``size`` × ``size``: the usual way to test.

    Example:
        >>> fit = CentreAfterResize(shorter_side=256, size=224)
        >>> fit(Image.new("RGB", (600, 400)), np.random.default_rng(0)).size
        (224, 224)
    """

    shorter_side: int = 256
    size: int = 224

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.shorter_side:
            raise ValueError(f"size must lie in 1..{self.shorter_side} (shorter_side), got {self.size}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, 3) of every result."""
        return self.size, self.size, 3

    def at_least(self, size: Size) -> Size | None:
        """Twice the resized picture."""
        width, height = self._resized(size)
        return 2 * width, 2 * height

    def _resized(self, size: Size) -> Size:
        shorter = min(size)
        return self.shorter_side * size[0] // shorter, self.shorter_side * size[1] // shorter

    def __call__(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        """Resize by the shorter side and keep the middle."""
        width, height = self._resized(image.size)
        if width * height > MAX_PIXELS:  # 1x40000 would become 256x10240000, to be cut to 224x224
            shorter = min(image.size)
            kept = min(image.width, 2 * shorter), min(image.height, 2 * shorter)
            image = image.crop(_middle_box(image.size, kept))
            width, height = self._resized(image.size)
        return _middle(image.resize((width, height), Image.Resampling.BILINEAR), self.size)


@dataclass(frozen=True)
class RandomWindow(Fit):
    """Cut a window of random area and shape and bring it to ``size`` × ``size`` (random resized crop).

    The same convention as :class:`noiseproof.datasets.augment.RandomResizedCrop`, for pictures of any size.

    Example:
        >>> fit = RandomWindow(224)
        >>> fit(Image.new("RGB", (600, 400)), np.random.default_rng(0)).size
        (224, 224)
    """

    size: int = 224
    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size must be 1 or more, got {self.size}")
        for name, pair in (("area", self.area), ("ratio", self.ratio)):
            if not 0 < pair[0] <= pair[1]:
                raise ValueError(f"{name} must be a pair with 0 < first <= second, got {pair}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """(height, width, 3) of every result."""
        return self.size, self.size, 3

    def __call__(self, image: Image.Image, random: np.random.Generator) -> Image.Image:
        """Draw a window, cut it, resize it."""
        left, top, width, height = self._window(image.size, random)
        cut = image.crop((left, top, left + width, top + height))
        return cut.resize((self.size, self.size), Image.Resampling.BILINEAR)

    def _window(self, size: tuple[int, int], random: np.random.Generator) -> tuple[int, int, int, int]:
        columns, rows = size
        for share, shape in random.random((10, 2)):
            area = (self.area[0] + share * (self.area[1] - self.area[0])) * rows * columns
            ratio = exp(log(self.ratio[0]) + shape * (log(self.ratio[1]) - log(self.ratio[0])))
            width, height = round(sqrt(area * ratio)), round(sqrt(area / ratio))
            if 0 < width <= columns and 0 < height <= rows:
                across, down = random.random(2)
                return int(across * (columns - width + 1)), int(down * (rows - height + 1)), width, height
        width = min(columns, round(rows * self.ratio[1]))
        height = min(rows, round(columns / self.ratio[0]))
        return (columns - width) // 2, (rows - height) // 2, width, height


def _middle(image: Image.Image, size: int) -> Image.Image:
    return image.crop(_middle_box(image.size, (size, size)))


def _middle_box(size: Size, kept: Size) -> tuple[int, int, int, int]:
    left, top = (size[0] - kept[0]) // 2, (size[1] - kept[1]) // 2
    return left, top, left + kept[0], top + kept[1]
