"""JPEG file to (3, size, size) uint8: Pillow, torchvision, torchcodec and simplejpeg in one run, one thread.

Run ``python -m benchmarks.decode [--images FOLDER]``. The images are photographs of 320 x 240 pixels, and mosaics of
them at 640 x 480 and 2000 x 1500 pixels. Every way reads the file and ends in the same resize; its pixels are compared
with those of a full decode by Pillow. Ways that decode at 1/2, 1/4 or 1/8 of the size differ by a little: the largest
and the mean difference are reported. Times are processor time of this process, so that other work on the machine
matters less. torchcodec takes part where it is installed.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import torch
import torchvision
from PIL import Image
from PIL import __version__ as pillow_version
from torchvision.transforms.v2 import functional as transforms

from partlabel.images import decode, load

try:
    import torchcodec
    from torchcodec.decoders import decode_jpeg as torchcodec_jpeg
except ImportError:
    torchcodec = None

#: ways that decode every pixel and so have to agree to the last bit
FULL = ("pillow", "torchvision.io", "torchcodec", "simplejpeg")
TARGETS = (128, 160, 224, 448)
ROUNDS = 7
Way = Callable[[Path, int], torch.Tensor]


def resize(pixels: torch.Tensor, size: int) -> torch.Tensor:
    return transforms.resize(pixels, [size, size], antialias=True).contiguous()


def channels_first(pixels: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(pixels)).permute(2, 0, 1)


def pillow_full(path: Path, size: int) -> torch.Tensor:
    return resize(channels_first(Image.open(io.BytesIO(path.read_bytes())).convert("RGB")), size)


def pillow_draft(path: Path, size: int) -> torch.Tensor:
    image = Image.open(io.BytesIO(path.read_bytes()))
    image.draft("RGB", (size, size))
    return resize(channels_first(image.convert("RGB")), size)


def torchvision_io(path: Path, size: int) -> torch.Tensor:
    data = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    return resize(torchvision.io.decode_jpeg(data, mode=torchvision.io.ImageReadMode.RGB), size)


def torchcodec_full(path: Path, size: int) -> torch.Tensor:
    data = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    return resize(torchcodec_jpeg(data), size)


def simplejpeg_full(path: Path, size: int) -> torch.Tensor:
    return resize(channels_first(simplejpeg.decode_jpeg(path.read_bytes(), "RGB")), size)


def simplejpeg_reduced(path: Path, size: int, times: int = 1) -> torch.Tensor:
    """Reduce in the decoder as long as both sides stay at least ``times`` x ``size``."""
    data = path.read_bytes()
    height, width = map(int, simplejpeg.decode_jpeg_header(data)[:2])
    reduction = next((r for r in (8, 4, 2) if -(-min(height, width) // r) >= times * size), 1)
    least = {"min_height": -(-height // reduction), "min_width": -(-width // reduction)}
    return resize(channels_first(simplejpeg.decode_jpeg(data, "RGB", **least)), size)


def simplejpeg_reduced_to_double(path: Path, size: int) -> torch.Tensor:
    return simplejpeg_reduced(path, size, times=2)


WAYS: dict[str, Way] = {
    "pillow": pillow_full,
    "pillow draft": pillow_draft,
    "torchvision.io": torchvision_io,
    **({"torchcodec": torchcodec_full} if torchcodec else {}),
    "simplejpeg": simplejpeg_full,
    "simplejpeg, sides >= size": simplejpeg_reduced,
    "simplejpeg, sides >= 2 size": simplejpeg_reduced_to_double,
    "partlabel.images.loading": load,
}


def make_pictures(source: Path, folder: Path) -> dict[str, list[Path]]:
    """Photographs as they are, and mosaics of them at larger sizes."""
    photographs = [path for path in sorted(source.glob("*.jpg"))[:400] if Image.open(path).size == (320, 240)]
    sets = {"320 x 240": photographs[:60]}
    for (wide, high), count in {(640, 480): 24, (2000, 1500): 6}.items():
        paths = []
        for number in range(count):
            mosaic = Image.new("RGB", (wide, high))
            tiles = [(x, y) for y in range(0, high, 240) for x in range(0, wide, 320)]
            for place, tile in enumerate(tiles):
                mosaic.paste(Image.open(photographs[(number * len(tiles) + place) % len(photographs)]), tile)
            paths.append(folder / f"{wide}-{number}.jpg")
            mosaic.save(paths[-1], quality=90)
        sets[f"{wide} x {high}"] = paths
    return sets


def compare(paths: list[Path], size: int) -> dict[str, Any]:
    """Milliseconds an image for each way (medians of interleaved rounds), and its difference from the full decode."""
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, way in WAYS.items():
            start = time.process_time()
            for path in paths:
                way(path, size)
            seconds[name].append(time.process_time() - start)
    result = {}
    for name, way in WAYS.items():
        gaps = torch.stack([(way(p, size).int() - pillow_full(p, size).int()).abs() for p in paths[:12]])
        result[name] = {
            "ms": round(statistics.median(seconds[name]) / len(paths) * 1000, 3),
            "max_difference": int(gaps.max()),
            "mean_difference": round(float(gaps.float().mean()), 3),
        }
    return result


def detects_damage(paths: list[Path]) -> dict[str, Any]:
    """For each decoder: images cut by a third, and images with one bit turned, that it refuses."""
    generator = np.random.default_rng(0)
    refused = {name: {"cut": 0, "bit": 0} for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        broken = Path(folder) / "broken.jpg"
        for path in paths:
            data = path.read_bytes()
            turned = bytearray(data)
            turned[generator.integers(len(data) // 4, len(data) * 3 // 4)] ^= 1 << generator.integers(8)
            for kind, content in {"cut": data[: len(data) * 2 // 3], "bit": bytes(turned)}.items():
                broken.write_bytes(content)
                for name, way in WAYS.items():
                    try:
                        way(broken, 224)
                    except (OSError, ValueError, RuntimeError):
                        refused[name][kind] += 1
    return {"pictures": len(paths), "refused": refused}


def _decode_small(path: Path) -> int:
    return decode(path, 1).shape[0]


def threads_or_processes(paths: list[Path]) -> dict[str, float]:
    """Wall-clock milliseconds an image for the check of many files (decode at 1/8), two threads or two processes."""
    seconds: dict[str, list[float]] = {"one thread": [], "two threads": [], "two processes": []}
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(2) as processes:
        list(processes.map(_decode_small, paths[:8]))
        for _ in range(ROUNDS):
            for name, run in {
                "one thread": lambda: list(map(_decode_small, paths)),
                "two threads": lambda: list(threads.map(_decode_small, paths)),
                "two processes": lambda: list(processes.map(_decode_small, paths, chunksize=64)),
            }.items():
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    return {name: round(statistics.median(values) / len(paths) * 1000, 3) for name, values in seconds.items()}


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": len(models),
        "load_average": os.getloadavg()[0],
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "pillow": pillow_version,
        "simplejpeg": version("simplejpeg"),
        "torchcodec": torchcodec.__version__ if torchcodec else "not installed",
    }


def print_table(times: dict[str, dict[str, dict[str, Any]]]) -> None:
    for name, by_size in times.items():
        for size, ways in by_size.items():
            print(f"{name} -> {size}")
            for way, row in ways.items():
                gaps = f"max {row['max_difference']:3}   mean {row['mean_difference']:.3f}"
                print(f"  {way:28} {row['ms']:8.3f} ms   {gaps}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path, default=Path("../shared/data/coco-mini/images"))
    source = parser.parse_args().images
    torch.set_num_threads(1)
    many = sorted(source.glob("*.jpg"))[:1000]
    with tempfile.TemporaryDirectory() as folder:
        sets = make_pictures(source, Path(folder))
        times = {name: {str(size): compare(paths, size) for size in TARGETS} for name, paths in sets.items()}
        damage = detects_damage(sets["320 x 240"])
        large = threads_or_processes(sets["2000 x 1500"] * 8)
    rows = [(way, row) for by_size in times.values() for ways in by_size.values() for way, row in ways.items()]
    result = {
        "what": "milliseconds of processor time for JPEG file -> uint8 (3, size, size), medians of interleaved rounds;"
        " difference from a full decode by Pillow in grey levels; check: wall-clock milliseconds a file",
        "full_decodes_equal": all(row["max_difference"] == 0 for way, row in rows if way in FULL),
        "pillow_over_load": {
            name: {
                size: round(ways["pillow"]["ms"] / ways["partlabel.images.loading"]["ms"], 2)
                for size, ways in sizes.items()
            }
            for name, sizes in times.items()
        },
        "machine": machine(),
        "rounds": ROUNDS,
        "pictures": times,
        "damage": damage,
        "check": {"320 x 240": threads_or_processes(many), "2000 x 1500": large},
    }
    print_table(times)
    print(json.dumps(result["damage"]), json.dumps(result["check"]))
    out = Path(__file__).parent / "results" / "decode.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
