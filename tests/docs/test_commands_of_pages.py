# SPDX-License-Identifier: Apache-2.0
"""Every command that README.md and docs/ show exists: sub-commands, options, names of losses, data and grids."""

import re

import pytest
from tests.docs.commands import calls_in, lines_of, make_targets, trouble_with
from tests.docs.pages import PAGES, ROOT, blocks_of, name_of, spans_of

SHELL = {"console", "bash", ""}


def typed_in(page):
    """Every line of a page that a reader may type, with its number."""
    for block in blocks_of(page):
        if block.language in SHELL:
            yield from lines_of(block)
    yield from spans_of(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page):
    troubles = [
        f"{name_of(page)}:{number}: {trouble} in: {line.strip()}"
        for number, line in typed_in(page)
        for call in calls_in(line, "noiseproof")
        if (trouble := trouble_with(call))
    ]
    assert not troubles, "\n".join(troubles)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_and_files_exist(page):
    targets = make_targets(ROOT / "Makefile")
    for number, line in typed_in(page):
        for call in calls_in(line, "make"):
            assert set(call) <= targets, f"{name_of(page)}:{number}: not in the Makefile: {call}"
        for call in calls_in(line, "python"):
            for file in (word for word in call[:1] if re.match("(docs|examples|benchmarks)/", word)):
                assert (ROOT / file).exists(), f"{name_of(page)}:{number}: there is no {file}"


def test_commands_are_found_in_pages():
    """Were none found, the tests above would say nothing."""
    found = [
        call for page in PAGES for _, line in typed_in(page) for call in calls_in(line, "noiseproof") if call
    ]
    assert len(found) > 100
    assert {call[0] for call in found} >= {
        "train",
        "bench",
        "table",
        "report",
        "data",
        "losses",
        "runs",
        "noise",
    }


@pytest.mark.parametrize(
    ("line", "trouble"),
    [
        ("noiseproof train digits --noise sym-0.4 --loss anl-ce", None),
        ("noiseproof runs cifar10-sym-0.8-anl --json", None),
        ("noiseproof runs compare RUN OTHER", None),
        ("srun torchrun --nproc-per-node 4 -m noiseproof train clothing1m --lr 0.1", None),
        ("nohup noiseproof bench cifar10-table --records results/x.jsonl > bench.log &", None),
        ("noiseproof fly", "no command fly of noiseproof"),
        ("noiseproof data fetch cifar10", "no command fetch of data"),
        ("noiseproof train digits --learning-rate 1", "no option --learning-rate of train"),
        ("noiseproof train digit", "no data set digit"),
        ("noiseproof train digits --seed", "--seed without a value"),
        ("noiseproof bench cifar-table", "no grid cifar-table"),
        ("noiseproof train digits cifar10", "train takes 1 arguments, got ['digits', 'cifar10']"),
    ],
)
def test_trouble_is_seen(line, trouble):
    (call,) = calls_in(line, "noiseproof")
    assert trouble_with(call) == trouble


def test_an_unknown_loss_is_seen():
    assert "--loss" in trouble_with(["train", "digits", "--loss", "anl-cee"])
    assert "--noise" in trouble_with(["bench", "digits-table", "--noise", "clean,symm-0.4"])
