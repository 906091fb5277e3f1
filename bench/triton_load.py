"""A tritonserver under load: libtriton_hypatia.so beside the server's Python backend that runs onnxruntime, or PyTorch, the same model, in one server.

    scripts/triton-test.sh bench [MODEL.onnx ...] [--build build/release] [--clients 1,8,32] [--rounds 5] [--seconds 2] [--max-batch 64]
                                 [--delay 0] [--instances 1] [--threads 1] [--gpu] [--peer onnxruntime|torch] [--patience 60]

Without a model: the network of examples/digits, and a perceptron of 8 million multiplications a row. Both models have the same
configuration: one instance, the server's dynamic batching, one thread for a run, with --gpu on a GPU. The peer joins the requests that it is given, as
ours does; PyTorch, on the GPU with --gpu, knows the operators of these networks by their names. Its instance is of KIND_CPU there, too: with KIND_GPU that
backend shares GPU memory between its processes, of which requests from the network have no use, and which not every container allows. A peer that does not
answer within --patience seconds is told of, with the last lines of the server's log, and ours is measured alone. Each client sends a row in binary over HTTP, waits
for the answer, and sends the next; all of them are in one process, which makes no numpy of anything, beside the server on the same processors. Rounds of
both are interleaved. Printed are medians over rounds: requests a second, p50 and p99 of a request in milliseconds, and the rows of a run by the
server's statistics.
"""
import argparse
import http.client
import os
import selectors
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import serving  # noqa: E402
import triton_server  # noqa: E402

PEERS = {"onnxruntime": '''
import os
import numpy as np, onnxruntime
import triton_python_backend_utils as utils


class TritonPythonModel:
    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = THREADS, 1, 4
        self.session = onnxruntime.InferenceSession(os.path.join(os.path.dirname(__file__), "model.onnx"), options, providers=["CPUExecutionProvider"])
        self.inputs = [value.name for value in self.session.get_inputs()]
        self.outputs = [value.name for value in self.session.get_outputs()]

    def execute(self, requests):
        rows = [[utils.get_input_tensor_by_name(request, name).as_numpy() for name in self.inputs] for request in requests]
        feeds = {name: np.concatenate([one[i] for one in rows]) if len(rows) > 1 else rows[0][i] for i, name in enumerate(self.inputs)}
        ends = np.cumsum([len(one[0]) for one in rows])[:-1]
        parts = [np.split(value, ends) for value in self.session.run(None, feeds)]
        return [utils.InferenceResponse([utils.Tensor(name, part[k]) for name, part in zip(self.outputs, parts)]) for k in range(len(requests))]
''', "torch": '''
import os
import onnx, torch
import triton_python_backend_utils as utils
from onnx import helper, numpy_helper
OPERATORS = {"MatMul": torch.matmul, "Add": torch.add, "Relu": torch.relu, "Softmax": lambda x, axis=-1: torch.softmax(x, axis)}


class TritonPythonModel:
    def initialize(self, args):
        torch.set_num_threads(THREADS)
        graph = onnx.load(os.path.join(os.path.dirname(__file__), "model.onnx")).graph
        self.weights = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()).to("DEVICE") for tensor in graph.initializer}
        self.inputs = [value.name for value in graph.input if value.name not in self.weights]
        self.outputs = [value.name for value in graph.output]
        self.steps = [(OPERATORS[node.op_type], node.input, node.output[0], {a.name: helper.get_attribute_value(a) for a in node.attribute}) for node in graph.node]

    @torch.inference_mode()
    def execute(self, requests):
        rows = [[torch.from_dlpack(utils.get_input_tensor_by_name(request, name).to_dlpack()) for name in self.inputs] for request in requests]
        values = dict(self.weights)
        for i, name in enumerate(self.inputs):
            values[name] = torch.cat([one[i] for one in rows]).to("DEVICE")
        for operator, inputs, output, attributes in self.steps:
            values[output] = operator(*(values[name] for name in inputs), **attributes)
        parts = [values[name].cpu().split([len(one[0]) for one in rows]) for name in self.outputs]
        return [utils.InferenceResponse([utils.Tensor.from_dlpack(name, part[k]) for name, part in zip(self.outputs, parts)]) for k in range(len(requests))]
'''}


