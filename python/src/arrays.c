/* arrays.c - arrays of NumPy, and of whatever speaks DLPack, as tensors, without copying what is dense. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* What the capsule __array_struct__ of NumPy's array interface has; the layout is that interface's. */
typedef struct numpy_array {
    int two, rank;
    char kind;
    int itemsize, flags;
    Py_ssize_t *dims, *strides;
    void *data;
    PyObject *descr;
} numpy_array;
enum { NUMPY_C_CONTIGUOUS = 1, NUMPY_ALIGNED = 0x100, NUMPY_NOT_SWAPPED = 0x200 };

static PyObject *kinds;      /* type: capsule of array_kind, or None */
static PyObject *find_kind;  /* hypatia._frameworks.of_type */
static PyObject *make_empty; /* numpy.empty */

/* ---- types of elements ----------------------------------------------------------------------------------- */

typedef struct element {
    hyp_dtype dtype;
    uint8_t code, bits; /* DLPack's */
    char kind;          /* NumPy's; V: known by its name alone */
    PyObject *numpy;    /* NumPy's dtype; NULL: not asked for yet */
} element;
static element elements[] = {
    {HYP_F32, DLPACK_FLOAT, 32, 'f', NULL},      {HYP_F64, DLPACK_FLOAT, 64, 'f', NULL},
    {HYP_F16, DLPACK_FLOAT, 16, 'f', NULL},      {HYP_BF16, DLPACK_BFLOAT, 16, 'V', NULL},
    {HYP_F8E4M3, DLPACK_F8E4M3FN, 8, 'V', NULL}, {HYP_BOOL, DLPACK_BOOL, 8, 'b', NULL},
    {HYP_I8, DLPACK_INT, 8, 'i', NULL},          {HYP_I16, DLPACK_INT, 16, 'i', NULL},
    {HYP_I32, DLPACK_INT, 32, 'i', NULL},        {HYP_I64, DLPACK_INT, 64, 'i', NULL},
    {HYP_U8, DLPACK_UINT, 8, 'u', NULL},         {HYP_U16, DLPACK_UINT, 16, 'u', NULL},
    {HYP_U32, DLPACK_UINT, 32, 'u', NULL},       {HYP_U64, DLPACK_UINT, 64, 'u', NULL},
};
enum { ELEMENTS = sizeof elements / sizeof *elements };

dlpack_dtype dlpack_dtype_of(hyp_dtype dtype)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        if (elements[i].dtype == dtype) return (dlpack_dtype){elements[i].code, elements[i].bits, 1};
    return (dlpack_dtype){0, 0, 0};
}

static hyp_dtype dtype_of_dlpack(dlpack_dtype t)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        if (elements[i].code == t.code && elements[i].bits == t.bits && t.lanes == 1) return elements[i].dtype;
    return HYP_DTYPE_NONE;
}

static hyp_dtype dtype_of_numpy(PyObject *array, const numpy_array *a)
{
    for (size_t i = 0; i < ELEMENTS && a->kind != 'V'; i++)
        if (elements[i].kind == a->kind && elements[i].bits == 8 * a->itemsize) return elements[i].dtype;
    if (a->kind != 'V') return HYP_DTYPE_NONE;
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    hyp_dtype found = HYP_DTYPE_NONE;
    if (name && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0) found = HYP_BF16;
    if (name && PyUnicode_CompareWithASCIIString(name, "float8_e4m3fn") == 0) found = HYP_F8E4M3;
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    return found;
}

/* NumPy's dtype, borrowed; NULL with an exception set. */
static PyObject *numpy_dtype(hyp_dtype dtype)
{
    size_t i = 0;
    while (i < ELEMENTS - 1 && elements[i].dtype != dtype) i++;
    if (!elements[i].numpy) {
        PyObject *find = native_attribute("hypatia._dtypes", "numpy_dtype");
        elements[i].numpy = find ? PyObject_CallFunction(find, "s", hyp_dtype_name(dtype)) : NULL;
        Py_XDECREF(find);
    }
    return elements[i].numpy;
}

/* ---- kinds ----------------------------------------------------------------------------------------------- */

/* The exchange of a type whose layout is known; NULL, and no exception, where there is none. */
static const dlpack_exchange *exchange_of(PyObject *type)
{
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const dlpack_exchange *exchange = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL;
    PyErr_Clear();
    Py_XDECREF(capsule); /* the struct lasts as long as the process */
    while (exchange && exchange->version.major > 1) exchange = exchange->older;
    return exchange && exchange->version.major == 1 && exchange->lend ? exchange : NULL;
}

