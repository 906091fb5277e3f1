/* state.h - the data of an e-graph, shared by the files of this folder only.
 *
 *   symbol --+                         +--> log: rows of the operator in order of last change
 *            +--> operator = (symbol, arity) --+
 *   row (= e-node) --> operator, child classes, class        index: class --> its rows, rows that use it
 *   class = the id of one of its rows; parent[] is the union-find over ids
 *
 * Every e-node has its own id, and a class is named by an e-node in it, the oldest as a rule, so one id space serves
 * both. Rows are 16 bytes in one array; arrays that only some phases read lie beside it. Matching reads a
 * snapshot: between two rebuilds the rows below `linked`, the logs and the index do not change, whatever is
 * added or united meanwhile.
 */
#ifndef HYP_EGRAPH_CORE_STATE_H
#define HYP_EGRAPH_CORE_STATE_H

#include <stdatomic.h>
#include <string.h>

#include "base/strbuf.h"
#include "egraph/core/index.h"
#include "hypatia/egraph.h"

#define HYP_ROW_DEAD 0x80000000u /* in hyp_row.op: congruent to an older row, out of every index */
enum { HYP_ROW_ARRAYS = 5, HYP_POOL_ARRAYS = 3 };
enum { HYP_BUCKET_ROWS = 12, HYP_BUCKET_WIDTH = 16 }; /* of the hash-cons: slots are named bucket * width + place */
#define HYP_SLOT_POOL 0x80000000u
#define HYP_ROW_LIMIT (UINT32_C(1) << 30) /* a child slot of a row is named by 31 bits */

typedef struct hyp_row {
    uint32_t op;     /* operator id, and HYP_ROW_DEAD */
    uint32_t kid[2]; /* arity <= 2: the child classes, HYP_NONE beyond the arity; else kid[0] is an offset in pool */
    uint32_t home;   /* its class at the last rebuild; of a newer row, at its creation; of a dead row, stale */
} hyp_row;

/* log[pos .. next mark) was written in this epoch. */
typedef struct hyp_mark {
    uint32_t epoch, pos;
} hyp_mark;

typedef struct hyp_op {
    hyp_symbol symbol;
    uint32_t arity;
    uint32_t next_op;        /* next operator of the same symbol, HYP_NONE at the end */
    uint32_t live;           /* rows that are not dead */
    uint32_t fresh, next_fresh; /* of hyp_eg_link; `fresh` is 0 outside of it */
    uint32_t logged_at;         /* 1 more than its place in hyp_egraph.logged; 0: it is not in it */
    HYP_VEC(uint32_t) log;   /* an entry counts while its epoch is the row's stamp and the row is not dead */
    HYP_VEC(hyp_mark) marks; /* epochs strictly ascend */
} hyp_op;

typedef struct hyp_bucket {
    uint8_t tag[HYP_BUCKET_WIDTH]; /* of the hash; 0 = empty, as those behind it are. The last four are not used */
    uint32_t row[HYP_BUCKET_ROWS]; /* stale if it is dead or its hash is another by now */
} hyp_bucket;
_Static_assert(sizeof(hyp_bucket) == 64, "a bucket is a line of the cache");

typedef struct hyp_callback {
    bool is_condition;
    int arity; /* < 0: any */
    hyp_condition_fn condition;
    hyp_function_fn function;
    void *user;
    bool final; /* a condition's no is for good: see hyp_egraph_make_final */
} hyp_callback;

/* What applications say of themselves: the rule as in hyp_rule_applied, and the index of the union in it; how many numbers
 * their records have, and which of them are the two sides of the union. */
typedef struct hyp_app_kind {
    uint32_t ruleset, rule, action;
    uint32_t count, end[2];
} hyp_app_kind;

/* The children that a row of at most two was given, where they are not those that stand in it. */
typedef struct hyp_given_kids {
    uint32_t row, kid[2];
} hyp_given_kids;

/* Rows from `row` on, as far as the next one says, were made by applications whose records begin at `app` or later. */
typedef struct hyp_milestone {
    uint32_t row, app;
} hyp_milestone;

