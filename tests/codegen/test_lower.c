/* What lowering makes of small graphs: which steps, which tensors, which places, which bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/codegen.h"

/* ---- support ---------------------------------------------------------------------------------------- */

typedef struct fixture {
    hyp_dims *dims;
    hyp_graph graph;
    hyp_lowered lowered;
    const HypPlan__Program *p;
    char path[64];
    const char *target;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    snprintf(f->path, sizeof f->path, "test_lower.%ld.bin", (long)getpid());
    f->target = "cpu";
    *state = f;
    return hyp_dims_create(&f->dims, NULL) == HYP_OK ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hyp_lowered_dispose(&f->lowered);
    hyp_graph_dispose(&f->graph);
    hyp_dims_destroy(f->dims);
    unlink(f->path);
    free(f);
    return 0;
}

static void parse(fixture *f, const char *text)
{
    hyp_diag diag = {0};
    hyp_graph_init(&f->graph, f->dims);
    if (hyp_graph_parse(&f->graph, "test", text, strlen(text), &diag) != HYP_OK) fail_msg("%s", diag.message);
}

static hyp_status try_lower(fixture *f, const char *text, hyp_precision precision, hyp_diag *diag)
{
    static const char *const flags[] = {"--disable-rule=x"};
    hyp_codegen_options options = {.target = hyp_target_find(f->target),
                                   .precision = precision,
                                   .producer = "test",
                                   .model_name = "m",
                                   .model_hash = 5,
                                   .flags = flags,
                                   .flag_count = 1};
    parse(f, text);
    HYP_TRY(hyp_codegen_lower(&f->graph, &options, &f->lowered, diag));
    f->p = f->lowered.program;
    return HYP_OK;
}

static void lower(fixture *f, const char *text)
{
    hyp_diag diag = {0};
    if (try_lower(f, text, HYP_PRECISION_FP32, &diag) != HYP_OK) fail_msg("%s", diag.message);
}

/* In the place of the one before. */
static void lower_another(fixture *f, const char *text)
{
    hyp_lowered_dispose(&f->lowered);
    hyp_graph_dispose(&f->graph);
    lower(f, text);
}

/* The labels of all steps, "linear add". */
static void assert_steps(const fixture *f, const char *want)
{
    char got[256] = "";
    for (size_t i = 0; i < f->p->n_steps; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", f->p->steps[i]->label);
    assert_string_equal(got, want);
}

static size_t count_place(const fixture *f, HypPlan__Place place)
{
    size_t count = 0;
    for (size_t i = 0; i < f->p->n_tensors; i++) count += f->p->tensors[i]->place == place;
    return count;
}

static int64_t dim_value(const fixture *f, uint32_t d)
{
    assert_int_equal(f->p->dims[d]->kind, HYP_PLAN__DIM__KIND__CONST);
    return f->p->dims[d]->value;
}

/* Writes the plan, opens it, and gives element i of its only weight tensor of this name. */
static double written_weight(fixture *f, const char *name, size_t i)
{
    hyp_diag diag = {0};
    hyp_plan plan;
    double value = 0;
    bool found = false;
    if (hyp_codegen_write(&f->lowered, f->path, NULL, NULL, NULL, &diag) != HYP_OK) fail_msg("%s", diag.message);
    if (hyp_plan_open_file(f->path, NULL, &plan, &diag) != HYP_OK) fail_msg("%s", diag.message);
    for (size_t t = 0; t < plan.program->n_tensors; t++) {
        const HypPlan__Tensor *tensor = plan.program->tensors[t];
        if (tensor->place != HYP_PLAN__PLACE__PLACE_WEIGHT || strcmp(tensor->name, name) != 0) continue;
        assert_false(found);
        value = hyp_load_f64((hyp_dtype)tensor->dtype, plan.weights + tensor->offset, i);
        found = true;
    }
    assert_true(found);
    hyp_plan_close(&plan);
    return value;
}

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

/* ---- pointwise groups ------------------------------------------------------------------------------- */

static void elementwise_chains_are_one_step(void **state)
{
    fixture *f = *state;
    lower(
        f,
        "(graph \"\" (input %x (f32 b 3)) (input %v (f32 3)) (const %half (f32) 0.5) (%1 (mul %x %half) :from (\"m\"))"
        "(%2 (add %1 %v) :from (\"a\")) (%3 (relu %2) :from (\"r\")) (output \"y\" %3))");
    assert_steps(f, "mul+add+relu");
    const HypPlan__Pointwise *k = f->p->steps[0]->pointwise;
    assert_int_equal(k->n_inputs, 2); /* the scalar is an instruction */
    assert_int_equal(k->n_instrs, 4);
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_WEIGHT), 0);
    assert_int_equal(f->p->steps[0]->n_sources, 3);
    assert_string_equal(f->p->source_names[f->p->steps[0]->sources[0]], "m");
}

