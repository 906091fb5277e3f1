/* compile.c - from a model to a plan. Options come as a dict whose names are those of the fields of
 * hyp_compile_options. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "hypatia/onnx.h"

/* ---- options --------------------------------------------------------------------------------------------- */

typedef enum option_kind { TEXT, TEXTS, SIZES, TENSORS, SHAPES, SAMPLES, FLAG, INT32, SIZE, INT64, REAL } option_kind;
typedef struct option {
    const char *name;
    option_kind kind;
    size_t at, count_at; /* of the field, and of that which counts it */
    size_t values_at;    /* SIZES: of the values, whose names are at `at` */
} option;

#define AT(field) offsetof(hyp_compile_options, field)
#define ONE(field, kind)                                                                                               \
    {                                                                                                                  \
#field, kind, AT(field), 0, 0                                                                                  \
    }
static const option options[] = {
    ONE(target, TEXT),
    ONE(precision, TEXT),
    ONE(profile, TEXT),
    ONE(verify, TEXT),
    ONE(explain, TEXT),
    ONE(why_not, TEXT),
    ONE(why_not_node, TEXT),
    ONE(reduced, TEXT),
    ONE(emit_onnx, TEXT),
    ONE(emit_onnx_domain, TEXT),
    ONE(threads, INT32),
    ONE(max_iterations, SIZE),
    ONE(max_nodes, SIZE),
    ONE(max_fold_bytes, SIZE),
    ONE(max_fold_flops, SIZE),
    ONE(memory_budget, SIZE),
    ONE(max_seconds, REAL),
    ONE(golden_bytes, INT64),
    ONE(loop_limit, INT64),
    ONE(no_builtin_rules, FLAG),
    ONE(allow_approximate, FLAG),
    ONE(no_rewrite, FLAG),
    ONE(no_record, FLAG),
    ONE(write_loops, FLAG),
    {"rule_files", TEXTS, AT(rule_files), AT(rule_file_count), 0},
    {"disabled_rules", TEXTS, AT(disabled_rules), AT(disabled_rule_count), 0},
    {"only_rules", TEXTS, AT(only_rules), AT(only_rule_count), 0},
    {"flags", TEXTS, AT(flags), AT(flag_count), 0},
    {"updatable", TEXTS, AT(updatable), AT(updatable_count), 0},
    {"dims", SIZES, AT(dim_names), AT(dim_count), AT(dim_values)},
    {"typical", SIZES, AT(typical_names), AT(typical_count), AT(typical_values)},
    {"shapes", SHAPES, AT(shapes), AT(shape_count), 0},
    {"bound", TENSORS, AT(bound), AT(bound_count), 0},
    {"samples", SAMPLES, AT(samples), AT(samples_count), 0},
};

/* A call of compile: everything that it took is given back at its end. */
typedef struct memory_block {
    struct memory_block *next;
} memory_block;
typedef struct view_block {
    struct view_block *next;
    array_view view;
} view_block;
typedef struct compilation {
    hyp_compile_options options;
    hyp_engine_options engine; /* that the plan is verified with */
    memory_block *memory;
    view_block *views;
    PyObject *warnings;
    PyObject *progress; /* NULL: nobody is told */
    volatile sig_atomic_t stop;
    PyObject *type, *value, *trace; /* of what a callback has raised */
} compilation;

static void *take(compilation *c, size_t count, size_t size)
{
    memory_block *block = calloc(1, sizeof *block + (count + 1) * size); /* counts are those of Python's lists */
    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    block->next = c->memory;
    c->memory = block;
    return block + 1;
}

static void *field(compilation *c, size_t at) { return (char *)&c->options + at; }

/* A copy of a text, or of a path. NULL with an exception set. */
static const char *take_text(compilation *c, PyObject *object)
{
    PyObject *path;
    if (!PyUnicode_FSConverter(object, &path)) return NULL;
    size_t length = (size_t)PyBytes_Size(path);
    char *text = take(c, length, 1);
    if (text) memcpy(text, PyBytes_AsString(path), length);
    Py_DECREF(path);
    return text;
}

