# SPDX-License-Identifier: Apache-2.0
"""What holds for every augmentation and recipe: seeds, element types, bad input, compiling, the registry."""

import pytest
import torch

from noiseproof.datasets.augment import (
    Chain,
    ColourJitter,
    RandomCropFlip,
    RandomGamma,
    RandomMirror,
    RandomResizedCrop,
    RandomRotation,
    normalize,
    rotate,
)
from noiseproof.datasets.augment.recipes import recipe_for, recipes

EVERY = [
    RandomCropFlip(),
    RandomMirror(0.5, 0.5),
    RandomRotation(20.0),
    RandomRotation(20.0, resampling="bilinear"),
    RandomResizedCrop(20),
    ColourJitter(),
    RandomGamma(),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(count: int = 6, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    levels = torch.randint(0, 256, (count, 3, 24, 24), dtype=torch.uint8, generator=seeded(9))
    return levels if dtype == torch.uint8 else (levels / 255).to(dtype)


@pytest.mark.parametrize("step", EVERY, ids=str)
def test_one_seed_one_result_and_nothing_global(step):
    images = some_images()
    untouched, before = images.clone(), torch.get_rng_state()
    first, again, other = step(images, seeded(1)), step(images, seeded(1)), step(images, seeded(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(images, untouched)
    assert torch.equal(torch.get_rng_state(), before)
    generator = seeded(1)
    assert torch.equal(step(images, generator), first)
    assert not torch.equal(step(images, generator), first)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("step", EVERY, ids=str)
def test_the_element_type_is_kept_and_agrees_with_uint8(step, dtype):
    changed = step(some_images(dtype=dtype), seeded(1))
    assert changed.dtype == dtype
    if dtype.is_floating_point:
        levels = step(some_images(), seeded(1)).double() / 255
        tolerance = 0.02 if dtype == torch.bfloat16 else 0.004
        assert (changed.double() - levels).abs().max() < tolerance


@pytest.mark.parametrize("step", EVERY, ids=str)
def test_an_empty_batch_stays_empty(step):
    assert len(step(some_images()[:0], seeded(1))) == 0


@pytest.mark.parametrize("step", EVERY, ids=str)
def test_bad_images_are_named(step):
    with pytest.raises(ValueError, match=r"images must have the shape \(N, C, H, W\), got \(3, 24, 24\)"):
        step(some_images()[0], seeded())
    with pytest.raises(TypeError, match=r"images must be uint8 \(0..255\) or float, got torch.int64"):
        step(some_images().long(), seeded())
    with pytest.raises(
        TypeError, match=r"images must be a torch.Tensor of shape \(N, C, H, W\), got ndarray"
    ):
        step(some_images().numpy(), seeded())
    with pytest.raises(
        ValueError, match=r"masks must have the shape \(6, 24, 24\) of their images, got \(6, 24, 23\)"
    ):
        step.together(some_images(), torch.zeros(6, 24, 23, dtype=torch.uint8), seeded())
    with pytest.raises(
        TypeError, match=r"masks must hold class indices \(an integer type\), got torch.float32"
    ):
        step.together(some_images(), torch.zeros(6, 24, 24), seeded())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomCropFlip(padding=-1), "padding must be 0 or more, got -1"),
        (lambda: RandomCropFlip(flip_probability=1.5), "flip_probability must be between 0 and 1, got 1.5"),
        (lambda: RandomMirror(left_right=-0.1), "left_right must be between 0 and 1, got -0.1"),
        (lambda: RandomRotation(181.0), "degrees must be between 0 and 180, got 181.0"),
        (
            lambda: RandomRotation(resampling="cubic"),
            "resampling must be one of nearest, bilinear, got 'cubic'",
        ),
        (
            lambda: rotate(some_images(), torch.zeros(6), "cubic"),
            "resampling must be one of nearest, bilinear",
        ),
        (lambda: RandomResizedCrop(0), "size must be 1 or more, got 0"),
        (lambda: RandomResizedCrop(area=(0.5, 0.1)), r"area must be a pair with 0.0 < first <= second"),
        (lambda: ColourJitter(hue=0.6), "hue must be between 0 and 0.5 of a turn, got 0.6"),
        (lambda: ColourJitter(contrast=-1), "contrast must be 0 or more, got -1"),
        (
            lambda: RandomGamma((0.0, 1.0)),
            r"gamma must be a pair with 0.0 < first <= second, got \(0.0, 1.0\)",
        ),
        (
            lambda: ColourJitter()(some_images()[:, :1], seeded()),
            r"3 channels \(RGB\) for colour jitter, got 1",
        ),
        (
            lambda: normalize(some_images(), (0.5,), (0.5,)),
            "one number for each of the 3 channels, got 1 and 1",
        ),
        (lambda: normalize(some_images(), (0.5,) * 3, (0.5, 0.0, 0.5)), "std must be positive, got"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.slow
@pytest.mark.parametrize("step", EVERY, ids=str)
def test_compiled_equals_eager(step):
    images = some_images()
    drawn = step.draw(images, seeded(1))
    compiled = torch.compile(step.apply, fullgraph=True)(images, drawn)
    assert (compiled.int() - step.apply(images, drawn).int()).abs().max() <= 1


@pytest.mark.gpu
@pytest.mark.parametrize("step", EVERY, ids=str)
def test_on_a_gpu_nothing_waits_for_the_host(step):
    images = some_images(64).cuda()
    generator = torch.Generator("cuda").manual_seed(1)
    step(images, generator)  # the first call may set up constants
    torch.cuda.set_sync_debug_mode("error")
    try:
        changed = step(images, generator)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert changed.device.type == "cuda"


@pytest.mark.gpu
@pytest.mark.parametrize("step", EVERY, ids=str)
def test_a_cpu_generator_gives_the_same_on_a_gpu(step):
    images = some_images(64)
    there, here = step(images.cuda(), seeded(1)).cpu(), step(images, seeded(1))
    different = (there.int() - here.int()).abs() > 1
    assert different.double().mean() < 0.001  # a pixel whose centre falls on an edge may go either way


def test_recipes_carry_the_papers_constants():
    cifar10, cifar100 = recipe_for("cifar10"), recipe_for("cifar100")
    assert cifar10.train == (RandomCropFlip(padding=4, flip_probability=0.5),)
    assert cifar100.train == (RandomCropFlip(padding=4), RandomRotation(20.0, resampling="nearest"))
    assert cifar10.mean == (0.49139968, 0.48215827, 0.44653124)
    assert cifar10.std == (0.24703233, 0.24348505, 0.26158768)
    assert cifar100.mean == (0.5071, 0.4865, 0.4409)
    assert cifar100.std == (0.2673, 0.2564, 0.2762)
    assert recipe_for("fashion-mnist").train == ()
    assert (recipe_for("fashion-mnist").mean, recipe_for("fashion-mnist").std) == ((0.1307,), (0.3081,))
    assert recipe_for("webvision-mini").train == (RandomMirror(0.5), ColourJitter(0.4, 0.4, 0.4, 0.2))
    assert recipe_for("webvision-mini").train_fit.shape == (224, 224, 3)
    assert recipe_for("webvision-mini").test_fit.shape == (224, 224, 3)
    assert recipe_for("clothing1m").train_fit.shape == (224, 224, 3)
    assert recipe_for("animal10n").train_fit.shape == (64, 64, 3)
    assert recipe_for("isic2017").train[0] == RandomMirror(0.5, 0.5)


def test_every_recipe_prepares_batches():
    for recipe in recipes():
        channels = len(recipe.mean)
        images = some_images()[:, :channels]
        trained = recipe.for_training(images, seeded(1))
        assert trained.shape == images.shape
        assert torch.isfinite(trained).all()
        assert torch.equal(trained, recipe.for_training(images, seeded(1)))
        expected = normalize(Chain(recipe.train)(images, seeded(1)), recipe.mean, recipe.std)
        assert torch.equal(trained, expected)
        assert torch.equal(recipe.for_testing(images), normalize(images, recipe.mean, recipe.std))
        masks = torch.ones(6, 24, 24, dtype=torch.uint8)
        together, _ = recipe.for_training_with_masks(images, masks, seeded(1))
        assert torch.equal(together, trained)


def test_an_unknown_recipe_offers_the_nearest():
    with pytest.raises(KeyError, match=r"no augmentation recipe for 'cifar-10'; did you mean 'cifar10'\?"):
        recipe_for("cifar-10")
    with pytest.raises(KeyError, match="there are: animal10n, blobs, cifar10"):
        recipe_for("zzz")
