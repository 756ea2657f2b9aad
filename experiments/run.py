"""Run the trainings of a table or figure of the paper, or write RESULTS.md.

    python -m experiments.run strategies                            the trainings of a table that are not there yet
    python -m experiments.run strategies losses --jobs 2 --seeds 0  two at a time, of one seed
    python -m experiments.run losses --list                         what there is to run
    python -m experiments.run results                               RESULTS.md from all results

A training is one line of experiments/results/jobs/PRESET.jsonl. One that was killed goes on after its last epoch;
several processes share a list. On another machine, the paper's protocol on one of its data sets:

    python -m experiments.run strategies --preset paper --dataset coco --data /data/coco --gpus 8

With --gpus, that many trainings run at a time, each on a GPU of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from experiments import (
    ablation,
    backbones,
    final_model,
    graph,
    losses,
    normalization,
    open_images,
    propagation,
    report,
    seeds,
    strategies,
)
from experiments.carry_out import Place, carry_out
from experiments.datasets import DATASETS, open_dataset
from experiments.jobs import Job, store
from experiments.presets import PRESETS, Preset
from experiments.reading import Results
from experiments.store import RESULTS
from partlabel.core.errors import UserError
from partlabel.core.progress import duration

#: name of an experiment -> its jobs; some are known only when others are there
EXPERIMENTS: dict[str, Callable[[Preset, Results], list[Job]]] = {
    "strategies": strategies.jobs,
    "losses": losses.jobs,
    "losses-tuning": losses.tuning_jobs,
    "graph": graph.jobs,
    "normalization": normalization.jobs,
    "ablation": ablation.jobs,
    "ablation-tuning": ablation.tuning_jobs,
    "seeds": seeds.jobs,
    "backbones": backbones.jobs,
    "pooling": backbones.pooling_jobs,
    "final-model": final_model.jobs,
    "open-images": open_images.jobs,
}
#: those that train no network
OTHERS: dict[str, Callable[[Place], None]] = {"propagation": propagation.run}


def listed(names: list[str], results: Results) -> list[Job]:
    """The jobs of experiments, each once, the first seed first."""
    found = dict.fromkeys(
        job for name in names if name in EXPERIMENTS for job in EXPERIMENTS[name](results.preset, results)
    )
    return sorted(found, key=lambda job: job.seed)


def kept(results: Results) -> set[Job]:
    """Jobs whose model another job of any experiment starts from."""
    found: set[Job | None] = set()
    for job in listed(list(EXPERIMENTS), results):
        found |= {results.preset.start(job), job.previous}
    return {job for job in found if job is not None}


def selected(names: list[str], results: Results, seeds: list[int] | None, only: str) -> list[Job]:
    """The jobs of experiments that the command line asks for."""
    return [job for job in listed(names, results) if only in job.name and (seeds is None or job.seed in seeds)]


def work(names: list[str], seeds: list[int] | None, only: str, place: Place, threads: int) -> int:
    """Run all jobs that nobody else has; how many of them are with somebody else.

    What is the best of a grid is a job once the grid is there, so the list is made again until it has nothing new.
    """
    torch.set_num_threads(threads)
    seen: set[Job] = set()
    elsewhere = 0
    while new := [j for j in selected(names, Results(place.results, place.preset), seeds, only) if j not in seen]:
        needed = kept(Results(place.results, place.preset))
        elsewhere += sum(not carry_out(job, place, keep=job in needed) for job in new)
        seen.update(new)
    for name in names:
        if name in OTHERS:
            OTHERS[name](place)
    return elsewhere


def _names() -> str:
    """The experiments, each with the first line of its module."""
    lines = []
    for name, made in (EXPERIMENTS | OTHERS).items():
        about = (sys.modules[made.__module__].__doc__ or "").strip().splitlines()[0]
        lines.append(f"  {name:16} {about}")
    lines += [f"  {'all':16} All of them.", f"  {'results':16} RESULTS.md from all results."]
    return "\n".join(["names:", *lines])


def forecast(seconds: list[float], left: int, done: int, at_once: int) -> str:
    """How long the trainings will take, from those that are done.

    Args:
        seconds: of trainings of this preset that are done.
        left: trainings that are to be done.
        done: trainings of the list that are done.
        at_once: trainings at a time.
    """
    text = f"{left} of {left + done} trainings are to be done, {at_once} at a time"
    if not left:
        return f"all {done} trainings are done"
    if not seconds:
        return f"{text}; how long one takes is not known before the first is done"
    each = statistics.median(seconds)
    whole = each * -(-left // at_once)
    return f"{text}: about {duration(whole)}, as half of the {len(seconds)} that are done took up to {duration(each)}"


def _start(number: int, gpus: int, target: Callable[..., object], arguments: tuple[object, ...]) -> BaseProcess:
    """Start a process of its own, which sees one GPU only where there are ``gpus``."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpus:
        named = seen.split(",") if seen else [str(i) for i in range(gpus)]
        os.environ["CUDA_VISIBLE_DEVICES"] = named[number % len(named[:gpus])]
    try:
        process.start()
    finally:
        if gpus and seen is None:
            del os.environ["CUDA_VISIBLE_DEVICES"]
        elif gpus and seen is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = seen
    return process


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=_names(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=[*EXPERIMENTS, *OTHERS, "all", "results"], metavar="NAME")
    parser.add_argument("--preset", choices=PRESETS, default="frozen")
    parser.add_argument("--dataset", choices=DATASETS, help="what lies in --data; by default that of the preset")
    parser.add_argument("--data", type=Path, help="its folder")
    parser.add_argument("--out", type=Path, default=Path("runs/experiments"), help="run folders, which are removed")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", help="only these of the preset's")
    parser.add_argument("--only", default="", help="only jobs whose name has this in it")
    parser.add_argument("--jobs", type=int, help="trainings at a time; 1, or as many as there are GPUs in --gpus")
    parser.add_argument("--gpus", type=int, default=0, help="deal the trainings out to the first so many GPUs")
    parser.add_argument("--threads", type=int, help="of one training; by default all cores over --jobs")
    parser.add_argument("--list", action="store_true", help="print the jobs, done or not, and run none")
    return parser


