"""Prediction from a bucket into a bucket on loopback, and what is left when an upload fails half-way.

Run ``python -m benchmarks.bucket MOTO_SERVER`` with the path of the command ``moto_server`` (``pip install
'moto[s3,server]'``, best in an environment of its own). A proxy before it cuts the connection, or kills the process
that uploads, when half of a file has arrived. The scores are compared with those of local files, to the bit. Results
are in ``benchmarks/results/bucket.json``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import torch

from benchmarks.shards import SHARD, make, union
from partlabel.core.errors import UserError
from partlabel.core.files import write_json
from partlabel.models.model import Model
from partlabel.tasks.engines import predict_shards

RESULT = Path(__file__).parent / "results" / "bucket.json"
BUCKET, IMAGES = "data", 40


class Proxy(threading.Thread):
    """Passes requests on, one for each connection; ``trouble`` is asked at half of an upload, and True cuts it."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.behind = port
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.trouble: Any = lambda path: False

    def run(self) -> None:
        while True:
            threading.Thread(target=self._pass, args=(self.listening.accept()[0],), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as asked:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = asked.readline()
                if not line:
                    return
                head += line
            lines = head.split(b"\r\n")
            method, path, _ = lines[0].split(b" ", 2)
            fields = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
            if fields.get(b"expect") == b"100-continue":
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            wanted = method == b"PUT" and "/part-" in path.decode()
            if b"chunked" in fields.get(b"transfer-encoding", b""):
                body = b""
                while not body.endswith(b"0\r\n\r\n"):
                    body += asked.readline()
                    if wanted and body.count(b"\n") > 1 and self.trouble(path.decode()):
                        return
            else:
                length = int(fields.get(b"content-length", 0))
                body = asked.read(length // 2)
                if wanted and self.trouble(path.decode()):
                    return
                body += asked.read(length - length // 2)
            kept = [line for line in lines if not line.lower().startswith((b"connection:", b"expect:"))]
            kept.insert(1, b"Connection: close")
            with socket.create_connection(("127.0.0.1", self.behind)) as server:
                server.sendall(b"\r\n".join(kept) + body)
                while data := server.recv(65536):
                    client.sendall(data)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def serve(command: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server and wait for it."""
    port = free_port()
    server = subprocess.Popen([command, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server, port
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{command} does not answer")


def listed(files: pyarrow.fs.FileSystem, folder: str) -> list[str]:
    """Names of all files in a folder of the bucket, hidden ones too."""
    selector = pyarrow.fs.FileSelector(f"{BUCKET}/{folder}", recursive=True, allow_not_found=True)
    return sorted(found.base_name for found in files.get_file_info(selector) if found.is_file)


def fetched(files: pyarrow.fs.FileSystem, folder: str, target: Path) -> tuple[list[str], np.ndarray]:
    """Names and scores of an output in the bucket."""
    target.mkdir()
    pyarrow.fs.copy_files(f"{BUCKET}/{folder}", str(target), source_filesystem=files)
    return union(target)


def work(model: Path, source: str, output: str) -> None:
    """Predict in a process that is to be killed."""
    torch.set_num_threads(1)
    predict_shards(Model.load(model), source, output, size=SHARD)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server")
    server, port = serve(parser.parse_args().server)
    proxy = Proxy(port)
    proxy.start()
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"}
    os.environ |= keys
    options = f"?endpoint_override=127.0.0.1:{proxy.port}&scheme=http&region=us-east-1"
    try:
        with tempfile.TemporaryDirectory() as made:
            result = measure(Path(made, "work"), proxy, options)
    finally:
        server.kill()
    print(result)
    write_json(RESULT, {**result, "pyarrow": pa.__version__, "python": platform.python_version()})


def measure(folder: Path, proxy: Proxy, options: str) -> dict[str, Any]:
    """Predict from and to the bucket; fail half-way; go on."""
    make(folder)
    torch.set_num_threads(1)
    for path in sorted((folder / "photos").iterdir())[IMAGES:]:
        path.unlink()
    files = pyarrow.fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{proxy.port}",
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
        request_timeout=60,
    )
    files.create_dir(BUCKET)
    pyarrow.fs.copy_files(str(folder / "photos"), f"{BUCKET}/photos", destination_filesystem=files, use_threads=False)
    model, source = Model.load(folder / "model"), f"s3://{BUCKET}/photos{options}"
    predict_shards(model, folder / "photos", folder / "local", size=SHARD)
    expected, shards = union(folder / "local"), IMAGES // SHARD

    def same(output: str) -> bool:
        names, scores = fetched(files, output, folder / output)
        return names == expected[0] and np.array_equal(scores, expected[1])

    result: dict[str, Any] = {"images": IMAGES, "shards": shards}
    done = predict_shards(model, source, f"s3://{BUCKET}/whole{options}", size=SHARD)
    result["whole"] = {"shards_done": done.shards, "equal_to_local_files": same("whole")}

    cuts: list[str] = []

    def cut(path: str) -> bool:
        if "cut/part-000003" in path:
            cuts.append(path)
        return "cut/part-000003" in path

    proxy.trouble = cut
    try:
        predict_shards(model, source, f"s3://{BUCKET}/cut{options}", size=SHARD)
        said = None
    except UserError as error:
        said = str(error).replace(f":{proxy.port}", "")
    there = listed(files, "cut")
    proxy.trouble = lambda path: False
    again = predict_shards(model, source, f"s3://{BUCKET}/cut{options}", size=SHARD)
    result["connection_cut"] = {
        **{"tries": len(cuts), "said": said, "part_there_after_it": "part-000003.parquet" in there},
        **{"shards_there_after_it": len([name for name in there if name.startswith("part-")])},
        **{"shards_done_by_the_next": again.shards, "equal_to_local_files": same("cut")},
    }

    own = multiprocessing.get_context("spawn").Process(
        target=work, args=(folder / "model", source, f"s3://{BUCKET}/killed{options}")
    )

    def kill(path: str) -> bool:
        if "killed/part-000002" in path:
            os.kill(own.pid or 0, signal.SIGKILL)
            return True
        return False

    proxy.trouble = kill
    own.start()
    own.join()
    there = listed(files, "killed")
    proxy.trouble = lambda path: False
    again = predict_shards(model, source, f"s3://{BUCKET}/killed{options}", size=SHARD)
    result["process_killed"] = {
        **{"exit_code": own.exitcode, "part_there_after_it": "part-000002.parquet" in there},
        **{"shards_there_after_it": len([name for name in there if name.startswith("part-")])},
        **{"shards_done_by_the_next": again.shards, "equal_to_local_files": same("killed")},
        "files": listed(files, "killed"),
    }
    return result


if __name__ == "__main__":
    main()
