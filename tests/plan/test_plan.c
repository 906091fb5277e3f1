/* What the plan layer promises: files come back as they were written, nothing damaged opens, and programs that
 * would misbehave are refused.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "sample_plan.h"

/* ---- a sample file in memory ------------------------------------------------------------------------ */

typedef struct fixture {
    hyp_arena arena;
    HypPlan__Program *program;
    char path[64];
    uint8_t *bytes; /* of the file, 64-byte aligned */
    size_t size;
} fixture;

static void read_file(const char *path, uint8_t **out, size_t *out_size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *out_size = (size_t)ftell(f);
    rewind(f);
    *out = hyp_aligned_alloc(64, *out_size);
    assert_int_equal(fread(*out, 1, *out_size, f), *out_size);
    fclose(f);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->program = sample_program(&f->arena);
    snprintf(f->path, sizeof f->path, "test_plan.%ld.bin", (long)getpid());
    hyp_plan_weights weights = sample_weights();
    hyp_diag diag = {0};
    if (hyp_plan_write(f->path, f->program, &weights, NULL, &diag) != HYP_OK) {
        print_error("%s\n", diag.message);
        return -1;
    }
    read_file(f->path, &f->bytes, &f->size);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    hyp_aligned_free(f->bytes);
    hyp_arena_dispose(&f->arena);
    free(f);
    return 0;
}

static hyp_status open_bytes(const void *bytes, size_t size, hyp_diag *diag)
{
    hyp_plan plan;
    hyp_status status = hyp_plan_open_memory(bytes, size, "test.bin", NULL, &plan, diag);
    if (status == HYP_OK) hyp_plan_close(&plan);
    return status;
}

/* Recomputes the header's checksums, as a hostile writer would. */
static void reseal(uint8_t *bytes, size_t size)
{
    uint64_t program_bytes, header, device[2];
    memcpy(&program_bytes, bytes + 32, 8);
    memcpy(device, bytes + 72, sizeof device); /* offset, bytes */
    if (program_bytes <= size - 256) {
        uint64_t h = hyp_hash(bytes + 256, program_bytes, 0);
        memcpy(bytes + 40, &h, 8);
    }
    if (device[0] <= size && device[1] <= size - device[0]) {
        uint64_t h = hyp_hash(bytes + device[0], device[1], 0);
        memcpy(bytes + 88, &h, 8);
    }
    header = hyp_hash(bytes, 248, 0);
    memcpy(bytes + 248, &header, 8);
}

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

/* ---- programs that are refused ----------------------------------------------------------------------- */

#define REFUSED(f, text)                                                                                               \
    do {                                                                                                               \
        hyp_diag diag_ = {0};                                                                                          \
        assert_int_equal(hyp_plan_validate((f)->program, &diag_), HYP_ERR_MALFORMED);                                  \
        if (!strstr(diag_.message, (text))) fail_msg("'%s' lacks '%s'", diag_.message, (text));                        \
    } while (0)
/* Makes one change, wants the refusal, and takes it back. */
#define CHANGED(f, place, value, text)                                                                                 \
    do {                                                                                                               \
        __typeof__(place) old_ = (place);                                                                              \
        (place) = (value);                                                                                             \
        REFUSED((f), (text));                                                                                          \
        (place) = old_;                                                                                                \
    } while (0)

