import csv

import pytest

from partlabel import Callback, train
from partlabel.core.errors import UserError
from partlabel.training.callbacks import Callbacks, Logging, MLflow, WandB, flat
from tests.pictures import make_pictures, tiny_config

RELABEL = {"relabel__before": [2], "relabel__strategy": "score-threshold", "relabel__theta": 0.0}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def table(tmp_path):
    table = make_pictures(tmp_path / "pictures", 12)
    labels = table.dense()
    labels[8:, 1:] = 0
    return table.from_dense(table.images, table.classes, labels)


class Listening(Callback):
    def __init__(self, last=99):
        self.heard, self.last = [], last

    def on_start(self, settings, epoch):
        self.heard.append(("start", settings["optim"]["epochs"], epoch))

    def on_round_end(self, row):
        self.heard.append(("round", row["before_epoch"]))

    def on_epoch_end(self, row):
        self.heard.append(("epoch", row["epoch"]))
        return row["epoch"] == self.last

    def on_end(self, run):
        self.heard.append(("end", run.summary["best_epoch"], run.is_finished))


class OneMethod:
    def __init__(self):
        self.count = 0

    def on_epoch_end(self, row):
        self.count += 1


def test_callbacks_hear_of_everything_in_order(tmp_path, table):
    listening, one = Listening(), OneMethod()
    config = tiny_config(**RELABEL, optim__epochs=3)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, callbacks=[listening, one])
    expected = [("start", 3, 0), ("epoch", 1), ("round", 2), ("epoch", 2), ("epoch", 3), ("end", 3, True)]
    assert listening.heard == expected
    assert one.count == 3


def test_a_callback_ends_a_training_whose_run_is_whole(tmp_path, table):
    listening = Listening(last=2)
    config = tiny_config(optim__epochs=9)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, callbacks=[listening, OneMethod()])
    assert [row["epoch"] for row in run.epochs] == [1, 2]
    assert run.is_finished
    assert listening.heard[-1] == ("end", 2, True)


def test_fabrics_csv_logger(tmp_path, table):
    from lightning_fabric.loggers import CSVLogger

    config = tiny_config(validation=0.34, **RELABEL)
    logger = CSVLogger(tmp_path, name="log", version="")
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=config, callbacks=[logger])
    with open(tmp_path / "log" / "metrics.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    assert losses == pytest.approx([row["loss"] for row in run.epochs])
    assert [row["step"] for row in rows if row["round/added_present"]] == ["2"]
    measured = [row["validation/zero_one"] for row in rows if row.get("validation/zero_one")]
    assert [float(value) for value in measured] == pytest.approx([r["validation"]["zero_one"] for r in run.epochs])


def test_fabrics_tensorboard_logger(tmp_path, table):
    pytest.importorskip("tensorboardX")
    from lightning_fabric.loggers import TensorBoardLogger

    logger = TensorBoardLogger(tmp_path, name="board", version="")
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), callbacks=[logger])
    (events,) = (tmp_path / "board").rglob("events.out*")
    content = events.read_bytes()
    assert b"loss" in content
    assert b"images_per_second" in content


class Recording:
    def __init__(self):
        self.metrics, self.settings = [], {}

    def log_metrics(self, metrics, step=None):
        self.metrics.append((step, metrics))

    def log_hyperparams(self, params):
        self.settings |= params


def test_any_logger_is_told_numbers_only(tmp_path, table):
    logger = Recording()
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(optim__epochs=1), callbacks=[logger])
    assert logger.settings["optim.epochs"] == 1
    ((step, metrics),) = logger.metrics
    assert step == 1
    assert {"loss", "learning_rate", "images_per_second"} <= set(metrics)
    assert all(type(value) is float for value in metrics.values())


def test_what_is_neither_is_named():
    with pytest.raises(UserError) as caught:
        Callbacks([Listening(), Recording(), 7, "x"])
    assert caught.value.offenders == ["7", "'x'"]
    assert isinstance(Callbacks([Recording()]).all[0], Logging)


def test_nested_values_by_name():
    assert flat({"a": 1, "b": {"c": 2, "d": {"e": 3}}}, "/") == [("a", 1), ("b/c", 2), ("b/d/e", 3)]


@pytest.mark.parametrize(("logger", "name"), [(WandB, "wandb"), (MLflow, "mlflow")])
def test_a_logger_that_is_not_installed_is_one_sentence(monkeypatch, logger, name):
    import partlabel.core.optional

    monkeypatch.setattr(partlabel.core.optional.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=f"pip install {name}"):
        logger()


def test_weights_and_biases_offline(tmp_path, table, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    logger = WandB(project="test", mode="offline", dir=str(tmp_path))
    seen = []
    monkeypatch.setattr(logger.run, "log", lambda metrics, step: seen.append((step, metrics["loss"])))
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), callbacks=[logger])
    assert seen == [(row["epoch"], row["loss"]) for row in run.epochs]
    assert wandb.run is None, "it is closed"


def test_mlflow_in_a_file(tmp_path, table):
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("alembic")  # the small distribution has no store of its own
    place = f"sqlite:///{tmp_path / 'mlflow.db'}"
    logger = MLflow("try", tracking_uri=place)
    run = train(table, tmp_path / "pictures", out=tmp_path / "run", config=tiny_config(), callbacks=[logger])
    stored = mlflow.MlflowClient(place)
    history = stored.get_metric_history(logger.run_id, "loss")
    assert [(m.step, m.value) for m in history] == [(row["epoch"], row["loss"]) for row in run.epochs]
    done = stored.get_run(logger.run_id)
    assert done.info.status == "FINISHED"
    assert done.data.params["optim.batch_size"] == "4"
