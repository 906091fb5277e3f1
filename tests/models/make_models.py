#!/usr/bin/env python3
"""Writes ONNX models for the tests: make_models.py OUTDIR [--large]

OUTDIR/<name>.onnx for every model, weights the same on every run, and OUTDIR/index.json, a list with one line
per model:
    {"model": "gemm_00.onnx", "cases": [{"x": {"dtype": "float32", "shape": [3, 4]}, ...}, ...]}
A case says which shapes to try; integer inputs may be anything from 0 to 7. "judge": "reference" marks models
that onnxruntime lacks CPU kernels for (judge them by onnx.reference). --large adds the models with big weights.
With --tiny only the few models that the C tests read are written (they are kept in the repository).
"""
import argparse
import json
import os
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F32, F16, BF16, F64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE
I8, I16, I32, I64 = TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64
U8, U16, U32, U64 = TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64
BOOL = TensorProto.BOOL
DTYPE_NAMES = {F32: "float32", F16: "float16", BF16: "bfloat16", F64: "float64", I32: "int32", I64: "int64"}


class Model:
    def __init__(self, name, opset=17, ir=None, dtype=F32):
        self.name, self.opset, self.dtype = name, opset, dtype
        self.ir = ir or max(4, helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.inputs, self.outputs, self.nodes, self.initializers, self.cases = {}, [], [], [], []
        self.judge = self.external = None
        self.count = 0

    def fresh(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, name, *shape, dtype=None):
        self.inputs[name] = (dtype or self.dtype, shape)
        return name

    def const(self, value, dtype=None, name=None):
        """An initializer with these values."""
        name = name or self.fresh("c")
        dtype = dtype or self.dtype
        array = np.asarray(value)
        if dtype == BF16:
            raw = (array.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            tensor = helper.make_tensor(name, BF16, array.shape, raw.tobytes(), raw=True)
        else:
            tensor = numpy_helper.from_array(array.astype(helper.tensor_dtype_to_np_dtype(dtype)), name)
        self.initializers.append(tensor)
        return name

    def ints(self, *values):
        return self.const(np.array(values, dtype=np.int64), I64)

    def weight(self, *shape):
        """Random, scaled so that activations keep their size from layer to layer."""
        return self.const(self.rng.uniform(-1, 1, shape) / np.sqrt(max(1, shape[-1] if shape else 1)))

    def node(self, op, *inputs, outputs=None, **attributes):
        outputs = outputs or [self.fresh(op.lower())]
        self.nodes.append(helper.make_node(op, list(inputs), outputs, name=self.fresh(op), **attributes))
        return outputs[0] if len(outputs) == 1 else outputs

    def output(self, *names, dtype=None):
        for name in names:
            self.outputs.append((name, dtype or self.dtype))
        return self

    def case(self, **shapes):
        self.cases.append(shapes)
        return self

    def linear(self, x, k, n, bias=True, form="gemm"):
        """One layer in one of the ways in which exporters write it."""
        if form == "gemm":
            b = [self.weight(n)] if bias else []
            return self.node("Gemm", x, self.weight(n, k), *b, transB=1)
        y = self.node("MatMul", x, self.weight(k, n))
        if not bias:
            return y
        return self.node("Add", y, self.weight(n)) if form == "matmul" else self.node("Add", self.weight(n), y)

    def mlp(self, x, sizes, form="gemm", act="Relu", bias=True):
        for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
            x = self.linear(x, k, n, bias, form)
            if i + 2 < len(sizes):
                x = self.node(act, x)
        return x

    def proto(self):
        inputs = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in self.inputs.items()]
        if self.ir < 4:  # initializers were inputs then
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self.initializers]
        outputs = [helper.make_tensor_value_info(n, t, None) for n, t in self.outputs]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=self.ir,
                                  producer_name="make_models")
        for output, inferred in zip(model.graph.output, onnx.shape_inference.infer_shapes(model).graph.output):
            output.CopyFrom(inferred)
        return model

    def entry(self):
        cases = self.cases or [{}]
        full = [{n: {"dtype": DTYPE_NAMES[t], "shape": list(case.get(n, s))} for n, (t, s) in self.inputs.items()}
                for case in cases]
        line = {"model": self.name + ".onnx", "cases": full}
        if self.judge:
            line["judge"] = self.judge
        return line

    def save(self, folder):
        path = os.path.join(folder, self.name + ".onnx")
        if self.external:
            data = os.path.join(folder, self.external)
            if os.path.exists(data):
                os.remove(data)  # onnx.save appends
            onnx.save(self.proto(), path, save_as_external_data=True, location=self.external, size_threshold=0)
        else:
            onnx.save(self.proto(), path)


# ---- matrix products -----------------------------------------------------------------------------------------


