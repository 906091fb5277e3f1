"""hypatia serve: every path, both encodings, all types, and requests that are wrong, each of which says what was found and wanted."""
import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

np, onnx = hyp.need("numpy", "onnx")
import serving  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

DIGITS = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
ONNX_TYPES = {"BOOL": TensorProto.BOOL, "UINT8": TensorProto.UINT8, "UINT16": TensorProto.UINT16, "UINT32": TensorProto.UINT32, "UINT64": TensorProto.UINT64,
              "INT8": TensorProto.INT8, "INT16": TensorProto.INT16, "INT32": TensorProto.INT32, "INT64": TensorProto.INT64, "FP16": TensorProto.FLOAT16,
              "FP32": TensorProto.FLOAT, "FP64": TensorProto.DOUBLE, "BF16": TensorProto.BFLOAT16, "FP8E4M3": TensorProto.FLOAT8E4M3FN}


def compile_model(folder, name, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    path = os.path.join(folder, name)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path + ".onnx")
    return serving.compile_plan(path + ".onnx", path + ".bin")


def typed_model(folder):
    """For each type: what comes in, twice, one behind the other."""
    nodes, inputs, outputs = [], [], []
    for name in serving.NAMES:
        low = name.lower()
        inputs.append(helper.make_tensor_value_info(low, ONNX_TYPES[name], ["n", 3]))
        outputs.append(helper.make_tensor_value_info(low + "_twice", ONNX_TYPES[name], ["n", 6]))
        nodes.append(helper.make_node("Concat", [low, low], [low + "_twice"], axis=1))
    return compile_model(folder, "typed", nodes, inputs, outputs)


def sized_model(folder):
    """Outputs of which the data say how large they are, of rank 0, and none."""
    value = helper.make_tensor_value_info
    return compile_model(folder, "sized", [helper.make_node("NonZero", ["x"], ["places"]), helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0)],
                         [value("x", TensorProto.FLOAT, ["n", "m"])], [value("places", TensorProto.INT64, [2, None]), value("sum", TensorProto.FLOAT, [])])


