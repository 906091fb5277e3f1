/* egraph.c - e-graphs: terms, classes, and what is known of them. */
#include <stdlib.h>
#include <string.h>

#include "egraph.h"

PyTypeObject *egraph_type;

/* ---- who may use it -------------------------------------------------------------------------------------- */

int egraph_enter(egraph_object *self, egraph_right right)
{
    unsigned long thread = PyThread_get_thread_ident();
    if (self->depth && self->thread != thread) {
        native_raise(HYP_ERR_INVALID_ARGUMENT, "another thread uses this e-graph; one belongs to one thread at a time");
        return -1;
    }
    if (self->depth && right > self->right) {
        native_raise(
            HYP_ERR_INVALID_ARGUMENT,
            self->right == MAY_READ
                ? "this is called by the e-graph while it works: it may read the e-graph, but not change it"
                : "this is called by the e-graph while it works: it may add terms and unite classes, but no more");
        return -1;
    }
    if (!self->depth) {
        self->thread = thread;
        self->right = MAY_ALL;
    }
    self->depth++;
    return 0;
}

int egraph_enter_with(egraph_object *self, egraph_right right, const hyp_class_id *ids, size_t count)
{
    if (egraph_enter(self, right) < 0) return -1;
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < hyp_egraph_class_bound(self->egraph)) continue;
        egraph_leave(self);
        PyErr_Format(PyExc_IndexError, "there is no class %u", (unsigned)ids[i]);
        return -1;
    }
    return 0;
}

void egraph_leave(egraph_object *self)
{
    if (--self->depth) return;
    self->thread = 0;
    while (self->dead_count) hyp_ruleset_destroy(self->dead[--self->dead_count]);
}

PyObject *egraph_raise(egraph_object *self, hyp_status status, const hyp_diag *diag)
{
    if (!self->type) return native_raise(status, diag->message);
    PyErr_Restore(self->type, self->value, self->trace);
    self->type = self->value = self->trace = NULL;
    return NULL;
}

egraph_visit egraph_visit_begin(egraph_object *self, egraph_right right)
{
    egraph_visit visit = {PyGILState_Ensure(), self->right};
    if (right < self->right) self->right = right;
    return visit;
}

void egraph_visit_end(egraph_object *self, egraph_visit visit)
{
    self->right = visit.right;
    PyGILState_Release(visit.state);
}

hyp_status egraph_visit_failed(egraph_object *self, hyp_diag *diag)
{
    PyObject *refuse = NULL, *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    refuse = native_attribute("hypatia.egraph", "Refuse");
    bool refused = refuse && PyErr_GivenExceptionMatches(type, refuse);
    PyErr_Clear();
    Py_XDECREF(refuse);
    if (diag) {
        PyObject *text = value ? PyObject_Str(value) : NULL;
        const char *chars = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
        snprintf(diag->message, sizeof diag->message, "%s", chars ? chars : "a callback has failed");
        diag->status = refused ? HYP_ERR_MALFORMED : HYP_ERR_CANCELLED;
        PyErr_Clear();
        Py_XDECREF(text);
    }
    if (refused || self->type) { /* the first one is told */
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
    } else {
        self->type = type;
        self->value = value;
        self->trace = trace;
    }
    return refused ? HYP_ERR_MALFORMED : HYP_ERR_CANCELLED;
}

/* ---- ids ------------------------------------------------------------------------------------------------- */

int egraph_read_id(PyObject *object, void *out)
{
    unsigned long id = PyLong_AsUnsignedLong(object);
    if (PyErr_Occurred()) return 0;
    if (id >= HYP_NONE) {
        PyErr_SetString(PyExc_ValueError, "that is no id");
        return 0;
    }
    *(uint32_t *)out = (uint32_t)id;
    return 1;
}

