/* run.c - one run of a plan: arrays to tensors, memory for outputs, and on which stream. */
#include <string.h>

#include "engine.h"

/* A run under way. Outputs are arrays of the kind of the first input that is an array of another library than NumPy,
 * where that array is; of NumPy where there is none. */
typedef struct run {
    engine_object *self;
    hyp_context *context;
    uint64_t cancels; /* of self when the call got its context */
    size_t in, out;
    PyObject **given;    /* an object for each input, borrowed from the arguments or `own` */
    PyObject *own;       /* a dict of inputs, copied, as others may change it meanwhile; NULL: none */
    array_view *views;   /* of inputs, then of outputs */
    hyp_tensor *tensors; /* the same, as the library takes them */
    int64_t *most;       /* elements that each output was given room for */
    PyObject *like;      /* that first input; NULL: none */
    const array_kind *kind;
    PyObject *numpy; /* an array of NumPy, where `like` is none */
    bool on_device;  /* `like` is on a GPU */
    int32_t device;
    PyObject *asked;  /* the stream that the caller asked for, or None */
    void *stream;     /* to run on; NULL: the context's own */
    PyObject *told;   /* the number of the stream; NULL on a CPU */
    bool queued;      /* whoever gave the stream waits for it, not we */
    PyObject *arrays; /* the outputs, a tuple */
} run;

/* ---- inputs ---------------------------------------------------------------------------------------------- */

static int refuse_argument(const char *format, PyObject *a, PyObject *b)
{
    PyObject *text = PyUnicode_FromFormat(format, a, b);
    const char *chars = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (chars) native_raise(HYP_ERR_INVALID_ARGUMENT, chars);
    if (!PyErr_Occurred()) PyErr_NoMemory(); /* which Python itself does not always say */
    Py_XDECREF(text);
    return -1;
}

static int place_named(run *r, PyObject *named)
{
    PyObject *name, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(named, &place, &name, &value)) {
        size_t i = 0;
        for (; i < r->in; i++) {
            PyObject *known = PyTuple_GetItem(r->self->input_names, (Py_ssize_t)i);
            if (known == name || PyUnicode_Compare(known, name) == 0) break;
            if (PyErr_Occurred()) return -1;
        }
        if (i == r->in) return refuse_argument("the plan has no input %R; it has %R", name, r->self->input_names);
        if (r->given[i]) return refuse_argument("the input %R was given twice", name, NULL);
        r->given[i] = value;
    }
    return 0;
}

/* Arguments by position, then by name, as in a call of Python. */
static int place_arguments(run *r, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t count = PyTuple_Size(args);
    PyObject *first = count == 1 ? PyTuple_GetItem(args, 0) : NULL;
    if (first && PyDict_Check(first)) {
        if (!(r->own = PyDict_Copy(first)) || place_named(r, r->own) < 0) return -1;
    } else {
        if ((size_t)count > r->in) {
            PyErr_Format(PyExc_TypeError, "the plan has %zu inputs, and %zd were given", r->in, count);
            return -1;
        }
        for (Py_ssize_t i = 0; i < count; i++) r->given[i] = PyTuple_GetItem(args, i);
    }
    if (kwargs && kwargs != Py_None && place_named(r, kwargs) < 0) return -1;
    for (size_t i = 0; i < r->in; i++)
        if (!r->given[i]) {
            PyObject *name = PyTuple_GetItem(r->self->input_names, (Py_ssize_t)i);
            return refuse_argument("the input %R is missing; the plan has %R", name, r->self->input_names);
        }
    return 0;
}

/* Where the arrays are, and which stream of the GPU the run is on. `told` is what producers of arrays are told of it
 * where that is not the stream that they work on anyway; NULL: they are told nothing. */