def perceptron(path):
    """1024-2048-2048-1024, 8.4 million multiplications a row."""
    sizes, nodes, constants, last = [1024, 2048, 2048, 1024], [], [], "x"
    noise = np.random.default_rng(1)
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        constants += [numpy_helper.from_array((noise.standard_normal((a, b)) / a**0.5).astype(np.float32), f"w{i}"),
                      numpy_helper.from_array(noise.standard_normal(b).astype(np.float32), f"b{i}")]
        out = "y" if i == len(sizes) - 2 else f"r{i}"
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]), helper.make_node("Add", [f"m{i}", f"b{i}"], [f"a{i}" if out != "y" else "y"])]
        if out != "y":
            nodes.append(helper.make_node("Relu", [f"a{i}"], [out]))
        last = out
    graph = helper.make_graph(nodes, "perceptron", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", sizes[0]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", sizes[-1]])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def make_models(path, repo, options):
    """NAME, served by us, and NAME_peer. Returns the name."""
    name = os.path.splitext(os.path.basename(path))[0]
    plan = os.path.join(os.path.dirname(repo), name + ".bin")
    tools = os.path.join(options.build, "bin")
    subprocess.run([tools + "/hypatiac", path, "-o", plan, "-q", "--target", "cuda:h200" if options.gpu else "cpu:native"], check=True)
    said = subprocess.run([tools + "/hypatia", "triton", plan, "-o", repo, "--name", name, "--max-batch", str(options.max_batch), "--delay", str(options.delay),
                           "--instances", str(options.instances), "--threads", str(options.threads), *(["--gpu"] if options.gpu else [])], check=True, capture_output=True, text=True).stdout
    assert f"up to {options.max_batch} rows" in said, said
    peer = os.path.join(repo, name + "_peer")
    os.makedirs(peer + "/1")
    shutil.copy(path, peer + "/1/model.onnx")
    with open(peer + "/1/model.py", "w", encoding="utf-8") as file:
        file.write(PEERS[options.peer].replace("THREADS", str(options.threads)).replace("DEVICE", "cuda" if options.gpu else "cpu"))
    with open(f"{repo}/{name}/config.pbtxt", encoding="utf-8") as file:
        config = file.read()
    config = config.replace(f'name: "{name}"', f'name: "{name}_peer"', 1).replace('backend: "hypatia"', 'backend: "python"').replace('"model.plan"', '"model.py"').replace("KIND_GPU", "KIND_CPU")
    with open(peer + "/config.pbtxt", "w", encoding="utf-8") as file:
        file.write(config)
    return name


