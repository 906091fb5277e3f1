/* What the plan layer promises of files: they come back as they were written, and nothing damaged opens. */
#include <math.h>

#include "written_plan.h"

/* ---- files ------------------------------------------------------------------------------------------ */

static void a_plan_reads_back_as_it_was_written(void **state)
{
    fixture *f = *state;
    hyp_plan plan;
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_open_file(f->path, NULL, &plan, &diag), HYP_OK);
    assert_int_equal(plan.major, HYP_PLAN_MAJOR);
    assert_int_equal(plan.file_bytes, f->size);
    size_t size = hyp_plan__program__get_packed_size(f->program);
    uint8_t *a = malloc(size), *b = malloc(size);
    assert_int_equal(hyp_plan__program__get_packed_size(plan.program), size);
    hyp_plan__program__pack(f->program, a);
    hyp_plan__program__pack(plan.program, b);
    assert_memory_equal(a, b, size);
    free(a);
    free(b);
    const HypPlan__Tensor *w2 = plan.program->tensors[S_W2];
    const float *values = (const float *)(const void *)(plan.weights + w2->offset);
    assert_int_equal((uintptr_t)values % HYP_PLAN_ALIGN, 0);
    assert_true(values[31] == S_W2 + 31.0f / 16);
    hyp_plan_close(&plan);
}

static void the_same_program_gives_the_same_bytes(void **state)
{
    fixture *f = *state;
    char path[80];
    snprintf(path, sizeof path, "%s.again", f->path);
    hyp_arena arena = {0};
    hyp_plan_weights weights = sample_weights();
    assert_int_equal(hyp_plan_write(path, sample_program(&arena), &weights, NULL, NULL), HYP_OK);
    uint8_t *bytes;
    size_t size;
    read_file(path, &bytes, &size);
    assert_int_equal(size, f->size);
    assert_memory_equal(bytes, f->bytes, size);
    unlink(path);
    hyp_aligned_free(bytes);
    hyp_arena_dispose(&arena);
}

/* Standard output cannot be patched: the weights are read twice, the bytes are the same. */
static void a_plan_on_standard_output_has_the_same_bytes(void **state)
{
    fixture *f = *state;
    char path[80];
    snprintf(path, sizeof path, "%s.stdout", f->path);
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    assert_non_null(freopen(path, "wb", stdout));
    hyp_plan_weights weights = sample_weights();
    hyp_status status = hyp_plan_write("-", f->program, &weights, NULL, NULL);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    assert_int_equal(status, HYP_OK);
    uint8_t *bytes;
    size_t size;
    read_file(path, &bytes, &size);
    assert_int_equal(size, f->size);
    assert_memory_equal(bytes, f->bytes, size);
    unlink(path);
    hyp_aligned_free(bytes);
}

static hyp_status fail_to_get(void *user, uint32_t tensor, const void **out, hyp_diag *diag)
{
    (void)user, (void)tensor, (void)out;
    return hyp_fail(diag, HYP_ERR_IO, "the weight is gone");
}

static void a_plan_that_cannot_be_finished_leaves_no_file(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    hyp_plan_weights weights = {fail_to_get, NULL};
    assert_int_equal(hyp_plan_write(f->path, f->program, &weights, NULL, NULL), HYP_ERR_IO);
    assert_int_not_equal(access(f->path, F_OK), 0);
}

/* Whatever opens must be safe to evaluate. */
static void evaluate(const hyp_plan *plan)
{
    int64_t symbols[4] = {3, 3, 3, 3};
    int64_t *values = calloc(plan->program->n_dims + 1, sizeof *values);
    if (plan->program->n_symbols <= 4 && hyp_plan_eval_dims(plan->program, symbols, values, NULL) == HYP_OK &&
        hyp_plan_check_bounds(plan->program, values, NULL) == HYP_OK)
        for (uint32_t s = 0; s < plan->program->n_steps; s++) hyp_plan_step_work(plan->program, s, values);
    free(values);
}

/* With the header's checksum alone a changed weight is not looked for, and a program whose structure is broken is
 * refused all the same. */