static void indexes_out_of_range_are_refused(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->dims[D_8BATCH]->a, D_8BATCH, "do not come before");
    CHANGED(f, p->dims[D_BATCH]->value, 1, "symbol 1 of 1");
    CHANGED(f, p->tensors[S_CAT]->dims[1], D_DIMS, "tensor 8");
    CHANGED(f, p->tensors[S_CAT]->slot, 3, "slot 3 of 3");
    CHANGED(f, p->tensors[S_FLAT]->view_of, S_TENSORS, "view of tensor");
    CHANGED(f, p->tensors[S_FLAT]->view_of, S_FLAT, "view of a view");
    CHANGED(f, p->tensors[S_W1]->bytes, 127, "127 bytes");
    CHANGED(f, p->tensors[S_W1]->dims[0], D_BATCH, "not a fixed size");
    CHANGED(f, p->inputs[0], S_TENSORS, "input 0");
    CHANGED(f, p->outputs[1], S_SOFT, "two outputs are named");
    CHANGED(f, p->n_outputs, 4, "outputs are listed");
    CHANGED(f, p->slot_count, 1000000, "slots");
    CHANGED(f, p->steps[T_LINEAR]->rules[0], 1, "rule 1 of 1");
    CHANGED(f, p->predicted_seconds, -1e-9, "predicted to take -1e-09 seconds");
    CHANGED(f, p->predicted_seconds, (double)INFINITY, "predicted to take inf");
    CHANGED(f, p->hop_seconds, -1e-9, "going on on another stream is predicted to take -1e-09 seconds");
    CHANGED(f, p->hop_seconds, (double)NAN, "another stream is predicted to take nan");
    CHANGED(f, p->steps[T_LINEAR]->share, -0.5, "its share of the device is -0.5");
    CHANGED(f, p->steps[T_LINEAR]->share, (double)INFINITY, "its share of the device is inf");
    CHANGED(f, p->kept_seconds, -1e-9, "without computing anything again it is predicted to take -1e-09 seconds");
    CHANGED(f, p->kept_seconds, (double)NAN, "again it is predicted to take nan");
    CHANGED(f, p->steps[T_LINEAR]->predicted_seconds, -1e-9, "predicted to take -1e-09 seconds");
    CHANGED(f, p->steps[T_LINEAR]->predicted_seconds, (double)NAN, "predicted to take nan");
    CHANGED(f, p->steps[T_LINEAR]->predicted_seconds, (double)INFINITY, "predicted to take inf");
    CHANGED(f, p->n_typical_sizes, 2, "2 typical sizes for 1 symbols");
    CHANGED(f, p->record, ((ProtobufCBinaryData){2, (uint8_t[]){'{', 0xff}}), "record of its compilation has 2 bytes; wanted is UTF-8");
    CHANGED(f, p->record, ((ProtobufCBinaryData){2, (uint8_t[]){'{', 0}}), "record of its compilation has 2 bytes; wanted is UTF-8");
    CHANGED(f, p->record, ((ProtobufCBinaryData){HYP_PLAN_MAX_RECORD + 1, (uint8_t[]){'{'}}), "4194305 bytes");
    CHANGED(f, p->steps[T_LINEAR]->linear->x, S_TENSORS, "step 0 (fused-mlp)");
    CHANGED(f, p->steps[T_LINEAR]->linear->m, D_DIMS, "m is dim");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->instrs[0]->a, 2, "registers");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->output_regs[0], 3, "register 3 of 3");
    CHANGED(f, p->steps[T_ATTENTION]->attention->q->tensor, S_TENSORS, "q is tensor");
    CHANGED(f, p->steps[T_ATTENTION]->attention->k->offset, D_DIMS, "k is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->v->strides[1], D_DIMS, "v is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->columns, D_DIMS, "columns is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->first_keys, D_DIMS, "the first keys is dim");
    CHANGED(f, p->steps[T_ATTENTION]->attention->more_keys, D_DIMS, "more keys is dim");
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
}

static void lists_of_other_lengths_are_refused(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->steps[T_LINEAR]->linear->n_layers, 0, "no layers");
    CHANGED(f, p->steps[T_LINEAR]->linear->layers[0]->hidden_plus1, 0, "hidden");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->inputs[0]->n_strides, 1, "1 strides for 2 axes");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->n_output_regs, 0, "registers");
    CHANGED(f, p->steps[T_LEFT]->copy->n_y_strides, 1, "strides");
    CHANGED(f, p->steps[T_REDUCE]->reduce->n_kept_strides, 0, "strides");
    CHANGED(f, p->steps[T_ATTENTION]->attention->mask->n_strides, 1, "the mask has 1 strides for 2 axes");
    CHANGED(f, p->steps[T_ATTENTION]->attention->y, NULL, "lacks y");
    CHANGED(f, p->steps[T_ATTENTION]->attention->more_k, p->steps[T_ATTENTION]->attention->k, "lacks more of v");
    CHANGED(f, p->steps[T_ATTENTION]->attention->n_batch, 9, "9 axes");
    CHANGED(f, p->tensors[S_X]->n_dims, 9, "9 axes");
    CHANGED(f, p->tensors[S_X]->n_dims, 0, "batch"); /* nothing binds the symbol any more */
}

