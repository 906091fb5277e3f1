/* Attention on the CPU backend against the reference backend, on random plans. */
#include "runtime/cpu_agrees.h"

#define ATTENTION_SCALE 0.7

typedef struct attended {
    int64_t batch, heads, rows, keys, width, columns;
    int mask;   /* none, numbers, bools, bools for what is seen */
    bool whole; /* the mask has an element for every score, else one for every key */
    bool plain; /* no softmax, and so no mask */
} attended;

/* q, k, v are [batch, length, heads, width], or [batch, heads, width, length]; v begins at its second row of heads. The result is
 * [batch, rows, heads, columns], [batch, heads, rows, columns], or [batch, heads, columns, rows]. */
static void build_attention(const attended *a)
{
    int64_t n = a->heads, all = a->batch * n * a->rows * a->keys;
    int64_t q = a->batch * a->rows * n * a->width, k = a->batch * a->keys * n * a->width;
    int64_t v = (a->batch * a->keys + 1) * n * a->columns, y = a->batch * n * a->rows * a->columns;
    int64_t mask = a->whole ? all : a->batch * a->keys;
    bool heads_first = rng_below(&r, 2), turns = a->width * a->keys > 0, keys_last = turns && rng_below(&r, 2);
    bool rows_last[3]; /* of q, v and y */
    for (int i = 0; i < 3; i++) rows_last[i] = turns && rng_below(&r, 3) == 0;
    pb_init(&b);
    HypPlan__Attention *s = pb_attention(&b);
    s->n_batch = 2, s->batch = pb_consts(&b, 2, (int64_t[]){a->batch, n});
    s->rows = pb_const(&b, a->rows), s->keys = pb_const(&b, a->keys);
    s->width = pb_const(&b, a->width), s->columns = pb_const(&b, a->columns);
    s->scale = (float)ATTENTION_SCALE, s->fill = -2.5f, s->shown = a->mask == 3, s->plain = a->plain;
    const int64_t q_rows[] = {a->rows * n * a->width, a->width, n * a->width, 1};
    const int64_t q_columns[] = {a->rows * n * a->width, a->rows * a->width, 1, a->rows};
    s->q = pb_attended(&b, pb_input(&b, "q", HYP_F32, 1, pb_consts(&b, 1, &q)), 4, rows_last[0] ? q_columns : q_rows, 0);
    const int64_t k_rows[] = {a->keys * n * a->width, a->width, n * a->width, 1};
    const int64_t k_columns[] = {a->keys * n * a->width, a->keys * a->width, 1, a->keys};
    s->k = pb_attended(&b, pb_input(&b, "k", HYP_F32, 1, pb_consts(&b, 1, &k)), 4, keys_last ? k_columns : k_rows, 0);
    const int64_t v_rows[] = {a->keys * n * a->columns, a->columns, n * a->columns, 1};
    const int64_t v_columns[] = {a->keys * n * a->columns, a->keys * a->columns, 1, a->keys};
    s->v = pb_attended(&b, pb_input(&b, "v", HYP_F32, 1, pb_consts(&b, 1, &v)), 4, rows_last[1] ? v_columns : v_rows,
                       n * a->columns);
    const int64_t whole[] = {n * a->rows * a->keys, a->rows * a->keys, a->keys, 1}, some[] = {a->keys, 0, 0, 1};
    if (a->mask)
        s->mask = pb_attended(&b, pb_input(&b, "mask", a->mask == 1 ? HYP_F32 : HYP_BOOL, 1, pb_consts(&b, 1, &mask)),
                              4, a->whole ? whole : some, 0);
    const int64_t by_row[] = {a->rows * n * a->columns, a->columns, n * a->columns, 1};
    const int64_t by_head[] = {a->rows * n * a->columns, a->rows * a->columns, a->columns, 1};
    const int64_t by_column[] = {a->rows * n * a->columns, a->rows * a->columns, 1, a->rows};
    s->y = pb_attended(&b, pb_output(&b, "y", HYP_F32, 1, pb_consts(&b, 1, &y)), 4,
                       rows_last[2]  ? by_column
                       : heads_first ? by_head
                                     : by_row,
                       0);
}

