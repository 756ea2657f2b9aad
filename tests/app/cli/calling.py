"""A command called in this process."""

from __future__ import annotations

from partlabel.app.cli import main


def run(capsys, *words) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def refused(capsys, *words) -> str:
    """Run a command that a user got wrong and give what it says; nothing is on standard output, and no traceback."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err.startswith("partlabel: ")
    return err
