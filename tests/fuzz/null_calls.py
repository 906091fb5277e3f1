"""Every function of the public headers, with NULL for each pointer in turn, and for all: answered or refused, never a
crash.

The functions are read from the headers, so that a new one is tested when it is declared. What stands for an argument
that is no NULL follows from its type; each call is a process of its own.
"""
import ctypes as c
import glob
import os
import re
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

CALLBACK = c.CFUNCTYPE(c.c_int)(lambda: 0)  # takes what it gets, and answers 0
ROOM = 1 << 16


class Large(c.Structure):  # what a function returns by value: more than two registers
    _fields_ = [("bytes", c.c_char * 1024)]


def prototypes():
    """(result, name, [(type, name)]) of every exported function."""
    for header in sorted(glob.glob(os.path.join(hyp.ROOT, "include/hypatia/*.h"))):
        text = re.sub(r"/\*.*?\*/", " ", open(header).read(), flags=re.S)
        text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.M)
        for result, name, given in re.findall(r"HYP_API\s+([\w\s*]+?)\b(\w+)\(([^;]*)\)\s*;", text):
            args = []
            given = re.sub(r"\w+ \(\*(\w+)\)\([^)]*\)", r"callback_fn \1", " ".join(given.split()))
            for arg in given.split(","):
                match = re.fullmatch(r"(.*?)(\w+)(\[\w*\])?", arg.strip())
                if arg.strip() != "void":
                    args.append((match.group(1).strip() + ("*" if match.group(3) else ""), match.group(2)))
            yield " ".join(result.replace("HYP_NODISCARD", "").split()), name, args


def is_callback(kind):
    return kind.endswith("_fn")


def is_pointer(kind):
    return "*" in kind or "(" in kind or is_callback(kind)


class Handles:
    """What calls are made on. The libraries' own functions make them."""

    def __init__(self, folder):
        self.libs = [hyp.library("hypatia"), hyp.library("hypatia-rt")]
        diag, plan = hyp.Diag(), os.path.join(folder, "plan.bin").encode()
        model = os.path.join(hyp.ROOT, "examples/digits/digits.onnx").encode()
        options = hyp.EngineOptions(size=c.sizeof(hyp.EngineOptions), device=hyp.DEVICES["reference"], threads=1)
        self.report, engine, context, graph, rules, pattern, read, reference, nn = (c.c_void_p() for _ in range(9))

        def make(name, *args):
            assert self.find(name)(*args, c.byref(diag)) == 0, f"{name}: {diag.message.decode()}"
        make("hyp_compile_file", model, plan, None, c.byref(self.report))
        make("hyp_engine_load_file", plan, c.byref(options), c.byref(engine))
        make("hyp_context_create", engine, None, c.byref(context))
        make("hyp_nn_create", c.byref(options), None, c.byref(nn))
        make("hyp_egraph_create", None, c.byref(graph))
        make("hyp_egraph_add_text", graph, b"(+ a b)", c.byref(c.c_uint32()))
        make("hyp_ruleset_parse", graph, b"rules", b"(rule swap (+ ?x ?y) => (+ ?y ?x))", c.c_size_t(34), c.byref(rules))
        make("hyp_pattern_parse", graph, b"(+ ?x ?y)", c.byref(pattern))
        text = b'{"nodes": {"n": {"op": "a", "children": [], "eclass": "c", "cost": 1}}, "root_eclasses": ["c"]}'
        make("hyp_serialized_parse", b"file", text, c.c_size_t(len(text)), c.byref(read))
        make("hyp_reference_open", model, c.byref(reference))
        self.by_type = {"hyp_engine": engine, "hyp_context": context, "hyp_egraph": graph, "hyp_ruleset": rules,
                        "hyp_pattern": pattern, "hyp_serialized": read, "hyp_reference": reference,
                        "hyp_compile_report": self.report, "hyp_nn": nn}

    def find(self, name):
        for lib in self.libs:
            if hasattr(lib, name):
                return getattr(lib, name)
        raise AssertionError(f"{name} is declared and in neither library")

    def value(self, kind, name):
        """A valid argument of this type."""
        base = kind.replace("const", "").replace("struct", "").split("*")[0].strip()
        if is_callback(base) and "*" not in kind:
            return CALLBACK
        if kind.count("*") == 1:
            if base in self.by_type:
                return self.by_type[base]
            if base == "char":
                return c.c_char_p(b"a")
            if base.endswith("_options"):
                return None  # the defaults
            return c.create_string_buffer(ROOM)
        if is_pointer(kind):
            return c.create_string_buffer(ROOM)
        if base == "double":
            return c.c_double(0)
        return c.c_size_t(1 if re.search("count|len|size|cap", name) else 0)


def call(handles, result, name, args):
    function = handles.find(name)
    scalar = not re.fullmatch(r"(const )?hyp_\w+", result) or re.search(r"_(status|kind|symbol|id|tuning|dtype|answer)$", result)
    function.restype = c.c_double if result == "double" else c.c_void_p if scalar else Large
    return function(*args)


def survives(handles, result, name, args):
    """The signal that a call ended with, or 0."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        call(handles, result, name, args)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main():
    bad, calls, functions = [], 0, list(prototypes())
    assert len(functions) > 130, len(functions)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        handles = Handles(folder)
        for result, name, args in functions:
            pointers = [i for i, (kind, _) in enumerate(args) if is_pointer(kind)]
            for nulls in [pointers] + [[i] for i in pointers] * (len(pointers) > 1):
                given = [None if i in nulls else handles.value(*arg) for i, arg in enumerate(args)]
                calls += 1
                if ended := survives(handles, result, name, given):
                    bad.append(f"{name}: ended with {ended} where {', '.join(args[i][1] for i in nulls)} was NULL")
    print("\n".join(bad))
    print(f"{calls} calls of {len(functions)} functions, {len(bad)} crashed")
    sys.exit(bool(bad))


main()