/* Backends pack weights when they load a plan, before there are shapes: what has no symbol is proved by then. */
static void layers_have_their_weights_before_there_are_shapes(void **state)
{
    fixture *f = *state;
    HypPlan__Layer **layers = f->program->steps[T_LINEAR]->linear->layers;
    CHANGED(f, layers[0]->k, D_8, "the weight has 32 elements, the step wants 64");
    CHANGED(f, layers[0]->n, D_3, "the weight has 32 elements, the step wants 12");
    CHANGED(f, layers[0]->bias_plus1, S_W1 + 1, "the bias has 32 elements, the step wants 8");
    layers[1]->n = D_8;
    CHANGED(f, layers[1]->k, D_4, "layer 1 takes 4 features, the one before gives 8");
    layers[1]->n = D_4;
    HypPlan__Dim *eight = f->program->dims[D_8], old = *eight; /* as large, and made of others */
    *eight = (HypPlan__Dim){.base = old.base, .kind = HYP_PLAN__DIM__KIND__MUL, .a = D_4, .b = D_4};
    f->program->tensors[S_B1]->dims[0] = f->program->tensors[S_W1]->dims[0] = f->program->tensors[S_W2]->dims[1] = D_4;
    f->program->tensors[S_B1]->bytes = 16;
    f->program->tensors[S_W1]->bytes = f->program->tensors[S_W2]->bytes = 64;
    REFUSED(f, "the weight has 16 elements, the step wants 64");
    *eight = old;
}

/* A view of a weight is as large as the weight, and a size that is not there yet is looked at with the shapes. */
static void views_and_symbols_of_layers_are_looked_at_in_time(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Layer **layers = p->steps[T_LINEAR]->linear->layers;
    layers[0]->n = D_BATCH;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    int64_t values[D_DIMS], three = 3;
    assert_int_equal(hyp_plan_eval_dims(p, &three, values, NULL), HYP_OK);
    assert_int_equal(hyp_plan_check_bounds(p, values, NULL), HYP_ERR_INVALID_ARGUMENT);
    layers[0]->n = D_8;
    p->tensors[S_FLAT]->view_of = S_W1;
    p->tensors[S_FLAT]->dims[0] = D_8;
    REFUSED(f, "32 elements are reshaped to 8 in tensor 9");
}

static void types_that_do_not_agree_are_refused(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->tensors[S_X]->dtype, HYP_F64, "wanted");
    CHANGED(f, p->tensors[S_IDS]->dtype, HYP_F32, "indices");
    CHANGED(f, p->tensors[S_SHAPE]->dtype, HYP_I32, "i64");
    CHANGED(f, p->tensors[S_FLAT]->dtype, HYP_I32, "another type");
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->compute, HYP_I64, "integer");
    CHANGED(f, p->steps[T_ATTENTION]->attention->mask->tensor, S_SHAPE, "the mask is i64, wanted f32");
    CHANGED(f, p->steps[T_ATTENTION]->attention->k->tensor, S_IDS, "k is i64, wanted f32");
}

static void steps_must_read_what_stands(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    CHANGED(f, p->steps[T_LINEAR]->linear->x, S_Z, "before it is written");
    CHANGED(f, p->steps[T_MATMUL]->matmul->a, S_Y, "overwritten"); /* replaced in place */
    CHANGED(f, p->steps[T_LINEAR]->linear->y, S_HIDDEN, "written twice");
    CHANGED(f, p->tensors[S_Y]->slot, 0, "another that the step writes"); /* the hidden tensor's slot */
    CHANGED(f, p->tensors[S_PRODUCT]->slot, 1, "slot of a tensor that the step reads");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->y, S_X, "neither an output nor scratch");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->y, S_SUM, "written twice");
    CHANGED(f, p->steps[T_COPY]->copy->x, S_COPY, "before it is written");
    CHANGED(f, p->n_steps, T_COPY, "no step writes the output 'copy'");
}

