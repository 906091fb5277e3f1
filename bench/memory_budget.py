"""What a budget of memory costs a training step: predicted, and measured on the CPU.

    python3 bench/memory_budget.py --bin build/release/bin [--threads 2] [--rounds 7] [--precision fp32] [--only gpt,conv]

gpt   a transformer such as GPT-2: 4 layers of width 256, 8 x 128 words of 2000, AdamW
conv  8 convolutions of 32 channels, 16 images of 32 x 32, AdamW

Plans with budgets of nine tenths, eight tenths, ... of the scratch memory that the step takes, until the compiler finds none, in
turns: medians over rounds of the medians of `hypatia bench`. The last line says what the compiler gave up with.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "support"))
import trained  # noqa: E402

MODELS = {
    "gpt": (lambda path: trained.gpt(path, 8, 128, 256, 4, 4, 2000), ("--frozen", "mask")),
    "conv": (lambda path: trained.convolutions(path, 16, 32, 32, 8), ()),
}


def tool(args, *command):
    return subprocess.run([os.path.join(args.bin, command[0]), *command[1:]], capture_output=True, text=True)


def fixed_bytes(about):
    """What a run holds besides scratch memory: variables, and constants that steps read."""
    constants = {t["tensor"]: t["bytes"] for s in about["steps"] for t in s["reads"] if t["place"] == "weight"}
    return about["state_bytes"] + about["state_bytes_twice"] + sum(constants.values())


def plans_of(args, folder, name):
    """Budgets and plans, the first without one."""
    model = os.path.join(folder, name + ".onnx")
    MODELS[name][0](model)
    found, scratch, fixed = [], None, 0
    for tenths in range(10, 0, -1):
        plan = os.path.join(folder, f"{name}.{tenths}.bin")
        budget = ("--memory-budget", str(fixed + scratch * tenths // 10)) if scratch else ()
        done = tool(args, "hypatiac", model, "-o", plan, "-q", "--train", "cross-entropy", "--precision", args.precision, "--verify",
                    "off", *MODELS[name][1], *budget)
        if done.returncode:
            print(done.stderr.strip())
            break
        about = json.loads(tool(args, "hypatia", "inspect", plan, "--json").stdout)
        scratch, fixed = scratch or about["scratch_bytes"], fixed_bytes(about)
        found.append((plan, about))
    return found


def measure(args, plan):
    done = tool(args, "hypatia", "bench", plan, "--device", "cpu", "--threads", str(args.threads), "--duration", "0.5", "--warmup", "100",
                "--input", "learning-rate=zeros", *inputs_of(plan), "--json", "-", "-q")
    if done.returncode:
        sys.exit(done.stderr)
    return statistics.median(json.loads(done.stdout)["samples_us"])


def inputs_of(plan):
    kinds = ["ids"] if "gpt" in os.path.basename(plan) else []
    return [x for name in kinds + ["labels"] for x in ("--input", f"{name}=zeros")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--only", default=",".join(MODELS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only.split(","):
            plans = plans_of(args, folder, name)
            times = [[measure(args, plan) for plan, _ in plans] for _ in range(args.rounds)]
            print(f"{name}: | scratch memory | of it | steps that compute again | predicted | measured |")
            for i, (_, about) in enumerate(plans):
                took = statistics.median(t[i] / t[0] for t in times)
                print(f"| {about['scratch_bytes'] / 2 ** 20:.1f} MiB | {about['scratch_bytes'] / plans[0][1]['scratch_bytes']:.0%} "
                      f"| {about['recomputed']} | {about['predicted_seconds'] * 1e3:.2f} ms, x {about['predicted_seconds'] / plans[0][1]['predicted_seconds']:.2f} "
                      f"| {statistics.median(t[i] for t in times) / 1e3:.2f} ms, x {took:.2f} |")


if __name__ == "__main__":
    main()
