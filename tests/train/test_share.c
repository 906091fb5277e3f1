/* Steps of several processes: what these send each other, in which type, and in which order. */
#include "ir/ir_test.h"
#include "train/train.h"

/* Two layers, computed in 16 bits; the parameters are listed in the order of the layers, or the other way round. */
#define FIRST "(const %w (f32 4 3) 1 2 3 4 5 6 7 8 9 1 2 3) (const %b (f32 4) 1 2 3 4)"
#define SECOND "(const %v (f32 2 4) 1 2 3 4 5 6 7 8)"
#define BODY                                                                                                           \
    "(%p (cast :to bf16 %x)) (%s (cast :to bf16 %w)) (%c (cast :to bf16 %b)) (%t (cast :to bf16 %v)) "                 \
    "(%h (linear %s %c %p)) (%r (relu %h)) (%z (linear %t none %r)) (%y (cast :to f32 %z)) (output \"y\" %y))"
#define MODEL(parameters) "(graph \"mlp\" (input %x (f32 batch 3)) " parameters " " BODY

static hyp_graph model_of(hyp_dims *dims, const char *text)
{
    hyp_graph g = parse(dims, text);
    for (size_t i = 0; i < g.values.len; i++) g.values.data[i].updatable = g.values.data[i].kind == HYP_VALUE_CONST;
    return g;
}

static hyp_train_options options(void)
{
    hyp_train_options o = HYP_TRAIN_OPTIONS_INIT;
    o.loss = "mse";
    o.data_parallel = true;
    return o;
}

/* Gradients of 16 bits are sent so, of the last layers first, behind the loss, which is known before them. */
static void gradients_are_sent_as_they_are_computed(void **state)
{
    static const char *const models[] = {MODEL(FIRST SECOND), MODEL(SECOND FIRST)};
    static const hyp_dtype types[] = {HYP_F32, HYP_BF16, HYP_BF16, HYP_BF16};
    static const int32_t ranks[] = {0, 2, 2, 1};
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        hyp_dims *dims = new_dims();
        hyp_graph model = model_of(dims, models[m]), step;
        hyp_train_options o = options();
        hyp_diag diag = {0};
        size_t found = 0;
        assert_ok(hyp_train_step(&model, &o, &step, &diag), &diag);
        assert_ok(hyp_graph_verify(&step, &diag), &diag);
        for (size_t i = 0; i < step.nodes.len; i++) {
            const hyp_node *n = &step.nodes.data[i];
            if (n->op != HYP_OP_all_reduce) continue;
            found++;
            assert_int_equal(n->input_count, 4);
            for (uint32_t k = 0; k < 4; k++) {
                assert_int_equal(step.values.data[n->inputs[k]].type.dtype, types[k]);
                assert_int_equal(step.values.data[n->inputs[k]].type.rank, ranks[k]);
            }
            assert_true(step.values.data[n->inputs[1]].type.dims[0] == 2); /* of the second layer */
        }
        assert_int_equal(found, 1);
        for (size_t i = 0; i < step.variables.len; i++)
            if (!strchr(hyp_graph_variable(&step, i)->name, ':'))
                assert_int_equal(hyp_graph_variable(&step, i)->type.dtype, HYP_F32);
        hyp_graph_dispose(&step);
        hyp_graph_dispose(&model);
        hyp_dims_destroy(dims);
    }
}

static void every_failed_allocation_is_an_error(void **state)
{
    hyp_dims *dims = new_dims();
    hyp_graph model = model_of(dims, MODEL(FIRST SECOND)), step;
    hyp_train_options o = options();
    (void)state;
    for (uint64_t n = 1;; n++) {
        hyp_diag diag = {0};
        hyp_mem_fail_after(n);
        hyp_status status = hyp_train_step(&model, &o, &step, &diag);
        hyp_mem_fail_after(0);
        if (status == HYP_OK) break;
        if (status != HYP_ERR_NO_MEMORY) fail_msg("allocation %d: %s", (int)n, diag.message);
        assert_true(n < 100000);
    }
    hyp_graph_dispose(&step);
    hyp_graph_dispose(&model);
    hyp_dims_destroy(dims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_sent_as_they_are_computed),
                                       cmocka_unit_test(every_failed_allocation_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
