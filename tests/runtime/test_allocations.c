/* A prepared run allocates nothing. Every malloc of the process is counted by standing in for it; what Hypatia asks
 * for is counted by its own choke point (base/mem.h), so the difference is what libraries make by themselves.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/networks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if !defined(__GLIBC__)
#define SANITIZED 1 /* no way to the real malloc */
#endif

#ifdef SANITIZED
int main(void)
{
    puts("skipped: this malloc belongs to a sanitizer (or not to glibc), so it cannot be counted");
    return 77;
}
#else

static atomic_ulong allocations;

/* glibc's own names for what we stand in for. Ours must be visible, or libraries would not meet them. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

HYP_API void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}
HYP_API void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}
HYP_API void *realloc(void *p, size_t size)
{
    allocations++;
    return __libc_realloc(p, size);
}
HYP_API void *memalign(size_t align, size_t size)
{
    allocations++;
    return __libc_memalign(align, size);
}
HYP_API void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
HYP_API int posix_memalign(void **out, size_t align, size_t size)
{
    *out = memalign(align, size);
    return *out || !size ? 0 : 12; /* ENOMEM */
}

enum { RUNS = 100, MOST = 64 };

static plan_builder b;

typedef struct counts {
    unsigned long ours, libraries; /* in RUNS runs after the shapes were prepared */
} counts;

static counts count_runs(hyp_device_kind device, int32_t threads, int64_t width, bool library, int64_t batch)
{
    const hyp_engine_options options = {.size = sizeof options, .device = device, .threads = threads};
    char path[PB_PATH];
    static float x[MOST * 20], y[MOST * 10], square[100];
    build_network(&b, width, library);
    hyp_engine *engine = NULL;
    pb_write(&b, path);
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    hyp_context *context = NULL;
    hyp_tensor in = tensor_of("x", HYP_F32, x, 2, (int64_t[]){batch, 20});
    hyp_tensor out[2] = {{.name = "y", .data = y, .bytes = sizeof y, .dtype = HYP_F32},
                         {.name = "square", .data = square, .bytes = sizeof square, .dtype = HYP_F32}};
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_reserve(context, &in, 1, diag));
    unsigned long all = allocations, ours = hyp_mem_count();
    for (int i = 0; i < RUNS; i++)
        if (hyp_context_run(context, &in, 1, out, library ? 2 : 1, NULL) != HYP_OK) abort();
    counts c = {hyp_mem_count() - ours, allocations - all};
    c.libraries -= c.ours;
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    pb_remove(&b, path);
    return c;
}

static void the_counter_counts(void **state)
{
    (void)state;
    unsigned long before = allocations;
    free(hyp_malloc(10));
    assert_int_equal(allocations, before + 1);
}

static void own_and_reference_kernels_allocate_nothing(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        counts c = count_runs(host_devices[d], 1, 50, host_devices[d] == HYP_DEVICE_REFERENCE, 3);
        assert_int_equal(c.ours, 0);
        assert_int_equal(c.libraries, 0);
    }
}

static void several_threads_allocate_nothing(void **state)
{
    (void)state;
    counts c = count_runs(HYP_DEVICE_CPU, 3, 1000, false, MOST); /* enough for loops on all threads */
    assert_int_equal(c.ours, 0);
    assert_int_equal(c.libraries, 0);
}

static void runs_with_a_library_allocate_nothing_of_ours(void **state)
{
    (void)state;
    counts c = count_runs(HYP_DEVICE_CPU, 1, 20000, true, 64);
    print_message("allocations in %d runs (three products of oneDNN each, where it is built in): ours %lu, the "
                  "library's own %lu\n",
                  RUNS, c.ours, c.libraries);
    assert_int_equal(c.ours, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(own_and_reference_kernels_allocate_nothing),
        cmocka_unit_test(several_threads_allocate_nothing),
        cmocka_unit_test(runs_with_a_library_allocate_nothing_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
