"""Two processes on this machine that pretend to be two nodes: what they agree on, how they end, what they share."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from partlabel import Config, LabelTable, Run, simulate, train
from partlabel.app.cli import main
from partlabel.core import compute
from partlabel.core.compute import cores, loader_workers, memory, processes
from partlabel.training import loop, meeting
from tests.pictures import make_pictures, tiny_config
from tests.processes import Started, free_port
from tests.training.nodes import start


@pytest.fixture
def folder(tmp_path):
    make_pictures(tmp_path / "pictures", 12).write_parquet(tmp_path / "labels.parquet")
    return tmp_path


def begin(folder, config, environments=None, of_rank=None, **job):
    """Start two processes; each is alone on its node, unless the environments say something else."""
    job = {"config": config.to_dict(), "of_rank": {str(r): each for r, each in (of_rank or {}).items()}, **job}
    return start(folder, job, environments or [
        {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank),
         "TORCHELASTIC_RUN_ID": "test"}
        for rank in range(2)
    ])  # fmt: skip


def ended(started, timeout=900):
    """Exit status and standard error of each process."""
    try:
        for process in started:
            process.said = process.communicate(timeout=timeout)
        said = [process.said[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [process.returncode for process in started], said


def seconds(said):
    """How long a process took from the call of train, without what Python took to start."""
    return float(re.search(r"rank 0 after ([0-9.]+) s", said).group(1))


def refused(folder, config, **job):
    """Both end with status 2, not because they lost patience (after 300 s), and one alone says why."""
    codes, said = ended(begin(folder, config, **job))
    assert codes == [2, 2], said
    assert seconds(said[0]) < 200
    assert "rank 1" not in said[1]
    assert "Traceback" not in said[0] + said[1]
    assert not (folder / "run").exists()
    return said[0]


@pytest.mark.slow
def test_nodes_that_differ_are_refused_in_one_sentence(folder):
    """Images, labels, settings, versions, and an image that is broken on one node only."""
    config, table = tiny_config(freeze="all"), LabelTable.read_parquet(folder / "labels.parquet")
    make_pictures(folder / "others", 12, seed=3)
    (folder / "others" / "004.png").unlink()
    said = refused(folder, config, of_rank={1: {"images": "others"}})
    assert "differ from the first one" in said
    assert "004.png" in said
    assert "missing" in said
    assert "process 1 on" in said
    other = config.replace(optim__epochs=7).to_dict()
    assert "optim.epochs: 2 -> 7" in refused(folder, config, of_rank={1: {"config": other}})
    table.select(range(6)).write_parquet(folder / "fewer.parquet")
    assert ": labels: " in refused(folder, config, of_rank={1: {"labels": "fewer.parquet"}})
    assert "version of partlabel" in refused(folder, config, of_rank={1: {"version": "0.0.1"}})
    make_pictures(folder / "broken", 12)
    path = folder / "broken" / "007.png"
    path.write_bytes(bytes(path.stat().st_size))
    said = refused(folder, config, of_rank={1: {"images": "broken"}})
    assert "process 1 on" in said
    assert "007.png" in said
    shutil.copytree(folder / "pictures", folder / "alike")  # of the same sizes
    for images, end in (("pictures", b"0"), ("alike", b"1")):
        with open(folder / images / "003.png", "ab") as file:
            file.write(end)
    assert "contents of images: " in refused(folder, config, of_rank={1: {"images": "alike"}})


@pytest.mark.slow
def test_nodes_with_unequal_numbers_of_processes_are_refused(folder):
    own = [{"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(count)}
           for rank, local, count in [(0, 0, 2), (1, 1, 2), (2, 0, 1)]]  # fmt: skip
    codes, said = ended(begin(folder, tiny_config(freeze="all"), environments=own))
    assert codes == [2, 2, 2], said
    assert re.search(r"same number of processes; process 0 on \S+ is one of 2, process 2 on \S+ is one of 1", said[0])
    assert said[1:] == ["", ""]


def of_command_line(words, place, rank, port):
    """`partlabel` as one of two processes."""
    os.chdir(place)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if rank:  # no launcher ends the process that speaks, so nobody has to linger for it
        meeting.SILENCE = 0.1
    sys.exit(main(words))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({}, "partlabel: labels: there is no gone.parquet\n"),
        ({0: "labels.parquet"}, "partlabel: process 1 on NODE: labels: there is no gone.parquet\n"),
    ],
    ids=["of all", "of the second"],
)
def test_a_mistake_before_the_training_is_said_once(folder, changed, sentence):
    port = free_port()
    words = [["train", changed.get(rank, "gone.parquet"), "--images", "pictures", "-o", "run"] for rank in range(2)]
    started = [Started(of_command_line, (own, folder, rank, port), folder / f"node{rank}")
               for rank, own in enumerate(words)]  # fmt: skip
    codes, said = ended(started)
    assert codes == [2, 2], said
    assert said == [sentence.replace("NODE", platform.node()), ""]


def with_a_fault(place, rank, port):
    """Train, where a fault of partlabel ends the second process before the training."""

    def fail(*given):
        raise KeyError("odd")

    if rank:
        loop.chosen = fail
    of_command_line(["train", "labels.parquet", "--images", "pictures", "-o", "run"], place, rank, port)


@pytest.mark.slow
def test_nobody_waits_for_a_process_that_a_fault_ended(folder):
    port, began = free_port(), time.monotonic()
    started = [Started(with_a_fault, (folder, rank, port), folder / f"node{rank}") for rank in range(2)]
    codes, said = ended(started)
    assert codes == [2, 2], said
    assert time.monotonic() - began < 300, "the first process waits 10 minutes for one that does not come"
    begin = (
        f"partlabel: process 1 on {platform.node()}: a fault of partlabel ended this (KeyError); what happened is in "
    )
    assert said[0].startswith(begin)
    assert "KeyError: 'odd'" in Path(said[0].removeprefix(begin).strip()).read_text(encoding="utf-8")
    assert said[1] == ""


@pytest.mark.slow
def test_what_torchrun_starts_says_a_mistake_once(folder):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3", "-m", "partlabel"]
    words = ["predict", "gone", "pictures", "-o", "scores"]
    ended = subprocess.run([sys.executable, *torchrun, *words], cwd=folder, capture_output=True, text=True)
    assert ended.returncode
    assert ended.stderr.count("partlabel: ") == 1, ended.stderr


@pytest.mark.slow
def test_a_mistake_of_all_is_said_once(folder):
    (folder / "pictures" / "003.png").unlink()
    said = refused(folder, tiny_config())
    assert "003" in said
    assert "process 0 on" not in said
    assert "process 1 on" not in said


@pytest.mark.slow
@pytest.mark.parametrize("one_cache", [True, False], ids=["shared disk", "a cache for each node"])
def test_images_are_shared_out_and_a_second_start_reads_none(folder, one_cache):
    """One of many images is bad; checks, hashes and features of one node reach the other, also by network."""
    (folder / "pictures" / "005.png").write_bytes(b"no image")
    time.sleep(0.1)  # a file that has just changed is not remembered
    config = tiny_config(freeze="all", images__on_bad="skip", validation=0.3)

    def read(out):
        codes, said = ended(started := begin(folder, config, one_cache=one_cache, out=out))
        assert codes == [0, 0], said
        return [set(json.loads(process.said[0].splitlines()[-1])["read"]) for process in started]

    first = read("run")
    every = {str(path) for path in (folder / "pictures").iterdir()}
    assert first[0] | first[1] == every
    assert all(each < every for each in first)
    assert read("again") == [set(), set()]
    a, b = (load_file(folder / run / "last" / "model.safetensors") for run in ("run", "again"))
    assert all(torch.equal(a[key], b[key]) for key in a)
    caches = ["cache"] if one_cache else ["cache0", "cache1"]
    assert all(len(list((folder / cache).rglob("*.shard"))) >= 1 for cache in caches)
    train(LabelTable.read_parquet(folder / "labels.parquet"), folder / "pictures", out=folder / "one", config=config)
    one = load_file(folder / "one" / "last" / "model.safetensors")
    assert all(torch.allclose(a[key], one[key], atol=1e-5) for key in a)


@pytest.mark.slow
def test_each_node_may_have_its_own_run_folder(folder):
    """Those of others than the first process stay away, and a run is resumed from that of the first."""
    config = tiny_config(freeze="all", validation=0.34, optim__epochs=4, model__dropout=0.3)
    of_rank = {1: {"out": "elsewhere"}}
    codes, said = ended(begin(folder, config, of_rank=of_rank))
    assert codes == [0, 0], said
    assert not (folder / "elsewhere").exists()
    (folder / "run").rename(folder / "whole")
    started = begin(folder, config, of_rank={0: {"stands_still": True}, 1: {"out": "elsewhere"}})
    while not (folder / "pid").exists():
        assert started[0].poll() is None, started[0].communicate()[1]
        time.sleep(0.1)
    for process in started:
        process.kill()
    ended(started)
    assert not (folder / "run" / "summary.json").exists()
    codes, said = ended(begin(folder, config, of_rank=of_rank, resume=True))
    assert codes == [0, 0], said
    assert "going on after epoch 1" in said[0]
    a, b = (load_file(folder / run / "last" / "model.safetensors") for run in ("whole", "run"))
    assert all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGSTOP, signal.SIGKILL])
def test_a_process_that_stands_still_or_is_lost_ends_the_training(folder, sent):
    of_rank = {0: {"gives_up_at": "train_epoch"}, 1: {"stands_still": True}}
    started = begin(folder, tiny_config(freeze="all"), of_rank=of_rank)
    while not (folder / "pid").exists():
        assert started[1].poll() is None, started[1].communicate()[1]
        time.sleep(0.1)
    started[1].send_signal(sent)
    _, said = started[0].communicate(timeout=500)  # the other would sleep for longer
    started[1].kill()
    assert started[0].returncode == 2
    assert "lost contact with the others" in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "of_first", "sentence"),
    [
        ("start", {"patience": 3}, "2 processes did not find each other"),
        # this one itself, where the whole machine has stood still
        ("prepare_data", {"gives_up_at": "prepare_data"}, "process [01] has not answered"),
    ],
)
def test_a_process_that_stands_still_before_the_first_step(folder, step, of_first, sentence):
    """Preparing may take days, but nobody waits for a process that gives no sign of life."""
    started = begin(folder, tiny_config(freeze="all"), of_rank={0: of_first, 1: {"stops_at": step}})
    _, said = started[0].communicate(timeout=500)
    started[1].kill()
    started[1].communicate()
    assert started[0].returncode == 2, said
    assert seconds(said) < 200
    assert re.search(sentence, said)
    assert "Traceback" not in said


@pytest.mark.slow
def test_srun_without_torchrun_trains_one_model(folder):
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2",
             "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NODEID": "0",
             "SLURM_NODELIST": "127.0.0.1", "SLURM_STEP_ID": "0"}  # fmt: skip
    own = [slurm | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(2)]
    codes, said = ended(begin(folder, tiny_config(freeze="all"), environments=own))
    assert codes == [0, 0], said
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert summary["processes"] == 2


def test_processes_of_torchrun_and_slurm(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "RANK", "WORLD", "LOCAL_"))]:
        monkeypatch.delenv(name)
    assert vars(processes()) == {"rank": 0, "world": 1, "local_rank": 0, "local_world": 1}
    step = {"STEP_NUM_TASKS": "8", "PROCID": "5", "LOCALID": "1", "STEP_TASKS_PER_NODE": "4(x2)"}
    for name, value in step.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert vars(processes()) == {"rank": 5, "world": 8, "local_rank": 1, "local_world": 4}
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "5(x2),3")
    monkeypatch.setenv("SLURM_NODEID", "2")
    assert processes().local_world == 3
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert vars(processes()) == {"rank": 1, "world": 4, "local_rank": 1, "local_world": 2}


def test_processes_of_a_node_share_its_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert cores() == 4
    assert loader_workers("cuda") == 4
    assert loader_workers("cpu") == 2
    assert loader_workers("cpu", 7) == 7
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "32")
    assert cores() == 1


def test_a_container_may_have_less_than_the_machine(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)
    monkeypatch.setattr(compute, "_GROUP", tmp_path)
    whole = memory()
    (tmp_path / "cpu").mkdir()
    for name, text, expected in [
        ("cpu.max", "max 100000", 16), ("cpu/cpu.cfs_period_us", "100000", 16), ("cpu/cpu.cfs_quota_us", "-1", 16),
        ("cpu/cpu.cfs_quota_us", "600000", 6), ("cpu.max", "250000 100000", 2), ("cpu.max", "50000 100000", 1),
    ]:  # fmt: skip
        (tmp_path / name).write_text(f"{text}\n")
        assert cores() == expected, (name, text)
    for text, expected in [("max", whole), (str(2**30), 2**30), (str(2**60), whole)]:
        (tmp_path / "memory.max").write_text(f"{text}\n")
        assert memory() == expected


@pytest.mark.parametrize("parts", [2, 3, 4, 9])
def test_a_step_in_parts_is_the_same_step(tmp_path, monkeypatch, parts):
    """Without batch normalisation: same gradient but for rounding, whatever the parts, also of uneven batches."""
    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    table = make_pictures(tmp_path / "pictures", 11)
    config = tiny_config(freeze="all", optim__batch_size=8, optim__epochs=3, optim__learning_rate=0.1)
    whole = train(table, tmp_path / "pictures", out=tmp_path / "whole", config=config)
    cut = config.replace(optim__accumulate=parts)
    made = train(table, tmp_path / "pictures", out=tmp_path / "parts", config=cut)
    a, b = (load_file(run.folder / "last" / "model.safetensors") for run in (whole, made))
    assert all(torch.allclose(a[key], b[key], atol=1e-6) for key in a)
    losses = [[row["loss"] for row in run.epochs] for run in (whole, made)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_parts_are_no_larger_than_asked(tmp_path, monkeypatch):
    from partlabel.training import epoch

    monkeypatch.setenv("PARTLABEL_CACHE", str(tmp_path / "cache"))
    original, seen = epoch.step, []

    def looking(job, state, stage, part):
        seen.append((len(part.images), part.batch_size, part.last))
        return original(job, state, stage, part)

    monkeypatch.setattr(epoch, "step", looking)
    table = make_pictures(tmp_path / "pictures", 10)
    config = tiny_config(optim__batch_size=6, optim__accumulate=2, optim__epochs=1)
    train(table, tmp_path / "pictures", out=tmp_path / "run", config=config)
    assert seen == [(3, 6, False), (3, 6, True), (2, 4, False), (2, 4, True)]
    assert np.isfinite(seen[0][0])


@pytest.mark.slow
def test_parts_over_two_processes(folder):
    """Uneven shares: 5 images of a batch are 3 and 2 of the processes, in as many parts; gradients go round once."""
    config = tiny_config(freeze="all", optim__batch_size=5, optim__accumulate=3, optim__learning_rate=0.1)
    codes, said = ended(begin(folder, config))
    assert codes == [0, 0], said
    table = LabelTable.read_parquet(folder / "labels.parquet")
    train(table, folder / "pictures", out=folder / "one", config=config.replace(optim__accumulate=1))
    a, b = (load_file(folder / run / "last" / "model.safetensors") for run in ("one", "run"))
    assert all(torch.allclose(a[key], b[key], atol=1e-5) for key in a)


@pytest.mark.slow
def test_the_closed_form_head_of_two_processes_is_that_of_one(folder):
    """With the small preset: features shared out, self-training, validation, thresholds, out-of-fold scores."""
    table = simulate.partial(make_pictures(folder / "pictures", 60), 0.5, seed=0)
    table.write_parquet(folder / "labels.parquet")
    small = Config.preset("small").replace(
        model__backbone="test_resnet", model__weights="none", images__size=32, validation=0.3, workers=0
    )
    codes, said = ended(begin(folder, small))
    assert codes == [0, 0], said
    train(table, folder / "pictures", out=folder / "one", config=small)
    a, b = (Run(folder / name) for name in ("run", "one"))
    one, two = (load_file(run.folder / "best" / "model.safetensors") for run in (a, b))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert a.model.thresholds == b.model.thresholds
    assert a.model.calibration == b.model.calibration
    assert a.epochs[0]["head"] == b.epochs[0]["head"]
    assert a.epochs[0]["validation"] == b.epochs[0]["validation"]
    for name in ("out_of_fold.parquet", "thresholds.json", "headline.json"):
        assert (a.folder / name).read_bytes() == (b.folder / name).read_bytes()
    assert len(list((folder / "cache0").rglob("*.shard"))) == len(list((folder / "cache1").rglob("*.shard"))) == 2
