"""The last step of a training: what it came to, thresholds and calibration, the model card."""

from __future__ import annotations

from partlabel.core.files import write_json
from partlabel.training.card import write_card
from partlabel.training.data import Data
from partlabel.training.evidence import score_all, write_headline, write_out_of_fold
from partlabel.training.run import OUT_OF_FOLD, Run
from partlabel.training.state import Batches, Job, State
from partlabel.training.summary import summary
from partlabel.training.thresholds import fit_run, silence


def finish(job: Job, state: State, data: Data, batches: Batches) -> Run:
    """Write the summary and the headline, choose thresholds and calibration, and write the model cards.

    Thresholds stay where a person has chosen some since, as in a finished run that is resumed.
    """
    if job.engine.first:
        about = data.about(job.config) | {"processes": job.engine.world}
        write_json(job.out / "summary.json", summary(state.history, **about))
        run = Run(job.out)
        _judge(job, data, batches, run)
        if run.is_validated and not run.thresholds:
            fit_run(run)
        silence(run)
        write_card(run)
    job.engine.wait()
    return Run(job.out)


def _judge(job: Job, data: Data, batches: Batches, run: Run) -> None:
    """Score all labels by heads that have not seen them, and write what all labels would say."""
    if not (run.folder / OUT_OF_FOLD).is_file():
        found = score_all(job.config, data, batches.train, batches.validation)
        if found is not None:
            write_out_of_fold(run.folder, found)
    write_headline(run)
