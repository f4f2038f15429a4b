# SPDX-License-Identifier: Apache-2.0
"""Reading image files: every kind that is accepted or refused, one by one, and the fits."""

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from noiseproof.datasets.augment import RandomResizedCrop
from noiseproof.datasets.decode import (
    MAX_PIXELS,
    CentreAfterResize,
    RandomWindow,
    Squash,
    decode_mask,
    decode_rgb,
    image_size,
)
from noiseproof.datasets.errors import BadFileError

RANDOM = np.random.default_rng(0)


def colours(height=6, width=9):
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(tmp_path, image, name, **options):
    path = tmp_path / name
    image.save(path, **options)
    return path


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif", "a.ppm"])
def test_lossless_rgb_is_read_exactly(tmp_path, name):
    path = saved(tmp_path, Image.fromarray(colours()), name)
    np.testing.assert_array_equal(np.asarray(decode_rgb(path)), colours())


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_other_modes_become_rgb(tmp_path, mode):
    image = Image.fromarray(colours()).convert(mode)
    path = saved(tmp_path, image, "a.tif" if mode == "CMYK" else "a.png")
    decoded = decode_rgb(path)
    assert decoded.mode == "RGB"
    np.testing.assert_array_equal(np.asarray(decoded), np.asarray(image.convert("RGB")))


def test_a_palette_with_transparency_becomes_its_colours(tmp_path):
    image = Image.fromarray(colours()).convert("P", palette=Image.Palette.ADAPTIVE, colors=8)
    path = saved(tmp_path, image, "a.png", transparency=bytes([0, 128, 255]))
    np.testing.assert_array_equal(np.asarray(decode_rgb(path)), np.asarray(image.convert("RGB")))


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    levels = np.array([[0, 128, 129, 257, 32768, 65407, 65535]], dtype=np.uint16)
    path = saved(tmp_path, Image.fromarray(levels), "a.png")
    assert np.asarray(decode_rgb(path))[0, :, 0].tolist() == [0, 0, 1, 1, 128, 255, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_rotation_mark_is_applied(tmp_path, orientation):
    upright = np.zeros((32, 48, 3), dtype=np.uint8)
    upright[:8, :24] = 255  # a bar at the top left
    # What a camera stores for each orientation, so that applying the mark gives the upright picture back.
    stored = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: a.transpose(1, 0, 2)[::-1],
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    }
    pixels = stored[orientation](upright)
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path, Image.fromarray(np.ascontiguousarray(pixels)), "a.jpg", quality=95, exif=exif)
    decoded = np.asarray(decode_rgb(path)).astype(int)
    assert decoded.shape == upright.shape
    assert np.abs(decoded - upright).mean() < 4
    assert image_size(path) == (48, 32)


def test_scaled_decoding_keeps_at_least_what_was_asked_for_and_nearly_the_same_picture(tmp_path):
    smooth = Image.fromarray(np.random.default_rng(1).integers(0, 256, (9, 12, 3), dtype=np.uint8))
    path = saved(tmp_path, smooth.resize((1600, 1200), Image.Resampling.BICUBIC), "a.jpg", quality=92)
    assert decode_rgb(path, at_least=lambda size: (512, 512)).size == (800, 600)
    assert decode_rgb(path).size == (1600, 1200)
    fit = Squash(128, 128)
    whole = np.asarray(fit(decode_rgb(path), RANDOM)).astype(int)
    scaled = fit.read(path, RANDOM).astype(int)
    assert np.abs(whole - scaled).mean() < 1
    assert np.abs(whole - scaled).max() <= 6


def refuse(path, message):
    with pytest.raises(BadFileError, match=message) as caught:
        decode_rgb(path)
    assert caught.value.path == path


def test_animations_are_refused(tmp_path):
    frames = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (0, 100, 200)]
    for name in ("a.gif", "a.webp", "a.tif"):
        path = saved(tmp_path, frames[0], name, save_all=True, append_images=frames[1:])
        refuse(path, f"{name}: expected a single image, found 3 frames")


def test_the_first_picture_of_a_cameras_double_file_is_taken(tmp_path):
    first, second = Image.new("RGB", (8, 8), (250, 0, 0)), Image.new("RGB", (8, 8), (0, 0, 250))
    path = saved(tmp_path, first, "a.mpo", save_all=True, append_images=[second])
    assert np.asarray(decode_rgb(path))[0, 0, 0] > 200


def test_floating_point_pixels_are_refused(tmp_path):
    path = saved(tmp_path, Image.fromarray(np.zeros((4, 4), dtype=np.float32)), "a.tif")
    refuse(path, "expected 8 or 16 bits a channel, found Pillow mode F")


