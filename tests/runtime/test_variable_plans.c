/* Plans with variables that make no sense, or claim what is not so, and which variables may be updated in place. */
#include "runtime/variable_plan.h"

static plan_builder b; /* large */

static HypPlan__Variable *const v = vp_variables;
static void has_too_many(void) { b.program.n_variables = 9; }
static void shows_one(void) { b.program.n_variables = 3; }
static void has_no_input(void) { v[0].input = 99; }
static void has_a_shown_input(void) { v[0].input = 0; }
static void has_inputs_in_another_order(void) { v[0].input = 4, v[1].input = 3; }
static void has_no_output(void) { v[0].output_plus1 = 99; }
static void has_less_than_all(void) { v[0].output_plus1 = 0; }
static void has_a_shown_output(void) { v[0].output_plus1 = 1; }
static void shares_an_output(void) { v[3].output_plus1 = v[1].output_plus1; }
static void changes_its_type(void) { v[0].output_plus1 = 4, v[1].output_plus1 = 5; }
static void changes_its_sizes(void) { v[0].output_plus1 = 6, v[3].output_plus1 = 5; }
static void begins_with_nothing(void) { v[0].initial_plus1 = 1000; }
static void begins_with_an_input(void) { v[0].initial_plus1 = b.inputs[3] + 1; }
static void begins_with_anothers(void) { v[0].initial_plus1 = v[2].initial_plus1; }
static void begins_with_another_type(void) { v[1].initial_plus1 = v[0].initial_plus1, v[0].initial_plus1 = 0; }
static void two_begin_with_one(void) { v[2] = v[0], v[2].input = 5, v[2].output_plus1 = 0; }
static void hides_them_as_counts(void) { b.program.hidden_outputs = 1; }
static void hides_more_than_all(void) { b.program.hidden_outputs = UINT32_MAX; }
static void has_known_runs(void)
{
    static HypPlan__Golden run, *runs[] = {&run};
    hyp_plan__golden__init(&run);
    b.program.golden = runs;
    b.program.n_golden = 1;
}
static void is_of_any_size(void)
{
    uint32_t rows = b.tensors[b.inputs[1]].dims[0];
    b.tensors[b.inputs[3]].dims[0] = b.tensors[b.outputs[4]].dims[0] = rows;
}
static void is_larger_than_memory(void)
{
    uint32_t huge = pb_const(&b, INT64_MAX / 2);
    b.tensors[b.inputs[6]].dims[0] = b.tensors[b.outputs[5]].dims[0] = huge;
}

static void what_makes_no_sense_is_refused(void **state)
{
    static void (*const changes[])(void) = {has_too_many,
                                            shows_one,
                                            has_no_input,
                                            has_a_shown_input,
                                            has_inputs_in_another_order,
                                            has_no_output,
                                            has_less_than_all,
                                            has_a_shown_output,
                                            shares_an_output,
                                            changes_its_type,
                                            changes_its_sizes,
                                            begins_with_nothing,
                                            begins_with_an_input,
                                            begins_with_anothers,
                                            begins_with_another_type,
                                            two_begin_with_one,
                                            hides_them_as_counts,
                                            hides_more_than_all,
                                            has_known_runs,
                                            is_of_any_size,
                                            is_larger_than_memory};
    hyp_diag why = {0};
    (void)state;
    vp_build_with(&b, (vp_kind){0});
    if (hyp_plan_validate(&b.program, &why) != HYP_OK) fail_msg("%s", why.message);
    pb_dispose(&b);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        vp_build_with(&b, (vp_kind){0});
        changes[i]();
        if (hyp_plan_validate(&b.program, &why) != HYP_ERR_MALFORMED) fail_msg("change %zu: %s", i, why.message);
        pb_dispose(&b);
    }
}

/* ---- plans that claim what is not so -------------------------------------------------------------------------- */

static HypPlan__Step *step_from_end(size_t back) { return b.program.steps[b.program.n_steps - 1 - back]; }
static HypPlan__Pointwise *update_of_w(void) { return step_from_end(0)->pointwise; }

