"""From modules of PyTorch to models: by torch.export, then by PyTorch's exporter to ONNX."""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F

from ._errors import UnsupportedError

_OPSET = 23  # the first with an operator for attention
_LARGE = 1 << 30  # bytes of weights beyond which a model and its weights are files of their own, as protobuf ends at 2 GiB


class ExportError(UnsupportedError):
    """PyTorch cannot export it; the message names the operator where PyTorch does."""


@dataclass
class Exported:
    """A model in a folder that lasts as long as this."""

    path: str
    folder: tempfile.TemporaryDirectory[str]
    shapes: list[tuple[int | str, ...]]
    """Of the inputs; the name of a size, or an expression of names, where it is open."""

    def sizes(self, inputs: Sequence[torch.Tensor]) -> dict[str, int]:
        """What open sizes are for inputs."""
        pairs = ((name, size) for shape, t in zip(self.shapes, inputs) for name, size in zip(shape, t.shape))
        return {name: int(size) for name, size in pairs if isinstance(name, str) and name.isidentifier()}


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    dim_names: Mapping[tuple[str, int], str] | None = None,
    weight_names: Mapping[str, str] | None = None,
) -> Exported:
    """Writes a module as an ONNX model.

    :param dynamic: ``dynamic_shapes`` of ``torch.export.export``.
    :param dim_names: names for open sizes, by the name of an input and its axis.
    :param weight_names: names for parameters and buffers, which else have those of the module.
    :raises ExportError: with the operator that PyTorch or its exporter have no way for.
    """
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ExportError(f"PyTorch's exporter needs the package onnxscript (pip install onnxscript): {error}") from None
    with _quiet(), _slow_path():
        try:
            program = torch.export.export(module, args, dict(kwargs or {}), dynamic_shapes=dynamic, strict=False)
            effects = program.run_decompositions({}).graph_signature
        except Exception as error:
            raise ExportError(f"torch.export: {_reason(error)}") from error
        _refuse_mutation(effects)
        try:  # not optimized, which is for us to do: so weights are as they are in the module
            onnx_program = torch.onnx.export(program, dynamo=True, optimize=False, opset_version=_OPSET, verbose=False)
        except Exception as error:
            raise ExportError(f"torch.onnx.export: {_reason(error)}") from error
    assert onnx_program is not None
    _name(onnx_program.model.graph, dim_names or {}, weight_names or {})
    folder = tempfile.TemporaryDirectory(prefix="hypatia-")
    path = os.path.join(folder.name, "model.onnx")
    size = sum(value.nbytes for value in program.state_dict.values() if isinstance(value, torch.Tensor))
    onnx_program.save(path, external_data=size > _LARGE)
    shapes = [tuple(d if isinstance(d, int) else str(d) for d in v.shape or ()) for v in onnx_program.model.graph.inputs]
    return Exported(path, folder, shapes)


@contextlib.contextmanager
def _slow_path() -> Iterator[None]:
    """Attention and encoder layers by operators that ONNX has, and not by one that does all."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _refuse_mutation(signature: Any) -> None:
    """An ONNX model has no effects: a module that writes to a buffer or an input would lose them. What is written to
    is known of a program whose operators have no effects, either."""
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise ExportError(f"it writes to {', '.join(sorted(written))} in place, which a plan cannot")


def _name(graph: Any, dim_names: Mapping[tuple[str, int], str], weight_names: Mapping[str, str]) -> None:
    """Gives open sizes and weights the names that users know them by."""
    known: dict[str, str] = {}
    for value in graph.inputs:
        for axis, size in enumerate(value.shape or ()):
            name = dim_names.get((value.name, axis))
            if name is None:
                continue
            if isinstance(size, int):
                raise ExportError(f"axis {axis} of the input {value.name} was to be open, and the module fixes it to {size}")
            known.setdefault(str(size), name)
    if known:
        values = [*graph.inputs, *graph.outputs, *(out for node in graph.all_nodes() for out in node.outputs)]
        for value in {id(value): value for value in values}.values():
            if value.shape is not None:
                value.shape = type(value.shape)([_renamed(size, known) for size in value.shape])
    for name, value in list(graph.initializers.items()):
        if weight_names.get(name, name) != name and weight_names[name] not in graph.initializers:
            value.name = weight_names[name]


def _renamed(size: Any, known: Mapping[str, str]) -> Any:
    """A size whose symbols have other names; a size may be an expression."""
    if isinstance(size, int):
        return size
    return re.sub(r"[A-Za-z_]\w*", lambda word: known.get(word[0], word[0]), str(size))


def _reason(error: BaseException) -> str:
    """What a failure comes to: the operator that has no counterpart, or the last of its causes, in one line."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    for one in chain:
        found = re.search(r"No ONNX function found for <OpOverload\(op='([\w.:]+)', overload='(\w+)'\)>", str(one))
        if found:
            return f"the operator {found[1]}.{found[2]} has no counterpart in ONNX"
    for one in reversed(chain):
        found = re.search(r"\b(?:aten|prims|torchvision)[.:]{1,2}\w+(?:\.\w+)?", str(one))
        if found:
            return f"the operator {found[0]}: {_first_line(one)}"
    return _first_line(chain[-1])


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter tells of itself: what matters is in what it raises."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


