"""The faults of tests/mutations.py: where, what was, what is put in its place, and the tests that have to fail."""

from __future__ import annotations

from tests.faults import formats, labels, method, metrics
from tests.faults.fault import Fault

__all__ = ["FAULTS", "Fault"]

FAULTS = [*method.FAULTS, *labels.FAULTS, *metrics.FAULTS, *formats.FAULTS]