def make_request(server, model, path, patience):
    """The bytes of one, when the model is loaded and has answered as onnxruntime does; triton_server.Silent where it has not."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = {info.name: np.random.default_rng(7).standard_normal([1, *info.shape[1:]]).astype(np.float32) for info in session.get_inputs()}
    body, headers = serving.encode(feeds)
    place = f"/v2/models/{model}/infer"
    server.load(model, patience)
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=patience)
    try:
        client.request("POST", place, body, headers)
        response = client.getresponse()
        content = response.read()
    except OSError as error:
        raise triton_server.Silent(f"{model} did not answer a request within {patience} s ({error})") from error
    finally:
        client.close()
    if response.status != 200:
        raise triton_server.Silent(f"{model} answered with {response.status}: {content[:300]!r}")
    answer = serving.decode(response.headers, content)
    for info, wanted in zip(session.get_outputs(), session.run(None, feeds)):
        assert np.allclose(answer[info.name], wanted, rtol=1e-3, atol=1e-4), model
    fields = {"Host": "127.0.0.1", "Content-Length": len(body), **headers}
    lines = [f"POST {place} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


class Client:
    def __init__(self, port, request, selector, patience):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request, self.wanted, self.got = request, None, b""
        selector.register(self.socket, selectors.EVENT_READ, self)

    def send(self):
        self.got, self.wanted = b"", None
        self.began = time.perf_counter()
        self.socket.sendall(self.request)

    def read(self):
        """The seconds of an answer that is whole; None: there is more to come."""
        part = self.socket.recv(1 << 16)
        assert part, "the server has closed the connection"
        self.got += part
        if self.wanted is None and b"\r\n\r\n" in self.got:
            head, _, _ = self.got.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), self.got[:300]
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            self.wanted = len(head) + 4 + int(fields[b"content-length"])
        return time.perf_counter() - self.began if self.wanted is not None and len(self.got) >= self.wanted else None


def load(server, request, clients, seconds, patience):
    """Requests a second, and the sorted times of requests."""
    with selectors.DefaultSelector() as selector:
        everyone, times = [Client(server.port, request, selector, patience) for _ in range(clients)], []
        begin = time.perf_counter()
        for client in everyone:
            client.send()
        while time.perf_counter() < begin + seconds:
            for key, _ in selector.select(10):
                took = key.data.read()
                if took is not None:
                    times.append(took)
                    key.data.send()
        rate = len(times) / (time.perf_counter() - begin)
        for client in everyone:
            while client.read() is None:
                pass
            client.socket.close()
    return rate, sorted(times)


def counts(server, model):
    stats = server.get(f"models/{model}/stats")["model_stats"][0]
    return stats["inference_count"], stats["execution_count"]


def ready_requests(server, names, paths, patience):
    """By model, those that answer; the others are told of. A peer that does not is waited for once."""
    requests, silent = {}, False
    for name, path in zip(names, paths):
        for model in (name, name + "_peer"):
            if silent and model != name:
                continue
            try:
                requests[model] = make_request(server, model, path, patience)
            except triton_server.Silent as error:
                silent = silent or model != name
                print(f"not measured: {error}\nthe last lines of the server's log:\n{server.last_lines()}\n", flush=True)
    return requests


def measure_rounds(server, requests, clients, options):
    """By model, in turns: requests a second, p50 and p99 in milliseconds, and rows of a run, of each round."""
    rounds = {model: [] for model in requests}
    for k in range(-1, options.rounds):
        for model, kept in rounds.items():
            before = counts(server, model)
            rate, times = load(server, requests[model], clients, options.seconds if k >= 0 else min(0.5, options.seconds), options.patience)
            after = counts(server, model)
            if k >= 0 and times:  # the first warms up
                kept.append((rate, times[len(times) // 2] * 1e3, times[len(times) * 99 // 100] * 1e3, (after[0] - before[0]) / max(after[1] - before[1], 1)))
    return rounds


def measure(server, names, paths, options):
    requests = ready_requests(server, names, paths, options.patience)
    print(f"{'model':<12}{'clients':>8}   {'backend':<22}{'requests/s':>11}{'p50 ms':>9}{'p99 ms':>9}{'rows a run':>12}", flush=True)
    for name in names:
        for clients in map(int, options.clients.split(",")):
            there = {model: requests[model] for model in (name, name + "_peer") if model in requests}
            for model, kept in measure_rounds(server, there, clients, options).items():
                if not kept:
                    continue
                rate, p50, p99, rows = (statistics.median(column) for column in zip(*kept))
                print(f"{name:<12}{clients:>8}   {'hypatia' if model == name else 'python, ' + options.peer:<22}{rate:>11.0f}{p50:>9.2f}{p99:>9.2f}{rows:>12.1f}", flush=True)
    return all(name in requests for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    parser.add_argument("--clients", default="1,8,32")
    for option, value in (("--rounds", 5), ("--max-batch", 64), ("--delay", 0), ("--instances", 1), ("--threads", 1)):
        parser.add_argument(option, type=int, default=value)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--patience", type=float, default=60)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--peer", choices=PEERS, default="onnxruntime")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that the server does not stay
    if not triton_server.wheel():
        sys.exit("python3 has no module pytriton with a tritonserver: scripts/triton-test.sh installs it")
    with tempfile.TemporaryDirectory() as folder:
        paths, repo = options.models, folder + "/repository"
        if not paths:
            paths = [os.path.join(ROOT, "examples/digits/digits.onnx"), folder + "/perceptron.onnx"]
            perceptron(paths[1])
        os.mkdir(repo)
        names = [make_models(path, repo, options) for path in paths]
        with triton_server.Server(repo, folder, options.build, explicit=True) as server:
            good = measure(server, names, paths, options)
    sys.exit(0 if good else "ours does not answer")


main()