static int read_texts(compilation *c, const option *o, PyObject *list)
{
    Py_ssize_t count = PySequence_Size(list);
    const char **texts = count < 0 ? NULL : take(c, (size_t)count, sizeof *texts);
    for (Py_ssize_t i = 0; texts && i < count; i++) {
        PyObject *text = PySequence_GetItem(list, i);
        texts[i] = text ? take_text(c, text) : NULL;
        Py_XDECREF(text);
        if (!texts[i]) return -1;
    }
    if (!texts) return -1;
    memcpy(field(c, o->at), &texts, sizeof texts);
    memcpy(field(c, o->count_at), &(size_t){(size_t)count}, sizeof(size_t));
    return 0;
}

static int read_sizes(compilation *c, const option *o, PyObject *dict)
{
    size_t count = (size_t)PyDict_Size(dict), i = 0;
    const char **names = take(c, count, sizeof *names);
    int64_t *values = names ? take(c, count, sizeof *values) : NULL;
    PyObject *name, *value;
    Py_ssize_t place = 0;
    while (values && PyDict_Next(dict, &place, &name, &value)) {
        names[i] = take_text(c, name);
        values[i++] = PyLong_AsLongLong(value);
        if (PyErr_Occurred()) return -1;
    }
    if (!values) return -1;
    memcpy(field(c, o->at), &names, sizeof names);
    memcpy(field(c, o->values_at), &values, sizeof values);
    memcpy(field(c, o->count_at), &count, sizeof count);
    return 0;
}

/* {name: dims}, -1 where they are as declared. */
static int read_shape(PyObject *dims, hyp_tensor *t)
{
    Py_ssize_t rank = PySequence_Size(dims);
    if (rank > HYP_MAX_RANK) PyErr_SetString(PyExc_ValueError, "a shape of more than 8 axes");
    if (rank < 0 || rank > HYP_MAX_RANK) return -1;
    t->rank = (int32_t)rank;
    for (Py_ssize_t i = 0; i < rank; i++) {
        PyObject *dim = PySequence_GetItem(dims, i);
        t->dims[i] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

static int view_tensor(compilation *c, PyObject *array, hyp_tensor *t)
{
    const array_kind *kind;
    view_block *block = calloc(1, sizeof *block);
    if (!block) {
        PyErr_NoMemory();
        return -1;
    }
    if (arrays_kind(array, &kind) < 0 || !kind || arrays_view(array, kind, NULL, t->name, &block->view) < 0) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "'%s' is to be an array", t->name);
        free(block);
        return -1;
    }
    block->next = c->views;
    c->views = block;
    const char *name = t->name;
    *t = block->view.tensor;
    t->name = name;
    if (t->memory == HYP_MEMORY_HOST) return 0;
    PyErr_Format(PyExc_ValueError, "'%s' is on a GPU, and the compiler reads the host's memory", name);
    return -1;
}

/* {name: array} or {name: dims} */
static hyp_tensor *read_named(compilation *c, PyObject *dict, bool arrays, size_t *out_count)
{
    hyp_tensor *tensors = take(c, (size_t)PyDict_Size(dict), sizeof *tensors);
    PyObject *name, *value;
    Py_ssize_t place = 0;
    *out_count = 0;
    while (tensors && PyDict_Next(dict, &place, &name, &value)) {
        hyp_tensor *t = &tensors[(*out_count)++];
        t->name = take_text(c, name);
        if (!t->name || (arrays ? view_tensor(c, value, t) : read_shape(value, t)) < 0) return NULL;
    }
    return tensors;
}

static int read_tensors(compilation *c, const option *o, PyObject *dict)
{
    size_t count;
    hyp_tensor *tensors = read_named(c, dict, o->kind == TENSORS, &count);
    if (!tensors) return -1;
    memcpy(field(c, o->at), &tensors, sizeof tensors);
    memcpy(field(c, o->count_at), &count, sizeof count);
    return 0;
}

