"""Loading, flips and the loader: the same for any number of workers, and a sentence for each failure."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import v2

from partlabel.core.errors import UserError
from partlabel.images import ImageDataset, ImageError, decode, flip_draw, load, make_loader
from partlabel.images.loading import _explained
from tests.images.make import CASES, encoded, picture
from tests.reference import images as reference

BATCHES = [[3, 0, 5], [1], [2, 4, 6, 7]]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(8):
        (folder / f"{number}.jpg").write_bytes(encoded(picture(40 + number, 30, seed=number), "JPEG"))
    return sorted(folder.iterdir())


def test_load_is_decode_and_resize(paths: list[Path]) -> None:
    pixels = load(paths[0], 24)
    wanted = v2.Resize((24, 24), antialias=True)(torch.from_numpy(decode(paths[0])).permute(2, 0, 1))
    assert pixels.dtype == torch.uint8
    assert pixels.shape == (3, 24, 24)
    assert pixels.is_contiguous()
    assert torch.equal(pixels, wanted)
    with pytest.raises(ImageError, match="over the limit"):
        load(paths[0], 24, max_pixels=100)


def test_load_squashes_to_a_square_and_keeps_the_sides(tmp_path: Path) -> None:
    pixels = load(CASES / "IMG-04" / "images" / "o6.jpg", 16).int()
    assert (pixels[:, 2, :] - torch.tensor([255, 0, 0])[:, None]).abs().max() <= 12
    assert (pixels[:, 13, :] - torch.tensor([0, 0, 255])[:, None]).abs().max() <= 12


@settings(max_examples=40)
@given(st.integers(-(2**70), 2**70), st.integers(0, 10**6), st.lists(st.integers(0, 60), max_size=8))
def test_flips_equal_the_reference(seed: int, epoch: int, images: list[int]) -> None:
    drawn = flip_draw(seed, epoch, images)
    assert drawn.dtype == bool
    assert drawn.tolist() == [reference.flip(seed, epoch, image) for image in images]


def test_flips_known_numbers() -> None:
    # SplitMix64 from state 0, as published with the generator
    assert [reference.splitmix64(0)[1], reference.splitmix64(0x9E3779B97F4A7C15)[1]] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
    ]
    assert flip_draw(1, 0, np.array([], dtype=np.int64)).shape == (0,)
    assert flip_draw(1, 3, [2, 2, 9]).tolist()[:2] == [flip_draw(1, 3, [2])[0]] * 2


def test_flips_are_independent_fair_coins() -> None:
    images = np.arange(100_000)
    log = {(seed, epoch): flip_draw(seed, epoch, images) for seed in (0, 1, 2**32) for epoch in (0, 1, 2)}
    spread = 5 * 0.5 / np.sqrt(len(images))  # five standard deviations of a mean of fair coins
    draws = list(log.values())
    for number, draw in enumerate(draws):
        assert abs(draw.mean() - 0.5) < spread
        for lag in (1, 2, 3, 8, 16, 64, 1000):
            assert abs((draw[lag:] == draw[:-lag]).mean() - 0.5) < 1.05 * spread
        for other in draws[:number]:
            assert abs((draw == other).mean() - 0.5) < spread
    # per image over many epochs
    epochs = np.stack([flip_draw(7, epoch, np.arange(50)) for epoch in range(2000)])
    assert np.abs(epochs.mean(0) - 0.5).max() < 5 * 0.5 / np.sqrt(2000)


def flips(paths: list[Path], workers: int) -> list[tuple[int, int, bool]]:
    loader = make_loader(ImageDataset(paths, 8), BATCHES, workers)
    return [
        (image, epoch, flip)
        for epoch in range(3)
        for _, numbers in loader
        for image, flip in zip(numbers.tolist(), flip_draw(1, epoch, numbers.numpy()).tolist(), strict=True)
    ]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_the_log_of_flips_is_the_same_for_any_number_of_workers(paths: list[Path]) -> None:
    """TR-06: workers draw numbers of their own, the same ones whatever their number."""
    logs = [flips(paths, workers) for workers in (0, 0, 1, 2, 4)]
    assert all(log == logs[0] for log in logs)
    assert [image for image, epoch, _ in logs[0] if epoch == 0] == [image for batch in BATCHES for image in batch]
    by_epoch = [[flip for _, epoch, flip in logs[0] if epoch == e] for e in range(3)]
    assert len({tuple(row) for row in by_epoch}) == 3
    assert all(0 < sum(row) < len(row) for row in by_epoch)


def test_batches_are_the_pictures_for_any_number_of_workers(paths: list[Path]) -> None:
    dataset = ImageDataset(paths, 24)
    assert len(dataset) == 8
    assert dataset[3][1] == 3
    for workers in (0, 2):
        loader = make_loader(dataset, BATCHES, workers)
        assert len(loader) == 3
        for _ in range(2):
            for (pixels, numbers), batch in zip(loader, BATCHES, strict=True):
                assert numbers.dtype == torch.int64
                assert numbers.tolist() == batch
                assert torch.equal(pixels, torch.stack([load(paths[image], 24) for image in batch]))


def test_the_global_random_state_is_not_used(paths: list[Path]) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for workers in (0, 1):
        list(make_loader(ImageDataset(paths, 8), BATCHES, workers))
    assert torch.equal(torch.get_rng_state(), before)


class Threads(ImageDataset):
    """Tells the number of torch threads where it runs."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, self.size, self.size), torch.get_num_threads(), dtype=torch.uint8), index