/* What options.explain keeps. By row, of the capacity of the rows. */
typedef struct hyp_proofs {
    uint32_t *pool;       /* beside hyp_egraph.pool: the children as they were given */
    uint32_t *edge;       /* proof forest, same class <=> same tree: place in `apps` of what joins the row to its parent,
                             HYP_NONE at a root: see record.h */
    uint64_t *is_made;    /* bit by row: by an application, not by the caller or an analysis */
    uint64_t *is_changed; /* bit by row of at most two children: `given` has them as they were given */
    HYP_VEC(hyp_given_kids) given; /* by row when `sorted`, else as they came */
    size_t sorted;                 /* of them are in order */
    HYP_VEC(hyp_milestone) milestones;
    HYP_VEC(uint8_t) apps; /* records: see record.h */
    HYP_VEC(hyp_app_kind) kinds;
    hyp_arena told; /* what hyp_egraph_origin has told since the version told_at */
    uint64_t told_at;
    struct hyp_router *routes; /* of the last proof, for the next one while nothing changes; NULL */
    uint64_t routes_at;        /* version; and the length of `apps` */
    size_t routes_apps;
} hyp_proofs;

/* What a row was like before it was changed; see hyp_undo. */
#define HYP_KEPT_KIDS 0x80000000u /* in `id`: its children in the pool are kept, too */
typedef struct hyp_kept_row {
    uint32_t id, mark; /* hyp_egraph.kept_since before */
    uint32_t parent, stamp;
    hyp_row row;
} hyp_kept_row;

/* How the rows of the state that a pop goes back to were: each before its first change since the push, so that a push costs
 * what changes after it. What only grows needs no more than its length. undo.c, and rules/snapshot.c for the rest. */
typedef struct hyp_undo {
    HYP_VEC(hyp_kept_row) rows; /* in order of time; to be put back from the last one on */
    HYP_VEC(uint32_t) kids;
    HYP_VEC(uint32_t) roots; /* of trees of proofs, which are roots no more */
    size_t promised;         /* room in `rows` that is left for those that lose a union */
} hyp_undo;

struct hyp_ruleset;
struct hyp_sorts;

struct hyp_egraph {
    hyp_intern symbols;
    HYP_VEC(uint32_t) first_op; /* by symbol: its newest operator, HYP_NONE if none */
    HYP_VEC(hyp_op) ops;
    HYP_VEC(uint32_t) logged; /* operators whose logs may hold something: of what a pop has taken back many have none */

    hyp_row *rows;
    uint32_t *parent; /* union-find by id: the older id wins, unless it stands for much less: see rebuild.c */
    uint32_t *stamp;  /* by row below `linked`: epoch in which it was made, or its class or a child last changed */
    uint64_t *moved;  /* bit by id: the class lost a union and live rows may still name it */
    size_t row_count, row_cap;
    size_t row_sizes[HYP_ROW_ARRAYS]; /* of the arrays by row: row_cap, or more after a failure */
    size_t linked;                    /* rows below are in the logs */
    size_t live_count;                /* rows that are not dead */
    size_t class_count;               /* union-find roots */

    uint32_t *pool;     /* children of rows of arity > 2 */
    uint32_t *pool_row; /* beside it: the owner */
    size_t pool_len, pool_cap, pool_sizes[HYP_POOL_ARRAYS];

    hyp_bucket *buckets; /* hash-cons of the live rows, keyed by operator and children as stored: table.h */
    size_t bucket_count;
    size_t slot_used;    /* not empty */
    hyp_index index;

    HYP_VEC(uint32_t) pending; /* classes that lost a union and that live rows may still name */
    bool names_are_young; /* rows may be older than the names of classes that they are in or use; for good, once one is */
    uint32_t epoch;
    uint64_t version; /* counts changes: new rows, unions, facts */

