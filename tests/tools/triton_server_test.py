"""libtriton_hypatia.so in a real tritonserver: responses, joined batches, errors, new versions. scripts/triton-test.sh runs it, in an environment
with nvidia-pytriton and tritonclient. With the argument cuda models run on a GPU, and clients also give and take its memory.
"""
import base64
import concurrent.futures
import ctypes
import os
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../support"), os.path.join(HERE, "../../bench")]
import hyp  # noqa: E402
import triton_server  # noqa: E402

hyp.need("onnx", "onnxruntime", "tritonclient.http")
if not triton_server.wheel():
    hyp.skip("python3 has no module pytriton with a tritonserver")
import numpy as np  # noqa: E402
import onnxruntime  # noqa: E402
import tritonclient.http as http  # noqa: E402
import tritonclient.utils.shared_memory as shared  # noqa: E402
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402

import test_triton as models  # noqa: E402

BUILD = os.path.dirname(hyp.BIN)
DIGITS = os.path.join(hyp.ROOT, "examples/digits")
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"
ON_GPU = ("--gpu",) if DEVICE == "cuda" else ()


def make_repository(folder):
    repo = folder + "/repository"
    plans = {"digits": folder + "/digits.bin", "looked_up": models.looked_up(folder),
             "places": models.compile_model(folder, "places", [models.node("NonZero", ["x"], ["where"])], [("x", models.T.FLOAT, ["n", 3])],
                                            [("where", models.T.INT64, [2, "found"])]),
             "halves": models.compile_model(folder, "halves", [models.node("Cast", ["x"], ["y"], to=models.T.FLOAT16)], [("x", models.T.FLOAT, ["batch", 2])],
                                            [("y", models.T.FLOAT16, ["batch", 2])])}
    done = hyp.tool("hypatiac", DIGITS + "/digits.onnx", "-o", plans["digits"], "-q")
    assert done.returncode == 0, done.stderr
    options = {"digits": ("--max-batch", "32", "--instances", "2", "--delay", "2000"), "looked_up": ("--max-batch", "8", "--delay", "20000")}
    for name, plan in plans.items():
        models.triton(plan, "-o", repo, *options.get(name, ()), *ON_GPU)
    return repo


def tensor(name, value, binary=True):
    made = http.InferInput(name, list(value.shape), np_to_triton_dtype(value.dtype))
    made.set_data_from_numpy(value, binary_data=binary)
    return made


def connect(server):
    return http.InferenceServerClient(f"127.0.0.1:{server.port}", network_timeout=60)


def counts(server, model):
    """Requests are counted after they have been answered: what does not change any more."""
    last, stats = None, server.get(f"models/{model}/stats")["model_stats"][0]
    while stats != last:
        time.sleep(0.5)
        last, stats = stats, server.get(f"models/{model}/stats")["model_stats"][0]
    return stats["inference_count"], stats["execution_count"], stats


def check_responses(server, client):
    """What onnxruntime says, alone and among others, in JSON and in binary."""
    images = np.load(DIGITS + "/images.npy").reshape(-1, 64)
    wanted = onnxruntime.InferenceSession(DIGITS + "/digits.onnx").run(None, {"image": images})[0]
    before = counts(server, "digits")

    def ask(k):
        first, rows, binary = k * 7 % 90, 1 + k % 5, k % 2 == 0
        outputs = [http.InferRequestedOutput("probabilities", binary_data=binary)] if k % 3 else None
        with connect(server) as own:
            got = own.infer("digits", [tensor("image", images[first:first + rows], binary)], outputs=outputs).as_numpy("probabilities")
        return rows, float(np.abs(got - wanted[first:first + rows]).max())

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(800)))
    worst = max(off for _, off in answers)
    assert worst < 2e-6, worst
    after = counts(server, "digits")
    rows, runs = after[0] - before[0], after[1] - before[1]
    assert rows == sum(rows for rows, _ in answers) and runs < 800, (rows, runs)
    batches = {batch["batch_size"]: batch["compute_infer"]["count"] for batch in after[2]["batch_stats"]}
    assert sum(size * count for size, count in batches.items()) == after[0] and sum(batches.values()) == after[1] and max(batches) > 5, batches
    # To the bit what the runtime gives for the same rows, where nothing is joined.
    alone = client.infer("digits", [tensor("image", images[:32])]).as_numpy("probabilities")
    np.save(server.folder + "/x.npy", images[:32])
    done = hyp.tool("hypatia", "run", server.folder + "/digits.bin", "--input", f"image=@{server.folder}/x.npy", "--output", f"probabilities=@{server.folder}/y.npy", "-q", "--device", DEVICE)
    assert done.returncode == 0 and alone.tobytes() == np.load(server.folder + "/y.npy").tobytes(), done.stderr
    print(f"800 requests of {rows} rows in {runs} runs, the largest of {max(batches)}; off by {worst:.2g} at most")