/* [{name: array}] */
static int read_samples(compilation *c, const option *o, PyObject *list)
{
    size_t count = (size_t)PyList_Size(list);
    hyp_samples *samples = take(c, count, sizeof *samples);
    for (size_t i = 0; samples && i < count; i++)
        if (!(samples[i].tensors = read_named(c, PyList_GetItem(list, (Py_ssize_t)i), true, &samples[i].count)))
            return -1;
    if (!samples) return -1;
    memcpy(field(c, o->at), &samples, sizeof samples);
    memcpy(field(c, o->count_at), &count, sizeof count);
    return 0;
}

static int read_int32(PyObject *value, int32_t *out)
{
    long long n = PyLong_AsLongLong(value);
    if (!PyErr_Occurred() && n != (int32_t)n)
        PyErr_SetString(PyExc_OverflowError, "the number does not fit into 32 bits");
    if (!PyErr_Occurred()) *out = (int32_t)n;
    return PyErr_Occurred() ? -1 : 0;
}

static int read_option(compilation *c, const option *o, PyObject *value)
{
    void *to = field(c, o->at);
    switch (o->kind) {
    case TEXT: *(const char **)to = take_text(c, value); break;
    case TEXTS: return read_texts(c, o, value);
    case SIZES: return read_sizes(c, o, value);
    case TENSORS:
    case SHAPES: return read_tensors(c, o, value);
    case SAMPLES: return read_samples(c, o, value);
    case FLAG: *(bool *)to = PyObject_IsTrue(value) > 0; break;
    case INT32: return read_int32(value, to);
    case SIZE: *(size_t *)to = PyLong_AsSize_t(value); break;
    case INT64: *(int64_t *)to = PyLong_AsLongLong(value); break;
    case REAL: *(double *)to = PyFloat_AsDouble(value); break;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static int read_options(compilation *c, PyObject *dict)
{
    PyObject *name, *value;
    Py_ssize_t place = 0;
    while (PyDict_Next(dict, &place, &name, &value)) {
        size_t i = 0, count = sizeof options / sizeof *options;
        while (i < count && PyUnicode_CompareWithASCIIString(name, options[i].name) != 0) i++;
        if (i == count) {
            PyErr_Format(PyExc_TypeError, "the compiler has no option %R", name);
            return -1;
        }
        if (value != Py_None && read_option(c, &options[i], value) < 0) return -1;
    }
    return 0;
}

/* ---- what the compiler tells meanwhile ------------------------------------------------------------------- */

static void fail_later(compilation *c)
{
    if (c->type)
        PyErr_Clear();
    else
        PyErr_Fetch(&c->type, &c->value, &c->trace);
    c->stop = 1;
}

static void on_warning(const char *text, size_t len, void *user)
{
    compilation *c = user;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *line = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "backslashreplace");
    if (!line || PyList_Append(c->warnings, line) < 0) fail_later(c);
    Py_XDECREF(line);
    PyGILState_Release(state);
}

/* Also the place where Ctrl-C is seen. */
static void on_progress(const hyp_compile_progress *p, void *user)
{
    compilation *c = user;
    if (c->stop) return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *said = NULL;
    if (PyErr_CheckSignals() < 0) {
        fail_later(c);
    } else if (c->progress) {
        said = PyObject_CallFunction(c->progress, "snndKKd", p->phase, (Py_ssize_t)p->iteration, (Py_ssize_t)p->e_nodes,
                                     p->best, (unsigned long long)p->done, (unsigned long long)p->total, p->seconds);
        if (!said) fail_later(c);
    }
    Py_XDECREF(said);
    PyGILState_Release(state);
}

/* ---- the report ------------------------------------------------------------------------------------------ */

typedef struct result_field {
    const char *name;
    option_kind kind;
    size_t at;
} result_field;
#define SAID(field, kind)                                                                                              \
    {                                                                                                                  \
#field, kind, offsetof(hyp_compile_report, field)                                                              \
    }
static const result_field results[] = {
    SAID(nodes_imported, SIZE),
    SAID(nodes_before, SIZE),
    SAID(nodes_after, SIZE),
    SAID(e_nodes, SIZE),
    SAID(e_classes, SIZE),
    SAID(iterations, SIZE),
    SAID(stop_reason, TEXT),
    SAID(cut, TEXT),
    SAID(proven, FLAG),
    SAID(cost_before, REAL),
    SAID(cost_after, REAL),
    SAID(plan_seconds, REAL),
    SAID(import_seconds, REAL),
    SAID(rewrite_seconds, REAL),
    SAID(lower_seconds, REAL),
    SAID(write_seconds, REAL),
    SAID(plan_steps, SIZE),
    SAID(plan_bytes, INT64),
    SAID(answer, TEXT),
    SAID(steps, TEXT),
    SAID(verified, TEXT),
    SAID(wrong, FLAG),
    SAID(verify_seconds, REAL),
    SAID(layers, TEXT),
    SAID(gap, REAL),
    SAID(prices, TEXT),
    SAID(scratch_bytes, SIZE),
    SAID(recomputed, SIZE),
    SAID(run, TEXT),
};

static PyObject *read_result(const hyp_compile_report *report, const result_field *f)
{
    const void *from = (const char *)report + f->at;
    switch (f->kind) {
    case TEXT: return native_text(*(const char *const *)from);
    case FLAG: return PyBool_FromLong(*(const bool *)from);
    case SIZE: return PyLong_FromSize_t(*(const size_t *)from);
    case INT64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)from);
    default: return PyFloat_FromDouble(*(const double *)from);
    }
}

