"""Adds a rule of one's own to the compiler: without it a model keeps its sigmoid, with it a tanh is found, the summary
names the rule, and both plans compute what onnxruntime computes."""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tests", folder) for folder in ("support", "driver", "models")]
import judging  # noqa: E402

hyp = judging.hyp
np = hyp.need("numpy", "onnx")[0]
from make_models import Graph, feeds_for, F32  # noqa: E402

RULES = os.path.join(HERE, "own.rules")


def model():
    g = Graph(opset=13, seed=1)
    x = g.inp("x", ["batch", 8])
    two, one = g.const(np.float32(2)), g.const(np.float32(1))
    h = g.op("Sub", g.op("Mul", g.op("Sigmoid", g.op("Mul", x, two)), two), one)
    g.out(g.op("MatMul", h, g.const(np.ones((8, 3), np.float32) / 8)), "y", F32)
    return g.model()


def compile_with(path, plan, *options):
    done = hyp.tool("hypatiac", path, "-o", plan, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main():
    judge = judging.Judge()
    made = model()
    feeds = [feeds_for(made, {"batch": batch}, batch) for batch in (1, 5)]
    wanted = judge.expected("own rules", made, feeds)
    with tempfile.TemporaryDirectory() as folder:
        path, plan = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.bin")
        with open(path, "wb") as file:
            file.write(made.SerializeToString())
        for options, fires in (((), False), (("--rules", RULES), True)):
            summary = compile_with(path, plan, *options)
            assert ("tanh-of-sigmoid" in summary) == fires, summary
            with hyp.Engine(plan) as engine:
                for case, outputs in zip(feeds, wanted):
                    judge.compare(" ".join(options) or "without the rules", engine.run(case), outputs)
        without = compile_with(path, plan, "--rules", RULES, "--disable-rule", "tanh-of-sigmoid")
        assert "tanh-of-sigmoid" not in without, without
    return judge.finish(1)


if __name__ == "__main__":
    sys.exit(main())
