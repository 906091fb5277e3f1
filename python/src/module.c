/* module.c - hypatia._native: the libraries as Python sees them. the package's Python makes of it what users see. */
#include <stdlib.h>
#include <string.h>

#include "hypatia/runtime.h"
#include "native.h"

PyObject *native_attribute(const char *module, const char *name)
{
    PyObject *m = PyImport_ImportModule(module);
    PyObject *value = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    return value;
}

PyObject *native_raise(hyp_status status, const char *message)
{
    PyObject *make = native_attribute("hypatia._errors", "of_status");
    PyObject *text = make ? native_text(message) : NULL;
    PyObject *error = text ? PyObject_CallFunction(make, "iO", (int)status, text) : NULL;
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    if (!PyErr_Occurred()) PyErr_NoMemory(); /* there was none to raise it with */
    Py_XDECREF(error);
    Py_XDECREF(text);
    Py_XDECREF(make);
    return NULL;
}

int native_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type) return -1;
    *out = (PyTypeObject *)type;
    return PyModule_AddType(module, *out);
}

PyObject *native_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text ? text : "", text ? (Py_ssize_t)strlen(text) : 0, "backslashreplace");
}

void native_buffer_write(const char *text, size_t len, void *user)
{
    native_buffer *b = user;
    if (b->failed) return;
    if (len > b->capacity - b->size) {
        size_t capacity = b->size + len + b->capacity / 2 + 256;
        char *data = realloc(b->data, capacity);
        if (!data) {
            b->failed = true;
            return;
        }
        b->data = data;
        b->capacity = capacity;
    }
    memcpy(b->data + b->size, text, len);
    b->size += len;
}

PyObject *native_buffer_text(native_buffer *b)
{
    PyObject *text = b->failed ? PyErr_NoMemory()
                               : PyUnicode_DecodeUTF8(b->data ? b->data : "", (Py_ssize_t)b->size, "backslashreplace");
    free(b->data);
    memset(b, 0, sizeof *b);
    return text;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "hypatia._native",
    "The libraries of Hypatia; hypatia is what to import.",
    -1,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__native(void); /* which no header declares */

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module &&
        (PyModule_AddStringConstant(module, "version", hyp_version()) < 0 ||
         PyModule_AddStringConstant(module, "version_details", hyp_version_details()) < 0 || blob_init(module) < 0 ||
         arrays_init(module) < 0 || tensor_init(module) < 0 || engine_init(module) < 0 || compile_init(module) < 0 ||
         judge_init(module) < 0 || nn_init(module) < 0 || egraph_init(module) < 0))
        Py_CLEAR(module);
    return module;
}
