"""hypatia serve as a process, and the open inference protocol as a client sees it: numpy and the standard library."""
import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.parse

import numpy as np

import hyp

NAMES = {"BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64, "INT8": np.int8, "INT16": np.int16,
         "INT32": np.int32, "INT64": np.int64, "FP16": np.float16, "FP32": np.float32, "FP64": np.float64}
if 16 in hyp.DTYPES:
    NAMES |= {"BF16": hyp.DTYPES[16], "FP8E4M3": hyp.DTYPES[17]}
TYPES = {np.dtype(t): name for name, t in NAMES.items()}


class Server:
    """Listens at a port that is free; `events` are the lines of its log."""

    def __init__(self, *args, ready=True, seconds=20):
        self.process = subprocess.Popen([os.path.join(hyp.BIN, "hypatia"), "serve", "--listen", "127.0.0.1:0", "--log", "json", *args], stderr=subprocess.PIPE,
                                        text=True)
        self.events, self.other, self.changed = [], [], threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        url = urllib.parse.urlparse(self.wait("listening", seconds)["url"])
        self.host, self.port, self.tls = url.hostname, url.port, url.scheme == "https"
        self.trusted = None  # of TLS: a file of certificates
        if ready:
            self.wait("ready", seconds)

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                try:
                    self.events.append(json.loads(line))
                except ValueError:
                    self.other.append(line)
                self.changed.notify_all()
        with self.changed:
            self.events.append({"event": "end"})
            self.changed.notify_all()

    def wait(self, event, seconds=20, count=1):
        """The count-th event of this name."""
        until = time.monotonic() + seconds
        with self.changed:
            while True:
                found = [e for e in self.events if e["event"] == event]
                if len(found) >= count:
                    return found[count - 1]
                ended = any(e["event"] == "end" for e in self.events)
                assert not ended and time.monotonic() < until, f"no event '{event}' {count}: {self.events[-5:]}{self.other}"
                self.changed.wait(0.2)

    def connect(self, timeout=30):
        if not self.tls:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection("localhost", self.port, timeout=timeout, context=ssl.create_default_context(cafile=self.trusted))

    def ask(self, method, path, body=None, headers=None, connection=None):
        """(status, headers, body), of a connection of its own unless one is given."""
        own = connection or self.connect()
        own.request(method, path, body=body, headers=headers or {})
        answer = own.getresponse()
        data = answer.read()
        if own is not connection:
            own.close()
        return answer.status, answer.headers, data

    def json(self, method, path, body=None, code=200, headers=None):
        status, got, data = self.ask(method, path, body, headers)
        assert status == code, f"{method} {path}: {status}, wanted {code}: {data[:500]}"
        assert got["Content-Type"] == "application/json", got
        return json.loads(data)

    def refused(self, code, says, method, path, body=None, headers=None):
        """An error of JSON that says so."""
        answer = self.json(method, path, body, code, headers)
        assert set(answer) == {"error"} and says in answer["error"], f"wanted {says!r}: {answer}"

    def infer(self, model, inputs, connection=None, headers=None, **how):
        """{name: output}. `how` as of `encode`."""
        body, more = encode(inputs, **how)
        status, got, data = self.ask("POST", f"/v2/models/{model}/infer", body, {**more, **(headers or {})}, connection)
        if status != 200:
            raise Refused(status, data, got)
        return decode(got, data)

    def metrics(self):
        """{line without its value: value}"""
        status, _, data = self.ask("GET", "/metrics")
        assert status == 200
        lines = [line for line in data.decode().splitlines() if not line.startswith("#")]
        return {key: float(value) for key, value in (line.rsplit(" ", 1) for line in lines)}

    def settled(self, seconds=10):
        """The metrics when nothing is under way but this question; what was answered last may take a moment to be forgotten."""
        until = time.monotonic() + seconds
        while True:
            found = self.metrics()
            if found['hypatia_http_requests_in_flight{state="answering"}'] == 1 and found['hypatia_http_requests_in_flight{state="arriving"}'] == 0:
                return found
            assert time.monotonic() < until, {k: v for k, v in found.items() if "in_flight" in k}
            time.sleep(0.01)

    def stop(self, how=signal.SIGTERM, code=0, seconds=30):
        self.process.send_signal(how)
        got = self.process.wait(seconds)
        self.thread.join(seconds)
        assert got == code, f"exit code {got}: {self.events[-3:]}{self.other}"
        assert not self.other, self.other

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind:
                self.process.kill()
            else:
                self.stop()


class Refused(Exception):
    def __init__(self, status, data, headers):
        super().__init__(f"{status}: {data[:500]}")
        self.status, self.headers = status, headers
        self.message = json.loads(data)["error"]


def encode(inputs, binary=True, outputs=None, binary_output=None, nested=False, id=None):
    """(body, headers). binary: all inputs, or a set of names; outputs: {name: whether binary}, else all, in the form of the inputs."""
    tensors, tail = [], b""
    for name, value in inputs.items():
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        tensor = {"name": name, "shape": list(value.shape), "datatype": TYPES[value.dtype]}
        if binary is True or (binary and name in binary):
            tensor["parameters"] = {"binary_data_size": value.nbytes}
            tail += value.tobytes()
        else:
            wide = value.astype(np.float64) if TYPES[value.dtype] in ("BF16", "FP8E4M3", "FP16") else value
            tensor["data"] = wide.tolist() if nested else wide.reshape(-1).tolist()
        tensors.append(tensor)
    request = {"inputs": tensors}
    if id is not None:
        request["id"] = id
    if outputs is not None:
        request["outputs"] = [{"name": name, "parameters": {"binary_data": form}} for name, form in outputs.items()]
    elif binary if binary_output is None else binary_output:
        request["parameters"] = {"binary_data_output": True}
    head = json.dumps(request).encode()
    return (head + tail, {"Inference-Header-Content-Length": str(len(head))}) if tail or binary else (head, {})


def decode(headers, data):
    length = headers["Inference-Header-Content-Length"]
    at = int(length) if length else len(data)
    assert headers["Content-Type"] == ("application/octet-stream" if length else "application/json")
    answer, found = json.loads(data[:at]), {}
    for output in answer["outputs"]:
        dtype, size = NAMES[output["datatype"]], output.get("parameters", {}).get("binary_data_size")
        if size is None:
            values = np.array(output["data"], np.float64 if dtype in (np.float16, NAMES.get("BF16")) else dtype).astype(dtype)
        else:
            values, at = np.frombuffer(data[at:at + size], dtype), at + size
        found[output["name"]] = values.reshape(output["shape"])
    assert at == len(data), "bytes that belong to no output"
    return found


def together(count, work):
    """work(i) in so many threads; what they return, or the first exception."""
    results, errors = [None] * count, []

    def call(i):
        try:
            results[i] = work(i)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def compile_plan(model, plan):
    """By the tool: a test that loads no library of ours finds leaks of the server under the address sanitizer."""
    done = hyp.tool("hypatiac", model, "-o", plan, "-q")
    assert done.returncode == 0, done.stderr
    return plan


def has_server():
    """Whether there is libmicrohttpd, and was its header when this was built."""
    return hyp.tool("hypatia", "serve", "nothing.bin", "--listen", "127.0.0.1:0").returncode != 3
