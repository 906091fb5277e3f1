/* db.h - the database behind an egglog program, shared by the files of this folder only.
 *
 *   sort        kinds of values; a value is 32 bits whose meaning is its column's sort
 *   function    a table with a key and one value: constructor (an e-class), function (merged), relation (Unit)
 *   row         columns and a stamp: rows are only appended, a change kills the row and appends another, so a table is
 * always in the order of its stamps and what is new since a search is its end index       rows by some columns, chained from
 * the newest to the oldest code        a rule's left and right side, flat: one instruction for each e-node, function and
 * primitive, over registers
 *
 * A search sees the rows below `limit`, which stay as they are while it runs: actions append, and what would kill a row that
 * the search may still read is staged until all rules of the iteration have been searched. */
#ifndef HYP_EGRAPH_EGGLOG_DB_H
#define HYP_EGRAPH_EGGLOG_DB_H

#include <stdatomic.h>

#include "base/sexpr.h"
#include "base/strbuf.h"
#include "hypatia/egglog.h"

#define HYP_EL_NONE UINT32_MAX
#define HYP_EL_DEAD UINT32_MAX      /* stamp of a row that is gone; its first column has the stamp that it had */
#define HYP_EL_SUBSUMED 0x80000000u /* in the stamp of a row */
#define HYP_EL_STAMP(s) ((s) & ~HYP_EL_SUBSUMED)
enum { HYP_EL_MAX_COLUMNS = 60 };

typedef uint32_t hyp_el_value;

/* ---- sorts ---------------------------------------------------------------------------------------- */

typedef enum hyp_el_sort_kind {
    HYP_EL_UNIT,
    HYP_EL_BOOL,
    HYP_EL_I64,
    HYP_EL_F64,
    HYP_EL_STRING, /* up to here the kind is the sort's number, too */
    HYP_EL_EQ,
    HYP_EL_VEC,
    HYP_EL_SET,
    HYP_EL_MAP
} hyp_el_sort_kind;

typedef struct hyp_el_sort {
    const char *name;
    hyp_el_sort_kind kind;
    uint32_t key, element; /* of a container: sorts; key of a Map only */
    bool ids;              /* a value is, or holds, ids */
} hyp_el_sort;

/* A container's words, from `start` in words_of: a Map has pairs, ascending by key; a Set ascends. */
typedef struct hyp_el_sequence {
    uint32_t sort, start, len;
} hyp_el_sequence;

/* ---- tables ---------------------------------------------------------------------------------------- */

typedef struct hyp_el_slot {
    uint32_t tag, row; /* row HYP_EL_NONE = empty; stale where the row is dead */
} hyp_el_slot;

typedef struct hyp_el_index {
    uint64_t columns;                            /* bit by column */
    uint32_t *head;                              /* by hash: newest row */
    uint32_t *next;                              /* by row: the next older one of the same hash */
    size_t head_count, head_cap, next_cap, seen; /* rows below are in it */
} hyp_el_index;

typedef struct hyp_el_table {
    uint32_t width; /* columns, the value being the last; a row has width + 1 words */
    uint32_t *rows;
    size_t count, cap; /* rows */
    size_t limit;      /* rows below are what a running search sees */
    size_t live;
    hyp_el_slot *slots; /* by key */
    size_t slot_count, slot_used, slot_cap;
    HYP_VEC(hyp_el_index) indexes;
} hyp_el_table;

/* ---- code ------------------------------------------------------------------------------------------ */

typedef enum hyp_el_op {
    HYP_EL_ATOM, /* left side: a row of a table; args are all its columns */
    HYP_EL_SAME, /* left side: two registers are equal */
    HYP_EL_PRIM, /* out = primitive(args) */
    HYP_EL_CALL, /* right side: out = constructor(args), made where it is not there; of a relation or function: looked up */
    HYP_EL_ASSIGN, /* right side: function(args but the last) = the last */
    HYP_EL_UNION,
    HYP_EL_DELETE,
    HYP_EL_SUBSUME,
    HYP_EL_PANIC /* target is a string */
} hyp_el_op;

typedef struct hyp_el_ins {
    hyp_el_op op;
    uint32_t target; /* function, primitive or string */
    uint32_t out, count, *args;
    uint32_t *sorts; /* PRIM: of the arguments, then of the result */
    const hyp_sexpr *at;
} hyp_el_ins;

typedef struct hyp_el_reg {
    const char *name; /* NULL for what a call gives */
    uint32_t sort;    /* HYP_EL_NONE = not known so far */
    uint32_t same;    /* itself, or the register that it is equal to */
    bool constant, bound;
    hyp_el_value value;
} hyp_el_reg;

