"""A server for a long time: load from many clients, other plans every second, and wrong requests among the right ones.

    python3 bench/serve_soak.py [--minutes 10] [--clients 8] [--wrong 0.05] [--device cpu|cuda] [--bin build/release/bin]

Two plans of one signature take turns, y = x + 1 and y = x + 2, by all ways to load them: the repository API, SIGHUP and the file that is watched; now and then a file that is no plan
comes between. Clients ask in both encodings, with rows and connections of many kinds. Every answer has to be x + 1 or x + 2, every wrong request has to get the status
that it deserves and an error in JSON, some are cut off or are no HTTP at all. Printed each minute, and in the end: requests, loads, resident memory. The exit code is 0
where nothing was lost, nothing was wrong, and memory stayed flat: the largest of the last half not above the largest of what is between a tenth and a half by more than a tenth and 4 MiB.
"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/support"))


def make_plans(folder, tools, device):
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    plans = []
    for k in (1, 2):
        value = helper.make_tensor_value_info
        graph = helper.make_graph([helper.make_node("Add", ["x", "amount"], ["y"])], "plus", [value("x", TensorProto.FLOAT, ["n", 16])], [value("y", TensorProto.FLOAT, ["n", 16])],
                                  [numpy_helper.from_array(np.float32(k), "amount")])
        path = os.path.join(folder, f"plus{k}")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path + ".onnx")
        subprocess.run([os.path.join(tools, "hypatiac"), path + ".onnx", "-o", path + ".bin", "-q", "--target", device], check=True)
        plans.append(path + ".bin")
    return plans


class Clients:
    def __init__(self, server, wrong, np, serving):
        self.server, self.wrong, self.np, self.serving = server, wrong, np, serving
        self.counts, self.lock, self.ended, self.failed = collections.Counter(), threading.Lock(), threading.Event(), []

    def run(self, seed):
        rng, connection = random.Random(seed), self.server.connect()
        try:
            while not self.ended.is_set():
                if rng.random() < 0.01:
                    connection.close()
                    connection = self.server.connect()
                kind = self.ask_wrongly(rng) if rng.random() < self.wrong else self.ask(rng, connection)
                with self.lock:
                    self.counts[kind] += 1
        except BaseException as error:  # noqa: BLE001
            self.failed.append(f"{type(error).__name__}: {error}")
            self.ended.set()

    def ask(self, rng, connection):
        np = self.np
        x = np.random.default_rng(rng.getrandbits(32)).integers(-99, 99, (rng.choice((1, 1, 1, 2, 3, 7, 64)), 16)).astype(np.float32)
        y = self.server.infer("live", {"x": x}, connection, binary=rng.random() < 0.7)["y"]
        amount = float(y[0, 0] - x[0, 0])
        assert amount in (1, 2) and np.array_equal(y, x + np.float32(amount)), "a wrong answer"
        return f"plan {amount:.0f}"

    def ask_wrongly(self, rng):
        good = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}]}
        tensor = good["inputs"][0]
        kind = rng.randrange(10)
        if kind >= 8:
            return self.send_raw(rng, json.dumps(good).encode())
        bodies = [({"inputs": []}, 400), ({"inputs": [tensor | {"shape": [2, 16]}]}, 400), ({"inputs": [tensor | {"datatype": "INT8"}]}, 400), ({"inputs": [tensor | {"data": [0] * 15 + ["x"]}]}, 400),
                  ({"inputs": [tensor | {"name": "z"}]}, 400), (good | {"outputs": [{"name": "z"}]}, 400)]
        headers = {}
        if kind < 6:
            body, code = json.dumps(bodies[kind][0]), bodies[kind][1]
        elif kind == 6:
            body, code = json.dumps(good)[:-rng.randrange(1, 90)], 400
        else:
            body, code, headers = json.dumps(good), 400, {"Inference-Header-Content-Length": str(rng.randrange(-5, 50))}
        status, _, data = self.server.ask("POST", "/v2/models/live/infer", body, headers)
        assert status == code and set(json.loads(data)) == {"error"}, (kind, status, data[:300])
        return "refused"

    def send_raw(self, rng, body):
        """Bytes that are cut off, or changed; what comes back is looked at elsewhere (fuzz_requests)."""
        message = bytearray(b"POST /v2/models/live/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        for _ in range(rng.randrange(1, 5)):
            message[rng.randrange(len(message))] = rng.randrange(256)
        with socket.create_connection((self.server.host, self.server.port), timeout=0.2) as s:
            try:
                s.sendall(message[:rng.randrange(1, len(message) + 1)])
                s.recv(1000)
            except OSError:
                pass
        return "broken"


def operate(server, clients, plans, path, until):
    """Puts the plans in turn."""
    turn = 0
    while time.monotonic() < until and not clients.ended.wait(1):
        turn += 1
        source = plans[turn % 2]
        if turn % 10 == 0:
            with open(path + ".new", "wb") as file:
                file.write(os.urandom(3000))
            os.replace(path + ".new", path)
            status, _, _ = server.ask("POST", "/v2/repository/models/live/load")
            assert status == 400
            continue
        shutil.copy(source, path + ".new")
        os.replace(path + ".new", path)
        if turn % 3 == 0:
            status, _, data = server.ask("POST", "/v2/repository/models/live/load")
            assert status == 200, data
        elif turn % 3 == 1:
            server.process.send_signal(signal.SIGHUP)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--wrong", type=float, default=0.05)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--bin", default="build/release/bin")
    args = parser.parse_args()
    os.environ["HYP_BIN"] = os.path.abspath(args.bin)
    import numpy as np
    import serving
    with tempfile.TemporaryDirectory() as folder:
        plans, path = make_plans(folder, args.bin, args.device), os.path.join(folder, "live.bin")
        shutil.copy(plans[0], path)
        server = serving.Server(path, "--control", "--watch", "0.2", "--max-batch", "16", "--max-delay", "200", "--instances", "2", "--threads", "1", "--timeout", "5", "--device", args.device)
        clients, memory, begun = Clients(server, args.wrong, np, serving), [], time.monotonic()
        until = begun + 60 * args.minutes
        threads = [threading.Thread(target=clients.run, args=(i,)) for i in range(args.clients)]
        operator = threading.Thread(target=operate, args=(server, clients, plans, path, until))
        for thread in [*threads, operator]:
            thread.start()
        shown = 0
        while time.monotonic() < until and not clients.ended.is_set():
            time.sleep(1)
            found = server.metrics()
            memory.append(found["process_resident_memory_bytes"] / 2**20)
            if time.monotonic() - begun >= 60 * (shown + 1):
                shown += 1
                print(f"{shown} min: {sum(clients.counts.values())} requests, {memory[-1]:.1f} MiB", flush=True)
        operator.join()
        clients.ended.set()
        for thread in threads:
            thread.join()
        found = server.metrics()
        loads = {result: int(found[f'hypatia_model_loads_total{{model="live",version="1",result="{result}"}}']) for result in ("ok", "failed")}
        counted = int(found['hypatia_inference_requests_total{model="live",version="1",code="200"}'])
        server.stop()
    right = clients.counts["plan 1"] + clients.counts["plan 2"]
    tenth, half = len(memory) // 10, len(memory) // 2
    early, late = max(memory[tenth:half], default=0), max(memory[half:], default=0)
    print(f"{right} answers ({clients.counts['plan 1']} of plan 1, {clients.counts['plan 2']} of plan 2), {clients.counts['refused']} requests refused as they should be, {clients.counts['broken']} broken ones;"
          f" {loads['ok']} loads, {loads['failed']} of files that are no plans; {counted} answers counted by the server")
    print(f"resident memory: {memory[0]:.1f} MiB after a second, at most {early:.1f} in the first half, {late:.1f} in the second")
    for failure in clients.failed:
        print("failed:", failure)
    operated = args.minutes < 0.5 or loads["ok"] >= 30 * args.minutes and loads["failed"]  # plans were put to the end
    passed = late <= 1.1 * early + 4 and not clients.failed and operated
    print("PASSED" if passed else "FAILED")
    sys.exit(0 if passed else 1)


main()
