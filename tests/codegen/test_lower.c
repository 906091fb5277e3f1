/* Linear layers and products of a lowered graph, and what cannot be lowered. */
#include "codegen/lowered.h"

/* ---- linear layers ---------------------------------------------------------------------------------- */

static void a_linear_layer_collapses_leading_axes(void **state)
{
    fixture *f = *state;
    lower(
        f,
        "(graph \"\" (input %x (f32 batch 3 2)) (const %w (f32 1 2) 1 2) (%y (linear %w none %x)) (output \"y\" %y))");
    assert_steps(f, "linear");
    const HypPlan__Linear *k = f->p->steps[0]->linear;
    const HypPlan__Dim *m = f->p->dims[k->m];
    assert_int_equal(m->kind, HYP_PLAN__DIM__KIND__MUL);
    assert_int_equal(k->n_layers, 1);
    assert_int_equal(dim_value(f, k->layers[0]->n), 1);
    assert_int_equal(dim_value(f, k->layers[0]->k), 2);
    assert_int_equal(k->layers[0]->bias_plus1, 0);
    assert_int_equal(f->p->tensors[k->y]->place, HYP_PLAN__PLACE__PLACE_OUTPUT);
    assert_false(k->tf32);
}

static void a_transposed_weight_is_used_as_it_is_stored(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 batch 2)) (const %w (f32 2 3) 1 2 3 4 5 6) (%t (transpose :perm (1 0) %w))"
             "(%y (linear %t none %x)) (output \"y\" %y))");
    assert_steps(f, "linear");
    const HypPlan__Layer *layer = f->p->steps[0]->linear->layers[0];
    assert_true(layer->weight_kn);
    assert_int_equal(dim_value(f, layer->n), 3);
    assert_int_equal(dim_value(f, f->p->tensors[layer->weight]->dims[0]), 2);
    assert_true(written_weight(f, "w", 1) == 2);
}

static void a_gpu_gets_weights_as_it_reads_them(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    parse(f, "(graph \"\" (input %x (f32 batch 2)) (const %w (f32 2 3) 1 2 3 4 5 6) (%t (transpose :perm (1 0) %w))"
             "(%y (linear %t none %x)) (output \"y\" %y))");
    hyp_codegen_options options = {.target = hyp_target_find("cuda")};
    assert_int_equal(hyp_codegen_lower(&f->graph, &options, &f->lowered, &diag), HYP_OK);
    f->p = f->lowered.program;
    assert_steps(f, "linear");
    const HypPlan__Layer *layer = f->p->steps[0]->linear->layers[0];
    assert_false(layer->weight_kn);
    assert_int_equal(dim_value(f, f->p->tensors[layer->weight]->dims[0]), 3);
    assert_true(written_weight(f, f->p->tensors[layer->weight]->name, 1) == 4);
}

/* With so many rows and columns a GPU's library is faster with f32 as the model has it. */
static void a_gpu_reads_weights_of_some_rows_as_the_model_has_them(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *rows, *type;
        int columns;
        hyp_precision precision;
        bool kept;
    } cases[] = {{"17", "f32", 17, HYP_PRECISION_FP32, true},   {"64", "f32", 40, HYP_PRECISION_FP32, true},
                 {"4 32", "f32", 40, HYP_PRECISION_FP32, true}, {"16", "f32", 40, HYP_PRECISION_FP32, false},
                 {"129", "f32", 40, HYP_PRECISION_FP32, false}, {"64", "f32", 16, HYP_PRECISION_FP32, false},
                 {"64", "f32", 40, HYP_PRECISION_TF32, false},  {"64", "bf16", 40, HYP_PRECISION_FP32, false},
                 {"batch", "f32", 40, HYP_PRECISION_FP32, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512], values[128] = "";
        hyp_diag diag = {0};
        const char *type = cases[i].type;
        for (int k = 0; k < cases[i].columns; k++) strcat(values, " 1");
        hyp_lowered_dispose(&f->lowered);
        hyp_graph_dispose(&f->graph);
        snprintf(text, sizeof text,
                 "(graph \"\" (input %%x (%s %s 2)) (const %%w (%s 2 %d)%s%s) (%%t (transpose :perm (1 0) %%w))"
                 "(%%y (linear %%t none %%x)) (output \"y\" %%y))",
                 type, cases[i].rows, type, cases[i].columns, values, values);
        parse(f, text);
        hyp_codegen_options options = {.target = hyp_target_find("cuda"), .precision = cases[i].precision};
        if (hyp_codegen_lower(&f->graph, &options, &f->lowered, &diag) != HYP_OK) fail_msg("%s", diag.message);
        f->p = f->lowered.program;
        assert_int_equal(f->p->steps[0]->linear->layers[0]->weight_kn, cases[i].kept);
    }
}

