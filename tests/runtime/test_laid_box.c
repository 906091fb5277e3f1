/* Copies between tensors of which some lie with the channels last: the same elements as in the plan's order, for parts,
 * permutations, repetitions and walks backwards, with axes merged where they can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/laid_box.h"
#include "runtime/plan_builder.h"

enum { MOST = 6 * 6 * 6 * 6 };

static plan_builder builder; /* large */
static uint64_t state = 1;

static int64_t between(int64_t low, int64_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state >> 33) % (uint64_t)(high - low + 1));
}

static int64_t values[PB_MAX];

static void evaluate(void)
{
    for (size_t i = 0; i < builder.program.n_dims; i++) values[i] = builder.dims[i].value;
}

/* Where element `index` of the plan's order lies with the channels last. */
static int64_t place(const int64_t *dims, size_t rank, int64_t index, bool last)
{
    int64_t at[HYP_MAX_RANK] = {0}, to;
    if (!last) return index;
    for (size_t k = rank; k-- > 0; index /= dims[k]) at[k] = index % dims[k];
    to = at[0];
    for (size_t k = 2; k < rank; k++) to = to * dims[k] + at[k];
    return to * dims[1] + at[1];
}

typedef struct walk {
    size_t rank;
    int64_t extents[HYP_MAX_RANK], x[HYP_MAX_RANK], y[HYP_MAX_RANK], x_offset, y_offset;
} walk;

/* from[y's element] = x's element, for all that the copy writes. */
static void go(const walk *w, int64_t *from)
{
    int64_t count = 1;
    for (size_t k = 0; k < w->rank; k++) count *= w->extents[k];
    for (int64_t i = 0; i < count; i++) {
        int64_t x = w->x_offset, y = w->y_offset, left = i;
        for (size_t k = w->rank; k-- > 0; left /= w->extents[k]) {
            x += left % w->extents[k] * w->x[k];
            y += left % w->extents[k] * w->y[k];
        }
        assert_true(x >= 0 && x < MOST && y >= 0 && y < MOST);
        from[y] = x;
    }
}

/* A box of x, some of its axes walked backwards or in steps of two, becomes a box of y with its axes permuted. */
static walk random_walk(const int64_t *x, int64_t *y, size_t rank)
{
    walk w = {.rank = rank};
    size_t order[HYP_MAX_RANK] = {0, 1, 2, 3};
    int64_t x_stride[HYP_MAX_RANK], y_stride[HYP_MAX_RANK], dense = 1;
    bool permutes = between(0, 1);
    for (size_t k = rank; k-- > 1 && permutes;) {
        size_t other = (size_t)between(0, (int64_t)k), was = order[k];
        order[k] = order[other];
        order[other] = was;
    }
    for (size_t k = rank; k-- > 0; dense *= x[k]) x_stride[k] = dense;
    for (size_t k = 0; k < rank; k++) {
        size_t of = order[k];
        int64_t whole = between(0, 2), step = whole == 0 ? between(1, 2) : 1;
        int64_t extent = whole ? x[of] : between(1, (x[of] + step - 1) / step);
        int64_t begin = between(0, x[of] - 1 - (extent - 1) * step);
        bool backwards = between(0, 5) == 0, repeats = between(0, 9) == 0;
        w.extents[k] = extent;
        w.x_offset += (backwards && !repeats ? begin + (extent - 1) * step : begin) * x_stride[of];
        w.x[k] = repeats ? 0 : (backwards ? -step : step) * x_stride[of];
        y[k] = extent + (between(0, 2) == 0 ? between(0, 6 - extent) : 0);
    }
    dense = 1;
    for (size_t k = rank; k-- > 0; dense *= y[k]) y_stride[k] = dense;
    for (size_t k = 0; k < rank; k++) {
        w.y[k] = y_stride[k];
        w.y_offset += between(0, y[k] - w.extents[k]) * y_stride[k];
    }
    for (size_t k = rank; k-- > 1;) { /* as the compiler merges them */
        if (w.x[k - 1] != w.x[k] * w.extents[k] || w.y[k - 1] != w.y[k] * w.extents[k] || between(0, 3) == 0) continue;
        w.extents[k - 1] *= w.extents[k];
        w.x[k - 1] = w.x[k];
        w.y[k - 1] = w.y[k];
        w.rank--;
        for (size_t i = k; i < w.rank; i++) {
            w.extents[i] = w.extents[i + 1];
            w.x[i] = w.x[i + 1];
            w.y[i] = w.y[i + 1];
        }
    }
    return w;
}

