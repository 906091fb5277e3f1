/* context.h - inside of a context. Private to the core of the runtime. */
#ifndef HYP_RUNTIME_CORE_CONTEXT_H
#define HYP_RUNTIME_CORE_CONTEXT_H

#include "runtime/core/engine.h"

/* Everything that follows from one set of input dims. One allocation; `key` lies at its end. */
typedef struct hyp_shape {
    void *prepared;    /* the backend's; NULL only while the shape is being made */
    uint64_t last_use; /* by hyp_context.clock */
    bool reserved;     /* by the caller: runs are to find all made */
    int64_t *key;      /* hyp_key_set */
    int64_t *values;   /* the plan's dims, evaluated; valid as long as `prepared` */
    size_t *input_bytes, *output_bytes;
    int64_t *output_dims; /* for each output HYP_MAX_RANK entries */
} hyp_shape;

typedef struct hyp_own_output {
    void *data;
    size_t bytes;
    void *grown; /* takes the place of data when all that a shape needs is there; else it goes */
    size_t grown_bytes;
} hyp_own_output;

/* A variable has two buffers in the device's memory: one has its value, and a run reads it and writes the other. Of one that is
 * updated in place both are the same. */
typedef struct hyp_variable_state {
    uint8_t *at[2];
    size_t bytes;
    bool second; /* which of them has the value */
} hyp_variable_state;

typedef struct hyp_buckets hyp_buckets; /* buckets.h */
typedef struct hyp_loop_state hyp_loop_state; /* loop.h */

struct hyp_context {
    hyp_engine *engine;
    hyp_edition *edition;        /* the weights of its last run; NULL only while it is made */
    void *session;               /* the backend's */
    HYP_VEC(hyp_shape *) shapes; /* options.shapes at most */
    hyp_shape *current;          /* the one last used; NULL before the first */
    uint64_t clock;
    const hyp_shared_list *seen; /* of the engine's tuning, what was taken last */
    hyp_context_options options;
    atomic_bool cancelled; /* by any thread: the run under way, or the next one, is to end. Cleared when a run ends */
    hyp_mem_account account; /* of what it and its loops have of memory, but for these structs */
    hyp_context *root;       /* itself, or, of the body of a loop, the context whose runs it is a part of */
    hyp_loop_state **loops;  /* by step; NULL: there are none */
    double work_left;        /* of options.work_limit, for trips of the run under way */
    bool behind;           /* there are shapes that were prepared before more was known */
    /* Work space of one call, by plan order of inputs or outputs; in arena. */
    uint32_t *input_order, *output_order;
    int64_t (*dims)[HYP_MAX_RANK];
    const int64_t **dim_rows; /* dim_rows[i] == dims[i] */
    int32_t *ranks;           /* as declared */
    int64_t *symbols, *values;
    int64_t *typical; /* `values` under the sizes that predictions are for; NULL: not asked for, or not known */
    hyp_tensor *bound_inputs, *bound_outputs; /* by plan order; of those that are bound the name is the plan's */
    void **inputs, **outputs;
    hyp_memory *input_memory, *output_memory;
    int64_t *counts;     /* by hidden output */
    hyp_variable_state *variables; /* of the engine's list */
    uint8_t *state;                /* all of their buffers */
    size_t state_bytes;
    uint8_t *aside; /* while steps are timed, what they write in the place of variables; else NULL */
    size_t aside_bytes;
    bool torn;    /* a copy over variables has failed halfway: they are of no use until all are set anew */
    bool running; /* there are runs whose end nobody has waited for */
    bool changes; /* the last one may fail yet: when it has ended well, its buffers have the values */
    hyp_buckets *buckets; /* NULL: sizes are as the caller gives them */
    hyp_own_output *own;  /* by output: memory of the context's, for those that the caller gives none for */
    hyp_arena arena;
};

/* A set of dims, for each input: rank, then HYP_MAX_RANK dims as the caller gives them, 0 beyond the rank. `inputs` are
 * matched in c->input_order. */
enum { HYP_KEY_WORDS = 1 + HYP_MAX_RANK };
void hyp_key_set(const hyp_context *c, const hyp_tensor *inputs, int64_t *key);
bool hyp_key_matches(const hyp_context *c, const int64_t *key, const hyp_tensor *inputs);
/* Fills c->dims, c->symbols and c->values from the dims of inputs. */
HYP_NODISCARD hyp_status hyp_context_evaluate(hyp_context *c, const hyp_tensor *inputs, hyp_diag *diag);

