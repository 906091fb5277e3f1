"""The JSON that the tools write is what share/schemas says (JSON Schema, draft 2020-12), for plans of all kinds; and the
schemas say enough: a document that lacks something, or has something more, is refused."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

np, onnx, jsonschema = hyp.need("numpy", "onnx", "jsonschema")
import serving  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

SCHEMAS = os.path.join(hyp.ROOT, "share/schemas")
DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
TRAINED = os.path.join(hyp.ROOT, "examples/train_digits/digits.onnx")
TORCH = os.path.join(hyp.ROOT, "tests/models/torch")
counts = {}


def run(*command, code=0):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    return done.stdout


def validator_of(name):
    with open(os.path.join(SCHEMAS, name + ".schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


VALIDATORS = {file[:-len(".schema.json")]: validator_of(file[:-len(".schema.json")]) for file in sorted(os.listdir(SCHEMAS))}


def check(name, document):
    """It fits; and where it is an object, with one key less or more it does not."""
    validator = VALIDATORS[name]
    errors = list(validator.iter_errors(document))
    assert not errors, f"{name}: {errors[0].json_path}: {errors[0].message}"
    if isinstance(document, dict):
        assert not validator.is_valid({**document, "unexpected": 1}), f"{name}: anything may be added"
        branches = validator.schema.get("oneOf", [validator.schema])
        for key in set.intersection(*[set(branch["required"]) for branch in branches]):
            assert not validator.is_valid({k: v for k, v in document.items() if k != key}), f"{name}: {key} may be left out"
    else:
        assert not validator.is_valid({}) and not validator.is_valid([1])
    counts[name] = counts.get(name, 0) + 1
    return document


def read(name, path):
    with open(path, encoding="utf-8") as file:
        return check(name, json.load(file))


def read_lines(name, path, least=1):
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert len(lines) >= least, path
    for line in lines:
        check(name, json.loads(line))


def selecting(path):
    """A model whose result is as large as the data say."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, [2, None])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def check_plans(at):
    images = at("x.npy")
    np.save(images, np.load(os.path.join(hyp.ROOT, "examples/digits/images.npy"))[:16].astype(np.float32))
    plans = {"plain": [DIGITS], "fixed": [DIGITS, "--dim", "batch=3", "--no-rewrite"], "cuda": [DIGITS, "--target", "cuda"],
             "updatable": [DIGITS, "--updatable", "*"], "selected": [selecting(at("s.onnx"))],
             "fp8": [DIGITS, "--precision", "fp8", "--target", "cuda", "--samples", f"image=@{images}"],
             "step": [TRAINED, "--train", "cross-entropy"],
             **{name: [os.path.join(TORCH, name + ".onnx")] for name in ("bert2-script", "resnet18-dynamo", "dlrm-dynamo")}}
    for name, options in plans.items():
        run("hypatiac", *options, "-o", at(name + ".bin"), "-q")
        plan = check("inspect", json.loads(run("hypatia", "inspect", at(name + ".bin"), "--json")))
        assert ("updatable" in plan) == (name == "updatable") and ("data_sizes" in plan) == (name == "selected")
        assert bool(plan["variables"]) == (name == "step")
    for name in plans:
        done = hyp.tool("hypatia", "diff", at("plain.bin"), at(name + ".bin"), "--json")
        assert done.returncode == (name != "plain"), done.stderr
        check("diff", json.loads(done.stdout))


def check_measurements(at):
    quick = ["--duration", "0.01", "--warmup", "1", "-q", "--device", "cpu"]
    run("hypatia", "bench", at("plain.bin"), *quick, "--json", at("b.json"), "--trace", at("t.json"))
    run("hypatia", "bench", at("resnet18-dynamo.bin"), *quick, "--json", at("steps.json"), "--steps", "--percentile",
        "12.5,75", "--resident")
    read("bench", at("b.json"))
    assert "p12.5_us" in read("bench", at("steps.json")) and read("bench", at("steps.json"))["steps"]
    read("trace", at("t.json"))
    run("hypatia", "tune", at("bert2-script.bin"), "--device", "cpu", "--seconds", "0.2", "--cache", at("c.jsonl"), "-o",
        at("tuned.bin"))
    read_lines("timing-cache", at("c.jsonl"))
    check("inspect", json.loads(run("hypatia", "inspect", at("tuned.bin"), "--json")))