PyObject *egraph_ids(const hyp_class_id *ids, size_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; tuple && i < count; i++) {
        PyObject *id = PyLong_FromUnsignedLong(ids[i]);
        if (!id || PyTuple_SetItem(tuple, (Py_ssize_t)i, id) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

int egraph_read_ids(PyObject *sequence, hyp_class_id **out, size_t *out_count)
{
    Py_ssize_t count = PySequence_Size(sequence);
    hyp_class_id *ids = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *ids);
    if (!ids) {
        if (count >= 0) PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *id = PySequence_GetItem(sequence, i);
        int read = id && egraph_read_id(id, &ids[i]);
        Py_XDECREF(id);
        if (!read) {
            PyMem_Free(ids);
            return -1;
        }
    }
    *out = ids;
    *out_count = (size_t)count;
    return 0;
}

/* ---- terms ----------------------------------------------------------------------------------------------- */

static PyObject *add_text(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    const char *text;
    if (!PyArg_ParseTuple(args, "s:add_text", &text) || egraph_enter(self, MAY_ADD) < 0) return NULL;
    hyp_class_id c;
    hyp_diag diag = {0};
    hyp_status status = hyp_egraph_add_text(self->egraph, text, &c, &diag);
    egraph_leave(self);
    return status == HYP_OK ? PyLong_FromUnsignedLong(c) : egraph_raise(self, status, &diag);
}

static PyObject *add_node(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    const char *op;
    PyObject *sequence;
    hyp_class_id *children, c;
    size_t count;
    if (!PyArg_ParseTuple(args, "sO:add_node", &op, &sequence) || egraph_read_ids(sequence, &children, &count) < 0)
        return NULL;
    if (egraph_enter_with(self, MAY_ADD, children, count) < 0) {
        PyMem_Free(children);
        return NULL;
    }
    hyp_symbol symbol;
    hyp_diag diag = {0};
    hyp_status status = hyp_egraph_symbol(self->egraph, op, &symbol, &diag);
    if (status == HYP_OK) status = hyp_egraph_add(self->egraph, symbol, children, count, &c, NULL, &diag);
    egraph_leave(self);
    PyMem_Free(children);
    return status == HYP_OK ? PyLong_FromUnsignedLong(c) : egraph_raise(self, status, &diag);
}

/* The class of a node that is there, or None. */
static PyObject *lookup(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    const char *op;
    PyObject *sequence;
    hyp_class_id *children, c = HYP_NONE;
    size_t count;
    if (!PyArg_ParseTuple(args, "sO:lookup", &op, &sequence) || egraph_read_ids(sequence, &children, &count) < 0)
        return NULL;
    if (egraph_enter_with(self, MAY_READ, children, count) < 0) {
        PyMem_Free(children);
        return NULL;
    }
    hyp_symbol symbol;
    hyp_diag diag = {0};
    hyp_status status = hyp_egraph_symbol(self->egraph, op, &symbol, &diag);
    if (status == HYP_OK) c = hyp_egraph_lookup(self->egraph, symbol, children, count);
    egraph_leave(self);
    PyMem_Free(children);
    if (status != HYP_OK) return egraph_raise(self, status, &diag);
    if (c == HYP_NONE) Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(c);
}

static PyObject *find(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    hyp_class_id c;
    if (!PyArg_ParseTuple(args, "O&:find", egraph_read_id, &c) || egraph_enter_with(self, MAY_READ, &c, 1) < 0)
        return NULL;
    c = hyp_egraph_find(self->egraph, c);
    egraph_leave(self);
    return PyLong_FromUnsignedLong(c);
}

static PyObject *unite(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    hyp_class_id ids[2];
    const char *reason;
    if (!PyArg_ParseTuple(args, "O&O&z:union", egraph_read_id, &ids[0], egraph_read_id, &ids[1], &reason) ||
        egraph_enter_with(self, MAY_ADD, ids, 2) < 0)
        return NULL;
    bool changed = false;
    hyp_diag diag = {0};
    hyp_status status = hyp_egraph_union(self->egraph, ids[0], ids[1], reason, &changed, &diag);
    egraph_leave(self);
    return status == HYP_OK ? PyBool_FromLong(changed) : egraph_raise(self, status, &diag);
}

/* rebuild(), check(), push(), pop() */
static PyObject *call_plain(PyObject *object, hyp_status (*function)(hyp_egraph *, hyp_diag *))
{
    egraph_object *self = (egraph_object *)object;
    if (egraph_enter(self, MAY_ALL) < 0) return NULL;
    hyp_diag diag = {0};
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS
        status = function(self->egraph, &diag);
    Py_END_ALLOW_THREADS
    egraph_leave(self);
    if (status != HYP_OK) return egraph_raise(self, status, &diag);
    Py_RETURN_NONE;
}

static PyObject *rebuild(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_plain(self, hyp_egraph_rebuild);
}
static PyObject *check(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_plain(self, hyp_egraph_check);
}
static PyObject *push(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_plain(self, hyp_egraph_push);
}
static PyObject *pop(PyObject *self, PyObject *unused)
{
    (void)unused;
    return call_plain(self, hyp_egraph_pop);
}

static PyObject *cancel(PyObject *self, PyObject *unused)
{
    (void)unused;
    hyp_egraph_cancel(((egraph_object *)self)->egraph);
    Py_RETURN_NONE;
}

/* ---- reading --------------------------------------------------------------------------------------------- */

/* nodes(class): [(id, operator, children)] */
static PyObject *nodes(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    hyp_class_id c;
    if (!PyArg_ParseTuple(args, "O&:nodes", egraph_read_id, &c) || egraph_enter_with(self, MAY_READ, &c, 1) < 0)
        return NULL;
    size_t count;
    const hyp_enode_id *ids = hyp_egraph_class_nodes(self->egraph, c, &count);
    PyObject *list = ids ? PyList_New(0) : PyErr_NoMemory();
    for (size_t i = 0; list && i < count; i++) {
        size_t arity;
        const hyp_class_id *children = hyp_enode_children(self->egraph, ids[i], &arity);
        PyObject *kids = egraph_ids(children, arity);
        PyObject *row =
            kids ? Py_BuildValue("(IsO)", ids[i],
                                 hyp_egraph_symbol_name(self->egraph, hyp_enode_op(self->egraph, ids[i])), kids)
                 : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
        Py_XDECREF(kids);
    }
    egraph_leave(self);
    return list;
}

static PyObject *classes(PyObject *object, PyObject *unused)
{
    (void)unused;
    egraph_object *self = (egraph_object *)object;
    if (egraph_enter(self, MAY_READ) < 0) return NULL;
    size_t bound = hyp_egraph_class_bound(self->egraph);
    PyObject *list = PyList_New(0);
    for (size_t c = 0; list && c < bound; c++) {
        if (hyp_egraph_find(self->egraph, (hyp_class_id)c) != c) continue;
        PyObject *id = PyLong_FromSize_t(c);
        if (!id || PyList_Append(list, id) < 0) Py_CLEAR(list);
        Py_XDECREF(id);
    }
    egraph_leave(self);
    return list;
}

static PyObject *fact(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    hyp_class_id c;
    if (!PyArg_ParseTuple(args, "O&:fact", egraph_read_id, &c) || egraph_enter_with(self, MAY_READ, &c, 1) < 0)
        return NULL;
    PyObject *value = egraph_fact(self, hyp_egraph_find(self->egraph, c));
    value = value ? value : Py_None;
    Py_INCREF(value);
    egraph_leave(self);
    return value;
}

static PyObject *count_of(PyObject *object, size_t (*count)(const hyp_egraph *))
{
    egraph_object *self = (egraph_object *)object;
    if (egraph_enter(self, MAY_READ) < 0) return NULL;
    size_t n = count(self->egraph);
    egraph_leave(self);
    return PyLong_FromSize_t(n);
}

static PyObject *node_count(PyObject *self, void *unused)
{
    (void)unused;
    return count_of(self, hyp_egraph_node_count);
}

static PyObject *class_count(PyObject *self, void *unused)
{
    (void)unused;
    return count_of(self, hyp_egraph_class_count);
}

/* ---- the object ------------------------------------------------------------------------------------------ */

/* Whether an analysis has a method that it may have; an exception is set where nobody knows. */
static bool has(PyObject *analysis, const char *method)
{
    PyObject *found = PyObject_GetAttrString(analysis, method);
    if (!found && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    Py_XDECREF(found);
    return found != NULL;
}

static PyObject *egraph_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"analysis", (char *)"explain", (char *)"explain_all", NULL};
    PyObject *analysis = Py_None;
    int explain = 0, all = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$pp:EGraph", names, &analysis, &explain, &all)) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    egraph_object *self = (egraph_object *)allocate(type, 0); /* all zeros */
    if (!self) return NULL;
    hyp_egraph_options options = {.size = sizeof options, .explain = explain || all, .explain_all = all};
    hyp_analysis of_python = egraph_analysis;
    if (analysis != Py_None) {
        Py_INCREF(analysis);
        self->analysis = analysis;
        of_python.user = self;
        if (!has(analysis, "modify")) of_python.modify = NULL;
        if (!has(analysis, "agree")) of_python.agree = NULL;
        options.analysis = &of_python;
    }
    if (!PyErr_Occurred()) self->facts = PyList_New(0);
    hyp_diag diag = {0};
    hyp_status status = self->facts ? hyp_egraph_create(&options, &self->egraph, &diag) : HYP_OK;
    if (self->facts && status == HYP_OK) return (PyObject *)self;
    Py_DECREF(self);
    return status == HYP_OK ? NULL : native_raise(status, diag.message);
}

