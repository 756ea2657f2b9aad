"""The last step of a training: what it came to, thresholds and calibration, the model card."""

from __future__ import annotations

from partlabel.core.records import write_record
from partlabel.training.card import write_card
from partlabel.training.data import Data
from partlabel.training.evidence import score_all, write_headline, write_out_of_fold
from partlabel.training.run import OUT_OF_FOLD, Run
from partlabel.training.state import Batches, Job, State
from partlabel.training.summary import summary
from partlabel.training.thresholds import fit_run, has_labels_to_choose_on, silence


def finish(job: Job, state: State, data: Data, batches: Batches) -> Run:
    """Write the summary and the headline, choose thresholds and calibration, and write the model cards.

    Thresholds stay where a person has chosen some since, as in a finished run that is resumed.
    """

    def conclude() -> None:
        about = data.about(job.config) | {"processes": job.engine.world}
        write_record(job.out / "summary.json", summary(state.history, **about))
        run = Run(job.out, model=job.network)
        _judge(job, state, data, batches, run)
        if not run.thresholds and has_labels_to_choose_on(run):
            fit_run(run)
        silence(run)
        write_card(run)

    job.engine.from_first(conclude)
    return Run(
        job.out, check=job.engine.first, model=job.network
    )  # the folder may lie on the node of the first process alone


def _judge(job: Job, state: State, data: Data, batches: Batches, run: Run) -> None:
    """Score all labels by heads that have not seen them, and write what all labels would say."""
    if not (run.folder / OUT_OF_FOLD).is_file():
        found = score_all(job, state, data, batches)
        if found is not None:
            write_out_of_fold(run.folder, found)
    write_headline(run)
