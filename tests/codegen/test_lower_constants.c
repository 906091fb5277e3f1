/* What of a lowered graph is computed before it runs, and in which types. */
#include "codegen/lowered.h"

static void constant_subgraphs_become_one_weight(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (const %a (f32 2) 0.1 0.2) (const %b (f32 2) 3 4) (%s (add %a %b)) (%c "
             "(mul %s %s))"
             "(%y (add %x %c)) (output \"y\" %y))");
    assert_steps(f, "add");
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_WEIGHT), 1);
    /* the sum is not rounded before it is squared */
    double sum = (double)0.1f + 3;
    assert_true(written_weight(f, "c", 0) == (double)(float)(sum * sum));
}

static void views_of_constants_share_their_bytes(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (const %a (f32 2) 1 2) (%r (reshape :shape (1 2) %a)) (%1 (add %x %r)) "
             "(%2 (mul %1 %a))"
             "(output \"y\" %2))");
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_WEIGHT), 1);
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_VIEW), 1);
}

static void a_constant_behind_a_cast_or_a_transpose_is_folded(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (bf16 3 2)) (input %z (f32 3 2)) (const %a (f32 2) 1.00390625 -2) (const %m (f32 2 "
             "3) 1 2 3 4 5 6)"
             "(%n (cast :to bf16 %a)) (%t (transpose :perm (1 0) %m)) (%1 (add %x %n)) (%2 (add %z %t)) (output \"y\" "
             "%1) (output \"z\" %2))");
    assert_steps(f, "add add");
    assert_true(written_weight(f, "n", 0) == 1); /* ties to even */
    assert_true(written_weight(f, "t", 1) == 4);
    assert_true(written_weight(f, "t", 2) == 2);
}

static void sizes_are_filled_in_or_folded(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (const %i (i64) 1) (%s (shape %x)) (%g (gather %s %i)) (%m (mul %s %s)) "
             "(output \"s\" %m)"
             "(output \"g\" %g))");
    assert_steps(f, "mul copy");
    assert_int_equal(f->p->steps[0]->kernel_case, HYP_PLAN__STEP__KERNEL_FILL);
    assert_true(written_weight(f, "g", 0) == 2);
}

static void a_scalar_constant_is_an_instruction_once(void **state)
{
    fixture *f = *state;
    lower(f,
          "(graph \"\" (input %x (f32 b 2)) (const %c (f32) 0.1) (%1 (mul %x %c)) (%2 (add %1 %c)) (output \"y\" %2))");
    assert_int_equal(f->p->steps[0]->pointwise->n_instrs, 3);
    assert_true(f->p->steps[0]->pointwise->instrs[0]->p == (double)0.1f);
}

static void a_demoted_graph_keeps_its_edges_and_scalars(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    hyp_graph wide;
    parse(f, "(graph \"\" (input %x (f32 b 2)) (input %i (i64 2)) (const %c (f32) 0.1) (const %k (f32 2) 1 2) (%1 (mul "
             "%x %c))"
             "(%2 (cast :to f32 %i)) (%3 (add %1 %2)) (%4 (div %3 %k)) (output \"y\" %4) (output \"x\" %x))");
    wide = f->graph;
    hyp_status status = hyp_graph_demote(&wide, HYP_BF16, &f->graph, &diag);
    hyp_graph_dispose(&wide);
    if (status != HYP_OK) fail_msg("%s", diag.message);
    hyp_codegen_options options = {.target = hyp_target_find("cpu"), .precision = HYP_PRECISION_BF16};
    assert_int_equal(hyp_codegen_lower(&f->graph, &options, &f->lowered, &diag), HYP_OK);
    f->p = f->lowered.program;
    /* i64 to bf16 computes in f64 and stands alone; the casts at the edges join the rest */
    assert_steps(f, "cast cast+mul+add+div+cast copy");
    for (size_t i = 0; i < f->p->n_outputs; i++) assert_int_equal(f->p->tensors[f->p->outputs[i]]->dtype, HYP_F32);
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_WEIGHT), 1);
    assert_true(written_weight(f, "", 1) == 2);
}

static void a_variable_that_stays_what_it_is_takes_no_step(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 2)) (variable %a (f32 2) 1 2) (variable %b (f32 2)) (variable %c (f32 2)) (%s "
             "(add %x "
             "%a)) (output \"s\" %s) (set %c %s) (set %a %a) (set %b %a))");
    assert_steps(f, "add copy copy");
    assert_int_equal(f->p->n_outputs, 3);
    assert_int_equal(f->p->n_variables, 3);
    assert_int_equal(f->p->variables[0]->output_plus1, 0);
    assert_int_equal(f->p->variables[1]->output_plus1, 3);
    assert_int_equal(f->p->variables[2]->output_plus1, 2);
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_WEIGHT), 1);
    assert_int_equal(f->p->variables[0]->initial_plus1, f->p->n_tensors);
    assert_true(written_weight(f, "a", 1) == 2);
    assert_int_equal(f->p->variables[1]->initial_plus1, 0);
}

