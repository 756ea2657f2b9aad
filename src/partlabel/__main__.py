"""``python -m partlabel``, and ``torchrun -m partlabel train`` for a training in several processes."""

from __future__ import annotations

import sys

from partlabel.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