static void a_value_read_twice_inside_a_group_joins_it(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 3)) (%1 (exp %x)) (%2 (sigmoid %1)) (%3 (mul %1 %2)) (output \"y\" %3))");
    assert_steps(f, "exp+sigmoid+mul");
    assert_int_equal(f->p->steps[0]->pointwise->n_extents, 1); /* rows and columns are crossed in one go */
}

/* To a type that is no smaller: what it gives would be more to read than what it reads. */
static void a_cast_is_in_the_step_of_each_of_its_readers(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (bf16 b 3)) (%c (cast :to f32 %x)) (%1 (exp %c)) (%2 (sigmoid %c)) (%s (softmax %1)) "
             "(output \"a\" %s) (output \"b\" %2))");
    assert_steps(f, "cast+sigmoid cast+exp softmax");
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(f->p->steps[i]->pointwise->n_inputs, 1);
        assert_int_equal(f->p->steps[i]->pointwise->inputs[0]->tensor, f->p->inputs[0]);
    }
    /* Not where something else reads it, or it is an output, or smaller; once more where a reader has another shape. */
    lower_another(f, "(graph \"\" (input %x (bf16 b 3)) (%c (cast :to f32 %x)) (%1 (exp %c)) (%2 (sigmoid %c)) (%3 (softmax %c)) "
                     "(output \"a\" %1) (output \"b\" %2) (output \"c\" %3))");
    assert_steps(f, "cast exp sigmoid softmax");
    lower_another(f, "(graph \"\" (input %x (bf16 b 3)) (%c (cast :to f32 %x)) (%1 (exp %c)) (%2 (sigmoid %c)) "
                     "(output \"a\" %1) (output \"b\" %2) (output \"c\" %c))");
    assert_steps(f, "cast exp sigmoid");
    lower_another(f, "(graph \"\" (input %x (f32 b 3)) (%c (cast :to bf16 %x)) (%1 (exp %c)) (%2 (sigmoid %c)) "
                     "(output \"a\" %1) (output \"b\" %2))");
    assert_steps(f, "cast exp sigmoid");
    lower_another(f, "(graph \"\" (input %x (bf16 3)) (input %v (f32 b 3)) (%c (cast :to f32 %x)) (%1 (exp %c)) (%2 (add %v %c)) "
                     "(output \"a\" %1) (output \"b\" %2))");
    assert_steps(f, "cast cast+exp add");
}

static void a_value_that_is_also_an_output_is_a_further_result(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (%1 (exp %x)) (%2 (sigmoid %1)) (output \"a\" %1) (output \"b\" %2))");
    assert_steps(f, "exp+sigmoid");
    assert_int_equal(f->p->steps[0]->pointwise->n_outputs, 2);
    assert_string_equal(f->p->tensors[f->p->steps[0]->pointwise->outputs[0]]->name, "a");
    assert_int_equal(f->p->steps[0]->pointwise->output_regs[0], 1);
    assert_string_equal(f->p->tensors[f->p->steps[0]->pointwise->outputs[1]]->name, "b");
    /* Not where others read it, too, also as a view; nor more than a step may have. */
    lower_another(
        f, "(graph \"\" (input %x (f32 b 2)) (%1 (exp %x)) (%2 (sigmoid %1)) (%s (softmax %1)) (output \"a\" %1) "
           "(output \"b\" "
           "%2) (output \"s\" %s))");
    assert_steps(f, "exp sigmoid softmax");
    lower_another(
        f, "(graph \"\" (input %x (f32 2 2)) (%1 (exp %x)) (%2 (sigmoid %1)) (%v (reshape :shape (4) %1)) (%3 (relu "
           "%v)) (output "
           "\"a\" %1) (output \"b\" %2) (output \"c\" %3))");
    assert_steps(f, "exp sigmoid relu");
    lower_another(
        f, "(graph \"\" (input %x (f32 b 2)) (%1 (exp %x)) (%2 (sqrt %1)) (%3 (exp %2)) (%4 (sqrt %3)) (%5 (exp %4)) "
           "(output "
           "\"1\" %1) (output \"2\" %2) (output \"3\" %3) (output \"4\" %4) (output \"5\" %5))");
    assert_steps(f, "exp sqrt+exp+sqrt+exp");
    lower_another(f,
                  "(graph \"\" (input %x (f32 b 2)) (%1 (exp %x)) (%2 (sqrt %1)) (output \"1\" %1) (output \"2\" %2) "
                  "(output \"again\" "
                  "%1))");
    assert_steps(f, "exp+sqrt copy");
}