static void the_header_alone_is_enough_to_be_safe(void **state)
{
    fixture *f = *state;
    hyp_plan_open_options options = {.header_only = true};
    hyp_plan plan;
    size_t opened = 0, refused = 0;
    for (size_t i = 0; i < f->size * 8; i++) {
        f->bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(open_bytes(f->bytes, f->size, NULL) == HYP_OK, false);
        hyp_status status = hyp_plan_open_memory(f->bytes, f->size, "m", &options, &plan, NULL);
        if (i / 8 < HYP_PLAN_HEADER) assert_int_not_equal(status, HYP_OK);
        if (i / 8 == f->size - 1) assert_int_equal(status, HYP_OK); /* the last weight */
        if (status == HYP_OK) {
            evaluate(&plan);
            hyp_plan_close(&plan);
        }
        opened += status == HYP_OK;
        refused += status != HYP_OK;
        f->bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    assert_true(opened > 1000 && refused > 1000);
}

static void a_plan_in_unaligned_memory_opens_with_aligned_weights(void **state)
{
    fixture *f = *state;
    uint8_t *shifted = hyp_aligned_alloc(64, f->size + 1);
    memcpy(shifted + 1, f->bytes, f->size);
    hyp_plan plan;
    assert_int_equal(hyp_plan_open_memory(shifted + 1, f->size, "m", NULL, &plan, NULL), HYP_OK);
    assert_int_equal((uintptr_t)plan.weights % 64, 0);
    assert_memory_equal(plan.weights, f->bytes + (f->size - plan.weights_bytes), plan.weights_bytes);
    hyp_plan_close(&plan);
    hyp_aligned_free(shifted);
}

static void a_plan_cut_anywhere_is_refused(void **state)
{
    fixture *f = *state;
    for (size_t n = 0; n < f->size; n++) {
        hyp_diag diag = {0};
        assert_int_equal(open_bytes(f->bytes, n, &diag), HYP_ERR_MALFORMED);
        assert_non_null(strstr(diag.message, "test.bin"));
    }
}

static void a_plan_with_bytes_behind_it_is_refused(void **state)
{
    fixture *f = *state;
    uint8_t *longer = hyp_aligned_alloc(64, f->size + 1);
    memcpy(longer, f->bytes, f->size);
    longer[f->size] = 0;
    assert_int_equal(open_bytes(longer, f->size + 1, NULL), HYP_ERR_MALFORMED);
    hyp_aligned_free(longer);
}

static void every_flipped_bit_is_noticed(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; i < f->size; i++) {
        f->bytes[i] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(open_bytes(f->bytes, f->size, NULL), HYP_OK);
        f->bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    assert_int_equal(open_bytes(f->bytes, f->size, NULL), HYP_OK);
}

/* Flips behind valid checksums reach the parser and the validator. */
static void flips_behind_valid_checksums_never_crash(void **state)
{
    fixture *f = *state;
    uint8_t *bytes = hyp_aligned_alloc(64, f->size);
    uint64_t random = 1;
    size_t opened = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(bytes, f->bytes, f->size);
        for (int flips = 1 + round % 3; flips > 0; flips--) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            bytes[(random >> 33) % f->size] ^= (uint8_t)(1u << (random >> 61));
        }
        reseal(bytes, f->size);
        hyp_plan plan;
        if (hyp_plan_open_memory(bytes, f->size, "m", NULL, &plan, NULL) != HYP_OK) {
            refused++;
            continue;
        }
        opened++;
        evaluate(&plan);
        hyp_plan_close(&plan);
    }
    assert_true(refused > 1000);
    assert_true(opened > 0); /* a changed name, say */
    hyp_aligned_free(bytes);
}

/* What a plan keeps to be verified with belongs to its inputs and outputs, or the plan is refused. */
static void kept_runs_fit_the_program(void **state)
{
    fixture *f = *state;
    uint64_t dims[HYP_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    HypPlan__Golden__Input inputs[16], *in[16];
    HypPlan__Golden__Output outputs[16], *out[16];
    HypPlan__Golden run = HYP_PLAN__GOLDEN__INIT, *runs = &run;
    HypPlan__Program *p = f->program;
    run.n_inputs = p->n_inputs;
    run.n_outputs = p->n_outputs;
    run.inputs = in;
    run.outputs = out;
    assert_true(p->n_inputs <= 16 && p->n_outputs <= 16);
    for (size_t i = 0; i < p->n_inputs; i++) {
        hyp_plan__golden__input__init(in[i] = &inputs[i]);
        inputs[i].dims = dims;
        inputs[i].n_dims = p->tensors[p->inputs[i]]->n_dims;
    }
    for (size_t i = 0; i < p->n_outputs; i++) {
        hyp_plan__golden__output__init(out[i] = &outputs[i]);
        outputs[i].dims = dims;
        outputs[i].n_dims = p->tensors[p->outputs[i]]->n_dims;
        outputs[i].stride = 1;
    }
    p->golden = &runs;
    p->n_golden = 1;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    inputs[0].how = 3; /* no way of drawing */
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_ERR_MALFORMED);
    inputs[0].how = 0;
    inputs[0].n_dims++;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_ERR_MALFORMED);
    inputs[0].n_dims--;
    uint8_t bytes[3] = {0};
    outputs[0].tolerances = (ProtobufCBinaryData){1, bytes}; /* without its value */
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_ERR_MALFORMED);
    outputs[0].tolerances.len = 0;
    outputs[0].stride = 0;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_ERR_MALFORMED);
    outputs[0].stride = 1;
    run.n_outputs = 0;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_ERR_MALFORMED);
    p->golden = NULL;
    p->n_golden = 0;
    /* A tolerance is never rounded down, and by no more than half an octave. */
    for (double t = 1e-20; t < 1e12; t *= 1.37) {
        double kept = hyp_plan_tolerance(hyp_plan_tolerance_byte(t));
        assert_true(kept >= t && kept <= 1.42 * t);
    }
    assert_true(hyp_plan_tolerance(hyp_plan_tolerance_byte(0)) == 0);
}