def gemm_models():
    m_, k_, n_ = 3, 5, 4
    addends = {"none": None, "n": (n_,), "1n": (1, n_), "m1": (m_, 1), "mn": (m_, n_), "scalar": (), "one": (1,),
               "11": (1, 1)}
    for ta in (0, 1):
        for tb in (0, 1):
            m = Model(f"gemm_{ta}{tb}")
            x = m.input("x", *((k_, m_) if ta else (m_, k_)))
            w = m.weight(*((n_, k_) if tb else (k_, n_)))
            yield m.output(m.node("Gemm", x, w, m.weight(n_), transA=ta, transB=tb))
    for i, (label, shape) in enumerate(addends.items()):
        ta, tb, opset = i & 1, i >> 1 & 1, (11, 13, 21)[i % 3]
        m = Model(f"gemm_scaled_c_{label}", opset)
        x = m.input("x", *((k_, m_) if ta else (m_, k_)))
        w = m.weight(*((n_, k_) if tb else (k_, n_)))
        c = [] if shape is None else [m.weight(*shape)]
        yield m.output(m.node("Gemm", x, w, *c, transA=ta, transB=tb, alpha=0.75, beta=-1.5))
    for label, scale in {"beta_zero": {"beta": 0.0}, "alpha_zero": {"alpha": 0.0}}.items():
        m = Model(f"gemm_{label}")
        yield m.output(m.node("Gemm", m.input("x", m_, k_), m.weight(k_, n_), m.weight(n_), **scale))
    m = Model("gemm_all_inputs")
    yield m.output(m.node("Gemm", m.input("x", m_, k_), m.input("w", n_, k_), m.input("c", m_, 1), transB=1))
    m = Model("gemm_weight_first").case(x=(k_, 1)).case(x=(k_, 6))
    yield m.output(m.node("Gemm", m.weight(m_, k_), m.input("x", k_, "n")))
    m = Model("gemm_symbolic_batch").case(x=(1, k_)).case(x=(7, k_)).case(x=(0, k_))
    yield m.output(m.node("Relu", m.linear(m.input("x", "batch", k_), k_, n_)))
    m = Model("gemm_unnamed_batch").case(x=(2, k_)).case(x=(9, k_))
    yield m.output(m.linear(m.input("x", None, k_), k_, n_))
    m = Model("gemm_square")  # a bias along the wrong axis shows only by its values
    yield m.output(m.node("Relu", m.linear(m.input("x", 6, 6), 6, 6)))
    for label, (mm, kk, nn) in {"m1": (1, 8, 5), "n1": (4, 8, 1), "k1": (4, 1, 5), "m1n1": (1, 6, 1), "all1": (1, 1, 1),
                                "odd": (7, 13, 17), "wide": (2, 100, 3)}.items():
        m = Model(f"gemm_{label}")
        yield m.output(m.linear(m.input("x", mm, kk), kk, nn))
    m = Model("gemm_initializers_are_inputs", 7, ir=3).case(x=(3, k_))
    yield m.output(m.node("Relu", m.node("Gemm", m.input("x", "batch", k_), m.weight(k_, n_), m.weight(n_))))
    m = Model("gemm_opset_9", 9)
    yield m.output(m.node("Gemm", m.input("x", m_, k_), m.weight(k_, n_), m.weight(1, n_), alpha=0.5, beta=0.5))


def matmul_models():
    k, n = 6, 5
    for rank in (1, 2, 3, 4):
        shape = (2, 3, 4)[:rank - 1] + (k,)
        for form in ("matmul", "bias_first", "nobias"):
            m = Model(f"{form}_rank{rank}")
            x = m.input("x", *shape)
            yield m.output(m.linear(x, k, n, form != "nobias", "matmul" if form == "nobias" else form))
    m = Model("matmul_symbolic_rank3").case(x=(1, 1, k)).case(x=(2, 5, k)).case(x=(0, 5, k))
    yield m.output(m.node("Relu", m.linear(m.input("x", "batch", "seq", k), k, n, form="matmul")))
    for label, (a, b) in {"vec_vec": ((k,), (k,)), "mat_vec": ((3, k), (k,)), "vec_mat": ((k,), (k, n)),
                          "batched": ((2, 3, k), (2, k, n)), "broadcast": ((2, 1, 3, k), (4, k, n)),
                          "vec_batched": ((k,), (3, k, n)), "batched_vec": ((2, 3, k), (k,)),
                          "one_batched": ((2, 3, k), (1, k, n))}.items():
        m = Model(f"matmul_{label}", 9 if label == "batched" else 13)
        yield m.output(m.node("MatMul", m.input("a", *a), m.input("b", *b)))
    m = Model("matmul_bias_mn")  # a full matrix is added: no bias vector
    y = m.node("MatMul", m.input("x", 4, k), m.weight(k, 4))
    yield m.output(m.node("Relu", m.node("Add", y, m.weight(4, 4))))
    m = Model("matmul_bias_m1")
    y = m.node("MatMul", m.input("x", 4, k), m.weight(k, 4))
    yield m.output(m.node("Add", y, m.weight(4, 1)))
    m = Model("matmul_transposed_weight").case(x=(3, k))
    w = m.node("Transpose", m.weight(n, k), perm=[1, 0])
    yield m.output(m.node("Add", m.node("MatMul", m.input("x", "batch", k), w), m.weight(n)))
    m = Model("matmul_scaled")
    y = m.node("Mul", m.node("MatMul", m.input("a", 3, k), m.input("b", k, n)), m.const(0.125))
    yield m.output(m.node("Div", y, m.const(3.0)))


# ---- networks ------------------------------------------------------------------------------------------------


