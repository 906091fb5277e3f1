#include "runtime/core/thread_pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/core/backend.h"
#include "runtime/core/processors.h"

enum {
    LINE = 64,   /* bytes of a cache line */
    LOOPS = 32,  /* that are shared out at once; who finds no room does his alone */
    SHARES = 16, /* of a loop */
    PARTS = 4,   /* of a loop for each thread: what waiting for the last one costs at most, in fourths */
    MOST_THREADS = 1024,
    OPEN = 1 << 30, /* bits of loop.use: others may join */
    TAKEN = 1 << 29 /* somebody's who runs it; below are the others who are at it */
};
static const double spin_seconds = 50e-6; /* before somebody sleeps; a wake-up takes a tenth of it, or more */

/* The parts of a loop lie in shares, each thread begins at one of its own, so that what it touched in one loop it
 * touches in the next one. */
typedef struct share {
    _Alignas(LINE) atomic_int next;
    int end;
} share;

/* Lives as long as the pool: somebody who comes late finds that there is nothing to do. */
typedef struct loop {
    _Alignas(LINE) atomic_uint use; /* 0: free */
    atomic_int joined;              /* threads, numbers of the next one */
    atomic_int threads;             /* that may join, the one who runs it among them; looked at before joining, too */
    int parts, shares;
    int64_t count;
    hyp_pool_task *task;
    void *state;
    _Alignas(LINE) atomic_uint left; /* parts that are not done */
    atomic_bool awaited;             /* somebody sleeps until there are none */
    share share[SHARES];
} loop;

struct hyp_pool {
    hyp_pool *next;
    size_t holders;        /* engines; like what follows up to `loops` changed under `pools.lock` alone */
    hyp_thread_pool given; /* the caller's; `run` is NULL where the threads are ours */
    bool has_set;
    cpu_set_t set; /* of processors that an engine named */
    int processors;
    int largest;      /* threads of a context */
    int64_t expected; /* threads beside the callers', of all contexts */
    int count, room;  /* threads that were started; `threads` has room for so many */
    pthread_t *threads;
    atomic_int most;                  /* max(processors, largest) */
    atomic_bool forked;               /* this is a child, which has none of the threads */
    _Alignas(LINE) atomic_int runs;   /* of contexts */
    _Alignas(LINE) atomic_uint epoch; /* changes with every loop that others may join */
    atomic_int spinning, sleeping;    /* threads without a part */
    atomic_bool closing;
    atomic_int caller; /* the processor of who woke somebody last */
    loop loops[LOOPS];
};

static struct {
    pthread_mutex_t lock;
    hyp_pool *first;
    bool watches_forks;
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- waiting --------------------------------------------------------------------------------------------------- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* False when the word still is `seen` after a while. */
static bool spin(atomic_uint *word, unsigned seen)
{
    enum { BETWEEN = 32 }; /* looks at the clock */
    double end = 0;
    for (unsigned i = 1; atomic_load_explicit(word, memory_order_acquire) == seen; i++) {
        pause_briefly();
        if (i % BETWEEN != 0) continue;
        double now = hyp_clock_seconds();
        if (end == 0) end = now + spin_seconds;
        if (now >= end) return false;
    }
    return true;
}

/* As linux/futex.h has them, which is of the kernel's headers: not every C library brings those. */
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };

