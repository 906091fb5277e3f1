"""hypatia serve under load: batches, plans that are replaced while requests run, backpressure, TLS, tokens, limits, and the end.

    test_serve_load.py [DEVICE CHECK...]        cuda check_batches check_reloading
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

np, onnx = hyp.need("numpy", "onnx")
import serving  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
FLOAT = TensorProto.FLOAT
value = helper.make_tensor_value_info


DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"


def compile_model(path, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "model", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path + ".onnx")
    return serving.compile_plan(path + ".onnx", path + ".bin")


def add_model(folder, name, amount):
    """y = x + amount: which plan answered can be told."""
    return compile_model(os.path.join(folder, name), [helper.make_node("Add", ["x", "amount"], ["y"])], [value("x", FLOAT, ["n", 4])], [value("y", FLOAT, ["n", 4])],
                         [("amount", np.float32(amount))])


def table_model(folder):
    """Rows of a table by their numbers, which may be out of range."""
    return compile_model(os.path.join(folder, "table"), [helper.make_node("Gather", ["rows", "index"], ["y"], axis=0)], [value("index", TensorProto.INT64, ["n"])],
                         [value("y", FLOAT, ["n", 2])], [("rows", np.arange(20, dtype=np.float32).reshape(10, 2))])


def mixing_model(folder):
    """Rows that depend on each other's number: their mean."""
    return compile_model(os.path.join(folder, "mixing"), [helper.make_node("ReduceMean", ["x"], ["m"], keepdims=1)], [value("x", FLOAT, ["n", 4])], [value("m", FLOAT, [1, 1])])


def check_batches(folder, digits):
    images = np.load(os.path.join(hyp.ROOT, "examples/digits/images.npy")).astype(np.float32)
    table, mixing = table_model(folder), mixing_model(folder)
    with serving.Server(digits, table, mixing, "--max-batch", "8", "--max-delay", "200000", "--max-batch", "digits=16", "--threads", "1", "--device", DEVICE) as server:
        assert "'m'" in server.wait("not_joined")["reason"] and server.wait("not_joined")["model"] == "mixing"
        with serving.Server(digits, "--threads", "1") as alone:
            wanted = [alone.infer("digits", {"image": images[i:i + 1 + i % 3]}, binary=i % 2 == 0)["probabilities"] for i in range(32)]
            assert alone.metrics()['hypatia_inference_batch_rows_bucket{model="digits",version="1",le="1"}'] == 32
        got = serving.together(32, lambda i: server.infer("digits", {"image": images[i:i + 1 + i % 3]}, binary=i % 2 == 0)["probabilities"])
        for one, other in zip(wanted, got):
            assert one.shape == other.shape and np.allclose(one, other, atol=1e-6)
        found = server.metrics()
        runs = found['hypatia_inference_batch_rows_count{model="digits",version="1"}']
        assert runs < 20, f"{runs} runs of 32 requests: they were not joined"
        assert found['hypatia_inference_batch_rows_sum{model="digits",version="1"}'] == sum(1 + i % 3 for i in range(32))
        assert found['hypatia_inference_batch_rows_bucket{model="digits",version="1",le="16"}'] == runs, "a run had more rows than --max-batch"
        # One that is larger than a batch runs by itself.
        assert np.allclose(server.infer("digits", {"image": images[:40]})["probabilities"][:1], wanted[0][:1], atol=1e-6)

        # What is wrong with one request is told to it alone.
        def ask(i):
            try:
                return server.infer("table", {"index": np.array([i if i != 5 else 99])})["y"].tolist()
            except serving.Refused as error:
                return error.status, error.message
        got = serving.together(8, ask)
        assert got[5][0] == 400 and "99" in got[5][1], got[5]
        assert [g for i, g in enumerate(got) if i != 5] == [[[2.0 * i, 2.0 * i + 1]] for i in range(8) if i != 5]
        means = serving.together(4, lambda i: float(server.infer("mixing", {"x": np.full((2, 4), i, np.float32)})["m"].item()))
        assert means == [0, 1, 2, 3]


