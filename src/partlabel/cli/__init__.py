"""The commands of partlabel: what they are called and how they end; each command's body is in a file of its group.

Nothing heavy is imported here: a command's module is loaded when that command runs, and torch, numpy and pyarrow inside
its body, so that ``partlabel --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from partlabel.errors import PartlabelWarning, UserError

__all__ = ["app", "main"]

HELP = """\
Train a multi-label image classifier when only some labels of each picture are known, and predict the rest.

From your own label table to predictions:
  partlabel import csv labels.csv --images photos -o labels.parquet
  partlabel inspect labels.parquet
  partlabel train labels.parquet --images photos -o run
  partlabel predict run new_photos -o predictions.csv

Each command explains itself: partlabel COMMAND --help."""

#: command -> (where its function or group is, the line that `partlabel --help` shows), in the order in which they are used
COMMANDS = {
    "import": ("importing:group", "Read an annotation file into a label table."),
    "inspect": ("labels:inspect", "Show what a label table knows and what it lacks."),
    "simulate": ("labels:simulate", "Hide or falsify labels by one of the paper's labelling strategies."),
    "train": ("runs:train", "Train a classifier on the known labels."),
    "evaluate": ("runs:evaluate", "Measure a trained classifier on known labels."),
    "predict": ("runs:predict", "Score pictures with a trained classifier."),
    "demo": ("runs:demo", "Train on scenes of handwritten digits and draw what the model found."),
}


def _version() -> str:
    import partlabel

    return partlabel.__version__


app = App(
    name="partlabel",
    help=HELP,
    version=_version,
    # Plain text, because a markdown parser would cost a tenth of a second at every start.
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
for _order, (_name, (_place, _line)) in enumerate(COMMANDS.items()):
    app.command(f"partlabel.cli.{_place}", name=_name, help=_line, sort_key=_order)


def _say(message: object) -> None:
    print(message, file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *_: object) -> None:
    """Print a warning that is meant for the user as a sentence, any other with its kind; never a line of source."""
    _say(f"warning: {message}" if issubclass(category, PartlabelWarning) else f"{category.__name__}: {message}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code.

    Args:
        arguments: the words after ``partlabel``; those of the process when left out.

    Returns:
        0 when it went well, 2 on a mistake in what the user gave (said in plain sentences on standard error, without a
        traceback), 130 when the user stopped it. Anything else that goes wrong is a fault of partlabel and raises.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app(words)
        except CycloptsError as error:
            _say(f"partlabel: {error}\nTry: {' '.join(['partlabel', *(error.command_chain or ()), '--help'])}")
            return 2
        except UserError as error:
            _say(f"partlabel: {error}")
            return 2
        except BrokenPipeError:
            # The reader of a pipe, such as `head`, has seen enough. Python would complain again while closing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except OSError as error:
            if error.filename is None:
                raise
            _say(f"partlabel: {error.filename}: {error.strerror}")
            return 2
        except KeyboardInterrupt:
            _say("partlabel: stopped")
            return 130
    return 0