def test_workers_use_one_thread(paths: list[Path]) -> None:
    assert {int(pixels.max()) for pixels, _ in make_loader(Threads(paths, 2), BATCHES, 2)} == {1}


@pytest.mark.parametrize("workers", [0, 1])
def test_bad_pictures_are_all_named(paths: list[Path], workers: int) -> None:
    cut, page = CASES / "IMG-01" / "images" / "cut.jpg", CASES / "IMG-02" / "images" / "page.jpg"
    dataset = ImageDataset([paths[0], cut, page], 8)
    with pytest.raises(UserError, match="images cannot be read") as caught:
        list(make_loader(dataset, [[0], [0, 1, 2]], workers))
    assert [offender.split(": ")[0] for offender in caught.value.offenders] == [str(cut), str(page)]
    with pytest.raises(ImageError, match=r"cut\.jpg: cut off"):
        list(make_loader(dataset, [[0, 1]], workers))


class Growth(ImageDataset):
    """Reads all paths of a batch; returns the megabytes that this process has for itself alone."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        for number in range(index, index + 10_000):
            self.path(number)
        private = 0
        if index in (0, 190_000):  # the table of a large process takes long to read
            rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
            private = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty"))
        return torch.full((3, 1, 1), private // 1000 % 256, dtype=torch.uint8), index


@pytest.mark.linux
def test_memory_of_workers_does_not_grow_over_an_epoch() -> None:
    """TR-07: with 200,000 images. The other two parts of the case are the next tests."""
    dataset = Growth([f"/data/pictures/{number:012}.jpg" for number in range(200_000)], 1)
    batches = [[index] for index in range(0, 200_000, 10_000)]
    megabytes = [int(pixels[0, 0, 0, 0]) for pixels, _ in make_loader(dataset, batches, 1)]
    assert (megabytes[-1] - megabytes[0] + 128) % 256 - 128 < 4, (
        "a list of 200,000 Python strings grows by more than 12"
    )


def test_datasets_are_sent_as_flat_arrays() -> None:
    names = [f"{number:06}.jpg" for number in range(10_000)]
    dataset = pickle.loads(pickle.dumps(ImageDataset([*names, "é\udcff.jpg"], 8)))
    assert dataset.path(77) == "000077.jpg"
    assert dataset.path(10_000) == "é\udcff.jpg"  # bytes that are no UTF-8 come back as they were
    assert len(pickle.dumps(dataset)) < 10_000 * (10 + 8) + 2_000


LITTLE_SHARED_MEMORY = """
import sys
from partlabel.images import ImageDataset, make_loader
for workers in (0, 2):
    try:
        print(sum(len(pixels) for pixels, _ in make_loader(ImageDataset(sys.argv[1:], 448), [[0] * 16] * 4, workers)))
    except ValueError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.linux
