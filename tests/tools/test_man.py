"""The manual pages: those of the tools name every option that --help lists, where it belongs, and no other; those of the functions, which are
made of the headers, are there for all of them."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

COMMANDS = {"hypatiac": [None], "hypatia": ["run", "bench", "tune", "train", "export", "export-c", "inspect", "diff", "report", "verify", "serve", "triton", "keygen", "sign"], "hypatia-egraph": ["saturate", "extract", "run"]}
MAN3 = os.path.join(hyp.ROOT, "scripts/man3.py")
HEADERS = sorted(glob.glob(os.path.join(hyp.ROOT, "include/hypatia/*.h")))


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def listed(*command):
    """Options of --help: the long ones, and (short, long)."""
    done = hyp.tool(*command, "--help")
    rows = re.findall(r"^  (?:-(\w), |    )--([a-z0-9-]+)", done.stdout, flags=re.M)
    assert done.returncode == 0 and len(rows) > 1, (command, done.stdout)
    return {name for _, name in rows}, {(short, name) for short, name in rows if short}


def options_of(tool, commands):
    """By the sections of the page: {command: its options}. A section OPTIONS is of all; OPTIONS OF RUN AND DIFF of these two."""
    page = read(os.path.join(hyp.ROOT, f"man/{tool}.1")).replace("\\-", "-")
    parts = re.split(r"^\.SH (.*)\n", page, flags=re.M)
    found = {command: set() for command in commands}
    for title, text in zip(parts[1::2], parts[2::2]):
        if title.startswith("OPTIONS"):
            of = {word.lower() for word in re.findall(r"[A-Z-]+", title)} & {str(c) for c in commands}
            for command in commands:
                if not of or command in of:
                    found[command] |= set(re.findall(r"--([a-z][a-z0-9-]*)", text))
    return found, page


def check_tools():
    count = 0
    for tool, commands in COMMANDS.items():
        told, page = options_of(tool, commands)
        known = {"version"}
        for command in commands:
            names, shorts = listed(*filter(None, (tool, command)))
            assert names <= told[command], f"{tool}.1 does not tell of {command}'s {sorted(names - told[command])}"
            for short, name in shorts:
                assert re.search(rf"-{short}\b[^\n]*--{name}\b", page) or short in "qvh", f"{tool}.1: -{short} of --{name}"
            known |= names
            count += len(names)
        stale = set().union(*told.values()) - known
        assert not stale, f"{tool}.1 tells of {stale}, which no command takes"
    listed_here = re.findall(r"^  ([a-z-]+) ", hyp.tool("hypatia", "--help").stdout, flags=re.M)
    assert sorted(listed_here) == sorted(COMMANDS["hypatia"]), "a command is missing here"
    return count


def check_functions(folder):
    subprocess.run([sys.executable, MAN3, "9.8.7", folder, *HEADERS], check=True)
    pages = {os.path.basename(path)[:-2]: read(path) for path in glob.glob(folder + "/*.3")}
    names = set()
    for path in HEADERS:
        text = re.sub(r"/\*.*?\*/", " ", read(path), flags=re.S)
        names |= set(re.findall(r"^HYP_API\b[^;(]*?\b(hyp_\w+)\(", text, flags=re.M))
        names |= set(re.findall(r"^HYP_BY_VALUE\(\w+, (hyp_\w+),", text, flags=re.M))
        assert f"hypatia_{os.path.basename(path)}" in pages
    assert len(names) > 150, len(names)
    for name in sorted(names):
        page = pages.get(name, "")
        lead = re.fullmatch(r"\.so man3/(\w+)\.3\n", page)
        page = pages[lead[1]] if lead else page
        assert re.search(rf"^\.SH NAME\n.*\b{name}\b", page, flags=re.M), f"no page is of {name}"
        synopsis, description = re.search(r"\.SH SYNOPSIS\n(.*?)\.SH DESCRIPTION\n(.*?)\.SH SEE ALSO", page, flags=re.S).groups()
        assert f"{name}(" in synopsis and "#include <hypatia/" in synopsis and len(description) > 30 and "9.8.7" in page, name
    assert "the one taken: never AUTO" in pages["hyp_nn_create"], "what stands behind a function in its line"
    assert "struct hyp_engine_options {" in pages["hypatia_runtime.h"]
    return len(names)


def check_rendering(folder):
    if not shutil.which("groff"):
        print("groff is not installed: it did not look at the pages")
        return
    for path in glob.glob(os.path.join(hyp.ROOT, "man/*.1")) + glob.glob(folder + "/*.3"):
        if not read(path).startswith(".so"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", "-K", "utf8", path], capture_output=True, text=True)
            warned = [line for line in done.stderr.splitlines() if "break" not in line and "adjust" not in line and "can't" not in line]
            assert done.returncode == 0 and not warned, f"{path}\n{done.stderr}"


def check_refusing(folder):
    """A function without words is told of, and odd ones come through."""
    path = folder + "/odd.h"
    with open(path, "w", encoding="utf-8") as file:
        file.write("/* hypatia/odd.h - odd. */\n\n/* .so x\\n - 'a'. */\nHYP_API int hyp_odd(void (*call)(int), const char *x);\n\nHYP_API void hyp_bare(int a,\n    int b);\n")
    done = subprocess.run([sys.executable, MAN3, "1", folder + "/odd", path], capture_output=True, text=True)
    assert done.returncode == 1 and "hyp_bare" in done.stderr and "hyp_odd" not in done.stderr, done.stderr
    assert "\\&.so x\\en" in read(folder + "/odd/hyp_odd.3") and "void hyp_bare(int a, int b);" in read(folder + "/odd/hyp_bare.3")


def main():
    options = check_tools()
    with tempfile.TemporaryDirectory() as folder:
        functions = check_functions(folder + "/pages")
        check_rendering(folder + "/pages")
        check_refusing(folder)
    print(f"{options} options of the tools, {functions} functions")


main()