static void another_major_version_is_incompatible(void **state)
{
    fixture *f = *state;
    f->bytes[8] = HYP_PLAN_MAJOR + 1;
    hyp_diag diag = {0};
    char found[16];
    snprintf(found, sizeof found, "%d.%d", HYP_PLAN_MAJOR + 1, HYP_PLAN_MINOR);
    assert_int_equal(open_bytes(f->bytes, f->size, &diag), HYP_ERR_INCOMPATIBLE);
    assert_non_null(strstr(diag.message, found));
    assert_non_null(strstr(diag.message, "again"));
}

static void a_newer_minor_version_opens(void **state)
{
    fixture *f = *state;
    f->bytes[12] = HYP_PLAN_MINOR + 1;
    reseal(f->bytes, f->size);
    assert_int_equal(open_bytes(f->bytes, f->size, NULL), HYP_OK);
}

static void other_files_are_named_as_no_plans(void **state)
{
    (void)state;
    static const char png[] = "\x89PNG\r\n\x1a\n0000000000000000";
    hyp_diag diag = {0};
    assert_int_equal(open_bytes(png, sizeof png, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "not a plan"));
    assert_int_equal(open_bytes("", 0, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "empty"));
    hyp_plan plan;
    assert_int_equal(hyp_plan_open_file("no/such/plan.bin", NULL, &plan, &diag), HYP_ERR_IO);
    assert_int_equal(hyp_plan_open_file(".", NULL, &plan, &diag), HYP_ERR_IO);
}

/* Every two bytes would become a structure: the parser's memory is bounded by the size of the file. */
static void a_small_file_cannot_take_much_memory(void **state)
{
    (void)state;
    enum { PROGRAM = 200000 };
    uint8_t *bytes = hyp_aligned_alloc(64, 256 + PROGRAM);
    memset(bytes, 0, 256);
    memcpy(bytes, HYP_PLAN_MAGIC, 8);
    for (size_t i = 0; i < PROGRAM; i += 2) memcpy(bytes + 256 + i, "\x62\x00", 2); /* an empty step */
    uint64_t fields[] = {256 + PROGRAM, 256, PROGRAM, 0, (256 + PROGRAM + 255) & ~(uint64_t)255};
    bytes[8] = HYP_PLAN_MAJOR;
    memcpy(bytes + 16, fields, sizeof fields);
    reseal(bytes, 256 + PROGRAM);
    assert_int_equal(open_bytes(bytes, 256 + PROGRAM, NULL), HYP_ERR_MALFORMED);
    hyp_aligned_free(bytes);
}

static void running_out_of_memory_is_an_error(void **state)
{
    fixture *f = *state;
    for (uint64_t n = 1; n < 100000; n++) {
        hyp_mem_fail_after(n);
        hyp_plan plan;
        hyp_status status = hyp_plan_open_memory(f->bytes, f->size, "m", NULL, &plan, NULL);
        hyp_mem_fail_after(0);
        if (status == HYP_OK) {
            hyp_plan_close(&plan);
            return;
        }
        assert_int_equal(status, HYP_ERR_NO_MEMORY);
    }
    fail();
}

/* ---- device section --------------------------------------------------------------------------------- */

static uint8_t algorithm[] = {1, 2, 3, 4};
static HypPlan__TunedProduct tuned_product(const char *key, double seconds)
{
    HypPlan__TunedProduct p;
    hyp_plan__tuned_product__init(&p);
    p.key = (char *)(uintptr_t)key;
    p.algorithm = (ProtobufCBinaryData){sizeof algorithm, algorithm};
    p.attributes = (char *)(uintptr_t) "tile 20";
    p.workspace = 1 << 20;
    p.seconds = seconds;
    p.first_seconds = 2 * seconds;
    return p;
}

