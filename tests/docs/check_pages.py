"""Every block of README.md and of the pages in docs/ is run, compiled or looked up, or its page says why not.

    check_pages.py [PAGE...]

A page's blocks (indented ones and fenced ones) run in their order in one scratch folder, which begins with what tests/docs/fixtures.py makes for
the page; folders of the repository (examples, scripts, ...) are there, too. What a block is says its first line, or a comment of the page above it:

  lines that begin with a command       each is run by a shell and has to end with 0
  lines of which some begin with "$ "   these are run; the others have to be in what they print, in that order: numbers may differ, "..." stands for anything
  <!-- c: AROUND -->                    C, put in place of @BLOCK@ of tests/docs/around/AROUND; compiled, and run where AROUND has a main
  <!-- c++: AROUND -->                  the same in C++17
  <!-- rules -->                        rewrite rules, which hypatiac reads
  <!-- in: FILE -->                     a quotation: the text is in this file of the repository, whatever the spaces
  <!-- by: TEST -->                     another test of ctest, which is there, sees to it
  <!-- generated: PART -->              of docs/rules.md: docs_rules makes it
  <!-- c and text by: TEST -->          of a whole page: its fenced blocks of C and of text
  <!-- needs: MODULE -->                commands that run where Python has the module, and are left out elsewhere; 'hypatia serve' is one, too
  <!-- text: WHAT -->                   nothing to run: a picture, a grammar, a message
  <!-- not run: REASON -->              what cannot run in a test

A block of another kind without such a comment fails the test. At the end stands how many of each there were.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), HERE]
import hyp  # noqa: E402

hyp.need("onnx", "numpy")
import fixtures  # noqa: E402

COMMANDS = ("cat ", "hypatiac", "hypatia", "hypatia-egraph", "python3", "cmake", "cc", "scripts/", "nsys", "digits", "./", "cd ")
MARK = re.compile(r"<!-- (c|c\+\+|rules|in|by|needs|text|not run|generated)(?:: (.*?))? -->$")
NUMBER = r"[-+]?\d[\d,.]*(?:e[-+]?\d+)?"
LINKED = ("examples", "scripts", "bench", "tests", "profiles", "rules", "include", "docs")


class Block:
    def __init__(self, line, lines, fence, mark):
        self.line, self.lines, self.fence = line, lines, fence
        self.kind, self.about = mark or (None, None)

    def text(self):
        return "\n".join(self.lines) + "\n"


def mark_above(lines, at):
    while at > 0 and not lines[at - 1].strip():
        at -= 1
    found = MARK.match(lines[at - 1].strip()) if at else None
    return found and (found[1], found[2])


def read_blocks(text):
    """Fenced blocks, and indented ones behind an empty line or a comment, also within lists."""
    lines, blocks, at = text.split("\n"), [], 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if line.lstrip().startswith("```"):
            while not lines[end].lstrip().startswith("```"):
                end += 1
            blocks.append(Block(at + 1, lines[at + 1:end], line.strip()[3:] or "text", mark_above(lines, at)))
            end += 1
        elif line.startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            while end < len(lines) and (lines[end].startswith("    ") or (not lines[end].strip() and lines[end + 1:end + 2] and lines[end + 1].startswith("    "))):
                end += 1
            body = lines[at:end]
            indent = min(len(l) - len(l.lstrip()) for l in body if l.strip())
            blocks.append(Block(at + 1, [l[indent:] for l in body], None, mark_above(lines, at)))
        at = end
    return blocks


class Page:
    def __init__(self, path, counts):
        self.path, self.counts, self.folder, self.failed = path, counts, None, []
        self.name = os.path.relpath(path, hyp.ROOT)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.blocks = read_blocks(text)
        whole = re.search(r"^<!-- c and text by: (\S+) -->$", text, re.M)
        for block in self.blocks:
            if whole and block.fence in ("c", "text") and not block.kind:
                block.kind, block.about = "by", whole[1]

    def count(self, what, n=1):
        self.counts[what] = self.counts.get(what, 0) + n

    def fail(self, block, text):
        self.failed.append(f"{self.name}:{block.line}: {text}")

    def run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.folder = folder
            for name in LINKED:
                os.symlink(os.path.join(hyp.ROOT, name), os.path.join(folder, name))
            os.mkdir(os.path.join(folder, "build"))
            fixtures.prepare(self.name, folder)
            try:
                for block in self.blocks:
                    self.check(block)
            finally:
                self.shell("test ! -f serve.pid || kill $(cat serve.pid)")  # a server whose page has failed
        return self.failed

    def check(self, block):
        kind = block.kind
        if kind in ("text", "not run", "in", "by", "c", "c++", "needs") and not block.about:
            self.fail(block, f"'{kind}' says nothing")
        elif kind == "generated":  # docs_rules makes these
            self.count("seen to by other tests")
        elif kind == "text":
            self.count("of text")
        elif kind == "not run":
            self.count("not run")
            print(f"not run: {self.name}:{block.line}: {block.about}")
        elif kind == "in":
            self.check_quotation(block)
        elif kind == "by":
            self.check_other_test(block)
        elif kind in ("c", "c++"):
            self.compile(block, kind)
        elif kind == "rules":
            self.check_rules(block)
        elif any(line.startswith("$ ") for line in block.lines):
            self.check_session(block)
        elif block.lines[0].startswith(COMMANDS):
            self.check_commands(block)
        else:
            self.fail(block, f"what is this block? A comment above it has to say (tests/docs/check_pages.py): {block.lines[0]!r}")

    # ---- commands ----

    def shell(self, command):
        env = os.environ | {"PATH": os.pathsep.join((hyp.BIN, os.path.dirname(sys.executable), os.environ["PATH"])), "OMP_NUM_THREADS": "1",
                            "LD_LIBRARY_PATH": hyp.LIB, "PYTHONPATH": os.pathsep.join(sys.path[:1])}
        return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], cwd=self.folder, env=env, capture_output=True, text=True,
                              errors="replace", timeout=300)

    def check_commands(self, block):
        text = block.text()
        commands = [text] if "<<" in text else [c for c in text.replace("\\\n", " ").split("\n") if c.strip()]  # a here-document stays whole
        if block.kind == "needs" and not fixtures.has(block.about):
            self.count(f"commands left out without {block.about}", len(commands))
            return
        for command in commands:
            done = self.shell(command)
            self.count("commands run")
            if done.returncode:
                self.fail(block, f"{command}: exit code {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}")

    def check_session(self, block):
        command, wanted, all = None, [], []
        for line in [*block.lines, "$ "]:
            if not line.startswith("$ "):
                wanted.append(line)
                continue
            if command:
                all.append((command, wanted))
            command, wanted = line[2:], []
        if block.kind == "needs" and not fixtures.has(block.about):
            self.count(f"commands left out without {block.about}", len(all))
            return
        for command, wanted in all:
            done = self.shell(command)
            self.count("commands run, with what they print")
            if done.returncode:
                self.fail(block, f"{command}: exit code {done.returncode}\n{done.stderr[-1500:]}")
                continue
            said = re.sub(r"\s+", " ", done.stdout + done.stderr)
            text = re.sub(r"\s+", " ", "\n".join(wanted)).strip()
            pattern = ".*?".join(re.sub(r"(?:%s)" % NUMBER, "\0", part).replace("\0", "@N@") for part in text.split("..."))
            pattern = ".*?".join(re.escape(part).replace("@N@", NUMBER) for part in pattern.split(".*?"))
            if not re.search(pattern, said):
                self.fail(block, f"{command}: prints something else:\n{done.stdout[:1500]}")

    # ---- code ----

    def compile(self, block, kind):
        compiler = os.environ.get("HYP_CC" if kind == "c" else "HYP_CXX", "")
        if not compiler:
            self.count(f"of {kind} left out without a compiler")
            return
        with open(os.path.join(HERE, "around", block.about), encoding="utf-8") as file:
            around = file.read()
        if around.count("@BLOCK@") != 1:
            return self.fail(block, f"{block.about} has no place for it")
        ending = "c" if kind == "c" else "cpp"
        source, program = (os.path.join(self.folder, f"block{block.line}{end}") for end in ("." + ending, ""))
        runs = "main(" in around + block.text()
        with open(source, "w", encoding="utf-8") as file:
            file.write(around.replace("@BLOCK@", f'#line {block.line + 1} "{self.name}"\n' + block.text()))
        command = [compiler, "-std=c11" if kind == "c" else "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(hyp.ROOT, "include"), source]
        command += ["-o", program, "-L", hyp.LIB, "-lhypatia", "-lhypatia-rt", "-Wl,-rpath," + hyp.LIB, "-lm"] if runs else ["-fsyntax-only"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.count(f"of {kind} compiled" + (" and run" if runs else ""))
        if done.returncode == 0 and runs:
            done = self.shell(program)
        if done.returncode:
            self.fail(block, f"{' '.join(command)}\n{done.stdout[-500:]}{done.stderr[-2000:]}")

    def check_rules(self, block):
        path = os.path.join(self.folder, "page.rules")
        with open(path, "w", encoding="utf-8") as file:
            file.write(block.text())
        done = hyp.tool("hypatiac", "--list-rules", "--no-builtin-rules", "--rules", path)
        self.count("of rules read")
        if done.returncode or not done.stdout:
            self.fail(block, done.stderr)

    def check_quotation(self, block):
        with open(os.path.join(hyp.ROOT, block.about), encoding="utf-8") as file:
            found = "".join(re.sub(r"[\s\\]+", "", file.read()))
        self.count("quoted")
        if re.sub(r"[\s\\]+", "", block.text()) not in found:
            self.fail(block, f"{block.about} has no such text")

    def check_other_test(self, block):
        known = False
        for path in glob.glob(os.path.join(hyp.ROOT, "[ept]*/**/CMakeLists.txt"), recursive=True):
            with open(path, encoding="utf-8") as file:
                known = known or re.search(r"(?:NAME |hyp_test\(|hyp_python_test\()%s\b" % re.escape(block.about), file.read())
        self.count("seen to by other tests")
        if not known:
            self.fail(block, f"there is no test {block.about}")


WRONG = {"what it prints": "$ echo one 1 two\n    one 2 three\n", "a command": "cd /nowhere\n", "code": "<!-- c: whole.c -->\n\n    int main(void) { return one; }\n",
         "a quotation": "<!-- in: README.md -->\n\n    there is no such text\n", "a test": "<!-- by: no_such_test -->\n\n    text\n", "no mark": "what is this\n",
         "no reason": "<!-- not run: -->\n\n    cc\n", "rules": "<!-- rules -->\n\n    (rule half (relu ?x) =>\n"}


def check_itself():
    """What is wrong in any of these ways is found, and what is right is not."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.md")
        for what, text in {**WRONG, "right": "$ echo one 1 two, three\n    one 2 ... three\n"}.items():
            head, at, rest = text.rpartition("-->\n\n    ")
            with open(path, "w", encoding="utf-8") as file:
                file.write("A page.\n\n" + head + (at or "    ") + rest)
            failed = Page(path, {}).run()
            assert bool(failed) == (what != "right"), (what, failed)


def main():
    check_itself()
    pages = sys.argv[1:] or [os.path.join(hyp.ROOT, name) for name in ("README.md", "CONTRIBUTING.md")] + sorted(glob.glob(os.path.join(hyp.ROOT, "docs/*.md")))
    counts, failed = {}, []
    for path in pages:
        failed += Page(os.path.abspath(path), counts).run()
    print(f"{sum(counts.values())} in {len(pages)} pages: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for text in failed:
        print(text, file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
