/* egraph_answers.c - what an e-graph is asked: matches, the best term, proofs, files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "egraph.h"

/* ---- matches --------------------------------------------------------------------------------------------- */

typedef struct match_list {
    PyObject *list;
    const hyp_pattern *pattern;
} match_list;

/* (root, (class of each variable)) */
static hyp_status on_match(const hyp_match_view *match, void *user, hyp_diag *diag)
{
    (void)diag;
    match_list *all = user;
    PyObject *classes = egraph_ids(match->variables, match->variable_count);
    PyObject *row = classes ? Py_BuildValue("(IO)", match->root, classes) : NULL;
    int failed = !row || PyList_Append(all->list, row) < 0;
    Py_XDECREF(row);
    Py_XDECREF(classes);
    return failed ? HYP_ERR_NO_MEMORY : HYP_OK;
}

/* match(pattern): ((variable, ...), [(root, (class, ...))]) */
PyObject *egraph_match(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    const char *text;
    if (!PyArg_ParseTuple(args, "s:match", &text) || egraph_enter(self, MAY_ALL) < 0) return NULL;
    hyp_pattern *pattern = NULL;
    hyp_diag diag = {0};
    hyp_status status = hyp_egraph_rebuild(self->egraph, &diag);
    if (status == HYP_OK) status = hyp_pattern_parse(self->egraph, text, &pattern, &diag);
    match_list all = {status == HYP_OK ? PyList_New(0) : NULL, pattern};
    if (all.list) status = hyp_egraph_ematch(self->egraph, pattern, on_match, &all, &diag);
    size_t count = pattern ? hyp_pattern_variable_count(pattern) : 0;
    PyObject *names = PyTuple_New((Py_ssize_t)count), *found = NULL;
    for (size_t i = 0; names && i < count; i++) {
        PyObject *name = native_text(hyp_pattern_variable(pattern, i));
        if (!name || PyTuple_SetItem(names, (Py_ssize_t)i, name) < 0) Py_CLEAR(names);
    }
    hyp_pattern_destroy(pattern);
    egraph_leave(self);
    if (status != HYP_OK && !PyErr_Occurred())
        egraph_raise(self, status, &diag);
    else if (!PyErr_Occurred())
        found = Py_BuildValue("(OO)", names, all.list);
    Py_XDECREF(names);
    Py_XDECREF(all.list);
    return found;
}

/* ---- costs ----------------------------------------------------------------------------------------------- */

typedef struct cost_call {
    egraph_object *egraph;
    PyObject *function; /* of an operator and children; NULL: 1 each */
} cost_call;

static double cost(hyp_egraph *eg, hyp_enode_id node, void *user)
{
    cost_call *c = user;
    if (!c->function) return 1;
    if (c->egraph->type) return HUGE_VAL; /* it has failed, and the rest does not matter */
    egraph_visit visit = egraph_visit_begin(c->egraph, MAY_READ);
    size_t count;
    const hyp_class_id *children = hyp_enode_children(eg, node, &count);
    PyObject *ids = egraph_ids(children, count);
    PyObject *said =
        ids ? PyObject_CallFunction(c->function, "sO", hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)), ids) : NULL;
    double value = said ? PyFloat_AsDouble(said) : 0;
    Py_XDECREF(said);
    Py_XDECREF(ids);
    if (PyErr_Occurred()) {
        egraph_visit_failed(c->egraph, NULL);
        value = HUGE_VAL;
    }
    egraph_visit_end(c->egraph, visit);
    return value;
}

static bool has_failed(void *user) { return ((egraph_object *)user)->type != NULL; }

/* ---- extraction ------------------------------------------------------------------------------------------ */

/* ([term], tree cost, dag cost, lower bound, proven) */
static PyObject *tell_extraction(egraph_object *self, const hyp_extraction *ex, const hyp_class_id *roots, size_t count)
{
    PyObject *terms = PyList_New(0);
    for (size_t i = 0; terms && i < count; i++) {
        char *text = hyp_extraction_text(self->egraph, ex, roots[i]);
        PyObject *term = NULL;
        if (text)
            term = native_text(text);
        else
            native_raise(HYP_ERR_LIMIT, "a term of more than 256 MB: shared parts are written out");
        free(text);
        if (!term || PyList_Append(terms, term) < 0) Py_CLEAR(terms);
        Py_XDECREF(term);
    }
    PyObject *said = terms ? Py_BuildValue("(OdddO)", terms, ex->tree_cost, ex->dag_cost, ex->lower_bound,
                                           ex->proven ? Py_True : Py_False)
                           : NULL;
    Py_XDECREF(terms);
    return said;
}