def test_too_many_open_files(paths: list[Path]) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 60, before[1]))
    try:
        with pytest.raises(UserError, match=r"out of open files: raise the limit \(ulimit -n 4096\)"):
            list(make_loader(ImageDataset(paths, 8), [[0]] * 200, 2))  # each batch that is kept keeps a file open
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.linux
@pytest.mark.slow
def test_out_of_shared_memory(paths: list[Path]) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=3m tmpfs /dev/shm"
    if shutil.which("unshare") is None or subprocess.run([*alone, mount], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a small /dev/shm")
    program = [*alone, f'{mount} && exec "$@"', "sh", sys.executable, "-c", LITTLE_SHARED_MEMORY, str(paths[0])]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=600)
    alone_result, two_workers = done.stdout.splitlines()
    assert alone_result == "64"
    assert two_workers.startswith(
        "UserError the image loader ran out of shared memory (/dev/shm): use fewer loader workers"
    )


class Killed(ImageDataset):
    """Dies as a process does that touches shared memory which is not there."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        os.kill(os.getpid(), signal.SIGBUS)
        raise AssertionError("still alive")


@pytest.mark.linux
def test_a_worker_that_the_system_killed(paths: list[Path]) -> None:
    with pytest.raises(UserError, match="shared memory"):
        list(make_loader(Killed(paths, 8), BATCHES, 1))


def test_known_failures_become_one_sentence() -> None:
    messages = {
        "DataLoader worker (pid 7) is killed by signal: Killed. ": "out of memory: use fewer loader workers",
        "received 0 items of ancdata": "out of open files: raise the limit",
        "unable to open shared memory object </torch_1>: Too many open files (24)": "out of open files",
        "DataLoader worker (pid 7) is killed by signal: Segmentation fault. ": "a library ended a loader process",
        "DataLoader worker (pid 7) is killed by signal: Aborted. ": "a library ended a loader process",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.": "out of memory",
        "unable to mmap 64 bytes from file </torch_1>: Cannot allocate memory (12)": "out of memory",
    }
    for message, sentence in messages.items():
        explained = _explained(RuntimeError(message))
        assert isinstance(explained, UserError)
        assert sentence in str(explained)
        assert "\n" not in str(explained)
    assert "out of memory" in str(_explained(MemoryError()))
    other = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    assert _explained(other) is other


class Broken(ImageDataset):
    """Fails for a reason that is no user's mistake."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        raise RuntimeError("a bug")


@pytest.mark.parametrize("workers", [0, 1])
def test_other_failures_are_not_hidden(paths: list[Path], workers: int) -> None:
    with pytest.raises(RuntimeError, match="a bug"):
        list(make_loader(Broken(paths, 8), BATCHES, workers))


@pytest.mark.linux
@pytest.mark.slow
@pytest.mark.parametrize("found_by", ["the first process", "a loader"])
def test_a_folder_of_temporary_files_that_refuses_is_said_and_not_waited_for(tmp_path, monkeypatch, found_by):
    (tmp_path / "full").write_text("no folder")
    script = (
        "import sys, tempfile\n"
        "from partlabel.core.errors import UserError\n"
        "from partlabel.images import loading\n"
        "tempfile.tempdir = sys.argv[1] + '/full'\n"
        "if sys.argv[2] == 'a loader':\n"
        "    loading.get_temp_dir = lambda: None\n"
        "dataset = loading.ImageDataset([sys.argv[1] + '/a.png'] * 4, 32)\n"
        "try:\n"
        "    list(loading.make_loader(dataset, [[0, 1], [2, 3]], workers=1))\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    words = [sys.executable, "-c", script, str(tmp_path), found_by]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert "0 workers" in done.stdout, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.slow
def test_what_a_loader_cannot_remove_at_its_end_is_no_traceback(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from multiprocessing.util import Finalize\n"
        "from partlabel.images import loading\n"
        "def refuse():\n"
        "    raise OSError(5, 'Input/output error')\n"
        "class Images(loading.ImageDataset):\n"
        "    def __getitem__(self, row):\n"
        "        Finalize(None, refuse, exitpriority=10)\n"
        "        return super().__getitem__(row)\n"
        "if __name__ == '__main__':\n"
        "    loader = loading.make_loader(Images([sys.argv[1]] * 4, 32), [[0, 1], [2, 3]], workers=1)\n"
        "    print(len(list(loader)))\n"
        "    del loader  # which waits for its process\n"
    )
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    words = [sys.executable, str(script), str(tmp_path / "a.png")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert (done.stdout, done.stderr) == ("2\n", "")
