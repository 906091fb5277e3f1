/* fuzz_plans.c - runs the fuzz target on plans of random graphs, one of eight of images, on those of the cases of
 * tests/golden/ops, which have every kernel that is called by name, and on plan files, as they are and changed. The same
 * arguments give the same cases. Every plan is one process, so that one that crashes or hangs is told and the others go on.
 *
 *   fuzz_plans [--graphs FIRST:COUNT] [--operators FIRST:COUNT] [--mutations N] [--seconds S] [--corpus FOLDER]
 *              [--only MUTATION --save FILE] [plan.bin...]
 *
 * --seconds goes on with other mutations until the time is over; --only runs one mutation of each plan, which --save
 * writes; --corpus keeps the plans of graphs and cases there, for fuzz_engine.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/run_graph.h"
#include "fuzz/fuzz_engine.h"
#include "fuzz/image_graph.h"
#include "fuzz/loop_graph.h"
#include "fuzz/mutate_plan.h"
#include "support/golden_ops.h"

/* A case takes milliseconds: one that works or waits for so long hangs. Work is counted by the processor's time, so
 * that a busy machine changes nothing. */
enum { WORK_SECONDS = 20, WAIT_SECONDS = 600 };

typedef struct request {
    long first, count, first_case, case_count, mutations, only;
    double seconds;
    const char *save, *corpus;
} request;

/* What the children tell. */
typedef struct shared {
    long mutation; /* under way; -1: the plan as it is */
    uint64_t cases, opened, prepared, ran, rounded, updated, tuned;
    uint64_t refused; /* plans that do not run unchanged */
} shared;

static shared *told;
static int findings;

/* State for some outputs of fixed sizes: each run adds what comes out to it, or, where the last one is `alone`, itself to that,
 * so that it is updated in place. */
static hyp_status add_variables(hyp_graph *g, bool alone)
{
    static const float initial[64];
    size_t shown = g->outputs.len < 3 ? g->outputs.len : 3;
    hyp_value_id before[3], after[3];
    for (size_t i = 0; i < shown; i++) {
        const hyp_type type = g->values.data[g->outputs.data[i].value].type;
        char name[] = {'v', (char)('0' + i), 0};
        size_t bytes;
        before[i] = HYP_NO_VALUE;
        if (!hyp_type_bytes(&type, &bytes) || type.dtype == HYP_BOOL) continue;
        bool given = bytes && bytes <= sizeof initial; /* else zeros */
        HYP_TRY(hyp_graph_add_variable(g, name, &type, given ? initial : NULL, given ? bytes : 0, true, &before[i], NULL));
        hyp_value_id added = alone && i + 1 == shown ? before[i] : g->outputs.data[i].value;
        HYP_TRY(hyp_graph_add_node(g, HYP_OP_add, (hyp_value_id[]){before[i], added}, 2, NULL, NULL, &after[i], 1, NULL));
    }
    for (size_t i = 0; i < shown; i++)
        if (before[i] != HYP_NO_VALUE) HYP_TRY(hyp_graph_set_variable(g, before[i], after[i], NULL));
    return HYP_OK;
}

/* Constants of floats become such as hyp_engine_update replaces. */
static void mark_updatable(hyp_graph *g)
{
    static const char *const names[] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7"};
    size_t count = 0;
    for (size_t v = 0; v < g->values.len && count < sizeof names / sizeof *names; v++) {
        hyp_value *value = &g->values.data[v];
        size_t bytes;
        if (value->kind != HYP_VALUE_CONST || !hyp_dtype_is_float(value->type.dtype) || value->type.rank == 0 ||
            !hyp_type_bytes(&value->type, &bytes) || bytes <= hyp_dtype_size(value->type.dtype))
            continue;
        value->name = names[count++];
        value->updatable = true;
    }
}

/* The graph becomes the body of a loop. */
static bool put_in_loop(hyp_graph *g, uint64_t kind, const char *path)
{
    hyp_graph around;
    if (loop_graph(g, kind, path, &around, NULL) != HYP_OK) return false;
    hyp_graph_dispose(g);
    *g = around;
    return true;
}

static bool random_plan(uint64_t seed, const char *path)
{
    static const hyp_dtype dtypes[] = {HYP_F32, HYP_F32, HYP_F64, HYP_F32, HYP_F16, HYP_BF16};
    hyp_random_graph_options options = {.seed = seed,
                                        .nodes = 2 + (int)(seed % 6),
                                        .dtype = dtypes[seed % 6],
                                        .symbolic = seed % 4 < 3,
                                        .first_op = (int)(seed % HYP_RANDOM_OPS)};
    hyp_dims *dims;
    hyp_graph g;
    if (hyp_dims_create(&dims, NULL) != HYP_OK) return false;
    bool made = seed % 8 == 5 ? image_graph(seed, dims, &g, NULL) == HYP_OK
                              : hyp_random_graph(&options, dims, &g, NULL, NULL) == HYP_OK;
    for (uint64_t deep = seed % 5 == 4 ? 1 + seed / 5 % 2 : 0; made && deep > 0; deep--) made = put_in_loop(&g, seed / 10, path);
    if (made && seed % 3 == 0) made = add_variables(&g, seed % 2) == HYP_OK;
    if (made && seed % 3 == 1) mark_updatable(&g);
    made = made && write_plan(&g, path, NULL) == HYP_OK;
    hyp_graph_dispose(&g);
    hyp_dims_destroy(dims);
    return made;
}

static void run_case(const uint8_t *data, size_t size)
{
    alarm(WAIT_SECONDS);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = WORK_SECONDS}, NULL);
    LLVMFuzzerTestOneInput(data, size);
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    alarm(0);
    told->cases++;
}

