"""Completion in bash, zsh and fish, as far as they are installed: commands, every option that --help lists, values that are words, files."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

FOLDER = os.path.join(hyp.ROOT, "share/completions")

BASH = """. "$FOLDER/hypatia.bash"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_hypatia
printf '%s\\n' "${COMPREPLY[@]}" """

# What zsh's own functions are given, in place of a terminal to complete on: names of commands, rows of options, values.
ZSH = """_describe() { print -l -- "${(@P)2}"; }
_arguments() { print -l -- "$@"; }
words=("$@") CURRENT=$#
. "$FOLDER/_hypatia" """

FISH = """source $FOLDER/hypatia.fish; complete -C "$argv" """


def run(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and not done.stderr, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout.split("\n")[:-1]


def bash(environment, *words):
    return {line for line in run(["bash", "-c", BASH, "bash", *words], environment) if line}


def zsh(environment, *words):
    """The rows are of all options, whatever was typed; {option: its values} where they are listed."""
    rows = run(["zsh", "-f", "-c", ZSH, "zsh", *words], environment)
    found = {}
    for row in rows:
        match = re.match(r"\*?(--?[a-z0-9-]+)=?\[.*\](?::.*:\((.*)\)$)?", row)
        if match:
            found[match[1]] = set((match[2] or "").split())
        elif re.match(r"[a-z-]+:", row):
            found[row.split(":")[0]] = set()
    return found


def fish(environment, *words):
    # The last word is being typed.
    return {line.split("\t")[0] for line in run(["fish", "--no-config", "-c", FISH, " ".join(words)], environment) if line}


def options(*command):
    return {"--" + name for name in re.findall(r"^  (?:-\w, |    )--([a-z0-9-]+)", hyp.tool(*command, "--help").stdout, flags=re.M)}


def check_bash(environment, folder):
    def ask(*words):
        return bash(environment, *words)

    commands = {"run", "bench", "tune", "train", "export", "export-c", "inspect", "diff", "report", "verify", "serve", "triton", "keygen", "sign"}
    assert ask("hypatia", "") == commands | {"--help", "--version"}
    assert ask("hypatia", "in") == {"inspect"} and ask("hypatia-egraph", "e") == {"extract"}
    for command in (("hypatiac",), ("hypatia", "train"), ("hypatia-egraph", "saturate")):
        assert ask(*command, "-") == options(*command) and len(options(*command)) > 10, command
    assert ask("hypatiac", "--target", "") == {"cpu", "cuda"} and ask("hypatiac", "--target", "=", "cu") == {"cuda"}
    assert ask("hypatiac", "--target", "=") == {"cpu", "cuda"}
    assert ask("hypatia", "run", "--color", "a") == {"auto", "always"}
    assert ask("hypatiac", "--rules", folder + "/t") == {folder + "/two words.rules"}
    assert ask("hypatia", "run", "--input", "x", "=", f"@{folder}/o") == {f"@{folder}/one.npy"}
    assert ask("hypatia", "nonsense", "-") == set()


def check_zsh(environment, _):
    assert {"run", "diff", "--version"} <= set(zsh(environment, "hypatia", ""))
    for command in (("hypatiac",), ("hypatia", "train"), ("hypatia-egraph", "saturate")):
        found = zsh(environment, *command, "")
        assert {name for name in found if name.startswith("--")} == options(*command), command
    found = zsh(environment, "hypatiac", "")
    assert found["--target"] == {"cpu", "cuda"} and found["--rules"] == set() and "-o" in found
    # That zsh takes such rows: its own function compiles them.
    rows = run(["zsh", "-f", "-c", ZSH, "zsh", "hypatia", "bench", ""], environment)
    assert "*:file:_files" in rows and any(row.startswith("*--percentile=[percentiles to print (50,90,95,99)]:LIST:_files") for row in rows), rows


def check_fish(environment, folder):
    def ask(*words):
        return fish(environment, *words)

    assert {"run", "bench", "diff", "--version"} <= ask("hypatia", "''"[:0])
    assert ask("hypatia", "ins") == {"inspect"}
    for command in (("hypatiac",), ("hypatia", "train"), ("hypatia-egraph", "saturate")):
        assert {name for name in ask(*command, "--")} == options(*command), command
    assert ask("hypatiac", "--target", "c") >= {"cpu", "cuda"}
    assert ask("hypatiac", "--target=cu") == {"--target=cuda"}, ask("hypatiac", "--target=cu")
    assert any("two" in name for name in ask("hypatiac", "--rules", folder + "/t"))


def main():
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one.npy", "two words.rules"):
            open(os.path.join(folder, name), "w", encoding="utf-8").close()
        environment = {**os.environ, "FOLDER": FOLDER, "PATH": hyp.BIN + ":" + os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8"}
        for shell, check in (("bash", check_bash), ("zsh", check_zsh), ("fish", check_fish)):
            if shutil.which(shell):
                check(environment, folder)
                done.append(shell)
    print("completion in", ", ".join(done) if done else "no shell")
    sys.exit(0 if done else 77)


main()
