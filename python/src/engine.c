/* engine.c - a plan that is loaded, and contexts to run it with. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

PyTypeObject *engine_type;

engine_box *engine_box_keep(engine_box *box)
{
    __atomic_add_fetch(&box->users, 1, __ATOMIC_RELAXED);
    return box;
}

void engine_box_drop(engine_box *box)
{
    if (!box || __atomic_sub_fetch(&box->users, 1, __ATOMIC_ACQ_REL)) return;
    hyp_engine_destroy(box->engine);
    free(box);
}

/* ---- contexts -------------------------------------------------------------------------------------------- */

/* Makes room for one context more in a list; false without memory. */
static bool make_room(hyp_context ***list, size_t count, size_t *room)
{
    if (count < *room) return true;
    size_t more = 2 * *room + 4;
    hyp_context **grown = realloc(*list, more * sizeof *grown);
    if (!grown) return false;
    *list = grown;
    *room = more;
    return true;
}

static hyp_context *take(engine_object *self)
{
    hyp_context *context = NULL;
    hyp_diag diag = {0};
    hyp_status status;
    if (self->idle_count) return self->idle[--self->idle_count];
    Py_BEGIN_ALLOW_THREADS
        status = hyp_context_create(self->box->engine, &self->context, &context, &diag);
    Py_END_ALLOW_THREADS
    if (status != HYP_OK) native_raise(status, diag.message);
    return context;
}

/* Contexts are taken and given back under Python's lock. There are as many as calls have ever been under way at once.
 */