static int egraph_traverse(PyObject *object, visitproc visit, void *arg)
{
    egraph_object *self = (egraph_object *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->analysis);
    Py_VISIT(self->facts);
    for (egraph_callback *c = self->callbacks; c; c = c->next) Py_VISIT(c->function);
    return 0;
}

static int egraph_clear(PyObject *object)
{
    egraph_object *self = (egraph_object *)object;
    Py_CLEAR(self->analysis);
    Py_CLEAR(self->facts);
    for (egraph_callback *c = self->callbacks; c; c = c->next) Py_CLEAR(c->function);
    return 0;
}

static void egraph_dealloc(PyObject *object)
{
    egraph_object *self = (egraph_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    while (self->dead_count) hyp_ruleset_destroy(self->dead[--self->dead_count]);
    free(self->dead);
    hyp_egraph_destroy(self->egraph);
    egraph_clear(object);
    while (self->callbacks) {
        egraph_callback *next = self->callbacks->next;
        free(self->callbacks);
        self->callbacks = next;
    }
    Py_XDECREF(self->type);
    Py_XDECREF(self->value);
    Py_XDECREF(self->trace);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"add_text", add_text, METH_VARARGS, NULL},
    {"add_node", add_node, METH_VARARGS, NULL},
    {"lookup", lookup, METH_VARARGS, NULL},
    {"find", find, METH_VARARGS, NULL},
    {"_union", unite, METH_VARARGS, NULL},
    {"rebuild", rebuild, METH_NOARGS, NULL},
    {"check", check, METH_NOARGS, NULL},
    {"push", push, METH_NOARGS, NULL},
    {"pop", pop, METH_NOARGS, NULL},
    {"cancel", cancel, METH_NOARGS, NULL},
    {"_nodes", nodes, METH_VARARGS, NULL},
    {"classes", classes, METH_NOARGS, NULL},
    {"fact", fact, METH_VARARGS, NULL},
    {"_rules", egraph_rules, METH_VARARGS, NULL},
    {"_condition", egraph_condition, METH_VARARGS, NULL},
    {"_function", egraph_function, METH_VARARGS, NULL},
    {"_run", egraph_run, METH_VARARGS, NULL},
    {"_match", egraph_match, METH_VARARGS, NULL},
    {"_extract", egraph_extract, METH_VARARGS, NULL},
    {"_explain", egraph_explain, METH_VARARGS, NULL},
    {"_check_proof", egraph_check_proof, METH_VARARGS, NULL},
    {"_write", egraph_write, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef attributes[] = {
    {"node_count", node_count, NULL, NULL, NULL},
    {"class_count", class_count, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"An e-graph; hypatia.egraph.EGraph is what to use."},
    {Py_tp_new, egraph_new},
    {Py_tp_dealloc, egraph_dealloc},
    {Py_tp_traverse, egraph_traverse},
    {Py_tp_clear, egraph_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};
static PyType_Spec spec = {"hypatia._native.EGraph", sizeof(egraph_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

int egraph_init(PyObject *module)
{
    return native_add_type(module, &spec, &egraph_type) < 0 ? -1 : ruleset_init(module);
}