/* A linear step in place of the pointwise one: S_Y is added to its result S_Z, which lies in the same slot. */
static void what_is_added_to_a_linear_may_give_its_place_to_the_result(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Linear k = HYP_PLAN__LINEAR__INIT;
    HypPlan__Layer first = *p->steps[T_LINEAR]->linear->layers[0], last = *p->steps[T_LINEAR]->linear->layers[1];
    first.hidden_plus1 = S_CAT + 1; /* in the slot of S_HIDDEN */
    k.layers = (HypPlan__Layer *[]){&last, NULL};
    k.n_layers = 1;
    k.x = S_X;
    k.y = S_Z;
    k.m = D_BATCH;
    k.added_plus1 = S_Y + 1;
    p->steps[T_POINTWISE]->kernel_case = HYP_PLAN__STEP__KERNEL_LINEAR;
    p->steps[T_POINTWISE]->linear = &k;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    CHANGED(f, k.added_plus1, S_TENSORS + 1, "what is added is tensor 17 of 17");
    CHANGED(f, k.added_plus1, S_Z + 1, "what is added, tensor 7, is read before it is written");
    CHANGED(f, k.added_plus1, S_IDS + 1, "what is added is i64, wanted f32");
    CHANGED(f, k.add_after, 1, "y, tensor 7, is in the slot of a tensor that the step reads");
    CHANGED(f, k.x, S_Y, "y, tensor 7, is in the slot of a tensor that the step reads"); /* read twice */
    p->tensors[S_FLAT]->view_of = S_Y;
    p->tensors[S_FLAT]->window = true;
    p->tensors[S_FLAT]->first = 4;
    CHANGED(f, k.added_plus1, S_FLAT + 1, "y, tensor 7, is in the slot of a tensor that the step reads");
    p->tensors[S_FLAT]->view_of = S_CAT;
    k.layers = (HypPlan__Layer *[]){&first, &last};
    k.n_layers = 2;
    CHANGED(f, k.added_plus1, S_HIDDEN + 1,
            "a hidden tensor, tensor 8, is in the slot of a tensor that the step reads");
}

/* Two steps more: a normalization of S_X into slot 0, and a linear of its result in slot 1. */
static void a_linear_normalizes_what_it_alone_reads(void **state)
{
    enum { NORMED = S_TENSORS, RESULT, MORE_TENSORS };
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor scratch[2] = {*p->tensors[S_Y], *p->tensors[S_Y]}, *tensors[MORE_TENSORS];
    HypPlan__Step more[2] = {*p->steps[T_FILL], *p->steps[T_LINEAR]}, *steps[T_STEPS + 2];
    HypPlan__Linear linear = *p->steps[T_LINEAR]->linear;
    HypPlan__Layer layer = *linear.layers[0], *layers[] = {&layer};
    HypPlan__Call call = HYP_PLAN__CALL__INIT;
    uint32_t in[] = {S_X + 1}, out[] = {NORMED};
    char kernel[] = "rms-norm";
    scratch[0].slot = 0;
    scratch[1].dims = p->tensors[S_CAT]->dims;
    call.kernel = kernel;
    call.inputs_plus1 = in;
    call.outputs = out;
    call.n_inputs_plus1 = call.n_outputs = 1;
    more[0].kernel_case = HYP_PLAN__STEP__KERNEL_CALL;
    more[0].call = &call;
    layer.n = D_8;
    layer.weight = S_W1;
    layer.bias_plus1 = layer.hidden_plus1 = 0;
    linear.x = NORMED;
    linear.y = RESULT;
    linear.normalizes = true;
    linear.layers = layers;
    linear.n_layers = 1;
    more[1].linear = &linear;
    memcpy(tensors, p->tensors, sizeof *tensors * S_TENSORS);
    memcpy(steps, p->steps, sizeof *steps * T_STEPS);
    for (int i = 0; i < 2; i++) {
        tensors[S_TENSORS + i] = &scratch[i];
        steps[T_STEPS + i] = &more[i];
    }
    p->tensors = tensors;
    p->steps = steps;
    p->n_tensors += 2;
    p->n_steps += 2;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    CHANGED(f, linear.added_plus1, NORMED + 1, "what is added, tensor 17, is read before it is written");
    CHANGED(f, scratch[1].slot, 0, "y, tensor 18, is in the slot of a tensor that the step reads");
    CHANGED(f, kernel[0], 'R', "the step before is no normalization that makes x");
    CHANGED(f, more[0].kernel_case, HYP_PLAN__STEP__KERNEL__NOT_SET, "it has no kernel");
    p->tensors[S_FLAT]->view_of = NORMED;
    p->tensors[S_FLAT]->window = true;
    p->steps[T_COPY]->copy->x = S_CAT;
    CHANGED(f, linear.x, S_FLAT, "the step before is no normalization that makes x");
    CHANGED(f, out[0], S_FLAT, "tensor 9 is written, and it is a window");
    CHANGED(f, p->steps[T_LINEAR]->linear->normalizes, true, "the step before is no normalization that makes x");
}