static void a_transposed_value_is_used_as_it_is_computed(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 batch 2)) (input %w (f32 2 3)) (%e (exp %w)) (%t (transpose :perm (1 0) %e))"
             "(%y (linear %t none %x)) (output \"y\" %y))");
    assert_steps(f, "exp linear");
    assert_true(f->p->steps[1]->linear->layers[0]->weight_kn);
}

static void a_product_with_a_constant_matrix_is_a_linear_layer(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 batch 4 2)) (const %w (f32 2 3) 1 2 3 4 5 6) (%y (matmul %x %w)) (output "
             "\"y\" %y))");
    assert_int_equal(f->p->steps[0]->kernel_case, HYP_PLAN__STEP__KERNEL_LINEAR);
    assert_true(f->p->steps[0]->linear->layers[0]->weight_kn);
    assert_steps(f, "matmul");
}

static void a_chain_of_layers_keeps_hidden_values_in_two_slots(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 batch 2)) (const %w (f32 2 2) 1 2 3 4) (const %b (f32 2) 1 2)"
             "(%y (fused-mlp :acts (relu tanh gelu none sigmoid) %w %b %w none %w %b %w %b %w none %x))"
             "(%z (softmax %y)) (output \"y\" %z))");
    assert_steps(f, "fused-mlp softmax");
    const HypPlan__Linear *k = f->p->steps[0]->linear;
    assert_int_equal(k->n_layers, 5);
    assert_int_equal(k->layers[2]->act, HYP_PLAN__ACT__ACT_GELU);
    assert_int_equal(f->p->slot_count, 3); /* two for the hidden values, one for y */
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_WEIGHT), 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(f->p->tensors[k->layers[i]->hidden_plus1 - 1]->slot,
                         f->p->tensors[k->layers[i % 2]->hidden_plus1 - 1]->slot);
}

static void the_name_of_a_layer_is_the_one_that_people_write(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 batch 2)) (const %w (f32 2 2) 1 2 3 4) (%a (fused-linear-relu %w none %x))"
             "(%b (fused-linear :act gelu %w none %a)) (output \"y\" %b))");
    assert_steps(f, "fused-linear-relu fused-linear");
}

static void tf32_is_for_f32_products(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    assert_int_equal(try_lower(f,
                               "(graph \"\" (input %x (f32 b 2)) (input %d (f64 b 2)) (%y (matmul :trans-b 1 %x %x))"
                               "(%z (matmul :trans-b 1 %d %d)) (output \"y\" %y) (output \"z\" %z))",
                               HYP_PRECISION_TF32, &diag),
                     HYP_OK);
    assert_true(f->p->steps[0]->matmul->tf32);
    assert_false(f->p->steps[1]->matmul->tf32);
    assert_string_equal(f->p->precision, "tf32");
}

/* ---- products --------------------------------------------------------------------------------------- */

static void one_right_side_for_a_batch_is_one_taller_product(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %a (f32 5 4 3 2)) (input %b (f32 2 6)) (%y (matmul %a %b)) (output \"y\" %y))");
    const HypPlan__Matmul *k = f->p->steps[0]->matmul;
    assert_int_equal(k->n_batch, 0);
    assert_int_equal(dim_value(f, k->m), 60);
}

static void broadcast_batches_have_stride_0(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %a (f32 5 1 3 2)) (input %b (f32 4 2 6)) (%y (matmul %a %b)) (output \"y\" %y))");
    const HypPlan__Matmul *k = f->p->steps[0]->matmul;
    assert_int_equal(k->n_batch, 2);
    assert_int_equal(dim_value(f, k->a_strides[0]), 6);
    assert_int_equal(dim_value(f, k->a_strides[1]), 0);
    assert_int_equal(dim_value(f, k->b_strides[0]), 0);
    assert_int_equal(dim_value(f, k->b_strides[1]), 12);
}

