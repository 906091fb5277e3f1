/* Pointwise steps on the CPU whose instructions are done together (a product that is added, relu of a sum) and whose
 * operands are one number along a run, or the same run again and again: random programs against a loop over the elements, which
 * rounds after each instruction, to the bit. */
#include <stdlib.h>

#include "runtime/support.h"

enum { INPUTS = 3, MOST = 6, AXES = 3, OUTPUTS = 2 };
typedef HypPlan__Pointwise__Op op_code;
static const op_code ops[] = {HYP_PLAN__POINTWISE__OP__ADD, HYP_PLAN__POINTWISE__OP__MUL, HYP_PLAN__POINTWISE__OP__RELU,
                              HYP_PLAN__POINTWISE__OP__ADD, HYP_PLAN__POINTWISE__OP__MUL, HYP_PLAN__POINTWISE__OP__RELU,
                              HYP_PLAN__POINTWISE__OP__SUB, HYP_PLAN__POINTWISE__OP__MAX, HYP_PLAN__POINTWISE__OP__MIN,
                              HYP_PLAN__POINTWISE__OP__DIV};
static const char *const in_names[INPUTS] = {"a", "b", "c"}, *const out_names[OUTPUTS] = {"y", "z"};

/* A program, its operands, and which registers come out. */
typedef struct drawn {
    int64_t extents[AXES], count;
    struct {
        hyp_dtype dtype;
        int64_t dims[AXES], strides[AXES];
        float *values; /* what its elements are */
        void *data;
    } in[INPUTS];
    size_t instrs;
    struct {
        op_code op;
        uint32_t a, b;
    } instr[MOST];
    uint32_t results[OUTPUTS];
} drawn;

static double apply(op_code op, double a, double b)
{
    switch (op) {
    case HYP_PLAN__POINTWISE__OP__ADD: return a + b;
    case HYP_PLAN__POINTWISE__OP__SUB: return a - b;
    case HYP_PLAN__POINTWISE__OP__MUL: return a * b;
    case HYP_PLAN__POINTWISE__OP__DIV: return a / b;
    case HYP_PLAN__POINTWISE__OP__MAX: return a > b ? a : b;
    case HYP_PLAN__POINTWISE__OP__MIN: return a < b ? a : b;
    default: return a > 0 ? a : 0;
    }
}

static void draw_input(rng *r, drawn *d, size_t i)
{
    size_t count = 1;
    for (size_t a = AXES; a-- > 0;) {
        bool shared = i > 0 && rng_below(r, 2) == 0;
        d->in[i].dims[a] = shared ? 1 : d->extents[a];
        d->in[i].strides[a] = shared ? 0 : (int64_t)count;
        count *= (size_t)d->in[i].dims[a];
    }
    d->in[i].dtype = rng_below(r, 4) == 0 ? HYP_I8 : HYP_F32;
    d->in[i].values = malloc(count * sizeof(float));
    d->in[i].data = malloc(count * sizeof(float));
    assert_true(d->in[i].values && d->in[i].data);
    for (size_t k = 0; k < count; k++) {
        float value = (float)(1 << rng_below(r, 3)) * (rng_below(r, 2) ? 1.0f : -1.0f);
        if (d->in[i].dtype == HYP_F32) value *= 1 + (float)rng_below(r, 1000) / 1009;
        d->in[i].values[k] = value;
        if (d->in[i].dtype == HYP_I8)
            ((int8_t *)d->in[i].data)[k] = (int8_t)value;
        else
            ((float *)d->in[i].data)[k] = value;
    }
}

static void draw(rng *r, drawn *d)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 16, 24, 36, 64, 130, 300};
    *d = (drawn){.count = 1};
    for (size_t a = 0; a < AXES; a++) {
        int64_t n = sizes[rng_below(r, sizeof sizes / sizeof *sizes)];
        d->extents[a] = d->count * n > 20000 ? 1 : n;
        d->count *= d->extents[a];
    }
    for (size_t i = 0; i < INPUTS; i++) draw_input(r, d, i);
    d->instrs = 1 + rng_below(r, MOST);
    for (size_t i = 0; i < d->instrs; i++) {
        d->instr[i].op = ops[rng_below(r, sizeof ops / sizeof *ops)];
        /* mostly what was made last, as programs do, and quotients by an input: that is not 0 */
        d->instr[i].a = (uint32_t)(i > 0 && rng_below(r, 3) ? INPUTS + i - 1 : rng_below(r, INPUTS + i));
        d->instr[i].b = (uint32_t)rng_below(r, d->instr[i].op == HYP_PLAN__POINTWISE__OP__DIV ? INPUTS : INPUTS + i);
    }
    d->results[0] = (uint32_t)(INPUTS + d->instrs - 1);
    d->results[1] = (uint32_t)rng_below(r, INPUTS + d->instrs);
}

