"""Packages that only some things need."""

from __future__ import annotations

import importlib.util
import math

import pytest

from partlabel.app.demo import digits
from partlabel.core.errors import UserError
from partlabel.core.optional import load, require


def test_what_is_there_is_not_spoken_of():
    require("this needs", "math", "json")
    assert load("this needs", "math") is math


def test_the_command_names_each_missing_package_as_the_index_does():
    with pytest.raises(UserError, match=r"^this needs no_such_a, no_such_b: pip install no_such_a no_such_b$"):
        require("this needs", "no_such_a", "math", "no_such_b")


def test_the_demo_without_its_package(monkeypatch):
    digits._load.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^the demo needs scikit-learn: pip install scikit-learn$"):
        digits.split_digits(0)