static PyObject *make_kind(PyObject *type)
{
    PyObject *framework = PyObject_CallFunctionObjArgs(find_kind, type, NULL);
    if (!framework || framework == Py_None) return framework;
    array_kind *kind = calloc(1, sizeof *kind);
    if (!kind) {
        Py_DECREF(framework);
        return PyErr_NoMemory();
    }
    kind->framework = framework; /* for ever, as the kind is */
    PyObject *numpy = PyObject_GetAttrString(framework, "numpy");
    kind->numpy = numpy == Py_True;
    Py_XDECREF(numpy);
    if (!numpy) PyErr_Clear();
    kind->exchange = kind->numpy ? NULL : exchange_of(type);
    return PyCapsule_New(kind, NULL, NULL);
}

int arrays_kind(PyObject *object, const array_kind **out)
{
    *out = NULL;
    PyObject *type = (PyObject *)Py_TYPE(object);
    PyObject *known = PyDict_GetItemWithError(kinds, type);
    if (!known) {
        if (PyErr_Occurred() || !(known = make_kind(type))) return -1;
        int failed = PyDict_SetItem(kinds, type, known);
        Py_DECREF(known); /* the dict has it */
        if (failed) return -1;
    }
    if (known != Py_None) *out = PyCapsule_GetPointer(known, NULL);
    return 0;
}

/* ---- views ----------------------------------------------------------------------------------------------- */

static int refuse(const char *what, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", what, why);
    native_raise(HYP_ERR_INVALID_ARGUMENT, text);
    return -1;
}

/* Bytes of a tensor whose type and dims are set. */
static int set_bytes(hyp_tensor *t, const char *what)
{
    size_t bytes = hyp_dtype_size(t->dtype);
    for (int32_t i = 0; i < t->rank; i++)
        if (t->dims[i] < 0 || __builtin_mul_overflow(bytes, (size_t)t->dims[i], &bytes))
            return refuse(what, "the array has more elements than memory could hold");
    t->bytes = bytes;
    return 0;
}

/* 1: dense; 0: a copy is wanted; -1 with an exception. */
static int view_numpy(PyObject *array, const char *what, array_view *out)
{
    PyObject *capsule = PyObject_GetAttrString(array, "__array_struct__");
    const numpy_array *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    int done = -1;
    hyp_dtype dtype = a ? dtype_of_numpy(array, a) : HYP_DTYPE_NONE;
    if (!a || PyErr_Occurred())
        ;
    else if (a->rank > HYP_MAX_RANK)
        refuse(what, "an array of more than 8 axes");
    else if (dtype == HYP_DTYPE_NONE)
        refuse(what, "an array of a type that Hypatia has not (it has float16 to float64, bfloat16 and float8_e4m3fn "
                     "of ml_dtypes, "
                     "integers of 8 to 64 bits, bool)");
    else if ((a->flags & NUMPY_C_CONTIGUOUS) && (a->flags & NUMPY_ALIGNED) && (a->flags & NUMPY_NOT_SWAPPED)) {
        out->tensor = (hyp_tensor){.data = a->data, .dtype = dtype, .memory = HYP_MEMORY_HOST, .rank = a->rank};
        for (int i = 0; i < a->rank; i++) out->tensor.dims[i] = a->dims[i];
        done = set_bytes(&out->tensor, what) < 0 ? -1 : 1;
    } else {
        done = 0;
    }
    Py_XDECREF(capsule); /* memory and dims are the array's */
    if (done == 1) {
        Py_INCREF(array);
        out->keep = array;
    }
    return done;
}

static bool is_dense(const dlpack_tensor *t)
{
    int64_t step = 1;
    for (int32_t i = t->rank; t->strides && i-- > 0;) {
        if (t->dims[i] == 0) return true;
        if (t->dims[i] != 1 && t->strides[i] != step) return false;
        step *= t->dims[i];
    }
    return true;
}