static void groups_keep_to_the_limits(void **state)
{
    fixture *f = *state;
    hyp_strbuf text = {0};
    hyp_strbuf_puts(&text, "(graph \"\" (input %x0 (f32 b 3))");
    for (int i = 1; i <= 20; i++) hyp_strbuf_printf(&text, "(input %%x%d (f32 b 3))", i);
    hyp_strbuf_puts(&text, "(%y0 (exp %x0))");
    for (int i = 1; i <= 20; i++) hyp_strbuf_printf(&text, "(%%y%d (add %%y%d %%x%d))", i, i - 1, i);
    hyp_strbuf_puts(&text, "(output \"y\" %y20))");
    lower(f, hyp_strbuf_text(&text));
    hyp_strbuf_dispose(&text);
    assert_int_equal(f->p->n_steps, 3);    /* the validator has checked the limits of each */
    assert_int_equal(f->p->slot_count, 1); /* in place */
}

static void types_decide_what_a_group_computes_in(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %i (i32 4)) (%1 (add %i %i)) (%2 (cast :to f16 %1)) (%3 (cast :to f32 %2)) (%4 (cast "
             ":to f64 %3))"
             "(output \"y\" %4))");
    assert_steps(f, "add cast cast cast");
    assert_int_equal(f->p->steps[0]->pointwise->compute, HYP_I64);
    assert_int_equal(f->p->steps[1]->pointwise->compute, HYP_F64); /* i32 to f16 rounds once */
    assert_int_equal(f->p->steps[2]->pointwise->compute, HYP_F32);
    assert_int_equal(f->p->steps[3]->pointwise->compute, HYP_F64);
    assert_int_equal(f->p->slot_count, 2); /* elements of other sizes do not go in place */
}

static void a_broadcast_input_is_not_overwritten(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 4 4)) (input %v (f32 1 4)) (%1 (softmax %v)) (%2 (add %x %1)) (%3 (softmax "
             "%2)) (output \"y\" %3))");
    assert_steps(f, "softmax add softmax");
    assert_int_equal(f->p->slot_count, 2);
}

static void a_transposed_second_reading_forbids_overwriting(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 1 4)) (%1 (softmax %x)) (%r (reshape :shape (4 1) %1)) (%2 (mul %1 %r)) (%3 "
             "(softmax %2))"
             "(output \"y\" %3))");
    assert_steps(f, "softmax mul softmax");
    assert_int_equal(f->p->slot_count, 2);
}

#define HEADS(perm)                                                                                                    \
    "(graph \"\" (input %x (f32 2 16 16 16)) (input %z (f32 2 16 16 16)) (%t (transpose :perm " perm " %x))"           \
    "(%y (mul %z %t)) (output \"y\" %y))"

static void heads_are_multiplied_where_they_lie_on_a_gpu(void **state)
{
    fixture *f = *state;
    f->target = "cuda";
    lower(f, HEADS("(0 2 1 3)"));
    assert_steps(f, "mul");
    const HypPlan__Pointwise *k = f->p->steps[0]->pointwise;
    static const int64_t strides[] = {4096, 16, 256, 1};
    assert_int_equal(k->n_extents, 4);
    for (size_t i = 0; i < k->n_extents; i++) assert_int_equal(dim_value(f, k->inputs[1]->strides[i]), strides[i]);
}

static void heads_are_copied_first_on_a_cpu(void **state)
{
    fixture *f = *state;
    lower(f, HEADS("(0 2 1 3)"));
    assert_steps(f, "transpose mul");
}

static void columns_are_copied_to_rows_first_on_a_gpu_too(void **state)
{
    fixture *f = *state;
    f->target = "cuda";
    lower(f, HEADS("(0 1 3 2)"));
    assert_steps(f, "transpose mul");
}

/* ---- views and outputs ------------------------------------------------------------------------------ */

