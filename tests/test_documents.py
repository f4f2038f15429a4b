# SPDX-License-Identifier: Apache-2.0
"""The documents keep their word: generated pages are current, links lead somewhere, examples run.

That their code runs and their commands exist is seen to in tests/docs.
"""

import re
from pathlib import Path

import pytest
from tests import warm

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/howto/*.md")]
)


def test_generated_pages_are_current():
    done = warm.run(["docs/generate.py", "--check"], cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_version_is_one():
    from noiseproof import __version__

    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_multilabel_example_runs():
    done = warm.run(["examples/multilabel.py", "--epochs", "2"], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\| 30% \|", done.stdout, re.M)) == 5


def test_the_demo_runs_and_anl_is_ahead():
    """What `make demo` runs, with another seed than the one it shows."""
    done = warm.run(["examples/digits.py", "--seed", "3"], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    result = dict(re.findall(r"^(ce|anl-ce) +([\d.]+) %", done.stdout, re.M))
    assert float(result["anl-ce"]) > float(result["ce"]) + 15