def png_header_of(width, height):
    """A PNG of a few bytes that claims to be of any size."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(9000, 9000), (100_000, 100_000)])
def test_bombs_are_refused_before_decoding(tmp_path, width, height):
    assert width * height > MAX_PIXELS
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header_of(width, height))
    refuse(path, r"bomb.png: expected at most 80,000,000 pixels")


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp", "a.bmp", "a.gif"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.9])
def test_truncated_files_are_named(tmp_path, name, share):
    path = saved(tmp_path, Image.fromarray(colours(60, 80)), name)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    refuse(path, rf"{name}: expected a(n image file| whole image), found")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_files_never_escape_as_another_error(tmp_path):
    """Whatever bytes are changed: a picture, or an error that names the file."""
    random = np.random.default_rng(5)
    path = tmp_path / "a"
    refused = 0
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF"):
        buffer = io.BytesIO()
        Image.fromarray(colours(24, 24)).save(buffer, format=kind)
        for _ in range(200):
            content = bytearray(buffer.getvalue())
            for position in random.integers(0, min(len(content), random.choice([60, 10**6])), 6):
                content[position] = random.integers(0, 256)
            path.write_bytes(content)
            for reader in (decode_rgb, decode_mask, image_size):
                try:
                    reader(path)
                except BadFileError:
                    refused += 1
    assert 600 < refused < 3000  # those of PNG, which have checksums, and by far not all others


def test_other_files_and_missing_ones(tmp_path):
    text = tmp_path / "a.jpg"
    text.write_text("not a picture")
    refuse(text, "found 13 bytes that no image reader knows")
    refuse(tmp_path / "gone.jpg", "gone.jpg: expected an image file, found no such file")


def test_masks_keep_their_numbers(tmp_path):
    numbers = np.arange(12, dtype=np.uint8).reshape(3, 4)
    grey = saved(tmp_path, Image.fromarray(numbers), "grey.png")
    np.testing.assert_array_equal(decode_mask(grey), numbers)
    palette = Image.fromarray(numbers)
    palette.putpalette(list(range(255, -1, -1)) * 3)
    np.testing.assert_array_equal(decode_mask(saved(tmp_path, palette, "palette.png")), numbers)


def test_fits_give_their_shape_from_any_picture(tmp_path):
    for size in ((300, 200), (50, 400), (7, 5), (224, 224)):
        path = saved(tmp_path, Image.new("RGB", size, (10, 200, 30)), "a.png")
        for fit in (Squash(32, 48), Squash(40, 40, centre=32), CentreAfterResize(256, 224), RandomWindow(64)):
            read = fit.read(path, np.random.default_rng(3))
            assert read.shape == fit.shape
            assert (read == [10, 200, 30]).all()


def test_the_middle_is_the_middle():
    picture = np.zeros((256, 256, 3), dtype=np.uint8)
    picture[16:240, 16:240] = 255
    squashed = np.asarray(Squash(256, 256, centre=224)(Image.fromarray(picture), RANDOM))
    assert (squashed == 255).all()
    np.testing.assert_array_equal(
        np.asarray(CentreAfterResize(256, 224)(Image.fromarray(picture), RANDOM)), squashed
    )


def test_random_windows_have_the_conventions_statistics():
    """The same distribution as the batched crop, whose test compares it with the convention."""
    fit, random = RandomWindow(224), np.random.default_rng(2)
    left, top, width, height = np.array([fit._window((400, 300), random) for _ in range(10_000)]).T
    assert (left >= 0).all()
    assert (top >= 0).all()
    assert (left + width <= 400).all()
    assert (top + height <= 300).all()
    images = torch.zeros(10_000, 1, 1, 1).expand(-1, -1, 300, 400)
    (batched,) = RandomResizedCrop(224).draw(images, torch.Generator().manual_seed(1))
    for ours, theirs in zip((top, left, height, width), batched.numpy().T, strict=True):
        assert abs(ours.mean() - theirs.mean()) < 0.06 * theirs.std()
        assert abs(ours.std() - theirs.std()) < 0.06 * theirs.std()
    narrow = np.array([RandomWindow(8)._window((10, 1000), random) for _ in range(50)])
    assert (narrow[:, 2] == 10).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Squash(0, 3), "height and width must be 1 or more, got 0 and 3"),
        (lambda: Squash(8, 8, centre=9), r"centre must lie in 1..8, got 9"),
        (lambda: CentreAfterResize(100, 200), r"size must lie in 1..100 \(shorter_side\), got 200"),
        (
            lambda: RandomWindow(8, area=(0.0, 1.0)),
            r"area must be a pair with 0 < first <= second, got \(0.0, 1.0\)",
        ),
    ],
)
def test_bad_fits(make, message):
    with pytest.raises(ValueError, match=message):
        make()
