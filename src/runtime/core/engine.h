/* engine.h - inside of the public handles. Private to the core of the runtime (engine.c, context.c, match.c). */
#ifndef HYP_RUNTIME_CORE_ENGINE_H
#define HYP_RUNTIME_CORE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/core/backend.h"

/* One input or output. `info` comes first: the public accessors hand out its address. */
typedef struct hyp_io {
    hyp_io_info info;
    uint32_t tensor;      /* in the program */
    size_t element_bytes; /* of info.dtype */
    const char *text;     /* "'x' f32 [batch, 784]", for messages */
    const HypPlan__DataSize *size; /* of an output that has room for the most; NULL for others */
} hyp_io;

/* The inputs, or the outputs, of a plan. */
typedef struct hyp_io_list {
    const char *what; /* "input" or "output" */
    hyp_io *items;
    const char **names; /* names[count] is NULL */
    const HypPlan__Program *program; /* for messages: what else has names */
    size_t count;
} hyp_io_list;

/* The weights that an engine has at one time, on its device. Immutable. */
typedef struct hyp_edition {
    atomic_size_t holders; /* the engine, while it is the newest, and every context whose last run was with it */
    hyp_plan plan;         /* the engine's; plan.replaced is the edition's, one block with what it points to */
    void *model;           /* the backend's */
} hyp_edition;

/* Immutable after loading, but for `newest`, `shared`, `account` and the two that say how long it lives. */
struct hyp_engine {
    int depth;                /* in so many loops, of whose bodies this is the plan */
    hyp_engine *root;         /* itself, or the engine of the plan around them all */
    size_t body_count;        /* of a root: loops in it, those within bodies, too */
    hyp_engine **bodies;      /* by step: of loops; NULL: there are none */
    hyp_mem_account *charged; /* `account`, or that of the engine around */
    atomic_size_t holders;   /* the caller, until it has destroyed it, and every context */
    atomic_bool destroyed;   /* by the caller */
    hyp_mem_account account; /* of what it and its bodies have of memory; contexts add what they make for all */
    hyp_mem_source source;   /* of the host's memory, also for contexts; alloc NULL: the system */
    hyp_plan plan;
    void (*release)(void *user); /* of what the plan was loaded from; NULL: nobody wants to know */
    void *release_user;
    bool grouped; /* with options.group: its runs wait for those of other processes */
    const hyp_backend *backend; /* NULL until a device has taken the plan; then the next is its handle */
    void *device;
    const char *device_name; /* owned by the device */
    _Atomic(hyp_edition *) newest;
    pthread_mutex_t taking;   /* held for moments, while an edition gets a holder or another is the newest */
    pthread_mutex_t updating; /* held by whoever makes another */
    hyp_io_list inputs, outputs; /* that the caller gives and gets */
    hyp_io_list variables;       /* by the plan's order; `tensor` is the value before a run */
    uint32_t commit;             /* the first step of it: hyp_plan_find_commit */
    bool in_place;               /* it writes over variables */
    hyp_io_list weights; /* that can be replaced; their `tensor` is the index of the update that they are inputs of */
    hyp_shared_tuning shared; /* what contexts give each other */
    hyp_arena arena; /* owns the texts and lists above */
};

/* One holder less: the last one frees the engine. */
void hyp_engine_release(hyp_engine *engine);

/* ---- weights.c ----------------------------------------------------------------------------------------- */

/* The weights that the plan has; no model of them yet. */
HYP_NODISCARD hyp_status hyp_edition_create(hyp_engine *e, hyp_edition **out, hyp_diag *diag);
/* The newest, with one holder more. */
hyp_edition *hyp_edition_take(hyp_engine *e);
/* One holder less: the last one frees it. NULL-safe. */
void hyp_edition_release(hyp_engine *e, hyp_edition *edition);

/* Of an input or output of a program; texts are of the engine. Its name is the program's. */
HYP_NODISCARD hyp_status hyp_engine_describe_io(hyp_engine *e, const HypPlan__Program *p, uint32_t tensor, hyp_io *out,
                                                hyp_diag *diag);
/* Fills in e->weights. */
HYP_NODISCARD hyp_status hyp_engine_list_weights(hyp_engine *e, hyp_diag *diag);