/* Opens the sample and writes it with two products, first and second, to `path`. */
static hyp_status write_tuned(const fixture *f, const char *path, HypPlan__TunedProduct *first,
                              HypPlan__TunedProduct *second, hyp_diag *diag)
{
    hyp_plan plan;
    assert_int_equal(hyp_plan_open_file(f->path, NULL, &plan, diag), HYP_OK);
    HypPlan__TunedProduct *list[] = {first, second};
    HypPlan__Device device;
    hyp_plan__device__init(&device);
    device.name = (char *)(uintptr_t) "some GPU, some library";
    device.products = list;
    device.n_products = 2;
    hyp_status status = hyp_plan_write_device(path, &plan, &device, diag);
    hyp_plan_close(&plan);
    return status;
}

static void a_device_section_comes_back_and_goes(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    HypPlan__TunedProduct a = tuned_product("a", 1e-6), b = tuned_product("b", 2e-6);
    assert_int_equal(write_tuned(f, f->path, &a, &b, &diag), HYP_OK); /* over the plan itself */
    hyp_plan plan;
    assert_int_equal(hyp_plan_open_file(f->path, NULL, &plan, &diag), HYP_OK);
    assert_non_null(plan.device);
    assert_string_equal(plan.device->name, "some GPU, some library");
    assert_int_equal(plan.device->n_products, 2);
    const HypPlan__TunedProduct *got = plan.device->products[1];
    assert_string_equal(got->key, "b");
    assert_int_equal(got->algorithm.len, sizeof algorithm);
    assert_memory_equal(got->algorithm.data, algorithm, sizeof algorithm);
    assert_true(got->workspace == 1 << 20 && got->seconds == 2e-6 && got->first_seconds == 4e-6);
    assert_memory_equal(plan.weights, f->bytes + (f->size - plan.weights_bytes), plan.weights_bytes);
    assert_int_equal(hyp_plan_write_device(f->path, &plan, NULL, &diag), HYP_OK);
    hyp_plan_close(&plan);
    uint8_t *bytes;
    size_t size;
    read_file(f->path, &bytes, &size);
    assert_int_equal(size, f->size);
    assert_memory_equal(bytes, f->bytes, size);
    hyp_aligned_free(bytes);
}

static void a_device_section_that_makes_no_sense_is_not_written(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    HypPlan__TunedProduct a = tuned_product("a", 1e-6), b = tuned_product("b", NAN);
    assert_int_equal(write_tuned(f, f->path, &a, &a, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "keys to ascend"));
    assert_int_equal(write_tuned(f, f->path, &a, &b, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "times"));
    b = tuned_product("b", 1e-6);
    b.algorithm.len = 0;
    assert_int_equal(write_tuned(f, f->path, &a, &b, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "algorithm of 0 bytes"));
}

static void a_damaged_device_section_is_refused(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    HypPlan__TunedProduct a = tuned_product("a", 1e-6), b = tuned_product("b", 2e-6);
    assert_int_equal(write_tuned(f, f->path, &a, &b, &diag), HYP_OK);
    uint8_t *bytes;
    size_t size, at = (f->size + 255) & ~(size_t)255;
    read_file(f->path, &bytes, &size);
    assert_true(at < size);
    for (size_t cut = f->size; cut < size; cut++) assert_int_equal(open_bytes(bytes, cut, NULL), HYP_ERR_MALFORMED);
    for (size_t i = f->size * 8; i < size * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(open_bytes(bytes, size, NULL), HYP_ERR_MALFORMED);
        if (i / 8 >= at) { /* behind a valid checksum nothing crashes, whatever it says */
            reseal(bytes, size);
            (void)open_bytes(bytes, size, NULL);
        }
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        reseal(bytes, size);
    }
    memset(bytes + at, 0xff, size - at);
    reseal(bytes, size);
    assert_int_equal(open_bytes(bytes, size, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "does not parse"));
    hyp_aligned_free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plan_reads_back_as_it_was_written),
        TEST(the_same_program_gives_the_same_bytes),
        TEST(a_plan_on_standard_output_has_the_same_bytes),
        TEST(a_plan_that_cannot_be_finished_leaves_no_file),
        TEST(the_header_alone_is_enough_to_be_safe),
        TEST(a_device_section_comes_back_and_goes),
        TEST(a_device_section_that_makes_no_sense_is_not_written),
        TEST(a_damaged_device_section_is_refused),
        TEST(a_plan_in_unaligned_memory_opens_with_aligned_weights),
        TEST(a_plan_cut_anywhere_is_refused),
        TEST(a_plan_with_bytes_behind_it_is_refused),
        TEST(every_flipped_bit_is_noticed),
        TEST(flips_behind_valid_checksums_never_crash),
        TEST(another_major_version_is_incompatible),
        TEST(kept_runs_fit_the_program),
        TEST(a_newer_minor_version_opens),
        TEST(other_files_are_named_as_no_plans),
        TEST(a_small_file_cannot_take_much_memory),
        TEST(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
