"""hypatia triton, and the backend that serves what it writes: test_triton_backend drives that as the server does. With the argument
cuda, on the GPU."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../support"))
import hyp  # noqa: E402

hyp.need("onnx", "numpy")
import numpy as np  # noqa: E402
import onnx  # noqa: E402
from onnx import TensorProto as T, helper, numpy_helper  # noqa: E402


def model(folder, name, nodes, inputs, outputs, constants=()):
    """inputs and outputs: (name, type, dims)."""
    values = [[helper.make_tensor_value_info(*one) for one in some] for some in (inputs, outputs)]
    graph = helper.make_graph([helper.make_node(*node[0], **node[1]) for node in nodes], name, *values,
                              [numpy_helper.from_array(value, key) for key, value in constants])
    path = f"{folder}/{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def compile_model(folder, name, *args, options=()):
    plan = f"{folder}/{name}.bin"
    done = hyp.tool("hypatiac", model(folder, name, *args), "-o", plan, "-q", *options)
    assert done.returncode == 0, done.stderr
    return plan


def node(*args, **attributes):
    return args, attributes


def looked_up(folder):
    table = (np.arange(5)[:, None] * 10 + np.arange(3)).astype(np.float32)
    nodes = [node("Gather", ["table", "k"], ["rows"]), node("Shape", ["x"], ["n"], start=1, end=2),
             node("Slice", ["rows", "zero", "n", "one"], ["part"]), node("Add", ["part", "x"], ["y"]), node("ReduceSum", ["y", "one"], ["z"], keepdims=0)]
    return compile_model(folder, "looked_up", nodes, [("x", T.FLOAT, ["batch", "length"]), ("k", T.INT64, ["batch"])],
                         [("y", T.FLOAT, ["batch", "length"]), ("z", T.FLOAT, ["batch"])],
                         [("table", table), ("zero", np.array([0])), ("one", np.array([1]))])


def relu_of(folder, name, dims, **more):
    nodes = [node("Add", ["x", "x"], ["two"]), node("Relu", ["two"], ["y"])]
    return compile_model(folder, name, nodes, [("x", T.FLOAT, dims)], [("y", T.FLOAT, dims)], **more)


def triton(*args, code=0):
    done = hyp.tool("hypatia", "triton", *args)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def check_files(folder):
    plan = relu_of(folder, "relu", ["batch", 3])
    repo = folder + "/repo"
    said = triton(plan, "-o", repo, "--instances", "2", "--delay", "100", "--threads", "1")
    assert "joined, up to 64 rows" in said and "relu: config.pbtxt, 1/model.plan" in said, said
    config = read(repo, "relu/config.pbtxt")
    for words in ('name: "relu"', 'backend: "hypatia"', "max_batch_size: 64", "dims: [ 3 ]", "kind: KIND_CPU\n  count: 2", "max_queue_delay_microseconds: 100",
                  'key: "threads"\n  value { string_value: "1" }'):
        assert words in config, (words, config)
    with open(plan, "rb") as a, open(repo + "/relu/1/model.plan", "rb") as b:
        assert a.read() == b.read()
    # Again, and as another version; what somebody has written stays.
    same = ("--instances", "2", "--delay", "100", "--threads", "1")
    triton(plan, "-o", repo, *same, "--model-version", "7")
    assert sorted(os.listdir(repo + "/relu")) == ["1", "7", "config.pbtxt"] and os.listdir(repo + "/relu/7") == ["model.plan"]
    assert "is not what would be written" in triton(plan, "-o", repo, code=1)
    assert read(repo, "relu/config.pbtxt") == config
    # In place: the plan that is read is not one that is written.
    assert "the same file" in triton(repo + "/relu/1/model.plan", "-o", repo, "--name", "relu", *same, code=2)
    config = triton(plan, "-o", repo, "--name", "on \"gpu\"", "--gpu", "--max-batch", "8") and read(repo, 'on "gpu"', "config.pbtxt")
    assert 'name: "on \\"gpu\\""' in config and "kind: KIND_GPU\n  count: 1" in config and "dynamic_batching {\n}" in config, config
    for name in ("", ".x", "a/b"):
        assert "no name of a model" in triton(plan, "-o", repo, "--name", name, code=2)
    assert "cannot make the folder" in triton(plan, "-o", plan + "/x", code=1)
    assert "--max-batch: 'x' is no number" in triton(plan, "-o", repo, "--max-batch", "x", code=2)
    assert "no model repository" in triton(plan, code=2) and "no plan" in triton("-o", repo, code=2)
    damaged = folder + "/damaged.bin"
    with open(damaged, "wb") as file:
        file.write(b"no plan")
    triton(damaged, "-o", repo, code=1)
    assert not os.path.exists(repo + "/damaged")


def check_rows(folder):
    """Requests are joined only where that changes nothing."""
    repo = folder + "/rows"
    x = ("x", T.FLOAT, ["batch", 3])
    cases = {
        "mean": ([node("ReduceMean", ["x"], ["m"], axes=[0]), node("Sub", ["x", "m"], ["y"])], ["batch", 3], "depends on other rows", 4),
        "softmax": ([node("Softmax", ["x"], ["y"], axis=0)], ["batch", 3], "depends on other rows", 4),
        "reversed": ([node("Slice", ["x", "last", "first", "axis", "last"], ["y"])], ["batch", 3], "depends on other rows", 4),
        "flat": ([node("Reshape", ["x", "last"], ["y"])], ["all"], "first axis of output 'y'", 2),
        "turned": ([node("Transpose", ["x"], ["y"], perm=[1, 0])], [3, "batch"], "first axis of output 'y'", 2),
        "squares": ([node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])], ["batch", "batch"], "other sizes follow", 2),
    }
    constants = [("last", np.array([-1])), ("first", np.array([-1 << 40])), ("axis", np.array([0]))]
    for name, (nodes, dims, why, code) in cases.items():
        plan = compile_model(folder, name, nodes, [x], [("y", T.FLOAT, dims)], constants)
        said = triton(plan, "-o", repo, "--max-batch", "4", code=code)
        assert "cannot be joined" in said and why in said, (name, said)
        assert not os.path.exists(f"{repo}/{name}")
        said = triton(plan, "-o", repo)
        assert "not joined" in said and why in said, (name, said)
        config = read(repo, name, "config.pbtxt")
        assert "max_batch_size: 0" in config and "dims: [ -1, 3 ]" in config and "dynamic_batching" not in config, config
        assert triton(plan, "-o", repo, "--max-batch", "0").count("joined") == 0
    plan = relu_of(folder, "fixed", [2, 3])
    assert "not joined: the first axis of input 'x'" in triton(plan, "-o", repo)
    assert "dims: [ 2, 3 ]" in read(repo, "fixed/config.pbtxt")
    # Indexes in range, of a table as large as the plan's samples know; no axis beside the rows; a second open size.
    said = triton(folder + "/looked_up.bin", "-o", repo, "--max-batch", "8")
    assert "samples show" in said, said
    config = read(repo, "looked_up/config.pbtxt")
    assert "name: \"k\"\n  data_type: TYPE_INT64\n  dims: [ 1 ]\n  reshape { shape: [ ] }" in config and "dims: [ -1 ]" in config, config
    plan = relu_of(folder, "scalar", [])
    triton(plan, "-o", repo)
    assert "dims: [ 1 ]\n  reshape { shape: [ ] }" in read(repo, "scalar/config.pbtxt")


def check_types(folder):
    repo = folder + "/types"
    names = {T.FLOAT16: "FP16", T.DOUBLE: "FP64", T.INT32: "INT32", T.UINT8: "UINT8", T.BOOL: "BOOL", T.INT8: "INT8", T.BFLOAT16: "BF16"}
    for dtype, name in names.items():
        plan = compile_model(folder, f"to_{name}", [node("Cast", ["x"], ["y"], to=dtype)], [("x", T.FLOAT, ["batch", 2])], [("y", dtype, ["batch", 2])])
        triton(plan, "-o", repo)
        assert f"data_type: TYPE_{name}\n" in read(repo, f"to_{name}/config.pbtxt")
    step = compile_model(folder, "step", [node("MatMul", ["x", "w"], ["y"])], [("x", T.FLOAT, ["batch", 2])], [("y", T.FLOAT, ["batch", 2])],
                         [("w", np.eye(2, dtype=np.float32))], options=("--train", "mse"))
    assert "a step of a training" in triton(step, "-o", repo, code=2)
    place(folder, "step", step)


def place(folder, name, plan):
    """For the backend, which compares with what it is told in place of config.pbtxt."""
    os.makedirs(f"{folder}/{name}/1", exist_ok=True)
    os.replace(plan, f"{folder}/{name}/1/model.plan")


def run_backend(folder, *args):
    environment = {**os.environ, "TRITON_TEST_FOLDER": folder}
    if os.path.exists(folder + "/key.pub"):
        environment["TRITON_TEST_KEY"] = folder + "/key.pub"
    done = subprocess.run([os.path.join(hyp.BIN, "test_triton_backend"), *args], env=environment, capture_output=True, text=True)
    sys.stderr.write(done.stderr)
    assert done.returncode == 0 and "PASSED" in done.stdout + done.stderr, done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["cuda"]:
            place(folder, "scaled", relu_of(folder, "scaled", ["batch", 3], options=("--target", "cuda")))
            return run_backend(folder, "cuda")
        plan = looked_up(folder)
        check_files(folder)
        check_rows(folder)
        check_types(folder)
        place(folder, "looked_up", plan)
        places = compile_model(folder, "places", [node("NonZero", ["x"], ["where"])], [("x", T.FLOAT, ["n", 3])], [("where", T.INT64, [2, "found"])])
        assert "not joined" in triton(places, "-o", folder + "/repo")
        if hyp.tool("hypatia", "keygen", folder + "/key").returncode == 0:
            assert hyp.tool("hypatia", "sign", places, "--key", folder + "/key", "-o", folder + "/signed.bin").returncode == 0
            place(folder, "signed", folder + "/signed.bin")
        place(folder, "places", places)
        run_backend(folder)
    return None


if __name__ == "__main__":
    main()
