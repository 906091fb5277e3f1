/* egraph.h - what the files about e-graphs share. */
#ifndef HYP_PYTHON_EGRAPH_H
#define HYP_PYTHON_EGRAPH_H

#include "hypatia/egraph.h"
#include "native.h"

/* What may be done just now: a callback of the engine may not do everything, and another thread nothing. */
typedef enum egraph_right { MAY_READ, MAY_ADD, MAY_ALL } egraph_right;

/* A condition or a function of rules. */
typedef struct egraph_callback {
    struct egraph_callback *next;
    struct egraph_object *egraph;
    PyObject *function;
} egraph_callback;

typedef struct egraph_object {
    PyObject_HEAD hyp_egraph *egraph;
    PyObject *analysis; /* NULL: none */
    PyObject *facts;    /* a list; the engine keeps places in it. It only grows: pop makes old places valid again */
    egraph_callback *callbacks;
    unsigned long thread; /* that is within a call; 0: none */
    int depth;            /* of its calls within each other */
    egraph_right right;
    PyObject *type, *value, *trace; /* of what a callback has raised */
    hyp_ruleset **dead;             /* rulesets that went while the e-graph was in use */
    size_t dead_count, dead_room;
    double asked; /* when the run under way last looked for signals */
    PyObject *on_iteration;
} egraph_object;
extern PyTypeObject *egraph_type, *ruleset_type;

typedef struct ruleset_object {
    PyObject_HEAD hyp_ruleset *rules;
    egraph_object *egraph;
} ruleset_object;

/* Around every use of an e-graph. -1, with an exception set, where another thread uses it, or a callback may not do so
 * much. */
int egraph_enter(egraph_object *self, egraph_right right);
/* The same, where ids are given: those of classes that there are, else -1 with an exception set. */
int egraph_enter_with(egraph_object *self, egraph_right right, const hyp_class_id *ids, size_t count);
void egraph_leave(egraph_object *self);
/* NULL with the exception of a status, or the one that a callback has raised, which comes first. */
PyObject *egraph_raise(egraph_object *self, hyp_status status, const hyp_diag *diag);

/* Around what a callback does: Python's lock, and no more rights than it has. */
typedef struct egraph_visit {
    PyGILState_STATE state;
    egraph_right right;
} egraph_visit;
egraph_visit egraph_visit_begin(egraph_object *self, egraph_right right);
void egraph_visit_end(egraph_object *self, egraph_visit visit);
/* Keeps the exception for egraph_raise, and says so. An exception hypatia.egraph.Refuse is HYP_ERR_MALFORMED with its
 * text. */
hyp_status egraph_visit_failed(egraph_object *self, hyp_diag *diag);

/* "O&" of PyArg_ParseTuple: the id of a class or node. */
int egraph_read_id(PyObject *object, void *out);
/* A tuple of ids. */
PyObject *egraph_ids(const hyp_class_id *ids, size_t count);
/* A sequence of ids: PyMem_Free(*out). -1 with an exception set. */
int egraph_read_ids(PyObject *sequence, hyp_class_id **out, size_t *out_count);

extern const hyp_analysis egraph_analysis;                  /* its user is the egraph_object */
PyObject *egraph_fact(egraph_object *self, hyp_class_id c); /* borrowed; NULL: none */

/* Methods of other files. */
PyObject *egraph_rules(PyObject *self, PyObject *args);
PyObject *egraph_condition(PyObject *self, PyObject *args);
PyObject *egraph_function(PyObject *self, PyObject *args);
PyObject *egraph_run(PyObject *self, PyObject *args);
PyObject *egraph_extract(PyObject *self, PyObject *args);
PyObject *egraph_explain(PyObject *self, PyObject *args);
PyObject *egraph_check_proof(PyObject *self, PyObject *args);
PyObject *egraph_write(PyObject *self, PyObject *args);
PyObject *egraph_match(PyObject *self, PyObject *args);
int ruleset_init(PyObject *module);

#endif
