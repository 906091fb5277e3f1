/* egraph_rules.c - analyses, conditions and functions that Python computes, rules, and saturation. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "egraph.h"

PyTypeObject *ruleset_type;

/* ---- the analysis ---------------------------------------------------------------------------------------- */

/* A fact of the engine is a place in the list of facts, plus one; 0: none yet. */
typedef uint32_t place;

static PyObject *fact_at(const egraph_object *self, const void *data)
{
    place p;
    memcpy(&p, data, sizeof p);
    return p && self->facts ? PyList_GetItem(self->facts, (Py_ssize_t)p - 1) : NULL;
}

PyObject *egraph_fact(egraph_object *self, hyp_class_id c)
{
    const void *data = hyp_egraph_data(self->egraph, c);
    return data ? fact_at(self, data) : NULL;
}

/* Takes the reference. */
static int put_fact(egraph_object *self, PyObject *fact, void *data)
{
    int failed = !self->facts || PyList_Append(self->facts, fact) < 0;
    Py_DECREF(fact);
    place p = failed ? 0 : (place)PyList_Size(self->facts);
    if (!failed) memcpy(data, &p, sizeof p);
    return failed ? -1 : 0;
}

static hyp_status make(hyp_egraph *eg, hyp_enode_id node, void *data, void *user, hyp_diag *diag)
{
    egraph_object *self = user;
    if (eg != self->egraph) return HYP_ERR_UNSUPPORTED; /* one made to check a proof: its ids are none of ours */
    egraph_visit visit = egraph_visit_begin(self, MAY_READ);
    size_t count;
    const hyp_class_id *children = hyp_enode_children(eg, node, &count);
    PyObject *ids = egraph_ids(children, count);
    PyObject *fact = ids && self->analysis
                         ? PyObject_CallMethod(self->analysis, "make", "OsO", self,
                                               hyp_egraph_symbol_name(eg, hyp_enode_op(eg, node)), ids)
                         : NULL;
    Py_XDECREF(ids);
    hyp_status status = fact && put_fact(self, fact, data) == 0 ? HYP_OK : egraph_visit_failed(self, diag);
    egraph_visit_end(self, visit);
    return status;
}

/* `changed` where the joined fact is not equal to what was there. */
static int join(egraph_object *self, void *into, const void *from, bool *changed)
{
    PyObject *a = fact_at(self, into), *b = fact_at(self, from);
    *changed = false;
    if (!b || a == b) return 0;
    if (!a) {
        *changed = true;
        Py_INCREF(b);
        return put_fact(self, b, into);
    }
    PyObject *joined = self->analysis ? PyObject_CallMethod(self->analysis, "merge", "OO", a, b) : NULL;
    int same = joined ? PyObject_RichCompareBool(joined, a, Py_EQ) : -1;
    if (same != 0) {
        Py_XDECREF(joined);
        return same < 0 ? -1 : 0;
    }
    *changed = true;
    return put_fact(self, joined, into);
}

static hyp_status merge(hyp_egraph *eg, void *into, const void *from, bool *changed, void *user, hyp_diag *diag)
{
    (void)eg;
    egraph_object *self = user;
    egraph_visit visit = egraph_visit_begin(self, MAY_READ);
    hyp_status status = join(self, into, from, changed) == 0 ? HYP_OK : egraph_visit_failed(self, diag);
    egraph_visit_end(self, visit);
    return status;
}

static hyp_status modify(hyp_egraph *eg, hyp_class_id c, void *user, hyp_diag *diag)
{
    (void)eg;
    egraph_object *self = user;
    egraph_visit visit = egraph_visit_begin(self, MAY_ADD);
    PyObject *done = self->analysis ? PyObject_CallMethod(self->analysis, "modify", "OI", self, c) : NULL;
    hyp_status status = done ? HYP_OK : egraph_visit_failed(self, diag);
    Py_XDECREF(done);
    egraph_visit_end(self, visit);
    return status;
}