typedef enum hyp_el_source { HYP_EL_FROM_ROWS, HYP_EL_FROM_INDEX, HYP_EL_FROM_KEY, HYP_EL_FROM_CODE } hyp_el_source;

typedef struct hyp_el_step {
    hyp_el_source source;
    const hyp_el_ins *ins;
    uint64_t known;          /* columns whose register stands for something already */
    uint64_t again;          /* columns whose register an earlier column of the same atom binds */
    bool delta;              /* the atom that the plan is of: only what changed, where not everything is new */
    bool old_only, bind_out; /* FROM_CODE: bind_out, else compare */
} hyp_el_step;

/* The steps of a search for what one atom has new. Before it come rows whose key is constant; of a rule without atoms there
 * is one plan without it. */
typedef struct hyp_el_plan {
    hyp_el_step *steps;
    uint32_t count;
} hyp_el_plan;

/* A left side and a right side, either of which may be empty. */
typedef struct hyp_el_code {
    hyp_el_ins *body, *head;
    uint32_t body_count, head_count, atom_count; /* atoms come first in the body */
    hyp_el_value *init;                          /* by register: constants are there before anything runs */
    uint32_t reg_count, result;
    uint32_t result_sort;
    hyp_el_plan *plans; /* atom_count, at least one */
} hyp_el_code;

/* ---- what a program declares ------------------------------------------------------------------------ */

typedef enum hyp_el_function_kind {
    HYP_EL_CONSTRUCTOR,
    HYP_EL_FUNCTION,
    HYP_EL_RELATION,
    HYP_EL_GLOBAL
} hyp_el_function_kind;

typedef struct hyp_el_function {
    const char *name;
    hyp_el_function_kind kind;
    uint32_t *sorts, arity; /* arity + 1 sorts */
    double cost;
    bool unextractable, ids; /* ids: a column is, or holds, ids */
    hyp_el_code *merge;      /* registers 0 and 1 are old and new; NULL: see no_merge */
    bool no_merge;           /* values that differ are an error; else of a constructor the union, of others the old one */
    hyp_el_table table;
} hyp_el_function;

typedef struct hyp_el_rule {
    const char *name;
    uint32_t ruleset;
    hyp_el_code *code;
    uint32_t since; /* rows with a stamp below were there at its last search */
} hyp_el_rule;

typedef struct hyp_el_ruleset {
    const char *name;
    HYP_VEC(uint32_t) rules; /* of a combined one: empty */
    HYP_VEC(uint32_t) parts; /* rulesets */
} hyp_el_ruleset;

typedef struct hyp_el_call {
    hyp_egglog *db;
    const hyp_el_value *args;
    uint32_t count;
    const uint32_t *sorts; /* of the arguments, then of the result */
    void *user;
    hyp_diag *diag;
} hyp_el_call;
/* *out_holds false: no value. A failing status ends everything. */
typedef hyp_status (*hyp_el_prim_fn)(const hyp_el_call *call, hyp_el_value *out, bool *out_holds);

typedef struct hyp_el_prim {
    const char *name;
    const char *args; /* a character each: see primitive.c; the last one repeated any number of times if `variadic` */
    char result;
    bool variadic;
    hyp_el_sort_kind container; /* where a character says container */
    hyp_el_prim_fn fn;
    void *user;
} hyp_el_prim;

/* ---- the database ------------------------------------------------------------------------------------ */

/* What a name stands for: names of sorts and rulesets are apart from those of functions. */
typedef struct hyp_el_name {
    uint32_t sort, function, ruleset;
} hyp_el_name;

typedef struct hyp_el_staged {
    hyp_el_op op; /* ASSIGN, DELETE, SUBSUME */
    uint32_t function;
    size_t at; /* in staged_words: the key, and of ASSIGN the value */
} hyp_el_staged;

struct hyp_el_saved;

struct hyp_egglog {
    hyp_egglog_options options;
    hyp_arena arena; /* what is declared; lives as long as the database */

    hyp_intern names;
    HYP_VEC(hyp_el_name) named; /* by name */
    HYP_VEC(hyp_el_sort) sorts;
    HYP_VEC(hyp_el_function) functions;
    HYP_VEC(hyp_el_ruleset) rulesets; /* 0 is "" */
    HYP_VEC(hyp_el_rule) rules;
    HYP_VEC(hyp_el_prim) prims; /* registered in C */

    hyp_intern strings;
    HYP_VEC(uint64_t) words; /* f64 and i64 that are no small integers */
    uint32_t *word_slots;    /* index + 1 */
    size_t word_slot_count;
    HYP_VEC(hyp_el_sequence) sequences;
    HYP_VEC(uint32_t) words_of;
    uint32_t *sequence_slots;
    size_t sequence_slot_count;