/* extract(roots, cost, method, seconds, work) */
PyObject *egraph_extract(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    PyObject *sequence, *function, *said = NULL;
    int method;
    unsigned long long work;
    hyp_extract_options options = {.size = sizeof options, .stop = has_failed, .stop_user = self};
    hyp_class_id *roots;
    size_t count;
    if (!PyArg_ParseTuple(args, "OOidK:extract", &sequence, &function, &method, &options.budget_seconds, &work) ||
        egraph_read_ids(sequence, &roots, &count) < 0)
        return NULL;
    if (egraph_enter_with(self, MAY_ALL, roots, count) < 0) {
        PyMem_Free(roots);
        return NULL;
    }
    options.method = (hyp_extract_method)method;
    options.budget_work = work;
    cost_call costs = {self, function == Py_None ? NULL : function};
    hyp_extraction ex = {0};
    hyp_diag diag = {0};
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS
        status = hyp_egraph_rebuild(self->egraph, &diag);
        if (status == HYP_OK)
            status = hyp_egraph_extract_with(self->egraph, roots, count, &options, cost, &costs, &ex, &diag);
    Py_END_ALLOW_THREADS
    if (status == HYP_OK && !self->type)
        said = tell_extraction(self, &ex, roots, count);
    else
        egraph_raise(self, status, &diag);
    hyp_extraction_dispose(&ex);
    egraph_leave(self);
    PyMem_Free(roots);
    return said;
}

/* ---- proofs ---------------------------------------------------------------------------------------------- */

static PyObject *tell_proof(const hyp_proof *proof, int deep);

/* (name, [term], answer, term or None) */
static PyObject *tell_query(const hyp_proof_query *q)
{
    static const char *const answers[] = {"no", "yes", "absent", "term"};
    PyObject *args = PyList_New(0), *row = NULL;
    for (size_t i = 0; args && i < q->arg_count; i++) {
        PyObject *term = native_text(q->args[i]);
        if (!term || PyList_Append(args, term) < 0) Py_CLEAR(args);
        Py_XDECREF(term);
    }
    if (args) row = Py_BuildValue("(sOsz)", q->name, args, answers[q->answer], q->result);
    Py_XDECREF(args);
    return row;
}

/* (rule, stated, forward, term, [query], [proof of a part]) */
static PyObject *tell_step(const hyp_proof_step *s, int deep)
{
    PyObject *queries = PyList_New(0), *parts = PyList_New(0), *row = NULL;
    for (size_t i = 0; queries && i < s->query_count; i++) {
        PyObject *query = tell_query(&s->queries[i]);
        if (!query || PyList_Append(queries, query) < 0) Py_CLEAR(queries);
        Py_XDECREF(query);
    }
    for (size_t i = 0; parts && i < s->part_count; i++) {
        PyObject *part = tell_proof(&s->parts[i], deep + 1);
        if (!part || PyList_Append(parts, part) < 0) Py_CLEAR(parts);
        Py_XDECREF(part);
    }
    if (queries && parts)
        row = Py_BuildValue("(zOOsOO)", s->rule, s->stated ? Py_True : Py_False, s->forward ? Py_True : Py_False,
                            s->term, queries, parts);
    Py_XDECREF(queries);
    Py_XDECREF(parts);
    return row;
}

static PyObject *tell_proof(const hyp_proof *proof, int deep)
{
    if (deep > 200) return PyErr_Format(PyExc_RecursionError, "proofs within proofs, more than 200 deep");
    PyObject *steps = PyList_New(0);
    for (size_t i = 0; steps && i < proof->count; i++) {
        PyObject *row = tell_step(&proof->steps[i], deep);
        if (!row || PyList_Append(steps, row) < 0) Py_CLEAR(steps);
        Py_XDECREF(row);
    }
    return steps;
}

static void end_proof(PyObject *capsule)
{
    hyp_proof *proof = PyCapsule_GetPointer(capsule, "hyp_proof");
    hyp_proof_dispose(proof);
    free(proof);
}

