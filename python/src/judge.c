/* judge.c - what a plan is compared with: results that it keeps, and its model in the reference interpreter; also
 * tuning, and inputs that are drawn. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "hypatia/compiler.h"
#include "hypatia/tensor_io.h"

/* A new array of NumPy with the elements of a tensor of the host's; NULL with an exception set. */
static PyObject *to_numpy(const hyp_tensor *t)
{
    array_view view;
    PyObject *array = arrays_numpy(t, &view);
    if (!array) return NULL;
    if (t->data && view.tensor.bytes) memcpy(view.tensor.data, t->data, view.tensor.bytes);
    arrays_drop(&view);
    return array;
}

/* ---- what a plan keeps ----------------------------------------------------------------------------------- */

static PyObject *golden_input(const hyp_engine *engine, size_t run, size_t i)
{
    hyp_golden_input in = hyp_engine_golden_input(engine, run, i);
    array_view view;
    if (in.tensor.data) return to_numpy(&in.tensor);
    PyObject *array = arrays_numpy(&in.tensor, &view);
    if (!array) return NULL;
    hyp_tensor_draw(&view.tensor, (hyp_draw)in.how, in.seed, in.low, in.high);
    arrays_drop(&view);
    return array;
}

/* (dims of the whole, stride, elements that are kept, their tolerances) */
static PyObject *golden_output(const hyp_engine *engine, size_t run, size_t i)
{
    hyp_golden_output out = hyp_engine_golden_output(engine, run, i);
    hyp_tensor kept = {.dtype = out.tensor.dtype, .rank = 1, .dims = {(int64_t)out.kept}, .data = out.tensor.data};
    hyp_tensor like = {.dtype = HYP_F64, .rank = 1, .dims = {(int64_t)out.kept}};
    array_view view;
    PyObject *elements = to_numpy(&kept), *row = NULL;
    PyObject *tolerances = elements ? arrays_numpy(&like, &view) : NULL;
    PyObject *dims = tolerances ? arrays_dims(&out.tensor) : NULL;
    if (tolerances) {
        for (size_t k = 0; k < out.kept; k++)
            ((double *)view.tensor.data)[k] = hyp_engine_golden_tolerance(engine, run, i, k);
        arrays_drop(&view);
    }
    if (dims) row = Py_BuildValue("(OKOO)", dims, (unsigned long long)out.stride, elements, tolerances);
    Py_XDECREF(dims);
    Py_XDECREF(tolerances);
    Py_XDECREF(elements);
    return row;
}

static PyObject *golden_list(const hyp_engine *engine, size_t run, size_t count,
                             PyObject *(*one)(const hyp_engine *, size_t, size_t))
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < count; i++) {
        PyObject *row = one(engine, run, i);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* golden(): [([input], [output])] of the runs that the plan keeps. */
PyObject *engine_golden(PyObject *self, PyObject *unused)
{
    (void)unused;
    const hyp_engine *engine = ((engine_object *)self)->box->engine;
    PyObject *runs = PyList_New(0);
    for (size_t r = 0; runs && r < hyp_engine_golden_count(engine); r++) {
        PyObject *inputs = golden_list(engine, r, hyp_engine_input_count(engine), golden_input);
        PyObject *outputs = inputs ? golden_list(engine, r, hyp_engine_output_count(engine), golden_output) : NULL;
        PyObject *run = outputs ? Py_BuildValue("(OO)", inputs, outputs) : NULL;
        if (!run || PyList_Append(runs, run) < 0) Py_CLEAR(runs);
        Py_XDECREF(run);
        Py_XDECREF(outputs);
        Py_XDECREF(inputs);
    }
    return runs;
}

/* ---- the model ------------------------------------------------------------------------------------------- */

/* {name: array} as tensors whose names the dict has; views has as many. -1 with an exception set. */
static int read_inputs(PyObject *dict, hyp_tensor *tensors, array_view *views)
{
    PyObject *name, *array;
    Py_ssize_t place = 0;
    for (size_t i = 0; PyDict_Next(dict, &place, &name, &array); i++) {
        const array_kind *kind;
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!text || arrays_kind(array, &kind) < 0) return -1;
        if (!kind) {
            PyErr_Format(PyExc_TypeError, "'%s' is to be an array", text);
            return -1;
        }
        if (arrays_view(array, kind, NULL, text, &views[i]) < 0) return -1;
        tensors[i] = views[i].tensor;
        tensors[i].name = text;
        if (tensors[i].memory != HYP_MEMORY_HOST) {
            PyErr_Format(PyExc_ValueError, "'%s' is on a GPU; this reads the host's memory", text);
            return -1;
        }
    }
    return 0;
}

static void dispose(hyp_tensor *tensors, size_t count)
{
    for (size_t i = 0; tensors && i < count; i++) hyp_tensor_dispose(&tensors[i]);
    free(tensors);
}