/* Two steps more: S_X becomes f8e4m3, and a linear multiplies it by a weight of that type. */
static void a_linear_of_f8e4m3_has_two_scales_and_one_layer(void **state)
{
    enum { BYTES = S_TENSORS, WEIGHT, BIAS, RESULT, MORE_TENSORS };
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor added[] = {*p->tensors[S_Y], *p->tensors[S_W1], *p->tensors[S_B1], *p->tensors[S_HIDDEN]};
    HypPlan__Tensor *tensors[MORE_TENSORS];
    HypPlan__Step more[2] = {*p->steps[T_POINTWISE], *p->steps[T_LINEAR]}, *steps[T_STEPS + 2];
    HypPlan__Pointwise convert = *p->steps[T_POINTWISE]->pointwise;
    HypPlan__Pointwise__Operand x = *convert.inputs[0], *inputs[] = {&x};
    HypPlan__Linear linear = *p->steps[T_LINEAR]->linear;
    HypPlan__Layer layer = *linear.layers[0], *layers[] = {&layer, &layer};
    uint32_t y = BYTES, reg = 0;
    added[0].dtype = added[1].dtype = HYP_F8E4M3;
    added[2].dtype = added[3].dtype = HYP_BF16;
    added[1].bytes = 32;
    added[2].bytes = 16;
    added[3].slot = 0;
    x.tensor = S_X;
    convert.inputs = inputs;
    convert.n_inputs = convert.n_outputs = convert.n_output_regs = 1;
    convert.n_instrs = 0;
    convert.outputs = &y;
    convert.output_regs = &reg;
    layer.weight = WEIGHT;
    layer.bias_plus1 = BIAS + 1;
    layer.hidden_plus1 = 0;
    layer.x_scale = 0.5f;
    layer.weight_scale = 0.125f;
    linear.x = BYTES;
    linear.y = RESULT;
    linear.layers = layers;
    linear.n_layers = 1;
    more[0].pointwise = &convert;
    more[1].linear = &linear;
    memcpy(tensors, p->tensors, sizeof *tensors * S_TENSORS);
    memcpy(steps, p->steps, sizeof *steps * T_STEPS);
    for (int i = 0; i < MORE_TENSORS - S_TENSORS; i++) tensors[S_TENSORS + i] = &added[i];
    for (int i = 0; i < 2; i++) steps[T_STEPS + i] = &more[i];
    p->tensors = tensors;
    p->steps = steps;
    p->n_tensors = MORE_TENSORS;
    p->n_steps += 2;
    hyp_plan_place_weights(p);
    hyp_diag diag = {0};
    if (hyp_plan_validate(p, &diag) != HYP_OK) fail_msg("%s", diag.message);
    CHANGED(f, layer.x_scale, 0, "layer 0 of f8e4m3 has scales 0 and 0.125");
    CHANGED(f, layer.weight_scale, INFINITY, "layer 0 of f8e4m3 has scales 0.5 and inf");
    CHANGED(f, layer.weight, S_W1, "the weight is f32, wanted f8e4m3");
    CHANGED(f, layer.bias_plus1, S_B1 + 1, "the bias is f32, wanted bf16");
    CHANGED(f, layer.weight_kn, true, "a weight of f8e4m3 is not [n,k]");
    CHANGED(f, linear.n_layers, 2, "it has 2 layers of f8e4m3 to bf16; one to bf16 is possible");
    CHANGED(f, added[3].dtype, HYP_F32, "it has 1 layers of f8e4m3 to f32; one to bf16 is possible");
    CHANGED(f, p->steps[T_LINEAR]->linear->layers[0]->x_scale, 0.5f, "layer 0 of f32 has scales 0.5 and 0");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->x, BYTES, "tensor 17, is read before it is written");
    CHANGED(f, p->tensors[S_X]->dtype, HYP_F8E4M3, "it has 2 layers of f8e4m3 to f32");

    hyp_plan plan;
    hyp_plan_weights weights = sample_weights();
    assert_int_equal(hyp_plan_write(f->path, p, &weights, NULL, &diag), HYP_OK);
    assert_int_equal(hyp_plan_open_file(f->path, NULL, &plan, &diag), HYP_OK);
    const HypPlan__Layer *read = plan.program->steps[T_STEPS + 1]->linear->layers[0];
    assert_true(read->x_scale == 0.5f && read->weight_scale == 0.125f);
    hyp_plan_close(&plan);
}

