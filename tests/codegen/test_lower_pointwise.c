/* Which elementwise operators of a lowered graph are one step. */
#include "codegen/lowered.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