static hyp_status agree(hyp_egraph *eg, const void *a, const void *b, void *user, hyp_diag *diag)
{
    (void)eg;
    egraph_object *self = user;
    egraph_visit visit = egraph_visit_begin(self, MAY_READ);
    PyObject *left = fact_at(self, a), *right = fact_at(self, b);
    PyObject *answer =
        left && right && self->analysis ? PyObject_CallMethod(self->analysis, "agree", "OO", left, right) : NULL;
    int holds = answer ? PyObject_IsTrue(answer) : !left || !right ? 1 : -1;
    Py_XDECREF(answer);
    hyp_status status = HYP_OK;
    if (holds < 0) status = egraph_visit_failed(self, diag);
    if (holds == 0) {
        snprintf(diag->message, sizeof diag->message, "the analysis says that the two sides do not agree");
        status = diag->status = HYP_ERR_MALFORMED;
    }
    egraph_visit_end(self, visit);
    return status;
}

const hyp_analysis egraph_analysis = {
    .data_size = sizeof(place), .make = make, .merge = merge, .modify = modify, .agree = agree};

/* ---- conditions and functions ---------------------------------------------------------------------------- */

/* What the function says; NULL with an exception set. */
static PyObject *ask(egraph_callback *callback, const hyp_call *call)
{
    if (!callback->function) return PyErr_Format(PyExc_RuntimeError, "the e-graph is being taken apart");
    PyObject *args = PyTuple_New((Py_ssize_t)call->arg_count + 1);
    if (!args) return NULL;
    Py_INCREF(callback->egraph);
    int failed = PyTuple_SetItem(args, 0, (PyObject *)callback->egraph) < 0;
    for (size_t i = 0; !failed && i < call->arg_count; i++) {
        PyObject *id = PyLong_FromUnsignedLong(call->args[i]);
        failed = !id || PyTuple_SetItem(args, (Py_ssize_t)i + 1, id) < 0;
    }
    PyObject *answer = failed ? NULL : PyObject_CallObject(callback->function, args);
    Py_DECREF(args);
    return answer;
}

/* Proofs are checked in an e-graph of their own, whose ids are none of ours: nothing is asked then. */
static bool elsewhere(const egraph_callback *callback, const hyp_call *call)
{
    return call->eg != callback->egraph->egraph;
}

static hyp_status condition(const hyp_call *call, bool *out_holds, hyp_diag *diag)
{
    egraph_callback *callback = call->user;
    if (elsewhere(callback, call)) return HYP_ERR_UNSUPPORTED;
    egraph_visit visit = egraph_visit_begin(callback->egraph, MAY_READ);
    PyObject *answer = ask(callback, call);
    int holds = answer ? PyObject_IsTrue(answer) : -1;
    Py_XDECREF(answer);
    hyp_status status = holds < 0 ? egraph_visit_failed(callback->egraph, diag) : HYP_OK;
    *out_holds = holds > 0;
    egraph_visit_end(callback->egraph, visit);
    return status;
}

static hyp_status function(const hyp_call *call, hyp_class_id *out, hyp_diag *diag)
{
    egraph_callback *callback = call->user;
    if (elsewhere(callback, call)) return HYP_ERR_UNSUPPORTED;
    egraph_visit visit = egraph_visit_begin(callback->egraph, MAY_ADD);
    PyObject *answer = ask(callback, call);
    hyp_status status = HYP_OK;
    *out = HYP_NONE;
    if (answer && answer != Py_None && egraph_read_id(answer, out) && *out >= hyp_egraph_class_bound(call->eg))
        PyErr_Format(PyExc_IndexError, "there is no class %u", (unsigned)*out);
    if (PyErr_Occurred()) status = egraph_visit_failed(callback->egraph, diag);
    Py_XDECREF(answer);
    egraph_visit_end(callback->egraph, visit);
    return status;
}

