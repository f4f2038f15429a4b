# SPDX-License-Identifier: Apache-2.0
"""How long something took, as people read it."""


def duration(seconds: float | None) -> str:
    """Seconds as people read them.

    >>> duration(41.25), duration(725), duration(11_100), duration(None)
    ('41 s', '12 min 05 s', '3 h 05 min', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
