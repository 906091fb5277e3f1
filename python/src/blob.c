/* blob.c - the bytes of a plan in memory. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

PyTypeObject *blob_type;

void blob_drop(void *opaque)
{
    blob_bytes *bytes = opaque;
    if (!bytes || __atomic_sub_fetch(&bytes->users, 1, __ATOMIC_ACQ_REL)) return;
    free(bytes->data);
    free(bytes);
}

PyObject *blob_make(const void *data, size_t size)
{
    blob_object *blob = PyObject_New(blob_object, blob_type);
    if (!blob) return NULL;
    blob->bytes = calloc(1, sizeof *blob->bytes);
    if (!blob->bytes || posix_memalign(&blob->bytes->data, 64, size ? size : 1) != 0) {
        free(blob->bytes);
        blob->bytes = NULL;
        Py_DECREF(blob);
        return PyErr_NoMemory();
    }
    blob->bytes->users = 1;
    blob->bytes->size = size;
    memcpy(blob->bytes->data, data, size);
    return (PyObject *)blob;
}

static PyObject *blob_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type, (void)kwargs;
    PyObject *bytes;
    char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "S:Blob", &bytes)) return NULL;
    return PyBytes_AsStringAndSize(bytes, &data, &size) < 0 ? NULL : blob_make(data, (size_t)size);
}

static void blob_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    blob_drop(((blob_object *)self)->bytes);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *blob_tobytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    const blob_bytes *blob = ((const blob_object *)self)->bytes;
    return PyBytes_FromStringAndSize(blob->data, (Py_ssize_t)blob->size);
}

int native_sizes(PyObject *dict, hyp_tensor **out, size_t *out_count)
{
    size_t count = (size_t)PyDict_Size(dict), i = 0;
    hyp_tensor *sizes = PyMem_Calloc(count + 1, sizeof *sizes);
    PyObject *name, *size;
    Py_ssize_t place = 0;
    while (sizes && PyDict_Next(dict, &place, &name, &size)) {
        sizes[i].rank = 1;
        sizes[i].name = PyUnicode_AsUTF8AndSize(name, NULL);
        sizes[i].dims[0] = PyLong_AsLongLong(size);
        if (!sizes[i].name || PyErr_Occurred()) {
            PyMem_Free(sizes);
            return -1;
        }
        i++;
    }
    if (!sizes) {
        PyErr_NoMemory();
        return -1;
    }
    *out = sizes;
    *out_count = count;
    return 0;
}

/* describe(name, json, dims): what hyp_plan_describe_memory says. */
static PyObject *blob_describe(PyObject *self, PyObject *args)
{
    const blob_bytes *blob = ((const blob_object *)self)->bytes;
    const char *name;
    int json;
    PyObject *dims;
    if (!PyArg_ParseTuple(args, "spO!:describe", &name, &json, &PyDict_Type, &dims)) return NULL;
    hyp_tensor *sizes;
    size_t count;
    if (native_sizes(dims, &sizes, &count) < 0) return NULL;
    native_buffer buffer = {0};
    hyp_diag diag = {0};
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS
        status = hyp_plan_describe_memory(blob->data, blob->size, name, json, sizes, count, native_buffer_write,
                                          &buffer, &diag);
    Py_END_ALLOW_THREADS
    PyMem_Free(sizes);
    PyObject *text = native_buffer_text(&buffer);
    if (status == HYP_OK) return text;
    Py_XDECREF(text);
    return native_raise(status, diag.message);
}

static PyMethodDef methods[] = {
    {"tobytes", blob_tobytes, METH_NOARGS, "The bytes, copied."},
    {"describe", blob_describe, METH_VARARGS, "describe(name, json, dims): a description of the plan as text or JSON."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"The bytes of a plan."},
    {Py_tp_new, blob_new},
    {Py_tp_dealloc, blob_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {"hypatia._native.Blob", sizeof(blob_object), 0, Py_TPFLAGS_DEFAULT, slots};

int blob_init(PyObject *module) { return native_add_type(module, &spec, &blob_type); }