hyp_context *engine_take_context(engine_object *self)
{
    if (self->one_context && !PyThread_acquire_lock(self->turn, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS
            PyThread_acquire_lock(self->turn, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    hyp_context *context = take(self);
    if (context && !make_room(&self->busy, self->busy_count, &self->busy_room)) {
        hyp_context_destroy(context);
        context = NULL;
        PyErr_NoMemory();
    }
    if (context)
        self->busy[self->busy_count++] = context;
    else if (self->one_context)
        PyThread_release_lock(self->turn);
    return context;
}

void engine_give_context(engine_object *self, hyp_context *context)
{
    size_t at = 0;
    while (self->busy[at] != context) at++;
    self->busy[at] = self->busy[--self->busy_count];
    if (make_room(&self->idle, self->idle_count, &self->idle_room))
        self->idle[self->idle_count++] = context;
    else
        hyp_context_destroy(context); /* no memory to note it */
    if (self->one_context) PyThread_release_lock(self->turn);
}

void engine_forget_contexts(engine_object *self)
{
    while (self->idle_count) {
        hyp_context *context = self->idle[--self->idle_count];
        Py_BEGIN_ALLOW_THREADS /* its work is waited for */
            hyp_context_destroy(context);
        Py_END_ALLOW_THREADS
    }
}

/* ---- loading --------------------------------------------------------------------------------------------- */

static PyObject *names_of(const hyp_engine *engine, size_t count,
                          const hyp_io_info *(*info)(const hyp_engine *, size_t))
{
    PyObject *names = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; names && i < count; i++) {
        PyObject *name = native_text(info(engine, i)->name);
        if (name) PyUnicode_InternInPlace(&name);
        if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

/* What contexts of the engine are made with. -1 with an exception set; a context is made where buckets are wanted, for
 * that is when they are refused. */
static int set_contexts(engine_object *self, const hyp_context_options *options, PyObject *buckets)
{
    self->context = *options;
    if (buckets == Py_None) return 0;
    if (native_sizes(buckets, &self->bucket_sizes, &self->context.bucket_count) < 0) return -1;
    Py_INCREF(buckets); /* it has the names */
    self->buckets = buckets;
    for (size_t i = 0; i < self->context.bucket_count; i++)
        if (!*self->bucket_sizes[i].name) self->bucket_sizes[i].name = NULL;
    self->context.buckets = self->bucket_sizes;
    hyp_context *context = engine_take_context(self);
    if (!context) return -1;
    engine_give_context(self, context);
    return 0;
}

static engine_object *wrap(hyp_engine *engine, PyObject *blob, int32_t device_index)
{
    engine_object *self = PyObject_New(engine_object, engine_type);
    engine_box *box = self ? calloc(1, sizeof *box) : NULL;
    if (self) memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
    if (!box) {
        Py_XDECREF(self);
        hyp_engine_destroy(engine);
        PyErr_NoMemory();
        return NULL;
    }
    *box = (engine_box){engine, 1};
    self->box = box;
    Py_XINCREF(blob);
    self->blob = blob;
    self->device_index = device_index;
    self->one_context = hyp_engine_variable_count(engine) > 0;
    self->turn = PyThread_allocate_lock();
    self->input_names = names_of(engine, hyp_engine_input_count(engine), hyp_engine_input);
    self->output_names = names_of(engine, hyp_engine_output_count(engine), hyp_engine_output);
    if (!self->turn && !PyErr_Occurred()) PyErr_NoMemory();
    if (PyErr_Occurred()) Py_CLEAR(self);
    return self;
}

/* load(plan, device, index, threads, check, memory_limit, cpu_level, key, processors, run_memory_limit, work_limit, shapes,
 * buckets): of a path or a Blob. */
static PyObject *load(PyObject *type, PyObject *args)
{
    (void)type;
    PyObject *plan;
    int device, check;
    const char *key;
    Py_ssize_t key_size;
    unsigned long long memory_limit;
    unsigned long long run_memory_limit;
    Py_ssize_t shapes;
    PyObject *buckets;
    hyp_engine_options options = {.size = sizeof options};
    hyp_context_options context = {.size = sizeof context};
    if (!PyArg_ParseTuple(args, "OiiipKzz#zKdnO:load", &plan, &device, &options.device_index, &options.threads, &check,
                          &memory_limit, &options.cpu_level, &key, &key_size, &options.processors, &run_memory_limit,
                          &context.work_limit, &shapes, &buckets))
        return NULL;
    if (shapes < 0) return PyErr_SetString(PyExc_ValueError, "shapes is below 0"), NULL;
    context.memory_limit = run_memory_limit;
    context.shapes = (size_t)shapes;
    options.device = (hyp_device_kind)device;
    options.checks = check ? HYP_CHECKS_STRICT : HYP_CHECKS_OFF;
    options.memory_limit = memory_limit;
    options.require_signature = (const unsigned char *)key;
    blob_object *blob = Py_TYPE(plan) == blob_type ? (blob_object *)plan : NULL;
    PyObject *path = NULL;
    if (!blob && !PyUnicode_FSConverter(plan, &path)) return NULL;
    if (blob) {
        __atomic_add_fetch(&blob->bytes->users, 1, __ATOMIC_RELAXED);
        options.release = blob_drop;
        options.release_user = blob->bytes;
    }
    hyp_engine *engine = NULL;
    hyp_diag diag = {0};
    hyp_status status;
    const char *file = path ? PyBytes_AsString(path) : NULL;
    Py_BEGIN_ALLOW_THREADS
        status = blob ? hyp_engine_load_memory(blob->bytes->data, blob->bytes->size, &options, &engine, &diag)
                      : hyp_engine_load_file(file, &options, &engine, &diag);
    Py_END_ALLOW_THREADS
    Py_XDECREF(path);
    if (status == HYP_OK) {
        engine_object *self = wrap(engine, blob ? plan : NULL, options.device_index);
        if (self && set_contexts(self, &context, buckets) < 0) Py_CLEAR(self);
        return (PyObject *)self;
    }
    if (blob) blob_drop(blob->bytes);
    return native_raise(status, diag.message);
}

static void engine_dealloc(PyObject *object)
{
    engine_object *self = (engine_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    engine_box *box = self->box;
    Py_BEGIN_ALLOW_THREADS /* work under way is waited for */
        for (size_t i = 0; i < self->idle_count; i++) hyp_context_destroy(self->idle[i]);
        engine_box_drop(box);
    Py_END_ALLOW_THREADS
    free(self->idle);
    free(self->busy);
    PyMem_Free(self->bucket_sizes);
    Py_XDECREF(self->buckets);
    if (self->turn) PyThread_free_lock(self->turn);
    Py_XDECREF(self->blob);
    Py_XDECREF(self->input_names);
    Py_XDECREF(self->output_names);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ---- questions ------------------------------------------------------------------------------------------- */

/* (name, dtype, (size or name of one, ...)) */
static PyObject *describe_io(const hyp_io_info *info)
{
    PyObject *dims = PyTuple_New(info->rank);
    for (int32_t i = 0; dims && i < info->rank; i++) {
        PyObject *dim = info->dims[i] >= 0 ? PyLong_FromLongLong(info->dims[i]) : native_text(info->symbols[i]);
        if (!dim || PyTuple_SetItem(dims, i, dim) < 0) Py_CLEAR(dims);
    }
    PyObject *name = dims ? native_text(info->name) : NULL;
    PyObject *row = name ? Py_BuildValue("(OsO)", name, hyp_dtype_name(info->dtype), dims) : NULL;
    Py_XDECREF(name);
    Py_XDECREF(dims);
    return row;
}

static PyObject *describe_all(PyObject *self, size_t (*count)(const hyp_engine *),
                              const hyp_io_info *(*info)(const hyp_engine *, size_t))
{
    const hyp_engine *engine = ((engine_object *)self)->box->engine;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count(engine); i++) {
        PyObject *row = describe_io(info(engine, i));
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *engine_inputs(PyObject *self, void *unused)
{
    (void)unused;
    return describe_all(self, hyp_engine_input_count, hyp_engine_input);
}

static PyObject *engine_outputs(PyObject *self, void *unused)
{
    (void)unused;
    return describe_all(self, hyp_engine_output_count, hyp_engine_output);
}

static PyObject *engine_weights(PyObject *self, void *unused)
{
    (void)unused;
    return describe_all(self, hyp_engine_weight_count, hyp_engine_weight);
}

static PyObject *engine_variables(PyObject *self, void *unused)
{
    (void)unused;
    return describe_all(self, hyp_engine_variable_count, hyp_engine_variable);
}

static PyObject *engine_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(hyp_engine_device(((engine_object *)self)->box->engine));
}

static PyObject *engine_device_name(PyObject *self, void *unused)
{
    (void)unused;
    return native_text(hyp_engine_device_name(((engine_object *)self)->box->engine));
}

static PyObject *engine_precision(PyObject *self, void *unused)
{
    (void)unused;
    return native_text(hyp_engine_precision(((engine_object *)self)->box->engine));
}

static PyObject *engine_predicted(PyObject *self, void *unused)
{
    (void)unused;
    return PyFloat_FromDouble(hyp_engine_predicted_seconds(((engine_object *)self)->box->engine));
}

static PyObject *engine_model_hash(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(hyp_engine_model_hash(((engine_object *)self)->box->engine));
}

static PyObject *engine_memory(PyObject *self, void *unused)
{
    (void)unused;
    const engine_object *engine = (const engine_object *)self;
    size_t bytes = hyp_engine_memory_bytes(engine->box->engine);
    for (size_t i = 0; i < engine->idle_count; i++) bytes += hyp_context_memory_bytes(engine->idle[i]);
    return PyLong_FromSize_t(bytes);
}

static PyObject *engine_blob(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *blob = ((engine_object *)self)->blob ? ((engine_object *)self)->blob : Py_None;
    Py_INCREF(blob);
    return blob;
}

/* ---- what takes its time --------------------------------------------------------------------------------- */

static PyObject *engine_save(PyObject *self, PyObject *args)
{
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&:save", PyUnicode_FSConverter, &path)) return NULL;
    hyp_context *context = engine_take_context((engine_object *)self);
    if (!context) {
        Py_DECREF(path);
        return NULL;
    }
    hyp_diag diag = {0};
    hyp_status status;
    const char *file = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
        status = hyp_context_save_plan(context, file, &diag);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    engine_give_context((engine_object *)self, context);
    if (status != HYP_OK) return native_raise(status, diag.message);
    Py_RETURN_NONE;
}

/* Takes the context that no call uses for longest; NULL where there is none. */
static hyp_context *take_oldest(engine_object *self)
{
    if (!self->idle_count) return NULL;
    hyp_context *oldest = self->idle[0];
    memmove(self->idle, self->idle + 1, (self->idle_count - 1) * sizeof *self->idle);
    self->idle[self->idle_count - 1] = oldest;
    return engine_take_context(self);
}

/* Waits for the work of all contexts that no call uses. */
static PyObject *engine_synchronize(PyObject *object, PyObject *unused)
{
    (void)unused;
    engine_object *self = (engine_object *)object;
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    for (size_t left = self->one_context ? 1 : self->idle_count; left > 0 && status == HYP_OK; left--) {
        hyp_context *context = self->one_context ? engine_take_context(self) : take_oldest(self);
        if (!context) return PyErr_Occurred() ? NULL : Py_BuildValue(""); /* other threads have taken them */
        Py_BEGIN_ALLOW_THREADS
            status = hyp_context_synchronize(context, &diag);
        Py_END_ALLOW_THREADS
        engine_give_context(self, context);
    }
    if (status != HYP_OK) return native_raise(status, diag.message);
    Py_RETURN_NONE;
}

/* Ends the runs of all calls that are under way. */
static PyObject *engine_cancel(PyObject *object, PyObject *unused)
{
    (void)unused;
    engine_object *self = (engine_object *)object;
    self->cancels++;
    for (size_t i = 0; i < self->busy_count; i++) hyp_context_cancel(self->busy[i]);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"load", load, METH_VARARGS | METH_STATIC,
     "load(plan, device, index, threads, check, memory_limit, cpu_level, key, processors, run_memory_limit, work_limit, "
     "shapes, buckets)"},
    {"cancel", engine_cancel, METH_NOARGS, "Ends the runs that are under way."},
    {"call", engine_call, METH_VARARGS, "call(args, kwargs, stream, as_dict): runs the plan."},
    {"save", engine_save, METH_VARARGS, "save(path): writes the plan, with what tuning found."},
    {"synchronize", engine_synchronize, METH_NOARGS, "Waits for all runs that have been queued."},
    {"golden", engine_golden, METH_NOARGS, "golden(): the runs that the plan keeps."},
    {"expect", engine_expect, METH_VARARGS,
     "expect(model, any, inputs): what the model gives, and how far a plan may be from it."},
    {"draw", engine_draw, METH_VARARGS, "draw(dims, seed): an array for each input."},
    {"update", engine_update, METH_VARARGS, "update(weights)"},
    {"tune", engine_tune, METH_VARARGS, "tune(dims, seconds)"},
    {"to_device", engine_to_device, METH_VARARGS, "to_device(array): a Tensor in the device's memory."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef attributes[] = {
    {"inputs", engine_inputs, NULL, NULL, NULL},
    {"outputs", engine_outputs, NULL, NULL, NULL},
    {"weights", engine_weights, NULL, NULL, NULL},
    {"variables", engine_variables, NULL, NULL, NULL},
    {"device", engine_device, NULL, NULL, NULL},
    {"device_name", engine_device_name, NULL, NULL, NULL},
    {"precision", engine_precision, NULL, NULL, NULL},
    {"predicted_seconds", engine_predicted, NULL, NULL, NULL},
    {"model_hash", engine_model_hash, NULL, NULL, NULL},
    {"memory_bytes", engine_memory, NULL, NULL, NULL},
    {"blob", engine_blob, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A plan that is loaded."},
    {Py_tp_dealloc, engine_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};
static PyType_Spec spec = {"hypatia._native.Engine", sizeof(engine_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int engine_init(PyObject *module) { return native_add_type(module, &spec, &engine_type); }
