"""The source archive: two of a commit are the same bytes, it has all that is committed, and it builds without git and without a network.
The runtime that is built of it in two folders is the same, byte for byte, and names neither. Of the whole, with the compiler, tools and
tests, all is there that any command of the build reads, and what is generated is made."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Little is optimized: it is built twice, and names of folders come into libraries by other ways.
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG", "-DHYPATIA_COMPILER=OFF", "-DHYPATIA_ONEDNN=OFF",
           "-DHYPATIA_CUDA=OFF", "-DBUILD_TESTING=OFF"]
LIBRARIES = ["libhypatia-rt.so.0", "libhypatia-rt.a"]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip()


def make(folder, commit, **environment):
    run(os.path.join(ROOT, "scripts/source.sh"), "--commit", commit, "--out", folder, env={**os.environ, **environment})
    return glob.glob(folder + "/hypatia-*.tar.gz")[0]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def alone():
    """What comes before a command that is to have no network, where that is allowed here."""
    return ["unshare", "-rn"] if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode == 0 else []


def offline():
    """An environment in which nothing tells of a repository, and what asks for a network by a proxy finds none."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SOURCE_DATE")) and
            (not name.startswith("CMAKE_") or "LAUNCHER" in name)}
    nowhere = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "https", "ftp", "all")}
    return {**kept, **nowhere, **{name.upper(): value for name, value in nowhere.items()}, "GIT_ALLOW_PROTOCOL": "file"}


# What is made of other files by tools of the build: a target that makes each kind.
GENERATED = ["generated/plan.pb-c.c", "src/rewrite/builtin.c", "src/c99/builtin.c", "generated/commit.h"]


def check_whole(sources, binary, cut):
    """All targets: every file that a command reads is in the archive or made by another command, which ninja sees to before it begins. Where
    the build has globs, as those of code for GPUs, it cannot tell of it without building."""
    environment = offline()
    run(*cut, "cmake", "-S", sources, "-B", binary, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DHYPATIA_CUDA=OFF", env=environment)
    planned = run(*cut, "ninja", "-C", binary, "-n", "-v", "all", env=environment)
    commands = [line for line in planned.splitlines() if line.startswith("[")]
    fetching = [line for line in commands if re.search(r"(^|[\s/])(git (clone|fetch|submodule)|curl|wget|pip) |ExternalProject|FetchContent", line)]
    assert len(commands) > 300 and not fetching, fetching
    known = set(run("ninja", "-C", binary, "-t", "targets", "all", env=environment).split())
    made = [name for name in GENERATED if name + ":" in known]
    assert len(made) >= 3, made
    run(*cut, "ninja", "-C", binary, *made, env=environment)
    assert all(os.path.getsize(os.path.join(binary, name)) for name in made)
    return len(commands)


def build(sources, binary, cut):
    """The libraries of these sources, in a build folder of another name each time."""
    environment = {name: value for name, value in offline().items() if not name.startswith("CMAKE_")}
    run(*cut, "cmake", "-S", sources, "-B", binary, "-G", "Ninja", *OPTIONS, env=environment)
    run(*cut, "cmake", "--build", binary, "--target", "hypatia-rt", "hypatia-rt-static", env=environment)
    return {name: read(os.path.join(binary, "lib", name)) for name in LIBRARIES}


def main():
    git = ["git", "-C", ROOT]
    if not shutil.which("ninja") or not shutil.which("git") or subprocess.run([*git, "rev-parse", "HEAD:./tests"], capture_output=True).returncode:
        print("skipped: these sources are in no git repository, or there is no ninja")
        sys.exit(77)
    # What is changed here, too, as a commit that no branch has.
    commit = run(*git, "-c", "user.name=t", "-c", "user.email=t@example.org", "stash", "create") or run(*git, "rev-parse", "HEAD")
    with tempfile.TemporaryDirectory() as folder:
        path = make(folder + "/one", commit)
        os.umask(0o077)
        assert read(path) == read(make(folder + "/two", commit, TZ="Asia/Tokyo")), "two archives of a commit differ"
        with tarfile.open(path) as archive:
            top = os.path.commonpath(archive.getnames())
            held = {member.name[len(top) + 1:] for member in archive.getmembers() if not member.isdir()}
        assert held == set(run(*git, "ls-tree", "-r", "--name-only", commit).splitlines())
        assert re.fullmatch(r"hypatia-\d+\.\d+\.\d+", top) and os.path.basename(path) == top + ".tar.gz"

        cut, built = alone(), []
        for name, binary in (("here", "here/build"), ("somewhere/else", "out/of/the sources")):
            os.makedirs(os.path.join(folder, name))
            run("tar", "-xzf", path, "-C", os.path.join(folder, name))
            built.append(build(os.path.join(folder, name, top), os.path.join(folder, binary), cut))
        for name in LIBRARIES:
            assert built[0][name] == built[1][name], f"{name}: two builds differ"
            assert folder.encode() not in built[0][name], f"{name} names where it was built"

        commands = check_whole(os.path.join(folder, "here", top), folder + "/whole", cut)

        # The commit is told by the archive, within another repository, too.
        run("git", "init", "-q", folder)
        written = folder + "/commit.h"
        sources = os.path.join(folder, "here", top)
        run("cmake", "-DSOURCE=" + sources, "-DOUT=" + written, "-P", sources + "/cmake/WriteCommit.cmake")
        assert read(written).decode() == f'#define HYP_COMMIT "{commit[:12]}"\n', read(written)
        print(f"{len(held)} files, {os.path.getsize(path)} bytes; all is there for {commands} commands; the runtime built twice{' without a network' if cut else ''}: the same")


main()
