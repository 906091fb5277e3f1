"""A library of arrays that has DLPack's exchange of C functions, written with ctypes."""

import ctypes

import numpy as np

_counts = dict(lent=0, allocated=0, taken=0, freed=0)


def counts():
    return dict(_counts)


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", Device),
        ("rank", ctypes.c_int32),
        ("type", Type),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("owner", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


FAIL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
ALLOCATE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Tensor), ctypes.POINTER(ctypes.POINTER(Versioned)), ctypes.c_void_p, FAIL
)
TAKE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Versioned), ctypes.POINTER(ctypes.c_void_p))
LEND = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Tensor))
STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ALLOCATE),
        ("lend_owned", ctypes.c_void_p),
        ("take", TAKE),
        ("lend", LEND),
        ("stream", STREAM),
    ]


_KINDS = {"f": 2, "i": 0, "u": 1, "b": 6, "c": 5}
_alive = {}  # what was allocated, by the address of its Versioned


def _fill(tensor, array):
    """What keeps the dims, too."""
    dims, strides = (
        (ctypes.c_int64 * max(array.ndim, 1))(*values)
        for values in (array.shape, [s // array.itemsize for s in array.strides])
    )
    tensor.data = array.ctypes.data
    tensor.device = Device(1, 0)
    tensor.rank = array.ndim
    tensor.type = Type(_KINDS[array.dtype.kind], 8 * array.itemsize, 1)
    tensor.dims, tensor.strides, tensor.offset = dims, strides, 0
    return dims, strides


@ALLOCATE
def _allocate(like, out, user, fail):
    if Exchanged.fail:
        fail(user, b"MemoryError", b"no more of it")
        return -1
    t = like.contents
    kind = {v: k for k, v in _KINDS.items()}[t.type.code]
    array = np.empty([t.dims[i] for i in range(t.rank)], np.dtype(f"{kind}{t.type.bits // 8}"))
    made = Versioned(major=1, minor=3, deleter=_delete)
    kept = _fill(made.tensor, array)
    _alive[ctypes.addressof(made)] = made, array, kept
    out[0] = ctypes.pointer(made)
    _counts["allocated"] += 1
    return 0


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address):
    del _alive[address]
    _counts["freed"] += 1


@TAKE
def _take(tensor, out):
    _, array, _ = _alive.pop(ctypes.addressof(tensor.contents))
    taken = Exchanged(array)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(taken))
    out[0] = id(taken)
    _counts["taken"] += 1
    return 0


@LEND
def _lend(array, out):
    array.kept = _fill(out.contents, array.array)
    _counts["lent"] += 1
    return 0


@STREAM
def _stream(kind, index, out):
    out[0] = None
    return 0


_exchange = Exchange(1, 3, None, _allocate, None, _take, _lend, _stream)
_name = ctypes.create_string_buffer(b"dlpack_exchange_api")  # which a capsule borrows
_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]


class Exchanged:
    __dlpack_c_exchange_api__ = _capsule(ctypes.addressof(_exchange), ctypes.addressof(_name), None)
    fail = False

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        raise AssertionError("the exchange is there")

    def __dlpack_device__(self):
        return 1, 0

    def __array_namespace__(self):
        return Namespace


class Namespace:
    @staticmethod
    def asarray(array, copy):
        return Exchanged(np.array(array.array, order="C"))
