/* hypatia/egglog.h - egglog programs: relations, functions and terms in one database.
 *
 * A program declares sorts, constructors (the operators of terms), functions (one value for each key, with an expression
 * that merges two) and relations, adds to them, and runs rules: a conjunction of patterns, comparisons and computed values
 * on the left, any number of actions on the right (union, set, insert, subsume, delete, let, panic). The language and what
 * it means are egglog's: Zhang et al., "Better together: unifying Datalog and equality saturation" (PLDI 2023).
 * docs/egglog.md says which part of it is read.
 *
 * Beside hypatia/egraph.h, which knows terms alone and nothing of types, this keeps typed tables: what rules join is rows, a
 * constructor is a table whose value is an e-class, and equal keys are merged as the table says, terms by uniting their
 * classes.
 *
 * Thread rule: a database belongs to one thread at a time; two never share state. hyp_egglog_cancel is the one exception.
 * Output is the same on every run and machine.
 *
 * Ownership: what is returned by pointer is borrowed and lives until the next call that changes the database.
 */
#ifndef HYPATIA_EGGLOG_H
#define HYPATIA_EGGLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hypatia/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hyp_egglog hyp_egglog;

typedef struct hyp_egglog_options {
    size_t size;        /* sizeof(hyp_egglog_options) */
    size_t max_bytes;   /* of the tables and their indexes; 0 = no limit */
    size_t max_rows;    /* live rows of all tables together, looked at after each iteration and action; 0 = no limit */
    double max_seconds; /* of each call of hyp_egglog_run; 0 = no limit */
    bool no_files;      /* (include), (input) and (output) are refused: for programs that are not trusted */
    /* What (extract), (print-function) and (print-size) say, a piece at a time. NULL = it is dropped. */
    void (*write)(const char *text, size_t len, void *user);
    void *user;
} hyp_egglog_options;

/* *out is owned by the caller: hyp_egglog_destroy. options may be NULL. */
HYP_API HYP_NODISCARD hyp_status hyp_egglog_create(const hyp_egglog_options *options, hyp_egglog **out, hyp_diag *diag);
HYP_API void hyp_egglog_destroy(hyp_egglog *db); /* NULL-safe */

/* Runs commands, which may use what earlier calls declared. `file` is named in messages, and (include "...") is relative to
 * its folder. Ends at the first command that fails, with the place in the message, and what the commands before did stays:
 *   HYP_ERR_MALFORMED    text that is no program: syntax, names, types, a rule with a variable that nothing binds
 *   HYP_ERR_UNSUPPORTED  a part of egglog that is not read, by its name
 *   HYP_ERR_MISMATCH     a check that does not hold, a (fail) whose command did not, a panic, a value that cannot be merged
 *   HYP_ERR_LIMIT        a limit of the options; the database can be used and run on
 *   HYP_ERR_CANCELLED    hyp_egglog_cancel */
HYP_API HYP_NODISCARD hyp_status hyp_egglog_run(hyp_egglog *db, const char *file, const char *text, size_t len,
                                                hyp_diag *diag);
/* Asks a running call, or else the next one, to stop soon. The request is spent by the call that it stops. Any thread, any
 * signal handler. */
HYP_API void hyp_egglog_cancel(hyp_egglog *db);

/* ---- values from and to C ------------------------------------------------------------------------- */

typedef enum hyp_egglog_kind {
    HYP_EGGLOG_UNIT,
    HYP_EGGLOG_BOOL,
    HYP_EGGLOG_I64,
    HYP_EGGLOG_F64,
    HYP_EGGLOG_STRING,
    HYP_EGGLOG_ID,       /* an e-class of a sort of the program */
    HYP_EGGLOG_CONTAINER /* a Vec, Set or Map: `id` is equal for equal ones */
} hyp_egglog_kind;

/* Programs make arrays of these: it never changes. */
typedef struct hyp_egglog_value {
    hyp_egglog_kind kind;
    union {
        bool boolean;
        int64_t i64;
        double f64;
        const char *string; /* UTF-8; borrowed */
        uint32_t id;        /* canonical after hyp_egglog_run */
    } as;
} hyp_egglog_value;

/* A function of the language written in C, for conditions, computed values and :merge. Arguments and *out have the kinds of
 * the sorts it is registered with. False: it has no value for these, and a match that asks does not hold (an action fails).
 * It must give the same value for the same arguments, and must not use the database. A string in *out is copied. */
typedef bool (*hyp_egglog_primitive_fn)(const hyp_egglog_value *args, size_t count, hyp_egglog_value *out, void *user);
/* Known to programs run afterwards, by a name that may have several forms with other argument sorts. Sorts are "Unit",
 * "bool", "i64", "f64" and "String". At most 8 arguments. */
HYP_API HYP_NODISCARD hyp_status hyp_egglog_register(hyp_egglog *db, const char *name, const char *const *argument_sorts,
                                                     size_t count, const char *sort, hyp_egglog_primitive_fn fn, void *user,
                                                     hyp_diag *diag);

/* Rows of a table that are not deleted; subsumed ones count. HYP_ERR_INVALID_ARGUMENT for a name that is none of a table. */
HYP_API HYP_NODISCARD hyp_status hyp_egglog_size(const hyp_egglog *db, const char *table, size_t *out, hyp_diag *diag);
/* Calls fn for each row, oldest change first: the key, then the value (of a relation Unit). A status other than HYP_OK ends
 * it and is what comes back. fn must not use the database. */
typedef hyp_status (*hyp_egglog_row_fn)(const hyp_egglog_value *columns, size_t count, bool subsumed, void *user,
                                        hyp_diag *diag);
HYP_API HYP_NODISCARD hyp_status hyp_egglog_rows(hyp_egglog *db, const char *table, hyp_egglog_row_fn fn, void *user,
                                                 hyp_diag *diag);

/* What the last (run) or (run-schedule) did. */
typedef struct hyp_egglog_report {
    size_t size;       /* sizeof(hyp_egglog_report), set by the caller */
    size_t iterations; /* of rulesets */
    size_t matches;    /* to which actions were applied */
    bool changed;
    double search_apply_seconds, rebuild_seconds;
} hyp_egglog_report;
HYP_API HYP_NODISCARD hyp_status hyp_egglog_last_run(const hyp_egglog *db, hyp_egglog_report *out, hyp_diag *diag);

#ifdef __cplusplus
}
#endif
#endif