static int choose_stream(run *r)
{
    if (r->like && arrays_place(r->like, r->kind, &r->on_device, &r->device) < 0) return -1;
    if (r->asked != Py_None) {
        r->stream = PyLong_AsVoidPtr(r->asked);
        if (PyErr_Occurred()) return -1;
        if (!r->stream) r->stream = (void *)(uintptr_t)DLPACK_LEGACY_STREAM;
    } else if (r->on_device && arrays_stream(r->like, r->kind, r->device, &r->stream) < 0) {
        return -1;
    }
    r->queued = r->stream != NULL;
    r->told = PyLong_FromVoidPtr(r->stream ? r->stream : hyp_context_stream(r->context));
    return r->told ? 0 : -1;
}

/* Whether an array's library works on the stream of the run, so that the array may be given back before the run has
 * ended; -1 with an exception set. */
static int shares_stream(run *r, PyObject *object, const array_kind *kind, int32_t device)
{
    if (r->asked != Py_None) return 1; /* the caller sees to it */
    if (kind == r->kind) return r->queued;
    void *stream;
    return arrays_stream(object, kind, device, &stream) < 0 ? -1 : r->stream && stream == r->stream;
}

static int view_input(run *r, size_t i)
{
    const hyp_io_info *info = hyp_engine_input(r->self->box->engine, i);
    PyObject *object = r->given[i], *made = NULL;
    const array_kind *kind;
    if (arrays_kind(object, &kind) < 0) return -1;
    if (!kind) { /* numbers and lists of them */
        made = object = arrays_from_object(object, info->dtype);
        if (!made || arrays_kind(made, &kind) < 0) return -1;
    }
    char what[128];
    snprintf(what, sizeof what, "input '%.100s'", info->name);
    array_view *view = &r->views[i];
    /* By an exchange nobody is told: only where the library works on the stream that the run is on. */
    bool silent = kind->numpy || (kind == r->kind && kind->exchange && r->asked == Py_None);
    int failed = arrays_view(object, kind, silent ? NULL : r->told, what, view);
    Py_XDECREF(made);
    if (failed) return -1;
    view->tensor.name = info->name;
    if (view->tensor.memory != HYP_MEMORY_CUDA) return 0;
    if (hyp_engine_device(r->self->box->engine) != HYP_DEVICE_CUDA) {
        PyObject *name = PyTuple_GetItem(r->self->input_names, (Py_ssize_t)i);
        return refuse_argument(
            "the input %R is on a GPU, and the plan runs on a CPU: load it with device=\"cuda\", or copy the array",
            name, NULL);
    }
    int shares = shares_stream(r, object, kind, view->device);
    if (shares < 0) return -1;
    if (!shares) r->queued = false;
    if (view->device == r->self->device_index) return 0;
    PyErr_Format(PyExc_ValueError, "%s is on GPU %d, and the plan on GPU %d", what, (int)view->device,
                 (int)r->self->device_index);
    return -1;
}

static int read_inputs(run *r)
{
    for (size_t i = 0; i < r->in; i++) {
        const array_kind *kind;
        if (arrays_kind(r->given[i], &kind) < 0) return -1;
        if (!kind || (r->like && (kind->numpy || !r->kind->numpy))) continue;
        r->like = r->given[i];
        r->kind = kind;
    }
    if (hyp_engine_device(r->self->box->engine) == HYP_DEVICE_CUDA && choose_stream(r) < 0) return -1;
    for (size_t i = 0; i < r->in; i++) {
        if (view_input(r, i) < 0) return -1;
        r->tensors[i] = r->views[i].tensor;
    }
    return 0;
}

/* ---- outputs --------------------------------------------------------------------------------------------- */

/* Where outputs go if no input is an array: to NumPy. */
static int like_numpy(run *r)
{
    if (r->like) return 0;
    r->numpy = arrays_from_object(Py_None, HYP_F32);
    r->like = r->numpy;
    return r->numpy ? arrays_kind(r->numpy, &r->kind) : -1;
}

