/* The chooser: what is predicted least, what tuning found, what a larger size found, and why not. */
#include <stdio.h>

#include "runtime/core/choice.h"
#include "runtime/core/tuner.h"
#include "runtime/support.h"

static hyp_choice three(const char *key)
{
    hyp_choice c;
    hyp_choice_init(&c);
    snprintf(c.key, sizeof c.key, "%s", key);
    hyp_choice_offer(&c, "library", 7, 3e-6, NULL);
    hyp_choice_offer(&c, "own", 8, 2e-6, NULL);
    hyp_choice_offer(&c, "narrow", 9, 1e-6, "more than 16 rows");
    return c;
}

static void assert_taken(hyp_choice *c, const hyp_tuning *known, uint32_t form, hyp_choice_by by, double measured)
{
    const hyp_alternative *a = hyp_choose(c, known);
    assert_non_null(a);
    assert_ptr_equal(a, &c->list[c->taken]);
    assert_int_equal(a->form, form);
    assert_int_equal(c->by, by);
    assert_true(c->measured == measured);
}

static void the_least_prior_that_can_is_taken(void **state)
{
    (void)state;
    hyp_choice c = three("k 32");
    assert_int_equal(hyp_choice_open(&c), 2);
    assert_taken(&c, NULL, 8, HYP_CHOICE_PRIOR, 0);
    assert_string_equal(c.list[2].cannot, "more than 16 rows"); /* and it is still there for who asks */
}

static void of_equals_the_first_is_taken(void **state)
{
    (void)state;
    hyp_choice c;
    hyp_choice_init(&c);
    hyp_choice_offer(&c, "a", 1, 1, NULL);
    hyp_choice_offer(&c, "b", 2, 1, NULL);
    assert_taken(&c, NULL, 1, HYP_CHOICE_PRIOR, 0);
}

static void one_alone_is_no_choice(void **state)
{
    (void)state;
    hyp_choice c;
    hyp_choice_init(&c);
    assert_null(hyp_choose(&c, NULL));
    assert_int_equal(c.by, HYP_CHOICE_NONE);
    hyp_choice_offer(&c, "a", 1, 1, "no");
    assert_null(hyp_choose(&c, NULL));
    assert_int_equal(c.by, HYP_CHOICE_NONE);
    hyp_choice_offer(&c, "b", 2, 5, NULL);
    assert_taken(&c, NULL, 2, HYP_CHOICE_ONLY, 0);
}

static void names_are_unique_and_room_is_bounded(void **state)
{
    (void)state;
    hyp_choice c;
    hyp_choice_init(&c);
    hyp_choice_offer(&c, "a", 1, 1, NULL);
    hyp_choice_offer(&c, "a", 2, 0, NULL);
    assert_int_equal(c.count, 1);
    for (uint32_t i = 0; i < 2 * HYP_CHOICE_ALTERNATIVES; i++) {
        char name[8];
        snprintf(name, sizeof name, "%u", i);
        hyp_choice_offer(&c, name, i, 2, NULL);
    }
    assert_int_equal(c.count, HYP_CHOICE_ALTERNATIVES);
    assert_taken(&c, NULL, 1, HYP_CHOICE_PRIOR, 0);
}

static void what_tuning_found_wins(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_tuning known = {0};
    hyp_choice c = three("k 32"), other = three("k 33"), unnamed = three("");
    assert_taken(&c, &known, 8, HYP_CHOICE_PRIOR, 0);
    assert_int_equal(hyp_choice_keep(&c, 0, 5e-6, 6e-6, &known, &diag), HYP_OK);
    assert_taken(&c, &known, 7, HYP_CHOICE_TUNED, 5e-6);
    assert_taken(&other, &known, 8, HYP_CHOICE_PRIOR, 0);
    assert_taken(&unnamed, &known, 8, HYP_CHOICE_PRIOR, 0);
    hyp_tuned kept = hyp_tuning_get(&known, 0);
    assert_string_equal(kept.product, "k 32");
    assert_string_equal(kept.attributes, "library");
    assert_true(kept.first_seconds == 6e-6);
    hyp_tuning_dispose(&known);
}

static void what_cannot_or_is_unknown_is_not_taken(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_tuning known = {0};
    hyp_choice c = three("k"), renamed = three("k");
    assert_int_equal(hyp_choice_keep(&c, 2, 1, 2, &known, &diag), HYP_OK);
    assert_taken(&c, &known, 8, HYP_CHOICE_PRIOR, 0);
    snprintf(renamed.list[0].name, sizeof renamed.list[0].name, "of another build");
    assert_int_equal(hyp_choice_keep(&renamed, 0, 1, 2, &known, &diag), HYP_OK);
    assert_taken(&c, &known, 8, HYP_CHOICE_PRIOR, 0);
    hyp_tuning_dispose(&known);
}

static void a_larger_size_is_borrowed_up_to_a_limit(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    hyp_tuning known = {0};
    hyp_choice larger = three("k 32 t"), c = three("k 20 t"), smaller = three("k 15 t");
    assert_int_equal(hyp_choice_keep(&larger, 0, 1e-6, 2e-6, &known, &diag), HYP_OK);
    assert_taken(&c, &known, 8, HYP_CHOICE_PRIOR, 0); /* the key has no size */
    c.size_at = smaller.size_at = 2;
    c.size_most = 40;
    smaller.size_most = 30;
    assert_taken(&c, &known, 7, HYP_CHOICE_BORROWED, 1e-6);
    assert_taken(&smaller, &known, 8, HYP_CHOICE_PRIOR, 0);
    hyp_tuning_dispose(&known);
}

static void one_wins_by_more_than_noise(void **state)
{
    (void)state;
    enum { TURNS = 10 };
    double first[TURNS], other[TURNS];
    for (int i = 0; i < TURNS; i++) other[i] = 0.9 * (first[i] = 1 + 0.5 * (i % 3)); /* whatever else runs, in every turn */
    assert_true(hyp_tuner_wins(other, first, TURNS, 0.98));
    assert_false(hyp_tuner_wins(first, other, TURNS, 0.98));
    assert_false(hyp_tuner_wins(other, first, TURNS, 0.89)); /* not by so much */
    other[0] = other[5] = 9;                                 /* interrupted twice in ten turns */
    assert_true(hyp_tuner_wins(other, first, TURNS, 0.98));
    other[7] = 9; /* three times: it may be chance */
    assert_false(hyp_tuner_wins(other, first, TURNS, 0.98));
    for (int i = 0; i < TURNS; i++) other[i] = i % 2 ? first[i] / 2 : first[i] * 1.01; /* the lesser mean and median, by luck */
    assert_false(hyp_tuner_wins(other, first, TURNS, 0.98));
    assert_false(hyp_tuner_wins(first, first, TURNS, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_prior_that_can_is_taken),
        cmocka_unit_test(of_equals_the_first_is_taken),
        cmocka_unit_test(one_alone_is_no_choice),
        cmocka_unit_test(names_are_unique_and_room_is_bounded),
        cmocka_unit_test(what_tuning_found_wins),
        cmocka_unit_test(what_cannot_or_is_unknown_is_not_taken),
        cmocka_unit_test(a_larger_size_is_borrowed_up_to_a_limit),
        cmocka_unit_test(one_wins_by_more_than_noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