static void kernels_of_later_versions_are_incompatible(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    hyp_diag diag = {0};
    ProtobufCMessageUnknownField field = {.tag = 99};
    HypPlan__Step *s = p->steps[T_FILL];
    s->kernel_case = HYP_PLAN__STEP__KERNEL__NOT_SET;
    REFUSED(f, "no kernel");
    s->base.n_unknown_fields = 1;
    s->base.unknown_fields = &field;
    assert_int_equal(hyp_plan_validate(p, &diag), HYP_ERR_INCOMPATIBLE);
    assert_non_null(strstr(diag.message, "kernel (99)"));
    assert_non_null(strstr(diag.message, "build it again"));
    s->kernel_case = HYP_PLAN__STEP__KERNEL_FILL;
    s->base.n_unknown_fields = 0;
    p->steps[T_LINEAR]->linear->layers[0]->act = (HypPlan__Act)17;
    assert_int_equal(hyp_plan_validate(p, &diag), HYP_ERR_INCOMPATIBLE);
    assert_non_null(strstr(diag.message, "activation"));
}

/* S_FLAT, which a copy reads, as a part of S_CAT; and other tensors, as steps must not have them. */
static void windows_are_parts_that_are_read(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor *flat = p->tensors[S_FLAT];
    flat->window = true;
    flat->first = 4;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    assert_int_equal(hyp_plan_first_byte(p, S_FLAT), 16);
    CHANGED(f, flat->first, 5, "begins at byte 20, which is no multiple of 16");
    CHANGED(f, flat->first, UINT64_MAX - 3, "begins at element 18446744073709551612");
    CHANGED(f, flat->first, (uint64_t)INT64_MAX / 4 + 1, "begins at element 2305843009213693952");
    CHANGED(f, flat->view_of, S_W1, "a window of a weight");
    CHANGED(f, p->steps[T_SOFTMAX]->softmax->y, S_FLAT, "neither an output nor scratch");
    CHANGED(f, p->steps[T_COPY]->copy->y, S_FLAT, "neither an output nor scratch");
    /* Of S_Y, which the pointwise step replaces. */
    CHANGED(f, flat->view_of, S_Y, "overwritten");
    p->steps[T_COPY]->copy->x = S_CAT;
    flat->view_of = S_Y;
    CHANGED(f, p->steps[T_POINTWISE]->pointwise->inputs[0]->tensor, S_FLAT, "replaces an input that begins elsewhere");
    flat->first = 0;
    p->steps[T_POINTWISE]->pointwise->inputs[0]->tensor = S_FLAT;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
}

/* ---- shapes ------------------------------------------------------------------------------------------- */

static hyp_status check_batch(const HypPlan__Program *p, int64_t batch, hyp_diag *diag)
{
    int64_t values[D_DIMS];
    HYP_TRY(hyp_plan_eval_dims(p, &batch, values, diag));
    return hyp_plan_check_bounds(p, values, diag);
}

static void symbols_are_bound_by_input_dims(void **state)
{
    fixture *f = *state;
    int64_t symbol = 0, x[] = {5, 4}, ids[] = {3};
    const int64_t *dims[] = {x, ids};
    int32_t ranks[] = {2, 1};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_bind_symbols(f->program, dims, ranks, &symbol, &diag), HYP_OK);
    assert_int_equal(symbol, 5);
    x[1] = 6;
    assert_int_equal(hyp_plan_bind_symbols(f->program, dims, ranks, &symbol, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "input 'x': axis 1 is 6, the model wants 4"));
    ranks[1] = 0;
    x[1] = 4;
    assert_int_equal(hyp_plan_bind_symbols(f->program, dims, ranks, &symbol, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'ids' has 0 axes"));
}

static void a_symbol_has_one_value(void **state)
{
    fixture *f = *state;
    f->program->tensors[S_IDS]->dims[0] = D_BATCH;
    int64_t symbol = 0, x[] = {5, 4}, ids[] = {3};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_bind_symbols(f->program, (const int64_t *[]){x, ids}, (int32_t[]){2, 1}, &symbol, &diag),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'batch' is 5 by axis 0 of input 'x'"));
}

static void axes_that_are_expressions_are_checked(void **state)
{
    fixture *f = *state;
    f->program->tensors[S_IDS]->dims[0] = D_8BATCH;
    int64_t symbol = 0, x[] = {5, 4}, ids[] = {40};
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_bind_symbols(f->program, (const int64_t *[]){x, ids}, (int32_t[]){2, 1}, &symbol, &diag),
                     HYP_OK);
    ids[0] = 41;
    assert_int_equal(hyp_plan_bind_symbols(f->program, (const int64_t *[]){x, ids}, (int32_t[]){2, 1}, &symbol, &diag),
                     HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "the other inputs make it 40"));
}

