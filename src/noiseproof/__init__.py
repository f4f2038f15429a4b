# SPDX-License-Identifier: Apache-2.0
"""Train accurate models on wrong labels.

The rooms stand in the order in which data flows; import the one you need:

* :mod:`noiseproof.datasets` — the field's data sets and your own, checked and cached.
* :mod:`noiseproof.noise` — label noise, drawn as the literature draws it.
* :mod:`noiseproof.models` — networks by name, with seeded weights.
* :mod:`noiseproof.losses` — noise-robust losses, used like torch's own.
* :mod:`noiseproof.training` — from a recipe to a recorded run.
* :mod:`noiseproof.report` — recorded runs as a page.
"""

__version__ = "0.1.0"