/* An account for options.memory_limit. */
static inline hyp_mem_account hyp_account_of(const hyp_mem_source *source, uint64_t memory_limit)
{
    return (hyp_mem_account){.source = source->alloc ? source : NULL,
                             .most = memory_limit > 0 && memory_limit < SIZE_MAX ? (size_t)memory_limit : SIZE_MAX};
}

/* The caller's options in the library's struct, checked as far as they are numbers. The second one makes options->allocator, if there is
 * one, the library's struct, too. */
HYP_NODISCARD hyp_status hyp_engine_read_options(const hyp_engine_options *given, hyp_engine_options *out,
                                                 hyp_diag *diag);
HYP_NODISCARD hyp_status hyp_engine_read_allocator(hyp_engine_options *options, hyp_allocator *out, hyp_diag *diag);

/* The status of what failed, HYP_ERR_LIMIT where it was for want of memory that the engine is not to have. */
HYP_NODISCARD hyp_status hyp_engine_status(const hyp_engine *engine, hyp_status status, hyp_diag *diag);

/* Operations and bytes of a run under these dims, without the trips of loops. */
double hyp_run_work(const HypPlan__Program *program, const int64_t *values);
/* HYP_ERR_LIMIT where that is more than `limit`; 0: none is. */
HYP_NODISCARD hyp_status hyp_want_work(const HypPlan__Program *program, const int64_t *values, double limit,
                                       hyp_diag *diag);

/* hyp_engine_load_file on one backend, which need not be among those built in: options->device is its kind, or AUTO. */
HYP_NODISCARD hyp_status hyp_engine_load_on(const hyp_backend *backend, const char *path,
                                            const hyp_engine_options *options, hyp_engine **out, hyp_diag *diag);

/* hyp_engine_load_memory of the body of a loop, on the backend of the engine around it, which is charged for it. */
HYP_NODISCARD hyp_status hyp_engine_load_within(hyp_engine *around, const void *data, size_t size,
                                                const hyp_engine_options *options, hyp_engine **out, hyp_diag *diag);

/* What loading an open plan on a backend takes at most, beside the plan itself. */
size_t hyp_engine_bound(const hyp_plan *plan, const hyp_backend *backend);

/* memory.c: `bytes` from one memory of the engine's, or of the host's, to another; ends before the call does. */
HYP_NODISCARD hyp_status hyp_engine_copy(const hyp_engine *e, void *to, hyp_memory to_memory, const void *from,
                                         hyp_memory from_memory, size_t bytes, hyp_diag *diag);

/* ---- match.c: the caller's tensors against the plan's -------------------------------------------------- */

/* *out = which item of the list tensors[t] of `count` is, by name, by position where the name is NULL. */
HYP_NODISCARD hyp_status hyp_match_one(const hyp_io_list *list, const hyp_tensor *tensors, size_t t, size_t count,
                                       size_t *out, hyp_diag *diag);

/* order[i] = which of tensors[0..count) is item i of the list, by name, by position where the name is NULL. Each
 * must be there exactly once. */
HYP_NODISCARD hyp_status hyp_match_tensors(const hyp_io_list *list, const hyp_tensor *tensors, size_t count,
                                           uint32_t *order, hyp_diag *diag);

/* The dims of an input as the plan sees them: when the rank differs from the declared one, the leading dims fold
 * into the first declared dim (none left: 1). Checks the fixed ones. dims has HYP_MAX_RANK entries. */
HYP_NODISCARD hyp_status hyp_match_dims(const hyp_io *io, const hyp_tensor *tensor, int64_t *dims, hyp_diag *diag);

/* Checks that a tensor has the type and the dims of an item, which are fixed; *out_bytes: what it takes. */
HYP_NODISCARD hyp_status hyp_match_fixed(const hyp_io_list *list, const hyp_io *io, const hyp_tensor *tensor,
                                         size_t *out_bytes, hyp_diag *diag);

/* Checks type and address of a tensor, that it has room for `bytes`, and that the backend takes its memory. */
HYP_NODISCARD hyp_status hyp_match_data(const hyp_io_list *list, const hyp_io *io, const hyp_tensor *tensor,
                                        size_t bytes, const hyp_backend *backend, hyp_diag *diag);

#endif
