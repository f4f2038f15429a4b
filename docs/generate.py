# SPDX-License-Identifier: Apache-2.0
"""Write the generated pages: losses from the catalogue, commands from their help, the rest from recorded results.

python docs/generate.py            write
python docs/generate.py --check    only report whether the pages are up to date
"""

import argparse
import sys

from writers.command_line import command_line_page
from writers.evidence.page import reproduce_page
from writers.losses import losses_page
from writers.performance import performance_page
from writers.photographs import photographs_page
from writers.places import DOCS
from writers.plan import plan_page
from writers.readme import readme_page

PAGES = {
    "losses.md": losses_page,
    "command-line.md": command_line_page,
    "reproduce.md": reproduce_page,
    "performance.md": performance_page,
    "plan.md": plan_page,
    "howto/photographs.md": photographs_page,
    "../README.md": readme_page,
}


def main() -> None:
    """Write every page that changed, or report which would."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and fail if a page is out of date"
    )
    arguments = parser.parse_args()
    stale = []
    for name, page in PAGES.items():
        path, text = DOCS / name, page()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not arguments.check:
                path.write_text(text)
    if arguments.check and stale:
        sys.exit(f"out of date: {', '.join(stale)}; run: make docs")


if __name__ == "__main__":
    main()