def mlp_models():
    for depth in range(1, 9):
        m = Model(f"mlp_depth{depth}", (11, 13, 17, 21)[depth % 4]).case(x=(1, 10)).case(x=(6, 10))
        sizes = [10] + [12 + 3 * i for i in range(depth)]
        yield m.output(m.mlp(m.input("x", "batch", 10), sizes, ("gemm", "matmul", "bias_first")[depth % 3]))
    for act in ("Tanh", "Sigmoid", "LeakyRelu", "Gelu"):
        m = Model(f"mlp_{act.lower()}", 20).case(x=(5, 8))
        yield m.output(m.mlp(m.input("x", "batch", 8), [8, 16, 16, 4], act=act))
    m = Model("mlp_no_bias").case(x=(5, 8))
    yield m.output(m.mlp(m.input("x", "batch", 8), [8, 16, 16, 4], "matmul", bias=False))
    m = Model("mlp_rank3").case(x=(2, 3, 8)).case(x=(0, 3, 8))
    yield m.output(m.mlp(m.input("x", "batch", "seq", 8), [8, 16, 4], "matmul"))
    m = Model("mlp_rank4")
    yield m.output(m.mlp(m.input("x", 2, 3, 2, 8), [8, 16, 4], "matmul"))
    m = Model("mlp_rank1")
    yield m.output(m.mlp(m.input("x", 8), [8, 16, 4], "matmul"))
    m = Model("mlp_empty_batch")
    yield m.output(m.mlp(m.input("x", 0, 8), [8, 16, 4]))
    m = Model("mlp_linear_linear").case(x=(4, 6))  # no activation between: may be composed
    yield m.output(m.linear(m.linear(m.input("x", "batch", 6), 6, 32), 32, 5))
    m = Model("mlp_shared_weights").case(x=(3, 8))
    x, w, b = m.input("x", "batch", 8), m.weight(8, 8), m.weight(8)
    for _ in range(3):
        x = m.node("Relu", m.node("Gemm", x, w, b, transB=1))
    yield m.output(x)
    m = Model("mlp_shared_hidden").case(x=(3, 8))  # two heads on one trunk
    h = m.node("Relu", m.linear(m.input("x", "batch", 8), 8, 12))
    yield m.output(m.linear(h, 12, 3), m.node("Tanh", m.linear(h, 12, 5)))
    m = Model("mlp_hidden_outputs").case(x=(3, 8))
    a = m.linear(m.input("x", "batch", 8), 8, 12)
    h = m.node("Relu", a)
    yield m.output(a, h, m.linear(h, 12, 3))
    m = Model("mlp_residual").case(x=(3, 8))
    x = m.input("x", "batch", 8)
    yield m.output(m.node("Add", x, m.mlp(x, [8, 16, 8])))
    m = Model("mlp_softmax", 11).case(x=(3, 8))
    yield m.output(m.node("Softmax", m.mlp(m.input("x", "batch", 8), [8, 16, 10])))
    m = Model("mlp_flatten_image").case(image=(1, 1, 4, 4)).case(image=(5, 1, 4, 4))
    yield m.output(m.mlp(m.node("Flatten", m.input("image", "batch", 1, 4, 4)), [16, 12, 10]))
    for label, dtype in {"f16": F16, "f64": F64, "bf16": BF16}.items():
        m = Model(f"mlp_{label}", dtype=dtype).case(x=(3, 8))
        m.judge = "reference" if dtype == BF16 else None
        yield m.output(m.mlp(m.input("x", "batch", 8), [8, 16, 4]))
    m = Model("mlp_external_data").case(x=(3, 8))
    m.external = "mlp_external_data.bin"
    yield m.output(m.mlp(m.input("x", "batch", 8), [8, 16, 4]))


def nine_models(large):
    """The nine configurations: Linear + ReLU and MLPs of depth 2 and 4 in three sizes."""
    sizes = {"small": (256, 256, 512), "medium": (1024, 784, 2048), "large": (8192, 4096, 4096)}
    for label, (batch, k, n) in sizes.items():
        for net, widths in {"layer": [k, n], "mlp2": [k, n, 10], "mlp4": [k, n, n, n, 10]}.items():
            if not large and sum(a * b for a, b in zip(widths, widths[1:])) > 4 << 20:
                continue
            m = Model(f"nine-{label}-{net}").case(x=(batch if large or label == "small" else 16, k))
            y = m.mlp(m.input("x", "batch", k), widths)
            yield m.output(m.node("Relu", y) if net == "layer" else y)


def huge_models():
    m = Model("mlp_100mb").case(x=(1, 1024))
    yield m.output(m.mlp(m.input("x", "batch", 1024), [1024] + [2048] * 6 + [1024]))


