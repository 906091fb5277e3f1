/* What steps turn because images lie otherwise than their kernels have them, by which predictions grow. */
#include "codegen/lowered.h"

static hyp_status nothing(const hyp_graph *graph, const hyp_node *const *nodes, size_t count, void *user, double *out,
                          hyp_diag *diag)
{
    (void)graph, (void)nodes, (void)count, (void)user, (void)diag;
    *out = 0;
    return HYP_OK;
}

static double elements_turned(double elements, bool copied, void *user)
{
    (void)user;
    return copied ? 1000 * elements : elements;
}

/* Lowers, and compares the predictions of the steps. */
static void expect(const char *target, const char *text, size_t count, const double *want)
{
    enum { ROOM = 8 };
    double got[ROOM];
    const hyp_codegen_options options = {.target = hyp_target_find(target),
                                         .predict = nothing,
                                         .predict_turn = elements_turned,
                                         .producer = "test",
                                         .model_name = "m"};
    assert_int_equal(predict_steps(text, &options, got, ROOM), count);
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i]) fail_msg("step %zu: %g instead of %g", i, got[i], want[i]);
}

#define POOL "(max-pool :kernel (3 3) :strides (1 1) :pads (1 1 1 1) :dilations (1 1) "
#define CONV "(conv :strides (1 1) :pads (0 0 0 0) :dilations (1 1) "
#define IMAGES "(graph \"\" (input %x (f32 1 4 8 8)) (input %w (f32 4 4 1 1)) "

/* 256 elements each. */
static void inputs_and_outputs_are_turned(void **state)
{
    (void)state;
    static const char text[] = IMAGES "(%a " POOL "%x)) (%b " CONV "%a %w)) (%c " CONV "%b %w)) (output \"c\" %c))";
    expect("cpu", text, 3, (const double[]){256, 0, 256});
    expect("cuda", text, 3, (const double[]){0, 0, 0});
    expect("cpu", IMAGES "(%a " CONV "%x %w)) (output \"a\" %a))", 1, (const double[]){512});
}

/* They are read as they lie. Images of one channel, and of one place, lie either way. */
static void few_channels_are_not(void **state)
{
    (void)state;
    expect("cpu",
           "(graph \"\" (input %x (f32 1 3 8 8)) (input %w (f32 4 3 1 1)) (input %v (f32 4 4 8 8)) (input %u (f32 1 4 8 8))"
           " (%a " CONV "%x %w)) (%b " CONV "%a %v)) (%c " CONV "%a %u)) (output \"b\" %b) (output \"c\" %c))",
           3, (const double[]){0, 0, 0});
}

/* A part that does not lie so is turned as it is copied. */
static void a_copy_turns_in_place_of_copying(void **state)
{
    (void)state;
    expect("cpu",
           IMAGES "(input %v (f32 4 8 1 1)) (%a " CONV "%x %w)) (%b (concat :axis 1 %a %x)) (%c " CONV "%b %v))"
                  " (output \"c\" %c))",
           4, (const double[]){256, 0, 256000, 256});
}

/* Parts of a whole are windows, and the whole is then in the plan's order: who writes it turns it, and who reads a part
 * turns that. */
static void channels_that_are_cut_out_are_turned_twice(void **state)
{
    (void)state;
    expect("cpu",
           IMAGES "(input %v (f32 4 2 1 1)) (%a " CONV "%x %w)) ((%b %c) (split :axis 1 :sizes (2 2) %a))"
                  " (%d " CONV "%b %v)) (%e " CONV "%c %v)) (%f (add %d %e)) (%g " POOL "%f)) (output \"g\" %g))",
           5, (const double[]){512, 0, 0, 0, 256});
    expect("cpu",
           "(graph \"\" (input %x (f32 1 8 8 8)) (input %w (f32 8 8 1 1)) (input %v (f32 4 4 1 1))"
           " (%a " CONV "%x %w)) ((%b %c) (split :axis 1 :sizes (4 4) %a)) (%d " CONV "%b %v)) (%e " CONV "%c %v))"
           " (%f (add %d %e)) (%g " POOL "%f)) (output \"g\" %g))",
           5, (const double[]){1024, 256, 256, 0, 256});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_and_outputs_are_turned),
        cmocka_unit_test(few_channels_are_not),
        cmocka_unit_test(a_copy_turns_in_place_of_copying),
        cmocka_unit_test(channels_that_are_cut_out_are_turned_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