def main(arguments: list[str] | None = None) -> None:
    parser = _parser()
    given = parser.parse_args(arguments)
    preset = PRESETS[given.preset].of_dataset(given.dataset)
    if "results" in given.names:
        try:
            print(report.write(Results(given.results, preset)))
        except UserError as error:
            sys.exit(str(error))
        return
    given.jobs = given.gpus or 1 if given.jobs is None else given.jobs
    if given.gpus < 0:
        parser.error("--gpus is a number of GPUs")
    if given.jobs < 1 or (given.threads is not None and given.threads < 1):
        parser.error("--jobs and --threads are at least 1")
    names = [*EXPERIMENTS, *OTHERS] if "all" in given.names else given.names
    jobs = selected(names, Results(given.results, preset), given.seeds, given.only)
    if not jobs and not set(names) & set(OTHERS):
        sys.exit("no job has these settings, or those it depends on are not there yet")
    there = store(given.results, preset.name).read()
    done = sum(job.name in there for job in jobs)
    took = [float(record["seconds"]) for record in there.values() if record.get("seconds")]
    print(forecast(took, len(jobs) - done, done, given.jobs), file=sys.stderr)
    if given.list:
        for job in jobs:
            print("done" if job.name in there else "    ", job.name)
        return
    try:
        dataset = open_dataset(preset.dataset, given.data or Path(preset.data))
        command = f"python -m experiments.run {' '.join(given.names)}{preset.options}"
        place = Place(preset, dataset, given.out, given.results, command)
        threads = given.threads or max(1, (os.cpu_count() or 1) // given.jobs)
        if given.jobs == 1 and not given.gpus:
            elsewhere = work(names, given.seeds, given.only, place, threads)
            if elsewhere:
                print(f"{elsewhere} jobs are with another process")
            return
        task = (names, given.seeds, given.only, place, threads)
        others = [_start(number, given.gpus, work, task) for number in range(given.jobs)]
        for process in others:
            process.join()
        if any(process.exitcode for process in others):
            sys.exit(1)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
