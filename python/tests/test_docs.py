"""What the documents show is run: the Python blocks of docs/python.md and of the README, one after
another in each document, and every examples/*.py."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def imported(source):
    found = set(re.findall(r"^\s*(?:import|from) (\w+(?:\.\w+)?)", source, re.MULTILINE))
    parts = {
        "flashcore.torch": "torch",
        "flashcore.jax": "jax",
        "flashcore.huggingface": "transformers",
    }
    return {parts.get(name, name.split(".")[0]) for name in found}


@pytest.mark.parametrize("path", ["docs/python.md", "README.md"])
def test_documents(path):
    sources = blocks(path)
    assert sources, f"{path} shows no Python"
    for source in sources:
        for module in imported(source) & {"torch", "jax", "transformers"}:
            pytest.importorskip(module)
    names = {"__name__": "__main__"}
    for source in sources:
        exec(compile(source, path, "exec"), names)


@pytest.mark.parametrize("path", sorted(p.name for p in (ROOT / "examples").glob("*.py")))
def test_examples(path):
    source = (ROOT / "examples" / path).read_text(encoding="utf-8")
    for module in imported(source) & {"torch", "jax", "transformers"}:
        pytest.importorskip(module)
    said = subprocess.run(
        [sys.executable, ROOT / "examples" / path], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip()
