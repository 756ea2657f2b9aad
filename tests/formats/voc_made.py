"""Files of Pascal VOC."""

from __future__ import annotations

import pytest

from partlabel import formats
from partlabel.core.errors import UserError


def refuse(path, **options) -> UserError:
    with pytest.raises(UserError) as caught:
        formats.read("voc", path, **options)
    return caught.value


def thing(name, difficult=None, more=""):
    mark = "" if difficult is None else f"<difficult>{difficult}</difficult>"
    return f"<object><name>{name}</name>{mark}{more}</object>"
