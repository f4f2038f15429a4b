# SPDX-License-Identifier: Apache-2.0
"""The two random streams of this room, both the same on every machine and with every version of NumPy.

``published_stream``
    NumPy's legacy ``RandomState`` (Mersenne Twister). NumPy's policy freezes what each of its methods returns
    for a seed, and the published label noise was drawn with it: ``shuffle``, ``randn``, ``random_sample``.

``words`` and ``uniforms``
    Raw 64-bit words of ``PCG64(seed)``. NumPy guarantees a bit generator's integer stream for a seed, but not
    what ``Generator``'s methods make of it, so the step from words to numbers is written here: the 53 high
    bits over 2⁵³, which a double holds exactly.

Neither touches a global state.
"""

import numpy as np
from numpy.typing import NDArray

DISCARDED_BITS = np.uint64(11)
SPACING = 2.0**-53


def published_stream(seed: int) -> np.random.RandomState:
    """The stream that published label noise was drawn with."""
    return np.random.RandomState(seed)


def word_source(seed: int) -> np.random.PCG64:
    """The source of raw 64-bit words for a seed."""
    return np.random.PCG64(seed)


def uniforms(source: np.random.PCG64, count: int) -> NDArray[np.float64]:
    r"""The next ``count`` words as numbers in [0, 1): :math:`\lfloor w / 2^{11} \rfloor \cdot 2^{-53}`.

    Examples:
        >>> uniforms(word_source(1), 2)
        array([0.51182162, 0.9504637 ])
    """
    words = source.random_raw(count)
    words >>= DISCARDED_BITS
    # The shifted words are below 2**53, where the conversion from signed integers is exact and fastest.
    numbers = words.view(np.int64).astype(np.float64)
    numbers *= SPACING
    return numbers
