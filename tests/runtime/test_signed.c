/* hyp_engine_options.require_signature: whatever way a plan is loaded, it is the one that was signed. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "hypatia/runtime.h"
#include "hypatia/signature.h"
#include "runtime/support.h"

static plan_builder b;
static char plan[PB_PATH], key[PB_PATH + 8], pub[PB_PATH + 16];
static unsigned char public_key[HYP_PUBLIC_KEY_BYTES];

static int setup(void **state)
{
    (void)state;
    static const float w[] = {1, 2, 3, 4, 5, 6};
    pb_init(&b);
    uint32_t *shape = pb_consts(&b, 2, (int64_t[]){1, 2});
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, pb_consts(&b, 2, (int64_t[]){1, 3}));
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, shape);
    HypPlan__Linear *s = pb_linear(&b, x, y, shape[0]);
    pb_layer(&b, s, 2, 3, pb_weight(&b, HYP_F32, 2, (int64_t[]){2, 3}, w), PB_NONE, HYP_PLAN__ACT__ACT_NONE, PB_NONE);
    pb_write(&b, plan);
    snprintf(key, sizeof key, "%s.key", plan);
    snprintf(pub, sizeof pub, "%s.pub", key);
    unlink(key);
    unlink(pub);
    assert_ok(hyp_key_generate(key, diag));
    assert_ok(hyp_key_read_public(pub, public_key, diag));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(plan);
    unlink(key);
    unlink(pub);
    pb_dispose(&b);
    return 0;
}

static hyp_engine_options required(void)
{
    return (hyp_engine_options){
        .size = sizeof(hyp_engine_options), .device = HYP_DEVICE_CPU, .require_signature = public_key};
}

static void assert_runs(hyp_engine *engine)
{
    float in[] = {1, 1, 1}, out[2] = {0};
    hyp_tensor x = tensor_of("x", HYP_F32, in, 2, (int64_t[]){1, 3}),
               y = tensor_of("y", HYP_F32, out, 2, (int64_t[]){1, 2});
    hyp_context *context = NULL;
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_run(context, &x, 1, &y, 1, diag));
    assert_true(out[0] == 6 && out[1] == 15);
    hyp_context_destroy(context);
}

static void a_file_is_loaded_if_it_is_signed(void **state)
{
    (void)state;
    hyp_engine_options options = required();
    hyp_engine *engine = NULL;
    size_t bytes = 77;
    assert_int_equal(hyp_engine_load_file(plan, &options, &engine, NULL), HYP_ERR_SIGNATURE);
    assert_null(engine);
    assert_int_equal(hyp_plan_memory_needed(plan, &options, &bytes, NULL), HYP_ERR_SIGNATURE);
    assert_int_equal(bytes, 77);
    assert_ok(hyp_plan_sign(plan, key, NULL, diag));
    assert_ok(hyp_plan_memory_needed(plan, &options, &bytes, diag));
    assert_ok(hyp_engine_load_file(plan, &options, &engine, diag));
    assert_memory_equal(hyp_engine_signer(engine), public_key, sizeof public_key);
    assert_runs(engine);
    hyp_engine_destroy(engine);
    options.require_signature = NULL;
    assert_ok(hyp_engine_load_file(plan, &options, &engine, diag));
    assert_memory_equal(hyp_engine_signer(engine), public_key, sizeof public_key); /* says the plan */
    hyp_engine_destroy(engine);
    assert_null(hyp_engine_signer(NULL));
}

/* A program of an older header has no such field, and what it has in memory behind its struct is not read. */
static void an_older_struct_requires_none(void **state)
{
    (void)state;
    hyp_engine_options options = required();
    hyp_engine *engine = NULL;
    options.size = offsetof(hyp_engine_options, require_signature);
    public_key[0] ^= 1;
    assert_ok(hyp_engine_load_file(plan, &options, &engine, diag));
    hyp_engine_destroy(engine);
    options.size = sizeof options;
    assert_int_equal(hyp_engine_load_file(plan, &options, &engine, NULL), HYP_ERR_SIGNATURE);
    public_key[0] ^= 1;
}

/* Also where checksums are off, and the memory is not aligned. */
static void memory_is_loaded_if_it_is_signed(void **state)
{
    (void)state;
    static _Alignas(64) unsigned char memory[16384];
    unsigned char *bytes = memory + 1;
    hyp_engine_options options = required();
    hyp_engine *engine = NULL;
    FILE *file = fopen(plan, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof memory - 1, file);
    fclose(file);
    options.checks = HYP_CHECKS_OFF;
    assert_ok(hyp_engine_load_memory(bytes, size, &options, &engine, diag));
    assert_runs(engine);
    hyp_engine_destroy(engine);
    engine = NULL;
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= (unsigned char)(1 << i % 8);
        assert_int_not_equal(hyp_engine_load_memory(bytes, size, &options, &engine, NULL), HYP_OK);
        bytes[i] ^= (unsigned char)(1 << i % 8);
    }
    assert_null(engine);
}

static void a_saved_plan_is_not_signed(void **state)
{
    (void)state;
    hyp_engine_options options = required();
    hyp_engine *engine = NULL;
    hyp_context *context = NULL;
    assert_ok(hyp_engine_load_file(plan, &options, &engine, diag));
    assert_ok(hyp_context_create(engine, NULL, &context, diag));
    assert_ok(hyp_context_save_plan(context, plan, diag));
    hyp_context_destroy(context);
    hyp_engine_destroy(engine);
    assert_int_equal(hyp_engine_load_file(plan, &options, &engine, NULL), HYP_ERR_SIGNATURE);
    options.require_signature = NULL;
    assert_ok(hyp_engine_load_file(plan, &options, &engine, diag));
    assert_null(hyp_engine_signer(engine));
    hyp_engine_destroy(engine);
}

int main(void)
{
    hyp_diag diag = {0};
    if (hyp_key_read_public("/dev/null", public_key, &diag) == HYP_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", diag.message);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_loaded_if_it_is_signed),
        cmocka_unit_test(an_older_struct_requires_none),
        cmocka_unit_test(memory_is_loaded_if_it_is_signed),
        cmocka_unit_test(a_saved_plan_is_not_signed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
