/* Memory of an engine from an allocator of the caller's, which counts. On a CUDA device, too, where there is the
 * emulator. */
#include <dlfcn.h>
#include <stdlib.h>

#include "base/mem.h"
#include "runtime/updatable.h"

enum { MOST = 256 };

/* Blocks that are out, with what they were asked for with; the n-th request from now on is refused. */
typedef struct pool {
    void *blocks[MOST];
    size_t bytes[MOST], alignments[MOST];
    size_t count, requests, most_bytes, refuse_after;
    int (*device_alloc)(unsigned long long *out, size_t bytes);
    int (*device_free)(unsigned long long at);
} pool;

static up_plan plan;
static up_version old, new;
static char path[PB_PATH];

static bool refuses(pool *p)
{
    p->requests++;
    return p->refuse_after > 0 && --p->refuse_after == 0;
}

static void *note(pool *p, void *block, size_t bytes, size_t alignment)
{
    assert_true(p->count < MOST);
    p->blocks[p->count] = block;
    p->bytes[p->count] = bytes;
    p->alignments[p->count++] = alignment;
    if (bytes > p->most_bytes) p->most_bytes = bytes;
    return block;
}

static void forget(pool *p, void *block, size_t bytes, size_t alignment)
{
    size_t i = 0;
    while (i < p->count && p->blocks[i] != block) i++;
    assert_true(i < p->count);
    assert_int_equal(p->bytes[i], bytes);
    assert_int_equal(p->alignments[i], alignment);
    p->count--;
    p->blocks[i] = p->blocks[p->count];
    p->bytes[i] = p->bytes[p->count];
    p->alignments[i] = p->alignments[p->count];
}

static void *host_alloc(size_t bytes, size_t alignment, void *user)
{
    assert_true(alignment >= 64 && (alignment & (alignment - 1)) == 0);
    if (refuses(user)) return NULL;
    void *block = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    assert_non_null(block);
    memset(block, 0xa5, bytes);
    return note(user, block, bytes, alignment);
}

static void host_free(void *block, size_t bytes, size_t alignment, void *user)
{
    forget(user, block, bytes, alignment);
    free(block);
}

static void *device_alloc(size_t bytes, void *user)
{
    pool *p = user;
    unsigned long long at = 0;
    if (refuses(p)) return NULL;
    assert_int_equal(p->device_alloc(&at, bytes), 0);
    return note(p, (void *)(uintptr_t)at, bytes, 0);
}

static void device_free(void *block, size_t bytes, void *user)
{
    forget(user, block, bytes, 0);
    assert_int_equal(((pool *)user)->device_free((uintptr_t)block), 0);
}

static hyp_status load(hyp_device_kind device, pool *p, hyp_engine **out, hyp_diag *diag)
{
    const hyp_allocator allocator = {sizeof allocator, host_alloc, host_free, device_alloc, device_free, p};
    const hyp_engine_options options = {
        .size = sizeof options, .device = device, .threads = 1, .allocator = &allocator};
    return hyp_engine_load_file(path, &options, out, diag);
}

static hyp_status put(hyp_engine *engine, up_version *v, hyp_diag *diag)
{
    hyp_tensor tensors[UP_WEIGHTS];
    up_tensors(v, tensors);
    return hyp_engine_update(engine, tensors, UP_WEIGHTS, diag);
}

static hyp_status run(hyp_context *context, const up_version *v, hyp_diag *diag)
{
    float y[UP_MOST_ROWS * UP_OUT], wanted[UP_MOST_ROWS * UP_OUT];
    HYP_TRY(up_run(context, UP_MOST_ROWS, y, diag));
    up_expect(v, UP_MOST_ROWS, wanted);
    assert_memory_equal(y, wanted, sizeof y);
    return HYP_OK;
}

/* All that an engine does. */
static hyp_status live(hyp_device_kind device, pool *p, hyp_diag *diag)
{
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    hyp_status status = load(device, p, &engine, diag);
    if (status == HYP_OK) status = hyp_context_create(engine, NULL, &context, diag);
    if (status == HYP_OK) status = run(context, &old, diag);
    if (status == HYP_OK) status = put(engine, &new, diag);
    if (status == HYP_OK) status = run(context, &new, diag);
    for (int i = 0; i < 4 && status == HYP_OK; i++) {
        size_t before = p->requests;
        status = run(context, &new, diag);
        assert_int_equal(p->requests, before);
    }
    hyp_engine_destroy(engine); /* before its context, which still needs memory of its own */
    if (status == HYP_OK) status = run(context, &new, diag);
    hyp_context_destroy(context);
    return status;
}

/* Each request is refused once: the call fails, and all comes back. */
static void check_device(hyp_device_kind device, pool *p)
{
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (size_t n = 1; status != HYP_OK; n++) {
        hyp_diag why = {0};
        assert_true(n < 200);
        p->refuse_after = n;
        p->requests = 0;
        status = live(device, p, &why);
        if (status != HYP_OK && status != HYP_ERR_NO_MEMORY) fail_msg("request %d: %s", (int)n, why.message);
        assert_int_equal(p->count, 0);
    }
    assert_true(p->requests > 1);
}

static void hosts_take_all_large_memory_there(void **state)
{
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        pool p = {0};
        check_device(host_devices[d], &p);
        assert_true(p.most_bytes >= UP_MOST_ROWS * UP_HIDDEN * sizeof(float)); /* scratch, if nothing else */
    }
}