static int make_output(run *r, size_t i)
{
    const hyp_io_info *info = hyp_engine_output(r->self->box->engine, i);
    hyp_tensor *t = &r->tensors[r->in + i];
    array_view *view = &r->views[r->in + i];
    dlpack_device device = {r->on_device ? DLPACK_CUDA : DLPACK_CPU, r->on_device ? r->device : 0};
    int64_t elements = 1;
    for (int32_t d = 0; d < t->rank; d++) elements *= t->dims[d];
    r->most[i] = elements;
    t->dtype = info->dtype;
    t->bytes = (size_t)elements * hyp_dtype_size(info->dtype);
    PyObject *array = NULL;
    if (arrays_empty(r->like, r->kind, t, device, r->asked != Py_None ? r->told : NULL, &array, view) < 0) return -1;
    if (!array) {
        tensor_object *own = tensor_make(r->self, t, r->on_device);
        if (!own) return -1;
        view->tensor = own->tensor;
        array = (PyObject *)own;
    }
    t->name = info->name;
    t->data = view->tensor.data;
    t->memory = view->tensor.memory;
    return PyTuple_SetItem(r->arrays, (Py_ssize_t)i, array);
}

static int make_outputs(run *r)
{
    if (like_numpy(r) < 0) return -1;
    hyp_diag diag = {0};
    for (size_t i = 0; i < r->out; i++) r->tensors[r->in + i].name = hyp_engine_output(r->self->box->engine, i)->name;
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS /* other sizes than before are prepared */
        status = hyp_context_output_shapes(r->context, r->tensors, r->in, r->tensors + r->in, r->out, &diag);
    Py_END_ALLOW_THREADS
    if (status != HYP_OK) {
        native_raise(status, diag.message);
        return -1;
    }
    r->arrays = PyTuple_New((Py_ssize_t)r->out);
    if (!r->arrays) return -1;
    for (size_t i = 0; i < r->out; i++)
        if (make_output(r, i) < 0) return -1;
    return 0;
}

/* Outputs of which the data say how large they are have room for the most, and are cut to what there is; those of our
 * own memory become arrays of the inputs' library. */
static int finish_output(run *r, size_t i)
{
    const hyp_tensor *t = &r->tensors[r->in + i];
    PyObject *array = PyTuple_GetItem(r->arrays, (Py_ssize_t)i);
    int64_t elements = 1;
    for (int32_t d = 0; d < t->rank; d++) elements *= t->dims[d];
    PyObject *done = NULL;
    if (Py_TYPE(array) == tensor_type) {
        memcpy(((tensor_object *)array)->tensor.dims, t->dims, sizeof t->dims);
        ((tensor_object *)array)->tensor.bytes = t->bytes;
        done = PyObject_CallMethod(r->kind->framework, "wrap", "OO", r->like, array);
    } else if (elements != r->most[i]) {
        PyObject *dims = arrays_dims(t);
        if (dims) done = PyObject_CallMethod(r->kind->framework, "cut", "OLO", array, (long long)elements, dims);
        Py_XDECREF(dims);
    } else {
        return 0;
    }
    return done ? PyTuple_SetItem(r->arrays, (Py_ssize_t)i, done) : -1;
}

/* ---- the run --------------------------------------------------------------------------------------------- */

static hyp_status run_once(run *r, hyp_diag *diag)
{
    hyp_run_options options = {.size = sizeof options, .stream = r->stream};
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS
        status = hyp_context_run_with(r->context, r->tensors, r->in, r->tensors + r->in, r->out, &options, diag);
        /* Who lent us memory without a stream of his takes it back with none: so the work has to have ended. */
        if (status == HYP_OK && !r->queued) status = hyp_context_synchronize(r->context, diag);
    Py_END_ALLOW_THREADS
    return status;
}

/* Who cancels may come when a run has ended, and its call has not: that would end the context's next run, before it has
 * begun, though nobody has cancelled that call. */
static int execute(run *r)
{
    hyp_diag diag = {0};
    hyp_status status = run_once(r, &diag);
    if (status == HYP_ERR_CANCELLED && r->cancels == r->self->cancels) status = run_once(r, &diag);
    if (status == HYP_OK) return 0;
    native_raise(status, diag.message);
    return -1;
}