def redundant_models():
    def shell(name):
        m = Model("redundant_" + name).case(x=(4, 6))
        return m, m.node("Relu", m.linear(m.input("x", "batch", 6), 6, 6))

    m, h = shell("relu_relu")
    yield m.output(m.linear(m.node("Relu", m.node("Relu", h)), 6, 3))
    m, h = shell("identity_chain")
    for _ in range(3):
        h = m.node("Identity", h)
    yield m.output(m.node("Identity", m.linear(h, 6, 3)))
    m, h = shell("double_transpose")
    yield m.output(m.linear(m.node("Transpose", m.node("Transpose", h, perm=[1, 0]), perm=[1, 0]), 6, 3))
    m, h = shell("reshape_chain")
    h = m.node("Reshape", m.node("Reshape", h, m.ints(-1, 2, 3)), m.ints(-1, 6))
    yield m.output(m.linear(h, 6, 3))
    m, h = shell("squeeze_unsqueeze")
    yield m.output(m.linear(m.node("Squeeze", m.node("Unsqueeze", h, m.ints(1)), m.ints(1)), 6, 3))
    m, h = shell("dropout")
    yield m.output(m.linear(m.node("Dropout", h, m.const(0.5)), 6, 3))
    m, h = shell("add_zero_mul_one")
    yield m.output(m.node("Mul", m.node("Add", h, m.const(0.0)), m.const(1.0)))
    m, h = shell("cast_same")
    yield m.output(m.linear(m.node("Cast", h, to=F32), 6, 3))
    m, h = shell("split_concat")
    parts = m.node("Split", h, m.ints(2, 4), outputs=["p", "q"], axis=1)
    yield m.output(m.linear(m.node("Concat", *parts, axis=1), 6, 3))
    m, h = shell("full_slice")
    yield m.output(m.linear(m.node("Slice", h, m.ints(0), m.ints(2**63 - 1), m.ints(1)), 6, 3))
    m, h = shell("equal_branches")
    yield m.output(m.node("Add", m.node("Tanh", h), m.node("Tanh", h)))
    m, h = shell("output_twice")
    yield m.output(h, m.node("Identity", h))
    m = Model("redundant_passthrough").case(x=(2, 3))
    x = m.input("x", "batch", 3)
    yield m.output(m.node("Identity", x), m.node("Relu", x))


# ---- single operators ----------------------------------------------------------------------------------------


def elementwise_models():
    pairs = {"same": ((2, 3), (2, 3)), "row": ((2, 3), (3,)), "column": ((2, 3), (2, 1)), "outer": ((4, 1), (1, 5)),
             "scalar": ((2, 3, 4), ()), "rank": ((3,), (2, 1, 3))}
    for i, (label, (a, b)) in enumerate(pairs.items()):
        m = Model(f"broadcast_{label}", (7, 13, 14)[i % 3])
        x, y = m.input("a", *a), m.input("b", *b)
        positive = m.node("Add", m.node("Mul", y, y), m.const(0.5))
        yield m.output(m.node("Add", x, y), m.node("Sub", x, y), m.node("Mul", x, y), m.node("Div", x, positive))
    m = Model("broadcast_symbolic").case(a=(2, 3), b=(3,)).case(a=(1, 1), b=(1,))
    x, y = m.input("a", "batch", "n"), m.input("b", "n")
    yield m.output(m.node("Sub", m.node("Mul", x, y), y))
    m = Model("integer_arithmetic")
    x, y = m.input("a", 4, dtype=I64), m.input("b", 4, dtype=I64)
    q = m.node("Div", m.node("Sub", x, m.ints(5)), m.node("Add", y, m.ints(1)))
    yield m.output(m.node("Add", m.node("Mul", x, y), q), dtype=I64)
    for opset in (7, 13, 17):
        m = Model(f"unary_opset_{opset}", opset)
        x = m.input("x", 3, 7)
        names = ["Relu", "Sigmoid", "Tanh", "Exp", "LeakyRelu"] + (["Erf"] if opset >= 9 else [])
        outs = [m.node(op, x) for op in names]
        outs += [m.node("LeakyRelu", x, alpha=0.3), m.node("Sqrt", m.node("Mul", x, x)), m.node("Pow", x, m.const(3.0))]
        yield m.output(*outs)
    m = Model("pow_forms", 15)
    x = m.node("Exp", m.input("x", 5))
    yield m.output(m.node("Pow", x, m.const(0.5)), m.node("Pow", x, m.const([2], I64)), m.node("Pow", m.const(2.0), x))
    m = Model("gelu_forms", 20)
    x = m.input("x", 2, 9)
    yield m.output(m.node("Gelu", x), m.node("Gelu", x, approximate="none"), m.node("Gelu", x, approximate="tanh"))
    m = Model("clip_attributes", 10)
    x = m.input("x", 3, 5)
    yield m.output(m.node("Clip", x, min=-0.25, max=0.5), m.node("Clip", x, min=0.0), m.node("Clip", x, max=0.1),
                   m.node("Clip", x))
    m = Model("clip_inputs", 13)
    x, lo, hi = m.input("x", 3, 5), m.const(-0.25), m.const(0.5)
    yield m.output(m.node("Clip", x, lo, hi), m.node("Clip", x, lo), m.node("Clip", x, "", hi),
                   m.node("Clip", x, hi, lo))
    m = Model("clip_computed_bounds", 13)
    x, lo = m.input("x", 3, 5), m.input("lo")
    yield m.output(m.node("Clip", x, lo, m.node("Exp", lo)))
    m = Model("clip_integers", 12)
    x = m.input("x", 6, dtype=I64)
    yield m.output(m.node("Clip", x, m.const(2, I64), m.const(5, I64)), dtype=I64)
    m = Model("min_max_sum", 13)
    a, b, c = m.input("a", 2, 3), m.input("b", 3), m.input("c", 2, 1)
    yield m.output(m.node("Min", a, b, c), m.node("Max", a, b), m.node("Sum", a, b, c), m.node("Max", a))
    m = Model("cast_forms")
    x, i = m.input("x", 5), m.input("i", 5, dtype=I32)
    half = m.node("Cast", m.node("Cast", x, to=F16), to=F32)
    whole = m.node("Cast", m.node("Cast", m.node("Mul", x, m.const(5.0)), to=I64), to=F32)
    yield m.output(half, whole, m.node("Cast", i, to=F32), m.node("Cast", x, to=F32))
    for label in ("div", "mul"):
        m = Model(f"idiom_gelu_erf_{label}").case(x=(3, 6))
        x = m.linear(m.input("x", "batch", 6), 6, 8)
        scaled = m.node("Div", x, m.const(np.sqrt(2.0))) if label == "div" else m.node("Mul", x, m.const(np.sqrt(0.5)))
        e, half = m.node("Add", m.node("Erf", scaled), m.const(1.0)), m.const(0.5)
        y = m.node("Mul", m.node("Mul", x, e), half) if label == "div" else m.node("Mul", m.node("Mul", x, half), e)
        yield m.output(m.linear(y, 8, 4))
    m = Model("idiom_gelu_tanh")
    x = m.input("x", 3, 6)
    inner = m.node("Add", x, m.node("Mul", m.node("Pow", x, m.const(3.0)), m.const(0.044715)))
    t = m.node("Add", m.node("Tanh", m.node("Mul", inner, m.const(np.sqrt(2 / np.pi)))), m.const(1.0))
    yield m.output(m.node("Mul", m.node("Mul", x, m.const(0.5)), t))
    m = Model("idiom_layer_norm").case(x=(2, 5, 8))
    x = m.input("x", "batch", 5, 8)
    d = m.node("Sub", x, m.node("ReduceMean", x, axes=[-1]))
    var = m.node("ReduceMean", m.node("Pow", d, m.const(2.0)), axes=[-1])
    y = m.node("Div", d, m.node("Sqrt", m.node("Add", var, m.const(1e-5))))
    yield m.output(m.node("Add", m.node("Mul", y, m.weight(8)), m.weight(8)))


