# SPDX-License-Identifier: Apache-2.0
"""The code behind the generated pages; docs/generate.py writes them."""
