"""The libraries export what the public headers mark HYP_API, no more and no less, each under the version of this release; and
structs of these headers start with their size, but for those that callers make arrays of, which never change."""
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OF = {"status": {"hypatia", "hypatia-rt"}, "types": {"hypatia", "hypatia-rt"}, "signature": {"hypatia", "hypatia-rt"}, "runtime": {"hypatia-rt"}, "nn": {"hypatia-rt"},
      "compiler": {"hypatia"}, "egglog": {"hypatia"}, "egraph": {"hypatia"}, "tensor_io": {"hypatia"}, "onnx": set()}
FIXED = {"hyp_tensor", "hyp_diag", "hyp_samples", "hyp_plan_run", "hyp_nn_layer", "hyp_nn_gradient", "hyp_egglog_value"}


def without_size(path):
    """Structs that may never get another field. Those of egraph.h say that they may change with every minor release."""
    text = re.sub(r"/\*.*?\*/", " ", open(path).read(), flags=re.S)
    found = re.findall(r"typedef struct (\w+)\s*\{\s*([^;]*);", text)
    return {name for name, first in found if " ".join(first.split()) != "size_t size" and not path.endswith("egraph.h")}


def main():
    if not shutil.which("nm"):
        print("skipped: there is no nm")
        sys.exit(77)
    wanted, bad = {"hypatia": set(), "hypatia-rt": set()}, []
    for path in glob.glob(os.path.join(ROOT, "include/hypatia/*.h")):
        text = re.sub(r"/\*.*?\*/", " ", open(path).read(), flags=re.S)
        names = set(re.findall(r"^HYP_API\b[^;(]*?\b(hyp_\w+)\(", text, flags=re.M))
        for library in OF[os.path.basename(path)[:-2]]:
            wanted[library] |= names
        bad += [f"{name} does not start with its size" for name in sorted(without_size(path) - FIXED)]
    types = open(os.path.join(ROOT, "include/hypatia/types.h")).read()
    major, minor = (re.search(rf"#define HYP_VERSION_{part} (\d+)", types).group(1) for part in ("MAJOR", "MINOR"))
    for library, names in wanted.items():
        path = os.path.join(os.environ["HYP_LIB"], f"lib{library}.so")
        listed = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        found = {line.split()[2] for line in listed.splitlines() if line.split()[1] != "A"}
        assert len(names) > 50, (library, len(names))
        expected = {f"{name}@@HYPATIA_{major}.{minor}" for name in names}
        bad += [f"{library} lacks {name}" for name in sorted(expected - found)]
        bad += [f"{library} also exports {name}" for name in sorted(found - expected)]
    print("\n".join(bad) or f"{sum(map(len, wanted.values()))} functions, all as declared")
    sys.exit(bool(bad))


main()
