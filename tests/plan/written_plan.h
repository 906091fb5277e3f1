/* written_plan.h - the sample program, and the file that is written of it, in memory: what tests of plans have in common. */
#ifndef HYP_TESTS_WRITTEN_PLAN_H
#define HYP_TESTS_WRITTEN_PLAN_H

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

typedef struct fixture {
    hyp_arena arena;
    HypPlan__Program *program;
    char path[64];
    uint8_t *bytes; /* of the file, 64-byte aligned */
    size_t size;
} fixture;

static inline void read_file(const char *path, uint8_t **out, size_t *out_size)
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

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
    fixture *f = *state;
    unlink(f->path);
    hyp_aligned_free(f->bytes);
    hyp_arena_dispose(&f->arena);
    free(f);
    return 0;
}

static inline hyp_status open_bytes(const void *bytes, size_t size, hyp_diag *diag)
{
    hyp_plan plan;
    hyp_status status = hyp_plan_open_memory(bytes, size, "test.bin", NULL, &plan, diag);
    if (status == HYP_OK) hyp_plan_close(&plan);
    return status;
}

/* Recomputes the header's checksums, as a hostile writer would. */
static inline void reseal(uint8_t *bytes, size_t size)
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
