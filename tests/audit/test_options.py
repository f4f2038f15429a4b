# SPDX-License-Identifier: Apache-2.0
"""Options of ``noiseproof audit``: those of another method are refused, and bad ones before the work."""

import numpy as np
import pytest
from typer.testing import CliRunner

from noiseproof import datasets
from noiseproof.audit import pictures
from noiseproof.audit.pictures import METHODS, audit_pictures
from noiseproof.command_line import app


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def never(*arguments, **named):
    pytest.fail("the work was begun")


def audit(*words):
    return CliRunner().invoke(app, ["audit", "digits", *words])


OF_NETWORKS = "is for --method network or dynamics"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--method imagenet --epochs 3", f"--epochs: {OF_NETWORKS}; imagenet does not use it"),
        ("--method patches --model resnet18", f"--model: {OF_NETWORKS}; patches does not use it"),
        ("--method patches --loss ce", f"--loss: {OF_NETWORKS}; patches does not use it"),
        ("--method patches --image-size 32", f"--image-size: {OF_NETWORKS}; patches does not use it"),
        ("--method imagenet --precision bf16", f"--precision: {OF_NETWORKS}; imagenet does not use it"),
        ("--method network --filters 9", "--filters: is for --method patches; network does not use it"),
        (
            "--method dynamics --folds 3",  # the default, but said
            "--folds: is for --method patches, imagenet or network; dynamics does not use it",
        ),
        (
            "--method dynamics --score margin",
            "--score: is for --method patches, imagenet or network; dynamics does not use it",
        ),
        (
            "--method patches --device cuda",
            "--device: is for --method imagenet, network or dynamics; patches does not use it",
        ),
        (
            "--device cpu --epochs 3",
            f"--epochs: {OF_NETWORKS}; patches, which is chosen here without --method, does not use it",
        ),
    ],
)
def test_an_option_of_another_method_is_refused_with_the_methods_it_is_for(words, said, monkeypatch):
    monkeypatch.setattr(pictures, "audit_pictures", never)
    ended = audit(*words.split())
    assert (ended.exit_code, ended.output) == (2, f"Error: {said}\n")


@pytest.mark.parametrize("option", ["--method patches", "--folds 3", "--filters 9", "--epochs 3", "--seed 2"])
def test_with_probabilities_nothing_is_left_to_be_said_of_a_method(option):
    np.save("p.npy", np.full((1438, 10), 0.1))
    ended = audit("--probabilities", "p.npy", *option.split())
    assert ended.exit_code == 2, ended.output
    assert (
        ended.output
        == f"Error: {option.split()[0]}: --probabilities does not use it; leave one of them out\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        "--method patches --folds 4 --score margin --filters 9 --seed 2 --workers 1 --shown 5 --device cpu --quiet",
        "--method imagenet --folds 4 --score margin --seed 2 --workers 1 --device cpu",
        "--method network --folds 4 --score margin --seed 2 --workers 1 --device cpu --epochs 3 --loss ce "
        "--model mlp --precision float32",
        "--method dynamics --seed 2 --workers 1 --device cpu --epochs 3 --loss ce --model mlp --image-size 8",
        "--method auto --device cpu --filters 9",
    ],
)
def test_options_of_the_method_are_taken(words, monkeypatch):
    def began(*arguments, **named):
        raise ValueError("it began")

    monkeypatch.setattr(pictures, "audit_pictures", began)
    assert audit(*words.split()).output == "Error: it began\n"


def test_a_method_that_is_misspelt_is_told_first():
    assert "did you mean 'network'" in audit("--method", "netwrk", "--epochs", "3").output


@pytest.mark.parametrize("method", [method for method in METHODS if method != "dynamics"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds: expected a number from 2 to 1438, the samples, got 1"),
        ({"folds": 1439}, "folds: expected a number from 2 to 1438, the samples, got 1439"),
        ({"score": "margn"}, "did you mean 'margin'"),
    ],
)
def test_a_bad_number_of_folds_or_score_is_told_before_the_work(method, options, message, monkeypatch):
    for work in ("picture_probabilities", "training_for", "network_probabilities"):
        monkeypatch.setattr(pictures, work, never)
    with pytest.raises(ValueError, match=message):
        audit_pictures(datasets.load("digits"), method=method, **options)


def test_patches_are_some(monkeypatch):
    monkeypatch.setattr(pictures, "audit_pictures", never)
    assert audit("--method", "patches", "--filters", "0").exit_code == 2