static void steps_stay_inside_their_tensors(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    hyp_diag diag = {0};
    assert_int_equal(check_batch(p, 5, &diag), HYP_OK);
    assert_int_equal(check_batch(p, 0, &diag), HYP_OK);
    assert_int_equal(check_batch(p, (int64_t)1 << 60, &diag), HYP_ERR_LIMIT);
    uint32_t of_nothing[] = {D_BATCH, D_BATCH, D_0}; /* but the product of two axes would overflow */
    HypPlan__Tensor *x = p->tensors[S_X], whole = *x;
    x->dims = of_nothing;
    x->n_dims = 3;
    assert_int_equal(check_batch(p, (int64_t)1 << 40, &diag), HYP_ERR_LIMIT);
    assert_non_null(strstr(diag.message, "'x' overflows"));
    *x = whole;
#define OUTSIDE(place, value, text)                                                                                    \
    do {                                                                                                               \
        uint32_t old_ = (place);                                                                                       \
        (place) = (value);                                                                                             \
        assert_int_equal(hyp_plan_validate(p, &diag), HYP_OK);                                                         \
        assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);                                          \
        if (!strstr(diag.message, (text))) fail_msg("'%s' lacks '%s'", diag.message, (text));                          \
        (place) = old_;                                                                                                \
    } while (0)
    OUTSIDE(p->steps[T_LINEAR]->linear->m, D_8, "x has 20 elements");
    p->steps[T_LINEAR]->linear->added_plus1 = S_X + 1;
    assert_int_equal(check_batch(p, 5, &diag), HYP_OK);
    OUTSIDE(p->steps[T_LINEAR]->linear->added_plus1, S_W1 + 1, "what is added has 32 elements, the step wants 20");
    OUTSIDE(p->steps[T_LINEAR]->linear->layers[1]->k, D_BATCH, "takes 5 features");
    OUTSIDE(p->steps[T_POINTWISE]->pointwise->inputs[1]->strides[0], D_8, "elements 0 to 35");
    OUTSIDE(p->steps[T_POINTWISE]->pointwise->inputs[0]->strides[1], D_0, "not dense");
    OUTSIDE(p->steps[T_RIGHT]->copy->y_offset, D_8, "elements 8 to 43");
    OUTSIDE(p->steps[T_MATMUL]->matmul->m, D_8, "y has 25");
    OUTSIDE(p->steps[T_SOFTMAX]->softmax->axis, D_4, "x has 40");
    OUTSIDE(p->steps[T_REDUCE]->reduce->kept_strides[0], D_8, "elements 0 to 36");
    OUTSIDE(p->steps[T_GATHER]->gather->count, D_4, "indices");
    OUTSIDE(p->steps[T_COPY]->copy->extents[0], D_4, "copies fill 4 of the 40");
    OUTSIDE(p->steps[T_ATTENTION]->attention->rows, D_8, "elements 0 to 31 of q");
    OUTSIDE(p->steps[T_ATTENTION]->attention->k->strides[0], D_8, "elements 0 to 35 of k");
    OUTSIDE(p->steps[T_ATTENTION]->attention->v->offset, D_1, "elements 1 to 20 of v");
    OUTSIDE(p->steps[T_ATTENTION]->attention->mask->strides[1], D_2, "of the mask");
    OUTSIDE(p->steps[T_ATTENTION]->attention->y->strides[0], D_0, "y is not dense");
    OUTSIDE(p->steps[T_ATTENTION]->attention->columns, D_3, "y has 20 elements");
    OUTSIDE(p->tensors[S_FLAT]->dims[0], D_8, "reshaped");
}

static void windows_end_inside_of_their_tensors(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Tensor *flat = p->tensors[S_FLAT];
    uint32_t eight = D_8;
    hyp_diag diag = {0};
    flat->window = true;
    flat->dims = &eight;
    p->steps[T_COPY]->copy->x_strides[0] = D_0;
    flat->first = 32;
    assert_int_equal(check_batch(p, 5, &diag), HYP_OK);
    flat->first = 36;
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "8 elements from number 36 on of 40"));
    flat->first = 44;
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    flat->first = (uint64_t)INT64_MAX / 4 - 3;
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    flat->first = 0;
    assert_int_equal(check_batch(p, 0, &diag), HYP_ERR_INVALID_ARGUMENT);
}