def edges(name, dtype):
    if name == "BOOL":
        return np.array([[1, 0, 1], [0, 0, 1]], dtype)
    if "INT" in name:
        info = np.iinfo(dtype)
        return np.array([[info.min, info.max, 0], [1, info.max // 3, info.max - 1]], dtype)
    most = {"FP16": 65504.0, "FP32": float(np.finfo(np.float32).max), "FP64": np.finfo(np.float64).max, "BF16": 3.3895313892515355e38, "FP8E4M3": 448.0}[name]
    least = {"FP16": 2.0**-24, "FP32": 2.0**-149, "FP64": 5e-324, "BF16": 2.0**-133, "FP8E4M3": 2.0**-9}[name]
    return np.array([[most, -least, 0.1], [math.nan, -0.0, 1 / 3 if name == "FP8E4M3" else -math.inf]], np.float64).astype(dtype)


def same_bits(a, b):
    width = f"u{a.dtype.itemsize}"
    nan = np.isnan(a.astype(np.float64)) if a.dtype.kind not in "iub" else np.zeros(a.shape, bool)  # which NaN it is, JSON does not say
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(np.where(nan, 0, a.view(width)), np.where(nan, 0, b.view(width)))


def check_types(server):
    inputs = {name.lower(): edges(name, dtype) for name, dtype in serving.NAMES.items()}
    wanted = {name + "_twice": np.concatenate([value, value], axis=1) for name, value in inputs.items()}
    for how in ({"binary": True}, {"binary": False}, {"binary": False, "nested": True}, {"binary": {"int8", "fp64", "bool"}, "binary_output": False},
                {"binary": False, "binary_output": True}):
        got = server.infer("typed", inputs, **how)
        assert set(got) == set(wanted)
        for name, value in wanted.items():
            assert same_bits(got[name], value), f"{how}: {name}\n{got[name]}\n{value}"
    # Some outputs, each in its own form; and rows at any alignment.
    got = server.infer("typed", inputs, binary={"uint8", "fp64"}, outputs={"fp64_twice": True, "uint8_twice": False})
    assert set(got) == {"fp64_twice", "uint8_twice"} and same_bits(got["fp64_twice"], wanted["fp64_twice"])
    # No rows at all.
    none = {name: value[:0] for name, value in inputs.items()}
    assert all(value.shape == (0, 6) for value in server.infer("typed", none, binary=False).values())
    # Rounding to types that C lacks, judged by numpy's.
    rng = np.random.default_rng(1)
    numbers = rng.standard_normal((200, 3)) * 2.0 ** rng.integers(-30, 8, (200, 3))
    body = {"inputs": [{"name": n.lower(), "datatype": n, "shape": [200, 3], "data": (numbers if n in ("FP16", "BF16", "FP8E4M3", "FP32") else 0 * numbers).reshape(-1).tolist()}
                       for n in serving.NAMES if n in ("FP16", "BF16", "FP8E4M3", "FP32", "FP64")]}
    body["inputs"] += [{"name": n.lower(), "datatype": n, "shape": [200, 3], "data": [0] * 600} for n in serving.NAMES if n.startswith(("U", "I", "BOOL"))]
    body["parameters"] = {"binary_data_output": True}
    status, headers, data = server.ask("POST", "/v2/models/typed/infer", json.dumps(body))
    assert status == 200, data
    got = serving.decode(headers, data)
    for name in ("FP16", "BF16", "FP8E4M3", "FP32"):
        if name in serving.NAMES:
            # numpy's and ml_dtypes' own conversions go by way of single precision for some types.
            near = numbers.astype(np.float32).astype(serving.NAMES[name])
            away = got[name.lower() + "_twice"][:, :3].view(f"u{near.dtype.itemsize}").astype(np.int64) - near.view(f"u{near.dtype.itemsize}")
            assert np.abs(away).max() == 0, f"{name}: {np.count_nonzero(away)} numbers are rounded otherwise"


def check_sized(server):
    x = np.array([[0, 2, 0], [3, 0, 4]], np.float32)
    for binary in (True, False):
        got = server.infer("sized", {"x": x}, binary=binary)
        assert np.array_equal(got["places"], np.array(np.nonzero(x))) and got["sum"].shape == () and got["sum"] == 9
        got = server.infer("sized", {"x": 0 * x}, binary=binary)
        assert got["places"].shape == (2, 0)


def check_pages(server):
    about = server.json("GET", "/v2")
    assert about["name"] == "hypatia" and "binary_tensor_data" in about["extensions"]
    assert server.json("GET", "/v2/health/live") == {"live": True} and server.json("GET", "/v2/health/ready") == {"ready": True}
    described = server.json("GET", "/v2/models/digits")
    assert described == {"name": "digits", "versions": ["1", "3"], "platform": "hypatia_plan", "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 64]}],
                         "outputs": [{"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]}]}
    assert server.json("GET", "/v2/models/digits/versions/3") == described
    assert server.json("GET", "/v2/models/digits/versions/1/ready") == {"name": "digits", "ready": True} == server.json("GET", "/v2/models/digits/ready")
    index = server.json("POST", "/v2/repository/index", "{}")
    assert [(m["name"], m["version"], m["state"]) for m in index] == [("digits", "1", "READY"), ("digits", "3", "READY"), ("sized", "1", "READY"), ("typed", "1", "READY")]
    status, headers, data = server.ask("HEAD", "/v2")
    assert status == 200 and data == b"" and int(headers["Content-Length"]) > 50


def check_answers(server):
    images = np.load(os.path.join(hyp.ROOT, "examples/digits/images.npy"))[:5].astype(np.float32)
    got = [server.infer(path, {"image": images}, binary=binary)["probabilities"] for path in ("digits", "digits/versions/1", "digits/versions/3") for binary in (True, False)]
    assert all(np.array_equal(one, got[0]) for one in got) and np.allclose(got[0].sum(axis=1), 1, atol=1e-5)
    assert hyp.difference(got[0], hyp.by_onnx(DIGITS, {"image": images})[0]) < 1e-5
    # An id comes back, whatever is in it; so does which version answered.
    name = 'a "quoted" \\ \u00e9\u4e2d\U0001f600\n'
    body, headers = serving.encode({"image": images}, binary=False, id=name)
    answer = server.json("POST", "/v2/models/digits/infer", body)
    assert answer["id"] == name and answer["model_name"] == "digits" and answer["model_version"] == "3"
    # Unknown parameters are passed over, nulls are nothing.
    request = json.loads(body) | {"parameters": {"priority": 1, "timeout": 5}, "outputs": None}
    assert server.json("POST", "/v2/models/digits/infer", json.dumps(request))["outputs"][0]["shape"] == [5, 10]
    # Many on one connection, in both forms by turns; spaces and numbers of all kinds.
    connection = server.connect()
    for i in range(20):
        assert np.array_equal(server.infer("digits", {"image": images}, connection, binary=i % 2 == 0)["probabilities"], got[0])
    odd = b'\n{ "inputs" :\t[ {"name":"image","shape":[1,64],"datatype":"FP32","data" :\r\n [ %s ] } ] } ' % b" , ".join([b"1e0", b"-0.0", b"10E-1", b"0.1e+1"] * 16)
    assert server.json("POST", "/v2/models/digits/infer", odd)["outputs"][0]["shape"] == [1, 10]


def wrong_requests():
    """(says, JSON of the request)"""
    def one(**changes):
        tensor = {"name": "image", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64} | changes
        return {"inputs": [{k: v for k, v in tensor.items() if v is not None}]}

    good = one()
    yield "the request is an array", []
    yield "is no JSON", "x"
    yield "input 'image' is missing", {}
    yield "input 'image' is missing", {"inputs": []}
    yield '"inputs" of the request is an object', {"inputs": {}}
    yield 'an element of "inputs" is an integer', {"inputs": [1]}
    yield "without a name", {"inputs": [{}]}
    yield "has no input 'picture'; its inputs are 'image'", one(name="picture")
    yield "is there twice", {"inputs": good["inputs"] * 2}
    yield '"datatype" is absent; wanted "FP32"', one(datatype=None)
    yield "the datatype is FP64; wanted FP32", one(datatype="FP64")
    yield "the datatype is BYTES; wanted FP32", one(datatype="BYTES")
    yield '"shape" is absent', one(shape=None)
    yield '"shape" is a string', one(shape="1x64")
    yield "the shape has 1 axes; wanted 2", one(shape=[64])
    yield "axis 1 is 65; wanted 64", one(shape=[1, 65])
    yield "axis 0 of the shape is negative", one(shape=[-1, 64])
    yield "axis 0 of the shape is a number", one(shape=[1.5, 64])
    yield "more elements than can be counted", one(shape=[2**62, 64])
    yield "fewer elements than the shape [1000000,64]", one(shape=[1000000, 64])
    yield "fewer elements than the shape [2,64]", one(shape=[2, 64])
    yield "the data have 64 elements; wanted 128", one(shape=[2, 64], data=[0.125] * 64)
    yield "more elements than the shape, which has 64", one(data=[0] * 65)
    yield "element 63 of the data is 'true'", one(data=[0] * 63 + [True])
    yield "element 0 of the data is '\"1\"'", one(data=["1"] + [0] * 63)
    yield "element 1 of the data is 'null'", one(data=[0, None] + [0] * 62)
    yield "element 2 of the data is '1e300'", one(data=[0, 0, int(1e3)] + [0] * 61)
    yield "element 3 of the data is '[[1]]'", one(data=[0, 0, 0, [[1]]] + [0] * 60)
    yield "an array on level 2 of the data has 63 elements; wanted 64", one(data=[[0] * 63])
    yield "an array on level 1 of the data has 2 elements; wanted 1", one(data=[[0] * 32] * 2) | {"why": "level 2 comes first"}
    yield '"data" is a number', one(data=1.5)
    yield '"data" is an object', one(data={})
    yield 'has no "data" and no "binary_data_size"', one(data=None)
    yield '"parameters" of an input is an array', one(parameters=[])
    yield 'has "data" and "binary_data_size"', one(parameters={"binary_data_size": 256})
    yield '"binary_data_size" is a string', one(data=None, parameters={"binary_data_size": "256"})
    yield '"binary_data_size" is 255; wanted 256 bytes, as FP32[1,64] has', one(data=None, parameters={"binary_data_size": 255})
    yield "0 bytes of the body are left", one(data=None, parameters={"binary_data_size": 256})
    yield '"shared_memory_region" of an input is not supported', one(parameters={"shared_memory_region": "x"})
    yield '"id" is an integer', good | {"id": 1}
    yield '"outputs" of the request is a string', good | {"outputs": "probabilities"}
    yield "has no output 'y'; its outputs are 'probabilities'", good | {"outputs": [{"name": "y"}]}
    yield "is asked for twice", good | {"outputs": [{"name": "probabilities"}] * 2}
    yield '"binary_data" of an output is an integer', good | {"outputs": [{"name": "probabilities", "parameters": {"binary_data": 1}}]}
    yield '"classification" of an output is not supported', good | {"outputs": [{"name": "probabilities", "parameters": {"classification": 2}}]}
    yield '"sequence_id" of the request is not supported', good | {"parameters": {"sequence_id": 1}}
    yield '"parameters" of the request is an array', good | {"parameters": [1]}


def check_wrong_json(server):
    path, count = "/v2/models/digits/infer", 0
    for says, request in wrong_requests():
        text = json.dumps(request).replace("1000,", "1e300,") if "1e300" in says else json.dumps(request)
        says = {"an array on level 1 of the data has 2 elements; wanted 1": "an array on level 2 of the data has 32 elements; wanted 64",
                "element 3 of the data is '[[1]]'": "element 3 of the data is '[[1'"}.get(says, says)
        server.refused(400, says, "POST", path, text)
        count += 1
    good = json.dumps(next(wrong for says, wrong in wrong_requests() if says.startswith('"id"')) | {"id": "x"})
    for says, text in (("is no JSON", "{"), ("is no JSON", ""), ("is no JSON", "\x00"), ("is no JSON", good + "x"), ("is no JSON", good.replace("[0,", "[0,,") + "]"),
                       ("element 1 of the data is ','", good.replace("[0, 0,", "[0,,", 1)), ("is no JSON", '{"inputs":[{"data":[1,2'), ("'1' follows element 0 of the data; wanted ',' or ']'", good.replace("[0,", "[01,", 1)),
                       ("element 0 of the data is '+1'", good.replace("[0,", "[+1,", 1)), ("element 0 of the data is '1.'", good.replace("[0,", "[1.,", 1)),
                       ("element 0 of the data is '.5'", good.replace("[0,", "[.5,", 1)), ("'x1' follows element 0", good.replace("[0,", "[0x1,", 1)),
                       ("element 0 of the data is '1e'", good.replace("[0,", "[1e,", 1)), ("element 0 of the data is '1e400'", good.replace("[0,", "[1e400,", 1)),
                       ("element 0 of the data is 'nan'", good.replace("[0,", "[nan,", 1)), ("element 0 of the data is ','", good.replace("[0,", "[,", 1)),
                       ("duplicate", '{"id":"a","id":"b"}'), ("has an escape in it", good.replace('"data"', '"d\\u0061ta"')), ("is no JSON", b'{"id":"\xff"}'), ("is no JSON", "[" * 100000)):
        server.refused(400, says, "POST", path, text if isinstance(text, bytes) else text.encode())
        count += 1
    server.refused(413, "more than 1048576 bytes besides the data", "POST", path, json.dumps({"id": "x" * 1100000}))
    many = "[" + "1," * 3000000 + "1]"  # of which a tree would be 130 MB
    server.refused(400, "more elements than the shape", "POST", path, good.replace('"id"', '"unused": {"data": %s}, "id"' % many).replace("[0, 0,", "[0, 0, 0,", 1))
    return count + 2


def check_wrong_integers(server):
    def ask(name, element, says):
        inputs = [{"name": n.lower(), "datatype": n, "shape": [1, 3], "data": "@" if n == name else [0, 0, 0]} for n in serving.NAMES]
        server.refused(400, says, "POST", "/v2/models/typed/infer", json.dumps({"inputs": inputs}).replace('"@"', f"[0, 0, {element}]"))

    ask("UINT8", "256", "element 2 of the data is '256'; wanted a whole number of UINT8, 0 to 255")
    ask("INT8", "-129", "wanted a whole number of INT8, -128 to 127")
    ask("UINT64", "18446744073709551616", "0 to 18446744073709551615")
    ask("INT64", "-9223372036854775809", "-9223372036854775808 to 9223372036854775807")
    ask("UINT32", "-1", "element 2 of the data is '-1'")
    ask("INT32", "1.0", "element 2 of the data is '1.0'")
    ask("BOOL", "2", "element 2 of the data is '2'; wanted true, false, 1 or 0")
    ask("FP16", "65520", "element 2 of the data is '65520'; wanted a number in the range of FP16")
    ask("FP32", "3.5e38", "wanted a number in the range of FP32")
    if "FP8E4M3" in serving.NAMES:
        ask("FP8E4M3", "Infinity", "wanted a number in the range of FP8E4M3")
    body, headers = serving.encode({name.lower(): np.zeros((1, 3), dtype) for name, dtype in serving.NAMES.items()})
    at = int(headers["Inference-Header-Content-Length"])  # bools come first
    server.refused(400, "input 'bool': element 1 is the byte 2", "POST", "/v2/models/typed/infer", body[:at] + b"\0\2\0" + body[at + 3:], headers)


def check_wrong_paths(server):
    for path in ("/", "/v1", "/v2/", "/v2/models", "/v2/models/", "/v2/models/digits/versions/0", "/v2/models/digits/versions/x", "/v2/models/digits/versions/", "/v2/models/digits/infer/x",
                 "/v2/models/" + "x" * 200, "/v2/models/x%2Fy/z", "/v2/models/digits/versions/99999999999999999999/ready"):
        server.refused(404, "there is nothing at", "GET", path)
    server.refused(404, "there is no model 'digits%00'", "GET", "/v2/models/digits%00/ready")
    server.refused(404, "there is no model 'digit'", "POST", "/v2/models/digit/infer", "{}")
    server.refused(404, "the model 'digits' has no version 2", "GET", "/v2/models/digits/versions/2")
    for method, path, allow in (("GET", "/v2/models/digits/infer", "POST"), ("POST", "/v2", "GET, HEAD"), ("DELETE", "/v2/models/digits", "GET, HEAD"), ("PUT", "/v2/repository/index", "POST")):
        status, headers, data = server.ask(method, path, "{}" if method in ("POST", "PUT") else None)
        assert status == 405 and headers["Allow"] == allow and "the method is " + method in json.loads(data)["error"]
    server.refused(403, "--control", "POST", "/v2/repository/models/digits/load")
    path = "/v2/models/digits/infer"
    server.refused(415, "Content-Encoding is 'gzip'", "POST", path, b"x", {"Content-Encoding": "gzip"})
    for length, says in (("x", "is 'x'"), ("-1", "is '-1'"), ("3 ", "has only 2 bytes"), ("99999999999", "is '99999999999'"), ("0x2", "is '0x2'"), ("3", "has only 2 bytes")):
        server.refused(400, says, "POST", path, b"{}", {"Inference-Header-Content-Length": length})
    server.refused(400, "3 bytes of the body belong to no tensor", "POST", path,
                   b'{"inputs":[{"name":"image","datatype":"FP32","shape":[0,64],"data":[]}]}xyz', {"Inference-Header-Content-Length": "72"})


def raw(server, data):
    """What comes back for bytes that are no request of http.client's."""
    with socket.create_connection((server.host, server.port), timeout=1) as s:
        got = b""
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while part := s.recv(65536):
                got += part
        except OSError:  # closed before all of it was read
            pass
    return got


def check_transport(server):
    """Bodies in pieces, too long, or none; requests that are none."""
    body = json.dumps({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1, 64], "data": [0] * 64}]}).encode()

    def pieces(whole, size):
        return (whole[i:i + size] for i in range(0, len(whole), size))

    connection = server.connect()
    connection.request("POST", "/v2/models/digits/infer", body=pieces(body, 7), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    answer.read()
    connection.request("POST", "/v2/models/digits/infer", body=pieces(b" " * (1 << 20), 60000), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    answer = connection.getresponse()
    assert answer.status == 413 and b"more than 524288 bytes" in answer.read()
    server.refused(413, "the body has 524289 bytes; wanted at most 524288", "POST", "/v2/models/digits/infer", b" " * 524289)
    assert b" 413 " in raw(server, b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n").split(b"\r\n")[0]
    assert b" 413 " in raw(server, b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 600000\r\n\r\n").split(b"\r\n")[0]
    long = raw(server, b"GET /v2 HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100000 + b"\r\n\r\n")
    assert not long or b" 431 " in long.split(b"\r\n")[0], long[:100]
    # What a proxy may read another end of: refused, and nothing behind it is read as a request, whatever the path.
    behind = b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n"
    for path in (b"POST /v2/models/digits/infer", b"GET /v2/health/live"):
        for frames in (b"Content-Length: 2\r\nContent-Length: 3\r\n", b"Content-Length: 2\r\nContent-Length: 2\r\n", b"content-length: 9\r\nTransfer-Encoding: chunked\r\n",
                       b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"):
            said = raw(server, path + b" HTTP/1.1\r\nHost: x\r\n" + frames + b"\r\n" + (b"0\r\n\r\n" if b"chunked" in frames else b"{}") + behind)
            assert b" 400 " in said.split(b"\r\n")[0] and b"extensions" not in said, (frames, said)
    # One that is cut off is answered by nothing, and forgotten.
    raw(server, b"POST /v2/models/digits/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert server.json("GET", "/v2/health/ready") == {"ready": True}


def check_metrics(server, wrong):
    found = server.settled()
    assert found['hypatia_inference_requests_total{model="digits",version="3",code="400"}'] == wrong - 1  # and one 413
    assert found['hypatia_inference_duration_seconds_count{model="digits",version="3"}'] == found['hypatia_inference_requests_total{model="digits",version="3",code="200"}'] > 20
    assert found['hypatia_inference_run_seconds_bucket{model="digits",version="3",le="+Inf"}'] == found['hypatia_inference_batch_rows_count{model="digits",version="3"}']
    assert found['hypatia_model_memory_bytes{model="digits",version="1",of="engine"}'] > 1000 and found['hypatia_queue_depth{model="typed",version="1"}'] == 0
    assert found["hypatia_request_memory_bytes"] < 100000, "memory of requests was not given back"
    assert found['hypatia_http_requests_total{route="none",code="404"}'] >= 10


def check_library(folder, digits):
    """libmicrohttpd is opened when the server starts, and by no other command: where what is found is none, or lacks something, that says so."""
    path = os.path.join(folder, "libmicrohttpd.so.12")
    with open(path, "wb") as file:
        file.write(b"no library")
    for says in ("serving needs libmicrohttpd, which is not found", "has no MHD_start_daemon: wanted 0.9.73 or newer"):
        environment = {"LD_LIBRARY_PATH": ":".join([folder, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]).rstrip(":")}
        done = hyp.tool("hypatia", "serve", digits, "--listen", "127.0.0.1:0", env=environment)
        assert done.returncode == 3 and says in done.stderr, (done.returncode, done.stderr)
        assert hyp.tool("hypatia", "inspect", digits, env=environment).returncode == 0
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if not compiler:
            print("a libmicrohttpd that lacks functions was not tried: there is no C compiler")
            break
        subprocess.run([compiler, "-shared", "-o", path, "-x", "c", "/dev/null"], check=True)
    os.remove(path)


def main():
    if not serving.has_server():
        print("skipped: hypatia serve has no libmicrohttpd here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        digits = os.path.join(folder, "digits.bin")
        serving.compile_plan(DIGITS, digits)
        check_library(folder, digits)
        with serving.Server(digits, "digits:3=" + digits, typed_model(folder), sized_model(folder), "--max-body", "512K", "--instances", "2", "--threads", "1") as server:
            check_pages(server)
            check_types(server)
            check_sized(server)
            check_answers(server)
            check_wrong_integers(server)
            check_wrong_paths(server)
            check_transport(server)
        with serving.Server("digits:3=" + digits, "digits=" + digits, typed_model(folder), "--threads", "1") as server:
            wrong = check_wrong_json(server)
            for _ in range(30):
                server.infer("digits", {"image": np.zeros((1, 64), np.float32)})
            server.json("GET", "/v2/nothing", code=404)
            for _ in range(10):
                server.json("GET", "/nothing", code=404)
            check_metrics(server, wrong)
    print(f"{wrong} wrong requests")


main()