    hyp_analysis analysis; /* data_size 0 = none */
    unsigned char *facts;  /* by class, data_size each */
    unsigned char *fact_scratch;
    size_t joined;             /* of rows below, the class knows the fact */
    HYP_VEC(uint32_t) remake;  /* rows whose fact must be made anew */
    HYP_VEC(uint32_t) changed; /* classes whose fact changed: their users are to be made anew. Each once: see `told` */
    uint64_t *told;            /* bit by class: it is in `changed` */
    size_t shown;              /* the classes of rows from here on are to be shown to analysis.modify, */
    HYP_VEC(uint32_t) modify;  /* and then these, whose facts changed */
    size_t remake_done, modify_done;

    bool explain, explain_all;
    hyp_proofs proofs;
    const struct hyp_word_list *word_lists; /* that rules may name, or NULL */
    struct hyp_ruleset *rulesets; /* all that were parsed and not yet freed */
    uint32_t ruleset_count;       /* parsed so far */

    struct hyp_sorts *sorts; /* NULL: nothing is declared */

    hyp_intern callback_names; /* ids index callbacks */
    HYP_VEC(hyp_callback) callbacks;

    /* Views of classes for hyp_egraph_class_nodes: see view.c. */
    struct {
        uint32_t *start, *list; /* valid while version == at */
        uint64_t at;
        size_t gathered;      /* work since, on classes that were listed by themselves */
        uint64_t gathered_at; /* version */
        HYP_VEC(uint32_t) first, next; /* by id: classes and rows united since the last rebuild, as a forest */
        HYP_VEC(uint32_t) parents;     /* of it: where `first` is to be cleared, which would take as long as it is else */
        HYP_VEC(uint32_t) found;
        size_t pending_seen, rows_seen;
        hyp_arena arena;
    } view;

    struct hyp_saved *saved; /* states to go back to, the last first: snapshot.c */
    hyp_undo undo;           /* to the last */
    uint32_t frozen, frozen_epoch; /* rows and entries of logs of the last: their bounds. 0: there is none */
    uint32_t *kept_since;    /* by row below `frozen`: the push since which it is kept, times 2, and 1 if its kids are */
    size_t kept_cap;
    uint32_t pushes;         /* number of the last one, below 2^31 */
    void (*renumbered)(hyp_egraph *eg, const hyp_renumbering *now, void *user); /* NULL: ids stay what they are */
    void *renumbered_user;
    size_t dead_kept; /* dead rows that the last look for them had to leave, or has not been made since a pop */

    bool busy;                   /* a rebuild or a search is under way: neither may start again */
    bool showing;                /* inside analysis.modify: no search reads the index meanwhile */
    bool making;                 /* inside analysis.make: one row is half there */
    unsigned running;            /* calls under way, as a saturation, also between its searches, that use its rulesets */
    const char *reader;          /* the callback under way that may only read, as messages name it; NULL: none is */
    bool rebuilding;             /* growth is not held against max_bytes: a rebuild must end */
    size_t max_nodes, max_bytes; /* of the running saturation, 0 = none */
    hyp_stop limit_hit;          /* HYP_STOP_NODES or _MEMORY after an HYP_ERR_LIMIT of ours, _TIME or _CANCELLED after a
                                    rebuild that `poll` cut, else _SATURATED */
    hyp_stop (*poll)(void *user); /* of the running saturation: why it is to end now, else _SATURATED; NULL = none runs */
    void *poll_user;
    size_t bytes, peak_bytes;    /* held by the arrays above */
    atomic_bool cancel;
};

/* ---- reading ------------------------------------------------------------------------------------ */

/* hyp_eg_find of what is two steps or more from its root. */
uint32_t hyp_eg_find_far(hyp_egraph *eg, uint32_t c);

static inline uint32_t hyp_eg_find(hyp_egraph *eg, uint32_t c)
{
    uint32_t up = eg->parent[c];
    return eg->parent[up] == up ? up : hyp_eg_find_far(eg, c);
}

static inline bool hyp_row_dead(const hyp_egraph *eg, uint32_t row) { return eg->rows[row].op & HYP_ROW_DEAD; }
static inline uint32_t hyp_row_op(const hyp_egraph *eg, uint32_t row) { return eg->rows[row].op & ~HYP_ROW_DEAD; }

