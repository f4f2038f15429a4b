# SPDX-License-Identifier: Apache-2.0
"""Short names of noise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseproof.noise import NoiseName, parse_name, short_name
from noiseproof.noise.names import GENERATORS_OF_KIND


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clean", NoiseName("clean")),
        ("sym-0.8", NoiseName("sym", 0.8)),
        ("asym-0.4", NoiseName("asym", 0.4)),
        ("dep-0.4", NoiseName("dep", 0.4)),
        ("real", NoiseName("real")),
        ("open-0.2", NoiseName("open", 0.2)),
        ("masks-0.7-0.7", NoiseName("masks", 0.7, 0.7)),
        ("file:labels/my-noisy 2.npz", NoiseName("file", path="labels/my-noisy 2.npz")),
        (" file: noisy.csv ", NoiseName("file", path="noisy.csv")),
        ("sym-.2", NoiseName("sym", 0.2)),
        ("sym-1", NoiseName("sym", 1.0)),
        ("sym-0.4-bernoulli", NoiseName("sym", 0.4, generator="bernoulli")),
        ("sym-0.4-redraw-over-all-classes", NoiseName("sym", 0.4, generator="redraw-over-all-classes")),
        ("asym-0.4-exact-fast", NoiseName("asym", 0.4, generator="exact-fast")),
        ("dep-0.4-shared-projection", NoiseName("dep", 0.4, generator="shared-projection")),
    ],
)
def test_names(name, expected):
    assert parse_name(name) == expected
    assert parse_name(str(expected)) == expected
    assert hash(parse_name(name)) == hash(expected)


@given(st.sampled_from(["sym", "asym", "dep", "open"]), st.integers(0, 1000))
def test_there_and_back(kind, thousandths):
    name = NoiseName(kind, thousandths / 1000)
    assert parse_name(str(name)) == name


@pytest.mark.parametrize(
    ("kind", "generator"), [(kind, each) for kind, known in GENERATORS_OF_KIND.items() for each in known]
)
def test_every_generator_has_a_name_and_the_published_one_the_short_one(kind, generator):
    name = NoiseName(kind, 0.4, generator=generator)
    is_published = generator == GENERATORS_OF_KIND[kind][0]
    assert str(name) == (f"{kind}-0.4" if is_published else f"{kind}-0.4-{generator}")
    assert parse_name(f"{kind}-0.4-{generator}") == parse_name(str(name)) == name


def test_kinds_with_one_generator_refuse_a_name_for_it():
    with pytest.raises(ValueError, match="open noise has one generator only, got 'bernoulli'"):
        NoiseName("open", 0.4, generator="bernoulli")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("asim-0.4", "Did you mean 'asym-0.4'"),
        ("reel", "Did you mean 'real'"),
        ("sym0.4", "Did you mean 'sym-0.4'"),
        ("asim.4-bernoulli", "Did you mean 'asym-.4-bernoulli'"),
        ("mask-0.7-0.7", "Did you mean 'masks-0.7-0.7'"),
        ("xyzzy", "got 'xyzzy'"),
        ("", "got ''"),
        ("sym", "must have the form sym-RATE, numbers in .*, got 'sym'"),
        ("sym-a", "must have the form sym-RATE"),
        ("sym-0.8-0.1", "generator must be one of 'exact', .* got '0.1'"),
        ("sym-0.8-bernouli", "generator must be one of .*did you mean 'bernoulli'"),
        ("dep-0.4-bernoulli", "generator must be one of 'pdn'"),
        ("open-0.4-bernoulli", "must have the form open-RATE"),
        ("sym--0.8", "must have the form sym-RATE"),
        ("sym-nan", "must have the form sym-RATE"),
        ("clean-0.1", "must have the form clean"),
        ("masks-0.7", "must have the form masks-SHARE-STRENGTH"),
        ("file:", "must have the form file:PATH, got 'file:'"),
        ("file-0.4", "must have the form file:PATH"),
        ("labels/noisy.npz", "Did you mean 'file:labels/noisy.npz'"),
        ("sym-1.2", r"rate must lie in \[0, 1\], got 1.2"),
        ("masks-0.7-1.2", r"strength must lie in \[0, 1\], got 1.2"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(ValueError, match=message):
        parse_name(name)


def test_not_a_text():
    with pytest.raises(TypeError, match=r"name must be a text such as 'sym-0\.8', got float"):
        parse_name(0.8)


@pytest.mark.parametrize(
    "arguments",
    [
        ("file",),
        ("file", 0.1, None, "a.npz"),
        ("sym", 0.1, None, "a.npz"),
        ("sym",),
        ("clean", 0.1),
        ("sym", 0.1, 0.2),
        ("masks", 0.1),
    ],
)
def test_bad_numbers(arguments):
    with pytest.raises(ValueError, match="noise must have"):
        NoiseName(*arguments)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("sym-0.8", "sym-0.8"),
        ("file:noisy.npz", "file:noisy"),
        ("file:/data/some where/noisy.v2.csv", "file:noisy.v2"),
        ("file:../noisy.npy.npz", "file:noisy"),
        ("file:C:\\data\\noisy.txt", "file:noisy"),
        ("file:a,b\tc.npz", "file:a-b-c"),
        (f"file:{'a' * 50}1.npz", f"file:{'a' * 20}…{'a' * 18}1"),
    ],
)
def test_short_names(name, short):
    assert short_name(name) == short
    assert short_name(short) == short