    HYP_VEC(uint32_t) parent; /* union-find by id: the older one wins, but for what a rebuild chooses */
    HYP_VEC(uint32_t) dirty;  /* ids that lost a union since the last rebuild */
    HYP_VEC(uint32_t) mended; /* functions whose rows the rebuild under way looks at */

    uint32_t epoch;
    uint64_t changes; /* counts them */
    bool searching;   /* what kills rows is staged */
    HYP_VEC(hyp_el_staged) staged;
    HYP_VEC(uint32_t) staged_words;
    HYP_VEC(uint32_t) regs; /* of code that runs; a stack */

    size_t live, bytes;
    double deadline; /* of the running call, 0 = none */
    uint32_t ticks;
    atomic_bool cancel;
    hyp_egglog_report report;
    struct hyp_el_saved *saved; /* the last push first */
    uint32_t include_depth;
};

/* ---- value.c ------------------------------------------------------------------------------------------ */

HYP_NODISCARD hyp_status hyp_el_i64(hyp_egglog *db, int64_t i, hyp_el_value *out, hyp_diag *diag);
int64_t hyp_el_get_i64(const hyp_egglog *db, hyp_el_value v);
HYP_NODISCARD hyp_status hyp_el_f64(hyp_egglog *db, double f, hyp_el_value *out, hyp_diag *diag);
double hyp_el_get_f64(const hyp_egglog *db, hyp_el_value v);
HYP_NODISCARD hyp_status hyp_el_string(hyp_egglog *db, const char *text, size_t len, hyp_el_value *out, hyp_diag *diag);
static inline const char *hyp_el_get_string(const hyp_egglog *db, hyp_el_value v) { return db->strings.names.data[v]; }
/* A container of words that are in its canonical order already. */
HYP_NODISCARD hyp_status hyp_el_sequence_of(hyp_egglog *db, uint32_t sort, const uint32_t *words, size_t len,
                                            hyp_el_value *out, hyp_diag *diag);
static inline const uint32_t *hyp_el_words(const hyp_egglog *db, hyp_el_value v, uint32_t *out_len)
{
    *out_len = db->sequences.data[v].len;
    return *out_len ? db->words_of.data + db->sequences.data[v].start : NULL; /* while all are empty there are no words */
}
/* Puts the words of a container into its canonical order, without doubles in a Set; of a Map the last of equal keys stays.
 * Gives the new length. */
uint32_t hyp_el_normalize(hyp_el_sort_kind kind, uint32_t *words, uint32_t len);
/* The value with canonical ids. */
HYP_NODISCARD hyp_status hyp_el_canonical(hyp_egglog *db, uint32_t sort, hyp_el_value v, hyp_el_value *out, hyp_diag *diag);
/* A literal as the language writes it; not for ids and containers. */
void hyp_el_print_literal(const hyp_egglog *db, uint32_t sort, hyp_el_value v, hyp_strbuf *sb);
void hyp_el_dispose_values(hyp_egglog *db);

static inline uint32_t hyp_el_find(hyp_egglog *db, uint32_t id)
{
    uint32_t *parent = db->parent.data;
    while (parent[id] != id) {
        parent[id] = parent[parent[id]];
        id = parent[id];
    }
    return id;
}

/* ---- table.c ------------------------------------------------------------------------------------------ */

/* Grows an array of the database that may become large, held against max_bytes. */
HYP_NODISCARD hyp_status hyp_el_grow(hyp_egglog *db, void *array, size_t *cap, size_t want, size_t elem, hyp_diag *diag);

static inline uint32_t *hyp_el_row(const hyp_el_table *t, size_t row) { return t->rows + row * (t->width + 1); }
static inline uint32_t *hyp_el_stamp(const hyp_el_table *t, size_t row) { return hyp_el_row(t, row) + t->width; }
/* The live row with this key, or HYP_EL_NONE. */
uint32_t hyp_el_lookup(const hyp_el_table *t, const uint32_t *key);
/* Appends a row whose key is not there. `columns` may point into the table. */
HYP_NODISCARD hyp_status hyp_el_append(hyp_egglog *db, hyp_el_table *t, const uint32_t *columns, uint32_t stamp,
                                       hyp_diag *diag);