static size_t attention_inputs(const attended *a, hyp_tensor in[4])
{
    int64_t sizes[] = {a->batch * a->rows * a->heads * a->width, a->batch * a->keys * a->heads * a->width,
                       (a->batch * a->keys + 1) * a->heads * a->columns,
                       a->whole ? a->batch * a->heads * a->rows * a->keys : a->batch * a->keys};
    static const char *const names[] = {"q", "k", "v", "mask"};
    size_t count = a->mask ? 4 : 3;
    for (size_t i = 0; i < count; i++) {
        hyp_dtype t = i == 3 && a->mask > 1 ? HYP_BOOL : HYP_F32;
        in[i] = tensor_of(names[i], t, random_data(t, (size_t)sizes[i]), 1, &sizes[i]);
    }
    return count;
}

static void check_attention(const attended *a)
{
    hyp_tensor in[4];
    build_attention(a);
    size_t inputs = attention_inputs(a, in), results = (size_t)(a->batch * a->heads * a->rows * a->columns);
    /* Without a softmax the scores of a row are no shares of 1: their terms may cancel, and how they round does not. */
    compare_backends(inputs, in, 1, (const char *const[]){"y"}, HYP_F32, results, a->plain ? 5e-5 : 5e-6);
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    pb_dispose(&b);
}

static void attention_agrees_on_random_shapes(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(60); i++)
        check_attention(&(attended){PICK(1, 2), PICK(1, 2, 3), PICK(1, 2, 17, 70), PICK(1, 3, 16, 33, 100),
                                    PICK(0, 1, 4, 31), PICK(1, 5, 16), (int)rng_below(&r, 4), rng_below(&r, 2), false});
    for (int i = 0; i < rounds(20); i++)
        check_attention(&(attended){PICK(1, 2), PICK(1, 2, 3), PICK(1, 2, 17, 70), PICK(1, 3, 16, 33, 100), PICK(0, 1, 4, 31),
                                    PICK(1, 5, 16), .plain = true});
    check_attention(&(attended){0, 2, 3, 4, 5, 6, 1, true, false});
    check_attention(&(attended){1, 2, 3, 0, 5, 6, 1, true, false});
}

/* Several blocks of rows, the last one shorter: 65536 scores are a block at most. */
static void attention_agrees_on_blocks(void **state)
{
    (void)state;
    check_attention(&(attended){1, 1, 131, 1000, 8, 8, 1, true, false});
    check_attention(&(attended){1, 2, 70, 3000, 4, 4, 2, false, false});
    check_attention(&(attended){2, 1, 1, 5000, 4, 4, 3, false, false});
    check_attention(&(attended){1, 1, 131, 1000, 8, 8, .plain = true});
}

/* A row for each head, with keys that are there before and some behind them: k and v [heads, first, width], then [heads, more,
 * width]. */
