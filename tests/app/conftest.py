from __future__ import annotations

from pathlib import Path

import pytest

from partlabel import train
from tests.pictures import make_pictures, tiny_config


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with images, labels and a run."""
    folder = tmp_path_factory.mktemp("at-once")
    table = make_pictures(folder / "pictures", 40)
    table.write_parquet(folder / "labels.parquet")
    rows = [",".join(["image", *table.classes])]
    rows += [
        ",".join([name, *map(str, row)]) for name, row in zip(table.images.to_pylist(), table.dense(), strict=True)
    ]
    (folder / "labels.csv").write_text("\n".join(rows))
    tiny_config(optim__epochs=1, validation=0.3).write(folder / "config.toml")
    train(table, images=folder / "pictures", out=folder / "run", config=tiny_config(optim__epochs=1, validation=0.3))
    return folder
