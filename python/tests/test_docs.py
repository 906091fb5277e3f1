"""The code of docs/python.md, block by block, in one program."""

import os
import re

import pytest
from conftest import ROOT

PAGE = os.path.join(ROOT, "docs/python.md")


def blocks():
    with open(PAGE, encoding="utf-8") as file:
        return re.findall(r"<!-- by: python_package -->\n\n```python\n(.*?)```", file.read(), re.S)


def test_page(tmp_path, monkeypatch, capsys):
    os.symlink(os.path.join(ROOT, "examples"), tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    names = {}
    assert len(blocks()) >= 5
    for block in blocks():
        exec(compile(block, PAGE, "exec"), names)
    said = capsys.readouterr().out
    for text in ("12 nodes that run -> 2", "PASSED", "by mul-one", "built-in rules", "median"):
        assert text in said
    assert os.path.getsize("digits.html") > 10000