static void attention_agrees_on_keys_in_two_parts(void **state)
{
    (void)state;
    enum { HEADS = 3, WIDTH = 20, COLUMNS = 24 };
    static const int64_t parts[][2] = {{1, 1}, {31, 2}, {63, 1}, {64, 70}, {200, 1}, {5, 130}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const int64_t first = parts[i][0], more = parts[i][1];
        const int64_t sizes[] = {HEADS * WIDTH, HEADS * first * WIDTH, HEADS * first * COLUMNS, HEADS * more * WIDTH,
                                 HEADS * more * COLUMNS, HEADS * COLUMNS, first + more};
        static const char *const names[] = {"q", "k", "v", "more_k", "more_v", "y", "mask"};
        HypPlan__Attention__Operand *made[7];
        hyp_tensor in[6];
        pb_init(&b);
        HypPlan__Attention *s = pb_attention(&b);
        s->n_batch = 1, s->batch = pb_consts(&b, 1, (int64_t[]){HEADS});
        s->rows = pb_const(&b, 1), s->keys = pb_const(&b, first + more);
        s->width = pb_const(&b, WIDTH), s->columns = pb_const(&b, COLUMNS);
        s->first_keys = pb_const(&b, first), s->more_keys = pb_const(&b, more);
        s->scale = (float)ATTENTION_SCALE;
        for (int o = 0; o < 7; o++) {
            const int64_t width = o == 0 || o == 1 || o == 3 ? WIDTH : COLUMNS;
            const int64_t by_head[] = {sizes[o] / HEADS, width, 1}, of_keys[] = {0, 0, 1};
            uint32_t *dims = pb_consts(&b, 1, &sizes[o]);
            uint32_t t = o == 5 ? pb_output(&b, names[o], HYP_F32, 1, dims) : pb_input(&b, names[o], HYP_F32, 1, dims);
            made[o] = pb_attended(&b, t, 3, o == 6 ? of_keys : by_head, 0);
            if (o != 5) in[o < 5 ? o : 5] = tensor_of(names[o], HYP_F32, random_data(HYP_F32, (size_t)sizes[o]), 1, &sizes[o]);
        }
        s->q = made[0], s->k = made[1], s->v = made[2], s->more_k = made[3], s->more_v = made[4], s->y = made[5];
        s->mask = made[6];
        compare_backends(6, in, 1, (const char *const[]){"y"}, HYP_F32, HEADS * COLUMNS, 5e-6);
        for (int o = 0; o < 6; o++) free(in[o].data);
        pb_dispose(&b);
    }
}

/* What is infinite or NaN in q, in a mask, or in v spoils what it is to and nothing else. */
static void attention_passes_special_values_on(void **state)
{
    (void)state;
    const attended a = {1, 2, 21, 19, 8, 8, 1, true, false};
    hyp_tensor in[4];
    build_attention(&a);
    size_t inputs = attention_inputs(&a, in);
    float *q = in[0].data, *mask = in[3].data;
    q[5] = INFINITY;
    q[77] = NAN;
    for (int i = 0; i < 19; i++) mask[40 * 19 / 2 + i] = -INFINITY;
    mask[3] = -INFINITY;
    ((float *)in[2].data)[200] = NAN;
    compare_backends(inputs, in, 1, (const char *const[]){"y"}, HYP_F32, 2 * 21 * 8, 5e-6);
    for (size_t i = 0; i < inputs; i++) free(in[i].data);
    pb_dispose(&b);
}

static void attention_agrees_with_several_threads(void **state)
{
    (void)state;
    const attended a = {1, 3, 150, 300, 64, 64, 2, true, false};
    hyp_tensor in[4];
    build_attention(&a);
    size_t inputs = attention_inputs(&a, in);
    /* All numbers are below 1. A score is a scaled sum of `width` products; its error reaches a weight and the sum that
     * the weight is divided by. Results are weighted means over the keys. */
    int64_t results = a.batch * a.heads * a.rows * a.columns;
    double *errors = calloc((size_t)results, sizeof *errors);
    assert_non_null(errors);
    for (int64_t i = 0; i < results; i++)
        errors[i] = 2 * rounding(a.width) * ATTENTION_SCALE * (double)a.width + 2 * rounding(a.keys + 16);
    check_threads(in, inputs, results, errors);
    free(errors);
}

int main(void)
{
    r.state = 20;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_agrees_on_random_shapes),
        cmocka_unit_test(attention_agrees_on_blocks),
        cmocka_unit_test(attention_agrees_on_keys_in_two_parts),
        cmocka_unit_test(attention_passes_special_values_on),
        cmocka_unit_test(attention_agrees_with_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
