/* Who wins a race of forms, by rounds that no clock has measured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../tools/race.h"

enum { FORMS = 4 };

/* Forms that take so long in each round; 0: one that was not timed. */
static size_t winner(const double *seconds, size_t predicted)
{
    racer all[FORMS] = {{0}};
    for (size_t i = 0; i < FORMS; i++) {
        all[i].in = seconds[i] > 0;
        for (int k = 0; k < RACE_ROUNDS; k++) all[i].rounds[k] = seconds[i];
    }
    return race_winner(all, FORMS, predicted, RACE_ROUNDS);
}

static void the_fastest_of_several_wins(void **state)
{
    (void)state;
    assert_int_equal(winner((const double[FORMS]){10, 9, 7, 8}, 0), 2);
    assert_int_equal(winner((const double[FORMS]){10, 9, 8, 7}, 0), 3);
    assert_int_equal(winner((const double[FORMS]){7, 8, 9, 10}, 0), 0);
    assert_int_equal(winner((const double[FORMS]){10, 9, 0, 8}, 0), 3); /* one that is no plan does not run */
}

static void what_is_predicted_is_kept_unless_another_is_clearly_faster(void **state)
{
    (void)state;
    assert_int_equal(winner((const double[FORMS]){10, 9.9, 9.85, 10}, 0), 0); /* by less than 2 % */
    assert_int_equal(winner((const double[FORMS]){10, 9.9, 9.75, 10}, 0), 2);
    /* of a whole the first one, whose parts have won, and the predicted one: the first has to be faster, too */
    assert_int_equal(winner((const double[FORMS]){10, 10.1, 12, 12}, 1), 0);
    assert_int_equal(winner((const double[FORMS]){10, 10.04, 12, 12}, 1), 1);
    assert_int_equal(winner((const double[FORMS]){10, 10, 12, 12}, 1), 1);
    assert_int_equal(winner((const double[FORMS]){10, 9.9, 12, 12}, 1), 1);
    assert_int_equal(winner((const double[FORMS]){10, 9.9, 9.8, 12}, 1), 1); /* 1 % faster than what is to beat */
    assert_int_equal(winner((const double[FORMS]){9.9, 10, 9.7, 12}, 1), 2);
    assert_int_equal(winner((const double[FORMS]){9.6, 10, 9.7, 12}, 1), 0);
    assert_int_equal(winner((const double[FORMS]){10, 0, 9.7, 12}, 1), 2); /* the predicted one was not timed */
}

static void luck_in_a_few_rounds_does_not_win(void **state)
{
    enum { LOST = RACE_ROUNDS / 5 }; /* as many as may be */
    racer all[2] = {{.in = true}, {.in = true}};
    (void)state;
    for (int k = 0; k < RACE_ROUNDS; k++) {
        all[0].rounds[k] = 10;
        all[1].rounds[k] = k <= LOST ? 11 : 5;
    }
    assert_int_equal(race_winner(all, 2, 0, RACE_ROUNDS), 0);
    all[1].rounds[LOST] = 5;
    assert_int_equal(race_winner(all, 2, 0, RACE_ROUNDS), 1);
    assert_true(all[1].median == 5 && all[0].median == 10);
    assert_int_equal(race_winner(all, 2, 0, 1), 0); /* a single round that was lost */
}

/* A machine that takes 1.4 times as long for some rounds, by whatever else it does: only what is within a round counts. */
static void a_slow_machine_chooses_nothing(void **state)
{
    racer all[2] = {{.in = true}, {.in = true}};
    (void)state;
    for (int k = 0; k < RACE_ROUNDS; k++) {
        double slow = k % 7 < 4 ? 1.4 : 1;
        all[0].rounds[k] = 10 * slow;
        all[1].rounds[k] = 10.1 * slow;
    }
    for (int k = 0; k < 3; k++) all[0].rounds[k] *= 1.4; /* while the first one ran, by chance */
    assert_int_equal(race_winner(all, 2, 0, RACE_ROUNDS), 0);
    assert_int_equal(race_winner(all, 2, 1, RACE_ROUNDS), 0); /* as the first of a whole, by 1 % */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_of_several_wins),
        cmocka_unit_test(what_is_predicted_is_kept_unless_another_is_clearly_faster),
        cmocka_unit_test(luck_in_a_few_rounds_does_not_win),
        cmocka_unit_test(a_slow_machine_chooses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