def check_shapes(client):
    x, k = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[1], [4]])
    table = np.arange(5)[:, None] * 10 + np.arange(3)
    got = client.infer("looked_up", [tensor("x", x), tensor("k", k)])
    assert np.array_equal(got.as_numpy("y"), table[k[:, 0]] + x)
    assert got.as_numpy("z").shape == (2, 1) and np.array_equal(got.as_numpy("z")[:, 0], (table[k[:, 0]] + x).sum(1))
    got = client.infer("looked_up", [tensor("x", x), tensor("k", k)], outputs=[http.InferRequestedOutput("z")])
    assert got.as_numpy("y") is None and got.as_numpy("z") is not None
    for value in (np.eye(4, 3, dtype=np.float32), np.zeros((2, 3), np.float32)):
        assert np.array_equal(client.infer("places", [tensor("x", value)]).as_numpy("where"), np.argwhere(value).T)
    half = client.infer("halves", [tensor("x", np.array([[1.5, 70000]], np.float32))]).as_numpy("y")
    assert half.dtype == np.float16 and half.tolist() == [[1.5, np.inf]]


def refuse(client, model, inputs, *words):
    try:
        client.infer(model, inputs)
    except InferenceServerException as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"{model} took {words}")


def check_errors(server, client):
    """A request that is wrong fails, and those it is joined with do not."""
    x = np.ones((1, 3), np.float32)
    refuse(client, "digits", [tensor("image", np.ones((1, 63), np.float32))], "unexpected shape")
    refuse(client, "digits", [tensor("image", np.ones((33, 64), np.float32))], "batch-size")
    refuse(client, "places", [tensor("x", np.ones((2, 4), np.float32))], "unexpected shape")
    refuse(client, "looked_up", [tensor("x", np.ones((1, 4), np.float32)), tensor("k", np.array([[0]]))], "400", "hypatia: looked_up:")
    before = counts(server, "looked_up")

    def ask(k):
        with connect(server) as own:
            try:
                return own.infer("looked_up", [tensor("x", x), tensor("k", np.array([[k]]))]).as_numpy("y")[0].tolist()
            except InferenceServerException as error:
                return str(error)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, [0, 1, 2, 99, 3, 4, -99, 0] * 10))
    wrong = [answer for answer in answers if isinstance(answer, str)]
    assert len(wrong) == 20 and all("out of range" in answer for answer in wrong), wrong[:2]
    assert answers[:3] == [[1, 2, 3], [11, 12, 13], [21, 22, 23]], answers[:3]
    after = counts(server, "looked_up")
    assert after[0] - before[0] == 60 and after[2]["inference_stats"]["fail"]["count"] - before[2]["inference_stats"]["fail"]["count"] == 20, after


def check_shared_memory(client):
    image = np.load(DIGITS + "/images.npy").reshape(-1, 64)[:2].copy()
    wanted = client.infer("digits", [tensor("image", image)]).as_numpy("probabilities")
    region = shared.create_shared_memory_region("images", "/hypatia_triton_test", 4096)
    try:
        shared.set_shared_memory_region(region, [image])
        client.register_system_shared_memory("images", "/hypatia_triton_test", 4096)
        there = http.InferInput("image", [2, 64], "FP32")
        there.set_shared_memory("images", image.nbytes)
        back = http.InferRequestedOutput("probabilities")
        back.set_shared_memory("images", 80, offset=1025)  # at an odd address
        client.infer("digits", [there], outputs=[back])
        raw = shared.get_contents_as_numpy(region, np.uint8, [80], offset=1025)
        assert np.frombuffer(raw.tobytes(), np.float32).reshape(2, 10).tolist() == wanted.tolist()
        client.unregister_system_shared_memory()
    finally:
        shared.destroy_shared_memory_region(region)


class GpuRegion:
    """Memory of the first GPU that another process can open; the driver's own functions."""

    def __init__(self, size):
        self.driver, self.at, self.context = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p()
        assert self.driver.cuInit(0) == self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0) == 0
        self.call("cuMemAlloc_v2", ctypes.byref(self.at), ctypes.c_size_t(size))

    def call(self, name, *args):
        """By any thread."""
        assert self.driver.cuCtxSetCurrent(self.context) == 0
        code = getattr(self.driver, name)(*args)
        assert code == 0, f"{name}: {code}"

    def handle(self):
        made = (ctypes.c_char * 64)()
        self.call("cuIpcGetMemHandle", made, self.at)
        return base64.b64encode(bytes(made))

    def write(self, value, offset=0):
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.at.value + offset), value.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(value.nbytes))

    def read(self, shape, offset):
        value = np.full(shape, np.nan, np.float32)
        self.call("cuMemcpyDtoH_v2", value.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(self.at.value + offset), ctypes.c_size_t(value.nbytes))
        return value

    def free(self):
        self.call("cuMemFree_v2", self.at)