/* explain(a, b): ([step], the proof for check_proof) */
PyObject *egraph_explain(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    const char *a, *b;
    if (!PyArg_ParseTuple(args, "ss:explain", &a, &b)) return NULL;
    hyp_proof *proof = calloc(1, sizeof *proof);
    PyObject *capsule = proof ? PyCapsule_New(proof, "hyp_proof", end_proof) : PyErr_NoMemory();
    if (!capsule) {
        free(proof);
        return NULL;
    }
    hyp_diag diag = {0};
    hyp_status status = HYP_OK;
    PyObject *steps = NULL, *said = NULL;
    if (egraph_enter(self, MAY_ALL) == 0) {
        Py_BEGIN_ALLOW_THREADS
            status = hyp_egraph_rebuild(self->egraph, &diag);
            if (status == HYP_OK) status = hyp_egraph_explain(self->egraph, a, b, proof, &diag);
        Py_END_ALLOW_THREADS
        steps = status == HYP_OK ? tell_proof(proof, 0) : egraph_raise(self, status, &diag);
        egraph_leave(self);
    }
    if (steps) said = Py_BuildValue("(OO)", steps, capsule);
    Py_XDECREF(steps);
    Py_DECREF(capsule);
    return said;
}

/* check_proof(proof, a, b, (ruleset, ...)): raises where the proof is none. */
PyObject *egraph_check_proof(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    PyObject *capsule, *list;
    const char *a, *b;
    if (!PyArg_ParseTuple(args, "OssO!:check_proof", &capsule, &a, &b, &PyTuple_Type, &list)) return NULL;
    const hyp_proof *proof = PyCapsule_GetPointer(capsule, "hyp_proof");
    size_t count = (size_t)PyTuple_Size(list);
    hyp_ruleset **rulesets = proof ? PyMem_Calloc(count + 1, sizeof *rulesets) : NULL;
    if (!rulesets) return proof ? PyErr_NoMemory() : NULL;
    for (size_t i = 0; i < count; i++) {
        PyObject *one = PyTuple_GetItem(list, (Py_ssize_t)i);
        if (Py_TYPE(one) != ruleset_type || ((ruleset_object *)one)->egraph != self) {
            PyMem_Free(rulesets);
            return native_raise(HYP_ERR_INVALID_ARGUMENT, "wanted rules of this e-graph: EGraph.rules makes them");
        }
        rulesets[i] = ((ruleset_object *)one)->rules;
    }
    hyp_diag diag = {0};
    hyp_status status = HYP_ERR_INVALID_ARGUMENT;
    if (egraph_enter(self, MAY_ALL) == 0) {
        status = hyp_proof_check(proof, a, b, rulesets, count, NULL, NULL, &diag);
        egraph_leave(self);
        if (status != HYP_OK) egraph_raise(self, status, &diag);
    }
    PyMem_Free(rulesets);
    if (status != HYP_OK) return NULL;
    Py_RETURN_NONE;
}

/* ---- files ----------------------------------------------------------------------------------------------- */

/* write(dot, roots, cost, nodes): egraph-serialize's JSON, or Graphviz of at most `nodes` e-nodes. */
PyObject *egraph_write(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    PyObject *sequence, *function;
    int dot;
    Py_ssize_t most;
    hyp_class_id *roots;
    size_t count;
    if (!PyArg_ParseTuple(args, "pOOn:write", &dot, &sequence, &function, &most) ||
        egraph_read_ids(sequence, &roots, &count) < 0)
        return NULL;
    if (egraph_enter_with(self, MAY_ALL, roots, count) < 0) {
        PyMem_Free(roots);
        return NULL;
    }
    native_buffer buffer = {0};
    cost_call costs = {self, function == Py_None ? NULL : function};
    hyp_diag diag = {0};
    hyp_status status = hyp_egraph_rebuild(self->egraph, &diag);
    if (status == HYP_OK)
        status =
            dot ? hyp_egraph_write_dot(self->egraph, roots, count, most < 0 ? 0 : (size_t)most, NULL,
                                       native_buffer_write, &buffer, &diag)
                : hyp_egraph_write_json(self->egraph, roots, count, cost, &costs, native_buffer_write, &buffer, &diag);
    egraph_leave(self);
    PyMem_Free(roots);
    PyObject *text = native_buffer_text(&buffer);
    if (status == HYP_OK && !self->type) return text;
    Py_XDECREF(text);
    return egraph_raise(self, status, &diag);
}