def reduction_models():
    for opset, axes in ((11, (0, 1, 2, -1)), (13, (0, 1, -1))):
        m = Model(f"softmax_opset_{opset}", opset)
        x = m.input("x", 2, 3, 4)
        yield m.output(m.node("Softmax", x), *[m.node("Softmax", x, axis=a) for a in axes])
    m = Model("softmax_opset_7_symbolic", 7).case(x=(2, 3, 4)).case(x=(1, 1, 4))
    x = m.input("x", "batch", "n", 4)
    yield m.output(m.node("Softmax", x), m.node("Softmax", x, axis=2))
    for opset in (11, 13, 18):
        m = Model(f"reduce_opset_{opset}", opset)
        x = m.input("x", 2, 3, 4)

        def reduce(op, axes, **attributes):
            by_input = opset >= 18 or (op == "ReduceSum" and opset >= 13)
            return m.node(op, x, m.ints(*axes), **attributes) if by_input else m.node(op, x, axes=axes, **attributes)
        forms = (([1], 1), ([-1], 0), ([0, 2], 0), ([2, 0], 1))
        yield m.output(*[reduce(op, axes, keepdims=keep) for op in ("ReduceSum", "ReduceMean") for axes, keep in forms],
                       m.node("ReduceSum", x), m.node("ReduceMean", x, keepdims=0))
    m = Model("reduce_noop", 18)
    x = m.input("x", 2, 3)
    yield m.output(m.node("ReduceSum", x, m.ints(), noop_with_empty_axes=1),
                   m.node("ReduceMean", x, noop_with_empty_axes=1), m.node("ReduceSum", x, m.ints()))
    m = Model("reduce_symbolic", 18).case(x=(3, 5)).case(x=(1, 5))
    x = m.input("x", "batch", 5)
    yield m.output(m.node("ReduceMean", x, m.ints(0)), m.node("ReduceSum", x, m.ints(1), keepdims=0))