static void build(plan_builder *b, const drawn *d, size_t outputs)
{
    uint32_t *extents = pb_consts(b, AXES, d->extents), tensors[INPUTS], out[OUTPUTS];
    for (size_t i = 0; i < INPUTS; i++)
        tensors[i] = pb_input(b, in_names[i], d->in[i].dtype, AXES, pb_consts(b, AXES, d->in[i].dims));
    for (size_t o = 0; o < outputs; o++) out[o] = pb_output(b, out_names[o], HYP_F32, AXES, extents);
    HypPlan__Pointwise *s = pb_pointwise(b, HYP_F32, AXES, extents);
    for (size_t i = 0; i < INPUTS; i++) pb_operand(b, s, tensors[i], pb_consts(b, AXES, d->in[i].strides));
    for (size_t i = 0; i < d->instrs; i++) {
        bool one = d->instr[i].op == HYP_PLAN__POINTWISE__OP__RELU;
        pb_instr(b, s, d->instr[i].op, d->instr[i].a, one ? 0 : d->instr[i].b, 0, 0, HYP_F32);
    }
    for (size_t o = 0; o < outputs; o++) pb_result(b, s, out[o], d->results[o]);
}

/* The results of element i. A double has bits enough that rounding its sums, products and quotients to a float is rounding once. */
static void expect(const drawn *d, int64_t i, float *results)
{
    double registers[INPUTS + MOST];
    for (size_t k = 0; k < INPUTS; k++) {
        int64_t left = i, at = 0;
        for (size_t a = AXES; a-- > 0; left /= d->extents[a]) at += left % d->extents[a] * d->in[k].strides[a];
        registers[k] = (double)d->in[k].values[at];
    }
    for (size_t k = 0; k < d->instrs; k++)
        registers[INPUTS + k] = (double)(float)apply(d->instr[k].op, registers[d->instr[k].a], registers[d->instr[k].b]);
    for (size_t o = 0; o < OUTPUTS; o++) results[o] = (float)registers[d->results[o]];
}

static void check(const drawn *d, const float *const *y, size_t outputs, int round)
{
    for (int64_t i = 0; i < d->count; i++) {
        float wanted[OUTPUTS];
        expect(d, i, wanted);
        for (size_t o = 0; o < outputs; o++)
            if (y[o][i] != wanted[o])
                fail_msg("round %d, %d x %d x %d: %s[%d] is %.9g, wanted %.9g", round, (int)d->extents[0], (int)d->extents[1],
                         (int)d->extents[2], out_names[o], (int)i, (double)y[o][i], (double)wanted[o]);
    }
}

static void instructions_done_together_are_exact(void **state)
{
    (void)state;
    static plan_builder b;
    rng r = {20};
    for (int round = 0; round < rounds(400); round++) {
        drawn d;
        draw(&r, &d);
        size_t outputs = 1 + rng_below(&r, OUTPUTS);
        pb_init(&b);
        build(&b, &d, outputs);
        hyp_tensor in[INPUTS], out[OUTPUTS];
        float *y[OUTPUTS];
        for (size_t i = 0; i < INPUTS; i++) in[i] = tensor_of(in_names[i], d.in[i].dtype, d.in[i].data, AXES, d.in[i].dims);
        for (size_t o = 0; o < OUTPUTS; o++) {
            y[o] = malloc((size_t)d.count * sizeof **y);
            assert_non_null(y[o]);
            out[o] = tensor_of(out_names[o], HYP_F32, y[o], AXES, d.extents);
        }
        run_once(&b, HYP_DEVICE_CPU, in, INPUTS, out, outputs);
        check(&d, (const float *const *)y, outputs, round);
        for (size_t i = 0; i < INPUTS; i++) {
            free(d.in[i].values);
            free(d.in[i].data);
        }
        for (size_t o = 0; o < OUTPUTS; o++) free(y[o]);
        pb_dispose(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(instructions_done_together_are_exact)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