static int go(run *r, PyObject *args, PyObject *kwargs)
{
    if (place_arguments(r, args, kwargs) < 0 || read_inputs(r) < 0 || make_outputs(r) < 0 || execute(r) < 0) return -1;
    for (size_t i = 0; i < r->out; i++)
        if (finish_output(r, i) < 0) return -1;
    return 0;
}

/* What a call gives: the one output, a tuple of several, or a dict by name. */
static PyObject *result(run *r, int as_dict)
{
    if (!as_dict && r->out == 1) {
        PyObject *one = PyTuple_GetItem(r->arrays, 0);
        Py_INCREF(one);
        return one;
    }
    if (!as_dict) {
        Py_INCREF(r->arrays);
        return r->arrays;
    }
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < r->out; i++)
        if (PyDict_SetItem(dict, PyTuple_GetItem(r->self->output_names, (Py_ssize_t)i),
                           PyTuple_GetItem(r->arrays, (Py_ssize_t)i)) < 0)
            Py_CLEAR(dict);
    return dict;
}

/* call(args, kwargs, stream, as_dict) */
PyObject *engine_call(PyObject *self, PyObject *arguments)
{
    PyObject *args, *kwargs, *done = NULL;
    int as_dict;
    run r = {.self = (engine_object *)self};
    if (!PyArg_ParseTuple(arguments, "O!OOp:call", &PyTuple_Type, &args, &kwargs, &r.asked, &as_dict)) return NULL;
    r.in = hyp_engine_input_count(r.self->box->engine);
    r.out = hyp_engine_output_count(r.self->box->engine);
    size_t all = r.in + r.out + 1;
    char *memory = PyMem_Calloc(all, sizeof *r.tensors + sizeof *r.views + sizeof *r.given + sizeof *r.most);
    if (!memory) return PyErr_NoMemory();
    r.tensors = (hyp_tensor *)memory;
    r.views = (array_view *)(r.tensors + all);
    r.given = (PyObject **)(r.views + all);
    r.most = (int64_t *)(r.given + all);
    r.context = engine_take_context(r.self);
    r.cancels = r.self->cancels;
    if (r.context) {
        if (go(&r, args, kwargs) == 0) done = result(&r, as_dict);
        engine_give_context(r.self, r.context);
    }
    for (size_t i = 0; i < r.in + r.out; i++) arrays_drop(&r.views[i]);
    Py_XDECREF(r.told);
    Py_XDECREF(r.own);
    Py_XDECREF(r.numpy);
    Py_XDECREF(r.arrays);
    PyMem_Free(memory);
    return done;
}

/* to_device(array) */
PyObject *engine_to_device(PyObject *self, PyObject *args)
{
    engine_object *engine = (engine_object *)self;
    PyObject *object;
    const array_kind *kind;
    array_view view = {0};
    if (!PyArg_ParseTuple(args, "O:to_device", &object) || arrays_kind(object, &kind) < 0) return NULL;
    if (!kind) {
        PyErr_SetString(PyExc_TypeError, "to_device takes an array");
        return NULL;
    }
    if (arrays_view(object, kind, NULL, "array", &view) < 0) return NULL;
    tensor_object *tensor =
        tensor_make(engine, &view.tensor, hyp_engine_device(engine->box->engine) == HYP_DEVICE_CUDA);
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    if (tensor && tensor->tensor.bytes) {
        Py_BEGIN_ALLOW_THREADS
            if (tensor->tensor.memory == HYP_MEMORY_CUDA)
                status = hyp_engine_tensor_copy(engine->box->engine, &view.tensor, &tensor->tensor, &diag);
            else
                memcpy(tensor->tensor.data, view.tensor.data, tensor->tensor.bytes);
        Py_END_ALLOW_THREADS
    }
    arrays_drop(&view);
    if (status == HYP_OK) return (PyObject *)tensor;
    Py_DECREF(tensor);
    return native_raise(status, diag.message);
}