def check_reloading(folder):
    """Requests in several threads while the plan is replaced by the API, by SIGHUP, and by a watched file: none is lost, each is answered by a plan that was there, and
    after a load has been answered by the new one."""
    plans, path = [add_model(folder, f"plus{k}", k) for k in (1, 2)], os.path.join(folder, "live.bin")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)

    def put(k):
        shutil.copy(plans[k - 1], path + ".new")
        os.replace(path + ".new", path)

    put(1)
    with serving.Server(path, "--control", "--watch", "0.05", "--max-batch", "8", "--instances", "2", "--threads", "1", "--device", DEVICE) as server:
        ended, counts = threading.Event(), []

        def client(i):
            connection, count = server.connect(), 0
            while not ended.is_set():
                y = server.infer("live", {"x": x}, connection, binary=i % 2 == 0)["y"]
                amount = float(y[0, 0])
                assert amount in (1, 2) and np.array_equal(y, x + np.float32(amount)), y
                count += 1
            counts.append(count)

        def operator():
            try:
                loads = 1
                for round in range(12):
                    k = 1 + (round + 1) % 2
                    put(k)
                    if round % 3 == 0:
                        server.json("POST", "/v2/repository/models/live/load")
                    elif round % 3 == 1:
                        server.process.send_signal(signal.SIGHUP)
                        server.wait("loaded", count=loads + 1)
                    until = time.monotonic() + 10
                    while float(server.infer("live", {"x": x})["y"][0, 0]) != k:
                        assert round % 3 and time.monotonic() < until, "the old plan answers after the load"
                        time.sleep(0.01)
                    loads = sum(event["event"] == "loaded" for event in server.events)
                # A file that is no plan changes nothing but what is told. It is written in place: nobody has it mapped.
                with open(path, "r+b") as file:
                    file.write(b"no plan at all")
                server.refused(400, "live.bin", "POST", "/v2/repository/models/live/load")
                index = server.json("POST", "/v2/repository/index")
                assert index[0]["state"] == "READY" and "live.bin" in index[0]["reason"]
            finally:
                ended.set()

        serving.together(5, lambda i: client(i) if i else operator())
        assert sum(counts) > 100, counts
        found = server.metrics()
        assert found['hypatia_model_loads_total{model="live",version="1",result="ok"}'] >= 13
        assert found['hypatia_model_loads_total{model="live",version="1",result="failed"}'] >= 1
        # Away, and back.
        server.json("POST", "/v2/repository/models/live/unload", "{}")
        server.refused(503, "it was unloaded", "POST", "/v2/models/live/infer", "{}")
        server.refused(503, "it was unloaded", "GET", "/v2/models/live/ready")
        assert server.json("GET", "/v2/health/ready") == {"ready": True} and server.json("POST", "/v2/repository/index")[0]["state"] == "UNAVAILABLE"
        put(2)
        server.json("POST", "/v2/repository/models/live/load", '{"parameters": {}}')
        assert server.infer("live", {"x": x})["y"][0, 0] == 2
        server.refused(404, "there is no model 'other'", "POST", "/v2/repository/models/other/load")
        server.refused(400, '"parameters" are not supported', "POST", "/v2/repository/models/live/load", '{"parameters": {"config": "{}"}}')
        server.refused(400, "no object of JSON", "POST", "/v2/repository/models/live/unload", "[1]")


def slow_request(rows=1000):
    return {"image": np.full((rows, 64), 0.5, np.float32)}  # some 0.1 s of a core, by the reference's plain loops


def check_backpressure(digits):
    with serving.Server(digits, "--device", "reference", "--max-queue", "2", "--memory-limit", "64") as server:
        def ask(_):
            try:
                return server.infer("digits", slow_request())["probabilities"].shape == (1000, 10) and 200
            except serving.Refused as error:
                assert error.headers["Retry-After"] == "1" and "try again later" in error.message
                return error.status
        codes = serving.together(12, ask)
        assert set(codes) == {200, 429} and codes.count(200) >= 2, codes
        assert server.metrics()['hypatia_inference_requests_total{model="digits",version="1",code="429"}'] == codes.count(429)
        try:
            server.infer("digits", slow_request(240000))
            raise AssertionError("--memory-limit was not heeded")
        except serving.Refused as error:
            assert error.status == 413, error
        assert server.infer("digits", slow_request(1))["probabilities"].shape == (1, 10)
    with serving.Server(digits, "--device", "reference", "--queue-timeout", "20", "--max-request-memory", "64M") as server:
        def ask_more(_):
            try:
                return server.infer("digits", slow_request()) and 200
            except serving.Refused as error:
                assert "longer than requests may" in error.message, error
                return error.status
        codes = serving.together(8, ask_more)
        assert set(codes) == {200, 503}, codes
        found = server.settled()
        assert found["hypatia_request_memory_bytes"] < 100000 and found["hypatia_request_memory_limit_bytes"] == 64 << 20
    with serving.Server(digits, "--max-request-memory", "1M") as server:
        for _ in range(3):
            try:
                server.infer("digits", slow_request(4000))
                raise AssertionError("--max-request-memory was not heeded")
            except serving.Refused as error:
                assert error.status == 503 and "no memory for this request now" in error.message
        assert server.infer("digits", slow_request(2000))["probabilities"].shape == (2000, 10)


