/* What of a lowered graph is a view, a window or written over something else, and where values lie. */
#include "codegen/lowered.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