#define CONV "(conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) "

static void a_convolution_goes_over_what_is_added_to_it(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 1 2 4 4)) (input %w (f32 2 2 1 1)) (%z (softmax %x)) (%v (softmax %z))"
             "(%y " CONV "%v %w none %z)) (%s (softmax %y)) (output \"y\" %s))");
    assert_steps(f, "softmax softmax conv softmax");
    assert_int_equal(f->p->slot_count, 2);
    const HypPlan__Call *call = f->p->steps[2]->call;
    HypPlan__Tensor *y = f->p->tensors[call->outputs[0]];
    assert_int_equal(y->slot, f->p->tensors[call->inputs_plus1[3] - 1]->slot);
    y->slot = f->p->tensors[call->inputs_plus1[0] - 1]->slot; /* of the input itself: that would be wrong */
    hyp_diag diag = {0};
    assert_int_equal(hyp_plan_validate(f->p, &diag), HYP_ERR_MALFORMED);
    assert_non_null(strstr(diag.message, "is in the slot of a tensor that the step reads"));
}

static void a_convolution_does_not_go_over_its_input(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 1 2 4 4)) (input %w (f32 2 2 1 1)) (%z (softmax %x)) (%y " CONV
             "%z %w none %z)) (%s (softmax %y)) (output \"y\" %s))");
    assert_steps(f, "softmax conv softmax");
    assert_int_equal(f->p->slot_count, 2);
}

static void a_convolution_does_not_go_over_what_is_read_later(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 1 2 4 4)) (input %w (f32 2 2 1 1)) (%z (softmax %x)) (%y " CONV
             "%x %w none %z)) (%s (softmax %y)) (%t (div %z %y)) (output \"y\" %s) (output \"t\" %t))");
    assert_steps(f, "softmax conv softmax div");
    assert_int_equal(f->p->slot_count, 2);
}

#define ADDS(place, r, x) "(fused-linear-add :act relu :add " place " %w none " r " " x ")"

/* x is read later, so only what is added dies in the step. */
static void a_linear_goes_over_what_is_added_before_its_activation(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 4 4)) (input %w (f32 4 4)) (%z (softmax %x)) (%v (softmax %z))"
             "(%y " ADDS("before", "%z", "%v") ") (%s (softmax %y)) (output \"y\" %s) (output \"v\" %v))");
    assert_steps(f, "softmax softmax fused-linear-add softmax");
    const HypPlan__Linear *k = f->p->steps[2]->linear;
    assert_false(k->add_after);
    assert_int_equal(f->p->tensors[k->y]->slot, f->p->tensors[k->added_plus1 - 1]->slot);
    assert_int_equal(f->p->slot_count, 1);
}

static void assert_added_apart(fixture *f, const char *text)
{
    lower(f, text);
    assert_steps(f, "softmax fused-linear-add softmax");
    const HypPlan__Linear *k = f->p->steps[1]->linear;
    assert_int_not_equal(f->p->tensors[k->y]->slot, f->p->tensors[k->added_plus1 - 1]->slot);
}

static void a_linear_does_not_go_over_what_it_multiplies(void **state)
{
    assert_added_apart(*state, "(graph \"\" (input %x (f32 4 4)) (input %w (f32 4 4)) (%z (softmax %x))"
                               "(%y " ADDS("before", "%z", "%z") ") (%s (softmax %y)) (output \"y\" %s))");
}

static void a_linear_does_not_go_over_what_is_added_after_its_activation(void **state)
{
    assert_added_apart(*state, "(graph \"\" (input %x (f32 4 4)) (input %w (f32 4 4)) (%z (softmax %x))"
                               "(%y " ADDS("after", "%z", "%x") ") (%s (softmax %y)) (output \"y\" %s))");
}

static void views_are_no_steps(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2 3)) (const %w (f32 1 6) 1 2 3 4 5 6) (%1 (reshape :shape (b 6) %x)) (%2 "
             "(dropout %1))"
             "(%3 (linear %w none %2)) (%4 (squeeze :axes (1) %3)) (output \"y\" %4))");
    assert_steps(f, "linear");
    const HypPlan__Linear *k = f->p->steps[0]->linear;
    assert_int_equal(k->y, f->p->outputs[0]); /* computed into the output, whose shape is that of the last view */
    assert_int_equal(f->p->tensors[k->y]->n_dims, 1);
    assert_int_equal(f->p->tensors[k->x]->place, HYP_PLAN__PLACE__PLACE_VIEW);
    assert_int_equal(count_place(f, HYP_PLAN__PLACE__PLACE_VIEW), 1);
}

