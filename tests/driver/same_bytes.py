"""The same model gives the same plan: twenty compilations by two threads of one process, and twenty processes, two at a
time, whose addresses the system draws anew."""
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import judging

hyp = judging.hyp
hyp.need("numpy", "onnx")
import judge_random  # noqa: E402

RUNS = 20
EXAMPLES = [os.path.join(hyp.ROOT, "examples", name) for name in ("digits/digits.onnx", "cnn/cnn.onnx")]
RANDOM_SEEDS = [7, 8]


def plan_in_process(model, plan):
    hyp.compile_model(model, plan)


def plan_by_tool(model, plan):
    done = hyp.tool("hypatiac", model, "-o", plan, "-q")
    assert done.returncode == 0, done.stderr


def distinct(make, model, folder):
    """How many different plans RUNS compilations write."""
    def one(i):
        plan = os.path.join(folder, f"{i}.bin")
        make(model, plan)
        with open(plan, "rb") as file:
            return file.read()
    with ThreadPoolExecutor(2) as threads:
        return len(set(threads.map(one, range(RUNS))))


def models(folder):
    for path in EXAMPLES:
        if os.path.exists(path):
            yield path
    for seed in RANDOM_SEEDS:
        path = os.path.join(folder, f"random-{seed}.onnx")
        with open(path, "wb") as file:
            file.write(judge_random.draw(seed, "f32").finish().SerializeToString())
        yield path


def main():
    with open("/proc/sys/kernel/randomize_va_space") as file:
        print("addresses are drawn anew:", "yes" if file.read().strip() != "0" else "no, the system has it off")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for model in models(folder):
            for make in (plan_in_process, plan_by_tool):
                count = distinct(make, model, folder)
                print(f"{os.path.basename(model)} {make.__name__}: {RUNS} runs, {count} distinct plans")
                failed += count != 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