/* As view_numpy. */
static int read_dlpack(const dlpack_tensor *t, const char *what, array_view *out)
{
    bool cuda = t->device.type == DLPACK_CUDA || t->device.type == DLPACK_CUDA_MANAGED;
    if (!cuda && t->device.type != DLPACK_CPU && t->device.type != DLPACK_CUDA_HOST)
        return refuse(what, "the array is neither in the host's memory nor on a CUDA device");
    if (t->rank > HYP_MAX_RANK || t->rank < 0) return refuse(what, "an array of more than 8 axes");
    hyp_dtype dtype = dtype_of_dlpack(t->dtype);
    if (dtype == HYP_DTYPE_NONE)
        return refuse(
            what,
            "an array of a type that Hypatia has not (it has float16 to float64, bfloat16, float8_e4m3fn, integers "
            "of 8 to 64 bits, bool)");
    out->tensor = (hyp_tensor){.data = t->data ? (char *)t->data + t->offset : NULL, .dtype = dtype, .rank = t->rank};
    out->tensor.memory = cuda ? HYP_MEMORY_CUDA : HYP_MEMORY_HOST;
    out->device = cuda ? t->device.index : 0;
    for (int32_t i = 0; i < t->rank; i++) out->tensor.dims[i] = t->dims[i];
    if (set_bytes(&out->tensor, what) < 0) return -1;
    return is_dense(t) && (uintptr_t)out->tensor.data % hyp_dtype_size(dtype) == 0;
}

/* The tensor in a capsule of either kind; NULL with an exception set. */
static const dlpack_tensor *in_capsule(PyObject *capsule, const char *what)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        const dlpack_versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (v->version.major == 1) return &v->tensor;
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        return &((const dlpack_managed *)PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
    }
    refuse(what, "__dlpack__ gave nothing that DLPack 1 describes");
    return NULL;
}

static PyObject *call_dlpack(PyObject *object, PyObject *stream)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = method ? PyTuple_New(0) : NULL;
    PyObject *named = none ? Py_BuildValue("{s:(ii)}", "max_version", 1, 0) : NULL;
    PyObject *capsule = NULL;
    if (named && (!stream || PyDict_SetItemString(named, "stream", stream) == 0)) {
        capsule = PyObject_Call(method, none, named);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) { /* from before max_version */
            PyErr_Clear();
            if (PyDict_DelItemString(named, "max_version") == 0) capsule = PyObject_Call(method, none, named);
        }
    }
    Py_XDECREF(named);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

static int view_dlpack(PyObject *object, const array_kind *kind, PyObject *stream, const char *what, array_view *out)
{
    if (kind->exchange && !stream) {
        dlpack_tensor t;
        if (kind->exchange->lend(object, &t) != 0) return -1;
        int done = read_dlpack(&t, what, out);
        if (done == 1) {
            Py_INCREF(object);
            out->keep = object;
        }
        return done;
    }
    PyObject *capsule = call_dlpack(object, stream);
    const dlpack_tensor *t = capsule ? in_capsule(capsule, what) : NULL;
    int done = t ? read_dlpack(t, what, out) : -1;
    if (done == 1)
        out->keep = capsule; /* nobody renames it, so that its end gives the memory back */
    else
        Py_XDECREF(capsule);
    return done;
}

int arrays_view(PyObject *object, const array_kind *kind, PyObject *stream, const char *what, array_view *out)
{
    int done = kind->numpy ? view_numpy(object, what, out) : view_dlpack(object, kind, stream, what, out);
    if (done) return done < 0 ? -1 : 0;
    PyObject *dense = PyObject_CallMethod(kind->framework, "dense", "O", object);
    if (!dense) return -1;
    done = kind->numpy ? view_numpy(dense, what, out) : view_dlpack(dense, kind, stream, what, out);
    Py_DECREF(dense); /* kept by the view */
    if (done == 0) refuse(what, "the array is not dense, and a copy of it is not, either");
    return done == 1 ? 0 : -1;
}

