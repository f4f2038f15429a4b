# SPDX-License-Identifier: Apache-2.0
"""Results: finished runs as tables with statistics, beside the paper's numbers.

>>> from noiseproof.results import summarise
>>> print(summarise([61.0, 62.0, 63.0]))
62.00 ± 1.00 (3)
"""

from noiseproof.results.agreement import Agreement, agreement_of, chance_of_being_outside
from noiseproof.results.differences import Difference, differences
from noiseproof.results.formats import TEXT_FORMATS
from noiseproof.results.gather import Failure, Gathered, gather
from noiseproof.results.lost_classes import lost_classes
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
from noiseproof.results.table import ResultTable, TableCell, build_table, table_of

__all__ = [
    "TEXT_FORMATS",
    "Agreement",
    "Comparison",
    "Curves",
    "Difference",
    "Failure",
    "Gathered",
    "Pulls",
    "Result",
    "ResultTable",
    "Summary",
    "TableCell",
    "agreement_of",
    "bootstrap_interval",
    "build_table",
    "chance_of_being_outside",
    "compare",
    "differences",
    "gather",
    "interval_of_mean",
    "is_within_published_spread",
    "line_of_result",
    "lost_classes",
    "published",
    "published_source",
    "published_tables",
    "published_tolerance",
    "ranks",
    "read_records",
    "result_of_line",
    "result_of_record",
    "summarise",
    "table_of",
    "write_records",
    "write_results",
]