static void attention_reads_parts_of_one_product_where_they_lie(void **state)
{
    fixture *f = *state;
    lower(f,
          "(graph \"\" (input %x (f32 batch n 60)) (input %m (bool n n)) "
          "(%s (slice :starts (0 0 0) :sizes (batch n 24) :steps (1 1 1) %x)) (%q3 (reshape :shape (batch n 4 6) %s)) "
          "(%q (transpose :perm (0 2 1 3) %q3)) "
          "(%l (slice :starts (0 0 24) :sizes (batch n 24) :steps (1 1 1) %x)) (%k3 (reshape :shape (batch n 4 6) %l)) "
          "(%k (transpose :perm (0 2 3 1) %k3)) "
          "(%u (slice :starts (0 0 48) :sizes (batch n 12) :steps (1 1 1) %x)) (%v3 (reshape :shape (batch n 4 3) %u)) "
          "(%v (transpose :perm (0 2 1 3) %v3)) "
          "(%y (attention :trans-k 0 :rows-first 1 %q %k %v %m)) (output \"y\" %y))");
    assert_int_equal(f->p->n_steps, 1);
    const HypPlan__Attention *a = f->p->steps[0]->attention;
    const HypPlan__Attention__Operand *in[] = {a->q, a->k, a->v};
    static const int64_t offsets[] = {0, 24, 48}, heads[] = {6, 6, 3};
    assert_int_equal(a->n_batch, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(in[i]->tensor, f->p->inputs[0]);
        assert_int_equal(dim_value(f, in[i]->offset), offsets[i]);
        assert_int_equal(dim_value(f, in[i]->strides[1]), heads[i]);
        assert_int_equal(dim_value(f, in[i]->strides[2]), 60);
        assert_int_equal(dim_value(f, in[i]->strides[3]), 1);
    }
    assert_false(a->plain);
    assert_int_equal(dim_value(f, a->mask->strides[0]), 0);
    assert_int_equal(dim_value(f, a->mask->strides[1]), 0);
    assert_int_equal(dim_value(f, a->mask->strides[3]), 1);
    assert_int_equal(dim_value(f, a->y->strides[1]), 3);
    assert_int_equal(dim_value(f, a->y->strides[2]), 12);
}

#define DECODED                                                                                                        \
    "(graph \"\" (input %q (f32 2 1 8)) (input %pk (f32 2 past 8)) (input %pv (f32 2 past 8)) (input %n (f32 2 1 "     \
    "16)) "                                                                                                            \
    "(%k (slice :starts (0 0 0) :sizes (2 1 8) :steps (1 1 1) %n)) "                                                   \
    "(%v (slice :starts (0 0 8) :sizes (2 1 8) :steps (1 1 1) %n)) "                                                   \
    "(%ks (concat :axis 1 %pk %k)) (%vs (concat :axis 1 %pv %v)) (%y (attention %q %ks %vs)) (output \"y\" %y)"

/* One row over a past on a GPU: what joins the past need not be there first, or at all. */
static void attention_of_one_row_reads_past_and_new_keys_where_they_lie(void **state)
{
    fixture *f = *state;
    f->target = "cuda";
    lower(f, DECODED " (output \"ks\" %ks))");
    assert_steps(f, "concat concat attention");
    const HypPlan__Attention *a = f->p->steps[2]->attention;
    assert_int_equal(a->k->tensor, f->p->inputs[1]);
    assert_int_equal(a->v->tensor, f->p->inputs[2]);
    assert_int_equal(a->more_k->tensor, f->p->inputs[3]);
    assert_int_equal(a->more_v->tensor, f->p->inputs[3]);
    assert_int_equal(dim_value(f, a->more_v->offset), 8);
    assert_int_equal(f->p->dims[a->first_keys]->kind, HYP_PLAN__DIM__KIND__SYMBOL);
    assert_int_equal(dim_value(f, a->more_keys), 1);
}

static void attention_elsewhere_reads_keys_from_one_tensor(void **state)
{
    fixture *f = *state;
    lower(f, DECODED ")");
    assert_steps(f, "concat concat concat concat attention");
    assert_null(f->p->steps[4]->attention->more_k);
}

/* What is normalized stands until the layer behind has it, on a GPU, where one kernel may do both; not where the
 * normalized values have another reader. */
static void a_layer_on_a_gpu_may_normalize_what_it_alone_reads(void **state)
{
    fixture *f = *state;
    f->target = "cuda";
    lower(f, "(graph \"\" (input %x (f32 1 8)) (input %s (f32 8)) (input %w (f32 2 8)) "
             "(%h (softmax %x)) (%n (rms-norm %h %s)) (%y (linear %w none %n)) (%z (softmax %y)) "
             "(%m (rms-norm %x %s)) (%v (linear %w none %m)) (output \"z\" %z) (output \"v\" %v) (output \"m\" %m))");
    assert_steps(f, "softmax rms-norm linear softmax rms-norm linear");
    assert_true(f->p->steps[2]->linear->normalizes);
    assert_false(f->p->steps[5]->linear->normalizes);
    assert_false(hyp_plan_same_slot(f->p, f->p->steps[0]->softmax->y, f->p->steps[2]->linear->y));
}