int arrays_place(PyObject *object, const array_kind *kind, bool *out_cuda, int32_t *out_index)
{
    dlpack_device device = {DLPACK_CPU, 0};
    dlpack_tensor t;
    int failed = 0;
    if (kind->exchange) {
        failed = kind->exchange->lend(object, &t) != 0;
        if (!failed) device = t.device;
    } else if (!kind->numpy) {
        PyObject *place = PyObject_CallMethod(object, "__dlpack_device__", NULL);
        failed = !place || !PyTuple_Check(place) || !PyArg_ParseTuple(place, "ii", &device.type, &device.index);
        Py_XDECREF(place);
        if (failed && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__dlpack_device__ gave no tuple");
    }
    *out_cuda = device.type == DLPACK_CUDA || device.type == DLPACK_CUDA_MANAGED;
    *out_index = device.index;
    return failed ? -1 : 0;
}

void arrays_drop(array_view *view) { Py_CLEAR(view->keep); }

PyObject *arrays_from_object(PyObject *object, hyp_dtype dtype)
{
    PyObject *make = native_attribute("hypatia._dtypes", "to_numpy");
    PyObject *array = make ? PyObject_CallFunction(make, "Os", object, hyp_dtype_name(dtype)) : NULL;
    Py_XDECREF(make);
    return array;
}

int arrays_stream(PyObject *object, const array_kind *kind, int32_t device, void **out)
{
    *out = NULL;
    if (kind->exchange) {
        if (kind->exchange->stream(DLPACK_CUDA, device, out) != 0) return -1;
        if (!*out) *out = (void *)(uintptr_t)DLPACK_LEGACY_STREAM;
        return 0;
    }
    PyObject *number = PyObject_CallMethod(kind->framework, "stream", "O", object);
    if (!number) return -1;
    if (number != Py_None) *out = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *arrays_dims(const hyp_tensor *tensor)
{
    PyObject *dims = PyTuple_New(tensor->rank);
    for (int32_t i = 0; dims && i < tensor->rank; i++) {
        PyObject *dim = PyLong_FromLongLong(tensor->dims[i]);
        if (!dim || PyTuple_SetItem(dims, i, dim) < 0) Py_CLEAR(dims);
    }
    return dims;
}

/* ---- new ones -------------------------------------------------------------------------------------------- */

typedef struct failure {
    char message[256];
} failure;

/* Whoever calls this may not have Python's lock. */
static void allocation_failed(void *user, const char *kind, const char *message)
{
    (void)kind;
    failure *f = user;
    snprintf(f->message, sizeof f->message, "%s", message ? message : "");
}

static int exchange_empty(const dlpack_exchange *exchange, const hyp_tensor *tensor, dlpack_device device,
                          PyObject **out, array_view *view)
{
    int64_t dims[HYP_MAX_RANK], strides[HYP_MAX_RANK], step = 1;
    for (int32_t i = tensor->rank; i-- > 0; step *= tensor->dims[i]) {
        dims[i] = tensor->dims[i];
        strides[i] = step;
    }
    dlpack_tensor like = {.device = device,
                          .rank = tensor->rank,
                          .dtype = dlpack_dtype_of(tensor->dtype),
                          .dims = dims,
                          .strides = strides};
    dlpack_versioned *made = NULL;
    failure failed = {"no memory for an output"};
    if (exchange->allocate(&like, &made, &failed, allocation_failed) != 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_MemoryError, failed.message);
        return -1;
    }
    int done = read_dlpack(&made->tensor, "output", view);
    void *object = NULL;
    if (done < 0) {
        made->deleter(made);
        return -1;
    }
    if (exchange->take(made, &object) != 0) return -1;
    *out = object;
    Py_INCREF(*out);
    view->keep = *out;
    return 0;
}

PyObject *arrays_numpy(const hyp_tensor *like, array_view *view)
{
    PyObject *dtype = numpy_dtype(like->dtype), *dims = dtype ? arrays_dims(like) : NULL;
    PyObject *array = dims ? PyObject_CallFunctionObjArgs(make_empty, dims, dtype, NULL) : NULL;
    Py_XDECREF(dims);
    if (array && view_numpy(array, "array", view) != 1) Py_CLEAR(array);
    return array;
}

int arrays_empty(PyObject *like, const array_kind *kind, const hyp_tensor *tensor, dlpack_device device,
                 PyObject *stream, PyObject **out, array_view *view)
{
    if (kind->exchange && !stream) return exchange_empty(kind->exchange, tensor, device, out, view);
    if (kind->numpy) return (*out = arrays_numpy(tensor, view)) ? 0 : -1;
    PyObject *dims = arrays_dims(tensor);
    if (!dims) return -1;
    PyObject *array = PyObject_CallMethod(kind->framework, "empty", "OOs", like, dims, hyp_dtype_name(tensor->dtype));
    Py_DECREF(dims);
    if (!array) return -1;
    if (array == Py_None) {
        Py_DECREF(array);
        *out = NULL;
        return 0;
    }
    /* On the library's own stream nobody has to wait for what its memory was used for before. */
    PyObject *nobody = stream || device.type != DLPACK_CUDA ? NULL : PyLong_FromLong(-1);
    int failed = arrays_view(array, kind, stream ? stream : nobody, "output", view);
    Py_XDECREF(nobody);
    if (failed) {
        Py_DECREF(array);
        return -1;
    }
    *out = array;
    return 0;
}

int arrays_init(PyObject *module)
{
    (void)module;
    kinds = PyDict_New();
    find_kind = kinds ? native_attribute("hypatia._frameworks", "of_type") : NULL;
    make_empty = find_kind ? native_attribute("numpy", "empty") : NULL;
    return make_empty ? 0 : -1;
}
