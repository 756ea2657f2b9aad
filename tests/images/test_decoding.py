"""Decoding: the cases from the field, every mode, every orientation, every kind of damage."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageFile

from partlabel.core.errors import UserError
from partlabel.images import ImageError, decode, load
from partlabel.images.decoding import decode_with_facts
from tests.images.make import CASES, encoded, picture, with_orientation
from tests.reference import images as reference

#: every way in which the formats compress
ENCODINGS: list[tuple[str, dict[str, Any]]] = [
    ("JPEG", {"quality": 90}),
    ("JPEG", {"progressive": True}),
    ("PNG", {}),
    ("WEBP", {}),
    ("WEBP", {"lossless": True}),
    ("GIF", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("TIFF", {"compression": "tiff_deflate"}),
    ("AVIF", {}),
    ("JPEG2000", {}),
    ("PPM", {}),
]


def expected(case: str) -> dict[str, Any]:
    return json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))


def put(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def reason(path: Path, **options: Any) -> str:
    with pytest.raises(ImageError) as caught:
        decode(path, **options)
    assert caught.value.path == str(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


@pytest.mark.parametrize("case", ["IMG-01", "IMG-02"])
def test_unreadable_files_of_the_cases(case: str) -> None:
    bad = []
    for path in sorted((CASES / case / "images").iterdir()):
        try:
            decode(path)
        except ImageError:
            bad.append(f"images/{path.name}")
    assert bad == expected(case)["unreadable"]


def test_reasons_name_what_the_file_is() -> None:
    images = CASES / "IMG-02" / "images"
    assert reason(images / "empty.jpg") == "empty (0 bytes)"
    assert "web page" in reason(images / "page.jpg")
    assert "Git LFS pointer" in reason(images / "pointer.png")
    assert "cut off" in reason(CASES / "IMG-01" / "images" / "cut.jpg")


def test_turned_by_exif() -> None:
    wanted = expected("IMG-04")
    pixels = decode(CASES / "IMG-04" / "images" / "o6.jpg")
    wide, high = wanted["o6.jpg"]["size"]
    assert pixels.shape == (high, wide, 3)
    for place, colour in wanted["o6.jpg"]["rgb_at"].items():
        x, y = json.loads(place.replace("(", "[").replace(")", "]"))
        assert np.abs(pixels[y, x].astype(int) - colour).max() <= wanted["tolerance"]


def test_modes_of_the_case() -> None:
    wanted = expected("IMG-05")
    shape = wanted.pop("batch_shape_before_resize")
    batch = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, colours in wanted.items():
            tolerance = colours.pop("tolerance", 0)
            pixels = decode(CASES / "IMG-05" / "images" / name)
            for place, colour in colours.items():
                x, y = json.loads(place.replace("(", "[").replace(")", "]"))
                assert np.abs(pixels[y, x].astype(int) - colour).max() <= tolerance, name
            batch.append(pixels)
    assert list(np.stack(batch).transpose(0, 3, 1, 2).shape) == shape


@pytest.mark.linux
def test_too_many_pixels_are_refused_before_decoding() -> None:
    huge = CASES / "IMG-06" / "images" / "huge.png"
    assert reason(huge) == "20000 x 20000 = 400000000 pixels, over the limit of 178956970"
    program = (
        "import sys; from partlabel.images import check\n"
        "peak = lambda: int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])\n"
        "before = peak(); assert len(check([sys.argv[1]] * 3).bad) == 3; print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", program, huge], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 100_000, "kB at most; the pixels alone would be 400,000"


def test_the_limit_of_pixels_is_an_option(tmp_path: Path) -> None:
    for format in ("JPEG", "PNG"):
        path = put(tmp_path / "a", encoded(picture(48, 32), format))
        assert decode(path, max_pixels=48 * 32).shape == (32, 48, 3)
        assert "48 x 32 = 1536 pixels, over the limit of 1535" in reason(path, max_pixels=48 * 32 - 1)


def test_first_frame_of_animations(tmp_path: Path) -> None:
    path = CASES / "IMG-07" / "images" / "anim.gif"
    for _ in range(2):
        pixels, facts = decode_with_facts(path)
        assert facts.animated
        assert (pixels == expected("IMG-07")["first_frame_rgb"]).all()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    for format, options in {"PNG": {}, "WEBP": {"lossless": True}, "TIFF": {}}.items():
        data = encoded(frames[0], format, save_all=True, append_images=frames[1:], **options)
        pixels, facts = decode_with_facts(put(tmp_path / "a", data))
        assert facts.animated
        assert (pixels == [255, 0, 0]).all()


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize(("format", "options"), ENCODINGS)
@pytest.mark.parametrize("size", [None, 4])
def test_a_cut_picture_is_never_used(format: str, options: dict[str, Any], size: int | None, tmp_path: Path) -> None:
    data = encoded(picture(96, 64), format, **options)
    assert decode(put(tmp_path / "whole", data), size).shape[2] == 3
    for length in [1, 2, 3, 12, *np.linspace(20, len(data) * 99 // 100, 25).astype(int)]:
        assert reason(put(tmp_path / "cut", data[:length]), size=size)
    rest = len(data) // 3
    if format in ("JPEG", "PNG"):  # a download that stopped after its space had been reserved
        assert reason(put(tmp_path / "zeros", data[:-rest] + bytes(rest)), size=size)


@pytest.mark.parametrize(("mode", "progressive"), [("RGB", False), ("L", True), ("CMYK", False)])
def test_every_cut_of_a_jpeg_is_found(mode: str, progressive: bool, tmp_path: Path) -> None:
    data = encoded(picture(16, 8).convert(mode), "JPEG", progressive=progressive)
    for length in range(len(data)):
        assert reason(put(tmp_path / "cut", data[:length]), size=1)


def test_damage_that_pillow_lets_pass(tmp_path: Path) -> None:
    data = encoded(picture(96, 64), "JPEG")
    middle = len(data) * 2 // 3
    path = put(tmp_path / "a.jpg", data[:middle] + b"\xff\xd9" + data[middle + 2 :])
    Image.open(path).load()
    for size in (None, 8):
        assert reason(path, size=size) == "cut off or damaged"
    cmyk = encoded(picture(96, 64).convert("CMYK"), "JPEG")
    middle = len(cmyk) * 2 // 3
    assert "cut off or damaged" in reason(put(tmp_path / "b.jpg", cmyk[:middle] + b"\xff\xd9" + cmyk[middle + 2 :]))


def test_stray_bytes_of_cameras_do_no_harm_and_hide_no_cut(tmp_path: Path) -> None:
    data = encoded(picture(96, 64), "JPEG")
    pixels = decode(put(tmp_path / "whole", data))
    tables = data.index(b"\xff\xdb")
    for stray in (data[:tables] + bytes(608) + data[tables:], data[:-2] + bytes(5) + data[-2:], data + b"more"):
        assert (decode(put(tmp_path / "stray", stray)) == pixels).all()
    padded = data[:tables] + bytes(608) + data[tables:]
    assert "cut off" in reason(put(tmp_path / "cut", padded[: -len(data) // 3]))


def test_pillow_told_to_use_cut_pictures_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    with pytest.raises(UserError, match="LOAD_TRUNCATED_IMAGES") as caught:
        decode(put(tmp_path / "a.png", encoded(picture(), "PNG")))
    assert not isinstance(caught.value, ImageError)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_all_orientations(format: str, orientation: int, tmp_path: Path) -> None:
    options = {"lossless": True} if format == "WEBP" else {}
    stored = decode(put(tmp_path / "plain", encoded(picture(12, 8), format, **options)))
    data = encoded(picture(12, 8), format, exif=with_orientation(orientation), **options)
    pixels, facts = decode_with_facts(put(tmp_path / "turned", data))
    assert (pixels == reference.upright(stored, orientation)).all()
    assert facts.turned == (orientation != 1)
    assert pixels.flags.c_contiguous


def test_an_odd_or_damaged_exif_block_turns_nothing(tmp_path: Path) -> None:
    for format in ("JPEG", "PNG"):
        plain = decode(put(tmp_path / "plain", encoded(picture(), format)))
        for exif in (
            with_orientation(0),
            with_orientation(9),
            b"Exif\0\0MM\0*\0\0",
            b"Exif\0\0rubbish that is not TIFF",
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert (decode(put(tmp_path / "odd", encoded(picture(), format, exif=exif))) == plain).all()


def test_transparency_is_laid_on_white(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    rgba = generator.integers(0, 256, (9, 7, 4), dtype=np.uint8)
    rgba[0, :, 3], rgba[1, :, 3] = 0, 255
    for format, options in {"PNG": {}, "WEBP": {"lossless": True, "exact": True}, "TIFF": {}}.items():
        pixels, facts = decode_with_facts(put(tmp_path / "a", encoded(Image.fromarray(rgba), format, **options)))
        assert facts.transparent
        assert np.abs(pixels - reference.on_white(rgba)).max() <= 1
        assert (pixels[0] == 255).all()
        assert (pixels[1] == rgba[1, :, :3]).all()


def test_transparent_colours_become_white(tmp_path: Path) -> None:
    colours = Image.new("P", (3, 1))
    colours.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    colours.putdata([0, 1, 2])
    half = decode(put(tmp_path / "a", encoded(colours, "PNG", transparency=bytes([0, 128, 255]))))[0]
    assert half.tolist() == [[255, 255, 255], [147, 152, 157], [70, 80, 90]]
    rgb = Image.new("RGB", (2, 1), (1, 2, 3))
    rgb.putpixel((1, 0), (4, 5, 6))
    assert decode(put(tmp_path / "b", encoded(rgb, "PNG", transparency=(4, 5, 6))))[0].tolist() == [
        [1, 2, 3],
        [255] * 3,
    ]
    deep = Image.fromarray(np.array([[257, 514]], np.uint16))
    assert decode(put(tmp_path / "c", encoded(deep, "PNG", transparency=514)))[0, :, 0].tolist() == [1, 255]


def test_grey_of_more_than_8_bits(tmp_path: Path) -> None:
    def grey(values: Any, dtype: str, format: str = "TIFF") -> list[int]:
        image = Image.fromarray(np.array([values], dtype))
        pixels, facts = decode_with_facts(put(tmp_path / "a", encoded(image, format)))
        assert facts.deep
        assert (pixels[:, :, :1] == pixels).all()
        return pixels[0, :, 0].tolist()

    assert grey([0, 128, 129, 257, 32896, 65535], "<u2", "PNG") == [0, 0, 1, 1, 128, 255]
    assert grey([0, 257, 65535], ">u2") == [0, 1, 255]
    assert grey([0, 7, 255], "<i4") == [0, 7, 255]
    assert grey([0, 257, 65535], "<i4") == [0, 1, 255]
    assert grey([-100, 0, 100], "<i4") == [0, 128, 255]
    assert grey([0, 0.5, 1], "<f4") == [0, 128, 255]
    assert grey([0, 7, 255], "<f4") == [0, 7, 255]
    assert grey([-1, 0, 1], "<f4") == [0, 128, 255]
    assert grey([1000, np.nan, 3000, np.inf], "<f4") == [0, 0, 255, 0]
    assert grey([300, 300], "<f4") == [0, 0]
    assert grey([np.nan, np.nan], "<f4") == [0, 0]
    pgm = b"P5 3 1 65535\n" + np.array([0, 257, 514], ">u2").tobytes()
    assert decode(put(tmp_path / "b", pgm))[0, :, 0].tolist() == [0, 1, 2]
    pfm = b"Pf\n3 1\n-1.0\n" + np.array([0, 0.5, 1], "<f4").tobytes()
    assert decode(put(tmp_path / "c", pfm))[0, :, 0].tolist() == [0, 128, 255]


def test_cmyk_is_read_with_the_inverted_values_of_adobe(tmp_path: Path) -> None:
    data = encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=100)
    adobe = data.index(b"\xff\xee")
    unmarked = data[:adobe] + data[adobe + 2 + int.from_bytes(data[adobe + 2 : adobe + 4], "big") :]
    for content in (data, unmarked):
        pixels, facts = decode_with_facts(put(tmp_path / "a", content))
        assert facts.cmyk
        assert np.abs(pixels.astype(int) - [255, 0, 0]).max() <= 3


def test_colour_profiles_are_ignored(tmp_path: Path) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    for format in ("JPEG", "PNG"):
        plain = decode(put(tmp_path / "a", encoded(picture(), format)))
        assert (decode(put(tmp_path / "b", encoded(picture(), format, icc_profile=profile))) == plain).all()


def test_things_that_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder.jpg"
    folder.mkdir()
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    link = tmp_path / "link.jpg"
    link.symlink_to(tmp_path / "gone.jpg")
    assert reason(folder) == "is a folder, not an image"
    assert reason(pipe) == "is not a regular file"
    assert reason(link) == "is a symbolic link to nothing"
    assert reason(tmp_path / "none.jpg") == "does not exist"
    assert "not an image of a known format" in reason(put(tmp_path / "a.jpg", bytes(range(256))))
    assert "(text)" in reason(put(tmp_path / "b.jpg", b'{\n  "error": "not found"\n}\n'))

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("partlabel.images.decoding.open", refuse, raising=False)
    assert reason(tmp_path / "a.jpg") == "cannot be read (Permission denied)"


def test_names_do_not_matter(tmp_path: Path) -> None:
    data = encoded(picture(), "JPEG")
    pixels = decode(put(tmp_path / "a.png", data))
    for name in ("000060e3121c7305", "Straße 猫 é.JPG", "b.txt"):
        assert (decode(put(tmp_path / name, data)) == pixels).all()
    (tmp_path / "link").symlink_to(tmp_path / "a.png")
    assert (decode(str(tmp_path / "link")) == pixels).all()


@pytest.mark.parametrize("orientation", [1, 6])
def test_reduced_decoding_keeps_both_sides(orientation: int, tmp_path: Path) -> None:
    path = put(tmp_path / "a.jpg", encoded(picture(1001, 402), "JPEG", exif=with_orientation(orientation)))
    for size, reduction in {400: 1, 101: 1, 100: 2, 51: 2, 50: 4, 25: 8, 1: 8}.items():
        shape = decode(path, size).shape[:2]
        wanted = (-(-402 // reduction), -(-1001 // reduction))
        assert shape == (wanted if orientation == 1 else wanted[::-1])
        assert min(shape) >= size


@pytest.mark.shared_data
def test_reduced_decoding_cannot_be_seen(shared: Path) -> None:
    gaps = []
    for path in sorted((shared / "data" / "coco-mini" / "images").glob("*.jpg"))[:20]:
        full = torch.from_numpy(decode(path)).permute(2, 0, 1)
        for size in (24, 45):
            assert decode(path, size).shape[0] < full.shape[1]
            resized = torch.nn.functional.interpolate(full[None], size=(size, size), mode="bilinear", antialias=True)[0]
            gaps.append((load(path, size).int() - resized.int()).abs().float().mean().item())
    assert np.mean(gaps) < 1.5
    assert max(gaps) < 5


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(ImageError("a.jpg", "empty (0 bytes)")))
    assert (error.path, error.reason, str(error)) == ("a.jpg", "empty (0 bytes)", "a.jpg: empty (0 bytes)")


@functools.cache
def all_kinds() -> list[bytes]:
    """Every mode in every format that can hold it."""
    kinds = []
    for format, options in ENCODINGS:
        for mode in ("RGB", "L", "CMYK", "P", "RGBA", "I;16"):
            image = picture(20, 14).convert("L" if mode == "I;16" else mode).convert(mode)
            with contextlib.suppress(OSError, KeyError, ValueError):
                kinds.append(encoded(image, format, **options))
    return kinds


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=100)
@given(
    data=st.data(), place=st.floats(0, 1), replacement=st.binary(min_size=1, max_size=12), removed=st.integers(0, 12)
)
def test_damaged_bytes_give_a_picture_or_a_reason(
    data: st.DataObject, place: float, replacement: bytes, removed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = data.draw(st.sampled_from(all_kinds()))
    at = int(place * len(content))
    path = put(tmp_path_factory.getbasetemp() / "damaged", content[:at] + replacement + content[at + removed :])
    with contextlib.suppress(ImageError):
        pixels = decode(path, max_pixels=100_000)
        assert pixels.dtype == np.uint8
        assert pixels.shape[2] == 3