/* A reshape that joins axes, a slice in other steps, and elements of which no two lie together in a matrix. */
static void attention_has_copies_where_strides_cannot_say_it(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %a (f32 2 2 3 4)) (input %b (f32 4 3 8)) (input %c (f32 4 3 4 2)) "
             "(%t (transpose :perm (1 0 2 3) %a)) (%q (reshape :shape (4 3 4) %t)) "
             "(%k (slice :starts (0 0 0) :sizes (4 3 4) :steps (1 1 2) %b)) "
             "(%m (transpose :perm (3 0 1 2) %c)) (%y (attention %q %k %m)) (output \"y\" %y))");
    assert_int_equal(f->p->n_steps, 4);
    assert_string_equal(f->p->steps[3]->label, "attention");
}

static void a_gemm_is_a_product_and_a_sum_in_place(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %a (f32 4 3)) (input %b (f32 3 2)) (input %c (f32 2)) (%y (gemm :alpha 2.0 :beta 3.0 "
             "%a %b %c))"
             "(%z (softmax %y)) (output \"y\" %z))");
    assert_steps(f, "gemm add softmax");
    assert_int_equal(f->p->slot_count, 1);
    assert_true(f->p->steps[0]->matmul->alpha == 2);
}

#define INTEGERS(attrs)                                                                                                \
    "(graph \"\" (input %a (i32 4 3)) (%y (matmul " attrs " :trans-b 1 %a %a) :from (\"MatMul_7\")) (output \"y\" "    \
    "%y))"

static void products_of_integers_are_refused_by_name_where_there_are_none(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    f->target = "cuda";
    assert_int_equal(try_lower(f, INTEGERS(""), HYP_PRECISION_FP32, &diag), HYP_ERR_UNSUPPORTED);
    assert_string_equal(
        diag.message, "matmul at 'MatMul_7': products of i32 have no kernel; cast to a floating-point type before it");
}

static void scaled_products_of_integers_are_refused_by_name(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    assert_int_equal(try_lower(f, INTEGERS(":alpha 2.0"), HYP_PRECISION_FP32, &diag), HYP_ERR_UNSUPPORTED);
    assert_string_equal(
        diag.message, "matmul at 'MatMul_7': products of i32 have no kernel; cast to a floating-point type before it");
}

static void products_of_integers_are_neither_scaled_nor_activated_but_by_relu(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    lower(
        f,
        "(graph \"\" (input %a (i32 4 3)) (input %w (i32 3 4)) (%y (matmul %a %w)) (%z (fused-linear :act relu %w none "
        "%y)) (output \"z\" %z))");
    assert_steps(f, "matmul fused-linear-relu");
    assert_int_equal(hyp_plan_validate(f->p, &diag), HYP_OK);
    f->p->steps[0]->matmul->alpha = 2;
    assert_int_equal(hyp_plan_validate(f->p, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "a product of i32 is scaled by 2"));
    f->p->steps[0]->matmul->alpha = 1;
    f->p->steps[1]->linear->layers[0]->act = HYP_PLAN__ACT__ACT_TANH;
    assert_int_equal(hyp_plan_validate(f->p, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "layer 0 of i32 ends in tanh"));
}

/* Floats hold what bytes become by a few sums; of other integers they do not. */
static void integers_are_computed_in_floats_where_these_hold_them(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (u8 4 3)) (input %z (u8)) (%x32 (cast :to i32 %x)) (%z32 (cast :to i32 %z))"
             "(%y (sub %x32 %z32)) (%s (add %y %y)) (output \"s\" %s))");
    assert_steps(f, "cast cast+sub+add");
    for (size_t i = 0; i < 2; i++) assert_int_equal(f->p->steps[i]->pointwise->compute, HYP_F32);
}

static void large_integers_are_computed_in_integers(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text;
        hyp_dtype compute;
    } graphs[] = {
        {"(graph \"\" (input %x (u8 4)) (input %z (i32 4)) (%w (cast :to i32 %x)) (%y (sub %w %z)) (output \"y\" %y))",
         HYP_I64},
        {"(graph \"\" (input %x (u16 4)) (%a (cast :to i32 %x)) (%b (add %a %a)) (%c (add %b %b)) (%d (add %c %c))"
         "(%e (add %d %d)) (%f (add %e %e)) (%g (add %f %f)) (%h (add %g %g)) (%i (add %h %h)) (%y (add %i %i)) "
         "(output \"y\" %y))",
         HYP_I64},
        {"(graph \"\" (input %x (i8 4)) (%y (cast :to u64 %x)) (output \"y\" %y))", HYP_U64}, /* negative ones wrap */
        {"(graph \"\" (input %x (u8 4)) (%w (cast :to u32 %x)) (%v (sub %w %w)) (%y (add %v %v)) (output \"y\" %y))",
         HYP_I64},
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        hyp_lowered_dispose(&f->lowered);
        hyp_graph_dispose(&f->graph);
        lower(f, graphs[i].text);
        assert_int_equal(f->p->steps[f->p->n_steps - 1]->pointwise->compute, graphs[i].compute);
    }
}