static HypPlan__Copy *build(const int64_t *x, const int64_t *y, size_t rank, const walk *w)
{
    pb_init(&builder);
    uint32_t from = pb_scratch(&builder, HYP_F32, 0, rank, pb_consts(&builder, rank, x));
    uint32_t to = pb_scratch(&builder, HYP_F32, 1, rank, pb_consts(&builder, rank, y));
    HypPlan__Copy *k = pb_copy(&builder);
    k->x = from;
    k->y = to;
    k->n_extents = k->n_x_strides = k->n_y_strides = w->rank;
    k->extents = pb_consts(&builder, w->rank, w->extents);
    k->x_strides = pb_consts(&builder, w->rank, w->x);
    k->y_strides = pb_consts(&builder, w->rank, w->y);
    k->x_offset = pb_const(&builder, w->x_offset);
    k->y_offset = pb_const(&builder, w->y_offset);
    evaluate();
    return k;
}

static void check(const int64_t *x, const int64_t *y, size_t rank, const walk *w, bool x_last, bool y_last)
{
    static int64_t plain[MOST], laid_from[MOST];
    hyp_laid_box laid;
    HypPlan__Copy *k = build(x, y, rank, w);
    assert_true(hyp_lay_copy(&builder.program, k, values, x_last, y_last, &laid));
    walk moved = {.rank = laid.rank, .x_offset = laid.offsets[HYP_LAID_X], .y_offset = laid.offsets[HYP_LAID_Y]};
    memcpy(moved.extents, laid.extents, sizeof laid.extents);
    memcpy(moved.x, laid.strides[HYP_LAID_X], sizeof moved.x);
    memcpy(moved.y, laid.strides[HYP_LAID_Y], sizeof moved.y);
    memset(plain, 0xff, sizeof plain);
    memset(laid_from, 0xff, sizeof laid_from);
    go(w, plain);
    go(&moved, laid_from);
    int64_t count = 1, x_count = 1;
    bool same = true;
    for (size_t i = 0; i < rank; i++) count *= y[i], x_count *= x[i];
    for (int64_t i = 0; i < count; i++) {
        int64_t want = plain[i] < 0 ? -1 : place(x, rank, plain[i], x_last), at = place(y, rank, i, y_last);
        assert_int_equal(laid_from[at], want);
        same = same && want == at;
    }
    if (hyp_copies_nothing(&builder.program, k, values, &laid)) assert_true(same && x_count == count);
    pb_dispose(&builder);
}

static void copies_take_the_same_elements_in_every_order(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4000; i++) {
        size_t rank = (size_t)between(3, 4);
        int64_t x[HYP_MAX_RANK], y[HYP_MAX_RANK];
        for (size_t k = 0; k < rank; k++) x[k] = between(1, 6);
        walk w = random_walk(x, y, rank);
        check(x, y, rank, &w, i & 1, i >> 1 & 1);
    }
}

/* To rows of channels and back are nothing between the two orders, and something in one of them. */
static void a_transposition_is_nothing_between_the_orders(void **unused)
{
    (void)unused;
    const int64_t x[] = {2, 3, 4, 5}, y[] = {2, 4, 5, 3};
    const walk to = {.rank = 3, .extents = {2, 20, 3}, .x = {60, 1, 20}, .y = {60, 3, 1}};
    const walk back = {.rank = 3, .extents = {2, 3, 20}, .x = {60, 1, 3}, .y = {60, 20, 1}};
    hyp_laid_box laid;
    for (int last = 0; last < 2; last++) {
        HypPlan__Copy *k = build(x, y, 4, &to);
        assert_true(hyp_lay_copy(&builder.program, k, values, last, false, &laid));
        assert_int_equal(hyp_copies_nothing(&builder.program, k, values, &laid), last);
        assert_false(laid.keeps_axes);
        pb_dispose(&builder);
        k = build(y, x, 4, &back);
        assert_true(hyp_lay_copy(&builder.program, k, values, false, last, &laid));
        assert_int_equal(hyp_copies_nothing(&builder.program, k, values, &laid), last);
        pb_dispose(&builder);
    }
}

/* An axis that ends in the middle of a row and goes on in the next. */
static void what_runs_over_the_end_of_an_axis_keeps_the_order(void **unused)
{
    (void)unused;
    const int64_t x[] = {2, 3, 4, 5}, y[] = {1, 1, 1, 6};
    const walk over = {.rank = 1, .extents = {6}, .x = {1}, .y = {1}};
    const walk middle = {.rank = 1, .extents = {6}, .x = {1}, .y = {1}, .x_offset = 3};
    hyp_laid_box laid;
    assert_false(hyp_lay_copy(&builder.program, build(x, y, 4, &over), values, true, false, &laid));
    pb_dispose(&builder);
    assert_false(hyp_lay_copy(&builder.program, build(x, y, 4, &middle), values, true, false, &laid));
    pb_dispose(&builder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_take_the_same_elements_in_every_order),
        cmocka_unit_test(a_transposition_is_nothing_between_the_orders),
        cmocka_unit_test(what_runs_over_the_end_of_an_axis_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
