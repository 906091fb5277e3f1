"""What the judges of training steps share: models of a few lines, and step_eval."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import hyp  # noqa: E402

np = hyp.np


def run(model, feeds, steps, options):
    """Runs a step STEPS times. feeds(k, name) gives the input of step k. A list of dicts for the steps: outputs by name, and
    variables behind "var " ."""
    with tempfile.TemporaryDirectory() as folder:
        args = [os.path.join(hyp.BIN, "step_eval"), model, folder]
        options = [f"{k}={v}" for k, v in options]
        names = ask(args + ["0"] + options)
        for k in range(steps):
            for i, name in enumerate(names["input"]):
                np.save(os.path.join(folder, f"in_{k}_{i}.npy"), feeds(k, name))
        ask(args + [str(steps)] + options)
        found = []
        for k in range(steps):
            found.append({name: np.load(os.path.join(folder, f"out_{k}_{i}.npy")) for i, name in enumerate(names["output"])})
            for i, name in enumerate(names["variable"]):
                found[-1]["var " + name] = np.load(os.path.join(folder, f"var_{k}_{i}.npy"))
        return found


def ask(args):
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    names = {"input": [], "output": [], "variable": []}
    for line in done.stdout.splitlines():
        kind, name = line.split(" ", 1)
        names[kind].append(name)
    return names


def difference(found, wanted):
    """The largest |found - wanted| / (1 + |wanted|); infinite where one is no number and the other is."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if found.shape != wanted.shape:
        return np.inf
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        d = np.where(same, 0, np.abs(found - wanted) / (1 + np.abs(wanted)))
    return float(np.max(np.where(np.isnan(d), np.inf, d), initial=0))