/* ---- errors ----------------------------------------------------------------------------------------- */

static void a_size_that_no_input_has_is_refused(void **state)
{
    fixture *f = *state;
    hyp_diag diag = {0};
    assert_int_equal(try_lower(f,
                               "(graph \"\" (input %x (f32 1 2)) (%1 (expand :shape (batch 2) %x)) (output \"y\" %1))",
                               HYP_PRECISION_FP32, &diag),
                     HYP_ERR_UNSUPPORTED);
    assert_non_null(strstr(diag.message, "--dim batch=N"));
}

static void the_program_says_where_it_comes_from(void **state)
{
    fixture *f = *state;
    lower(f,
          "(graph \"\" (input %x (f32 b 2)) (%1 (exp %x) :from (\"Exp_0\") :rules (\"r1\" \"r2\")) (output \"y\" %1))");
    assert_string_equal(f->p->producer, "test");
    assert_string_equal(f->p->target, "cpu");
    assert_string_equal(f->p->model_name, "m");
    assert_int_equal(f->p->model_hash, 5);
    assert_string_equal(f->p->flags[0], "--disable-rule=x");
    assert_int_equal(f->p->steps[0]->n_rules, 2);
    assert_string_equal(f->p->rule_names[f->p->steps[0]->rules[1]], "r2");
}

static void running_out_of_memory_is_an_error(void **state)
{
    fixture *f = *state;
    parse(f, "(graph \"\" (input %x (f32 b 2)) (const %a (f32 2) 0.1 0.2) (%s (add %a %a)) (%y (add %x %s)) (%r "
             "(reshape :shape ((* 2 b)) %y))"
             "(%z (softmax %r)) (output \"y\" %z) (output \"x\" %x))");
    hyp_codegen_options options = {.target = hyp_target_find("cpu")};
    for (uint64_t n = 1; n < 10000; n++) {
        hyp_mem_fail_after(n);
        hyp_status status = hyp_codegen_lower(&f->graph, &options, &f->lowered, NULL);
        if (status == HYP_OK) status = hyp_codegen_write(&f->lowered, f->path, NULL, NULL, NULL, NULL);
        hyp_mem_fail_after(0);
        hyp_lowered_dispose(&f->lowered);
        if (status == HYP_OK) return;
        assert_int_equal(status, HYP_ERR_NO_MEMORY);
        assert_int_not_equal(access(f->path, F_OK), 0);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_linear_layer_collapses_leading_axes),
        TEST(a_transposed_weight_is_used_as_it_is_stored),
        TEST(a_gpu_gets_weights_as_it_reads_them),
        TEST(a_gpu_reads_weights_of_some_rows_as_the_model_has_them),
        TEST(a_transposed_value_is_used_as_it_is_computed),
        TEST(a_product_with_a_constant_matrix_is_a_linear_layer),
        TEST(a_chain_of_layers_keeps_hidden_values_in_two_slots),
        TEST(the_name_of_a_layer_is_the_one_that_people_write),
        TEST(tf32_is_for_f32_products),
        TEST(one_right_side_for_a_batch_is_one_taller_product),
        TEST(broadcast_batches_have_stride_0),
        TEST(attention_reads_parts_of_one_product_where_they_lie),
        TEST(attention_of_one_row_reads_past_and_new_keys_where_they_lie),
        TEST(attention_elsewhere_reads_keys_from_one_tensor),
        TEST(a_layer_on_a_gpu_may_normalize_what_it_alone_reads),
        TEST(attention_has_copies_where_strides_cannot_say_it),
        TEST(a_gemm_is_a_product_and_a_sum_in_place),
        TEST(products_of_integers_are_refused_by_name_where_there_are_none),
        TEST(scaled_products_of_integers_are_refused_by_name),
        TEST(products_of_integers_are_neither_scaled_nor_activated_but_by_relu),
        TEST(integers_are_computed_in_floats_where_these_hold_them),
        TEST(large_integers_are_computed_in_integers),
        TEST(a_size_that_no_input_has_is_refused),
        TEST(the_program_says_where_it_comes_from),
        TEST(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