def check_gpu_memory(server, client):
    """Inputs and outputs in the GPU's memory, alone and joined with such as come from the host."""
    images, each, answers = np.load(DIGITS + "/images.npy").reshape(-1, 64), 4096, 1 << 18
    wanted = client.infer("digits", [tensor("image", images[:32])]).as_numpy("probabilities")
    region = GpuRegion(1 << 20)
    try:
        client.register_cuda_shared_memory("gpu", region.handle(), 0, 1 << 20)

        def ask(k):
            there, back = k & 1, k & 2
            first, rows = k % 29, 1 + k % 3
            x = images[first:first + rows].copy()
            given, output = tensor("image", x), http.InferRequestedOutput("probabilities")
            if there:
                region.write(x, k * each)
                given = http.InferInput("image", [rows, 64], "FP32")
                given.set_shared_memory("gpu", x.nbytes, offset=k * each)
            if back:
                output.set_shared_memory("gpu", 40 * rows, offset=answers + k * each)
            with connect(server) as own:
                answer = own.infer("digits", [given], outputs=[output])
            got = region.read((rows, 10), answers + k * each) if back else answer.as_numpy("probabilities")
            assert np.abs(got - wanted[first:first + rows]).max() < 2e-6, k

        for k in range(8):
            ask(k)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(64)))
        client.unregister_cuda_shared_memory()
    finally:
        region.free()


def check_metrics(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert 'nv_inference_request_success{model="digits",version="1"}' in text and "nv_inference_compute_infer_duration_us" in text, text[:500]


def load(server, model, act="load"):
    return server.post(f"repository/models/{model}/{act}", {})


def replace_plan(folder, repo, output):
    """Of the model `doubled`: it gives x as it is, where that is not negative."""
    plan = models.compile_model(folder, "doubled", [models.node("Relu", ["x"], [output])], [("x", models.T.FLOAT, ["batch", 3])],
                                [(output, models.T.FLOAT, ["batch", 3])])
    path = repo + "/doubled/1/model.plan"
    os.replace(plan, path)
    now = time.time() + 5
    os.utime(path, (now, now))  # the server looks at times


def ask_doubled(client):
    return client.infer("doubled", [tensor("x", np.ones((1, 3), np.float32))]).as_numpy("y")[0].tolist()


def check_loading(server, client, repo):
    """Another plan of the same model is served after a load; what was loaded stays as it was until then."""
    models.triton(models.relu_of(server.folder, "doubled", ["batch", 3]), "-o", repo, *ON_GPU)
    assert load(server, "doubled")[0] == 200 and ask_doubled(client) == [2, 2, 2]
    replace_plan(server.folder, repo, "y")
    assert ask_doubled(client) == [2, 2, 2]
    assert load(server, "doubled")[0] == 200 and ask_doubled(client) == [1, 1, 1]
    for _ in range(3):  # with several instances
        assert load(server, "digits", "unload")[0] == load(server, "digits")[0] == 200


def check_failing_load(folder, server, client, repo):
    """A plan that does not fit the configuration is refused, and the old one goes on. (When the server ends it then waits for a model that it
    has lost count of, whatever its backend.)"""
    replace_plan(folder, repo, "z")
    status, said = load(server, "doubled")
    assert status == 400 and "config.pbtxt has an output 'y', and the plan has none of this name" in said["error"], said
    assert ask_doubled(client) == [1, 1, 1]


def check_settings(folder, repo):
    """What the server's command line says of all plans."""
    if hyp.tool("hypatia", "keygen", folder + "/key").returncode != 0:
        print("there is no libsodium: signatures were not tried")
        return
    hyp.tool("hypatia", "sign", repo + "/digits/1/model.plan", "--key", folder + "/key")
    options = ("--model-control-mode=explicit", f"--backend-config=hypatia,require-signature={folder}/key.pub", "--backend-config=hypatia,threads=1")
    with triton_server.Server(repo, folder, BUILD, *options) as server:
        assert load(server, "digits")[0] == 200
        status, said = load(server, "places")
        assert status == 400 and "is not signed" in said["error"], said


def main():
    with tempfile.TemporaryDirectory() as folder:
        repo = make_repository(folder)
        explicit = "--model-control-mode=explicit", "--load-model=*"
        with triton_server.Server(repo, folder, BUILD, *explicit) as server:
            server.folder, version = folder, server.get("")["version"]
            with connect(server) as client:
                check_responses(server, client)
                check_shapes(client)
                check_errors(server, client)
                check_shared_memory(client)
                if ON_GPU:
                    check_gpu_memory(server, client)
                check_metrics(server)
                check_loading(server, client, repo)
        assert server.process.returncode == 0, server.said()[-3000:]
        with triton_server.Server(repo, folder, BUILD, *explicit, "--exit-timeout-secs=1") as server, connect(server) as client:
            check_failing_load(folder, server, client, repo)
        check_settings(folder, repo)
    print("PASSED with tritonserver", version, "on the GPU" if ON_GPU else "on the CPU")


main()
