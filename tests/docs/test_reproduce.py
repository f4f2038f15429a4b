# SPDX-License-Identifier: Apache-2.0
"""What docs/reproduce.md expects of grids that are not run: time, from similar runs, and machine."""

from dataclasses import replace

import pytest

from noiseproof.grids import load
from noiseproof.results import Result


@pytest.fixture(scope="module")
def overview(pages):
    return pages("evidence.overview")


def run(precision, seconds, epochs=120, **config):
    environment = {"hardware": "NVIDIA H200", "device": "cuda"}
    return Result(
        "cifar10",
        "ce",
        "clean",
        1,
        90.0,
        "0",
        "CE",
        seconds=seconds,
        config={"precision": precision, "epochs": epochs, **config},
        environment=environment,
    )


def expected(overview, name, **records):
    return overview.expected(
        load(name), None, {stem.replace("_", "-"): runs for stem, runs in records.items()}
    )


def test_each_precision_has_its_own_pace(overview):
    """18 runs of 120 epochs in each."""
    runs = [run("bf16", 12.0), run("float32", 60.0, epochs=60)]
    machine, time = expected(overview, "cifar10-precision", cifar10_table=runs)
    assert machine == "NVIDIA H200"
    assert time == "about 39 min 36 s, at the pace of `cifar10-table.jsonl`"


def test_runs_of_a_kind_that_was_never_timed_are_counted_apart(overview):
    _, time = expected(overview, "cifar10-precision", cifar10_table=[run("bf16", 12.0)])
    assert time.startswith("about 3 min 36 s, ")
    assert time.endswith("; 18 more runs are of a kind not timed yet")


def test_a_jacobian_is_another_kind(overview):
    plain = expected(overview, "regularisers-anl", cifar10_table=[run("bf16", 12.0)])[1]
    both = [run("bf16", 12.0), run("bf16", 24.0, jacobian=1e-5)]
    assert "of a kind not timed yet" in plain
    assert "of a kind not timed yet" not in expected(overview, "regularisers-anl", cifar10_table=both)[1]


def test_runs_on_another_machine_say_nothing_of_the_usual_one(overview):
    slow = replace(run("bf16", 12000.0), environment={"hardware": "x86_64", "device": "cpu"})
    machine, time = expected(overview, "overfitting-curves", cifar10_table=[run("bf16", 12.0)] * 2 + [slow])
    assert (machine, time.split(",")[0]) == ("NVIDIA H200", "about 1 min 00 s")


def test_the_grids_own_runs_count_before_others(overview):
    others = [run("bf16", 120.0)] * 9
    _, time = expected(
        overview, "overfitting-curves", overfitting_curves=[run("bf16", 12.0)], cifar10_table=others
    )
    assert time == "about 1 min 00 s, at the pace of its runs so far"


def test_runs_without_a_config_are_of_another_engine(overview):
    old = replace(run("bf16", 700.0), config={})
    assert expected(overview, "overfitting-curves", cifar10_table=[old]) == ("–", "not measured yet")


def test_a_processor_is_named_where_it_is_on_record(overview):
    cpu = {"hardware": "x86_64", "device": "cpu"}
    assert overview.hardware_of(replace(run("bf16", 1.0), environment=cpu)) == "x86_64"
    named = cpu | {"processor": "AMD EPYC, AVX2"}
    assert overview.hardware_of(replace(run("bf16", 1.0), environment=named)) == "AMD EPYC, AVX2"
    gpu = {"hardware": "NVIDIA H200", "device": "cuda", "processor": "AMD EPYC"}
    assert overview.hardware_of(replace(run("bf16", 1.0), environment=gpu)) == "NVIDIA H200"


def test_a_rate_that_is_not_its_names_is_told(pages):
    def noisy(noise, rate):
        return replace(run("bf16", 1.0), noise=noise, realised_rate=rate)

    as_named = [
        noisy("clean", 0.0),
        noisy("sym-0.8", 0.7992),
        noisy("asym-0.4", 0.2),
        noisy("dep-0.2", 0.2035),
    ]
    page = pages("evidence.page")
    assert page._realised(as_named) is None
    told = page._realised([*as_named, noisy("sym-0.6", 0.563282)])
    assert told.startswith("Labels that are actually wrong: sym-0.6 56.3%. ")
