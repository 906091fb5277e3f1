"""The Debian packages of this build: what they hold, what they depend on, that two are the same bytes, and that README's program
can be built with them wherever they are unpacked, through pkg-config and through find_package, shared and static."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import readme_program

ROOT = readme_program.ROOT
BUILD = os.path.dirname(os.environ["HYP_BIN"])
NAMES = ["hypatia-doc", "hypatia-tools", "libhypatia-dev", "libhypatia-rt0", "libhypatia0"]
HEADERS = ["compiler.h", "egglog.h", "egraph.h", "nn.h", "onnx.h", "runtime.h", "runtime.hpp", "signature.h", "status.h", "tensor_io.h", "types.h"]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def make(folder, *options, **environment):
    """The packages by their names."""
    run(os.path.join(ROOT, "scripts/package.sh"), "--build", BUILD, "--out", folder, *options, env={**os.environ, "SOURCE_DATE_EPOCH": "1750000000", **environment})
    made = {os.path.basename(path).split("_")[0]: path for path in glob.glob(folder + "/*.deb")}
    assert sorted(made) == NAMES, sorted(made)
    return made


def version():
    with open(os.path.join(ROOT, "include/hypatia/types.h"), encoding="utf-8") as file:
        text = file.read()
    return ".".join(re.search(rf"#define HYP_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def check_fields(made):
    now = version()
    fields = {name: dict(line.split(": ", 1) for line in run("dpkg-deb", "-f", path).splitlines() if line[:1].isalpha()) for name, path in made.items()}
    ours = {f"libhypatia-rt0 (= {now})", f"libhypatia0 (= {now})"}
    for name, field in fields.items():
        assert field["Version"] == now and field["Maintainer"] and field["Description"], field
        depends = set(field.get("Depends", "").split(", "))
        assert (ours <= depends) == (name in ("libhypatia-dev", "hypatia-tools")), (name, depends)
        linked = {word.split()[0] for word in depends if word and not word.startswith("libhypatia")}
        # What is linked is found in the files themselves; cuBLAS and the driver are not among it, nor is a compiler.
        allowed = {"libhypatia-rt0": {"libc6", "libprotobuf-c1", "libdnnl2", "libdnnl3", "libgcc-s1"}, "hypatia-doc": set(), "libhypatia-dev": set()}
        assert linked <= allowed.get(name, allowed["libhypatia-rt0"] | {"libjansson4"}), (name, linked)
        assert ("libc6" in linked) == (name not in ("hypatia-doc", "libhypatia-dev")), (name, linked)
    assert fields["hypatia-doc"]["Architecture"] == "all" != fields["hypatia-tools"]["Architecture"]
    major, minor, _ = now.split(".")
    for library in ("hypatia-rt", "hypatia"):
        name = f"lib{library}{major}"
        assert run("dpkg-deb", "-I", made[name], "shlibs") == f"lib{library} {major} {name} (>= {now}), {name} (<< {major}.{int(minor) + 1}~)\n"


def check_contents(made):
    held = {}
    for name, path in made.items():
        lines = [line.split(None, 5) for line in run("dpkg-deb", "-c", path).splitlines()]
        assert all(line[1] == "root/root" and line[3] == "2025-06-15" for line in lines), lines[:3]
        held[name] = {re.sub(r" (->|link to) .*", "", line[5])[len("./usr/"):] for line in lines if not line[0].startswith("d")}
        for file in ("copyright", "changelog.gz"):
            assert f"share/doc/{name}/{file}" in held[name], name
    whole = [path for files in held.values() for path in files]
    assert len(whole) == len(set(whole)), "two packages have the same file"

    def has(name, *paths):
        assert set(paths) <= held[name], (name, set(paths) - held[name])

    def listed(pattern):
        return [os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, pattern))]

    libraries = {os.path.basename(path): name for name in NAMES for path in held[name] if re.search(r"\.so|\.a$", path)}
    now = version()
    for library, name in (("libhypatia-rt", "libhypatia-rt0"), ("libhypatia", "libhypatia0")):
        for file, where in ((f".so.{now}", name), (".so.0", name), (".so", "libhypatia-dev"), (".a", "libhypatia-dev")):
            assert libraries.pop(library + file) == where, library + file
    assert libraries.pop("libtriton_hypatia.so") == "hypatia-tools"
    assert not libraries, libraries
    assert sorted(os.path.basename(path) for path in held["libhypatia-dev"] if path.startswith("include/hypatia/")) == HEADERS
    assert len([path for path in held["libhypatia-dev"] if path.endswith(".pc")]) == 4
    for tool in ("hypatia", "hypatiac", "hypatia-egraph"):
        has("hypatia-tools", f"bin/{tool}", f"share/man/man1/{tool}.1.gz", f"share/bash-completion/completions/{tool}",
            f"share/fish/vendor_completions.d/{tool}.fish")
    has("hypatia-tools", "share/zsh/vendor-completions/_hypatia")
    data = listed("rules/*") + listed("profiles/*") + [path[len("share/"):] for path in listed("share/schemas/*")]
    has("hypatia-tools", *["share/hypatia/" + path for path in data])
    has("hypatia-doc", *["share/doc/hypatia/" + path for path in listed("docs/*.md") + ["README.md", "CHANGELOG.md", "examples/digits/digits.c"]])
    has("hypatia-doc", *[f"share/man/man3/{name}.3.gz" for name in ("hypatia_runtime.h", "hyp_engine_load_file", "hyp_egraph_create")])
    return held


def check_use(made, folder):
    for path in made.values():
        run("dpkg-deb", "-x", path, folder + "/unpacked")
    prefix = folder + "/somewhere"
    os.rename(folder + "/unpacked/usr", prefix)
    libraries = os.path.dirname(glob.glob(prefix + "/lib/**/libhypatia-rt.a", recursive=True)[0])
    clean = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    work = folder + "/work"
    os.mkdir(work)
    readme_program.write(work)
    run(prefix + "/bin/hypatiac", work + "/model.onnx", "-o", work + "/plan.bin", env=clean)  # tools find their libraries themselves
    found = {"LD_LIBRARY_PATH": libraries, "PKG_CONFIG_PATH": libraries + "/pkgconfig", "CMAKE_PREFIX_PATH": prefix}
    found["PATH"] = prefix + "/bin:" + os.environ["PATH"]
    said = run("./all.sh", cwd=work, env={**clean, **found})
    assert said.count("10 numbers") == 4 and "PASSED" in said, said
    for program in glob.glob(work + "/*-static") + glob.glob(work + "/*-shared"):
        needed = "libhypatia-rt.so.0" in run("readelf", "-d", program)
        assert needed == program.endswith("-shared"), program
    return [line for line in said.splitlines() if re.match(r"(pkg-config|cmake)-", line)]


def check_folders():
    """A build names no folder of its own for its libraries, for that would be in the number of the build."""
    for program in ("hypatia", "hypatiac", "hypatia-egraph"):
        said = run("readelf", "-d", os.path.join(BUILD, "bin", program))
        assert "RUNPATH" in said and os.path.realpath(BUILD) not in said and BUILD not in said, said


def main():
    lacking = [tool for tool in ("dpkg-deb", "dpkg-shlibdeps", "cpack", "readelf", "pkg-config", "strip") if not shutil.which(tool)]
    if lacking:
        print("skipped: there is no", ", ".join(lacking))
        sys.exit(77)
    check_folders()
    with tempfile.TemporaryDirectory() as folder:
        made = make(folder + "/one")
        check_fields(made)
        held = check_contents(made)
        print("README's program: " + ", ".join(check_use(made, folder)))
        os.umask(0o077)
        again = make(folder + "/two", "--unchecked", TZ="Asia/Tokyo", LC_ALL="C")
        for name, path in made.items():
            with open(path, "rb") as one, open(again[name], "rb") as two:
                assert one.read() == two.read(), f"{name}: two packages of the same files differ"
        print(f"{len(made)} packages, {sum(map(len, held.values()))} files, the same bytes again")


main()