/* {name: (values, tolerances)}; frees both. */
static PyObject *tell_expected(hyp_tensor *values, hyp_tensor *tolerances, size_t count)
{
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < count; i++) {
        PyObject *value = to_numpy(&values[i]), *tolerance = value ? to_numpy(&tolerances[i]) : NULL;
        PyObject *pair = tolerance ? Py_BuildValue("(OO)", value, tolerance) : NULL;
        if (!pair || PyDict_SetItemString(dict, values[i].name, pair) < 0) Py_CLEAR(dict);
        Py_XDECREF(pair);
        Py_XDECREF(tolerance);
        Py_XDECREF(value);
    }
    dispose(values, count);
    dispose(tolerances, count);
    return dict;
}

/* The part of `expect` without Python's lock. */
static hyp_status run_model(const engine_object *engine, const char *path, bool any, const hyp_tensor *inputs,
                            size_t count, hyp_tensor **values, hyp_tensor **tolerances, size_t *out_count,
                            hyp_diag *diag)
{
    hyp_reference *model = NULL;
    hyp_status status = hyp_reference_open(path, &model, diag);
    uint64_t hash = hyp_engine_model_hash(engine->box->engine);
    if (status == HYP_OK && !any && hash && hash != hyp_reference_hash(model)) {
        snprintf(diag->message, sizeof diag->message,
                 "the plan was not compiled from this model: its own had the hash %016llx, this one has "
                 "%016llx; any_model=True compares all the same",
                 (unsigned long long)hash, (unsigned long long)hyp_reference_hash(model));
        status = HYP_ERR_INVALID_ARGUMENT;
    }
    if (status == HYP_OK)
        status = hyp_reference_expect(model, hyp_engine_precision(engine->box->engine),
                                      hyp_engine_classes(engine->box->engine), inputs, count, values, tolerances,
                                      out_count, diag);
    hyp_reference_close(model);
    return status;
}

/* expect(path of the model, any, {name: array}): {name: (values, tolerances)} for a plan of this precision, by these
 * rules. */
PyObject *engine_expect(PyObject *self, PyObject *args)
{
    PyObject *path, *dict, *said = NULL;
    int any;
    if (!PyArg_ParseTuple(args, "O&pO!:expect", PyUnicode_FSConverter, &path, &any, &PyDict_Type, &dict)) return NULL;
    size_t count = (size_t)PyDict_Size(dict), out_count = 0;
    hyp_tensor *inputs = PyMem_Calloc(count + 1, sizeof *inputs), *values = NULL, *tolerances = NULL;
    array_view *views = PyMem_Calloc(count + 1, sizeof *views);
    if (!inputs || !views) {
        PyErr_NoMemory();
    } else if (read_inputs(dict, inputs, views) == 0) {
        hyp_diag diag = {0};
        hyp_status status;
        const char *file = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS
            status =
                run_model((engine_object *)self, file, any, inputs, count, &values, &tolerances, &out_count, &diag);
        Py_END_ALLOW_THREADS
        said = status == HYP_OK ? tell_expected(values, tolerances, out_count) : native_raise(status, diag.message);
    }
    for (size_t i = 0; views && i < count; i++) arrays_drop(&views[i]);
    PyMem_Free(views);
    PyMem_Free(inputs);
    Py_DECREF(path);
    return said;
}

/* judge(actual, expected, tolerances): (elements, undecided, outside, mean, largest, where, the worst: where,
 * difference, allowed) */
static PyObject *judge(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *given[3], *said = NULL;
    array_view views[3] = {0};
    const array_kind *kind;
    int failed = !PyArg_ParseTuple(args, "OOO:judge", &given[0], &given[1], &given[2]);
    for (int i = 0; i < 3 && !failed; i++) {
        failed = arrays_kind(given[i], &kind) < 0 || !kind || arrays_view(given[i], kind, NULL, "array", &views[i]) < 0;
        if (failed && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "wanted three arrays");
    }
    if (!failed) {
        hyp_judgement j = {.size = sizeof j};
        hyp_diag diag = {0};
        hyp_status status = hyp_tensor_judge(&views[0].tensor, &views[1].tensor, &views[2].tensor, &j, &diag);
        said = status == HYP_OK ? Py_BuildValue("(LLLddLLdd)", (long long)j.elements, (long long)j.undecided,
                                                (long long)j.outside, j.mean_abs, j.max_abs, (long long)j.max_abs_at,
                                                (long long)j.worst_at, j.worst_abs, j.worst_allowed)
                                : native_raise(status, diag.message);
    }
    for (int i = 0; i < 3; i++) arrays_drop(&views[i]);
    return said;
}

/* ---- inputs, weights, tuning ----------------------------------------------------------------------------- */