static void keys_in_two_parts_are_as_many_as_there_are(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Attention *k = p->steps[T_ATTENTION]->attention;
    HypPlan__Attention__Operand more = *k->k;
    hyp_diag diag = {0};
    k->more_k = k->more_v = &more;
    k->first_keys = D_4;
    k->more_keys = D_1;
    OUTSIDE(k->rows, D_BATCH, "keys in two parts are 4 and 1 for 5 rows, wanted 5 for one");
    k->rows = D_1;
    OUTSIDE(k->more_keys, D_2, "keys in two parts are 4 and 2 for 1 rows, wanted 5 for one");
    OUTSIDE(more.offset, D_8BATCH, "elements 40 to 43 of more of k");
}

static void negative_strides_are_checked_at_the_low_end(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    HypPlan__Copy *k = p->steps[T_COPY]->copy;
    p->dims[D_2]->value = -1; /* only the shape output used it */
    p->tensors[S_SHAPE]->dims[0] = D_1;
    p->steps[T_FILL]->fill->n_values = 1;
    k->x_strides[0] = D_2;
    hyp_diag diag = {0};
    assert_int_equal(check_batch(p, 5, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "elements -39 to 0"));
}

static void a_plan_of_fixed_shapes_is_checked_when_it_opens(void **state)
{
    fixture *f = *state;
    HypPlan__Program *p = f->program;
    p->dims[D_BATCH]->kind = HYP_PLAN__DIM__KIND__CONST;
    p->dims[D_BATCH]->value = 5;
    p->n_symbols = 0;
    assert_int_equal(hyp_plan_validate(p, NULL), HYP_OK);
    p->steps[T_RIGHT]->copy->y_offset = D_8;
    REFUSED(f, "elements 8 to 43");
}

static void work_counts_operations_and_bytes(void **state)
{
    fixture *f = *state;
    int64_t batch = 2, values[D_DIMS];
    assert_int_equal(hyp_plan_eval_dims(f->program, &batch, values, NULL), HYP_OK);
    hyp_step_work work = hyp_plan_step_work(f->program, T_LINEAR, values);
    assert_true(work.flops == 2 * 8 * (2 * 4 + 2) + 2 * 4 * (2 * 8));
    assert_true(work.bytes == 4 * (2 * 4 + 8 * 4 + 8 + 4 * 8 + 2 * 8 + 2 * 4));
    work = hyp_plan_step_work(f->program, T_LEFT, values);
    assert_true(work.bytes == 2 * 4 * 2 * 4);
}

static void steps_name_what_they_read_and_write(void **state)
{
    fixture *f = *state;
    uint32_t t[8];
    assert_int_equal(hyp_plan_step_reads(f->program->steps[T_LINEAR], t, 8), 4);
    assert_int_equal(t[0], S_X);
    assert_int_equal(t[3], S_W2);
    assert_int_equal(hyp_plan_step_writes(f->program->steps[T_LINEAR], t, 1), 2);
    assert_int_equal(t[0], S_HIDDEN);
    assert_int_equal(hyp_plan_step_reads(f->program->steps[T_COPY], t, 8), 1);
    assert_int_equal(hyp_plan_root(f->program, t[0]), S_CAT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        TEST(indexes_out_of_range_are_refused),
        TEST(lists_of_other_lengths_are_refused),
        TEST(layers_have_their_weights_before_there_are_shapes),
        TEST(views_and_symbols_of_layers_are_looked_at_in_time),
        TEST(types_that_do_not_agree_are_refused),
        TEST(steps_must_read_what_stands),
        TEST(what_is_added_to_a_linear_may_give_its_place_to_the_result),
        TEST(a_linear_normalizes_what_it_alone_reads),
        TEST(a_linear_of_f8e4m3_has_two_scales_and_one_layer),
        TEST(windows_are_parts_that_are_read),
        TEST(kernels_of_later_versions_are_incompatible),
        TEST(symbols_are_bound_by_input_dims),
        TEST(a_symbol_has_one_value),
        TEST(axes_that_are_expressions_are_checked),
        TEST(steps_stay_inside_their_tensors),
        TEST(windows_end_inside_of_their_tensors),
        TEST(keys_in_two_parts_are_as_many_as_there_are),
        TEST(negative_strides_are_checked_at_the_low_end),
        TEST(a_plan_of_fixed_shapes_is_checked_when_it_opens),
        TEST(work_counts_operations_and_bytes),
        TEST(steps_name_what_they_read_and_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
