"""Functions of a user's that a training calls, and loggers that are told its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from partlabel.core.errors import UserError
from partlabel.core.optional import load

if TYPE_CHECKING:
    from partlabel.training.run import Run


class Callback:
    """What a training calls as it goes; each method may be left out. Only the first of several processes calls.

    >>> class Watch(Callback):
    ...     def on_epoch_end(self, row):
    ...         print(row["epoch"], sorted(row)[:2])
    ...         return row["loss"] < 1e-9
    >>> import partlabel as pl
    >>> config = pl.Config.read("run/config.toml")
    >>> _ = pl.train(pl.Run("run").labels, images="photos", out="watched", config=config, callbacks=[Watch()])
    1 ['epoch', 'images_per_second']
    2 ['epoch', 'images_per_second']
    """

    def on_start(self, settings: dict[str, Any], epoch: int) -> None:
        """Hear that a training begins.

        Args:
            settings: all settings, nested as in ``config.toml``.
            epoch: epochs done, above 0 where a run is resumed.
        """

    def on_round_end(self, row: dict[str, Any]) -> None:
        """Hear of a round of relabelling: its row of ``metrics.jsonl``."""

    def on_epoch_end(self, row: dict[str, Any]) -> bool | None:
        """Hear of an epoch, which is saved already: its row of ``metrics.jsonl``.

        Returns:
            True ends the training as if it had been the last one.
        """

    def on_end(self, run: Run) -> None:
        """Hear that a training is finished: the run, with thresholds, calibration and cards."""


class Logger(Protocol):
    """What writes numbers down: the loggers of Lightning and Lightning Fabric, and all that have these two methods."""

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Write numbers by name down; the step is the number of the epoch, from 1."""
        ...

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """Write the settings down."""
        ...


class Logging(Callback):
    """Tells a logger the numbers of each epoch and round.

    ``loss``, ``learning_rate``, ``images_per_second``, ``validation/mean_ap`` and the like; of a round
    ``round/added_present`` and the like, at the epoch before which it took place.
    """

    def __init__(self, logger: Logger) -> None:
        self.logger = logger

    def on_start(self, settings: dict[str, Any], epoch: int) -> None:
        """Tell the settings, with dotted names."""
        if hasattr(self.logger, "log_hyperparams"):
            with suppress(NotImplementedError):  # Fabric's CSV logger has none
                self.logger.log_hyperparams(dict(flat(settings, ".")))

    def on_round_end(self, row: dict[str, Any]) -> None:
        """Tell the numbers of a round."""
        self._tell({f"round/{name}": value for name, value in flat(row, "/")}, row["before_epoch"])

    def on_epoch_end(self, row: dict[str, Any]) -> None:
        """Tell the numbers of an epoch."""
        self._tell({name: value for name, value in flat(row, "/") if not name.startswith("head/")}, row["epoch"])
        if hasattr(self.logger, "save"):
            self.logger.save()

    def on_end(self, run: Run) -> None:
        """Close the logger."""
        if hasattr(self.logger, "finalize"):
            self.logger.finalize("success")

    def _tell(self, values: dict[str, Any], step: int) -> None:
        numbers = {k: float(v) for k, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        self.logger.log_metrics(numbers, step=step)


class WandB:
    """A logger for Weights & Biases, which has to be installed.

    Args:
        options: what ``wandb.init`` takes, such as ``project`` and ``mode="offline"``.

    Raises:
        UserError: wandb is not installed.
    """

    def __init__(self, **options: Any) -> None:
        self.run = load("this logger needs", "wandb").init(**options)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """See :class:`Logger`."""
        self.run.log(metrics, step=step)

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """See :class:`Logger`."""
        self.run.config.update(params, allow_val_change=True)

    def finalize(self, status: str) -> None:
        """Close it."""
        self.run.finish(exit_code=0 if status == "success" else 1)


class MLflow:
    """A logger for MLflow, which has to be installed.

    Args:
        experiment: name of the experiment.
        tracking_uri: where the server is, or a ``sqlite:///`` file; None takes MLflow's own setting.
        run_name: name of the run; None lets MLflow choose.

    Raises:
        UserError: mlflow is not installed.
    """

    def __init__(self, experiment: str = "partlabel", tracking_uri: str | None = None, run_name: str | None = None):
        flow = load("this logger needs", "mlflow")
        self.client = flow.MlflowClient(tracking_uri)
        found = self.client.get_experiment_by_name(experiment)
        number = self.client.create_experiment(experiment) if found is None else found.experiment_id
        self.run_id = self.client.create_run(number, run_name=run_name).info.run_id

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """See :class:`Logger`."""
        for name, value in metrics.items():
            self.client.log_metric(self.run_id, name, value, step=step)

    def log_hyperparams(self, params: dict[str, Any]) -> None:
        """See :class:`Logger`."""
        for name, value in params.items():
            self.client.log_param(self.run_id, name, value)

    def finalize(self, status: str) -> None:
        """Close it."""
        self.client.set_terminated(self.run_id, "FINISHED" if status == "success" else "FAILED")


#: the methods of a callback
_METHODS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class Callbacks:
    """All callbacks of a training as one.

    Args:
        given: objects with some of the methods of :class:`Callback`, and loggers.

    Raises:
        UserError: an object that is neither.
    """

    def __init__(self, given: Sequence[Any]) -> None:
        self.all = [Logging(each) if hasattr(each, "log_metrics") else each for each in given]
        wrong = [repr(each) for each in self.all if not any(hasattr(each, name) for name in _METHODS)]
        if wrong:
            raise UserError(f"a callback has one of the methods {', '.join(_METHODS)}, a logger log_metrics", wrong)

    def call(self, method: str, *arguments: Any) -> bool:
        """Call a method of all that have it; whether one of them answers True."""
        answers = [getattr(each, method)(*arguments) for each in self.all if hasattr(each, method)]
        return any(answer is True for answer in answers)


def flat(values: dict[str, Any], between: str) -> list[tuple[str, Any]]:
    """Nested plain values as pairs of a joined name and a value."""
    found: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += [(f"{name}{between}{inner}", each) for inner, each in flat(value, between)]
        else:
            found.append((name, value))
    return found
