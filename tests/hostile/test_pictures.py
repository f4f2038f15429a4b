# SPDX-License-Identifier: Apache-2.0
"""Pictures that are not what their name says, or that would cost far more than they show."""

import io
import os
import struct
import time
import zlib

import numpy as np
import pytest
from PIL import Image

from noiseproof.datasets import decode, sheet
from noiseproof.datasets.errors import BadFileError
from noiseproof.datasets.labeled_data import LabeledData

RANDOM = np.random.default_rng(0)
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n(x) print quit\n"


def png_of_claimed_size(width, height):
    """A few hundred bytes that claim a size; the pixels, all black, compress a thousandfold."""

    def chunk(name, content):
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("read", [decode.decode_rgb, decode.decode_mask, decode.image_size])
def test_postscript_named_jpg_starts_no_program(tmp_path, monkeypatch, read):
    from PIL import EpsImagePlugin

    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **more: started.append(given))
    picture = tmp_path / "cat.jpg"
    picture.write_bytes(EPS)
    with pytest.raises(BadFileError, match="known: JPEG, PNG, WebP"):
        read(picture)
    assert not started


def test_the_same_file_would_have_started_one(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given, **more: started.append(given))
    (tmp_path / "cat.jpg").write_bytes(EPS)
    with pytest.raises(Exception), Image.open(tmp_path / "cat.jpg") as image:  # noqa: B017, PT011
        image.load()
    assert started


def test_the_sheet_reads_pictures_with_the_same_care(tmp_path):
    (tmp_path / "cat.jpg").write_bytes(EPS)
    data = LabeledData("x", "train", np.array([0]), ("cat",), paths=(tmp_path / "cat.jpg",))
    with pytest.raises(BadFileError, match="known: JPEG, PNG, WebP"):
        sheet.draw(data)


def test_a_sheet_of_a_class_whose_name_has_lines_and_emoji():
    images = np.zeros((1, 4, 4, 3), dtype=np.uint8)
    data = LabeledData("x", "train", np.array([0]), ("two\nlines 🐈\t<b>",), images=images)
    assert sheet.draw(data).width > 0


@pytest.mark.parametrize("size", [(9_000, 9_000), (2**31 - 1, 2**31 - 1), (0, 5), (80_000_001, 1)])
def test_a_bomb_is_refused_before_its_pixels(tmp_path, size):
    picture = tmp_path / "bomb.png"
    picture.write_bytes(png_of_claimed_size(*size))
    begun = time.perf_counter()
    with pytest.raises(BadFileError):
        decode.decode_rgb(picture)
    assert time.perf_counter() - begun < 1


def test_an_animation_of_many_frames_is_refused_soon(tmp_path):
    frames = [Image.new("L", (2, 2), shade % 256) for shade in range(300)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(BadFileError, match="300 frames"):
        decode.decode_rgb(tmp_path / "a.gif")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "cat.png")
    with pytest.raises(BadFileError, match="a folder, a pipe or a device"):
        decode.decode_rgb(tmp_path / "cat.png")


@pytest.mark.parametrize("size", [(1, 1), (1, 40_000), (40_000, 1), (3, 65_000)])
@pytest.mark.parametrize(
    "fit",
    [decode.CentreAfterResize(), decode.Squash(24, 20), decode.RandomWindow(24)],
    ids=lambda f: type(f).__name__,
)
def test_one_pixel_and_very_long_pictures_cost_no_more_than_others(tmp_path, size, fit):
    # By the shorter side alone, 1x40000 would become 256x10,240,000 pixels, 8 GB, of which 224x224 are kept.
    picture = tmp_path / "long.png"
    Image.new("RGB", size, (10, 200, 30)).save(picture)
    pixels = fit.read(picture, RANDOM)
    assert pixels.shape == fit.shape
    assert (pixels == (10, 200, 30)).all()


def test_the_middle_of_a_long_picture_is_what_is_kept(tmp_path):
    picture = tmp_path / "long.png"
    pixels = np.zeros((3, 60_001, 3), dtype=np.uint8)
    pixels[:, 29_990:30_011] = 255
    Image.fromarray(pixels).save(picture)
    assert (decode.CentreAfterResize().read(picture, RANDOM) == 255).all()


@pytest.mark.parametrize(
    ("orientation", "corner"),
    [(1, (0, 0)), (3, (3, 5)), (6, (0, 3)), (8, (5, 0))],
    ids=lambda value: str(value),
)
def test_the_camera_s_rotation_is_applied(tmp_path, orientation, corner):
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[0, 0] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(tmp_path / "a.png", exif=exif)
    upright = np.asarray(decode.decode_rgb(tmp_path / "a.png"))
    assert upright.shape == ((4, 6, 3) if orientation in (1, 3) else (6, 4, 3))
    assert np.argwhere(upright[..., 0] == 255).tolist() == [list(corner)]


def test_cmyk_sixteen_bits_and_one_bit_are_read(tmp_path):
    Image.new("CMYK", (3, 2), (0, 255, 255, 0)).save(tmp_path / "cmyk.tif")
    assert np.asarray(decode.decode_rgb(tmp_path / "cmyk.tif"))[0, 0].tolist() == [255, 0, 0]
    Image.fromarray(np.full((2, 3), 65535, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert np.asarray(decode.decode_rgb(tmp_path / "deep.png"))[0, 0].tolist() == [255, 255, 255]
    Image.new("1", (3, 2), 1).save(tmp_path / "bit.png")
    assert np.asarray(decode.decode_rgb(tmp_path / "bit.png"))[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "PPM"])
def test_truncated_anywhere(tmp_path, form):
    buffer = io.BytesIO()
    shades = np.arange(40 * 30 * 3, dtype=np.uint32) * 2654435761 % 251
    Image.fromarray(shades.astype(np.uint8).reshape(30, 40, 3)).save(buffer, form)
    whole = buffer.getvalue()
    path = tmp_path / "cut.bin"
    for share in np.linspace(0, 0.9, 19):
        path.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(BadFileError, match="cut.bin"):
            decode.decode_rgb(path)
