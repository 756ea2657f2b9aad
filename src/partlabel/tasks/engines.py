"""Prediction of shards, by processes that know nothing of each other or on a cluster of Ray."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Literal

from partlabel.core.compute import has_gpu
from partlabel.core.errors import UserError
from partlabel.core.optional import require
from partlabel.core.progress import Reporter
from partlabel.images.shards import SIZE, Place
from partlabel.tasks.predict import open_classifier, scorer
from partlabel.tasks.prediction_files import Keep
from partlabel.tasks.shard_work import Done, Work

#: how often a shard is begun again when its process or machine is lost
_RETRIES = 5
#: the model that a worker of Ray has open
_opened: dict[str, Any] = {}


def predict_shards(
    run: Any,
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    names: Sequence[str] | None = None,
    keep: Keep | None = None,
    on_bad: Literal["error", "skip"] = "error",
    size: int = SIZE,
    engine: Literal["processes", "ray"] = "processes",
) -> Done:
    """Score images shard by shard, together with all other processes that were given the same output.

    Each shard becomes one Parquet file, whole or not there, and is not done again. Processes may come, go, be killed or
    stopped at any time; those that are left do the rest. The first one writes the manifest, and the others go by it.

    Args:
        run: a run or its folder, an ``.onnx`` file, or an open model.
        source: a folder of images or of tar files, a tar file, or the address of a bucket with either.
        output: a folder, or the address of one in a bucket.
        names: the images in ``source``; None looks for them.
        keep: what is written of each image; None is all scores up to 256 classes.
        on_bad: images that cannot be read: ``error``, or ``skip`` to leave them out.
        size: images of a shard.
        engine: ``processes``, or ``ray`` for a cluster of Ray.

    Raises:
        UserError: no image, images that cannot be read, a place that cannot be written to, or an output that another
            model or other images were written to.
    """
    model, place = open_classifier(run), Place.of(output)
    work = Work.open(model, Place.of(source), place, names, keep or Keep.of(model), on_bad, size)
    return _on_ray(run, work, Done()) if engine == "ray" else work.run(model)


def _on_ray(run: Any, work: Work, done: Done) -> Done:
    """Do all shards that are left on the cluster that ``RAY_ADDRESS`` names, or on this machine; one task each.

    Args:
        run: a folder or file that every node sees, or an open model, which is sent to them.
        work: what there is to do.
        done: what was done is added to it.

    Raises:
        UserError: Ray is not installed, or what :meth:`Work.one` raises.
    """
    require("shards on Ray need", "ray")
    import ray  # pyrefly: ignore[missing-import]

    started = not ray.is_initialized()
    if started:
        ray.init(
            os.environ.get("RAY_ADDRESS", "local"),
            log_to_driver=False,
            logging_level=logging.WARNING,
            include_dashboard=False,
        )
    try:
        gpus = 1 if has_gpu() else 0
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=_RETRIES)(_one)
        model, all_of_it = ray.put(os.path.abspath(run) if isinstance(run, str | os.PathLike) else run), ray.put(work)
        waiting = [task.remote(model, all_of_it, shard) for shard in work.left()]
        with Reporter().bar("scoring shards", "shards") as bar:
            while waiting:
                ready, waiting = ray.wait(waiting)
                for part in ray.get(ready):
                    done.add(part)
                bar(done.shards, done.shards + len(waiting))
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, UserError) else error) from None
    finally:
        if started:
            ray.shutdown()
    return done


def _one(run: Any, work: Work, shard: int) -> Done:
    """Do one shard in a worker of Ray, which keeps its model open."""
    done, key = Done(), work.manifest.about["model"]
    if key not in _opened:
        _opened.clear()
        _opened[key] = open_classifier(run)
    if not work.is_done(shard):
        with scorer(_opened[key]) as (device, score):
            work.one(shard, _opened[key], device, score, done)
    return done