/* condition(name, function, arity), function(...) */
static PyObject *register_callback(PyObject *object, PyObject *args, bool is_condition)
{
    egraph_object *self = (egraph_object *)object;
    const char *name;
    PyObject *callable;
    int arity;
    if (!PyArg_ParseTuple(args, "sOi", &name, &callable, &arity) || egraph_enter(self, MAY_ALL) < 0) return NULL;
    egraph_callback *callback = calloc(1, sizeof *callback);
    hyp_diag diag = {0};
    hyp_status status = HYP_ERR_NO_MEMORY;
    if (callback) {
        callback->egraph = self;
        status = is_condition ? hyp_egraph_register_condition(self->egraph, name, arity, condition, callback, &diag)
                              : hyp_egraph_register_function(self->egraph, name, arity, function, callback, &diag);
    }
    if (status == HYP_OK) {
        Py_INCREF(callable);
        callback->function = callable;
        callback->next = self->callbacks;
        self->callbacks = callback;
    } else {
        free(callback);
    }
    egraph_leave(self);
    if (status != HYP_OK) return egraph_raise(self, status, &diag);
    Py_RETURN_NONE;
}

PyObject *egraph_condition(PyObject *self, PyObject *args) { return register_callback(self, args, true); }
PyObject *egraph_function(PyObject *self, PyObject *args) { return register_callback(self, args, false); }

/* ---- rulesets -------------------------------------------------------------------------------------------- */

/* rules(name, text) */
PyObject *egraph_rules(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    const char *name, *text;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "ss#:rules", &name, &text, &length) || egraph_enter(self, MAY_ALL) < 0) return NULL;
    hyp_ruleset *rules;
    hyp_diag diag = {0};
    hyp_status status = hyp_ruleset_parse(self->egraph, name, text, (size_t)length, &rules, &diag);
    egraph_leave(self);
    if (status != HYP_OK) return egraph_raise(self, status, &diag);
    ruleset_object *made = PyObject_GC_New(ruleset_object, ruleset_type);
    if (!made) {
        hyp_ruleset_destroy(rules);
        return NULL;
    }
    Py_INCREF(self);
    made->egraph = self;
    made->rules = rules;
    PyObject_GC_Track((PyObject *)made);
    return (PyObject *)made;
}

static int ruleset_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((ruleset_object *)object)->egraph);
    return 0;
}

