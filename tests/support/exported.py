"""Plans as C99: written by hypatia export-c, compiled, called in this process or run as a program by another processor."""
import ctypes
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hyp  # noqa: E402
import numpy as np  # noqa: E402

COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes"]
TOLERANCE = 2e-5  # of the largest number of a result: sums of floats, one after the other
TYPES = {"float": np.float32, "int64_t": np.int64, "int32_t": np.int32, "int16_t": np.int16, "int8_t": np.int8,
         "uint64_t": np.uint64, "uint32_t": np.uint32, "uint16_t": np.uint16, "uint8_t": np.uint8, "unsigned char": np.bool_,
         "uint16_t of f16": np.float16, "uint16_t of bf16": hyp.DTYPES.get(16)}
# What may be lost of the largest number: rounding to the type, where sums differ.
FLOATS = {np.dtype(t): near for t, near in ((np.float32, TOLERANCE), (np.float16, 4e-3), (hyp.DTYPES.get(16), 3e-2)) if t}


def run(*command, code=0, says=""):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    assert says in done.stderr, f"{command}: {done.stderr}"
    return done.stdout


class Exported:
    """A plan as NAME.c, beside which what is made of it lies. `weights`: in a file of their own."""

    def __init__(self, plan, weights=False):
        self.stem = os.path.splitext(plan)[0]
        self.source, self.header = f"{self.stem}.c", f"{self.stem}.h"
        self.weights = f"{self.stem}.weights" if weights else None
        run("hypatia", "export-c", plan, "-o", self.source, "--header", self.header, *(["--weights", self.weights] if weights else []))
        with open(self.source) as file:
            self.text = file.read()
        found = re.findall(r"^ \* (in|out)(\d+): ([^,]*), ([a-z0-9_ ]+) \[([^\]]*)\]$", self.text, re.MULTILINE)
        self.inputs, self.outputs = [[(TYPES[t], tuple(map(int, dims.split()))) for kind, _, _, t, dims in found if kind == wanted]
                                     for wanted in ("in", "out")]
        self.work = int(re.search(r"model_WORK = (\d+)", self.text).group(1))

    def build(self, compiler, *options):
        """A shared object, which needs no library but C's."""
        library = os.path.abspath(f"{self.stem}.{compiler}.so")
        subprocess.run([compiler, *FLAGS, *options, "-ffp-contract=off", "-shared", "-fPIC", "-o", library, self.source, "-lm"], check=True)
        needed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
        libraries = [line.split("[")[1].split("]")[0] for line in needed.splitlines() if "(NEEDED)" in line]
        assert all(lib in ("libm.so.6", "libc.so.6") for lib in libraries), needed
        return library

    def call(self, library, inputs, code=0):
        """What the function gives, with bytes around outputs and workspace that it may not write, and NaN in them before."""
        made = [np.full(int(np.prod(dims)) * np.dtype(t).itemsize + 64, 255, np.uint8) for t, dims in self.outputs]
        space = np.full(self.work + 64, 255, np.uint8)
        given = [np.ascontiguousarray(x, t) for x, (t, _) in zip(inputs, self.inputs)]
        assert [x.shape for x in given] == [dims for _, dims in self.inputs]
        weights = [np.fromfile(self.weights, np.uint8)] if self.weights else []
        before = [x.copy() for x in given]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in [*weights, *given, *made, space]]
        returned = ctypes.CDLL(library).model(*pointers)
        assert returned == code if code == 0 else returned > 0, returned
        assert all((m[-64:] == 255).all() for m in made) and (space[-64:] == 255).all()
        assert all(a.tobytes() == b.tobytes() for a, b in zip(given, before))
        return [m[:-64].view(np.uint8 if t is np.bool_ else t).reshape(dims) for m, (t, dims) in zip(made, self.outputs)]

    def program(self, command):
        """A program that reads inputs and writes outputs, made by this compiler with its options."""
        def bytes_of(t, dims):
            return int(np.prod(dims)) * np.dtype(t).itemsize

        reads = "".join(f"    static union {{ double d; char c[{bytes_of(*x) + 1}]; }} x{i};\n"
                        f"    if (fread(x{i}.c, 1, {bytes_of(*x)}, stdin) != {bytes_of(*x)}) return 1;\n" for i, x in enumerate(self.inputs))
        writes = "".join(f"    fwrite(to{i}.c, 1, {bytes_of(*x)}, stdout);\n" for i, x in enumerate(self.outputs))
        results = "".join(f"    static union {{ double d; char c[{bytes_of(*x) + 1}]; }} to{i};\n" for i, x in enumerate(self.outputs))
        arguments = ", ".join([f"(const void *)&x{i}" for i in range(len(self.inputs))] + [f"(void *)&to{i}" for i in range(len(self.outputs))])
        with open(f"{self.stem}_main.c", "w") as file:
            file.write(f'#include "{os.path.basename(self.header)}"\n#include <stdio.h>\nint main(void)\n{{\n'
                       f"    static struct model_work work;\n{reads}{results}    if (sizeof work > model_WORK) return 2;\n"
                       f"    if (model({arguments}, &work)) return 3;\n{writes}    return 0;\n}}\n")
        program = os.path.abspath(f"{self.stem}.{'_'.join(command).replace('/', '_')}")
        return program, subprocess.run([*command, *FLAGS, "-O2", "-o", program, f"{self.stem}_main.c", self.source, "-lm", "-static"],
                                       capture_output=True, text=True)

    def run_program(self, command, inputs):
        given = b"".join(np.ascontiguousarray(x, t).tobytes() for x, (t, _) in zip(inputs, self.inputs))
        made = subprocess.run(command, input=given, check=True, capture_output=True).stdout
        results, at = [], 0
        for t, dims in self.outputs:
            count = int(np.prod(dims))
            results.append(np.frombuffer(made, np.uint8 if t is np.bool_ else t, count, at).reshape(dims))
            at += count * np.dtype(t).itemsize
        assert at == len(made)
        return results


def compare(made, wanted, tolerance=TOLERANCE):
    for m, want in zip(made, wanted):
        if want.dtype not in FLOATS:
            np.testing.assert_array_equal(m, want)
            continue
        near = max(tolerance, FLOATS[want.dtype])
        assert m.dtype == want.dtype
        m, want = m.astype(np.float32), want.astype(np.float32)
        finite = np.abs(want[np.isfinite(want)])
        np.testing.assert_allclose(m, want, rtol=near, atol=near * max(1, finite.max() if finite.size else 0))


def reference(plan, feeds):
    with hyp.Engine(plan, "reference") as engine:
        return engine.run(feeds)
