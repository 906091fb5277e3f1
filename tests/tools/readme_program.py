"""README's program, as somebody who reads it would build it.

    readme_program.py FOLDER

Writes to the folder model.onnx, readme.c, which is the fragment of README.md with what stands around it (tests/docs/around/readme.c),
a CMake project, and all.sh, which compiles the model there, builds the program in four ways, by pkg-config and by find_package, shared
and static, and runs each. Needs numpy and onnx."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/support"), os.path.join(ROOT, "tests/docs")]
import fixtures  # noqa: E402

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(readme LANGUAGES C)
find_package(hypatia 0.1 REQUIRED COMPONENTS static)
add_executable(cmake-shared readme.c)
target_link_libraries(cmake-shared PRIVATE hypatia::hypatia-rt)
add_executable(cmake-static readme.c)
target_link_libraries(cmake-static PRIVATE hypatia::hypatia-rt-static)
"""

ALL = """#!/bin/sh
set -eu
hypatiac model.onnx -o plan.bin
hypatia inspect plan.bin
hypatia verify plan.bin
cc -o pkg-config-shared readme.c $(pkg-config --cflags --libs hypatia-rt)
cc -o pkg-config-static readme.c $(pkg-config --cflags --libs hypatia-rt-static)
cmake -S . -B cmake > log && cmake --build cmake >> log || { cat log; exit 1; }
cp cmake/cmake-shared cmake/cmake-static .
for how in pkg-config-shared pkg-config-static cmake-shared cmake-static; do
    echo "$how"
    ./$how
done
"""


def write(folder):
    fixtures.mlp(os.path.join(folder, "model.onnx"), [64, 32, 10])
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        block = re.search(r"<!-- c: readme.c -->\n\n((?:    .*\n)+)", file.read())[1]
    with open(os.path.join(ROOT, "tests/docs/around/readme.c"), encoding="utf-8") as file:
        around = file.read()
    for name, text in {"readme.c": around.replace("@BLOCK@", block), "CMakeLists.txt": PROJECT, "all.sh": ALL}.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    os.chmod(os.path.join(folder, "all.sh"), 0o755)


if __name__ == "__main__":
    write(sys.argv[1])
