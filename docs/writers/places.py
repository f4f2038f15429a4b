# SPDX-License-Identifier: Apache-2.0
"""Where pages and records are."""

from pathlib import Path

DOCS = Path(__file__).parent.parent
ROOT = DOCS.parent
RESULTS = ROOT / "results"
