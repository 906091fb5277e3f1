/* native.h - what the files of the extension module share. It keeps to Python's limited interface of 3.10, so that one
 * binary serves that release and all later ones. */
#ifndef HYP_PYTHON_NATIVE_H
#define HYP_PYTHON_NATIVE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <stdbool.h>

#include "hypatia/status.h"

/* Sets the exception of a failure: a class of hypatia._errors. Returns NULL. */
PyObject *native_raise(hyp_status status, const char *message);
/* The attribute `name` of the module hypatia.<module>; NULL with an exception set. */
PyObject *native_attribute(const char *module, const char *name);
/* Adds a type made of `spec` to the module, and to *out, which keeps it. -1 with an exception set. */
int native_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out);
/* A Python string of text that may not be UTF-8, as names from models. "" for NULL. */
PyObject *native_text(const char *text);
/* A hyp_write_fn whose user is a native_buffer. */
typedef struct native_buffer {
    char *data;
    size_t size, capacity;
    bool failed; /* memory ran out */
} native_buffer;
void native_buffer_write(const char *text, size_t len, void *user);
/* The text as a string, which frees the buffer. */
PyObject *native_buffer_text(native_buffer *buffer);

/* Each adds its types and functions to the module; -1 with an exception set. */
int blob_init(PyObject *module);
int arrays_init(PyObject *module);
int tensor_init(PyObject *module);
int engine_init(PyObject *module);
int compile_init(PyObject *module);
int judge_init(PyObject *module);
int nn_init(PyObject *module);
int egraph_init(PyObject *module);

#endif