def movement_models():
    m = Model("reshape_forms", 14)
    x = m.input("x", 2, 3, 4)
    shapes = [(6, 4), (-1,), (0, -1), (0, 0, 2, 2), (2, 0, -1), (1, 24, 1)]
    yield m.output(*[m.node("Reshape", x, m.ints(*s)) for s in shapes])
    m = Model("reshape_to_scalar")
    yield m.output(m.node("Reshape", m.input("x", 1, 1), m.ints()))
    m = Model("reshape_allow_zero", 14)
    yield m.output(m.node("Reshape", m.input("x", 0, 3), m.ints(3, 0), allowzero=1))
    m = Model("reshape_symbolic").case(x=(2, 3, 4)).case(x=(1, 3, 4))
    x = m.input("x", "batch", 3, 4)
    yield m.output(*[m.node("Reshape", x, m.ints(*s)) for s in ((0, -1), (-1, 4), (-1, 2, 6))])
    for opset in (7, 11, 21):
        m = Model(f"flatten_opset_{opset}", opset).case(x=(2, 3, 4))
        x = m.input("x", "batch", 3, 4)
        axes = (0, 1, 2, 3) + ((-1, -2) if opset >= 11 else ())
        yield m.output(m.node("Flatten", x), *[m.node("Flatten", x, axis=a) for a in axes])
    for opset in (11, 13, 23):
        m = Model(f"squeeze_opset_{opset}", opset)
        x = m.input("x", 1, 3, 1, 4)
        if opset < 13:
            outs = [m.node("Squeeze", x, axes=[0]), m.node("Squeeze", x, axes=[0, -2]),
                    m.node("Unsqueeze", x, axes=[0, -1])]
        else:
            outs = [m.node("Squeeze", x, m.ints(0)), m.node("Squeeze", x, m.ints(-2, 0)),
                    m.node("Unsqueeze", x, m.ints(-1, 2))]
        yield m.output(*outs, m.node("Squeeze", x))
    m = Model("transpose_forms")
    x = m.input("x", 2, 3, 4)
    yield m.output(m.node("Transpose", x), *[m.node("Transpose", x, perm=p) for p in ([0, 2, 1], [1, 2, 0], [0, 1, 2])])
    m = Model("concat_forms", 13).case(a=(2, 3), b=(2, 2)).case(a=(1, 3), b=(1, 2))
    a, b = m.input("a", "batch", 3), m.input("b", "batch", 2)
    yield m.output(m.node("Concat", a, b, axis=1), m.node("Concat", a, b, a, axis=-1), m.node("Concat", a, a, axis=0),
                   m.node("Concat", a, axis=0))
    for opset in (7, 13, 18):
        m = Model(f"split_opset_{opset}", opset)
        x, sizes = m.input("x", 2, 6), [1, 2, 3]
        a = m.node("Split", x, outputs=["a1", "a2", "a3"], axis=1, **({"num_outputs": 3} if opset >= 18 else {}))
        b = (m.node("Split", x, m.ints(*sizes), outputs=["b1", "b2", "b3"], axis=-1) if opset >= 13
             else m.node("Split", x, outputs=["b1", "b2", "b3"], axis=1, split=sizes))
        c = m.node("Split", x, outputs=["c1", "c2"], **({"num_outputs": 2} if opset >= 18 else {}))
        yield m.output(*a, *b, *c)
    m = Model("split_uneven", 18)
    yield m.output(*m.node("Split", m.input("x", 7, 2), outputs=["a", "b", "c"], num_outputs=3))
    m = Model("slice_attributes", 9)
    x = m.input("x", 4, 6)
    yield m.output(m.node("Slice", x, starts=[1], ends=[3]), m.node("Slice", x, starts=[2], ends=[-2], axes=[1]),
                   m.node("Slice", x, starts=[0, -4], ends=[-1, 100], axes=[0, 1]))
    low, high = -(2**63), 2**63 - 1

    def cut(m, x, starts, ends, axes=None, steps=None):
        extra = [m.ints(*axes)] if axes else [""] if steps else []
        return m.node("Slice", x, m.ints(*starts), m.ints(*ends), *extra, *([m.ints(*steps)] if steps else []))
    m = Model("slice_inputs", 13)
    x = m.input("x", 4, 6)
    yield m.output(cut(m, x, [1], [3]), cut(m, x, [1, 0], [9, 5], [1, 0]), cut(m, x, [-3], [high], [-1]),
                   cut(m, x, [0, 1], [4, 6], [0, 1], [2, 3]), cut(m, x, [-1], [low], [1], [-1]),
                   cut(m, x, [4], [0], [1], [-2]), cut(m, x, [3], [1], [0]), cut(m, x, [0, 5], [4, 0], None, [1, -1]))
    m = Model("slice_symbolic", 13).case(x=(2, 5, 4)).case(x=(1, 2, 4))
    x = m.input("x", "batch", "seq", 4)
    yield m.output(cut(m, x, [0], [high], [0]), cut(m, x, [0], [-1], [1]), cut(m, x, [1], [2**31 - 1], [1]),
                   cut(m, x, [-1], [high], [1]), cut(m, x, [0], [2], [1]), cut(m, x, [-1], [low], [1], [-1]),
                   cut(m, x, [0], [high], [1], [2]))
    m = Model("gather_forms", 13)
    x, i = m.input("x", 8, 3), m.input("i", 2, 2, dtype=I64)
    yield m.output(m.node("Gather", x, i), m.node("Gather", x, m.const([0, -1, 1], I64), axis=1),
                   m.node("Gather", x, m.const(2, I64)), m.node("Gather", x, m.const([[1], [0]], I32), axis=-1))
    m = Model("gather_embedding", 11).case(ids=(2, 3)).case(ids=(1, 1))
    e = m.node("Gather", m.weight(8, 6), m.input("ids", "batch", "seq", dtype=I64))
    yield m.output(m.linear(e, 6, 4, form="matmul"))
    m = Model("expand_forms", 13)
    x = m.input("x", 3, 1)
    yield m.output(*[m.node("Expand", x, m.ints(*s)) for s in ((3, 4), (2, 1, 4), (1,))])
    m = Model("dropout_forms", 12)
    x = m.input("x", 3, 4)
    yield m.output(m.node("Dropout", x), m.node("Dropout", x, m.const(0.3), m.const(False, BOOL)),
                   m.node("Dropout", x, outputs=["kept", "mask"])[0])
    m = Model("dropout_attribute", 7)
    yield m.output(m.node("Relu", m.node("Dropout", m.input("x", 3, 4), ratio=0.7)))