static inline bool hyp_eg_analysed(const hyp_egraph *eg) { return eg->analysis.data_size || eg->analysis.modify; }

/* The children of a row, where they are stored. */
static inline uint32_t *hyp_row_kids(hyp_egraph *eg, uint32_t row, uint32_t *out_count)
{
    hyp_row *r = &eg->rows[row];
    uint32_t n = *out_count = eg->ops.data[r->op & ~HYP_ROW_DEAD].arity;
    return n <= 2 ? r->kid : eg->pool + r->kid[0];
}

/* The class of a row, and the class that a class of the last rebuild is part of by now: hyp_eg_find, without a
 * look at the union-find where nothing happened. */
static inline bool hyp_eg_marked(const uint64_t *bits, uint32_t c) { return bits[c >> 6] >> (c & 63) & 1; }
static inline void hyp_eg_mark(uint64_t *bits, uint32_t c, bool on)
{
    bits[c >> 6] = (bits[c >> 6] & ~(UINT64_C(1) << (c & 63))) | (uint64_t)on << (c & 63);
}
static inline bool hyp_moved(const hyp_egraph *eg, uint32_t c) { return hyp_eg_marked(eg->moved, c); }
static inline void hyp_eg_unsettle_class(hyp_egraph *eg, uint32_t c) { hyp_eg_mark(eg->moved, c, true); }
static inline void hyp_eg_settle_class(hyp_egraph *eg, uint32_t c) { hyp_eg_mark(eg->moved, c, false); }
static inline uint32_t hyp_eg_now(hyp_egraph *eg, uint32_t c) { return hyp_moved(eg, c) ? hyp_eg_find(eg, c) : c; }

/* A child slot is named row*2+j, or HYP_SLOT_POOL | index in the pool: the row that owns it, and which child it is. */
static inline uint32_t hyp_slot_row(const hyp_egraph *eg, uint32_t slot)
{
    return slot & HYP_SLOT_POOL ? eg->pool_row[slot & ~HYP_SLOT_POOL] : slot >> 1;
}
static inline uint32_t hyp_slot_place(const hyp_egraph *eg, uint32_t slot)
{
    if (!(slot & HYP_SLOT_POOL)) return slot & 1;
    uint32_t index = slot & ~HYP_SLOT_POOL;
    return index - eg->rows[eg->pool_row[index]].kid[0];
}
static inline uint32_t hyp_row_slot(const hyp_egraph *eg, uint32_t row, uint32_t j)
{
    const hyp_row *r = &eg->rows[row];
    return eg->ops.data[r->op & ~HYP_ROW_DEAD].arity <= 2 ? 2 * row + j : HYP_SLOT_POOL | (r->kid[0] + j);
}
/* The class in a child slot. */
static inline const uint32_t *hyp_slot_kid(const hyp_egraph *eg, uint32_t slot)
{
    return slot & HYP_SLOT_POOL ? &eg->pool[slot & ~HYP_SLOT_POOL] : &eg->rows[slot >> 1].kid[slot & 1];
}

static inline void *hyp_fact(hyp_egraph *eg, uint32_t c) { return eg->facts + (size_t)c * eg->analysis.data_size; }
/* Whether two facts are surely the same: byte by byte. Small ones are compared here, as there are many. */
static inline bool hyp_same_fact(const hyp_egraph *eg, const void *a, const void *b)
{
    enum { WORD = sizeof(uint64_t) };
    const unsigned char *x = a, *y = b;
    size_t size = eg->analysis.data_size;
    uint64_t v, w;
    if (size < WORD) {
        while (size && x[size - 1] == y[size - 1]) size--;
        return size == 0;
    }
    memcpy(&v, x, WORD);
    memcpy(&w, y, WORD);
    if (v != w || size > 2 * WORD) return v == w && memcmp(x, y, size) == 0;
    memcpy(&v, x + size - WORD, WORD);
    memcpy(&w, y + size - WORD, WORD);
    return v == w;
}

