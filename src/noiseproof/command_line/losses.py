"""``noiseproof losses``."""


def losses() -> None:
    """List the catalogue of losses."""