def wait_for_whole(server, count):
    """Until so many requests have come as a whole and are not answered; this question is one, and the one before may still count."""
    seen = 0
    while seen < 3:
        seen = seen + 1 if server.metrics()['hypatia_http_requests_in_flight{state="answering"}'] > count else 0
        time.sleep(0.01)


def in_background(count, work):
    """Threads that work, and the list of what they return."""
    results = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, results


def check_end(digits):
    """Requests under way are finished, new ones refused; the exit code tells how it ended."""
    with serving.Server(digits, "--max-batch", "64", "--max-delay", "10000000", "--shutdown-delay", "0.3") as server:
        threads, results = in_background(4, lambda: server.infer("digits", slow_request(2))["probabilities"].shape)
        wait_for_whole(server, 4)  # for others to join
        server.process.send_signal(signal.SIGTERM)
        server.wait("stopping")
        assert server.json("GET", "/v2/health/ready", code=503) == {"ready": False}  # and everything else goes on
        assert server.json("GET", "/v2")["name"] == "hypatia"
        for thread in threads:
            thread.join()
        assert results == [(2, 10)] * 4 and server.process.wait(20) == 0
        try:
            server.ask("GET", "/v2")
            raise AssertionError("it listens yet")
        except OSError:
            pass
    for how, code in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        with serving.Server(digits) as server, socket.create_connection((server.host, server.port)) as half:
            if how == signal.SIGINT:  # one that will never be whole does not hold the end up for long
                half.sendall(b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            server.stop(how, code, seconds=10)

    def ask():
        try:
            return server.infer("digits", slow_request(2000)) and 200
        except serving.Refused as error:
            assert error.status == 503 and ("shutting down" in error.message or "cancelled" in error.message), error
            return error.status

    with serving.Server(digits, "--device", "reference", "--grace", "0.05") as server:
        kept = server.connect()
        server.ask("GET", "/v2", connection=kept)
        threads, codes = in_background(4, ask)
        wait_for_whole(server, 4)
        server.process.send_signal(signal.SIGTERM)
        server.wait("stopping")
        time.sleep(0.02)
        try:  # on a connection that is open yet
            status, headers, data = server.ask("POST", "/v2/models/digits/infer", "{}", connection=kept)
            assert status == 503 and headers["Connection"] == "close" and "shutting down" in json.loads(data)["error"], (status, data)
        except OSError:
            pass  # it has ended
        server.stop()
        for thread in threads:
            thread.join()
        assert len(codes) == 4 and set(codes) <= {200, 503} and 503 in codes, codes


def check_tokens(folder, digits):
    tokens = os.path.join(folder, "tokens")
    with open(tokens, "w", encoding="utf-8") as file:
        file.write("# two\nfirst-token\n\nsecond.token==\n")
    with serving.Server(digits, "--token-file", tokens) as server:
        assert server.json("GET", "/v2/health/live")["live"] and server.json("GET", "/v2/health/ready")["ready"]
        for path in ("/v2", "/metrics", "/v2/models/digits", "/nothing"):
            server.refused(401, "there is no Authorization", "GET", path)
        for wrong in ("Bearer first", "Bearer first-token2", "Basic first-token", "first-token", "Bearer ", "Bearer # two", ""):
            status, headers, data = server.ask("GET", "/v2", headers={"Authorization": wrong})
            assert status == 401 and headers["WWW-Authenticate"] == "Bearer" and "wanted 'Bearer TOKEN'" in json.loads(data)["error"], wrong
        for right in ("Bearer first-token", "bearer second.token=="):
            assert server.json("GET", "/v2", headers={"Authorization": right})["name"] == "hypatia"
            assert server.infer("digits", slow_request(1), headers={"Authorization": right})["probabilities"].shape == (1, 10)
        server.refused(401, "there is no Authorization", "POST", "/v2/models/digits/infer", b"x" * 100000)


def check_tls(folder, digits):
    if not shutil.which("openssl"):
        print("no openssl: TLS is left out")
        return
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    with serving.Server(digits, "--tls-certificate", certificate, "--tls-key", key, "--threads", "1") as server:
        assert server.tls
        server.trusted = certificate
        results = serving.together(6, lambda i: server.infer("digits", slow_request(500), binary=i % 2 == 0)["probabilities"])
        assert all(np.array_equal(one, results[0]) for one in results) and results[0].shape == (500, 10)
        with socket.create_connection((server.host, server.port), timeout=5) as plain:
            plain.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"hypatia" not in plain.recv(1000)
        assert server.json("GET", "/v2/health/ready")["ready"]
    hyp_serve = ["hypatia", "serve", digits, "--listen", "127.0.0.1:0"]
    for args, says in ((["--tls-certificate", key, "--tls-key", certificate], "are no certificate and the private key"), (["--tls-certificate", digits, "--tls-key", key], "is no PEM"),
                       (["--tls-certificate", "absent", "--tls-key", key], "absent: cannot be read")):
        done = hyp.tool(*hyp_serve, *args)
        assert done.returncode == 1 and says in done.stderr, done.stderr


def check_usage(folder, digits):
    empty = os.path.join(folder, "empty")
    open(empty, "w", encoding="utf-8").close()
    step = os.path.join(folder, "step.bin")
    done = hyp.tool("hypatiac", os.path.join(hyp.ROOT, "examples/train_digits/digits.onnx"), "--train", "cross-entropy", "-o", step, "-q")
    assert done.returncode == 0, done.stderr
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    for code, says, args in ((2, "no plan was given", []), (2, "'a b' is no name of a model", [f"a b={digits}"]), (2, "names no file", ["x="]), (2, "the version is no number", [f"x:0={digits}"]),
                             (2, "was given twice", [digits, digits]), (2, "there is no model 'other'", [digits, "--max-batch", "other=2"]), (2, "--max-batch: '0' is no number", [digits, "--max-batch", "0"]),
                             (2, "--device: 'tpu' is none of", [digits, "--device", "digits=tpu"]), (2, "TLS needs both", [digits, "--tls-key", empty]), (2, "is no address to listen at", [digits, "--listen", "8000"]),
                             (2, "--max-body: '12' is no number of bytes", [digits, "--max-body", "12"]), (2, "--log: 'xml'", [digits, "--log", "xml"]), (2, "--watch: '-1'", [digits, "--watch", "-1"]),
                             (2, "fewer than the 2 of --http-threads", [digits, "--max-connections", "1"]), (2, "did you mean '--max-batch'", [digits, "--max-bach", "2"]),
                             (1, f"'127.0.0.1:{port}' cannot be listened at", [digits, "--listen", f"127.0.0.1:{port}"]), (1, "absent.bin", ["absent.bin"]), (1, "wanted a file that is not empty", [empty]),
                             (1, "has no token", [digits, "--token-file", empty]), (1, "cannot be read", [digits, "--token-file", "absent"]), (3, "is a training step", [step])):
        done = hyp.tool("hypatia", "serve", "--listen", "127.0.0.1:0", *args)
        assert done.returncode == code and says in done.stderr, f"{args}: {done.returncode}, wanted {code} and {says!r}\n{done.stderr}"
    taken.close()
    if hyp.tool("hypatia", "keygen", os.path.join(folder, "signer")).returncode == 0:
        done = hyp.tool("hypatia", "serve", digits, "--listen", "127.0.0.1:0", "--require-signature", os.path.join(folder, "signer.pub"))
        assert done.returncode == 1 and "is not signed" in done.stderr, done.stderr
        signed = os.path.join(folder, "signed.bin")
        assert hyp.tool("hypatia", "sign", digits, "--key", os.path.join(folder, "signer"), "-o", signed).returncode == 0
        with serving.Server(signed, "--require-signature", os.path.join(folder, "signer.pub"), "--map") as server:
            assert server.infer("signed", slow_request(1))["probabilities"].shape == (1, 10)


def main():
    if not serving.has_server():
        print("skipped: hypatia serve has no libmicrohttpd here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        digits = os.path.join(folder, "digits.bin")
        serving.compile_plan(DIGITS, digits)
        for check, *args in ((check_batches, folder, digits), (check_reloading, folder), (check_backpressure, digits), (check_end, digits), (check_tokens, folder, digits), (check_tls, folder, digits),
                             (check_usage, folder, digits)):
            if sys.argv[2:] and check.__name__ not in sys.argv[2:]:
                continue
            begun = time.monotonic()
            check(*args)
            print(f"{check.__name__}: {time.monotonic() - begun:.1f} s")


main()