def check_compiler(at):
    check("rules", json.loads(run("hypatiac", "--list-rules", "--json")))
    for options in ([], ["--full-terms"]):
        run("hypatiac", DIGITS, "--dry-run", "-q", "--dump-rewrites", at("r.jsonl"), *options)
        read_lines("rewrite", at("r.jsonl"), least=10)
    run("hypatiac", os.path.join(TORCH, "bert2-script.onnx"), "--dry-run", "-q", "--dump-egraph", at("e.json"), "--trace",
        at("t.json"))
    read("egraph", at("e.json"))
    read("trace", at("t.json"))
    run("hypatiac", DIGITS, "--dry-run", "-q", "--dump-egraph", at("e.json"), "--dump-egraph-around", "@5")
    read("egraph", at("e.json"))


def check_training(at):
    labels = np.load(os.path.join(hyp.ROOT, "examples/digits/labels.npy"))[:64].astype(np.int64)
    images = np.load(os.path.join(hyp.ROOT, "examples/digits/images.npy"))[:64].astype(np.float32)
    names = [i["name"] for i in json.loads(run("hypatia", "inspect", at("step.bin"), "--json"))["inputs"]]
    np.save(at("images.npy"), images)
    np.save(at("labels.npy"), labels)
    image, label = names[:2]
    run("hypatia", "train", at("step.bin"), "--data", f"{image}={at('images.npy')}", "--data",
        f"{label}={at('labels.npy')}", "--batch", "16", "--epochs", "2", "--checkpoints", at("run"), "--metrics", at("m.jsonl"), "-q", "--device", "cpu")
    read_lines("metrics", at("m.jsonl"), least=10)


def check_egraph_tool(at):
    with open(at("m.rules"), "w", encoding="utf-8") as file:
        file.write("comm\t(+ ?a ?b)\t(+ ?b ?a)\t\nassoc\t(+ ?a (+ ?b ?c))\t(+ (+ ?a ?b) ?c)\t\n")
    with open(at("m.terms"), "w", encoding="utf-8") as file:
        file.write("(+ a (+ b c))\n")
    base = ["hypatia-egraph", "saturate", "--rules", at("m.rules"), "--terms", at("m.terms"), "--json"]
    check("saturate", json.loads(run(*base)))
    check("saturate", json.loads(run(*base, "--extract", "dag", "--dump-json", at("g.json"))))
    check("saturate", json.loads(run(*base, "--explain", "(+ a (+ b c))", "(+ (+ c b) a)")))
    read("egraph", at("g.json"))
    for options in ([], ["--choice"], ["--method", "exact"]):
        check("extract", json.loads(run("hypatia-egraph", "extract", at("g.json"), "--json", *options)))


def check_serving(at):
    run("hypatiac", DIGITS, "-o", at("serve.bin"), "-q")
    if not serving.has_server():
        VALIDATORS.pop("serve-log")
        print("no server in this build: its log is left out")
        return
    with serving.Server(at("serve.bin"), "odd:7=" + at("serve.bin"), "--control", "--log-requests", "--max-batch", "8") as server:
        server.infer("serve", {"image": np.zeros((1, 64), np.float32)})
        server.json("GET", "/v2/none\"\\", code=404)
        server.json("POST", "/v2/repository/models/odd/unload")
        with open(at("serve.bin"), "w", encoding="utf-8") as file:
            file.write("no plan")
        server.json("POST", "/v2/repository/models/serve/load", code=400)
        server.stop()
    events = [check("serve-log", event) for event in server.events if event["event"] != "end"]
    assert {"listening", "loaded", "ready", "request", "load_failed", "unloaded", "stopping", "stopped"} <= {event["event"] for event in events}


def main():
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)
        for part in (check_plans, check_measurements, check_compiler, check_training, check_egraph_tool, check_serving):
            part(at)
    assert set(counts) == set(VALIDATORS), f"nothing was seen of {set(VALIDATORS) - set(counts)}"
    print(", ".join(f"{name} x{count}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    main()
