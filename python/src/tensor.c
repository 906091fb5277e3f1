/* tensor.c - memory of an engine's device as an object that other libraries borrow by DLPack. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

PyTypeObject *tensor_type;

/* Memory with its users: the object, and whoever was lent it. Who lends gives back on any thread, with Python's lock or
 * without. */
typedef struct tensor_block {
    long users; /* atomic */
    hyp_tensor memory;
    engine_box *box; /* of memory of its device; NULL: the host's */
} tensor_block;

static void block_drop(tensor_block *block)
{
    if (__atomic_sub_fetch(&block->users, 1, __ATOMIC_ACQ_REL)) return;
    if (block->box) {
        hyp_engine_tensor_free(block->box->engine, &block->memory);
        engine_box_drop(block->box);
    } else {
        free(block->memory.data);
    }
    free(block);
}

static hyp_status block_take(tensor_block *block, engine_object *engine, bool on_device, hyp_diag *diag)
{
    if (on_device) {
        hyp_status status = hyp_engine_tensor_alloc(engine->box->engine, &block->memory, diag);
        if (status == HYP_OK) block->box = engine_box_keep(engine->box);
        return status;
    }
    size_t bytes = block->memory.bytes;
    if (posix_memalign(&block->memory.data, 64, bytes ? bytes : 1) == 0) return HYP_OK;
    snprintf(diag->message, sizeof diag->message, "no memory for an array of %zu bytes", bytes);
    return HYP_ERR_NO_MEMORY;
}

tensor_object *tensor_make(engine_object *engine, const hyp_tensor *like, bool on_device)
{
    tensor_block *block = calloc(1, sizeof *block);
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    block->users = 1;
    block->memory.bytes = like->bytes;
    hyp_diag diag = {0};
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS
        status = block_take(block, engine, on_device, &diag);
    Py_END_ALLOW_THREADS
    tensor_object *tensor = status == HYP_OK ? PyObject_New(tensor_object, tensor_type) : NULL;
    if (!tensor) {
        if (status == HYP_OK)
            block_drop(block);
        else
            free(block), native_raise(status, diag.message);
        return NULL;
    }
    tensor->block = block;
    tensor->tensor = *like;
    tensor->tensor.name = NULL;
    tensor->tensor.data = block->memory.data;
    tensor->tensor.memory = on_device ? block->memory.memory : HYP_MEMORY_HOST;
    tensor->device = (dlpack_device){DLPACK_CPU, 0};
    if (tensor->tensor.memory == HYP_MEMORY_CUDA) tensor->device = (dlpack_device){DLPACK_CUDA, engine->device_index};
    return tensor;
}

static void tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    block_drop(((tensor_object *)self)->block);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- DLPack ---------------------------------------------------------------------------------------------- */

/* What is lent, in one piece of memory. */
typedef struct loan {
    union {
        dlpack_managed managed;
        dlpack_versioned versioned;
    };
    int64_t dims[HYP_MAX_RANK], strides[HYP_MAX_RANK];
    tensor_block *block;
} loan;

static void end_managed(dlpack_managed *self)
{
    block_drop(((loan *)self)->block);
    free(self);
}

static void end_versioned(dlpack_versioned *self)
{
    block_drop(((loan *)self)->block);
    free(self);
}

/* Of a capsule that nobody has taken: who takes one renames it. */
static void end_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        end_managed(PyCapsule_GetPointer(capsule, "dltensor"));
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        end_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static void lend(const tensor_object *self, loan *l, dlpack_tensor *out)
{
    int64_t step = 1;
    for (int32_t i = self->tensor.rank; i-- > 0; step *= self->tensor.dims[i]) {
        l->dims[i] = self->tensor.dims[i];
        l->strides[i] = step;
    }
    *out = (dlpack_tensor){.data = self->tensor.data,
                           .device = self->device,
                           .rank = self->tensor.rank,
                           .dtype = dlpack_dtype_of(self->tensor.dtype),
                           .dims = l->dims,
                           .strides = l->strides};
    l->block = self->block;
    __atomic_add_fetch(&l->block->users, 1, __ATOMIC_RELAXED);
}

