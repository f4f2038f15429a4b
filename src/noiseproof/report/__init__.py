# SPDX-License-Identifier: Apache-2.0
"""Reports: recorded runs as one page that a person would rather look at than read a log."""

from noiseproof.report.page import write_report

__all__ = ["write_report"]
