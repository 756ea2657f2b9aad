"""Write docs/examples.md, the scripts of examples/ with what they print.

python docs/write_examples.py          after a change of a script that prints the same
python docs/write_examples.py --run    runs them anew (minutes)
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "examples.md"
#: the scripts in their order, each with its words
RUNS = (
    ("make_scenes.py", "my_images", "300"),
    ("own_loop.py", "my_images"),
    ("coco_to_onnx.py", "my_images"),
    ("onnx_without_partlabel.py", "my_images/model.onnx", "my_images/new/0000.jpg", "my_images/new/0001.jpg"),
    ("labelling_round.py", "my_images"),
)
HEAD = """\
# Scripts that run

From a checkout, one after the other; the first draws scenes of handwritten digits with a table that has holes, so
nothing else is needed. Below each stands what it printed; the tests run them on fewer images and compare the form.
"""


def page(outputs: list[str]) -> str:
    """Give the page with what each script printed."""
    parts = [HEAD]
    for (name, *words), output in zip(RUNS, outputs, strict=True):
        source = (ROOT / "examples" / name).read_text(encoding="utf-8")
        about = (ast.get_docstring(ast.parse(source)) or "").split("\n")[0].replace("``", "`")
        code = source.split('"""', 2)[2].strip()
        command = " ".join(["$ python", f"examples/{name}", *words])
        parts += [
            f"\n## {name}\n\n{about}\n",
            f"```console\n{command}\n{output}\n```\n",
            f'<details markdown="1"><summary>The script</summary>\n\n```python\n{code}\n```\n\n</details>\n',
        ]
    return "\n".join(parts)


def kept() -> list[str]:
    """Give what the scripts printed when they were last run, from the page."""
    blocks = re.findall(
        r"^```console\n\$ [^\n]*\n(.*?)^```", TARGET.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [block.strip() for block in blocks]


def outputs() -> list[str]:
    """Run the scripts one after the other in a folder of their own."""
    printed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, *words in RUNS:
            command = [sys.executable, str(ROOT / "examples" / name), *words]
            done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
            printed.append(done.stdout.strip())
            print(name, file=sys.stderr)
    return printed


if __name__ == "__main__":
    TARGET.write_text(page(outputs() if "--run" in sys.argv else kept()), encoding="utf-8")