void hyp_el_kill(hyp_egglog *db, hyp_el_table *t, uint32_t row);
/* The first row that changed in `epoch` or later. */
size_t hyp_el_since(const hyp_el_table *t, uint32_t epoch);
/* The index of these columns with every row in it. */
HYP_NODISCARD hyp_status hyp_el_index_of(hyp_egglog *db, hyp_el_table *t, uint64_t columns, uint32_t *out, hyp_diag *diag);
/* The newest row that may have the values `row` has in the columns of an index; the next older ones by next[]. */
uint32_t hyp_el_index_head(const hyp_el_index *x, const uint32_t *row);
/* Lets go of dead rows where there are many. */
HYP_NODISCARD hyp_status hyp_el_compact(hyp_egglog *db, hyp_el_table *t, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_copy_table(hyp_egglog *db, const hyp_el_table *from, hyp_el_table *to, hyp_diag *diag);
void hyp_el_dispose_table(hyp_egglog *db, hyp_el_table *t);

/* ---- database.c: names, ids, changes, rebuilding ------------------------------------------------------- */

HYP_NODISCARD hyp_status hyp_el_name_of(hyp_egglog *db, const char *text, uint32_t *out, hyp_diag *diag);
/* What a name stands for, HYP_EL_NONE where it stands for nothing of that kind. */
uint32_t hyp_el_sort_named(const hyp_egglog *db, const char *name);
uint32_t hyp_el_function_named(const hyp_egglog *db, const char *name);
uint32_t hyp_el_ruleset_named(const hyp_egglog *db, const char *name);
HYP_NODISCARD hyp_status hyp_el_new_id(hyp_egglog *db, hyp_el_value *out, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_unite(hyp_egglog *db, uint32_t a, uint32_t b, hyp_diag *diag);
/* Sets a function's value at a key, merging it with the one that is there; columns are the key and the value. */
HYP_NODISCARD hyp_status hyp_el_put(hyp_egglog *db, uint32_t function, const uint32_t *columns, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_remove(hyp_egglog *db, uint32_t function, const uint32_t *key, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_subsume(hyp_egglog *db, uint32_t function, const uint32_t *key, hyp_diag *diag);
/* Carries out what was staged. */
HYP_NODISCARD hyp_status hyp_el_settle(hyp_egglog *db, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_rebuild(hyp_egglog *db, hyp_diag *diag);
/* Time, rows and cancelling; tick looks now and then. */
HYP_NODISCARD hyp_status hyp_el_check_limits(hyp_egglog *db, hyp_diag *diag);
static inline hyp_status hyp_el_tick(hyp_egglog *db, hyp_diag *diag)
{
    enum { EVERY = 4096 };
    return ++db->ticks % EVERY ? HYP_OK : hyp_el_check_limits(db, diag);
}
double hyp_el_now(void);

HYP_NODISCARD hyp_status hyp_el_push(hyp_egglog *db, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_pop(hyp_egglog *db, hyp_diag *diag);
void hyp_el_discard_saved(hyp_egglog *db);

/* ---- primitive.c, containers.c --------------------------------------------------------------------------- */

/* The primitives of the language that have a name: from *at on; HYP_EL_NONE at the end. */
uint32_t hyp_el_next_prim(const hyp_egglog *db, const char *name, uint32_t *at);
const hyp_el_prim *hyp_el_prim_at(const hyp_egglog *db, uint32_t prim);
extern const hyp_el_prim hyp_el_builtin_prims[];
extern const uint32_t hyp_el_builtin_prim_count;
extern const hyp_el_prim hyp_el_container_prims[];
extern const uint32_t hyp_el_container_prim_count;

/* ---- lower.c ------------------------------------------------------------------------------------------- */

/* From text to code. Begin, then facts, then actions or an expression, then finish. */
typedef struct hyp_el_lower {
    hyp_egglog *db;
    const char *file;
    hyp_diag *diag;
    HYP_VEC(hyp_el_reg) regs;
    HYP_VEC(hyp_el_ins) body, head;
    hyp_arena *arena; /* of the code: the database's, or `scratch` for code that runs once */
    hyp_arena scratch;
    bool in_head;
    bool may_look_up;     /* actions may read functions: at the top, not in rules */
    const char *for_what; /* "rule NAME", for messages */
} hyp_el_lower;

/* `once`: the code lives as long as the lowering. */
void hyp_el_lower_begin(hyp_el_lower *l, hyp_egglog *db, const char *file, bool once, hyp_diag *diag);
void hyp_el_lower_dispose(hyp_el_lower *l);
HYP_NODISCARD hyp_status hyp_el_lower_fact(hyp_el_lower *l, const hyp_sexpr *fact);
/* An expression of the side that the lowering is on; *out is its register. */
HYP_NODISCARD hyp_status hyp_el_lower_expr(hyp_el_lower *l, const hyp_sexpr *sx, uint32_t *out);
/* Ends the left side: all that the right side may use is known then. */
HYP_NODISCARD hyp_status hyp_el_lower_turn(hyp_el_lower *l);
HYP_NODISCARD hyp_status hyp_el_lower_action(hyp_el_lower *l, const hyp_sexpr *action);
/* States that a register is of a sort. */
HYP_NODISCARD hyp_status hyp_el_lower_expect(hyp_el_lower *l, uint32_t reg, uint32_t sort, const hyp_sexpr *at);
HYP_NODISCARD hyp_status hyp_el_lower_reg(hyp_el_lower *l, const char *name, uint32_t sort, uint32_t *out);
HYP_NODISCARD hyp_status hyp_el_lower_emit(hyp_el_lower *l, hyp_el_op op, uint32_t target, const uint32_t *args,
                                           uint32_t count, uint32_t out, const hyp_sexpr *at);
/* The union of two registers whose sorts are known. */
HYP_NODISCARD hyp_status hyp_el_lower_unite(hyp_el_lower *l, const uint32_t pair[2], const hyp_sexpr *at,
                                            const hyp_sexpr *second);
static inline uint32_t hyp_el_reg_of(const hyp_el_lower *l, uint32_t reg)
{
    while (l->regs.data[reg].same != reg) reg = l->regs.data[reg].same;
    return reg;
}
/* The code. `result` may be HYP_EL_NONE. */
HYP_NODISCARD hyp_status hyp_el_lower_finish(hyp_el_lower *l, uint32_t result, hyp_el_code **out);

/* ---- infer.c, plan.c ---------------------------------------------------------------------------------------- */

/* Finds the sorts of registers and the forms of primitives of instructions from `from` on. */
HYP_NODISCARD hyp_status hyp_el_infer(hyp_el_lower *l, hyp_el_ins *ins, size_t count);
HYP_NODISCARD hyp_status hyp_el_make_plans(hyp_el_lower *l, hyp_el_code *code);

/* ---- search.c, act.c ---------------------------------------------------------------------------------------- */

/* Called for a match; *out_stop ends the search. */
typedef hyp_status (*hyp_el_match_fn)(hyp_egglog *db, const hyp_el_code *code, uint32_t *regs, void *user, bool *out_stop,
                                      hyp_diag *diag);
/* Every match of which a row changed in `since` or later. */
HYP_NODISCARD hyp_status hyp_el_search(hyp_egglog *db, const hyp_el_code *code, uint32_t since, bool subsumed_too,
                                       hyp_el_match_fn fn, void *user, hyp_diag *diag);
/* Runs the right side on a match. */
HYP_NODISCARD hyp_status hyp_el_act(hyp_egglog *db, const hyp_el_code *code, uint32_t *regs, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_el_call_prim(hyp_egglog *db, const hyp_el_ins *ins, const uint32_t *regs, hyp_el_value *out,
                                          bool *out_holds, hyp_diag *diag);
/* Runs code without a left side from its constants; *out is its result. */
HYP_NODISCARD hyp_status hyp_el_evaluate(hyp_egglog *db, const hyp_el_code *code, const uint32_t *given,
                                         uint32_t given_count, hyp_el_value *out, hyp_diag *diag);

/* ---- declare.c, command.c, schedule.c, extract.c --------------------------------------------------------------- */

typedef struct hyp_el_reader {
    hyp_egglog *db;
    const char *file;
    hyp_diag *diag;
} hyp_el_reader;
/* *out_known false: the form is no command of these. */
HYP_NODISCARD hyp_status hyp_el_declare(hyp_el_reader *r, const hyp_sexpr *form, bool *out_known);
HYP_NODISCARD hyp_status hyp_el_command(hyp_el_reader *r, const hyp_sexpr *form);
HYP_NODISCARD hyp_status hyp_el_add_function(hyp_el_reader *r, const hyp_el_function *f, const hyp_sexpr *at, uint32_t *out);
HYP_NODISCARD hyp_status hyp_el_run_command(hyp_el_reader *r, const hyp_sexpr *form, bool *out_known);
/* Whether facts have a match. */
HYP_NODISCARD hyp_status hyp_el_holds(hyp_el_reader *r, hyp_sexpr *const *facts, uint32_t count, bool *out);
HYP_NODISCARD hyp_status hyp_el_extract(hyp_el_reader *r, const hyp_sexpr *form);
HYP_NODISCARD hyp_status hyp_el_print_function(hyp_el_reader *r, const hyp_sexpr *form);
void hyp_el_write(hyp_egglog *db, const char *text, size_t len);

#endif
