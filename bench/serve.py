"""What a server costs: requests a second and their latency for clients of one machine, beside the bare runtime.

    python3 bench/serve.py [MODEL.onnx | --mlp 1024,1024,1024] [--size 1] [--bin build/release/bin] [--clients 1,8,32] [--seconds 3] [--rounds 3]
                           [--max-batch 1,32] [--max-delay 0] [--device cpu|cuda] [--json]

Each client is a connection of its own that asks again when it is answered; all of them are one process beside the server's: requests are
made beforehand, and answers only counted, but for the first of each server, which have to be equal, and near to onnxruntime's where that is installed. Printed are requests a second, p50 and p99, and the
server's processor time for a request, in microseconds,
medians over rounds in which the forms take turns. The floor is `hypatia bench`: one run after another, and no bytes sent. Symbolic dims are --size.
On a machine of few cores clients and server share them: what a client costs is a large part of a small request.
"""
import argparse
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/support"))


class Client:
    """A connection that is never idle."""

    def __init__(self, server, message):
        self.socket = socket.create_connection((server.host, server.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.message, self.got, self.wanted = message, b"", None

    def ask(self):
        self.got, self.wanted, self.begun = b"", None, time.perf_counter()
        self.socket.sendall(self.message)

    def read(self):
        """True: it is answered."""
        self.got += self.socket.recv(1 << 20)
        if self.wanted is None and b"\r\n\r\n" in self.got:
            head = self.got.split(b"\r\n\r\n", 1)[0]
            assert head.startswith(b"HTTP/1.1 200 "), self.got[:500]
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            self.wanted = len(head) + 4 + int(length.split(b":")[1])
        return self.wanted is not None and len(self.got) >= self.wanted


def load(server, message, clients, seconds):
    """Latencies in seconds, and for how long it took."""
    waiting, samples = selectors.DefaultSelector(), []
    for _ in range(clients):
        client = Client(server, message)
        waiting.register(client.socket, selectors.EVENT_READ, client)
        client.ask()
    begun, warm = time.perf_counter(), 0
    while (now := time.perf_counter()) - begun < seconds:
        for key, _ in waiting.select(1):
            if key.data.read():
                samples.append(time.perf_counter() - key.data.begun)
                key.data.ask()
    took = now - begun
    for key in list(waiting.get_map().values()):
        key.fileobj.close()
    return samples, took


def cpu_seconds(server):
    """Of the server's threads until now."""
    with open(f"/proc/{server.process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def message_of(serving, model, inputs, binary):
    body, headers = serving.encode(inputs, binary=binary)
    head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    return head.encode() + b"\r\n" + body


def write_mlp(path, widths):
    """Layers with relus between, of random weights."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    rng, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        weights.append(numpy_helper.from_array((rng.standard_normal((k, n)) / k ** 0.5).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]), helper.make_node("Relu", [f"m{i}"], [f"r{i}"])]
        last = f"r{i}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "mlp", [value("x", TensorProto.FLOAT, ["n", widths[0]])], [value(last, TensorProto.FLOAT, ["n", widths[-1]])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def measure(server, message, clients, seconds):
    """Requests a second, p50, p99, the server's processor time for one."""
    before = cpu_seconds(server)
    samples, took = load(server, message, clients, seconds)
    samples.sort()
    return len(samples) / took, samples[len(samples) // 2] * 1e6, samples[len(samples) * 99 // 100] * 1e6, (cpu_seconds(server) - before) / len(samples) * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=os.path.join(HERE, "../examples/digits/digits.onnx"))
    parser.add_argument("--mlp", help="widths of layers, in place of a model")
    parser.add_argument("--size", type=int, default=1)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-batch", default="1,32")
    parser.add_argument("--max-delay", default="0")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", action="store_true", help="requests in JSON, too")
    args = parser.parse_args()
    os.environ["HYP_BIN"] = os.path.abspath(args.bin)
    import numpy as np
    import serving
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "model.bin")
        if args.mlp:
            args.model = write_mlp(os.path.join(folder, f"mlp {args.mlp}"), [int(width) for width in args.mlp.split(",")])
        target = {"cpu": "cpu:native", "cuda": "cuda:h200"}[args.device]
        subprocess.run([os.path.join(args.bin, "hypatiac"), args.model, "-o", plan, "-q", "--target", target], check=True)
        servers = {batch: serving.Server(plan, "--max-batch", batch, "--max-delay", args.max_delay, "--threads", args.threads, "--device", args.device) for batch in args.max_batch.split(",")}
        described = next(iter(servers.values())).json("GET", "/v2/models/model")
        rng = np.random.default_rng(0)
        inputs = {i["name"]: (rng.standard_normal([args.size if d < 0 else d for d in i["shape"]]) * 2).astype(serving.NAMES[i["datatype"]]) for i in described["inputs"]}
        dims = [f"--dim={s}={args.size}" for s in symbols(args.bin, plan)]
        bench = json.loads(subprocess.run([os.path.join(args.bin, "hypatia"), "bench", plan, "--device", args.device, "--threads", args.threads, "--duration", str(args.seconds), "--json", "-", "-q", *dims],
                                          check=True, capture_output=True, text=True).stdout)
        floor = statistics.median(bench["samples_us"])
        print(f"{os.path.basename(args.model)} on {bench['device']}, {args.size} rows a request, {args.threads} threads a run; the runtime alone: {1e6 / floor:.0f} runs a second, {floor:.1f} us")
        first = [server.infer("model", inputs) for server in servers.values()]
        assert all(np.allclose(first[0][name], one[name], rtol=1e-4, atol=1e-5) for one in first for name in first[0])
        judge(np, args.model, inputs, first[0])
        print(f"{'':22}{'clients':>8}{'req/s':>10}{'rows/s':>10}{'p50 us':>10}{'p99 us':>10}{'cpu us':>10}{'rows/run':>10}")
        forms = [True, False] if args.json else [True]
        for binary in forms:
            for clients in map(int, args.clients.split(",")):
                found = {batch: [] for batch in servers}
                runs = {batch: counts(server) for batch, server in servers.items()}
                for _ in range(args.rounds):
                    for batch, server in servers.items():
                        found[batch].append(measure(server, message_of(serving, "model", inputs, binary), clients, args.seconds))
                for batch, server in servers.items():
                    rate, p50, p99, cpu = (statistics.median(column) for column in zip(*found[batch]))
                    rows, count = (b - a for a, b in zip(runs[batch], counts(server)))
                    print(f"{('binary' if binary else 'JSON') + ', --max-batch ' + batch:22}{clients:8}{rate:10.0f}{rate * args.size:10.0f}{p50:10.0f}{p99:10.0f}{cpu:10.0f}{rows / count if batch != '1' else args.size:10.1f}")
        for server in servers.values():
            server.stop()


def judge(np, model, inputs, outputs):
    try:
        import onnxruntime
    except ImportError:
        print("there is no onnxruntime to compare with")
        return
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for name, wanted in zip(names, session.run(names, inputs)):
        np.testing.assert_allclose(outputs[name], wanted, rtol=1e-3, atol=1e-4)


def counts(server):
    found = server.metrics()
    label = '{model="model",version="1"}'
    return found["hypatia_inference_batch_rows_sum" + label], found["hypatia_inference_batch_rows_count" + label]


def symbols(folder, plan):
    about = json.loads(subprocess.run([os.path.join(folder, "hypatia"), "inspect", plan, "--json"], check=True, capture_output=True, text=True).stdout)
    return [symbol["name"] for symbol in about["symbols"]]


main()