/* An e-graph that is in use keeps them until it is not. */
static void ruleset_dealloc(PyObject *object)
{
    ruleset_object *self = (ruleset_object *)object;
    egraph_object *egraph = self->egraph;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (egraph->depth && egraph->dead_count == egraph->dead_room) {
        size_t room = 2 * egraph->dead_room + 4;
        hyp_ruleset **dead = realloc(egraph->dead, room * sizeof *dead);
        if (dead) {
            egraph->dead = dead;
            egraph->dead_room = room;
        }
    }
    if (!egraph->depth)
        hyp_ruleset_destroy(self->rules);
    else if (egraph->dead_count < egraph->dead_room)
        egraph->dead[egraph->dead_count++] = self->rules; /* else it is lost, as memory is out */
    Py_DECREF(egraph);
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

/* infos(): [(name, class, ruleset, doc, text)] */
static PyObject *ruleset_infos(PyObject *object, PyObject *unused)
{
    (void)unused;
    const hyp_ruleset *rules = ((ruleset_object *)object)->rules;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < hyp_ruleset_count(rules); i++) {
        hyp_rule_info info = hyp_ruleset_rule(rules, i);
        PyObject *row = Py_BuildValue("(sssss)", info.name, info.numeric_class, info.ruleset, info.doc, info.text);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* enable(i, enabled), of a rule by its number. */
static PyObject *ruleset_enable(PyObject *object, PyObject *args)
{
    ruleset_object *self = (ruleset_object *)object;
    Py_ssize_t i;
    int enabled;
    if (!PyArg_ParseTuple(args, "np:enable", &i, &enabled)) return NULL;
    if (i < 0 || (size_t)i >= hyp_ruleset_count(self->rules))
        return PyErr_Format(PyExc_IndexError, "there is no rule %zd", i);
    if (egraph_enter(self->egraph, MAY_ALL) < 0) return NULL;
    hyp_ruleset_enable(self->rules, (size_t)i, enabled);
    egraph_leave(self->egraph);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"infos", ruleset_infos, METH_NOARGS, NULL},
    {"enable", ruleset_enable, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"Rules of an e-graph; hypatia.egraph.Rules is what to use."},
    {Py_tp_dealloc, ruleset_dealloc},
    {Py_tp_traverse, ruleset_traverse},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {"hypatia._native.Ruleset", sizeof(ruleset_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int ruleset_init(PyObject *module) { return native_add_type(module, &spec, &ruleset_type); }

/* ---- saturation ------------------------------------------------------------------------------------------ */

/* Reads (kind, times, ruleset or parts) into *out, whose parts are PyMem_Free'd by free_schedule. */
static void free_schedule(hyp_schedule *s)
{
    for (size_t i = 0; s->parts && i < s->part_count; i++) free_schedule((hyp_schedule *)&s->parts[i]);
    PyMem_Free((void *)s->parts);
}

static int read_schedule(const egraph_object *self, PyObject *object, int deep, hyp_schedule *out)
{
    int kind;
    Py_ssize_t times;
    PyObject *what;
    if (!PyArg_ParseTuple(object, "inO", &kind, &times, &what)) return -1;
    *out = (hyp_schedule){.kind = (hyp_schedule_kind)kind, .times = (size_t)times};
    if (kind == HYP_SCHEDULE_RUN) {
        if (Py_TYPE(what) != ruleset_type || ((ruleset_object *)what)->egraph != self) {
            native_raise(HYP_ERR_INVALID_ARGUMENT, "wanted rules of this e-graph: EGraph.rules makes them");
            return -1;
        }
        out->rules = ((ruleset_object *)what)->rules;
        return 0;
    }
    Py_ssize_t count = deep < 64 ? PyTuple_Size(what) : -1;
    if (count < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RecursionError, "a schedule of more than 64 levels");
        return -1;
    }
    hyp_schedule *parts = PyMem_Calloc((size_t)count + 1, sizeof *parts);
    if (!parts) {
        PyErr_NoMemory();
        return -1;
    }
    out->parts = parts;
    out->part_count = (size_t)count;
    for (Py_ssize_t i = 0; i < count; i++)
        if (read_schedule(self, PyTuple_GetItem(what, i), deep + 1, &parts[i]) < 0) return -1;
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether the run is to end, as after Ctrl-C; looks ten times a second. */
static bool stop(void *user)
{
    egraph_object *self = user;
    if (self->type) return true;
    double time = now();
    if (time - self->asked < 0.1) return false;
    self->asked = time;
    egraph_visit visit = egraph_visit_begin(self, MAY_READ);
    if (PyErr_CheckSignals() < 0) egraph_visit_failed(self, NULL);
    bool ends = self->type != NULL;
    egraph_visit_end(self, visit);
    return ends;
}

static PyObject *tell_iteration(const hyp_iteration_report *i)
{
    return Py_BuildValue("(nnnnddd)", (Py_ssize_t)i->e_nodes, (Py_ssize_t)i->e_classes, (Py_ssize_t)i->matches,
                         (Py_ssize_t)i->applications, i->search_seconds, i->apply_seconds, i->rebuild_seconds);
}

static void on_iteration(const hyp_iteration_report *iteration, size_t count, void *user)
{
    (void)count;
    egraph_object *self = user;
    if (self->type) return;
    egraph_visit visit = egraph_visit_begin(self, MAY_READ);
    PyObject *row = tell_iteration(iteration);
    PyObject *said = row ? PyObject_CallFunctionObjArgs(self->on_iteration, row, NULL) : NULL;
    if (!said) egraph_visit_failed(self, NULL);
    Py_XDECREF(said);
    Py_XDECREF(row);
    egraph_visit_end(self, visit);
}

/* (stop, e-nodes, classes, peak bytes, matches, seconds, [iteration], [rule]) */
static PyObject *tell(const hyp_egraph_run_report *r)
{
    PyObject *iterations = PyList_New(0), *rules = PyList_New(0), *all = NULL;
    for (size_t i = 0; iterations && i < r->iteration_count; i++) {
        PyObject *row = tell_iteration(&r->iterations[i]);
        if (!row || PyList_Append(iterations, row) < 0) Py_CLEAR(iterations);
        Py_XDECREF(row);
    }
    for (size_t i = 0; rules && i < r->rule_count; i++) {
        const hyp_rule_report *u = &r->rules[i];
        PyObject *row = Py_BuildValue("(nndnznn)", (Py_ssize_t)u->matches, (Py_ssize_t)u->applications, u->seconds,
                                      (Py_ssize_t)u->refused, u->refusal, (Py_ssize_t)u->declined,
                                      (Py_ssize_t)u->beyond);
        if (!row || PyList_Append(rules, row) < 0) Py_CLEAR(rules);
        Py_XDECREF(row);
    }
    if (iterations && rules)
        all = Py_BuildValue("(snnnndOO)", hyp_stop_name(r->stop), (Py_ssize_t)r->e_nodes, (Py_ssize_t)r->e_classes,
                            (Py_ssize_t)r->peak_bytes, (Py_ssize_t)r->matches, r->seconds, iterations, rules);
    Py_XDECREF(iterations);
    Py_XDECREF(rules);
    return all;
}

/* run(schedule, backoff, iterations, nodes, bytes, seconds, matches, match limit, ban length, on_iteration) */
PyObject *egraph_run(PyObject *object, PyObject *args)
{
    egraph_object *self = (egraph_object *)object;
    PyObject *plan, *listener, *said = NULL;
    int backoff;
    Py_ssize_t iterations, nodes, bytes, matches, limit, ban;
    hyp_egraph_run_options options = {.size = sizeof options, .stop = stop, .stop_user = self};
    hyp_schedule schedule = {0};
    if (!PyArg_ParseTuple(args, "OpnnndnnnO:run", &plan, &backoff, &iterations, &nodes, &bytes, &options.max_seconds,
                          &matches, &limit, &ban, &listener))
        return NULL;
    if ((iterations | nodes | bytes | matches | limit | ban) < 0) {
        PyErr_SetString(PyExc_ValueError, "limits are not negative; 0 is none");
        return NULL;
    }
    if (egraph_enter(self, MAY_ALL) < 0) return NULL;
    options.max_iterations = (size_t)iterations;
    options.max_nodes = (size_t)nodes;
    options.max_bytes = (size_t)bytes;
    options.max_matches = (size_t)matches;
    options.scheduler = backoff ? HYP_SCHEDULER_BACKOFF : HYP_SCHEDULER_SIMPLE;
    options.backoff_match_limit = (size_t)limit;
    options.backoff_ban_length = (size_t)ban;
    if (listener != Py_None) {
        options.on_iteration = on_iteration;
        options.on_iteration_user = self;
        self->on_iteration = listener;
    }
    if (read_schedule(self, plan, 0, &schedule) == 0) {
        hyp_egraph_run_report report = {0};
        hyp_diag diag = {0};
        hyp_status status;
        self->asked = now();
        Py_BEGIN_ALLOW_THREADS
            status = hyp_egraph_run_schedule(self->egraph, &schedule, &options, &report, &diag);
        Py_END_ALLOW_THREADS
        said = status == HYP_OK && !self->type ? tell(&report) : egraph_raise(self, status, &diag);
        hyp_egraph_run_report_dispose(&report);
    }
    self->on_iteration = NULL;
    free_schedule(&schedule);
    egraph_leave(self);
    return said;
}