static void outputs_that_are_something_else_too_are_copies(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (const %c (f32 2) 1 2) (%1 (exp %x)) (%2 (reshape :shape ((* 2 b)) %1)) "
             "(output \"a\" %x)"
             "(output \"b\" %c) (output \"c\" %1) (output \"d\" %1) (output \"e\" %2))");
    assert_steps(f, "exp copy copy copy copy");
    assert_int_equal(f->p->slot_count, 0);
    assert_int_equal(f->p->n_outputs, 5);
    assert_int_equal(f->p->steps[0]->pointwise->outputs[0], f->p->outputs[2]);
}

static void parts_of_a_concat_fill_its_result(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 2)) (%1 (exp %x)) (%2 (concat :axis 1 %1 %x %1)) (output \"y\" %2))");
    assert_steps(f, "exp concat concat concat");
    assert_int_equal(dim_value(f, f->p->steps[3]->copy->y_offset), 4);
}

/* Heads that become rows again are copied from where they lie; what a model shows is made all the same. */
static void merged_axes_of_a_concat_fill_its_result(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 n 3 4 5)) (%1 (exp %x)) (%2 (transpose :perm (0 2 1 3) %1)) "
             "(%3 (reshape :shape (n 4 15) %2)) (%4 (concat :axis 2 %3 %3)) (output \"y\" %4))");
    assert_steps(f, "exp concat concat");
    const HypPlan__Copy *second = f->p->steps[2]->copy;
    assert_int_equal(second->n_extents, 4);
    assert_int_equal(dim_value(f, second->y_offset), 15);
    assert_int_equal(dim_value(f, second->y_strides[1]), 30);
    assert_int_equal(dim_value(f, second->x_strides[2]), 20);
    lower_another(f, "(graph \"\" (input %x (f32 2 3 4)) (%1 (exp %x)) (%2 (transpose :perm (0 2 1) %1)) "
             "(%3 (reshape :shape (8 3) %2)) (%4 (concat :axis 1 %3 %3)) (output \"t\" %3) (output \"y\" %4))");
    assert_steps(f, "exp transpose concat concat");
    lower_another(f, "(graph \"\" (input %x (f32 2 3 4)) (%1 (exp %x)) (%2 (transpose :perm (0 2 1) %1)) "
             "(%3 (reshape :shape (4 6) %2)) (%4 (concat :axis 1 %3 %3)) (output \"y\" %4))"); /* no rows of neighbours */
    assert_steps(f, "exp transpose concat concat");
}

/* A part whose axes change places is not cut out first, past a reshape too; what somebody else reads of it is. */
static void transposed_parts_are_read_where_they_lie(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 n 24)) (%1 (exp %x)) ((%2 %3) (split :axis 1 :sizes (12 12) %1)) "
             "(%4 (reshape :shape (n 3 4) %3)) (%5 (transpose :perm (1 0 2) %4)) (%6 (transpose :perm (1 0) %2)) "
             "(output \"y\" %5) (output \"z\" %6))");
    assert_steps(f, "exp transpose transpose");
    const HypPlan__Copy *heads = f->p->steps[1]->copy->n_extents == 3 ? f->p->steps[1]->copy : f->p->steps[2]->copy;
    assert_int_equal(heads->x, f->p->steps[0]->pointwise->outputs[0]);
    assert_int_equal(dim_value(f, heads->x_offset), 12);
    assert_int_equal(dim_value(f, heads->x_strides[0]), 4);
    assert_int_equal(dim_value(f, heads->x_strides[1]), 24);
    assert_int_equal(dim_value(f, heads->x_strides[2]), 1);
    lower_another(f, "(graph \"\" (input %x (f32 n 24)) (%1 (exp %x)) ((%2 %3) (split :axis 1 :sizes (12 12) %1)) "
                     "(%4 (transpose :perm (1 0) %2)) (%5 (transpose :perm (1 0) %3)) (output \"y\" %4) (output \"z\" %5) "
                     "(output \"part\" %3))");
    assert_steps(f, "exp split transpose transpose");
    lower_another(f, "(graph \"\" (input %x (f32 8 6)) (%1 (exp %x)) (%2 (slice :starts (0 1) :sizes (4 3) :steps (2 1) %1)) "
                     "(%3 (transpose :perm (1 0) %2)) (output \"y\" %3))"); /* every other row */
    assert_steps(f, "exp slice transpose");
}

