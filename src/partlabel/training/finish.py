"""The last step of a training: what it came to, thresholds and calibration, the model card."""

from __future__ import annotations

from partlabel.core.files import write_json
from partlabel.training.card import write_card
from partlabel.training.data import Data
from partlabel.training.run import Run
from partlabel.training.state import Job, State
from partlabel.training.summary import summary
from partlabel.training.thresholds import fit_run


def finish(job: Job, state: State, data: Data) -> Run:
    """Write the summary, choose thresholds and calibration on the held-out labels, and write the model cards.

    Thresholds stay where a person has chosen some since, as in a finished run that is resumed.
    """
    if job.engine.first:
        about = data.about(job.config) | {"processes": job.engine.world}
        write_json(job.out / "summary.json", summary(state.history, **about))
        run = Run(job.out)
        if run.is_validated and not run.thresholds:
            fit_run(run)
        write_card(run)
    job.engine.wait()
    return Run(job.out)
