/* Plans with custom operators that make no sense: nothing of them reaches a kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/plan_builder.h"

static plan_builder b; /* large */
static HypPlan__Custom *custom;
static HypPlan__Custom__Attr attr;

/* y[m, 3] = t::Op(x[n, 2]); m is the kernel's. */
static void build(void)
{
    static HypPlan__Custom__Attr *attrs[] = {&attr};
    static int64_t ints[] = {1, 2};
    pb_init(&b);
    uint32_t x = pb_input(&b, "x", HYP_F32, 2, (uint32_t[]){pb_symbol(&b, "n"), pb_const(&b, 2)});
    uint32_t y = pb_output(&b, "y", HYP_F32, 2, (uint32_t[]){pb_symbol(&b, "m"), pb_const(&b, 3)});
    custom = pb_custom(&b, "t", "Op", 1, &x, y);
    hyp_plan__custom__attr__init(&attr);
    attr.name = (char *)(uintptr_t) "a";
    attr.ints = ints;
    attr.n_ints = 1;
    custom->attrs = attrs;
    custom->n_attrs = 1;
}

static void lacks_call(void) { custom->call = NULL; }
static void lacks_domain(void) { custom->domain[0] = 0; }
static void lacks_name(void) { custom->call->kernel[0] = 0; }
static void has_two_numbers(void) { attr.n_ints = 2; }
static void has_no_number(void) { attr.n_ints = 0; }
static void has_another_kind(void) { attr.kind = HYP_PLAN__CUSTOM__ATTR__KIND__FLOATS; }
static void has_unknown_kind(void) { attr.kind = (HypPlan__Custom__Attr__Kind)7; }
static void has_many_attributes(void) { custom->n_attrs = HYP_PLAN_CUSTOM_ATTRS + 1; }
static void has_attributes_of_a_kernel(void) { pb_call_int(&b, custom->call, 1); }
static void reads_beyond(void) { custom->call->inputs_plus1[0] = 99; }
static void reads_what_it_writes(void) { custom->call->inputs_plus1[0] = custom->call->outputs[0] + 1; }
static void writes_beyond(void) { custom->call->outputs[0] = 99; }
static void writes_an_input(void) { custom->call->outputs[0] = 0; }
static void writes_nothing(void) { custom->call->n_outputs = 0; }
/* Lists that are as long as they say: none but their number is wrong. */
static void has_many_inputs(void)
{
    static uint32_t inputs_plus1[HYP_PLAN_CUSTOM_INPUTS + 1];
    custom->call->inputs_plus1 = inputs_plus1;
    custom->call->n_inputs_plus1 = HYP_PLAN_CUSTOM_INPUTS + 1;
}
static void has_many_outputs(void)
{
    static uint32_t outputs[HYP_PLAN_CUSTOM_OUTPUTS + 1];
    for (size_t i = 0; i < HYP_PLAN_CUSTOM_OUTPUTS + 1; i++)
        outputs[i] = i ? pb_scratch(&b, HYP_F32, (uint32_t)i - 1, 0, NULL) : custom->call->outputs[0];
    custom->call->outputs = outputs;
    custom->call->n_outputs = HYP_PLAN_CUSTOM_OUTPUTS + 1;
}
static void leaves_a_symbol_open(void) { pb_symbol(&b, "q"); }

static void what_makes_no_sense_is_refused(void **state)
{
    static void (*const changes[])(void) = {lacks_call,          lacks_domain,         lacks_name,
                                            has_two_numbers,     has_no_number,        has_another_kind,
                                            has_many_attributes, reads_beyond,         has_attributes_of_a_kernel,
                                            writes_beyond,       writes_an_input,      writes_nothing,
                                            has_many_inputs,     has_many_outputs,     reads_what_it_writes,
                                            leaves_a_symbol_open};
    hyp_diag diag = {0};
    (void)state;
    build();
    if (hyp_plan_validate(&b.program, &diag) != HYP_OK) fail_msg("%s", diag.message);
    pb_dispose(&b);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        build();
        changes[i]();
        if (hyp_plan_validate(&b.program, &diag) != HYP_ERR_MALFORMED) fail_msg("change %zu: %s", i, diag.message);
        pb_dispose(&b);
    }
    build();
    has_unknown_kind();
    assert_int_equal(hyp_plan_validate(&b.program, &diag), HYP_ERR_INCOMPATIBLE);
    pb_dispose(&b);
}

/* What an expression makes of a size that is not known yet is not known either. */
static void dims_of_unknown_sizes_are_unknown(void **state)
{
    (void)state;
    hyp_diag diag = {0};
    int64_t values[PB_MAX], symbols[] = {-1, 5};
    pb_init(&b);
    uint32_t m = pb_symbol(&b, "m"), n = pb_symbol(&b, "n"), zero = pb_const(&b, 0);
    uint32_t sum = pb_dim(&b, HYP_PLAN__DIM__KIND__ADD, m, n),
             part = pb_dim(&b, HYP_PLAN__DIM__KIND__FLOORDIV, m, zero);
    uint32_t twice = pb_dim(&b, HYP_PLAN__DIM__KIND__ADD, n, n),
             most = pb_dim(&b, HYP_PLAN__DIM__KIND__MAX, sum, twice);
    assert_int_equal(hyp_plan_eval_dims(&b.program, symbols, values, &diag), HYP_OK);
    assert_true(values[m] == HYP_PLAN_UNKNOWN && values[sum] == HYP_PLAN_UNKNOWN && values[part] == HYP_PLAN_UNKNOWN);
    assert_true(values[most] == HYP_PLAN_UNKNOWN && values[twice] == 10);
    symbols[0] = 1;
    assert_int_equal(hyp_plan_eval_dims(&b.program, symbols, values, &diag), HYP_ERR_INVALID_ARGUMENT);
    pb_dispose(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(dims_of_unknown_sizes_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