/* Before and after a callback that may only read: what would change the e-graph meanwhile is refused. */
static inline const char *hyp_eg_begin_reading(hyp_egraph *eg, const char *callback)
{
    const char *outer = eg->reader;
    eg->reader = callback;
    return outer;
}
static inline void hyp_eg_end_reading(hyp_egraph *eg, const char *outer) { eg->reader = outer; }
#define HYP_READER_MAKE "an analysis' make (terms are added in modify)"
#define HYP_READER_MERGE "an analysis' merge"
/* HYP_ERR_INVALID_ARGUMENT inside a callback that may only read. */
HYP_NODISCARD hyp_status hyp_eg_may_change(const hyp_egraph *eg, hyp_diag *diag);
/* The same inside any callback but hyp_egraph_run_options.hook: `what` is what was called. */
HYP_NODISCARD hyp_status hyp_eg_may_rebuild(const hyp_egraph *eg, const char *what, hyp_diag *diag);
/* Whether something of this e-graph is in use by a call under way: what is destroyed then goes with the e-graph. */
static inline bool hyp_eg_in_use(const hyp_egraph *eg) { return eg->busy || eg->running || eg->reader; }

/* ---- store.c: growth, operators, nodes ------------------------------------------------------------- */

/* The operator id of (symbol, arity), made when it is new. */
HYP_NODISCARD hyp_status hyp_eg_op(hyp_egraph *eg, hyp_symbol symbol, uint32_t arity, uint32_t *out, hyp_diag *diag);
/* The same without making it; HYP_NONE if there is none. */
static inline uint32_t hyp_eg_op_find(const hyp_egraph *eg, hyp_symbol symbol, uint32_t arity)
{
    uint32_t op = symbol < eg->first_op.len ? eg->first_op.data[symbol] : HYP_NONE;
    while (op != HYP_NONE && eg->ops.data[op].arity != arity) op = eg->ops.data[op].next_op;
    return op;
}

/* Adds or finds an e-node. `kids` need not be canonical; `into` is a canonical class that a new row joins
 * at once (the next rebuild joins the facts), or HYP_NONE for a class of its own. *out is the row. Fails with
 * HYP_ERR_LIMIT and limit_hit set where the run's limits would be passed. */
HYP_NODISCARD hyp_status hyp_eg_add(hyp_egraph *eg, uint32_t op, const uint32_t *kids, uint32_t into, uint32_t *out,
                                    bool *out_created, hyp_diag *diag);
/* The live row with this operator and these canonical children, or HYP_NONE. */
uint32_t hyp_eg_lookup(hyp_egraph *eg, uint32_t op, const uint32_t *kids);

/* Makes two classes one, with an edge between the e-nodes a and b in the proof forest. */
HYP_NODISCARD hyp_status hyp_eg_union(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why, bool *out_changed,
                                      hyp_diag *diag);
/* Room for one more union, so that the next hyp_eg_union_reserved cannot fail. */
HYP_NODISCARD hyp_status hyp_eg_reserve_union(hyp_egraph *eg, hyp_diag *diag);
bool hyp_eg_union_reserved(hyp_egraph *eg, uint32_t a, uint32_t b, uint32_t why);

/* Room for `count` more rows of arity <= 2, so that making them does not want memory: HYP_ERR_LIMIT, with limit_hit set, if
 * the limits of the run do not allow it. */