static void devices_take_theirs_there(void **state)
{
    (void)state;
    pool p = {0};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *alloc = driver ? dlsym(driver, "cuMemAlloc_v2") : NULL,
         *take_back = driver ? dlsym(driver, "cuMemFree_v2") : NULL;
    if (!alloc || !take_back || !dlsym(driver, "emulator_fail")) {
        print_message("skipped: there is no emulator\n");
        skip();
    }
    memcpy(&p.device_alloc, &alloc, sizeof alloc);
    memcpy(&p.device_free, &take_back, sizeof take_back);
    check_device(HYP_DEVICE_CUDA, &p);
    assert_true(p.most_bytes >= 4 << 20); /* the workspace of products */
    dlclose(driver);
}

static void half_a_table_is_refused(void **state)
{
    (void)state;
    hyp_allocator allocator = {.size = sizeof allocator, .alloc = host_alloc};
    const hyp_engine_options options = {
        .size = sizeof options, .device = HYP_DEVICE_CPU, .threads = 1, .allocator = &allocator};
    hyp_engine *engine = NULL;
    hyp_diag why = {0};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(why.message, "set both or none"));
    allocator = (hyp_allocator){.size = sizeof allocator, .device_free = device_free};
    assert_int_equal(hyp_engine_load_file(path, &options, &engine, &why), HYP_ERR_INVALID_ARGUMENT);
    allocator = (hyp_allocator){.size = sizeof allocator}; /* all the system's */
    assert_ok(hyp_engine_load_file(path, &options, &engine, diag));
    hyp_engine_destroy(engine);
}

/* Blocks go back to where they came from, whatever account is named, and lie as they should. */
static void blocks_know_where_they_came_from(void **state)
{
    (void)state;
    pool p = {0};
    const hyp_mem_source source = {host_alloc, host_free, &p};
    hyp_mem_account account = {.source = &source, .most = SIZE_MAX};
    static const size_t aligns[] = {1, 64, 256, 4096}, sizes[] = {0, 1, 100, 1 << 20, 5 << 20};
    for (size_t a = 0; a < sizeof aligns / sizeof *aligns; a++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int sourced = 0; sourced < 2; sourced++) {
                hyp_mem_charge(sourced ? &account : NULL);
                char *block = hyp_aligned_alloc(aligns[a], sizes[s]);
                hyp_mem_charge(sourced ? NULL : &account); /* the other one */
                assert_non_null(block);
                assert_int_equal((uintptr_t)block % aligns[a], 0);
                assert_int_equal((uintptr_t)block % 64, 0);
                assert_int_equal(hyp_aligned_is_sourced(block), sourced);
                assert_int_equal(p.count, sourced);
                memset(block, 1, sizes[s]);
                hyp_aligned_free(block);
                assert_int_equal(p.count, 0);
            }
    hyp_mem_charge(&account);
    assert_null(hyp_aligned_alloc(64, SIZE_MAX - 100));
    hyp_mem_charge(NULL);
}

/* Blocks that live long keep their bytes beside each other, whichever are freed before, and are an account's as others are. */
static void blocks_live_long_side_by_side(void **state)
{
    (void)state;
    enum { COUNT = 100, ROUNDS = 3 };
    static const size_t aligns[] = {1, 64, 4096, 1 << 21}, sizes[] = {0, 100, 1 << 16, 300001, 1 << 20, (1 << 21) - 1, 1 << 21};
    const size_t kinds = sizeof sizes / sizeof *sizes;
    pool p = {0};
    const hyp_mem_source source = {host_alloc, host_free, &p};
    hyp_mem_account account = {.most = SIZE_MAX}, sourced = {.source = &source, .most = SIZE_MAX};
    unsigned char *blocks[COUNT];
    hyp_mem_charge(&account);
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = 0;
        for (size_t i = 0; i < COUNT; i++) {
            size_t align = aligns[i % 4], size = sizes[i % kinds];
            blocks[i] = hyp_lasting_alloc(align, size);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % align, 0);
            memset(blocks[i], (int)i, size);
            bytes += size;
        }
        assert_int_equal(hyp_mem_used(&account), bytes);
        for (size_t i = 0; i < COUNT; i++) { /* one from the front, two from the back */
            size_t at = i % 3 == 0 ? i / 3 : COUNT - 1 - (i - i / 3 - 1), size = sizes[at % kinds];
            for (size_t b = 0; b < size; b += 1 + size / 1000) assert_int_equal(blocks[at][b], (unsigned char)at);
            assert_int_equal(hyp_aligned_is_sourced(blocks[at]), false);
            hyp_aligned_free(blocks[at]);
        }
        assert_int_equal(hyp_mem_used(&account), 0);
    }
    account.most = 1 << 20;
    assert_null(hyp_lasting_alloc(64, (1 << 20) + 1));
    hyp_mem_charge(&sourced);
    void *block = hyp_lasting_alloc(64, 1 << 20);
    assert_true(hyp_aligned_is_sourced(block));
    hyp_aligned_free(block);
    assert_int_equal(p.count, 0);
    hyp_mem_charge(NULL);
}

static int start(void **state)
{
    (void)state;
    up_draw(1, &old);
    up_draw(2, &new);
    up_build(&plan, &old, 0);
    pb_write(&plan.outer, path);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pb_remove(&plan.outer, path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_know_where_they_came_from), cmocka_unit_test(blocks_live_long_side_by_side),
        cmocka_unit_test(hosts_take_all_large_memory_there),
        cmocka_unit_test(devices_take_theirs_there),
        cmocka_unit_test(half_a_table_is_refused),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
