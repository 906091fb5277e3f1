/* Programs that ask a kernel for what it does not have, made by hand: what changed plans seldom come to. */
#include <stdlib.h>
#include <string.h>

#include "runtime/support.h"

static plan_builder b; /* large */

static void want_refused(const char *text)
{
    hyp_diag why = {0};
    hyp_status status = hyp_plan_validate(&b.program, &why);
    if (status != HYP_ERR_MALFORMED || !strstr(why.message, text))
        fail_msg("%d '%s' lacks '%s'", (int)status, why.message, text);
    pb_dispose(&b);
}

static void want_valid(void)
{
    hyp_diag why = {0};
    if (hyp_plan_validate(&b.program, &why) != HYP_OK) fail_msg("%s", why.message);
    pb_dispose(&b);
}

/* y = op(x, x) for four elements: the last step, to be changed. */
static HypPlan__Pointwise *build(hyp_dtype compute, hyp_dtype x, HypPlan__Pointwise__Op op, hyp_dtype to, hyp_dtype y)
{
    pb_init(&b);
    uint32_t four = pb_const(&b, 4), one = pb_const(&b, 1);
    uint32_t in = pb_input(&b, "x", x, 1, &four), out = pb_output(&b, "y", y, 1, &four);
    HypPlan__Pointwise *k = pb_pointwise(&b, compute, 1, &four);
    pb_operand(&b, k, in, &one);
    pb_result(&b, k, out, pb_instr(&b, k, op, 0, 0, 0, 0, to));
    return k;
}

static void registers_compute_in_the_type_of_the_step(void **state)
{
    (void)state;
    build(HYP_I64, HYP_I32, HYP_PLAN__POINTWISE__OP__ADD, HYP_I32, HYP_I32);
    want_valid();
    build(HYP_I64, HYP_I32, HYP_PLAN__POINTWISE__OP__GELU, HYP_I32, HYP_I32);
    want_refused("register 1 computes floats in an integer step");
    build(HYP_U64, HYP_U8, HYP_PLAN__POINTWISE__OP__CAST, HYP_F32, HYP_U8);
    want_refused("register 1 computes floats in an integer step");
    build(HYP_F32, HYP_F32, HYP_PLAN__POINTWISE__OP__XOR, HYP_F32, HYP_F32);
    want_refused("register 1 computes bits in a step of floats");
    build(HYP_F64, HYP_I32, HYP_PLAN__POINTWISE__OP__INVERT, HYP_I32, HYP_I32);
    want_refused("register 1 computes bits in a step of floats");
    build(HYP_I64, HYP_I32, HYP_PLAN__POINTWISE__OP__ADD, HYP_I32, HYP_F16);
    want_refused("output 0 has floats, but the step computes with integers");
    build(HYP_I64, HYP_BF16, HYP_PLAN__POINTWISE__OP__ADD, HYP_I32, HYP_I32);
    want_refused("input 0 has floats, but the step computes with integers");
}

static void there_are_so_many_registers(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        static HypPlan__Pointwise__Instr *many[HYP_PLAN_POINTWISE_REGISTERS];
        HypPlan__Pointwise *k = build(HYP_F32, HYP_F32, HYP_PLAN__POINTWISE__OP__ADD, HYP_F32, HYP_F32);
        for (size_t i = 0; i < HYP_PLAN_POINTWISE_REGISTERS; i++) many[i] = k->instrs[0];
        k->instrs = many;
        k->n_instrs = HYP_PLAN_POINTWISE_REGISTERS - 1 + more;
        if (more)
            want_refused("it has 1 inputs and 32 instructions, together at most 32 are possible");
        else
            want_valid();
    }
    HypPlan__Pointwise *k = build(HYP_F32, HYP_F32, HYP_PLAN__POINTWISE__OP__ADD, HYP_F32, HYP_F32);
    k->n_instrs = SIZE_MAX; /* no list is that long; the sum is not to wrap round */
    want_refused("together at most 32");
}

static void products_of_integers_end_in_nothing_or_relu(void **state)
{
    (void)state;
    for (int act = HYP_PLAN__ACT__ACT_NONE; act <= HYP_PLAN__ACT__ACT_SIGMOID; act++) {
        static const int32_t numbers[8];
        const int64_t sizes[] = {2, 4};
        pb_init(&b);
        uint32_t three = pb_const(&b, 3), four = pb_const(&b, 4), two = pb_const(&b, 2);
        uint32_t x = pb_input(&b, "x", HYP_I32, 2, (uint32_t[]){three, four});
        uint32_t y = pb_output(&b, "y", HYP_I32, 2, (uint32_t[]){three, two});
        HypPlan__Linear *k = pb_linear(&b, x, y, three);
        pb_layer(&b, k, 2, 4, pb_weight(&b, HYP_I32, 2, sizes, numbers), PB_NONE, (HypPlan__Act)act, PB_NONE);
        if (act == HYP_PLAN__ACT__ACT_NONE || act == HYP_PLAN__ACT__ACT_RELU)
            want_valid();
        else
            want_refused("layer 0 of i32 ends in ");
    }
}