/* outputs.c. Memory of the context's for a tensor, which only grows. */
HYP_NODISCARD hyp_status hyp_want_own(hyp_own_output *own, size_t bytes, hyp_diag *diag);
/* In two halves, for a shape that may be refused yet: what it would be, and whether it is to be that. */
HYP_NODISCARD hyp_status hyp_grow_own(hyp_own_output *own, size_t bytes, hyp_diag *diag);
void hyp_settle_all(hyp_context *c, bool keep); /* of outputs and, with buckets, inputs */
/* Grows memory for the outputs of a shape that are cut when a run ends. */
HYP_NODISCARD hyp_status hyp_grow_outputs(hyp_context *c, const hyp_shape *s, hyp_diag *diag);
/* Adds how much more than there is of it c->values want. */
HYP_NODISCARD hyp_status hyp_outputs_needed(const hyp_context *c, size_t *bytes, hyp_diag *diag);
/* Where a run of the current shape puts the outputs, which are matched in c->output_order: the memory that the caller
 * gives or, where that is none, or too little for what the data may say, the context's. */
HYP_NODISCARD hyp_status hyp_take_outputs(hyp_context *c, const hyp_tensor *outputs, hyp_diag *diag);
/* What the caller finds in them when it has ended. */
HYP_NODISCARD hyp_status hyp_give_outputs(hyp_context *c, hyp_tensor *outputs, hyp_diag *diag);

/* variables.c. Takes memory for them and gives them their first values; where it fails, dispose frees what there is. */
HYP_NODISCARD hyp_status hyp_variables_create(hyp_context *c, hyp_diag *diag);
void hyp_variables_dispose(hyp_context *c);
/* What a run does to variables: it keeps them, and does not even begin to change them; it changes them; or it does so to
 * memory of its own, so that all steps can be timed. */
typedef enum hyp_variables_use { HYP_VARIABLES_KEPT, HYP_VARIABLES_CHANGED, HYP_VARIABLES_TIMED } hyp_variables_use;
/* Before a run: waits for one whose end decides what they are, and binds their buffers. The failure of that one is told, and
 * this one is not to begin. */
HYP_NODISCARD hyp_status hyp_variables_bind(hyp_context *c, hyp_variables_use use, hyp_diag *diag);
/* When it was queued. */
void hyp_variables_queued(hyp_context *c, hyp_variables_use use);
/* When it is over, also where it failed: what was taken for it alone goes. */
void hyp_variables_leave(hyp_context *c);
/* Waits for all runs. */
HYP_NODISCARD hyp_status hyp_variables_settle(hyp_context *c, hyp_diag *diag);

/* hyp_context_create for the body of a loop of this context's plan, which is charged for it. */
HYP_NODISCARD hyp_status hyp_context_create_within(hyp_context *around, hyp_engine *engine,
                                                   const hyp_context_options *options, hyp_context **out, hyp_diag *diag);

/* context.c. Of the body of a loop: the shape of these inputs, if it is remembered, is the one last used, as behind a run of it. */
void hyp_context_renew(hyp_context *c, const hyp_tensor *inputs);

/* limits.c. Bytes that c->values want, more than there are, but for what remembers them. */
HYP_NODISCARD hyp_status hyp_context_growth(hyp_context *c, size_t *out, hyp_diag *diag);
/* Whether there may be as much, also while what has been grows: for loops, whose bodies take theirs one by one, so that sizes
 * that are refused leave all of them as they were. */
HYP_NODISCARD hyp_status hyp_want_room(hyp_context *c, hyp_diag *diag);

/* HYP_ERR_INVALID_ARGUMENT where it is NULL. */
static inline hyp_status hyp_want_context(const hyp_context *c, const char *call, hyp_diag *diag)
{
    return c ? HYP_OK : hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "%s: context is NULL", call);
}

/* context.c, and context_bind.c for what is bound: what all calls that run do. `how` and `step_seconds` may be NULL. */
HYP_NODISCARD hyp_status hyp_run_tensors(hyp_context *c, const hyp_tensor *inputs, size_t input_count,
                                         hyp_tensor *outputs, size_t output_count, const hyp_run_options *how,
                                         double *step_seconds, hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_run_bound(hyp_context *c, const hyp_run_options *how, hyp_diag *diag);

#endif
