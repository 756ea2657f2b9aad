"""Commands that train a model or use one: train, evaluate, predict, demo."""

from __future__ import annotations
