"""Results: finished runs as tables with statistics, beside the paper's numbers.

>>> from noiseproof.results import summarise
>>> print(summarise([61.0, 62.0, 63.0]))
62.00 ± 1.00 (3)
"""

from noiseproof.results.published import published, published_source, published_tables
from noiseproof.results.records_file import read_records, write_records, write_results
from noiseproof.results.result import Curves, Pulls, Result, line_of_result, result_of_line, result_of_record
from noiseproof.results.statistics import (
    Comparison,
    Summary,
    bootstrap_interval,
    compare,
    interval_of_mean,
    is_within_published_spread,
    published_tolerance,
    ranks,
    summarise,
)

__all__ = [
    "Comparison",
    "Curves",
    "Pulls",
    "Result",
    "Summary",
    "bootstrap_interval",
    "compare",
    "interval_of_mean",
    "is_within_published_spread",
    "line_of_result",
    "published",
    "published_source",
    "published_tables",
    "published_tolerance",
    "ranks",
    "read_records",
    "result_of_line",
    "result_of_record",
    "summarise",
    "write_records",
    "write_results",
]