/* What a transposition turns is read where it lies, unless it is there in any case, or in other steps. */
static void transpositions_read_what_was_cut_out(void **state)
{
    static const char *const graphs[][2] = {
        {"(%2 (slice :starts (0 0 4) :sizes (b 7 4) :steps (1 1 1) %1)) (%3 (reshape :shape (b 7 2 2) %2)) "
         "(%4 (transpose :perm (0 2 1 3) %3)) (output \"y\" %4)",
         "exp transpose"},
        {"((%2 %3) (split :axis 2 :sizes (5 7) %1)) (%4 (transpose :perm (2 1 0) %3)) (%5 (softmax %4)) (output \"y\" %5)",
         "exp transpose softmax"},
        {"(%2 (slice :starts (0 0 4) :sizes (b 7 4) :steps (1 1 1) %1)) (%3 (transpose :perm (1 0 2) %2)) (%4 (softmax %2)) "
         "(output \"y\" %3) (output \"z\" %4)",
         "exp slice transpose softmax"},
        {"(%2 (slice :starts (0 0 10) :sizes (b 7 4) :steps (1 1 -2) %1)) (%3 (transpose :perm (1 0 2) %2)) (output \"y\" %3)",
         "exp slice transpose"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        char text[512];
        snprintf(text, sizeof text, "(graph \"\" (input %%x (f32 b 7 12)) (%%1 (exp %%x)) %s)", graphs[i][0]);
        (i ? lower_another : lower)(f, text);
        assert_steps(f, graphs[i][1]);
    }
}

/* Parts of parts are copied straight to their place; the concat between, which nothing else reads, is not made. */
static void parts_of_a_concat_in_a_concat_fill_its_result(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 2 3 4)) (input %y (f32 2 1 4)) (input %z (f32 1 2 4 4)) "
             "(%1 (concat :axis 1 %x %y)) (%2 (unsqueeze :axes (0) %1)) (%3 (transpose :perm (0 1 3 2) %2)) "
             "(%4 (concat :axis 0 %z %3)) (output \"y\" %4))");
    assert_steps(f, "concat concat concat");
    const HypPlan__Copy *x = f->p->steps[1]->copy, *y = f->p->steps[2]->copy;
    assert_int_equal(x->x, f->p->inputs[0]);
    assert_int_equal(dim_value(f, x->y_offset), 32);
    assert_int_equal(dim_value(f, y->y_offset), 35);
    assert_int_equal(y->n_extents, 1);
    assert_int_equal(dim_value(f, y->y_strides[0]), 4);
}

static void unread_parts_of_a_split_are_not_copied(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 6)) ((%1 %2 %3) (split :axis -1 :sizes (1 2 3) %x)) (output \"y\" %3))");
    assert_steps(f, "split");
    assert_int_equal(dim_value(f, f->p->steps[0]->copy->x_offset), 3);
}

/* By input i of a pointwise step: the element of another tensor that the window which it reads begins at. */
static uint64_t window_of(const fixture *f, size_t step, size_t i, uint32_t *of)
{
    const HypPlan__Tensor *t = f->p->tensors[f->p->steps[step]->pointwise->inputs[i]->tensor];
    assert_true(hyp_plan_is_window(t));
    *of = t->view_of;
    return t->first;
}

static void parts_in_one_piece_are_windows(void **state)
{
    fixture *f = *state;
    uint32_t of;
    lower(f, "(graph \"\" (input %z (f32 20 4)) (%s (softmax :axis 0 %z))"
             "((%1 %2 %3) (split :axis 0 :sizes (4 6 10) %s)) (%4 (reshape :shape (20 2) %3))"
             "(%5 (slice :starts (2 0) :sizes (4 2) :steps (1 1) %4)) (%6 (reshape :shape (2 4) %5))"
             "(%7 (add %6 %6)) (%y (mul %6 %7)) (%r (exp %1)) (output \"y\" %y) (output \"r\" %r))");
    assert_steps(f, "softmax add+mul exp");
    assert_int_equal(window_of(f, 1, 0, &of), 44);
    assert_int_equal(of, f->p->steps[0]->softmax->y);
    assert_int_equal(window_of(f, 2, 0, &of), 0);
    assert_int_equal(of, f->p->steps[0]->softmax->y);
    assert_int_equal(f->p->slot_count, 1);
}