/* Half of y, something else in its slot, and the other half. */
static void what_is_written_in_parts_stands_until_it_is_whole(void **state)
{
    (void)state;
    for (uint32_t slot = 0; slot < 2; slot++) {
        pb_init(&b);
        uint32_t four = pb_const(&b, 4), two = pb_const(&b, 2), zero = pb_const(&b, 0);
        uint32_t x = pb_input(&b, "x", HYP_F32, 1, &two), y = pb_scratch(&b, HYP_F32, 0, 1, &four);
        uint32_t other = pb_scratch(&b, HYP_F32, slot, 1, &two), out = pb_output(&b, "y", HYP_F32, 1, &four),
                 out2 = pb_output(&b, "other", HYP_F32, 1, &two);
        for (size_t part = 0; part < 2; part++) {
            HypPlan__Copy *k = pb_copy(&b);
            k->x = x, k->y = y;
            k->x_offset = zero, k->y_offset = part ? two : zero;
            k->n_extents = k->n_x_strides = k->n_y_strides = 1;
            k->extents = pb_consts(&b, 1, (int64_t[]){2});
            k->x_strides = k->y_strides = pb_consts(&b, 1, (int64_t[]){1});
            if (part) continue;
            pb_copy_all(&b, x, other, two);
            pb_copy_all(&b, other, out2, two);
        }
        pb_copy_all(&b, y, out, four);
        b.program.slot_count = slot + 1;
        if (slot)
            want_valid();
        else
            want_refused("was overwritten in slot 0 before it was complete");
    }
}

static HypPlan__Call *build_call(void)
{
    pb_init(&b);
    uint32_t four = pb_const(&b, 4), x = pb_input(&b, "x", HYP_F32, 1, &four),
             y = pb_output(&b, "y", HYP_F32, 1, &four);
    HypPlan__Call *k = pb_call(&b, "trilu", 1, &x, y);
    pb_call_int(&b, k, 1);
    return k;
}

static void attributes_are_few_and_of_a_kind(void **state)
{
    (void)state;
    static uint32_t many[HYP_PLAN_CALL_INTS + 1];
    static HypPlan__Call__Attr *list[HYP_PLAN_CALL_ATTRS + 1];
    build_call();
    want_valid();
    HypPlan__Call *k = build_call();
    for (size_t i = 0; i <= HYP_PLAN_CALL_ATTRS; i++) list[i] = k->attrs[0];
    k->attrs = list, k->n_attrs = HYP_PLAN_CALL_ATTRS + 1;
    want_refused("it has 11 attributes, at most 10 are possible");
    k = build_call();
    k->attrs[0]->dims = many, k->attrs[0]->n_dims = 2;
    want_refused("attribute 0 is a number and has 2");
    k = build_call();
    k->attrs[0]->kind = HYP_PLAN__CALL__ATTR__KIND__INTS;
    k->attrs[0]->dims = many, k->attrs[0]->n_dims = HYP_PLAN_CALL_INTS;
    want_valid();
    k = build_call();
    k->attrs[0]->kind = HYP_PLAN__CALL__ATTR__KIND__INTS;
    k->attrs[0]->dims = many, k->attrs[0]->n_dims = HYP_PLAN_CALL_INTS + 1;
    want_refused("its attributes have more than 128 numbers");
    k = build_call();
    k->attrs[0]->dims = many, k->attrs[0]->n_dims = 1, many[0] = 1000;
    want_refused("an attribute is dim 1000");
    many[0] = 0;
    k = build_call();
    k->attrs[0]->kind = (HypPlan__Call__Attr__Kind)17;
    hyp_diag why = {0};
    assert_int_equal(hyp_plan_validate(&b.program, &why), HYP_ERR_INCOMPATIBLE); /* of a later version */
    pb_dispose(&b);
}

/* It says of each symbol, or of none, whether runs may be padded along it. */
static void padding_is_told_of_every_symbol(void **state)
{
    (void)state;
    static char may[] = "", may_not[] = "no";
    char *padding[] = {may, may_not};
    for (size_t said = 0; said < 3; said++) {
        pb_init(&b);
        uint32_t n = pb_symbol(&b, "n"), x = pb_input(&b, "x", HYP_F32, 1, &n), y = pb_output(&b, "y", HYP_F32, 1, &n);
        pb_copy_all(&b, x, y, n);
        b.program.padding = padding;
        b.program.n_padding = said;
        if (said < 2)
            want_valid();
        else
            want_refused("it says of 2 of 1 symbols whether they may be padded");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_compute_in_the_type_of_the_step),
        cmocka_unit_test(there_are_so_many_registers),
        cmocka_unit_test(products_of_integers_end_in_nothing_or_relu),
        cmocka_unit_test(what_is_written_in_parts_stands_until_it_is_whole),
        cmocka_unit_test(attributes_are_few_and_of_a_kind),
        cmocka_unit_test(padding_is_told_of_every_symbol),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