/* Dims of all inputs for sizes of symbols; PyMem_Free(*out). -1 with an exception set. */
static int complete(const engine_object *self, PyObject *dict, hyp_tensor **out)
{
    const hyp_engine *engine = self->box->engine;
    size_t count = hyp_engine_input_count(engine), size_count;
    hyp_tensor *sizes;
    if (native_sizes(dict, &sizes, &size_count) < 0) return -1;
    hyp_tensor *inputs = PyMem_Calloc(count + 1, sizeof *inputs);
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    const char *missing = NULL;
    for (size_t i = 0; inputs && i < size_count && status == HYP_OK; i++)
        status = hyp_engine_find_symbol(engine, sizes[i].name, &diag);
    for (size_t i = 0; inputs && i < count; i++) {
        const hyp_io_info *info = hyp_engine_input(engine, i);
        inputs[i].name = info->name;
        inputs[i].dtype = info->dtype;
        inputs[i].rank = info->rank;
        memcpy(inputs[i].dims, info->dims, sizeof info->dims);
    }
    if (inputs && status == HYP_OK)
        status = hyp_engine_complete_dims(engine, inputs, count, sizes, size_count, &missing, &diag);
    if (missing) {
        snprintf(diag.message, sizeof diag.message, "the size '%s' is open: give it in dims", missing);
        status = HYP_ERR_INVALID_ARGUMENT;
    }
    PyMem_Free(sizes);
    *out = inputs;
    if (inputs && status == HYP_OK) return 0;
    PyMem_Free(inputs);
    if (status == HYP_OK)
        PyErr_NoMemory();
    else
        native_raise(status, diag.message);
    return -1;
}

/* draw(dims, seed): an array for each input. */
PyObject *engine_draw(PyObject *object, PyObject *args)
{
    engine_object *self = (engine_object *)object;
    PyObject *dims;
    unsigned long long seed;
    hyp_tensor *inputs;
    if (!PyArg_ParseTuple(args, "O!K:draw", &PyDict_Type, &dims, &seed) || complete(self, dims, &inputs) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < hyp_engine_input_count(self->box->engine); i++) {
        array_view view;
        PyObject *array = arrays_numpy(&inputs[i], &view);
        if (array) {
            hyp_tensor_randomize(&view.tensor, seed + i);
            arrays_drop(&view);
        }
        if (!array || PyList_Append(list, array) < 0) Py_CLEAR(list);
        Py_XDECREF(array);
    }
    PyMem_Free(inputs);
    return list;
}

/* update({name: array}) */
PyObject *engine_update(PyObject *self, PyObject *args)
{
    PyObject *dict;
    if (!PyArg_ParseTuple(args, "O!:update", &PyDict_Type, &dict)) return NULL;
    size_t count = (size_t)PyDict_Size(dict);
    hyp_tensor *tensors = PyMem_Calloc(count + 1, sizeof *tensors);
    array_view *views = PyMem_Calloc(count + 1, sizeof *views);
    hyp_diag diag = {0};
    hyp_status status = HYP_ERR_NO_MEMORY;
    bool read = tensors && views && read_inputs(dict, tensors, views) == 0;
    if (read) {
        Py_BEGIN_ALLOW_THREADS
            status = hyp_engine_update(((engine_object *)self)->box->engine, tensors, count, &diag);
        Py_END_ALLOW_THREADS
    }
    for (size_t i = 0; views && i < count; i++) arrays_drop(&views[i]);
    PyMem_Free(views);
    PyMem_Free(tensors);
    if (read && status == HYP_OK) Py_RETURN_NONE;
    return PyErr_Occurred() ? NULL : native_raise(status, diag.message);
}

/* tune(dims, seconds): (products, known, timed, replaced, seconds of a run, of one untuned) */
PyObject *engine_tune(PyObject *object, PyObject *args)
{
    engine_object *self = (engine_object *)object;
    PyObject *dims;
    hyp_tensor *inputs;
    hyp_tune_options options = {.size = sizeof options};
    hyp_tune_report report = {.size = sizeof report};
    if (!PyArg_ParseTuple(args, "O!d:tune", &PyDict_Type, &dims, &options.seconds) || complete(self, dims, &inputs) < 0)
        return NULL;
    hyp_context *context = engine_take_context(self);
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    if (context) {
        Py_BEGIN_ALLOW_THREADS
            status =
                hyp_context_tune(context, inputs, hyp_engine_input_count(self->box->engine), &options, &report, &diag);
            if (status == HYP_OK) status = hyp_context_share_tuning(context, &diag);
        Py_END_ALLOW_THREADS
        if (status == HYP_OK && !self->one_context) engine_forget_contexts(self); /* new ones take what was shared */
        engine_give_context(self, context);
    }
    PyMem_Free(inputs);
    if (!context) return NULL;
    if (status != HYP_OK) return native_raise(status, diag.message);
    return Py_BuildValue("(nnnndd)", (Py_ssize_t)report.products, (Py_ssize_t)report.known, (Py_ssize_t)report.timed,
                         (Py_ssize_t)report.replaced, report.run_seconds, report.untuned_run_seconds);
}

static PyMethodDef functions[] = {
    {"judge", judge, METH_VARARGS, "judge(actual, expected, tolerances)"},
    {NULL, NULL, 0, NULL},
};

int judge_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
