"""Every generated model, optimized and as imported, on the CPU backend and the reference backend, against onnxruntime.

`judge_models.py [PATTERN] [--cuda]` judges the models whose name contains the pattern; with --cuda, plans for a GPU
on the GPU."""
import sys

import judging

judging.hyp.need("onnx", "numpy")
import make_models  # noqa: E402

ALL = [("cpu", False), ("reference", False), ("cpu", True), ("reference", True)]
FAST = [("cpu", False), ("cpu", True)]  # the reference backend is for small models
CUDA = [("cuda", False), ("cuda", True)]


def main(*arguments):
    cuda = "--cuda" in arguments
    pattern = next((a for a in arguments if a != "--cuda"), "")
    judge, count = judging.Judge(), 0
    for name, graph, cases in make_models.generate():
        if pattern not in name:
            continue
        model = graph.model()
        feeds = [make_models.feeds_for(model, case, seed) for seed, case in enumerate(cases)]
        large = name.startswith(("nine-large", "nine-medium"))
        judge.judge(name, model, feeds, CUDA if cuda else FAST if large else ALL)
        count += 1
    return judge.finish(count)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