static void no_run_changes_it(void) { v[2].in_place = true; }
static void a_copy_makes_it(void) { v[3].in_place = true; }
static void it_is_read_at_an_offset(void)
{
    uint32_t eight = pb_const(&b, 8);
    uint32_t wide = pb_view(&b, b.inputs[VP_INPUTS], 1, &b.tensors[b.inputs[VP_INPUTS]].dims[0]);
    b.tensors[b.inputs[VP_INPUTS]].dims[0] = b.tensors[b.outputs[4]].dims[0] = eight;
    v[0].initial_plus1 = 0;
    b.tensors[wide].window = true;
    b.tensors[wide].first = 4;
    update_of_w()->inputs[1]->tensor = wide;
}
static void it_is_read_elsewhere_for_each_element(void) { update_of_w()->inputs[1]->strides[0] = pb_const(&b, 0); }
static void it_is_read_backwards(void) { update_of_w()->inputs[1]->strides[0] = pb_const(&b, -1); }
static void only_shapes_tell_how_it_is_read(void) { update_of_w()->inputs[1]->strides[0] = pb_symbol(&b, "rows"); }
static void its_step_gives_something_else(void)
{
    HypPlan__Pointwise *first = b.program.steps[0]->pointwise, *last = update_of_w();
    uint32_t y = first->outputs[0];
    first->outputs[0] = last->outputs[0]; /* w is updated first, and read by the gather */
    last->outputs[0] = y;
}
static void what_may_fail_is_the_last_step(void)
{
    HypPlan__Step *last = step_from_end(0);
    b.program.steps[b.program.n_steps - 1] = step_from_end(2);
    b.program.steps[b.program.n_steps - 3] = last;
}

static void updates_in_place_that_would_show_are_refused(void **state)
{
    static void (*const changes[])(void) = {no_run_changes_it,
                                            a_copy_makes_it,
                                            it_is_read_at_an_offset,
                                            it_is_read_elsewhere_for_each_element,
                                            it_is_read_backwards,
                                            only_shapes_tell_how_it_is_read,
                                            its_step_gives_something_else,
                                            what_may_fail_is_the_last_step};
    hyp_diag why = {0};
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        vp_build_with(&b, (vp_kind){.in_place = true});
        changes[i]();
        if (hyp_plan_validate(&b.program, &why) != HYP_ERR_MALFORMED || !strstr(why.message, "is updated in place"))
            fail_msg("change %zu: %s", i, why.message);
        for (size_t k = 0; k < VP_VARIABLES; k++) v[k].in_place = false; /* what is wrong is the claim */
        if (i != 2 && i != 4 && hyp_plan_validate(&b.program, &why) != HYP_OK) fail_msg("change %zu: %s", i, why.message);
        pb_dispose(&b);
    }
}

/* Of two variables one is read when the other is updated. */
static void one_that_is_read_behind_its_update_is_not_updated_in_place(void **state)
{
    (void)state;
    for (int behind = 0; behind < 2; behind++) {
        static HypPlan__Variable pair[2];
        static HypPlan__Variable *list[] = {&pair[0], &pair[1]};
        pb_init(&b);
        uint32_t two = pb_const(&b, 2), x = pb_input(&b, "x", HYP_F32, 1, &two);
        uint32_t one = pb_input(&b, "one", HYP_F32, 1, &two), other = pb_input(&b, "other", HYP_F32, 1, &two);
        uint32_t new_one = pb_output(&b, "new:one", HYP_F32, 1, &two), new_other = pb_output(&b, "new:other", HYP_F32, 1, &two);
        for (int s = 0; s < 2; s++) {
            if (s == behind) vp_sum(&b, HYP_F32, 1, two, other, one, 0, 1, &new_other);
            if (s != behind) vp_sum(&b, HYP_F32, 1, two, one, x, 0, 1, &new_one);
        }
        for (uint32_t i = 0; i < 2; i++) {
            hyp_plan__variable__init(&pair[i]);
            pair[i].input = 1 + i;
            pair[i].output_plus1 = 1 + i;
        }
        b.program.variables = list;
        b.program.n_variables = 2;
        bool in_place[2];
        uint32_t commit;
        assert_ok(hyp_plan_validate(&b.program, diag));
        assert_ok(hyp_plan_find_commit(&b.program, &commit, diag));
        assert_int_equal(commit, 0);
        assert_ok(hyp_plan_find_in_place(&b.program, in_place, diag));
        assert_int_equal(in_place[0], !behind);
        assert_true(in_place[1]);
        pair[0].in_place = true;
        assert_int_equal(hyp_plan_validate(&b.program, NULL), behind ? HYP_ERR_MALFORMED : HYP_OK);
        pb_dispose(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(updates_in_place_that_would_show_are_refused),
        cmocka_unit_test(one_that_is_read_behind_its_update_is_not_updated_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
