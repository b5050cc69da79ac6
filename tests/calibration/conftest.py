"""What all tests of calibration share."""

from __future__ import annotations

import pytest

from alignatt_agent.config.quiet import QUIET


@pytest.fixture(autouse=True, scope="package")
def _environment():
    """Keep the defaults that ``alignatt`` sets for engine processes out of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        yield
