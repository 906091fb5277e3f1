"""A few steps of the training that docs/training.md describes: the loss falls, the same steps give the same bits, and what
comes of it is a model, and with its weights examples/chars writes text (not yet a good one)."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tests/support")]
import hyp  # noqa: E402

onnx, np = hyp.need("onnx", "numpy")
STEPS = 6


def run(*command):
    done = hyp.tool(*command)
    assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
    return done.stdout


def main():
    chars = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        def make(*more):
            subprocess.run([sys.executable, "-B", os.path.join(HERE, "make.py"), folder, *more], check=True)
        make()
        run("hypatiac", path("step.onnx"), "--train", "cross-entropy", "--clip-norm", "1", "-q", "-o", path("step.bin"))
        for once in ("a", "b"):
            run("hypatia", "train", path("step.bin"), "--data", f"ids={path('ids.npy')}", "--data",
                f"labels={path('labels.npy')}", "--batch", "8", "--learning-rate", "0.003", "--epochs", "4", "--stop-after",
                STEPS, "--checkpoints", path(once), "--metrics", path(once + ".jsonl"))
        losses = [json.loads(line)["loss"] for line in open(path("a.jsonl"))]
        assert len(losses) == STEPS and abs(losses[0] - np.log(30)) < 0.6 and losses[-1] < 0.9 * losses[0], losses
        name = f"step-{STEPS:08d}.safetensors"
        assert open(path(f"a/{name}"), "rb").read() == open(path(f"b/{name}"), "rb").read()
        run("hypatia", "export", path("step.bin"), path("a"), "-o", path("trained.onnx"))
        onnx.checker.check_model(path("trained.onnx"), full_check=True)
        make("--finish", path("trained.onnx"))
        run("hypatiac", path("chars.onnx"), "-q", "-o", path("chars.bin"))
        done = subprocess.run([chars, path("chars.bin"), "the old ", "30"], check=True, capture_output=True, text=True)
        text = done.stdout
        assert text.startswith("the old ") and len(text.rstrip("\n")) >= 8, text


if __name__ == "__main__":
    main()
