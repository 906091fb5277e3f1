"""Runs both examples on a cluster of three nodes, each a set of processes of this machine, and compares with onnxruntime.

    python3 check.py [--rows 60000] [--rounds 3] [--hypatiac hypatiac]

Needs "ray[serve,data]", pyarrow, onnx, onnxruntime and hypatia. Printed are rows a second of the offline example with one and two workers, in turns,
medians over rounds, of a network of 4.3 million multiplications a row; and requests a second of the online one until a second replica comes.
"""
import argparse
import concurrent.futures
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import numpy as np
import onnx
import onnxruntime
import pyarrow
import pyarrow.parquet
import ray
import ray.cluster_utils
from onnx import TensorProto, helper, numpy_helper
from ray import serve

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "../digits")
sys.path.insert(0, HERE)
import offline  # noqa: E402
import online  # noqa: E402

FILES = 16


class Located(offline.Worker):
    """Tells where each row was computed."""

    def __call__(self, batch):
        done = super().__call__(batch)
        return {**done, "node": np.full(len(done["probabilities"]), ray.get_runtime_context().get_node_id())}


def write_rows(folder, images, rows):
    os.mkdir(folder)
    for k in range(FILES):
        index = np.arange(k, rows, FILES)
        flat = pyarrow.array(images[index % len(images)].reshape(-1))
        pyarrow.parquet.write_table(pyarrow.table({"id": index, "image": pyarrow.FixedSizeListArray.from_arrays(flat, 64)}), f"{folder}/{k:02d}.parquet")


def write_wide(path):
    """64-2048-2048-10: enough work for a row that computing it is what takes the time."""
    noise, nodes, constants, sizes = np.random.default_rng(1), [], [], [64, 2048, 2048, 10]
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        constants.append(numpy_helper.from_array((noise.standard_normal((a, b)) / a**0.5).astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"r{i}" if i else "image", f"w{i}"], [f"m{i}" if i < 2 else "probabilities"]))
        if i < 2:
            nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i + 1}"]))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("image", 64), ("probabilities", 10))]
    graph = helper.make_graph(nodes, "wide", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def time_workers(plan, folder, workers):
    """Rows a second, from the first results, when the workers have started, to the last."""
    count, first = 0, None
    for batch in offline.predict(plan, folder, workers, 2048).iter_batches(batch_size=None, prefetch_batches=0):
        count += len(batch["id"]) if first else 0
        first = first or time.perf_counter()
    return count / (time.perf_counter() - first)


def check_offline(plan, folder, wanted, rows):
    output = folder + "-answers"
    offline.predict(plan, folder, 2, 8192, Located).write_parquet(output)
    table = pyarrow.parquet.read_table(output)
    ids, nodes = table["id"].to_numpy(), set(table["node"].to_pylist())
    got = np.array(table["probabilities"].to_pylist(), np.float32)
    assert sorted(ids) == list(range(rows)), "each row once"
    worst = np.abs(got - wanted[ids % len(wanted)]).max()
    assert worst < 2e-6 and len(nodes) == 2, (worst, nodes)
    print(f"offline: {rows} rows on {len(nodes)} nodes, off by {worst:.1g} at most")


def ask(document):
    request = urllib.request.Request("http://127.0.0.1:8000/", json.dumps(document).encode())
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def replicas():
    return sum(serve.status().applications["default"].deployments["Model"].replica_states.values())


def check_online(plan, images, wanted):
    serve.run(online.app({"plan": plan}))
    status, said = ask({"image": images[0].tolist()[:63]})
    assert status == 400 and "wanted (64,)" in said["error"], said
    assert ask([1])[0] == 400 and ask({"image": "x"})[0] == 400

    def one(k):
        status, said = ask({"image": images[k % len(images)].tolist()})
        return status == 200 and np.abs(np.float32(said["probabilities"]) - wanted[k % len(images)]).max()

    with concurrent.futures.ThreadPoolExecutor(96) as pool:
        worst = max(pool.map(one, range(500)))
        assert 0 < worst < 2e-6, worst
        begin, asked = time.monotonic(), 0
        while replicas() < 2 and time.monotonic() < begin + 60:
            assert max(pool.map(one, range(500))) < 2e-6
            asked += 500
    assert replicas() >= 2, "no replica was added"
    print(f"online: {asked} requests, {asked / (time.monotonic() - begin):.0f} a second until the second replica came; off by {worst:.1g} at most")
    serve.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=60000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hypatiac", default="hypatiac")
    options = parser.parse_args()
    images = np.load(DIGITS + "/images.npy").reshape(-1, 64)
    wanted = onnxruntime.InferenceSession(DIGITS + "/digits.onnx").run(None, {"image": images})[0]
    with tempfile.TemporaryDirectory() as folder:
        plan, wide = folder + "/digits.bin", folder + "/wide.bin"
        write_wide(folder + "/wide.onnx")
        subprocess.run([options.hypatiac, DIGITS + "/digits.onnx", "-o", plan, "-q"], check=True)
        subprocess.run([options.hypatiac, folder + "/wide.onnx", "-o", wide, "-q"], check=True)
        write_rows(folder + "/rows", images, options.rows)
        # Processes as they are wanted, not in advance: all nodes are one machine.
        head = {"num_cpus": 2, "include_dashboard": False, "_system_config": {"enable_worker_prestart": False, "prestart_worker_first_driver": False, "worker_niceness": 0}}
        cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        for module in (offline, online):  # processes of the cluster do not find it, as they would what is installed
            ray.cloudpickle.register_pickle_by_value(module)
        try:
            check_offline(plan, folder + "/rows", wanted, options.rows)
            found = {1: [], 2: []}
            for _ in range(options.rounds):
                for workers, kept in found.items():
                    kept.append(time_workers(wide, folder + "/rows", workers))
            print("offline:", ", ".join(f"{statistics.median(kept):.0f} rows a second with {workers}" for workers, kept in found.items()), "workers")
            check_online(plan, images, wanted)
        finally:
            ray.shutdown()
            cluster.shutdown()


main()