HYP_NODISCARD hyp_status hyp_eg_reserve_rows(hyp_egraph *eg, size_t count, hyp_diag *diag);
/* Whether so many buckets are enough for rows that live, stale slots among those that are used. */
static inline bool hyp_slots_do(size_t live, size_t used, size_t buckets)
{
    size_t slots = buckets * HYP_BUCKET_ROWS;
    return live * 10 < slots * 7 && used * 10 < slots * 9;
}
/* Whether there is room already, as there mostly is. */
static inline bool hyp_eg_has_room(const hyp_egraph *eg, size_t count)
{
    size_t live = eg->live_count + count, used = eg->slot_used + count;
    bool given = !eg->explain || eg->proofs.given.len + count <= eg->proofs.given.cap;
    return (!eg->max_nodes || live <= eg->max_nodes) && eg->row_count + count <= eg->row_cap && given &&
           hyp_slots_do(live, used, eg->bucket_count);
}
/* A row that is to be made. */
typedef struct hyp_new_row {
    uint32_t op, kid[2];   /* as in hyp_row, canonical; not in the table */
    const uint32_t *given; /* the children as they were given, for proofs */
    uint32_t into;         /* as for hyp_eg_add */
    uint32_t hash;
    size_t slot; /* the empty one for it */
} hyp_new_row;
/* Makes a row for which there is room. Fails only where the analysis does. */
HYP_NODISCARD hyp_status hyp_eg_new_row(hyp_egraph *eg, const hyp_new_row *row, uint32_t *out, hyp_diag *diag);
/* Has the analysis look at the row that was made last, in a class of its own and in a slot, and lets it join a class, if
 * `into` is one. If its fact cannot be made, the row is taken back. */
HYP_NODISCARD hyp_status hyp_eg_analyse_row(hyp_egraph *eg, uint32_t row, size_t slot, uint32_t into, hyp_diag *diag);
/* Lets a class of one new row, which nothing has seen so far, be a part of another. The next rebuild joins the facts. */
void hyp_eg_adopt(hyp_egraph *eg, uint32_t row, uint32_t into);
/* Room for `count` more entries in the log of an operator. Only a rebuild may drop stale entries for it: a search walks
 * the log by position. */
HYP_NODISCARD hyp_status hyp_eg_reserve_log(hyp_egraph *eg, uint32_t op, size_t count, hyp_diag *diag);
/* Notes that a row is new or changed in this epoch; there is room in its operator's log. */
void hyp_eg_log(hyp_egraph *eg, uint32_t row);
/* Puts rows that were added since the last rebuild into the logs. */
HYP_NODISCARD hyp_status hyp_eg_link(hyp_egraph *eg, hyp_diag *diag);

/* Room in an e-graph without rows for those of another one. */
HYP_NODISCARD hyp_status hyp_eg_reserve_like(hyp_egraph *eg, const hyp_egraph *other, hyp_diag *diag);
/* Puts the operators that have a log in order. */
void hyp_eg_sort_logged(hyp_egraph *eg);
/* Drops the entries of all logs that no longer count; no search may be under way. */
void hyp_eg_compact_logs(hyp_egraph *eg);
/* Frees the arrays by row, the pool and the hash-cons. */
void hyp_eg_free_rows(hyp_egraph *eg);

/* ---- table.c ------------------------------------------------------------------------------------ */

/* Room in the hash-cons for `more` rows. */
HYP_NODISCARD hyp_status hyp_eg_reserve_slots(hyp_egraph *eg, size_t more, hyp_diag *diag);
/* Empties the hash-cons of stale slots. */
void hyp_eg_purge_slots(hyp_egraph *eg);

/* ---- memory.c ----------------------------------------------------------------------------------- */

/* Whether `more` bytes may be taken. A rebuild must not fail, so for each row what it may need is held back. */
bool hyp_eg_affordable(const hyp_egraph *eg, size_t more);
/* HYP_ERR_LIMIT, with limit_hit set, if they may not. */
HYP_NODISCARD hyp_status hyp_eg_claim(hyp_egraph *eg, size_t more, hyp_diag *diag);
void hyp_eg_count_bytes(hyp_egraph *eg, size_t more);
/* Grows an array of the e-graph that may become large. */
HYP_NODISCARD hyp_status hyp_eg_resize(hyp_egraph *eg, void *array, size_t count, size_t next, size_t elem,
                                       hyp_diag *diag);
/* hyp_vec_reserve for the vectors of an e-graph: counted, held against max_bytes, and large arrays. */
HYP_NODISCARD hyp_status hyp_eg_grow(hyp_egraph *eg, void **data, size_t *cap, size_t want, size_t elem,
                                     hyp_diag *diag);