static void a_demoted_variable_keeps_its_type(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    parse(f,
          "(graph \"\" (input %x (f32 b 2)) (variable %v (f32 2) 1 2) (%y (add %x %v)) (%n (mul %v %v)) (output \"y\" "
          "%y) (set %v %n))");
    hyp_graph wide = f->graph;
    hyp_status status = hyp_graph_demote(&wide, HYP_BF16, &f->graph, &diag);
    hyp_graph_dispose(&wide);
    if (status == HYP_OK) status = hyp_graph_verify(&f->graph, &diag);
    if (status != HYP_OK) fail_msg("%s", diag.message);
    assert_int_equal(f->graph.variables.len, 1);
    assert_int_equal(hyp_graph_variable(&f->graph, 0)->type.dtype, HYP_F32);
    assert_true(((const float *)hyp_graph_variable(&f->graph, 0)->data)[1] == 2);
    assert_int_equal(f->graph.values.data[f->graph.nodes.data[0].outputs[0]].type.dtype, HYP_BF16); /* behind a cast */
}

/* Only its images become narrow: what it scales by and keeps stays as it is, also where a narrow node reads that. */
static void a_demoted_batch_normalization_keeps_its_statistics(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    parse(f, "(graph \"\" (input %x (f32 b 2)) (const %s (f32 2) 1 2) ((%y %m %v) (batch-norm %x %s %s %s %s)) (%n (add %y %m)) "
             "(output \"n\" %n) (output \"v\" %v))");
    hyp_graph wide = f->graph;
    hyp_status status = hyp_graph_demote(&wide, HYP_BF16, &f->graph, &diag);
    hyp_graph_dispose(&wide);
    if (status == HYP_OK) status = hyp_graph_verify(&f->graph, &diag);
    if (status != HYP_OK) fail_msg("%s", diag.message);
    for (size_t i = 0; i < f->graph.nodes.len; i++) {
        const hyp_node *node = &f->graph.nodes.data[i];
        for (uint32_t k = 0; node->op == HYP_OP_batch_norm && k < node->input_count; k++)
            assert_int_equal(f->graph.values.data[node->inputs[k]].type.dtype, k ? HYP_F32 : HYP_BF16);
        if (node->op == HYP_OP_batch_norm) assert_int_equal(node->outputs[2], f->graph.outputs.data[1].value);
    }
    assert_int_equal(f->graph.nodes.len, 5); /* casts of x, of the mean, and of what is read of both */
}

typedef struct forgotten {
    const void *data[4];
    size_t count;
} forgotten;

static void note_forgotten(void *user, const void *data, size_t bytes)
{
    forgotten *f = user;
    assert_int_equal(bytes, 8);
    f->data[f->count++] = data;
}

static void borrowed_constants_are_forgotten_when_they_are_written(void **state)
{
    fixture *f = *state;
    static const float a[] = {1, 2}, b[] = {3, 4};
    hyp_value_id x, ca, cb, sum, in[2], y;
    hyp_dim batch;
    hyp_type vector = {HYP_F32, 1, {2}}, rows = {.dtype = HYP_F32, .rank = 2};
    hyp_graph_init(&f->graph, f->dims);
    assert_int_equal(hyp_dim_symbol(f->dims, "batch", &batch, NULL), HYP_OK);
    rows.dims[0] = batch;
    rows.dims[1] = 2;
    assert_int_equal(hyp_graph_add_input(&f->graph, "x", &rows, &x, NULL), HYP_OK);
    assert_int_equal(hyp_graph_add_const(&f->graph, "a", &vector, a, sizeof a, false, &ca, NULL), HYP_OK);
    assert_int_equal(hyp_graph_add_const(&f->graph, "b", &vector, b, sizeof b, false, &cb, NULL), HYP_OK);
    in[0] = x, in[1] = ca;
    assert_int_equal(hyp_graph_add_node(&f->graph, HYP_OP_add, in, 2, NULL, NULL, &sum, 1, NULL), HYP_OK);
    in[0] = sum, in[1] = cb;
    assert_int_equal(hyp_graph_add_node(&f->graph, HYP_OP_mul, in, 2, NULL, NULL, &y, 1, NULL), HYP_OK);
    assert_int_equal(hyp_graph_add_output(&f->graph, "y", y, NULL), HYP_OK);
    hyp_codegen_options options = {.target = hyp_target_find("cpu")};
    assert_int_equal(hyp_codegen_lower(&f->graph, &options, &f->lowered, NULL), HYP_OK);
    forgotten seen = {{0}, 0};
    assert_int_equal(hyp_codegen_write(&f->lowered, f->path, note_forgotten, &seen, NULL, NULL), HYP_OK);
    assert_int_equal(seen.count, 2);
    assert_true((seen.data[0] == a && seen.data[1] == b) || (seen.data[0] == b && seen.data[1] == a));
}

static void a_constant_without_data_cannot_be_written(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (const %w (f32 2) (hash \"0123456789abcdef\")) (%1 (add %x %w)) (output "
             "\"y\" %1))");
    hyp_diag diag = {0};
    assert_int_equal(hyp_codegen_write(&f->lowered, f->path, NULL, NULL, NULL, &diag), HYP_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.message, "'w' has no data"));
    assert_int_not_equal(access(f->path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(constant_subgraphs_become_one_weight),
        TEST(views_of_constants_share_their_bytes),
        TEST(a_constant_behind_a_cast_or_a_transpose_is_folded),
        TEST(sizes_are_filled_in_or_folded),
        TEST(a_scalar_constant_is_an_instruction_once),
        TEST(a_demoted_graph_keeps_its_edges_and_scalars),
        TEST(a_variable_that_stays_what_it_is_takes_no_step),
        TEST(a_demoted_variable_keeps_its_type),
        TEST(a_demoted_batch_normalization_keeps_its_statistics),
        TEST(borrowed_constants_are_forgotten_when_they_are_written),
        TEST(a_constant_without_data_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
