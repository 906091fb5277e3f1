#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "hypatia/tensor_io.h"

static const hyp_dtype dtypes[] = {HYP_F32,  HYP_U8,  HYP_I8,  HYP_U16, HYP_I16, HYP_I32, HYP_I64,
                                   HYP_BOOL, HYP_F16, HYP_F64, HYP_U32, HYP_U64, HYP_BF16};

static char folder[] = "/tmp/hyp-tensor-io-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *data, size_t size)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static hyp_tensor random_tensor(hyp_dtype dtype, int32_t rank, const int64_t *dims)
{
    hyp_tensor t = {.dtype = dtype, .rank = rank};
    for (int32_t i = 0; i < rank; i++) t.dims[i] = dims[i];
    assert_int_equal(hyp_tensor_alloc(&t, NULL), HYP_OK);
    assert_int_equal((uintptr_t)t.data % 64, 0);
    hyp_tensor_randomize(&t, 7);
    return t;
}

static void mapped_is(const char *path, const hyp_tensor *t)
{
    hyp_tensor mapped;
    hyp_tensor_mapping *mapping;
    hyp_diag diag = {0};
    if (hyp_tensor_map(path, &mapped, &mapping, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_true(mapped.dtype == t->dtype && mapped.rank == t->rank && mapped.bytes == t->bytes);
    assert_memory_equal(mapped.dims, t->dims, sizeof t->dims);
    assert_memory_equal(mapped.data, t->data, t->bytes);
    hyp_tensor_unmap(mapping);
}

static void tensors_come_back_from_every_format(void **state)
{
    (void)state;
    static const struct {
        int32_t rank;
        int64_t dims[3];
    } shapes[] = {{0, {0}}, {1, {5}}, {3, {2, 3, 4}}, {2, {0, 3}}};
    static const char *const names[] = {"t.npy", "t.pb", "t.bin"};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (size_t f = 0; f < 3; f++) {
                hyp_tensor t = random_tensor(dtypes[d], shapes[s].rank, shapes[s].dims), back;
                hyp_diag diag = {0};
                t.name = "given";
                if (hyp_tensor_save(path_of(names[f]), &t, &diag) != HYP_OK) fail_msg("%s", diag.message);
                if (hyp_tensor_load(path_of(names[f]), f == 2 ? &t : NULL, &back, &diag) != HYP_OK)
                    fail_msg("%s", diag.message);
                assert_int_equal(back.dtype, t.dtype);
                assert_int_equal(back.rank, t.rank);
                assert_memory_equal(back.dims, t.dims, sizeof t.dims);
                assert_int_equal(back.bytes, t.bytes);
                assert_memory_equal(back.data, t.data, t.bytes);
                if (f == 1) assert_string_equal(back.name, "given");
                if (f == 0) mapped_is(path_of(names[f]), &t);
                hyp_tensor_dispose(&back);
                hyp_tensor_dispose(&t);
            }
    hyp_tensor_dispose(NULL);
}

static void npy_headers_are_as_numpy_writes_them(void **state)
{
    (void)state;
    hyp_tensor t = random_tensor(HYP_F32, 1, (const int64_t[]){3});
    assert_int_equal(hyp_tensor_save(path_of("h.npy"), &t, NULL), HYP_OK);
    char head[129] = {0};
    FILE *f = fopen(path_of("h.npy"), "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, 128, f), 128);
    fclose(f);
    assert_memory_equal(head, "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 64);
    assert_int_equal(head[127], '\n');
    hyp_tensor_dispose(&t);
}

static void expect_refused(const char *name, const hyp_tensor *want, hyp_status status, const char *part)
{
    hyp_tensor t;
    hyp_diag diag = {0};
    assert_int_equal(hyp_tensor_load(path_of(name), want, &t, &diag), status);
    if (!strstr(diag.message, name) || !strstr(diag.message, part)) fail_msg("no \"%s\" in: %s", part, diag.message);
    if (want || !strstr(name, ".npy")) return;
    hyp_tensor_mapping *mapping;
    hyp_diag mapped = {0};
    assert_int_equal(hyp_tensor_map(path_of(name), &t, &mapping, &mapped), status); /* is refused in the same words */
    assert_string_equal(mapped.message, diag.message);
}

static void mapping_without_memory_leaves_nothing(void **state)
{
    (void)state;
    hyp_tensor t = random_tensor(HYP_F32, 1, (const int64_t[]){3}), mapped;
    hyp_tensor_mapping *mapping = NULL;
    assert_int_equal(hyp_tensor_save(path_of("t.npy"), &t, NULL), HYP_OK);
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status == HYP_ERR_NO_MEMORY; n++) {
        hyp_mem_fail_after(n);
        status = hyp_tensor_map(path_of("t.npy"), &mapped, &mapping, NULL);
        hyp_mem_fail_after(0);
        assert_true(n > 1 || status != HYP_OK);
    }
    assert_int_equal(status, HYP_OK);
    hyp_tensor_unmap(mapping);
    hyp_tensor_unmap(NULL);
    hyp_tensor_dispose(&t);
}

static void files_that_are_something_else_are_refused(void **state)
{
    (void)state;
    /* A header of `dict`, padded to 90 bytes, and 4 bytes of elements. */
    static const struct {
        const char *dict;
        hyp_status status;
        const char *part;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", HYP_ERR_UNSUPPORTED, "big-endian"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", HYP_ERR_UNSUPPORTED, "<c8"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", HYP_ERR_UNSUPPORTED, "element type"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }", HYP_ERR_UNSUPPORTED, "Fortran"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", HYP_ERR_MALFORMED, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", HYP_ERR_MALFORMED, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,", HYP_ERR_MALFORMED, "shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", HYP_ERR_UNSUPPORTED, "rank"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999, 9999999), }", HYP_ERR_MALFORMED, "4 bytes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", HYP_ERR_MALFORMED, "12"},
        {"{'fortran_order': False, 'shape': (1,), }", HYP_ERR_MALFORMED, "descr"},
        {"", HYP_ERR_MALFORMED, "descr"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[94] = "\x93NUMPY\x01\x00\x50";
        snprintf(file + 10, sizeof file - 10, "%-80s", cases[i].dict);
        write_file("bad.npy", file, sizeof file);
        expect_refused("bad.npy", NULL, cases[i].status, cases[i].part);
    }
    write_file("bad.npy", "not npy at all", 14);
    expect_refused("bad.npy", NULL, HYP_ERR_MALFORMED, "not a .npy file");
    write_file("bad.npy", "", 0);
    expect_refused("bad.npy", NULL, HYP_ERR_MALFORMED, "not a .npy file");
    write_file("bad.npy", "\x93NUMPY\x01\x00\xff\xff", 10);
    expect_refused("bad.npy", NULL, HYP_ERR_MALFORMED, "cut off");
    write_file("bad.npy", "\x93NUMPY\x09\x00\x00\x00", 10);
    expect_refused("bad.npy", NULL, HYP_ERR_UNSUPPORTED, "format 9");
    write_file("bad.pb", "\xff\xff\xff", 3);
    expect_refused("bad.pb", NULL, HYP_ERR_MALFORMED, "TensorProto");
    write_file("bad.pb", "", 0);
    expect_refused("bad.pb", NULL, HYP_ERR_UNSUPPORTED, "element type 0");
}

static void wanted_types_and_dims_are_checked(void **state)
{
    (void)state;
    hyp_tensor t = random_tensor(HYP_F32, 2, (const int64_t[]){2, 3}), back;
    assert_int_equal(hyp_tensor_save(path_of("w.npy"), &t, NULL), HYP_OK);
    assert_int_equal(hyp_tensor_save(path_of("w.bin"), &t, NULL), HYP_OK);
    hyp_tensor want = {.dtype = HYP_F32, .rank = 2, .dims = {-1, 3}};
    assert_int_equal(hyp_tensor_load(path_of("w.npy"), &want, &back, NULL), HYP_OK);
    hyp_tensor_dispose(&back);
    assert_int_equal(hyp_tensor_load(path_of("w.bin"), &want, &back, NULL), HYP_OK);
    assert_int_equal(back.dims[0], 2);
    hyp_tensor_dispose(&back);
    want.dims[1] = 4;
    expect_refused("w.npy", &want, HYP_ERR_INVALID_ARGUMENT, "dim 1 is 3, but 4 is wanted");
    expect_refused("w.bin", &want, HYP_ERR_MALFORMED, "24 bytes");
    want.dims[1] = -1;
    expect_refused("w.bin", &want, HYP_ERR_INVALID_ARGUMENT, "both open");
    want.rank = 1;
    expect_refused("w.npy", &want, HYP_ERR_INVALID_ARGUMENT, "rank 2");
    want.dtype = HYP_F64;
    expect_refused("w.npy", &want, HYP_ERR_INVALID_ARGUMENT, "f32, but f64");
    expect_refused("w.bin", NULL, HYP_ERR_INVALID_ARGUMENT, ".npy");
    expect_refused("w.txt", NULL, HYP_ERR_INVALID_ARGUMENT, ".pb");
    expect_refused("absent.npy", NULL, HYP_ERR_IO, "cannot open");
    t.bytes = 8;
    assert_int_equal(hyp_tensor_save(path_of("w.npy"), &t, NULL), HYP_ERR_INVALID_ARGUMENT);
    hyp_tensor_dispose(&t);
}

static void random_contents_are_in_range_and_never_change(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        hyp_tensor t = random_tensor(dtypes[d], 1, (const int64_t[]){4096});
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < 4096; i++) {
            double v = hyp_load_f64(t.dtype, t.data, i);
            low = fmin(low, v);
            high = fmax(high, v);
        }
        if (hyp_dtype_is_float(t.dtype))
            assert_true(low >= -1 && low < -0.98 && high < 1 && high > 0.98);
        else
            assert_true(low == 0 && high == (t.dtype == HYP_BOOL ? 1 : 7));
        hyp_tensor_dispose(&t);
    }
    hyp_tensor t = random_tensor(HYP_F64, 1, (const int64_t[]){2});
    const double *v = t.data;
    /* SplitMix64 from seed 7, by its definition. */
    assert_true(v[0] == -0.22034050321745702 && v[1] == -0.9664234109436878);
    hyp_tensor_dispose(&t);
}

static void comparison_counts_as_allclose_does(void **state)
{
    (void)state;
    float a[] = {1.0f, 2.5f, NAN, INFINITY, 0.0f}, b[] = {1.0f, 2.0f, NAN, INFINITY, 0.25f};
    hyp_tensor x = {.data = a, .bytes = sizeof a, .dtype = HYP_F32, .rank = 1, .dims = {5}}, y = x;
    hyp_comparison c = {.size = sizeof c};
    y.data = b;
    assert_int_equal(hyp_tensor_compare(&x, &y, 0.1, 0.1, &c, NULL), HYP_OK);
    assert_int_equal(c.elements, 5);
    assert_int_equal(c.outside, 2); /* .5 > .1 + .1 * 2; .25 > .1 + .1 * .25 */
    assert_true(c.max_abs == 0.5 && c.max_abs_at == 1);
    assert_true(c.max_rel == 1.0 && c.max_rel_at == 4);
    assert_true(fabs(c.atol_needed - 0.3) < 1e-12);
    assert_true(fabs(c.rtol_needed - 0.6) < 1e-12);
    assert_int_equal(hyp_tensor_compare(&x, &y, 0.1, c.atol_needed, &c, NULL), HYP_OK);
    assert_int_equal(c.outside, 0);
    a[3] = -INFINITY;
    assert_int_equal(hyp_tensor_compare(&x, &y, 0.1, 0.4, &c, NULL), HYP_OK);
    assert_true(c.outside == 1 && isinf(c.atol_needed));
    x.dims[0] = 4;
    assert_int_equal(hyp_tensor_compare(&x, &y, 0, 0, &c, NULL), HYP_ERR_INVALID_ARGUMENT);

    int64_t big[] = {INT64_MAX}, less[] = {INT64_MAX - 1};
    x = (hyp_tensor){.data = big, .bytes = 8, .dtype = HYP_I64, .rank = 0};
    y = x;
    y.data = less;
    assert_int_equal(hyp_tensor_compare(&x, &y, 0, 0, &c, NULL), HYP_OK);
    assert_int_equal(c.outside, 1);
    assert_int_equal(hyp_tensor_compare(&x, &x, 0, 0, &c, NULL), HYP_OK);
    assert_int_equal(c.outside, 0);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"t.npy", "t.pb", "t.bin", "h.npy", "w.npy", "w.bin", "bad.npy", "bad.pb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_come_back_from_every_format),
        cmocka_unit_test(npy_headers_are_as_numpy_writes_them),
        cmocka_unit_test(files_that_are_something_else_are_refused),
        cmocka_unit_test(mapping_without_memory_leaves_nothing),
        cmocka_unit_test(wanted_types_and_dims_are_checked),
        cmocka_unit_test(random_contents_are_in_range_and_never_change),
        cmocka_unit_test(comparison_counts_as_allclose_does),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
