"""The commands of partlabel: what they are called and how they end; each command's body is in a file of its group.

Nothing heavy is imported here: a command's module is loaded when that command runs, and torch, numpy and pyarrow inside
its body, so that ``partlabel --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO, TypeVar

from cyclopts import App, CycloptsError, Parameter

from partlabel.app.cli import (
    completion,
    downloads,
    exporting,
    labels,
    models,
    next_labels,
    relabel,
    reporting,
    reviewing,
    runs,
    suspects,
    thresholds,
)
from partlabel.app.cli.paths import check_paths, check_sources
from partlabel.app.cli.steps import following, next_step
from partlabel.core.compute import is_first_process, processes
from partlabel.core.errors import PartlabelWarning, UserError, heard
from partlabel.core.text import shown, speak_any_sign

__all__ = ["app", "main"]

E = TypeVar("E", bound=Exception)

#: parameters that name a file to be written
_WRITTEN = ("output", "held_out")

HELP = """\
Train a multi-label image classifier when only some labels of each image are known, and predict the rest.

From your own label table to predictions:
  partlabel import csv labels.csv --images photos -o labels.parquet
  partlabel inspect labels.parquet
  partlabel train labels.parquet --images photos -o run
  partlabel predict run new_photos -o predictions.csv

Each command explains itself: partlabel COMMAND --help."""


def _version() -> str:
    import partlabel

    return partlabel.__version__


app = App(
    name="partlabel",
    help=HELP,
    version=_version,
    # Plain text here, because a markdown parser would cost a tenth of a second whenever somebody asks for the commands.
    help_format="plaintext",
    default_parameter=Parameter(negative=()),
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
)
# Kept out until it runs, because it asks the formats for their options; the others are light.
app.command(
    "partlabel.app.cli.importing:group",
    name="import",
    sort_key=0,
    help="""Read an annotation file into a label table.

Each format is a command of its own with its own options: partlabel import csv --help.

Every label ends up as present, absent or unknown. What the values of the file mean is declared, and never guessed where
two readings are possible. The report says what was read, changed, left out and assumed.""",
)
for _order, _command in enumerate(
    (
        labels.inspect,
        labels.simulate,
        runs.train,
        models.evaluate,
        models.predict,
        relabel.relabel,
        thresholds.thresholds,
        reporting.report,
        completion.complete,
        suspects.suspects,
        next_labels.next_,
        reviewing.review,
        labels.group,
        exporting.export,
        downloads.download,
        runs.demo,
    ),
    start=1,
):
    # the order of use, instead of the alphabet's
    if isinstance(_command, App):
        _command.sort_key = _order
        app.command(_command)
    else:
        app.command(_command, sort_key=_order, help_format="markdown")
labels.group.command(next_labels.answers, help_format="markdown")
labels.group.command(completion.hold_out, help_format="markdown")


def _say(message: object) -> None:
    print(shown(str(message)), file=sys.stderr)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning that is meant for the user as a sentence, any other with its kind; never a line of source."""
    _say(f"warning: {message}" if issubclass(category, PartlabelWarning) else f"{category.__name__}: {message}")


@contextmanager
def _only_writer(words: list[str]) -> Generator[None]:
    """Hold the file that a command is told to write, so that two that were started at once do not mix their results."""
    check_sources(words)
    bound = app.parse_args(words, print_error=False, exit_on_error=False)[1]
    bound.apply_defaults()
    typed = " ".join(words[: 2 if words[:1] in (["labels"], ["import"]) else 1])
    name_of_command = f"partlabel {typed}"
    check_paths(typed, bound)
    asked = next_step.set(lambda: following(typed, bound.arguments))
    with ExitStack() as held:
        held.callback(next_step.reset, asked)
        for name in _WRITTEN:
            output = bound.arguments.get(name)
            # What cannot be locked there cannot be written either, which the command says in its own words.
            if isinstance(output, Path) and output.suffix and os.access(output.parent, os.W_OK) and not output.is_dir():
                from partlabel.core.lock import holding

                held.enter_context(holding(output, name_of_command))
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code.

    Args:
        arguments: the words after ``partlabel``; those of the process when left out.

    Returns:
        0 when it went well, 2 on a mistake in what the user gave or where the machine refuses (said in plain sentences
        on standard error), 130 when the user stopped it, 1 for a fault of partlabel. What a library said, and the
        traceback of a fault, are kept in a file that is named.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    speak_any_sign(sys.stdout, sys.stderr)
    heard.clear()
    if processes().world > 1:  # of a process that is lost, torch would print pages
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with _only_writer(words):
                app(words)
        except CycloptsError as error:
            mistake = UserError(f"{error}\nTry: {' '.join(['partlabel', *(error.command_chain or ()), '--help'])}")
            return _refused(_of_all(mistake, words), words)
        except UserError as error:
            return _refused(_of_all(error, words), words)
        except BrokenPipeError:
            # The reader of a pipe, such as `head`, has seen enough. Python would complain again while closing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            if is_first_process():
                _say("partlabel: stopped")
            return 130
        except Exception as error:
            return _failed(_of_all(error, words), words)
    return 0


def _of_all(error: E, words: list[str]) -> E | UserError:
    """What is said of all processes of a training, in the one that says it; the others end here."""
    if processes().world == 1:
        return error
    from partlabel.training.engine import before_start
    from partlabel.training.meeting import SILENCE, have_met, is_first_to_say

    if words[:1] != ["train"]:
        if isinstance(error, UserError) and not is_first_to_say(str(error)):
            time.sleep(SILENCE)  # torchrun ends all when one has ended
            raise SystemExit(2)
        return error
    if have_met():
        return error
    try:
        with before_start():
            raise error
    except UserError as said:  # of another kind, where another process says it
        return said
    except Exception:
        return error


def _refused(error: UserError, words: list[str]) -> int:
    """Say a mistake, where a library's words are, and that memory was short where a sentence takes it for damage."""
    _say(f"partlabel: {error}")
    from partlabel.core.trouble import library_said_more, short_of_memory

    if short_of_memory(error) and "memory" not in error.message:
        _say("  memory was short, which may be all that is wrong: end other programs and try again")
    if library_said_more(error):
        _say_where(error, words, "what the library said")
    return 2


def _failed(error: Exception, words: list[str]) -> int:
    """Say what the machine refused, or that this is a fault of partlabel, and where the whole of it can be read."""
    from partlabel.core.trouble import machine_says

    reason = machine_says(error)
    if reason is not None:
        _say(f"partlabel: {reason}")
        if not isinstance(error, OSError):
            _say_where(error, words, "what the library said")
        return 2
    _say(f"partlabel: a fault of partlabel ended this ({type(error).__name__}); please report it with this file")
    if not _say_where(error, words, "what happened"):  # the only place that is left
        traceback.print_exception(error)
    return 1


def _say_where(error: Exception, words: list[str], what: str) -> bool:
    """Keep an error in a file and name it; False where it cannot be written."""
    from partlabel.core.trouble import keep

    path = keep(error, words)
    if path is not None:
        _say(f"  {what} is in {path}")
    return path is not None
