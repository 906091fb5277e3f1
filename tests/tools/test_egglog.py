"""hypatia-egraph run: our programs give what egglog gives for them (kept beside them, and asked again where egglog is installed),
and the tool says what it refuses."""
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(os.environ.get("HYP_BIN", os.path.join(ROOT, "build/dev/bin")), "hypatia-egraph")


def run(*command, code=0):
    done = subprocess.run([TOOL, "run", *map(str, command)], capture_output=True, text=True)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout if code == 0 else done.stderr


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def check_programs():
    programs = sorted(glob.glob(os.path.join(ROOT, "tests/egraph/egglog/*.egg")))
    assert len(programs) >= 8
    for path in programs:
        with open(path[:-len("egg")] + "out", encoding="utf-8") as file:
            wanted = file.read()
        assert run(path) == wanted, path
        assert run(path) == run(path)
    return programs


def check_with_egglog(programs):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/egglog_tests.py"), "--tool", TOOL, *programs],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = done.stdout.splitlines()[-1]
    assert counts in (f"{len(programs)} agree", f"{len(programs)} alone"), done.stdout
    print(f"egglog: {counts}")


def check_page(folder):
    """The program of docs/egglog.md."""
    with open(os.path.join(ROOT, "docs/egglog.md"), encoding="utf-8") as file:
        program = file.read().split("```lisp\n")[1].split("```")[0]
    assert run(write(folder, "page.egg", program)) == "2\n"


def check_files(folder):
    write(folder, "edges.tsv", "1\t2\n2\t3\r\n\n")
    write(folder, "names.tsv", "x\t1.5\n")
    write(folder, "base.egg", '(relation edge (i64 i64))\n(function value (String) f64 :no-merge)\n(input edge "edges.tsv")\n')
    main = write(folder, "main.egg", '(include "base.egg")\n(input value "names.tsv")\n(check (edge 2 3) (= (value "x") 1.5))\n(print-size edge)\n')
    assert run(main) == "2\n"
    assert "may not read files" in run("--no-files", main, code=3)
    write(folder, "edges.tsv", "1\n")
    assert "base.egg:3:1" in run(main, code=1)
    write(folder, "base.egg", '(include "main.egg")')
    assert "more than 64 deep" in run(main, code=1)
    assert "cannot read" in run(os.path.join(folder, "absent.egg"), code=1)


def check_codes(folder):
    good = write(folder, "good.egg", "(extract (+ 1 2))")
    wrong = write(folder, "wrong.egg", "(extract 1)\n  (check (= 1 2))")
    assert run(good, good) == "3\n3\n"
    assert "wrong.egg:2:3: this does not hold" in run(good, wrong, good, code=4)
    assert "is not read" in run(write(folder, "outside.egg", "(relation r (BigRat))"), code=3)
    assert "a program is needed" in run(code=2)
    endless = write(folder, "endless.egg", "(relation n (i64)) (rule ((n x)) ((n (+ x 1)))) (n 0) (run-schedule (saturate (run)))")
    assert "1000" in run("--rows", 1000, endless, code=1)
    assert "0.1 seconds" in run("--seconds", 0.1, endless, code=1)
    assert "1000000" in run("--bytes", 1000000, endless, code=1)
    assert run("--rows", "none", endless, code=2)
    done = subprocess.run([TOOL, "run", "--times", good], capture_output=True, text=True)
    assert "0 iterations, 0 matches" in done.stderr


def check_interrupt(folder):
    """Ctrl-C ends a program that would not end."""
    path = write(folder, "long.egg", "(relation n (i64)) (rule ((n x)) ((n (+ x 1)))) (n 0) (extract 7) (run-schedule (saturate (run)))")
    with subprocess.Popen([TOOL, "run", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=0) as process:
        try:
            process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            pass
        process.send_signal(2)
        out, error = process.communicate(timeout=60)
    assert process.returncode == 1 and "cancelled" in error and out == "7\n", (process.returncode, out, error)


def main():
    check_with_egglog(check_programs())
    with tempfile.TemporaryDirectory() as folder:
        check_page(folder)
        check_files(folder)
        check_codes(folder)
        check_interrupt(folder)


if __name__ == "__main__":
    main()
