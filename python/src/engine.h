/* engine.h - what the files about plans share. Not to be included beside egraph.h: each of the public headers that they
 * are over has a hyp_run_options. */
#ifndef HYP_PYTHON_ENGINE_H
#define HYP_PYTHON_ENGINE_H

#include "dlpack.h"
#include "hypatia/runtime.h"
#include "native.h"

/* A dict of names and sizes as the library takes sizes of symbols: PyMem_Free(*out). Names are borrowed from it. -1
 * with an exception set. */
int native_sizes(PyObject *dict, hyp_tensor **out, size_t *out_count);

/* ---- blob.c: the bytes of a plan ------------------------------------------------------------------------- */

/* Used by its object and by engines, until the last of their contexts is gone, on whatever thread. */
typedef struct blob_bytes {
    void *data; /* at a multiple of 64, so that engines use weights where they are */
    size_t size;
    long users; /* atomic */
} blob_bytes;
typedef struct blob_object {
    PyObject_HEAD blob_bytes *bytes;
} blob_object;
extern PyTypeObject *blob_type;
/* Copies `size` bytes. */
PyObject *blob_make(const void *data, size_t size);
void blob_drop(void *bytes); /* a hyp_engine_options.release */

/* ---- arrays.c: arrays of Python as tensors --------------------------------------------------------------- */

/* What is known of a type of arrays; lives as long as the process. */
typedef struct array_kind {
    bool numpy;
    const dlpack_exchange *exchange; /* NULL: by __dlpack__ */
    PyObject *framework;             /* hypatia._frameworks.Framework */
} array_kind;

/* An array as a tensor, for as long as `keep` is. */
typedef struct array_view {
    hyp_tensor tensor;
    int32_t device; /* number of its GPU */
    PyObject *keep;
} array_view;

/* The kind of an object; *out NULL: it is no array. -1 with an exception set. */
int arrays_kind(PyObject *object, const array_kind **out);
/* Whether an array says that it is on a GPU, and on which. -1 with an exception set. */
int arrays_place(PyObject *object, const array_kind *kind, bool *out_cuda, int32_t *out_index);
/* Views an array that is dense or, by a copy, made so. `stream` is what __dlpack__ is told, which makes that stream
 * wait for what still writes to the array; NULL: nothing is told. `what` names the array in messages. -1 with an
 * exception set. */
int arrays_view(PyObject *object, const array_kind *kind, PyObject *stream, const char *what, array_view *out);
void arrays_drop(array_view *view);
/* An array of NumPy of the dtype `name` made of whatever NumPy makes one of; NULL with an exception set. */
PyObject *arrays_from_object(PyObject *object, hyp_dtype dtype);
/* The stream that a framework works on, as CUDA's driver and DLPack number it; *out NULL: it does not say. -1 with an
 * exception set. */
int arrays_stream(PyObject *object, const array_kind *kind, int32_t device, void **out);
/* A new array of the kind of `like`, for outputs, and its view. *out NULL, and no exception: the kind has no arrays
 * that may be written to. `stream` NULL: it is written to on the stream that its library works on; else that one. */
int arrays_empty(PyObject *like, const array_kind *kind, const hyp_tensor *tensor, dlpack_device device,
                 PyObject *stream, PyObject **out, array_view *view);
/* A new array of NumPy of the type and dims of `like`, and its view; NULL with an exception set. */
PyObject *arrays_numpy(const hyp_tensor *like, array_view *view);
/* The dims as a tuple. */
PyObject *arrays_dims(const hyp_tensor *tensor);
dlpack_dtype dlpack_dtype_of(hyp_dtype dtype);

/* ---- engine.c: plans that are loaded --------------------------------------------------------------------- */

/* An engine lives until the last user is gone: its object, and tensors in its device's memory, which others may hold.
 */
typedef struct engine_box {
    hyp_engine *engine;
    long users; /* atomic */
} engine_box;
engine_box *engine_box_keep(engine_box *box);
void engine_box_drop(engine_box *box);

typedef struct engine_object {
    PyObject_HEAD engine_box *box;
    PyObject *blob;                       /* NULL: the plan is mapped from a file */
    PyObject *input_names, *output_names; /* tuples */
    hyp_context **idle;                   /* contexts that no call uses */
    size_t idle_count, idle_room;
    hyp_context **busy; /* that calls use */
    size_t busy_count, busy_room;
    uint64_t cancels;            /* of the calls that were under way, so far */
    hyp_context_options context; /* of all of them; what it points to is the next two's */
    PyObject *buckets;           /* a dict; NULL: sizes are as they are given */
    hyp_tensor *bucket_sizes;
    int32_t device_index;
    bool one_context;        /* the plan has variables, whose values are the context's */
    PyThread_type_lock turn; /* whose turn it is to use that one */
} engine_object;
extern PyTypeObject *engine_type;
/* A context that no other thread uses, to be given back; NULL with an exception set. */
hyp_context *engine_take_context(engine_object *engine);
void engine_give_context(engine_object *engine, hyp_context *context);
void engine_forget_contexts(engine_object *engine); /* those that no call uses */

/* Methods of engines in run.c and judge.c. */
PyObject *engine_call(PyObject *self, PyObject *args);
PyObject *engine_to_device(PyObject *self, PyObject *args);
PyObject *engine_golden(PyObject *self, PyObject *unused);
PyObject *engine_expect(PyObject *self, PyObject *args);
PyObject *engine_draw(PyObject *self, PyObject *args);
PyObject *engine_update(PyObject *self, PyObject *args);
PyObject *engine_tune(PyObject *self, PyObject *args);

/* ---- tensor.c -------------------------------------------------------------------------------------------- */

/* Memory of an engine's device with dims, which other libraries borrow by DLPack. */
typedef struct tensor_object {
    PyObject_HEAD struct tensor_block *block;
    hyp_tensor tensor;
    dlpack_device device;
} tensor_object;
extern PyTypeObject *tensor_type;
/* A new one of the type and dims of `like`, in the host's memory or, with `on_device`, the engine's. */
tensor_object *tensor_make(engine_object *engine, const hyp_tensor *like, bool on_device);

#endif
