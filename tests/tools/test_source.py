"""The source archive: two of a commit are the same bytes, it has all that is committed, and it builds without git and without a network.
The runtime that is built of it in two folders is the same, byte for byte, and names neither."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DHYPATIA_COMPILER=OFF", "-DHYPATIA_ONEDNN=OFF", "-DHYPATIA_CUDA=OFF", "-DBUILD_TESTING=OFF"]
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


def build(sources, binary, cut):
    """The libraries of these sources, in a build folder of another name each time."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "CMAKE_", "SOURCE_DATE"))}
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

        # The commit is told by the archive, within another repository, too.
        run("git", "init", "-q", folder)
        written = folder + "/commit.h"
        sources = os.path.join(folder, "here", top)
        run("cmake", "-DSOURCE=" + sources, "-DOUT=" + written, "-P", sources + "/cmake/WriteCommit.cmake")
        assert read(written).decode() == f'#define HYP_COMMIT "{commit[:12]}"\n', read(written)
        print(f"{len(held)} files, {os.path.getsize(path)} bytes; built twice{' without a network' if cut else ''}: the same")


main()