/* [{name, ruleset, numeric_class, doc, matches, applications, used}] */
static PyObject *rules_of(const hyp_compile_report *report)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < report->rule_count; i++) {
        const hyp_compile_rule_use *u = report->rules[i];
        PyObject *row =
            Py_BuildValue("{s:s,s:s,s:s,s:s,s:n,s:n,s:n}", "name", u->name, "ruleset", u->ruleset, "numeric_class",
                          u->numeric_class, "doc", u->doc, "matches", (Py_ssize_t)u->matches, "applications",
                          (Py_ssize_t)u->applications, "used", (Py_ssize_t)u->used);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *tell(const hyp_compile_report *report)
{
    PyObject *dict = PyDict_New(), *rules = dict ? rules_of(report) : NULL;
    if (!rules || PyDict_SetItemString(dict, "rules", rules) < 0) Py_CLEAR(dict);
    Py_XDECREF(rules);
    for (size_t i = 0; dict && i < sizeof results / sizeof *results; i++) {
        PyObject *value = read_result(report, &results[i]);
        if (!value || PyDict_SetItemString(dict, results[i].name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- the calls ------------------------------------------------------------------------------------------- */

static void end(compilation *c)
{
    while (c->memory) {
        memory_block *next = c->memory->next;
        free(c->memory);
        c->memory = next;
    }
    while (c->views) {
        view_block *next = c->views->next;
        arrays_drop(&c->views->view);
        free(c->views);
        c->views = next;
    }
    Py_XDECREF(c->warnings);
    Py_XDECREF(c->type);
    Py_XDECREF(c->value);
    Py_XDECREF(c->trace);
}

static int begin(compilation *c, PyObject *dict, PyObject *progress, int threads)
{
    c->options.size = sizeof c->options;
    c->engine = (hyp_engine_options){.size = sizeof c->engine, .device = HYP_DEVICE_CPU, .threads = threads};
    c->warnings = PyList_New(0);
    if (!c->warnings || read_options(c, dict) < 0) return -1;
    c->progress = progress == Py_None ? NULL : progress;
    c->options.stop = &c->stop;
    c->options.on_progress = on_progress;
    c->options.on_progress_user = c;
    c->options.warning = on_warning;
    c->options.warning_user = c;
    c->options.run_plan = hyp_onnx_run_plan;
    c->options.run_plan_user = &c->engine;
    return 0;
}

/* The plan, the report and the warnings; NULL with an exception set. */
static PyObject *give(compilation *c, const void *plan, size_t size, const hyp_compile_report *report)
{
    PyObject *blob = blob_make(plan, size), *said = blob ? tell(report) : NULL;
    PyObject *all = said ? Py_BuildValue("(OOO)", blob, said, c->warnings) : NULL;
    Py_XDECREF(blob);
    Py_XDECREF(said);
    return all;
}

/* compile(model, options, progress, threads): of a path (str) or the bytes of a model. */
static PyObject *compile(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *model, *dict, *progress, *path = NULL, *done = NULL;
    int threads;
    if (!PyArg_ParseTuple(args, "OO!Oi:compile", &model, &PyDict_Type, &dict, &progress, &threads)) return NULL;
    bool in_memory = PyBytes_Check(model);
    if (!in_memory && !PyUnicode_FSConverter(model, &path)) return NULL;
    compilation c = {0};
    if (begin(&c, dict, progress, threads) == 0) {
        void *plan = NULL;
        size_t size = 0;
        hyp_compile_report *report = NULL;
        hyp_diag diag = {0};
        hyp_status status;
        const char *text = in_memory ? PyBytes_AsString(model) : PyBytes_AsString(path);
        size_t bytes = in_memory ? (size_t)PyBytes_Size(model) : 0;
        Py_BEGIN_ALLOW_THREADS
            status = in_memory ? hyp_compile_memory(text, bytes, &c.options, &plan, &size, &report, &diag)
                               : hyp_compile_to_memory(text, &c.options, &plan, &size, &report, &diag);
        Py_END_ALLOW_THREADS
        if (c.type) {
            PyErr_Restore(c.type, c.value, c.trace);
            c.type = c.value = c.trace = NULL;
        } else if (status != HYP_OK) {
            native_raise(status, diag.message);
        } else {
            done = give(&c, plan, size, report);
        }
        free(plan);
        hyp_compile_report_destroy(report);
    }
    end(&c);
    Py_XDECREF(path);
    return done;
}

/* rules(options): every rule that they read and select. */
static PyObject *list_rules(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dict, *done = NULL;
    if (!PyArg_ParseTuple(args, "O!:rules", &PyDict_Type, &dict)) return NULL;
    compilation c = {0};
    hyp_compile_report *report = NULL;
    hyp_diag diag = {0};
    if (begin(&c, dict, Py_None, 0) == 0) {
        hyp_status status = hyp_compile_list_rules(&c.options, &report, &diag);
        done = status == HYP_OK ? rules_of(report) : native_raise(status, diag.message);
        hyp_compile_report_destroy(report);
    }
    end(&c);
    return done;
}

/* describe(path, json, dims): what hyp_plan_describe says. */
static PyObject *describe(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *path, *dims;
    int json;
    hyp_tensor *sizes;
    size_t count;
    if (!PyArg_ParseTuple(args, "O&pO!:describe", PyUnicode_FSConverter, &path, &json, &PyDict_Type, &dims))
        return NULL;
    if (native_sizes(dims, &sizes, &count) < 0) {
        Py_DECREF(path);
        return NULL;
    }
    native_buffer buffer = {0};
    hyp_diag diag = {0};
    hyp_status status;
    const char *file = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
        status = hyp_plan_describe(file, json, sizes, count, native_buffer_write, &buffer, &diag);
    Py_END_ALLOW_THREADS
    PyMem_Free(sizes);
    Py_DECREF(path);
    PyObject *text = native_buffer_text(&buffer);
    if (status == HYP_OK) return text;
    Py_XDECREF(text);
    return native_raise(status, diag.message);
}

static PyMethodDef functions[] = {
    {"compile", compile, METH_VARARGS, "compile(model, options, progress, threads): the plan, a report, and warnings."},
    {"rules", list_rules, METH_VARARGS, "rules(options): the rules that they select."},
    {"describe", describe, METH_VARARGS, "describe(path, json, dims): a description of a plan's file."},
    {NULL, NULL, 0, NULL},
};

int compile_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
