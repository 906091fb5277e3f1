#include "support/golden_ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/sexpr.h"

#define ASSERT_OK(call)                                                                                                \
    do {                                                                                                               \
        hyp_diag diag_ = {0}, *diag = &diag_;                                                                          \
        if ((call) != HYP_OK) fail_msg("%s", diag->message);                                                           \
    } while (0)

/* (tensor (f32 2 3) elements...) */
static hyp_eval_tensor read_tensor(const hyp_sexpr *sx)
{
    int64_t dims[HYP_MAX_RANK];
    hyp_eval_tensor t;
    assert_true(hyp_sexpr_is_form(sx, "tensor") && sx->count >= 2);
    const hyp_sexpr *type = sx->items[1];
    for (uint32_t i = 1; i < type->count; i++) dims[i - 1] = type->items[i]->integer;
    ASSERT_OK(hyp_eval_tensor_alloc(&t, hyp_dtype_parse(type->items[0]->text), (int32_t)type->count - 1, dims, diag));
    assert_int_equal(sx->count - 2, t.count);
    for (size_t i = 0; i < t.count; i++) {
        const hyp_sexpr *element = sx->items[2 + i];
        if (t.f)
            t.f[i] = element->number;
        else
            t.i[i] = element->kind == HYP_SX_INT ? element->integer : (int64_t)strtoull(element->text, NULL, 10);
    }
    return t;
}

/* (case "name" graph tensor... (expect tensor...)) */
static void visit_case(const char *op, const hyp_sexpr *sx, void (*visit)(const golden_case *, void *), void *user)
{
    golden_case c = {.op = op, .name = sx->items[1]->text};
    hyp_dims *dims;
    hyp_strbuf text = {0};
    assert_true(hyp_sexpr_is_form(sx, "case") && sx->count >= 5 && sx->count < GOLDEN_MAX);
    const hyp_sexpr *expect = sx->items[sx->count - 1];
    hyp_sexpr_print(&text, sx->items[2]);
    ASSERT_OK(hyp_dims_create(&dims, diag));
    hyp_graph_init(&c.graph, dims);
    ASSERT_OK(hyp_graph_parse(&c.graph, "golden", text.data, text.len, diag));
    ASSERT_OK(hyp_graph_verify(&c.graph, diag));
    assert_string_equal(hyp_op_get(c.graph.nodes.data[0].op)->name, op);
    c.input_count = sx->count - 4;
    for (size_t i = 0; i < c.input_count; i++) c.inputs[i] = read_tensor(sx->items[3 + i]);
    assert_int_equal(expect->count - 1, c.graph.outputs.len);
    for (size_t i = 0; i < c.graph.outputs.len; i++) c.wanted[i] = read_tensor(expect->items[1 + i]);
    visit(&c, user);
    for (size_t i = 0; i < c.input_count; i++) hyp_eval_tensor_dispose(&c.inputs[i]);
    for (size_t i = 0; i < c.graph.outputs.len; i++) hyp_eval_tensor_dispose(&c.wanted[i]);
    hyp_graph_dispose(&c.graph);
    hyp_strbuf_dispose(&text);
    hyp_dims_destroy(dims);
}

static void visit_op(const char *op, void (*visit)(const golden_case *, void *), void *user)
{
    char path[1024];
    hyp_mapping map;
    hyp_arena arena = {0};
    const hyp_sexpr *forms;
    snprintf(path, sizeof path, "%s/tests/golden/ops/%s.hyp", HYP_SOURCE_DIR, op);
    ASSERT_OK(hyp_map_file(path, &map, diag));
    ASSERT_OK(hyp_sexpr_parse(&arena, path, (const char *)map.data, map.size, &forms, diag));
    assert_true(forms->count > 0);
    for (uint32_t i = 0; i < forms->count; i++) visit_case(op, forms->items[i], visit, user);
    hyp_arena_dispose(&arena);
    hyp_unmap(&map);
}

void golden_ops_visit(void (*visit)(const golden_case *, void *), void *user)
{
    for (int op = 0; op < HYP_OP_COUNT; op++) /* a custom operator has no numbers */
        if (!(hyp_op_get((hyp_op)op)->flags & HYP_OPF_OPAQUE)) visit_op(hyp_op_get((hyp_op)op)->name, visit, user);
}

void golden_ops_compare(const golden_case *c, const hyp_eval_tensor *got, const hyp_eval_tensor *want, double tolerance)
{
    if (got->dtype != want->dtype || got->rank != want->rank ||
        memcmp(got->dims, want->dims, (size_t)want->rank * sizeof *want->dims) != 0)
        fail_msg("%s, case '%s': another type than expected", c->op, c->name);
    for (size_t i = 0; i < want->count; i++) {
        if (want->i ? got->i[i] != want->i[i] : 0)
            fail_msg("%s, case '%s': element %zu is %lld, not %lld", c->op, c->name, i, (long long)got->i[i],
                     (long long)want->i[i]);
        if (want->i || (isnan(want->f[i]) && isnan(got->f[i])) || got->f[i] == want->f[i]) continue;
        if (!(fabs(got->f[i] - want->f[i]) <= tolerance * (1 + fabs(want->f[i]))))
            fail_msg("%s, case '%s': element %zu is %.17g, not %.17g", c->op, c->name, i, got->f[i], want->f[i]);
    }
}

double golden_ops_tolerance(hyp_dtype t)
{
    return t == HYP_BF16 ? 8e-3 : t == HYP_F16 ? 2e-3 : t == HYP_F64 ? 1e-11 : 2e-6;
}
