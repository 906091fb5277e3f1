/* Models without the elements of some initializers, and with elements again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model_builder.h"
#include "onnx/skeleton.h"

static char folder[] = "/tmp/hyp-skeleton-XXXXXX";
static const size_t plenty = (size_t)1 << 20;

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* y = x w + b, twice w, with a graph in an attribute that has a tensor of its own, called as an initializer is. */
static uint8_t *make_model(model_builder *b, size_t *size)
{
    mb_init(b, 17);
    mb_input(b, "x", HYP_F32, "batch 2");
    mb_const(b, "w", HYP_F32, "2 3", "1 2 3 4 5 6");
    mb_const(b, "frozen", HYP_F32, "3", "7 8 9");
    mb_const(b, "b", HYP_F32, "3", "-1 -2 -3");
    mb_const(b, "shape", HYP_I64, "2", "-1 3");
    mb_node(b, "MatMul", "x w", "p", "");
    mb_node(b, "Add", "p b", "q", "");
    mb_node(b, "Mul", "q frozen", "r", "");
    mb_node(b, "Reshape", "r shape", "y", "");
    HypOnnx__NodeProto *constant = mb_node(b, "Constant", "", "w_twin", "");
    HypOnnx__AttributeProto *a = hyp_arena_zalloc(&b->arena, 1, sizeof *a),
                            **list = hyp_arena_zalloc(&b->arena, 1, sizeof *list);
    assert_true(a && list);
    hyp_onnx__attribute_proto__init(a);
    a->name = (char *)(uintptr_t) "value";
    a->has_type = true;
    a->type = HYP_ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    a->t = mb_tensor(b, "w", HYP_F32, "1", "41");
    list[0] = a;
    constant->attribute = list;
    constant->n_attribute = 1;
    mb_output(b, "y");
    return mb_pack(b, size);
}

static hyp_tensor tensor_of(const char *name, float *data, int32_t rank, int64_t rows, int64_t columns)
{
    hyp_tensor t = {.name = name, .data = data, .dtype = HYP_F32, .rank = rank, .dims = {rows, rank > 1 ? columns : 0}};
    t.bytes = (size_t)(rows * (rank > 1 ? columns : 1)) * sizeof *data;
    return t;
}

static hyp_status fill(const hyp_strbuf *skeleton, const hyp_tensor *tensors, size_t count, hyp_strbuf *out,
                       hyp_diag *diag)
{
    hyp_outfile file = {0};
    hyp_status status = hyp_outfile_open(&file, path_of("filled.onnx"), diag);
    if (status == HYP_OK)
        status =
            hyp_onnx_skeleton_fill(hyp_strbuf_text(skeleton), skeleton->len, "plan.bin", tensors, count, &file, diag);
    if (status == HYP_OK) status = hyp_outfile_commit(&file, diag);
    hyp_outfile_abort(&file);
    hyp_mapping map;
    if (status == HYP_OK && out && (status = hyp_map_file(path_of("filled.onnx"), &map, diag)) == HYP_OK) {
        hyp_strbuf_add(out, (const char *)map.data, map.size);
        hyp_unmap(&map);
    }
    return status;
}

static const char *const trained[] = {"w", "b"};

