# SPDX-License-Identifier: Apache-2.0
"""Crop, flip, mirror, rotation and resized crop against Pillow, SciPy and the plain loop."""

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage

from noiseproof.datasets.augment import (
    Chain,
    RandomCropFlip,
    RandomMirror,
    RandomResizedCrop,
    RandomRotation,
    center_crop,
    crop_flip,
    mirror,
    resize,
    resize_shorter_side,
    resized_crop,
    rotate,
)
from noiseproof.datasets.augment.resized_crop import nearest_resized_crop


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, 256, shape, dtype=torch.uint8, generator=seeded(seed))


def as_pillow(image: torch.Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).numpy())


def from_pillow(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def crop_flip_one_by_one(images, down, right, mirrored, padding):
    """The obvious loop: pad, cut, mirror."""
    height, width = images.shape[2:]
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    cut = []
    for image, i, j, flip in zip(padded, down.tolist(), right.tolist(), mirrored.tolist(), strict=True):
        window = image[:, padding + i : padding + i + height, padding + j : padding + j + width]
        cut.append(window.flip(2) if flip else window)
    return torch.stack(cut)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_crop_flip_equals_the_loop_exactly(dtype):
    images = some_images(64, 3, 9, 7).to(dtype)
    down, right, mirrored = RandomCropFlip(padding=4).draw(images, seeded(1))
    gathered = crop_flip(images, down, right, mirrored)
    assert gathered.dtype == dtype
    assert torch.equal(gathered, crop_flip_one_by_one(images, down, right, mirrored, padding=4))


def test_crop_flip_works_on_channels_last_memory():
    images = some_images(8, 3, 6, 6)
    drawn = RandomCropFlip().draw(images, seeded(1))
    strided = images.to(memory_format=torch.channels_last)
    assert torch.equal(crop_flip(strided, *drawn), crop_flip(images, *drawn))


def test_a_whole_epoch_of_cifar_is_one_gather():
    images = some_images(50_000, 3, 32, 32)
    drawn = RandomCropFlip().draw(images, seeded(1))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        augmented = crop_flip(images, *drawn)
    calls = {event.key: event.count for event in profile.key_averages()}
    assert calls["aten::gather"] == 1
    assert "aten::index" not in calls
    chosen = torch.tensor([0, 1, 2, 24_999, 49_999])
    expected = crop_flip_one_by_one(images[chosen], *(part[chosen] for part in drawn), padding=4)
    assert torch.equal(augmented[chosen], expected)


def test_crop_offsets_and_flips_are_evenly_drawn():
    images = torch.zeros(90_000, 1, 1, 1, dtype=torch.uint8)
    down, right, mirrored = RandomCropFlip(padding=4).draw(images, seeded(2))
    for offsets in (down, right):
        counts = torch.bincount(offsets + 4, minlength=9).double()
        assert len(counts) == 9
        assert ((counts - 10_000) ** 2 / 10_000).sum() < 26.1  # chi-square, 8 degrees, p = 0.001
    assert abs(mirrored.double().mean() - 0.5) < 0.006
    joint = torch.corrcoef(torch.stack((down, right, mirrored)).double())
    assert (joint - torch.eye(3)).abs().max() < 0.02


def test_padding_is_zero_before_normalisation():
    images = torch.full((200, 3, 8, 8), 255, dtype=torch.uint8)
    augmented = RandomCropFlip(padding=4)(images, seeded(1))
    assert set(augmented.unique().tolist()) == {0, 255}


def test_mirror_against_pillow():
    images = some_images(4, 3, 5, 6)
    left_right = torch.tensor([False, True, False, True])
    top_bottom = torch.tensor([False, False, True, True])
    mirrored = mirror(images, left_right, top_bottom)
    for k in range(4):
        expected = as_pillow(images[k])
        if left_right[k]:
            expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if top_bottom[k]:
            expected = expected.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
        assert torch.equal(mirrored[k], from_pillow(expected))


@pytest.mark.parametrize("size", [(32, 32), (31, 40), (224, 224)])
@pytest.mark.parametrize("degrees", [0.0, 90.0, 180.0, -90.0, 20.0, -20.0, 7.3, -13.9])
def test_rotation_by_the_nearest_pixel_against_pillow(degrees, size):
    image = some_images(1, 3, *size)
    rotated = rotate(image, torch.tensor([degrees]))[0]
    expected = from_pillow(as_pillow(image[0]).rotate(degrees, resample=Image.Resampling.NEAREST))
    if degrees % 90 == 0:
        # Pillow transposes at right angles where it can; the two agree wherever the image is square.
        if size[0] == size[1] or degrees in (0.0, 180.0):
            assert torch.equal(rotated, expected)
        return
    # Pillow steps in fixed point, so a pixel whose centre falls on an edge may go to the neighbour.
    assert (rotated != expected).any(dim=0).double().mean() < 0.002


def test_rotation_leaves_black_corners_and_keeps_the_centre():
    images = torch.full((1, 1, 33, 33), 200, dtype=torch.uint8)
    rotated = rotate(images, torch.tensor([20.0]))[0, 0]
    assert rotated[0, 0] == rotated[0, -1] == rotated[-1, 0] == rotated[-1, -1] == 0
    assert (rotated[8:25, 8:25] == 200).all()


@pytest.mark.parametrize("degrees", [20.0, -11.0])
def test_bilinear_rotation_against_scipy(degrees):
    image = torch.rand(1, 1, 24, 30, generator=seeded(1), dtype=torch.float64)
    rotated = rotate(image, torch.tensor([degrees]), resampling="bilinear")[0, 0].numpy()
    angle = np.deg2rad(np.float32(degrees))
    matrix = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    centre = np.array([11.5, 14.5])
    expected = ndimage.affine_transform(
        image[0, 0].numpy(), matrix, offset=centre - matrix @ centre, order=1, mode="grid-constant", cval=0.0
    )
    np.testing.assert_allclose(rotated, expected, atol=2e-5)


def test_bilinear_rotation_keeps_uint8():
    images = some_images(2, 3, 16, 16)
    rotated = rotate(images, torch.tensor([0.0, 180.0]), resampling="bilinear")
    assert rotated.dtype == torch.uint8
    assert (rotated[0].int() - images[0].int()).abs().max() <= 1
    assert (rotated[1].int() - images[1].flip(1, 2).int()).abs().max() <= 1


def test_rotation_angles_are_even_within_bounds():
    (angles,) = RandomRotation(20.0).draw(torch.zeros(50_000, 1, 1, 1), seeded(1))
    assert angles.min() >= -20
    assert angles.max() < 20
    assert abs(angles.mean()) < 0.2
    assert abs(angles.std() - 40 / 12**0.5) < 0.1


WINDOWS = [(0, 0, 60, 80), (10, 20, 50, 31), (5, 7, 17, 13), (59, 79, 1, 1), (0, 40, 60, 40)]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("size", [(24, 24), (64, 96)])
def test_resized_crop_against_pillow(window, size):
    image = some_images(1, 3, 60, 80)
    top, left, height, width = window
    resized = resized_crop(image, torch.tensor([window]), size)[0]
    cut = as_pillow(image[0]).crop((left, top, left + width, top + height))
    expected = from_pillow(cut.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    # Pillow rounds to whole levels between its two passes; we do not.
    assert (resized.int() - expected.int()).abs().max() <= 1


def test_resized_crop_without_antialias_is_torchs_interpolation():
    image = torch.rand(1, 3, 60, 80, generator=seeded(1))
    ours = resized_crop(image, torch.tensor([[0, 0, 60, 80]]), (24, 24), antialias=False)
    theirs = torch.nn.functional.interpolate(image, (24, 24), mode="bilinear", align_corners=False)
    torch.testing.assert_close(ours, theirs)


def test_resized_crop_does_not_look_beyond_its_window():
    image = torch.zeros(1, 1, 20, 20)
    image[:, :, 5:15, 5:15] = 1.0
    cut = resized_crop(image, torch.tensor([[5, 5, 10, 10]]), (4, 4))
    torch.testing.assert_close(cut, torch.ones(1, 1, 4, 4))


def test_nearest_resized_crop_against_pillow():
    masks = torch.randint(0, 7, (len(WINDOWS), 60, 80), dtype=torch.uint8, generator=seeded(1))
    # At 32 no centre of an output pixel falls on an input edge, where Pillow's own rounding would decide.
    resized = nearest_resized_crop(masks, torch.tensor(WINDOWS), (32, 32))
    for mask, (top, left, height, width), ours in zip(masks, WINDOWS, resized, strict=True):
        cut = Image.fromarray(mask.numpy()).crop((left, top, left + width, top + height))
        expected = np.array(cut.resize((32, 32), Image.Resampling.NEAREST))
        np.testing.assert_array_equal(ours.numpy(), expected)


@pytest.mark.parametrize("shape", [(256, 256), (300, 200), (64, 640)])
def test_random_resized_crop_follows_the_convention(shape):
    """Against the per-image rejection loop of the common convention, drawn with NumPy."""
    images = torch.zeros(20_000, 1, 1, 1).expand(-1, -1, *shape)
    step = RandomResizedCrop(224)
    windows = step.draw(images, seeded(3))[0].double()
    top, left, height, width = windows.T
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (top + height <= shape[0]).all()
    assert (left + width <= shape[1]).all()

    random = np.random.default_rng(3)
    reference = np.array([reference_window(*shape, random) for _ in range(20_000)], dtype=float)
    for k in range(4):
        ours, theirs = windows[:, k].numpy(), reference[:, k]
        spread = max(theirs.std(), 1e-9)
        assert abs(ours.mean() - theirs.mean()) < 0.05 * spread + 1e-9
        assert abs(ours.std() - theirs.std()) < 0.05 * spread + 1e-9


def reference_window(rows, columns, random):
    for _ in range(10):
        area = random.uniform(0.08, 1.0) * rows * columns
        ratio = np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        width, height = round(np.sqrt(area * ratio)), round(np.sqrt(area / ratio))
        if 0 < width <= columns and 0 < height <= rows:
            return (
                random.integers(0, rows - height + 1),
                random.integers(0, columns - width + 1),
                height,
                width,
            )
    if columns / rows < 3 / 4:
        width, height = columns, round(columns / (3 / 4))
    elif columns / rows > 4 / 3:
        width, height = round(rows * 4 / 3), rows
    else:
        width, height = columns, rows
    return (rows - height) // 2, (columns - width) // 2, height, width


def test_resize_and_centre_crop_against_pillow():
    image = some_images(1, 3, 60, 83)
    resized = resize_shorter_side(image, 40)
    assert resized.shape[2:] == (40, 55)
    expected = from_pillow(as_pillow(image[0]).resize((55, 40), Image.Resampling.BILINEAR))
    assert (resized[0].int() - expected.int()).abs().max() <= 1
    assert torch.equal(center_crop(resized, (32, 32))[0], resized[0, :, 4:36, 11:43])
    assert resize(image, (20, 20)).shape == (1, 3, 20, 20)
    with pytest.raises(ValueError, match=r"size must fit into the images of 60x83, got 61x10"):
        center_crop(image, (61, 10))


GEOMETRIC = [
    RandomCropFlip(),
    RandomMirror(0.5, 0.5),
    RandomRotation(20.0),
    RandomRotation(20.0, resampling="bilinear"),
    RandomResizedCrop(24),
    Chain((RandomCropFlip(), RandomRotation(20.0), RandomMirror(0.5, 0.5))),
]


@pytest.mark.parametrize("step", GEOMETRIC, ids=str)
def test_masks_follow_their_images(step):
    """An image that is its own mask stays its own mask, but for pixels that bilinear resampling mixes."""
    discs = torch.zeros(16, 32, 32, dtype=torch.uint8)
    row, column = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")
    for k in range(16):
        discs[k] = ((row - 8 - k) ** 2 + (column - 20 + k // 2) ** 2 < 60).to(torch.uint8)
    images = (discs * 255).unsqueeze(1).expand(-1, 3, -1, -1)
    moved, masks = step.together(images, discs, seeded(1))
    assert masks.dtype == torch.uint8
    assert set(masks.unique().tolist()) <= {0, 1}
    assert moved.shape[2:] == masks.shape[1:]
    agree = (moved[:, 0] > 127) == (masks == 1)
    certain = (moved[:, 0] == 0) | (moved[:, 0] == 255)
    assert agree[certain].double().mean() > 0.995
    assert agree.double().mean() > 0.98
    assert not torch.equal(masks, discs)


@pytest.mark.parametrize("step", GEOMETRIC, ids=str)
def test_images_alone_and_with_masks_are_moved_alike(step):
    images, masks = some_images(8, 3, 32, 32), some_images(8, 32, 32)
    together, _ = step.together(images, masks, seeded(4))
    assert torch.equal(step(images, seeded(4)), together)