static void save(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) perror(path);
}

/* One of the mutations; each is of the plan as it is, every third one of a mutant. */
static void run_mutation(const uint8_t *plan, size_t size, uint64_t seed, const char *path)
{
    hyp_random random = {seed * 0x9e3779b97f4a7c15u + 1};
    size_t mutated, again;
    uint8_t *mutant = mutate_plan(plan, size, &random, &mutated), *second = NULL;
    if (mutant && seed % 3 == 0) second = mutate_plan(mutant, mutated, &random, &again);
    const uint8_t *data = second ? second : mutant;
    size_t bytes = second ? again : mutated;
    if (data && path) save(path, data, bytes);
    if (data) run_case(data, bytes);
    hyp_free(mutant);
    hyp_free(second);
}

static void child(const request *r, const char *path, long from)
{
    hyp_mapping map;
    hyp_diag diag = {0};
    if (hyp_map_file(path, &map, &diag) != HYP_OK) {
        fprintf(stderr, "%s\n", diag.message);
        _exit(1);
    }
    told->mutation = -1;
    if (r->only < 0 && from == 0) run_case(map.data, map.size);
    told->refused += r->only < 0 && from == 0 && !fuzz_ran;
    for (long m = from; m < from + r->mutations && r->only < 0; m++) {
        told->mutation = m;
        run_mutation(map.data, map.size, (uint64_t)m, NULL);
    }
    if (r->only >= 0) run_mutation(map.data, map.size, (uint64_t)r->only, r->save);
    hyp_unmap(&map);
    told->opened += fuzz_opened, told->prepared += fuzz_prepared, told->ran += fuzz_ran;
    told->rounded += fuzz_rounded, told->updated += fuzz_updated, told->tuned += fuzz_tuned;
    exit(0); /* so that leaks are told */
}

/* `name` is for people. */
static void fuzz(const request *r, const char *path, const char *name, long from)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) child(r, path, from);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    findings++;
    if (WIFSIGNALED(status))
        printf("%s, mutation %ld: %s\n", name, told->mutation, strsignal(WTERMSIG(status)));
    else
        printf("%s, mutation %ld: exit code %d\n", name, told->mutation, WEXITSTATUS(status));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct golden_pass {
    const request *r;
    const char *scratch;
    long from, index;
} golden_pass;

static void fuzz_case(const golden_case *c, void *user)
{
    golden_pass *p = user;
    char name[128], kept[512];
    long i = p->index++;
    if (i < p->r->first_case || i >= p->r->first_case + p->r->case_count) return;
    snprintf(name, sizeof name, "%s, case %ld (%s)", c->op, i, c->name);
    if (p->r->corpus) snprintf(kept, sizeof kept, "%s/case-%ld.bin", p->r->corpus, i);
    const char *path = p->r->corpus ? kept : p->scratch;
    if (write_plan(&c->graph, path, NULL) == HYP_OK) fuzz(p->r, path, name, p->from);
}

static void pass(const request *r, int files, char **paths, const char *scratch, long from)
{
    char name[32], kept[512];
    for (long seed = r->first; seed < r->first + r->count; seed++) {
        snprintf(name, sizeof name, "graph %ld", seed);
        if (r->corpus) snprintf(kept, sizeof kept, "%s/graph-%ld.bin", r->corpus, seed);
        const char *path = r->corpus ? kept : scratch;
        if (random_plan((uint64_t)seed, path)) fuzz(r, path, name, from);
    }
    if (r->case_count) golden_ops_visit(fuzz_case, &(golden_pass){r, scratch, from, 0});
    for (int i = 0; i < files; i++) fuzz(r, paths[i], paths[i], from);
}

int main(int argc, char **argv)
{
    request r = {.mutations = 20, .only = -1};
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        char *colon = strchr(argv[i + 1], ':');
        if (strcmp(argv[i], "--graphs") == 0 && colon)
            r.first = atol(argv[i + 1]), r.count = atol(colon + 1);
        else if (strcmp(argv[i], "--operators") == 0 && colon)
            r.first_case = atol(argv[i + 1]), r.case_count = atol(colon + 1);
        else if (strcmp(argv[i], "--mutations") == 0)
            r.mutations = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--seconds") == 0)
            r.seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--only") == 0)
            r.only = atol(argv[i + 1]);
        else if (strcmp(argv[i], "--save") == 0)
            r.save = argv[i + 1];
        else if (strcmp(argv[i], "--corpus") == 0)
            r.corpus = argv[i + 1];
        else
            return fprintf(stderr, "fuzz_plans: what is %s?\n", argv[i]), 2;
    }
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) return perror("mmap"), 2;
    char scratch[64];
    snprintf(scratch, sizeof scratch, "fuzz_plans.%ld.bin", (long)getpid());
    double end = now() + r.seconds;
    long from = 0;
    do {
        pass(&r, argc - i, argv + i, scratch, from);
        from += r.mutations;
    } while (now() < end);
    unlink(scratch);
    printf("%llu plans do not run unchanged\n"
           "%llu plans, of which %llu loaded; %llu sets of shapes were prepared, %llu ran, %llu with sizes rounded up; "
           "of %llu weights were replaced, %llu were tuned; %d findings\n",
           (unsigned long long)told->refused, (unsigned long long)told->cases, (unsigned long long)told->opened,
           (unsigned long long)told->prepared, (unsigned long long)told->ran, (unsigned long long)told->rounded,
           (unsigned long long)told->updated, (unsigned long long)told->tuned, findings);
    return findings > 0 || told->ran == 0 || (r.count >= 100 && (told->updated == 0 || told->rounded == 0));
}
