from typing import Any, Callable, Mapping, Sequence

version: str
version_details: str

_Io = tuple[str, str, tuple[int | str, ...]]

class Blob:
    def __new__(cls, data: bytes) -> Blob: ...
    def tobytes(self) -> bytes: ...
    def describe(self, name: str, json: bool, dims: dict[str, int]) -> str: ...

class Tensor:
    """Memory that a plan has given or can read, which other libraries borrow by DLPack: ``torch.from_dlpack(tensor)``."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    def numpy(self) -> Any: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = ...,
        max_version: tuple[int, int] | None = ...,
        dl_device: tuple[int, int] | None = ...,
        copy: bool | None = ...,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Engine:
    @staticmethod
    def load(
        plan: str | Blob,
        device: int,
        index: int,
        threads: int,
        check: bool,
        memory_limit: int,
        cpu_level: str | None,
        key: bytes | None,
        processors: str | None,
        run_memory_limit: int,
        work_limit: float,
        shapes: int,
        buckets: dict[str, int] | None,
        /,
    ) -> Engine: ...
    def cancel(self) -> None: ...
    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any] | None, stream: int | None, as_dict: bool, /
    ) -> Any: ...
    def save(self, path: str, /) -> None: ...
    def synchronize(self) -> None: ...
    def golden(self) -> list[tuple[list[Any], list[tuple[tuple[int, ...], int, Any, Any]]]]: ...
    def expect(self, model: str, any: bool, inputs: dict[str, Any], /) -> dict[str, tuple[Any, Any]]: ...
    def draw(self, dims: dict[str, int], seed: int, /) -> list[Any]: ...
    def update(self, weights: dict[str, Any], /) -> None: ...
    def tune(self, dims: dict[str, int], seconds: float, /) -> tuple[int, int, int, int, float, float]: ...
    def to_device(self, array: Any, /) -> Tensor: ...
    inputs: list[_Io]
    outputs: list[_Io]
    weights: list[_Io]
    variables: list[_Io]
    device: int
    device_name: str
    precision: str
    predicted_seconds: float
    model_hash: int
    memory_bytes: int
    blob: Blob | None

def compile(
    model: str | bytes, options: Mapping[str, Any], progress: Callable[..., object] | None, threads: int, /
) -> tuple[Blob, dict[str, Any], list[str]]: ...
def judge(
    actual: Any, expected: Any, tolerances: Any, /
) -> tuple[int, int, int, float, float, int, int, float, float]: ...
def rules(options: Mapping[str, Any], /) -> list[dict[str, Any]]: ...
def describe(path: str, json: bool, dims: dict[str, int], /) -> str: ...

_Layer = tuple[Any, Any | None, int]

class Nn:
    """A handle of ``hypatia/nn.h``, which one thread uses at a time."""

    def __new__(cls, device: int, index: int, threads: int, /) -> Nn: ...
    def saved_bytes(self, layers: tuple[_Layer, ...], x: Any, stream: int | None, /) -> int: ...
    def forward(
        self, layers: tuple[_Layer, ...], x: Any, y: Any, saved: Any | None, stream: int | None, tf32: bool, /
    ) -> None: ...
    def backward(
        self,
        layers: tuple[_Layer, ...],
        x: Any,
        saved: Any,
        dy: Any,
        dx: Any | None,
        gradients: tuple[tuple[Any | None, Any | None], ...],
        stream: int | None,
        tf32: bool,
        /,
    ) -> None: ...

class Ruleset:
    def infos(self) -> list[tuple[str, str, str, str, str]]: ...
    def enable(self, i: int, enabled: bool, /) -> None: ...

class EGraph:
    def __init__(self, analysis: Any = ..., *, explain: bool = ..., explain_all: bool = ...) -> None: ...
    def add_text(self, term: str, /) -> int:
        """Adds a term that is written out."""

    def add_node(self, op: str, children: Sequence[int], /) -> int:
        """Adds a node over classes, or finds it."""

    def lookup(self, op: str, children: Sequence[int], /) -> int | None:
        """The class of a node that is there, or None."""

    def find(self, c: int, /) -> int:
        """The id that a class has now."""

    def _union(self, a: int, b: int, reason: str | None, /) -> bool: ...
    def rebuild(self) -> None:
        """Restores congruence and the analysis. What reads classes needs it after a union."""

    def check(self) -> None:
        """Recomputes every invariant, and raises what is broken."""

    def push(self) -> None:
        """Notes the state, for the next `pop`. Calls nest."""

    def pop(self) -> None:
        """Goes back to the last state that was noted."""

    def cancel(self) -> None:
        """Asks the run under way, or else the next one, to end soon. From any thread."""

    def _nodes(self, c: int, /) -> list[tuple[int, str, tuple[int, ...]]]: ...
    def classes(self) -> list[int]:
        """All classes."""

    def fact(self, c: int, /) -> Any:
        """What the analysis knows of a class; None without one."""

    def _rules(self, name: str, text: str, /) -> Ruleset: ...
    def _condition(self, name: str, function: Callable[..., Any], arity: int, /) -> None: ...
    def _function(self, name: str, function: Callable[..., Any], arity: int, /) -> None: ...
    def _run(
        self,
        schedule: Any,
        backoff: bool,
        iterations: int,
        nodes: int,
        bytes: int,
        seconds: float,
        matches: int,
        match_limit: int,
        ban_length: int,
        on_iteration: Callable[..., Any] | None,
        /,
    ) -> Any: ...
    def _match(self, pattern: str, /) -> tuple[tuple[str, ...], list[tuple[int, tuple[int, ...]]]]: ...
    def _extract(
        self, roots: list[int], cost: Callable[..., float] | None, method: int, seconds: float, work: int, /
    ) -> Any: ...
    def _explain(self, a: str, b: str, /) -> tuple[list[Any], Any]: ...
    def _check_proof(self, proof: Any, a: str, b: str, rules: tuple[Ruleset, ...], /) -> None: ...
    def _write(self, dot: bool, roots: list[int], cost: Callable[..., float] | None, nodes: int, /) -> str: ...
    @property
    def node_count(self) -> int: ...
    @property
    def class_count(self) -> int: ...