def constant_models():
    m = Model("constant_forms", 13)
    x = m.input("x", 3)
    c = m.node("Constant", value=numpy_helper.from_array(np.array([1, 2, 3], np.float32)))
    f, fs = m.node("Constant", value_float=0.5), m.node("Constant", value_floats=[0.5, 1.5, 2.5])
    i, n = m.node("Constant", value_int=1), m.node("Constant", value_ints=[3, 1])
    y = m.node("Mul", m.node("Add", m.node("Add", x, c), f), fs)
    yield m.output(m.node("Reshape", y, n), m.node("Gather", y, i))
    m = Model("constant_output")
    yield m.output(m.const([1.0, 2.0], name="fixed"), m.node("Relu", m.input("x", 2)))
    m = Model("constant_subgraph").case(x=(3, 6))  # folded away
    w = m.node("Mul", m.node("Add", m.weight(6, 4), m.const(0.1)), m.const(2.0))
    yield m.output(m.node("MatMul", m.input("x", "batch", 6), w))
    m = Model("constant_encodings", 13)  # every field in which a tensor may hold its elements
    total = m.input("x", 2)
    for dtype in (F32, F64, F16, I8, I16, I32, I64, BOOL, U8, U16, U32, U64):
        data = [1, 0] if dtype == BOOL else [3, 200] if dtype in (U8, U16, U32, U64) else [1, -2]
        typed = helper.make_tensor(f"typed{dtype}", dtype, [2], data)
        raw = numpy_helper.from_array(np.array(data).astype(helper.tensor_dtype_to_np_dtype(dtype)), f"raw{dtype}")
        for tensor in (typed, raw):
            m.initializers.append(tensor)
            part = m.node("Mul", m.node("Cast", tensor.name, to=F32), m.const(0.01 * len(m.initializers)))
            total = m.node("Add", total, part)
    yield m.output(total)


