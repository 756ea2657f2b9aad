"""Tables read, or refused."""

from __future__ import annotations

import pytest

from partlabel import formats
from partlabel.core.errors import UserError


def refuse(*paths, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("csv", paths, **options)
    return caught.value


def read(*paths, **options):
    return formats.read("csv", paths, **options)
