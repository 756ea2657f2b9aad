"""Python starts with this file where its folder is in PYTHONPATH: the disk then behaves as that of Windows."""

import importlib.util
import os
from pathlib import Path

if os.name != "nt":
    _spec = importlib.util.spec_from_file_location("tests_windows", Path(__file__).parents[1] / "windows.py")
    _windows = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_windows)
    _windows.install()