def shape_models():
    m = Model("shape_flatten_exporter").case(x=(1, 2, 3)).case(x=(5, 2, 3))  # x.view(x.size(0), -1)
    x = m.input("x", "batch", 2, 3)
    batch = m.node("Gather", m.node("Shape", x), m.const(0, I64), axis=0)
    shape = m.node("Concat", m.node("Unsqueeze", batch, m.ints(0)), m.ints(-1), axis=0)
    yield m.output(m.linear(m.node("Reshape", x, shape), 6, 4))

    m = Model("shape_heads_exporter", 11).case(x=(2, 3, 8)).case(x=(1, 1, 8))  # [batch seq 8] -> [batch seq 2 4]
    x, heads = m.input("x", "batch", "seq", 8), m.const([2], I64)

    def size(axis):
        return m.node("Unsqueeze", m.node("Gather", m.node("Shape", x), m.const(axis, I64)), axes=[0])
    shape = m.node("Concat", size(0), size(1), heads, m.node("Div", size(2), heads), axis=0)
    y = m.node("Transpose", m.node("Reshape", x, shape), perm=[0, 2, 1, 3])
    back = m.node("Concat", size(0), size(1), m.node("Mul", heads, m.const([4], I64)), axis=0)
    yield m.output(m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), back), y)

    m = Model("shape_start_end", 15).case(x=(2, 3, 4))
    x = m.input("x", "batch", 3, 4)
    yield m.output(m.node("Shape", x), m.node("Shape", x, start=1), m.node("Shape", x, start=-2, end=-1),
                   m.node("Shape", x, end=1), dtype=I64)
    m = Model("shape_slice_exporter", 13).case(x=(2, 3, 2, 3))  # all but the last dims, then -1
    x = m.input("x", "batch", "seq", 2, 3)
    lead = m.node("Slice", m.node("Shape", x), m.ints(0), m.ints(2), m.ints(0))
    yield m.output(m.node("Reshape", x, m.node("Concat", lead, m.ints(-1), axis=0)))
    m = Model("shape_cast_exporter", 13).case(x=(3, 4))  # through int32 and back
    n = m.node("Cast", m.node("Cast", m.node("Shape", m.input("x", "batch", 4)), to=I32), to=I64)
    yield m.output(m.node("Expand", m.weight(1, 4), n))

    m = Model("attention_block", 13).case(x=(2, 5, 8)).case(x=(1, 1, 8))
    d, heads = 8, 2
    x = m.input("x", "batch", "seq", d)

    def split_heads(y):
        return m.node("Transpose", m.node("Reshape", y, m.ints(0, 0, heads, d // heads)), perm=[0, 2, 1, 3])
    q, k, v = (split_heads(m.linear(x, d, d, form="matmul")) for _ in range(3))
    scores = m.node("Div", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2])), m.const(np.sqrt(d / heads)))
    context = m.node("Transpose", m.node("MatMul", m.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    yield m.output(m.node("Add", x, m.linear(m.node("Reshape", context, m.ints(0, 0, d)), d, d, form="matmul")))

    for opset in (19, 22, 24, 26):
        if opset > onnx.defs.onnx_opset_version():
            break  # the package is older
        m = Model(f"newest_opset_{opset}", opset).case(x=(3, 2, 3))
        x = m.node("Reshape", m.input("x", "batch", 2, 3), m.ints(0, -1))
        x = m.node("Dropout", m.node("Cast", m.mlp(x, [6, 8, 4]), to=F32))
        yield m.output(m.node("Softmax", m.node("Squeeze", m.node("Unsqueeze", x, m.ints(0)), m.ints(0))))


# ---- the models in the repository ------------------------------------------------------------------------------


def tiny_models():
    m = Model("tiny_mlp", 13)
    yield m.output(m.mlp(m.input("x", "batch", 3), [3, 4, 2]))
    m = Model("tiny_external", 13)
    m.external = "tiny_external.bin"
    w, b = m.const([[1, 2], [3, 4], [5, 6]], name="w"), m.const([7, 8], name="b")
    yield m.output(m.node("Gemm", m.input("x", 2, 3), w, b))
    m = Model("tiny_encodings", 13)
    for dtype, data in ((F32, [1.5, -2.0]), (F16, [1.5, -2.0]), (I8, [-3, 4]), (I64, [-5, 6]), (F64, [0.25, -8.0]),
                        (U64, [7, 2**40])):
        m.initializers.append(helper.make_tensor(f"t{dtype}", dtype, [2], data))
        m.output(f"t{dtype}", dtype=dtype)
    yield m
    m = Model("tiny_loops", 17)  # one that is counted, one that the data end, and a scan
    x, n, largest = m.input("x", 2, 3), m.const(3, I64), m.const(2)
    body, until, step = (Model(name, 17) for name in ("body", "until", "step"))
    body.input("i", dtype=I64), body.input("go", dtype=BOOL), body.input("h", 2, 3)
    grown = body.node("Add", "h", "x")
    body.output(body.node("Identity", "go"), dtype=BOOL).output(grown, body.node("Neg", grown))
    h, hs = m.node("Loop", n, "", x, outputs=["h", "hs"], body=body.proto().graph)
    until.input("k", dtype=I64), until.input("on", dtype=BOOL), until.input("u", 2, 3)
    more = until.node("Add", "u", h)
    until.output(until.node("Less", until.node("ReduceMax", more, keepdims=0), largest), dtype=BOOL).output(more)
    small = m.node("Less", m.node("ReduceMax", x, keepdims=0), largest)
    u = m.node("Loop", n, small, x, body=until.proto().graph)
    step.output(step.node("Add", step.input("s", 3), step.input("e", 3)))
    m.output(m.node("Scan", m.weight(3), u, num_scan_inputs=1, body=step.proto().graph))
    yield m.output(hs)


def all_models(large):
    for group in (gemm_models(), matmul_models(), mlp_models(), nine_models(large), redundant_models(),
                  elementwise_models(), reduction_models(), movement_models(), constant_models(), shape_models(),
                  huge_models() if large else ()):
        yield from group


# ---- for the judges, which need no files ---------------------------------------------------------------------


class Graph(Model):
    """A model drawn step by step; shapes are lists."""

    def __init__(self, opset, seed):
        super().__init__(f"random_{seed}", opset)

    def inp(self, name, shape):
        return self.input(name, *shape)

    def op(self, op, *inputs, n=1, **attributes):
        return self.node(op, *inputs, outputs=[self.fresh(op.lower()) for _ in range(n)], **attributes)

    def out(self, value, name, dtype):
        self.output(self.node("Identity", value, outputs=[name]), dtype=dtype)

    def model(self):
        return self.proto()


def generate(large=False):
    """Every model that onnxruntime can judge: name, graph with model(), cases."""
    for m in all_models(large):
        if not m.judge:
            m.model = m.proto
            yield m.name, m, m.cases or [{}]


def feeds_for(model, case, seed):
    """Random inputs. `case` gives shapes by the input's name, or sizes by the symbol's name."""
    rng, feeds = np.random.default_rng(seed), {}
    constants = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name in constants:
            continue
        declared = [d.dim_value if d.HasField("dim_value") else case.get(d.dim_param, 1)
                    for d in value.type.tensor_type.shape.dim]
        shape = case.get(value.name, declared)
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        whole = np.issubdtype(dtype, np.integer)
        feeds[value.name] = np.asarray(rng.integers(0, 8, shape) if whole else rng.uniform(-1, 1, shape)).astype(dtype)
    return feeds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("outdir")
    parser.add_argument("--large", action="store_true", help="also the models with big weights")
    parser.add_argument("--tiny", action="store_true", help="only the models that the C tests read")
    args = parser.parse_args()
    os.makedirs(args.outdir, exist_ok=True)
    lines, names = [], set()
    for m in tiny_models() if args.tiny else all_models(args.large):
        assert m.name not in names, f"two models are called {m.name}"
        names.add(m.name)
        m.save(args.outdir)
        lines.append(json.dumps(m.entry()))
    if not args.tiny:
        with open(os.path.join(args.outdir, "index.json"), "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(names)} models in {args.outdir}")


if __name__ == "__main__":
    main()
