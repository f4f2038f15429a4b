# SPDX-License-Identifier: Apache-2.0
"""Which device a name means, and what is written down about the machine."""

import json
import subprocess

import pytest
import torch

from noiseproof.training import environment
from noiseproof.training.environment import choose_device, describe


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_names_of_devices_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="'cuda' was asked for, but torch sees no CUDA device"):
        choose_device("cuda")


def test_names_of_devices_with_two(two_gpus, monkeypatch):
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(ValueError, match="cuda:2 was asked for, but there are 2"):
        choose_device("cuda:2")
    monkeypatch.setenv("LOCAL_RANK", "1")  # each process of torchrun has its own
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 1)


@pytest.mark.parametrize("name", ["gpu", "meta", "cuda:x", "mps", "", "cpu:0"])
def test_other_names_are_refused(name):
    with pytest.raises(ValueError, match="expected auto, cpu, cuda or cuda:N"):
        choose_device(name)


def test_the_record_has_versions_and_no_paths():
    facts = describe(torch.device("cpu"))
    assert facts["versions"]["torch"]
    assert facts["device"] == "cpu"
    name, _, instructions = facts["processor"].rpartition(", ")
    assert name
    assert instructions == torch.backends.cpu.get_cpu_capability()
    assert "/" not in json.dumps({**facts, "commit": ""})


def test_a_checkout_without_git_is_no_obstacle(monkeypatch):
    def missing(*arguments, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert environment._commit() is None


def test_where_there_is_no_checkout_a_commit_can_be_said(monkeypatch):
    """As in a container, or on a machine that has a copy of the source alone."""
    monkeypatch.setenv("NOISEPROOF_COMMIT", " 0123abc ")
    assert environment._commit() == "0123abc"
    monkeypatch.setenv("NOISEPROOF_COMMIT", "")
    assert environment._commit() != ""
