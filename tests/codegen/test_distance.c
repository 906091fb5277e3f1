/* How long ago a run has touched what a step reads and writes, by which predictions grow: counted by hand. */
#include <math.h>

#include "codegen/lowered.h"

static hyp_status one_second(const hyp_graph *graph, const hyp_node *const *nodes, size_t count, void *user,
                             double *out, hyp_diag *diag)
{
    (void)graph, (void)nodes, (void)count, (void)user, (void)diag;
    *out = 1;
    return HYP_OK;
}

static double bytes_times_since(double bytes, double since, double ago, double own, bool windows, void *user)
{
    (void)user, (void)ago, (void)windows;
    assert_true(own > 0);
    return bytes * since;
}

/* So little that steps take a second all the same. */
#define LITTLE 0x1p-30

static double little_times_ago(double bytes, double since, double ago, double own, bool windows, void *user)
{
    (void)bytes, (void)since, (void)own, (void)windows, (void)user;
    return LITTLE * ago;
}

static size_t predict_by(double (*far)(double, double, double, double, bool, void *), const char *text, double *out, size_t room)
{
    const hyp_codegen_options options = {.target = hyp_target_find("cpu"),
                                         .predict = one_second,
                                         .predict_far = far,
                                         .producer = "test",
                                         .model_name = "m"};
    return predict_steps(text, &options, out, room);
}

static size_t predict(const char *text, double *out, size_t room)
{
    return predict_by(bytes_times_since, text, out, room);
}

static void assert_near(double got, double want)
{
    if (got < want * (1 - 1e-9) || got > want * (1 + 1e-9)) fail_msg("%.0f instead of %.0f", got, want);
}

static const char four_steps[] = "(graph \"\" (input %x (f32 1 1000)) (input %w (f32 1000 1000)) (%a (softmax %x))"
                                 " (%b (linear %w none %a)) (%c (softmax %b)) (%d (sub %a %c)) (output \"d\" %d))";

/* A row of 4000 bytes; the layer has 4000000 bytes of weights. What a step touches it touches half way through what it
 * goes over. */
static void what_lies_between_counts(void **state)
{
    (void)state;
    double seconds[4];
    size_t count = predict(four_steps, seconds, 4);
    const double row = 4000, pass = 2 * row, layer = 1000 * row + pass, two = 3 * row, run = 2 * pass + layer + two;
    assert_int_equal(count, 4);
    assert_near(seconds[2], 1 + row * (layer / 2) + row * (two / 2 + pass + layer));
    assert_near(seconds[3], 1 + row * (layer / 2 + pass) + row * (pass / 2) + row * (run - two / 2));
}

/* Time passes by what steps take, a second each: a step touches half way through it. Of what is read the time since it was
 * written counts, of an input none. */
static void what_was_touched_ages(void **state)
{
    (void)state;
    double seconds[4];
    size_t count = predict_by(little_times_ago, four_steps, seconds, 4);
    assert_int_equal(count, 4);
    assert_true(fabs((seconds[0] - 1) / LITTLE - 0.5) < 1e-6);
    assert_true(fabs((seconds[2] - 1) / LITTLE - (0.5 + 2.5)) < 1e-6);
    assert_true(fabs((seconds[3] - 1) / LITTLE - (2.5 + 0.5 + 3.5)) < 1e-6);
}

static double one_of_windows(double bytes, double since, double ago, double own, bool windows, void *user)
{
    (void)bytes, (void)since, (void)ago, (void)own, (void)user;
    return windows ? 1 : 0;
}

/* What a pool reads and writes, and nothing of a softmax. */
static void windows_are_told(void **state)
{
    (void)state;
    double seconds[2];
    size_t count = predict_by(one_of_windows,
                              "(graph \"\" (input %x (f32 1 8 4 4)) (%a (softmax :axis 3 %x))"
                              " (%y (max-pool :kernel (2 2) :strides (2 2) :pads (0 0 0 0) :dilations (1 1) %a)) (output \"y\" %y))",
                              seconds, 2);
    assert_int_equal(count, 2);
    assert_near(seconds[0], 1);
    assert_near(seconds[1], 3);
}

/* The parts of a concat are as far as the whole was, though another part has just been written. */
static void parts_of_a_result_are_written_one_by_one(void **state)
{
    (void)state;
    double seconds[3];
    size_t count = predict("(graph \"\" (input %x (f32 1 1000)) (%y (concat :axis 1 %x %x)) (%z (softmax %y))"
                           " (output \"z\" %z))",
                           seconds, 3);
    const double row = 4000, part = 2 * row, pass = 4 * row;
    assert_int_equal(count, 3);
    assert_near(seconds[0], 1.0 / 2 + row * (part / 2 + pass) + row * (pass / 2));
    assert_near(seconds[1], 1.0 / 2 + row * (part / 2) + row * (pass / 2 + part));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_between_counts),
        cmocka_unit_test(what_was_touched_ages),
        cmocka_unit_test(windows_are_told),
        cmocka_unit_test(parts_of_a_result_are_written_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
