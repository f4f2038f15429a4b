# SPDX-License-Identifier: Apache-2.0
"""``python -m noiseproof`` is the ``noiseproof`` command."""

from noiseproof.command_line import main

if __name__ == "__main__":
    main()
