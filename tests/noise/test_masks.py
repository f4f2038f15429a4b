# SPDX-License-Identifier: Apache-2.0
"""Mask noise: against the one-pixel-at-a-time loops, and the rules it must keep."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.noise import reference

from noiseproof import noise
from noiseproof.noise import NoisyMasks, mask_shapes, masks


def disk(size=64, radius=14, centre=None):
    row, column = (size // 2, size // 2) if centre is None else centre
    down, right = np.indices((size, size))
    return (down - row) ** 2 + (right - column) ** 2 <= radius**2


def blobs(count, size=64, seed=0):
    random = np.random.RandomState(seed)
    shapes = [
        disk(size, random.randint(size // 8, size // 4), random.randint(size // 4, 3 * size // 4, 2))
        for _ in range(3 * count)
    ]
    return np.stack([a | b | c for a, b, c in zip(shapes[::3], shapes[1::3], shapes[2::3], strict=True)])


any_mask = hnp.arrays(bool, st.tuples(st.integers(2, 14), st.integers(2, 14))).filter(
    lambda mask: mask.any() and not mask.all()
)
strengths = st.floats(0.0, 1.0)
angles = st.floats(0.0, 2 * math.pi)


@settings(max_examples=300)
@given(any_mask, strengths)
def test_eroding_and_dilating_are_the_loops(mask, strength):
    assert np.array_equal(mask_shapes.eroded(mask, strength), reference.eroded(mask, strength))
    assert np.array_equal(mask_shapes.dilated(mask, strength), reference.dilated(mask, strength))


@given(any_mask, strengths, st.floats(-math.pi / 6, math.pi / 6), angles)
def test_never_empty_nor_full(mask, strength, rotation, direction):
    for wrong in (
        mask_shapes.eroded(mask, strength),
        mask_shapes.dilated(mask, strength),
        mask_shapes.displaced(mask, strength, rotation, direction),
    ):
        assert wrong.any()
        assert not wrong.all()
        assert wrong.shape == mask.shape


@given(any_mask, st.floats(-math.pi, math.pi))
def test_turning_in_a_box_is_turning_the_frame(mask, rotation):
    assert np.array_equal(mask_shapes._turned(mask, rotation), reference.turned(mask, rotation))


@pytest.mark.parametrize("strength", [0.3, 0.5, 0.7])
def test_displacing_is_the_loop_on_lesions(lesion_masks, strength):
    random = np.random.RandomState(0)
    for mask in lesion_masks:
        rotation, direction = random.uniform(-math.pi / 6, math.pi / 6), random.uniform(0, 2 * math.pi)
        ours = mask_shapes.displaced(mask, strength, rotation, direction)
        assert np.array_equal(ours, reference.displaced(mask, strength, rotation, direction))


@pytest.mark.parametrize("strength", [0.5, 0.7])
def test_areas_and_differences_come_near_the_strength(lesion_masks, strength):
    noisy = noise.corrupt_masks(lesion_masks, 1.0, strength, seed=3)
    kind = np.array(masks.KINDS)[noisy.kinds]
    # A step of one pixel is a few percent of a lesion at this size.
    assert np.abs(noisy.area_ratios[kind == "erode"] - (1 - strength)).max() < 0.1
    room = lesion_masks.mean(axis=(1, 2)) * (1 + strength) < 0.9  # else the frame ends first
    assert np.abs(noisy.area_ratios[(kind == "dilate") & room] - (1 + strength)).max() < 0.1
    assert np.abs(noisy.differences[kind == "affine"] - strength).max() < 0.1


def test_the_nearer_of_two_steps_is_kept():
    square = np.zeros((15, 15), dtype=bool)
    square[3:12, 3:12] = True  # 81 pixels; eroded 49, 25, 9, 1
    assert mask_shapes.eroded(square, 0.3).sum() == 49  # 56.7: 49 is nearer than 81
    assert mask_shapes.eroded(square, 0.1).sum() == 81  # 72.9: 81 is nearer than 49
    assert mask_shapes.eroded(square, 1.0).sum() == 1  # the last that is not empty
    full_but_one = np.ones((5, 5), dtype=bool)
    full_but_one[0, 0] = False
    assert np.array_equal(mask_shapes.dilated(full_but_one, 1.0), full_but_one)


def test_a_mask_at_the_edge_is_not_eaten_from_there():
    half = np.zeros((10, 10), dtype=bool)
    half[:, :5] = True
    assert np.array_equal(np.flatnonzero(mask_shapes.eroded(half, 0.4).any(axis=0)), [0, 1, 2])


@pytest.mark.parametrize(
    ("direction", "down", "right"),
    [
        (0.0, 0, 1),
        (math.pi / 4, -1, 1),
        (math.pi / 2, -1, 0),
        (3 * math.pi / 4, -1, -1),
        (math.pi, 0, -1),
        (5 * math.pi / 4, 1, -1),
        (3 * math.pi / 2, 1, 0),
        (7 * math.pi / 4, 1, 1),
    ],
)
def test_shifts_go_all_ways(direction, down, right):
    mask = disk()
    moved = mask_shapes.displaced(mask, 0.5, 0.0, direction)
    before, after = (np.array(np.nonzero(m)).mean(axis=1) for m in (mask, moved))
    assert np.sign(np.round(after - before)).tolist() == [down, right]
    assert moved.sum() == mask.sum()


def test_turns_go_counter_clockwise():
    hammer = np.zeros((21, 21), dtype=bool)
    hammer[10, 4:15] = True
    hammer[8:13, 15] = True  # the head at the right
    turned = mask_shapes._turned(hammer, math.pi / 2)
    rows = np.flatnonzero(turned.any(axis=1))
    assert turned[rows[0]].sum() == 5  # the head is on top
    assert turned[rows[-1]].sum() == 1
    assert turned.sum() == hammer.sum()


def test_a_right_angle_is_exact():
    mask = np.zeros((11, 11), dtype=bool)
    mask[2:9, 4:7] = True
    assert np.array_equal(mask_shapes._turned(mask, math.pi / 2), np.rot90(mask))


def test_resampling_keeps_the_area():
    """Interpolation and thresholds eat a mask; nearest neighbour does not."""
    mask = disk(radius=12)
    for rotation in np.linspace(-math.pi / 6, math.pi / 6, 13):
        assert mask_shapes._turned(mask, rotation).sum() == pytest.approx(mask.sum(), rel=0.02)


def test_a_long_mask_is_turned_less():
    """A needle turned by 30° shares hardly a pixel with itself: its difference would be far above 0.5."""
    needle = np.zeros((80, 80), dtype=bool)
    needle[38:41, 5:75] = True
    wrong = mask_shapes.displaced(needle, 0.5, math.pi / 6, 0.3)
    assert (wrong ^ needle).sum() / needle.sum() == pytest.approx(0.5, abs=0.1)


def test_share_is_exact_and_kinds_uniform():
    many = np.broadcast_to(disk(16, 4), (6_000, 16, 16))
    noisy = noise.corrupt_masks(many, 0.7, 0.5, seed=1)
    counts = np.bincount(noisy.kinds, minlength=4)
    assert counts[0] == 1_800
    # Each kind has 1,400 of 4,200 expected, with a deviation of 31.
    assert np.abs(counts[1:] - 1_400).max() < 4 * 31
    assert (noisy.changed == (noisy.kinds > 0)).all()
    assert noisy.realised_share == 0.7


@given(st.integers(0, 40), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_floored_share(count, share, seed):
    noisy = noise.corrupt_masks(blobs(count + 1, 16), share, 0.7, seed)
    assert (noisy.kinds > 0).sum() == int(share * (count + 1))
    assert np.array_equal(noisy.masks[noisy.kinds == 0], noisy.clean[noisy.kinds == 0])


def test_a_masks_draw_does_not_depend_on_the_others():
    data = blobs(20)
    changed = data.copy()
    changed[3] = disk()
    first, second = (noise.corrupt_masks(m, 0.7, 0.7, 5) for m in (data, changed))
    others = np.arange(20) != 3
    assert np.array_equal(first.masks[others], second.masks[others])


@pytest.mark.parametrize(
    ("dtype", "foreground"), [(bool, 1), (np.uint8, 1), (np.uint8, 255), (np.int64, 1), (np.int16, 7)]
)
def test_dtype_and_values_are_kept(dtype, foreground):
    data = blobs(12)
    expected = noise.corrupt_masks(data, 0.7, 0.7, 2).masks
    noisy = noise.corrupt_masks((data * foreground).astype(dtype), 0.7, 0.7, 2)
    assert noisy.masks.dtype == dtype
    assert np.array_equal(noisy.masks, (expected * foreground).astype(dtype))
    assert np.asarray(noisy).dtype == dtype


def test_empty_and_full_masks_are_left_alone():
    data = np.zeros((4, 8, 8), dtype=np.uint8)
    data[1] = 1
    data[2:, 2:6, 2:6] = 1
    noisy = noise.corrupt_masks(data, 1.0, 0.7, 1)
    assert noisy.kinds[:2].tolist() == [0, 0]
    assert np.array_equal(noisy.masks[:2], data[:2])
    assert (noisy.kinds[2:] > 0).all()
    assert noisy.area_ratios[0] == 1.0
    assert noisy.differences[0] == 0.0


def test_no_strength_is_no_noise():
    data = blobs(30)
    assert noise.corrupt_masks(data, 1.0, 0.0, 1).realised_share == 0.0


def test_there_and_back(tmp_path):
    data = blobs(13, size=21).astype(np.uint8) * 255
    noisy = noise.corrupt_masks(data, 0.7, 0.7, 2)
    noisy.save(tmp_path / "masks.npz")
    again = NoisyMasks.load(tmp_path / "masks.npz", clean=data)
    assert np.array_equal(again.masks, noisy.masks)
    assert again.masks.dtype == np.uint8
    assert repr(again) == repr(noisy)
    for other in (data[::-1], data[:-1], 255 - data):
        with pytest.raises(ValueError, match="belongs to other masks"):
            NoisyMasks.load(tmp_path / "masks.npz", clean=other)
    noise.symmetric([0, 1], 0.5, 2, 1).save(tmp_path / "labels.npz")
    with pytest.raises(ValueError, match="not a readable file of noisy masks"):
        NoisyMasks.load(tmp_path / "labels.npz", clean=data)


def test_damaged_files(tmp_path):
    path, data = tmp_path / "masks.npz", blobs(6, 16)
    noise.corrupt_masks(data, 0.7, 0.7, 2).save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for change, message in (
        ({"kinds": np.full(6, 4)}, "kinds must lie in"),
        ({"kinds": np.zeros(5, dtype=np.int64)}, "kinds must be int64"),
        ({"bits": arrays["bits"][:-1]}, "bits must be uint8"),
    ):
        np.savez(path, **{**arrays, **change})
        with pytest.raises(ValueError, match=message):
            NoisyMasks.load(path, clean=data)


def test_the_record_cannot_be_written_and_the_caller_can():
    data = blobs(4)
    noisy = noise.corrupt_masks(data, 0.7, 0.7, 2)
    for array in (noisy.masks, noisy.clean, noisy.kinds):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    data[0] = False


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.zeros((2, 4, 4)), TypeError, "masks must be booleans or integers, got dtype float64"),
        (np.zeros((4, 4), dtype=int), ValueError, r"masks must have shape \(N, height, width\)"),
        (np.zeros((0, 4, 4), dtype=int), ValueError, r"masks must have shape \(N, height, width\)"),
        (np.arange(16).reshape(1, 4, 4), ValueError, "masks must hold 0 and one other value"),
        (-np.eye(4, dtype=int)[None], ValueError, "masks must hold 0 and one other value"),
    ],
)
def test_bad_masks(bad, error, message):
    with pytest.raises(error, match=message):
        noise.corrupt_masks(bad, 0.5, 0.5, 1)


@pytest.mark.parametrize("argument", ["share", "strength"])
def test_bad_rates(argument):
    arguments = {"share": 0.5, "strength": 0.5, argument: 1.5}
    with pytest.raises(ValueError, match=rf"{argument} must lie in \[0, 1\], got 1.5"):
        noise.corrupt_masks(blobs(2), seed=1, **arguments)


def test_pixels_without_a_label_are_background_and_stay_so():
    true = blobs(40).astype(np.uint8)
    true[:, :9] = 255
    noisy = noise.corrupt_masks(true, 1.0, 0.7, seed=3, void=255)
    assert set(np.unique(noisy.clean)) == set(np.unique(noisy.masks)) == {0, 1}
    assert not noisy.masks[:, :9].any()
    known = np.where(true == 255, 0, true).astype(np.uint8)
    plain = noise.corrupt_masks(known, 1.0, 0.7, seed=3)
    assert np.array_equal(noisy.masks[:, 9:], plain.masks[:, 9:])
    assert np.array_equal(noisy.kinds, plain.kinds)
    assert plain.masks[:, :9].any()  # where there is nothing to be kept free, masks grow and move there


def test_a_mask_that_would_vanish_among_pixels_without_a_label_is_kept():
    true = np.full((60, 9, 9), 255, dtype=np.uint8)
    true[:, 4, 4:7] = 1  # three pixels in a row, which moving takes off all three
    noisy = noise.corrupt_masks(true, 1.0, 1.0, seed=1, void=255)
    assert noisy.masks.any(axis=(1, 2)).all()
    assert (noisy.kinds == 0).any()
    assert not noisy.changed[noisy.kinds == 0].any()
