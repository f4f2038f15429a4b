"""Reports: recorded runs as one page that a person would rather look at than read a log."""

from noiseproof.report.page import write_page

__all__ = ["write_page"]