# ---- graphs of torch.compile -----------------------------------------------------------------------------------


@dataclass
class Captured:
    """A graph of torch.compile as a module whose inputs are tensors, and whose parameters and buffers are its own."""

    module: torch.fx.GraphModule
    inputs: list[int]
    """Places, in a call of the graph, of the tensors that the module takes."""
    weights: dict[str, tuple[str, int]]
    """By the name in the module: the user's name, and the place in a call."""
    dynamic: list[set[int]]
    """For each input, its axes of open size."""
    outputs: list[int | None]
    """For each output of the graph, that of the module; None: the graph gives None there."""


def capture(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Captured:
    """Makes parameters and buffers, which torch.compile hands to a graph as inputs, attributes; and sizes, which it
    hands over as numbers, what they are: sizes of inputs.

    :raises ExportError: the graph has inputs or outputs that are no tensors.
    """
    module = torch.fx.GraphModule(dict(graph.named_modules()), torch.fx.Graph())
    for name, value in [*graph.named_parameters(), *graph.named_buffers()]:
        if "." not in name:
            setattr(module, name, value)
    new, mapped = module.graph, {}
    captured = Captured(module, [], {}, [], [])
    places = [node for node in graph.graph.nodes if node.op == "placeholder"]
    sizes = [(place, node) for place, node in enumerate(places) if isinstance(example[place], (int, torch.SymInt))]
    for place, node in enumerate(places):
        value = example[place]
        if (place, node) in sizes:
            continue
        if not isinstance(value, torch.Tensor):
            raise ExportError(f"the graph takes a {type(value).__name__}, {node.name}")
        if "_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {}) or isinstance(value, torch.nn.Parameter):
            name = f"w{len(captured.weights)}"
            setattr(module, name, value) if isinstance(value, torch.nn.Parameter) else module.register_buffer(name, value)
            captured.weights[name] = (_user_name(node), place)
            continue
        mapped[node] = new.placeholder(f"x{len(captured.inputs)}")
        mapped[node].meta = dict(node.meta)
        captured.inputs.append(place)
        shape = node.meta["example_value"].shape
        captured.dynamic.append({axis for axis, size in enumerate(shape) if _is_open(size)})
    for name in captured.weights:
        mapped[places[captured.weights[name][1]]] = new.get_attr(name)
    for place, node in sizes:
        if node.users:
            mapped[node] = _size_of_input(new, node, places, captured.inputs, mapped)
    for node in graph.graph.nodes:
        if node.op == "output":
            captured.outputs = _output(new, node, mapped)
        elif node.op != "placeholder":
            mapped[node] = new.node_copy(node, lambda old: mapped[old])
            mapped[node].target = _SPELLED_OUT.get(node.target, node.target)
    module.recompile()
    return captured


def _encoder_layer(
    x: torch.Tensor,
    width: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *parameters: Any,
) -> torch.Tensor:
    """``torch._transformer_encoder_layer_fwd``, which torch.nn.TransformerEncoderLayer takes where it can."""
    scale1, shift1, scale2, shift2, w1, b1, w2, b2, *masks = parameters

    def attend(y: torch.Tensor) -> torch.Tensor:
        given = (y, y, y, width, heads, qkv_weight, qkv_bias, out_weight, out_bias)
        return _attention(*given, masks[0] if masks else None, False, True, masks[1] if len(masks) > 1 else None)[0]

    def feed(y: torch.Tensor) -> torch.Tensor:
        y = F.linear(y, w1, b1)
        return F.linear(F.gelu(y) if use_gelu else F.relu(y), w2, b2)

    if norm_first:
        x = x + attend(F.layer_norm(x, (width,), scale1, shift1, eps))
        return x + feed(F.layer_norm(x, (width,), scale2, shift2, eps))
    x = F.layer_norm(x + attend(x), (width,), scale1, shift1, eps)
    return F.layer_norm(x + feed(x), (width,), scale2, shift2, eps)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    width: int,
    heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    out_weight: torch.Tensor,
    out_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``torch._native_multi_head_attention``, which torch.nn.MultiheadAttention takes where it can. A mask is of
    pairs of places (type 0), of keys (1), or of all (2); it is true, or the smaller, where nothing is seen."""
    parts = zip((query, key, value), qkv_weight.chunk(3), qkv_bias.chunk(3))
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, width // heads)).transpose(1, 2) for x, w, b in parts)
    scores = (q * (width // heads) ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        seen = mask[:, None, None, :] if mask_type == 1 else mask
        scores = scores.masked_fill(seen, float("-inf")) if seen.dtype == torch.bool else scores + seen
    weights = scores.softmax(-1)
    y = F.linear((weights @ v).transpose(1, 2).flatten(2), out_weight, out_bias)
    return y, (weights.mean(1) if average else weights) if need_weights else None


def _embedding_bag(input: torch.Tensor, weight: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
    """``torch.nn.functional.embedding_bag``: bags of one size, a row each, as a sum; PyTorch's exporter makes a loop."""
    given = inspect.signature(F.embedding_bag).bind(input, weight, *rest, **named)
    given.apply_defaults()
    asked = given.arguments
    plain = all(asked[name] is None for name in ("offsets", "per_sample_weights", "padding_idx", "max_norm"))
    if input.dim() != 2 or not plain:
        return F.embedding_bag(input, weight, *rest, **named)
    rows = F.embedding(input, weight)
    return {"sum": rows.sum, "mean": rows.mean, "max": rows.amax}[asked["mode"]](1)


_SPELLED_OUT: dict[Any, Any] = {
    F.embedding_bag: _embedding_bag,
    torch._transformer_encoder_layer_fwd: _encoder_layer,
    torch._native_multi_head_attention: _attention,
}


def _is_open(size: Any) -> bool:
    """Whether a size is none that the graph has fixed since."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def _output(new: torch.fx.Graph, node: torch.fx.Node, mapped: dict[torch.fx.Node, torch.fx.Node]) -> list[int | None]:
    given = node.args[0]
    kept: list[torch.fx.Node] = []
    places: list[int | None] = []
    for one in given if isinstance(given, (tuple, list)) else (given,):
        if one is not None and not (
            isinstance(one, torch.fx.Node) and isinstance(one.meta.get("example_value"), torch.Tensor)
        ):
            raise ExportError(f"the graph gives something that is no tensor, {one}")
        places.append(None if one is None else len(kept))
        if one is not None:
            kept.append(mapped[one])
    new.output(tuple(kept))
    return places


def _size_of_input(
    new: torch.fx.Graph,
    node: torch.fx.Node,
    places: Sequence[torch.fx.Node],
    inputs: Sequence[int],
    mapped: Mapping[torch.fx.Node, torch.fx.Node],
) -> torch.fx.Node:
    symbol = node.meta["example_value"]
    for place in inputs:
        for axis, size in enumerate(places[place].meta["example_value"].shape):
            if isinstance(size, torch.SymInt) and isinstance(symbol, torch.SymInt) and size.node.expr == symbol.node.expr:
                made = new.call_function(torch.ops.aten.sym_size.int, (mapped[places[place]], axis))
                made.meta["example_value"] = symbol
                return made
    raise ExportError(f"the graph takes a number, {node.name}, that is the size of none of its tensors")


def _user_name(node: torch.fx.Node) -> str:
    """A parameter as users know it: ``layers.0.weight``."""
    argument = node.meta.get("grapharg")
    name: Any = getattr(getattr(argument, "source", None), "name", "")
    words: list[str] = re.findall(r"_(?:modules|parameters|buffers)\['([^']*)'\]", name() if callable(name) else name)
    return ".".join(words) or str(node.name)