static void the_same_elements_give_the_same_file(void **state)
{
    (void)state;
    model_builder b;
    size_t size;
    uint8_t *bytes = make_model(&b, &size);
    hyp_onnx_source source = {.file = "m.onnx", .data = bytes, .size = size};
    hyp_strbuf skeleton = {0}, filled = {0};
    hyp_diag diag = {0};
    float w[] = {1, 2, 3, 4, 5, 6}, bias[] = {-1, -2, -3}, moment[1] = {0};
    hyp_tensor tensors[] = {tensor_of("b:m", moment, 1, 1, 0), tensor_of("b", bias, 1, 3, 0),
                            tensor_of("w", w, 2, 2, 3)};
    if (hyp_onnx_skeleton_make(&source, trained, 2, plenty, &skeleton, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(size - skeleton.len, sizeof w + sizeof bias + 4); /* and the tags and lengths of raw_data */
    if (fill(&skeleton, tensors, 3, &filled, &diag) != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(filled.len, size);
    assert_memory_equal(hyp_strbuf_text(&filled), bytes, size);
    w[4] = 55;
    filled.len = 0;
    assert_int_equal(fill(&skeleton, tensors, 3, &filled, &diag), HYP_OK);
    imported im;
    mb_import_bytes(hyp_strbuf_text(&filled), filled.len, NULL, &im);
    assert_int_equal(im.status, HYP_OK);
    if (!strstr(hyp_strbuf_text(&im.text), "4.0 55.0 6.0")) fail_msg("%s", hyp_strbuf_text(&im.text));
    imported_dispose(&im);
    hyp_strbuf_dispose(&filled);
    hyp_strbuf_dispose(&skeleton);
    hyp_onnx_source_dispose(&source);
    mb_dispose(&b);
}

static void what_is_missing_or_different_is_named(void **state)
{
    (void)state;
    model_builder b;
    size_t size;
    uint8_t *bytes = make_model(&b, &size);
    hyp_onnx_source source = {.file = "m.onnx", .data = bytes, .size = size};
    hyp_strbuf skeleton = {0};
    float w[6] = {0}, bias[3] = {0};
    assert_int_equal(hyp_onnx_skeleton_make(&source, trained, 2, plenty, &skeleton, NULL), HYP_OK);
    const hyp_tensor right[] = {tensor_of("w", w, 2, 2, 3), tensor_of("b", bias, 1, 3, 0)};
    for (int wrong = 0; wrong < 6; wrong++) {
        hyp_tensor t[2] = {right[0], right[1]};
        hyp_diag diag = {0};
        switch (wrong) {
        case 0: t[0].name = "ww"; break;
        case 1: t[0].dims[0] = 3, t[0].dims[1] = 2; break;
        case 2: t[0].dtype = HYP_I32; break;
        case 3: t[1].rank = 2, t[1].dims[1] = 1; break;
        case 4: t[1].bytes = 8; break;
        default: t[1].memory = HYP_MEMORY_CUDA; break;
        }
        assert_int_equal(fill(&skeleton, t, 2, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
        if (!strstr(diag.message, wrong < 3 ? "'w'" : "'b'")) fail_msg("%s", diag.message);
    }
    assert_int_equal(fill(&skeleton, right, 2, NULL, NULL), HYP_OK);
    hyp_strbuf_dispose(&skeleton);
    hyp_diag diag = {0};
    assert_int_equal(hyp_onnx_skeleton_make(&source, trained, 2, size / 2, &skeleton, &diag), HYP_ERR_LIMIT);
    hyp_strbuf_dispose(&skeleton);
    hyp_onnx_source_dispose(&source);
    mb_dispose(&b);
}

static void elements_of_other_files_come_into_the_model(void **state)
{
    (void)state;
    model_builder b;
    size_t size;
    float data[] = {0, 0, 7, 8, 9};
    FILE *file = fopen(path_of("data.bin"), "wb");
    assert_true(file && fwrite(data, 1, sizeof data, file) == sizeof data && fclose(file) == 0);
    (void)make_model(&b, &size);
    HypOnnx__TensorProto *frozen = b.initializers[1];
    static const char *const pairs[][2] = {{"location", "data.bin"}, {"offset", "8"}, {"length", "12"}};
    frozen->has_raw_data = false;
    frozen->has_data_location = true;
    frozen->data_location = HYP_ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    frozen->external_data = hyp_arena_zalloc(&b.arena, 3, sizeof *frozen->external_data);
    for (int i = 0; i < 3; i++) {
        HypOnnx__StringStringEntryProto *e = frozen->external_data[i] = hyp_arena_zalloc(&b.arena, 1, sizeof *e);
        hyp_onnx__string_string_entry_proto__init(e);
        e->key = (char *)(uintptr_t)pairs[i][0];
        e->value = (char *)(uintptr_t)pairs[i][1];
    }
    frozen->n_external_data = 3;
    uint8_t *bytes = mb_pack(&b, &size);
    hyp_onnx_source source = {.file = "m.onnx", .folder = folder, .data = bytes, .size = size};
    hyp_strbuf skeleton = {0}, filled = {0};
    hyp_diag diag = {0};
    float w[6] = {0}, bias[3] = {0};
    const hyp_tensor tensors[] = {tensor_of("w", w, 2, 2, 3), tensor_of("b", bias, 1, 3, 0)};
    if (hyp_onnx_skeleton_make(&source, trained, 2, plenty, &skeleton, &diag) != HYP_OK) fail_msg("%s", diag.message);
    if (fill(&skeleton, tensors, 2, &filled, &diag) != HYP_OK) fail_msg("%s", diag.message);
    imported im;
    mb_import_bytes(hyp_strbuf_text(&filled), filled.len, NULL,
                    &im); /* no folder: there is no external data any more */
    if (im.status != HYP_OK) fail_msg("%s", im.diag.message);
    assert_non_null(strstr(hyp_strbuf_text(&im.text), "7.0 8.0 9.0"));
    imported_dispose(&im);
    hyp_strbuf_dispose(&skeleton);
    hyp_strbuf_dispose(&filled);
    hyp_onnx_source_dispose(&source);
    mb_dispose(&b);
}

/* Whatever a plan has in place of its model. */
static void any_bytes_are_a_model_or_refused(void **state)
{
    (void)state;
    model_builder b;
    size_t size, refused = 0;
    uint8_t *bytes = make_model(&b, &size);
    hyp_onnx_source source = {.file = "m.onnx", .data = bytes, .size = size};
    hyp_strbuf skeleton = {0};
    float w[6] = {0}, bias[3] = {0};
    const hyp_tensor tensors[] = {tensor_of("w", w, 2, 2, 3), tensor_of("b", bias, 1, 3, 0)};
    assert_int_equal(hyp_onnx_skeleton_make(&source, trained, 2, plenty, &skeleton, NULL), HYP_OK);
    for (size_t i = 0; i < 3 * skeleton.len; i++) {
        uint8_t *copy = malloc(skeleton.len); /* of just this size, for sanitizers */
        size_t len = i < skeleton.len ? i : skeleton.len;
        hyp_outfile file = {0};
        hyp_diag diag = {0};
        assert_non_null(copy);
        memcpy(copy, hyp_strbuf_text(&skeleton), skeleton.len);
        const uint8_t flipped = (uint8_t)(i < 2 * skeleton.len ? 0xff : 1 << i % 8);
        if (i >= skeleton.len) copy[i % skeleton.len] ^= flipped;
        uint8_t *exact = len ? realloc(copy, len) : copy;
        assert_int_equal(hyp_outfile_open(&file, path_of("filled.onnx"), NULL), HYP_OK);
        hyp_status status = hyp_onnx_skeleton_fill(exact, len, "plan.bin", tensors, 2, &file, &diag);
        assert_true(status == HYP_OK || status == HYP_ERR_MALFORMED || status == HYP_ERR_INVALID_ARGUMENT);
        assert_true(status == HYP_OK || diag.message[0]);
        refused += status != HYP_OK;
        hyp_outfile_abort(&file);
        free(exact);
    }
    assert_true(refused > skeleton.len); /* whatever is cut off, but for the fields behind the graph */
    hyp_strbuf_dispose(&skeleton);
    hyp_onnx_source_dispose(&source);
    mb_dispose(&b);
}

static void without_memory_there_is_an_error(void **state)
{
    (void)state;
    model_builder b;
    size_t size;
    uint8_t *bytes = make_model(&b, &size);
    float w[6] = {0}, bias[3] = {0};
    const hyp_tensor tensors[] = {tensor_of("w", w, 2, 2, 3), tensor_of("b", bias, 1, 3, 0)};
    hyp_status status = HYP_ERR_NO_MEMORY;
    for (uint64_t n = 1; status == HYP_ERR_NO_MEMORY; n++) {
        hyp_onnx_source source = {.file = "m.onnx", .data = bytes, .size = size};
        hyp_strbuf skeleton = {0};
        hyp_mem_fail_after(n);
        status = hyp_onnx_skeleton_make(&source, trained, 2, plenty, &skeleton, NULL);
        if (status == HYP_OK) status = fill(&skeleton, tensors, 2, NULL, NULL);
        hyp_mem_fail_after(0);
        assert_true(n > 1 || status != HYP_OK);
        hyp_strbuf_dispose(&skeleton);
        hyp_onnx_source_dispose(&source);
    }
    assert_int_equal(status, HYP_OK);
    mb_dispose(&b);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_of("filled.onnx"));
    unlink(path_of("data.bin"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_elements_give_the_same_file),
        cmocka_unit_test(what_is_missing_or_different_is_named),
        cmocka_unit_test(elements_of_other_files_come_into_the_model),
        cmocka_unit_test(any_bytes_are_a_model_or_refused),
        cmocka_unit_test(without_memory_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