static void parts_of_a_single_row_are_windows_whatever_its_length(void **state)
{
    fixture *f = *state;
    uint32_t of;
    lower(f, "(graph \"\" (input %x (f32 1 (+ 8 b))) ((%1 %2) (split :axis 1 :sizes (8 b) %x))"
             "(%a (exp %1)) (%b (exp %2)) (output \"a\" %a) (output \"b\" %b))");
    assert_steps(f, "exp exp");
    assert_int_equal(window_of(f, 1, 0, &of), 8);
    assert_int_equal(of, f->p->inputs[0]);
}

static void other_parts_are_copied(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 8)) (input %z (f32 1 10)) (input %w (f32 8 b))"
             "((%1 %2) (split :axis 1 :sizes (4 4) %x)) ((%3 %4) (split :axis 1 :sizes (5 5) %z))"
             "((%5 %6) (split :axis 0 :sizes (4 4) %w)) (%7 (slice :starts (0 0) :sizes (4 b) :steps (2 1) %w))"
             "(%a (exp %1)) (%b (exp %4)) (%c (exp %6)) (%d (exp %7))"
             "(output \"a\" %a) (output \"b\" %b) (output \"c\" %c) (output \"d\" %d))");
    assert_steps(f, "split exp split exp split exp slice exp");
}

static void an_output_that_is_a_part_is_a_copy(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 2 b)) (%s (exp %x)) (%1 (slice :starts (0 0) :sizes (1 b) :steps (1 1) %s))"
             "(output \"s\" %s) (output \"y\" %1))");
    assert_steps(f, "exp copy");
}

/* The normalization is no part of the layer that reads half of it. */
static void a_linear_of_a_part_does_not_normalize(void **state)
{
    fixture *f = *state;
    f->target = "cuda";
    lower(f, "(graph \"\" (input %x (f32 4 8)) (input %s (f32 8)) (input %w (f32 2 8)) (%n (rms-norm %x %s))"
             "(%h (slice :starts (2 0) :sizes (2 8) :steps (1 1) %n)) (%y (linear %w none %h)) (output \"y\" %y))");
    assert_steps(f, "rms-norm linear");
    assert_false(f->p->steps[1]->linear->normalizes);
}

static void dead_nodes_and_constants_vanish(void **state)
{
    fixture *f = *state;
    lower(f,
          "(graph \"\" (input %x (f32 b 2)) (const %c (f32 2) 1 2) (%1 (exp %x)) (%2 (add %x %c)) (output \"y\" %1))");
    assert_steps(f, "exp");
    assert_int_equal(f->p->n_tensors, 2);
}

/* ---- scratch ---------------------------------------------------------------------------------------- */

static void a_long_chain_takes_two_slots(void **state)
{
    fixture *f = *state;
    hyp_strbuf text = {0};
    hyp_strbuf_puts(&text, "(graph \"\" (input %x (f32 b 3)) (%0 (softmax %x))");
    for (int i = 1; i < 10; i++) hyp_strbuf_printf(&text, "(%%%d (softmax %%%d))", i, i - 1);
    hyp_strbuf_puts(&text, "(output \"y\" %9))");
    lower(f, hyp_strbuf_text(&text));
    hyp_strbuf_dispose(&text);
    assert_int_equal(f->p->slot_count, 2);
}

/* A forward pass, a backward pass, and for each layer an output that needs both; outputs in the order of the layers, or
 * the other way round. */
static uint32_t slots_of_passes(fixture *f, int layers, bool last_first)
{
    hyp_strbuf text = {0};
    hyp_strbuf_puts(&text, "(graph \"\" (input %x (f32 b 8)) (%f0 (softmax %x))");
    for (int i = 1; i < layers; i++) hyp_strbuf_printf(&text, "(%%f%d (softmax %%f%d))", i, i - 1);
    hyp_strbuf_printf(&text, "(%%b%d (softmax :axis 0 %%f%d))", layers - 1, layers - 1);
    for (int i = layers - 1; i-- > 0;) hyp_strbuf_printf(&text, "(%%b%d (softmax :axis 0 %%b%d))", i, i + 1);
    for (int i = 0; i < layers; i++)
        hyp_strbuf_printf(&text, "(%%w%d (matmul :trans-a 1 %%f%d %%b%d))", i, i, i);
    for (int i = 0; i < layers; i++) {
        int layer = last_first ? layers - 1 - i : i;
        hyp_strbuf_printf(&text, "(output \"w%d\" %%w%d)", layer, layer);
    }
    hyp_strbuf_puts(&text, ")");
    lower(f, hyp_strbuf_text(&text));
    hyp_strbuf_dispose(&text);
    return f->p->slot_count;
}