static void sleep_while(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void wake(atomic_uint *word, int threads)
{
    syscall(SYS_futex, word, WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* A thread that was woken where its caller runs goes to another processor that it may use: the two would take turns there.
 * On a virtual machine the system takes processors that are halted for busy ones, and leaves both where they are for some
 * tens of milliseconds. */
static void leave_caller(const hyp_pool *p)
{
    int caller = atomic_load_explicit(&p->caller, memory_order_relaxed);
    cpu_set_t all, others;
    if (caller < 0 || caller >= CPU_SETSIZE || sched_getcpu() != caller || sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    others = all;
    CPU_CLR((size_t)caller, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof all, &all); /* where it is now it may stay */
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void do_part(const loop *l, int part, int thread)
{
    int64_t each = l->count / l->parts, more = l->count % l->parts;
    int64_t begin = part * each + (part < more ? part : more);
    l->task(l->state, begin, begin + each + (part < more), thread);
}

/* Parts of the share `first`, then of the others, until none are left. */
static void do_parts(loop *l, int thread, int first)
{
    for (int i = 0; i < l->shares; i++) {
        share *s = &l->share[(first + i) % l->shares];
        while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
            int part = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
            if (part >= s->end) break;
            do_part(l, part, thread);
            if (atomic_fetch_sub(&l->left, 1) == 1 && atomic_load(&l->awaited)) wake(&l->left, 1);
        }
    }
}

/* Everything but `use`. */
static void lay_out(loop *l, int threads, int64_t count, int64_t grain, hyp_pool_task *task, void *state)
{
    int64_t parts = count / grain * 2, most = (int64_t)threads * PARTS;
    if (grain < 2) parts = count;
    if (parts > most) parts = most;
    atomic_store_explicit(&l->threads, threads, memory_order_relaxed);
    l->parts = (int)parts;
    l->shares = threads < SHARES ? threads : SHARES;
    l->count = count;
    l->task = task;
    l->state = state;
    atomic_store_explicit(&l->joined, 1, memory_order_relaxed);
    atomic_store_explicit(&l->left, (unsigned)parts, memory_order_relaxed);
    atomic_store_explicit(&l->awaited, false, memory_order_relaxed);
    for (int i = 0; i < l->shares; i++) {
        atomic_store_explicit(&l->share[i].next, l->parts * i / l->shares, memory_order_relaxed);
        l->share[i].end = l->parts * (i + 1) / l->shares;
    }
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

/* Joins a loop, if that is wanted, and does parts of it. */
static bool join_loop(loop *l, int worker)
{
    unsigned use = atomic_load_explicit(&l->use, memory_order_relaxed);
    do {
        if (!(use & OPEN) || atomic_load_explicit(&l->joined, memory_order_relaxed) >=
                                 atomic_load_explicit(&l->threads, memory_order_relaxed))
            return false;
    } while (
        !atomic_compare_exchange_weak_explicit(&l->use, &use, use + 1, memory_order_acquire, memory_order_relaxed));
    int thread = atomic_fetch_add_explicit(&l->joined, 1, memory_order_relaxed);
    if (thread < atomic_load_explicit(&l->threads, memory_order_relaxed)) do_parts(l, thread, worker);
    atomic_fetch_sub_explicit(&l->use, 1, memory_order_release);
    return true;
}

typedef struct worker {
    hyp_pool *pool;
    int number; /* from 1 */
} worker;

static void *work(void *opaque)
{
    const worker self = *(worker *)opaque;
    hyp_pool *p = self.pool;
    hyp_free(opaque);
    for (;;) {
        unsigned epoch = atomic_load(&p->epoch); /* before `closing`: who closes sets that first, and then the epoch */
        if (atomic_load(&p->closing)) return NULL;
        bool found = false;
        for (int i = 0; i < LOOPS; i++) found = join_loop(&p->loops[(self.number + i) % LOOPS], self.number) || found;
        if (found) continue;
        atomic_fetch_add(&p->spinning, 1);
        bool changed = spin(&p->epoch, epoch);
        atomic_fetch_sub(&p->spinning, 1);
        if (changed) continue;
        atomic_fetch_add(&p->sleeping,
                         1); /* before the kernel looks at the epoch: who changes it sees one of the two */
        sleep_while(&p->epoch, epoch);
        atomic_fetch_sub(&p->sleeping, 1);
        leave_caller(p);
    }
}

/* False where the system has no more. Signals are for the program's own threads. */
static bool start_thread(hyp_pool *p)
{
    sigset_t all, before;
    worker *w = hyp_malloc(sizeof *w);
    if (!w) return false;
    *w = (worker){p, p->count + 1};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&p->threads[p->count], NULL, work, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) {
        hyp_free(w);
        return false;
    }
    if (p->has_set) pthread_setaffinity_np(p->threads[p->count], sizeof p->set, &p->set);
    p->count++;
    return true;
}

/* As many as are expected, up to what is there to run them. pools.lock is held. */
static void start_threads(hyp_pool *p)
{
    int64_t wanted = atomic_load(&p->most) - 1;
    if (p->expected < wanted) wanted = p->expected;
    if (wanted > p->room) {
        pthread_t *more = hyp_realloc(p->threads, (size_t)wanted * sizeof *more);
        if (!more) return;
        p->threads = more;
        p->room = (int)wanted;
    }
    while (p->count < wanted && start_thread(p)) {
    }
}

void hyp_pool_expect(hyp_pool *p, int threads)
{
    if (p->given.run) return;
    hyp_mem_account *before = hyp_mem_charge(NULL); /* it is the process's memory, not the context's */
    pthread_mutex_lock(&pools.lock);
    p->expected += threads - 1;
    if (threads > p->largest) p->largest = threads;
    atomic_store(&p->most, p->largest > p->processors ? p->largest : p->processors);
    start_threads(p);
    pthread_mutex_unlock(&pools.lock);
    hyp_mem_charge(before);
}

/* ---- fork ------------------------------------------------------------------------------------------------------ */

static void lock_pools(void) { pthread_mutex_lock(&pools.lock); }
static void unlock_pools(void) { pthread_mutex_unlock(&pools.lock); }

/* A child has one thread: what others were at is over, and its first loop starts threads anew. */
static void forget_threads(void)
{
    for (hyp_pool *p = pools.first; p; p = p->next) {
        p->count = 0;
        atomic_store(&p->runs, 0);
        atomic_store(&p->spinning, 0);
        atomic_store(&p->sleeping, 0);
        for (int i = 0; i < LOOPS; i++) atomic_store(&p->loops[i].use, 0);
        atomic_store(&p->forked, true);
    }
    unlock_pools();
}

static void start_again(hyp_pool *p)
{
    pthread_mutex_lock(&pools.lock);
    if (atomic_exchange(&p->forked, false)) start_threads(p);
    pthread_mutex_unlock(&pools.lock);
}

/* ---- pools ----------------------------------------------------------------------------------------------------- */

/* What OMP_NUM_THREADS says, which is for all that computes in a process; 0: nothing. */
static long threads_of_environment(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    long threads = text ? strtol(text, NULL, 10) : 0;
    return threads > 0 && threads <= MOST_THREADS ? threads : 0;
}

static hyp_status new_pool(hyp_pool **out, hyp_diag *diag)
{
    hyp_mem_account *before = hyp_mem_charge(NULL); /* it outlives the engine that asks first */
    hyp_pool *p = hyp_aligned_alloc(_Alignof(hyp_pool), sizeof *p);
    hyp_mem_charge(before);
    if (!p) return hyp_fail_memory(diag, sizeof *p);
    memset(p, 0, sizeof *p);
    *out = p;
    return HYP_OK;
}

/* pools.lock is held. */
static hyp_status find_pool(const cpu_set_t *set, hyp_pool **out, hyp_diag *diag)
{
    hyp_pool *p = pools.first;
    while (p && !(set ? p->has_set && CPU_EQUAL(&p->set, set) : !p->has_set)) p = p->next;
    if (!p) {
        HYP_TRY(new_pool(&p, diag));
        if (set) p->set = *set;
        p->has_set = set != NULL;
        p->processors = set ? CPU_COUNT(set) : hyp_processors();
        atomic_store(&p->most, p->processors);
        p->next = pools.first;
        pools.first = p;
        if (!pools.watches_forks) pools.watches_forks = pthread_atfork(lock_pools, unlock_pools, forget_threads) == 0;
    }
    p->holders++;
    *out = p;
    return HYP_OK;
}

hyp_status hyp_pool_open(const hyp_engine_options *options, hyp_pool **out, int32_t *out_threads, hyp_diag *diag)
{
    const hyp_thread_pool *given = options->pool;
    cpu_set_t set;
    hyp_pool *p = NULL;
    long threads = options->threads;
    if (threads > MOST_THREADS)
        return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT, "options->threads is %ld: at most %d are possible", threads,
                        MOST_THREADS);
    if (given) {
        if (given->size < sizeof *given || !given->run || given->threads < 1 || given->threads > MOST_THREADS)
            return hyp_fail(diag, HYP_ERR_INVALID_ARGUMENT,
                            "options->pool: wanted its size, a function `run`, and 1 to %d threads", MOST_THREADS);
        HYP_TRY(new_pool(&p, diag));
        p->given = *given;
        if (threads == 0 || threads > given->threads) threads = given->threads;
    } else {
        if (options->processors && !hyp_processors_read(options->processors, &set))
            return hyp_fail(
                diag, HYP_ERR_INVALID_ARGUMENT,
                "options->processors is '%s': wanted a list like \"0-3,8\" of some that the process may use",
                options->processors);
        pthread_mutex_lock(&pools.lock);
        hyp_status status = find_pool(options->processors ? &set : NULL, &p, diag);
        pthread_mutex_unlock(&pools.lock);
        HYP_TRY(status);
        if (threads == 0) threads = threads_of_environment();
        if (threads == 0) threads = p->processors;
    }
    *out = p;
    *out_threads = (int32_t)threads;
    return HYP_OK;
}

void hyp_pool_close(hyp_pool *p)
{
    if (!p) return;
    if (!p->given.run) {
        pthread_mutex_lock(&pools.lock);
        bool last = --p->holders == 0;
        hyp_pool **at = &pools.first;
        while (last && *at != p) at = &(*at)->next;
        if (last) *at = p->next;
        pthread_mutex_unlock(&pools.lock);
        if (!last) return;
        atomic_store(&p->closing, true);
        atomic_fetch_add(&p->epoch, 1);
        wake(&p->epoch, INT_MAX);
        for (int i = 0; i < p->count; i++) pthread_join(p->threads[i], NULL);
    }
    hyp_mem_account *before = hyp_mem_charge(NULL);
    hyp_free(p->threads);
    hyp_aligned_free(p);
    hyp_mem_charge(before);
}

bool hyp_pool_visit(const hyp_pool *p, cpu_set_t *before)
{
    return p->has_set && pthread_getaffinity_np(pthread_self(), sizeof *before, before) == 0 &&
           pthread_setaffinity_np(pthread_self(), sizeof p->set, &p->set) == 0;
}

void hyp_pool_leave(const cpu_set_t *before) { (void)pthread_setaffinity_np(pthread_self(), sizeof *before, before); }

/* ---- loops ----------------------------------------------------------------------------------------------------- */

void hyp_pool_begin_run(hyp_pool *p) { atomic_fetch_add_explicit(&p->runs, 1, memory_order_relaxed); }
void hyp_pool_end_run(hyp_pool *p) { atomic_fetch_sub_explicit(&p->runs, 1, memory_order_relaxed); }

/* NULL: all are in use. */
static loop *take_loop(hyp_pool *p)
{
    for (int i = 0; i < LOOPS; i++) {
        unsigned use = 0;
        if (atomic_compare_exchange_strong(&p->loops[i].use, &use, TAKEN)) return &p->loops[i];
    }
    return NULL;
}

static void announce(hyp_pool *p, int wanted)
{
    atomic_fetch_add(&p->epoch, 1);
    int sleeping = atomic_load(&p->sleeping);
    wanted -= atomic_load(&p->spinning);
    if (sleeping <= 0 || wanted <= 0) return;
    atomic_store_explicit(&p->caller, sched_getcpu(), memory_order_relaxed);
    wake(&p->epoch, wanted);
}

static void wait_for_others(loop *l)
{
    for (unsigned left; (left = atomic_load(&l->left)) > 0;) {
        if (spin(&l->left, left)) continue;
        atomic_store(&l->awaited, true);
        sleep_while(&l->left, left);
    }
}

/* What a pool of the caller's gets: it returns when all have done what there was. */
static void join_given(void *opaque, size_t thread) { do_parts(opaque, (int)thread, (int)thread); }

void hyp_pool_run(hyp_pool *p, int threads, int64_t count, int64_t grain, hyp_pool_task *task, void *state)
{
    if (atomic_load_explicit(&p->forked, memory_order_relaxed)) start_again(p);
    int64_t most = grain > 1 ? count / grain : count;
    if (!p->given.run) {
        int free = atomic_load_explicit(&p->most, memory_order_relaxed) + 1 -
                   atomic_load_explicit(&p->runs, memory_order_relaxed);
        if (free < most) most = free;
    }
    if (threads < most) most = threads;
    if (most > 1 && p->given.run) {
        loop l;
        lay_out(&l, (int)most, count, grain, task, state);
        p->given.run(p->given.user, (size_t)most, join_given, &l);
        return;
    }
    loop *l = most > 1 ? take_loop(p) : NULL;
    if (!l) {
        if (count > 0) task(state, 0, count, 0);
        return;
    }
    lay_out(l, (int)most, count, grain, task, state);
    atomic_store(&l->use, TAKEN | OPEN);
    announce(p, (int)most - 1);
    do_parts(l, 0, 0);
    atomic_fetch_and(&l->use, ~(unsigned)OPEN);
    wait_for_others(l);
    atomic_fetch_and(&l->use, ~(unsigned)TAKEN);
}
