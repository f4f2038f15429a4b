# SPDX-License-Identifier: Apache-2.0
"""Data that plans are made for, and the plan."""

from noiseproof.planning import Facts, decide


def facts(**changes):
    return Facts(
        **({"name": "folder:x", "samples": 3_000, "classes": 10, "form": "files", "side": 200} | changes)
    )


def chosen(given, **said):
    return {choice.field: choice for choice in decide(given, said)}