static void what_both_passes_need_is_done_in_the_backward_pass(void **state)
{
    fixture *f = *state;
    static const int layers[] = {12, 100}; /* of many outputs fewer are compared */
    for (int i = 0; i < 4; i++) {
        if (i > 0) hyp_lowered_dispose(&f->lowered), hyp_graph_dispose(&f->graph);
        /* a slot for each layer, and one for the backward pass */
        assert_int_equal(slots_of_passes(f, layers[i / 2], i % 2), layers[i / 2] + 1);
    }
}

/* Two large slots are there for two large values, each of which is free while a row is there; a third row finds neither. */
static void rows_are_where_something_large_was_or_will_be(void **state)
{
    fixture *f = *state;
    lower(f, "(graph \"\" (input %x (f32 b 100)) (input %s (f32 b 1)) (%1 (softmax %x)) (%2 (softmax :axis 0 %s))"
             "(%3 (softmax :axis 0 %2)) (%m (mul %1 %2)) (%a (add %m %3)) (%4 (softmax %a)) (%5 (reduce-sum :axes (1) %4))"
             "(%6 (softmax :axis 0 %5)) (%7 (softmax :axis 0 %6)) (output \"y\" %7))");
    assert_int_equal(f->p->slot_count, 3);
    int64_t batch[] = {7}, values[16];
    size_t bytes;
    assert_true(f->p->n_dims <= 16);
    assert_int_equal(hyp_plan_eval_dims(f->p, batch, values, NULL), HYP_OK);
    assert_int_equal(hyp_plan_scratch_bytes(f->p, values, &bytes, NULL), HYP_OK);
    assert_int_equal(bytes, 2 * 2816 + 256); /* 7 x 100 f32, as multiples of 256 bytes, and 7 of them */
}

/* ---- constants -------------------------------------------------------------------------------------- */

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        TEST(elementwise_chains_are_one_step),
        TEST(a_value_read_twice_inside_a_group_joins_it),
        TEST(a_cast_is_in_the_step_of_each_of_its_readers),
        TEST(a_value_that_is_also_an_output_is_a_further_result),
        TEST(groups_keep_to_the_limits),
        TEST(types_decide_what_a_group_computes_in),
        TEST(a_broadcast_input_is_not_overwritten),
        TEST(a_transposed_second_reading_forbids_overwriting),
        TEST(heads_are_multiplied_where_they_lie_on_a_gpu),
        TEST(heads_are_copied_first_on_a_cpu),
        TEST(columns_are_copied_to_rows_first_on_a_gpu_too),
        TEST(a_convolution_goes_over_what_is_added_to_it),
        TEST(a_convolution_does_not_go_over_its_input),
        TEST(a_convolution_does_not_go_over_what_is_read_later),
        TEST(a_linear_goes_over_what_is_added_before_its_activation),
        TEST(a_linear_does_not_go_over_what_it_multiplies),
        TEST(a_linear_does_not_go_over_what_is_added_after_its_activation),
        TEST(views_are_no_steps),
        TEST(outputs_that_are_something_else_too_are_copies),
        TEST(parts_of_a_concat_fill_its_result),
        TEST(parts_of_a_concat_in_a_concat_fill_its_result),
        TEST(transpositions_read_what_was_cut_out),
        TEST(merged_axes_of_a_concat_fill_its_result),
        TEST(unread_parts_of_a_split_are_not_copied),
        TEST(transposed_parts_are_read_where_they_lie),
        TEST(parts_in_one_piece_are_windows),
        TEST(parts_of_a_single_row_are_windows_whatever_its_length),
        TEST(other_parts_are_copied),
        TEST(a_linear_of_a_part_does_not_normalize),
        TEST(an_output_that_is_a_part_is_a_copy),
        TEST(dead_nodes_and_constants_vanish),
        TEST(a_long_chain_takes_two_slots),
        TEST(what_both_passes_need_is_done_in_the_backward_pass),
        TEST(rows_are_where_something_large_was_or_will_be),
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
        TEST(a_size_that_no_input_has_is_refused),
        TEST(the_program_says_where_it_comes_from),
        TEST(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