static inline hyp_status hyp_eg_reserve_(hyp_egraph *eg, void **data, size_t *cap, size_t want, size_t elem,
                                         hyp_diag *diag)
{
    return want <= *cap ? HYP_OK : hyp_eg_grow(eg, data, cap, want, elem, diag);
}
#define hyp_eg_reserve(eg, v, want, diag)                                                                              \
    hyp_eg_reserve_((eg), (void **)&(v)->data, &(v)->cap, (want), sizeof *(v)->data, (diag))
/* Frees a vector that hyp_eg_reserve has grown. */
#define hyp_eg_free(v) hyp_large_free((v)->data, (v)->cap * sizeof *(v)->data)

/* ---- undo.c ------------------------------------------------------------------------------------ */

/* Keeps what a row is like, and where `kids` are to change, which may be in the pool, these: before it is changed. */
HYP_NODISCARD hyp_status hyp_eg_keep_row(hyp_egraph *eg, uint32_t row, bool kids, hyp_diag *diag);
static inline hyp_status hyp_eg_keep(hyp_egraph *eg, uint32_t row, bool kids, hyp_diag *diag)
{
    return row >= eg->frozen ? HYP_OK : hyp_eg_keep_row(eg, row, kids, diag);
}
/* The same, without its kids, where there is room for it. */
void hyp_eg_keep_reserved(hyp_egraph *eg, uint32_t row);
/* Room to keep so many rows that lose a union, and roots of trees of proofs. */
HYP_NODISCARD hyp_status hyp_eg_reserve_undo(hyp_egraph *eg, size_t count, hyp_diag *diag);
/* From here on rows are kept before they change; *out has those of the state before. */
HYP_NODISCARD hyp_status hyp_eg_freeze(hyp_egraph *eg, hyp_undo *out, hyp_diag *diag);
/* Forgets the rows from `rows` on, and puts those back that are kept; the logs are those of `epoch` again, and the table has
 * the rows that there are. Counts of the e-graph are the caller's. */
void hyp_eg_thaw(hyp_egraph *eg, uint32_t rows, uint32_t epoch);
void hyp_undo_dispose(hyp_egraph *eg, hyp_undo *undo);

/* ---- rebuild.c ---------------------------------------------------------------------------------- */

/* hyp_egraph_rebuild, also inside a run. */
HYP_NODISCARD hyp_status hyp_eg_rebuild(hyp_egraph *eg, hyp_diag *diag);
/* Whether the e-graph can be read as a whole; new rows alone do not hinder that. */
static inline bool hyp_eg_readable(const hyp_egraph *eg)
{
    return !eg->busy && !eg->making && !eg->pending.len && !eg->remake.len && !eg->changed.len;
}

/* ---- what rules/ keeps in an e-graph: ruleset.c, snapshot.c, compact.c -------------------------------------------- */

void hyp_eg_free_rulesets(hyp_egraph *eg);
void hyp_eg_discard_saved(hyp_egraph *eg);
/* Rows, and entries of the pool, below are of a state to go back to; 0 where there is none. */
void hyp_eg_saved_bounds(const hyp_egraph *eg, uint32_t *out_rows, uint32_t *out_pool);
/* Gives e-nodes new ids in a rebuilt e-graph whose owner wants to be told of it, when so many have died since the last time
 * that it pays: work and memory per e-node that was ever made stay constant. compact.c */
void hyp_eg_reclaim(hyp_egraph *eg);

/* ---- path.c ------------------------------------------------------------------------------------- */

void hyp_eg_drop_routes(hyp_egraph *eg);

/* ---- view.c ------------------------------------------------------------------------------------- */

void hyp_eg_view_reset(hyp_egraph *eg);   /* drops what was handed out and the forest; start of a rebuild */
void hyp_eg_view_forget(hyp_egraph *eg);  /* drops all that was listed: a row that it may name was taken back */
static inline void hyp_eg_view_release(hyp_egraph *eg) /* drops what was handed out inside callbacks */
{
    if (eg->view.arena.blocks) hyp_arena_dispose(&eg->view.arena);
}
void hyp_eg_view_dispose(hyp_egraph *eg);

#endif