/* Of a tuple of two numbers, or None, which leaves them. 0 with an exception set. */
static int read_pair(PyObject *pair, int *a, int *b)
{
    if (pair == Py_None) return 1;
    if (PyTuple_Check(pair)) return PyArg_ParseTuple(pair, "ii", a, b);
    PyErr_SetString(PyExc_TypeError, "wanted a tuple of two numbers, or None");
    return 0;
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None). Runs have ended when their outputs are seen,
 * so that no stream has anything to wait for. */
static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"stream", (char *)"max_version", (char *)"dl_device", (char *)"copy", NULL};
    const tensor_object *t = (const tensor_object *)self;
    PyObject *stream = NULL, *version = Py_None, *device = Py_None, *copy = Py_None;
    int type = 0, index = 0, major = 0, minor = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream, &version, &device, &copy))
        return NULL;
    if (!read_pair(version, &major, &minor) || !read_pair(device, &type, &index)) return NULL;
    if (copy == Py_True || (device != Py_None && (type != t->device.type || index != t->device.index))) {
        PyErr_SetString(PyExc_BufferError, "hypatia.Tensor lends its memory where it is, and makes no copies");
        return NULL;
    }
    loan *l = calloc(1, sizeof *l);
    if (!l) return PyErr_NoMemory();
    const char *name = "dltensor";
    if (major >= 1) {
        name = "dltensor_versioned";
        l->versioned.version = (dlpack_version){1, 0};
        l->versioned.deleter = end_versioned;
        lend(t, l, &l->versioned.tensor);
    } else {
        l->managed.deleter = end_managed;
        lend(t, l, &l->managed.tensor);
    }
    PyObject *capsule = PyCapsule_New(l, name, end_capsule);
    if (!capsule) {
        block_drop(l->block);
        free(l);
    }
    return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tensor_object *t = (const tensor_object *)self;
    return Py_BuildValue("(ii)", t->device.type, t->device.index);
}

/* ---- attributes ------------------------------------------------------------------------------------------ */

static PyObject *tensor_shape(PyObject *self, void *unused)
{
    (void)unused;
    return arrays_dims(&((const tensor_object *)self)->tensor);
}

static PyObject *tensor_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(hyp_dtype_name(((const tensor_object *)self)->tensor.dtype));
}

static PyObject *tensor_device(PyObject *self, void *unused)
{
    (void)unused;
    const tensor_object *t = (const tensor_object *)self;
    return t->device.type == DLPACK_CPU ? PyUnicode_FromString("cpu")
                                        : PyUnicode_FromFormat("cuda:%d", t->device.index);
}

static PyObject *tensor_repr(PyObject *self)
{
    PyObject *shape = tensor_shape(self, NULL), *device = tensor_device(self, NULL), *text = NULL;
    if (shape && device)
        text = PyUnicode_FromFormat("hypatia.Tensor(shape=%S, dtype=%s, device=%S)", shape,
                                    hyp_dtype_name(((const tensor_object *)self)->tensor.dtype), device);
    Py_XDECREF(shape);
    Py_XDECREF(device);
    return text;
}

/* numpy(): a new array with the elements. */
static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    const tensor_object *t = (const tensor_object *)self;
    array_view view;
    PyObject *array = arrays_numpy(&t->tensor, &view);
    if (!array) return NULL;
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    Py_BEGIN_ALLOW_THREADS
        if (!t->block->box)
            memcpy(view.tensor.data, t->tensor.data, t->tensor.bytes);
        else
            status = hyp_engine_tensor_copy(t->block->box->engine, &t->tensor, &view.tensor, &diag);
    Py_END_ALLOW_THREADS
    arrays_drop(&view);
    if (status == HYP_OK) return array;
    Py_DECREF(array);
    return native_raise(status, diag.message);
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "Lends the memory, by DLPack."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "DLPack's numbers of the device."},
    {"numpy", tensor_numpy, METH_NOARGS, "A new array of NumPy with the elements."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef attributes[] = {
    {"shape", tensor_shape, NULL, "The sizes, as a tuple.", NULL},
    {"dtype", tensor_dtype, NULL, "\"f32\", \"i64\", ...", NULL},
    {"device", tensor_device, NULL, "\"cpu\" or \"cuda:0\".", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Memory that a plan has given or can read, which other libraries borrow by DLPack: "
                        "torch.from_dlpack(tensor)."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};
static PyType_Spec spec = {"hypatia.Tensor", sizeof(tensor_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int tensor_init(PyObject *module) { return native_add_type(module, &spec, &tensor_type); }
