/* Results that are as large as the data say. There is room for the most, which the shape of the result says; how many
 * there are is the last output. What lies behind them repeats the last one, so that whatever is computed of it item by
 * item fails no more and no less than it would without; where there is none it is 0. */
#include <math.h>

#include "kernels/along.h"

hyp_kernel_fn hyp_kernel_nonzero, hyp_kernel_non_max_suppression, hyp_kernel_unique;
hyp_kernel_scratch_fn hyp_kernel_scratch_non_max_suppression, hyp_kernel_scratch_unique;

static hyp_status want_count(const hyp_kernel_call *c, const hyp_array *count)
{
    if (count->dtype != HYP_I64) return hyp_kernel_fail(c, "the number of results is not i64");
    return hyp_kernel_want_shape(c, count, 0, NULL, "the number of results");
}

static hyp_status want_room(const hyp_kernel_call *c, int64_t found, int64_t room)
{
    if (found <= room) return HYP_OK;
    return hyp_kernel_fail(c, "%lld results, and room for %lld", (long long)found, (long long)room);
}

/* n numbers of 64 bits for each of `count`, but not nothing, so that there are places to count from; SIZE_MAX: more than
 * memory has. */
static size_t lists(int64_t count, size_t n)
{
    if (count == 0) return 8;
    return count < 0 || (uint64_t)count > SIZE_MAX / 8 / n ? SIZE_MAX : (size_t)count * 8 * n;
}

/* ---- nonzero --------------------------------------------------------------------------------------------------- */

static bool is_set(const hyp_array *x, int64_t i)
{
    return hyp_array_is_float(x) ? hyp_array_f64(x, i) != 0 : hyp_array_i64(x, i) != 0;
}

hyp_status hyp_kernel_check_nonzero(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    HYP_TRY(want_count(c, &c->out[1]));
    if (y->rank != 2 || y->dims[0] != x->rank || y->dtype != HYP_I64)
        return hyp_kernel_fail(c, "the result is no list of i64 for each axis");
    return HYP_OK;
}

hyp_status hyp_kernel_nonzero(const hyp_kernel_call *c)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int64_t index[HYP_MAX_RANK] = {0}, found = 0;
    HYP_TRY(hyp_kernel_check_nonzero(c));
    int64_t room = y->dims[1];
    for (int64_t i = 0; i < x->count; i++, hyp_index_next(x->rank, x->dims, index)) {
        if (!is_set(x, i)) continue;
        if (found == room) return want_room(c, found + 1, room);
        for (int32_t a = 0; a < x->rank; a++) hyp_array_set_i64(y, a * room + found, index[a]);
        found++;
    }
    for (int32_t a = 0; a < x->rank; a++) {
        int64_t last = found ? hyp_array_i64(y, a * room + found - 1) : 0;
        for (int64_t i = found; i < room; i++) hyp_array_set_i64(y, a * room + i, last);
    }
    hyp_array_set_i64(&c->out[1], 0, found);
    return HYP_OK;
}

/* ---- sorting --------------------------------------------------------------------------------------------------- */

typedef int compare_fn(const void *items, int64_t a, int64_t b);

/* The numbers below `count` by their items, equal ones in their order: runs of twice the length are merged until one is
 * left. */
static void sort(int64_t *order, int64_t *spare, int64_t count, compare_fn *compare, const void *items)
{
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t run = 1; run < count; run *= 2) {
        for (int64_t first = 0; first < count; first += 2 * run) {
            int64_t middle = first + run < count ? first + run : count;
            int64_t end = middle + run < count ? middle + run : count, a = first, b = middle;
            for (int64_t to = first; to < end; to++) {
                bool right = a == middle || (b < end && compare(items, order[a], order[b]) > 0);
                spare[to] = right ? order[b++] : order[a++];
            }
        }
        memcpy(order, spare, (size_t)count * sizeof *order);
    }
}

/* ---- non-max-suppression --------------------------------------------------------------------------------------- */

typedef struct scores {
    const hyp_array *array;
    int64_t first;
} scores;

/* The larger first; NaN, which is above no threshold, last. */
static int compare_scores(const void *items, int64_t a, int64_t b)
{
    const scores *s = items;
    double u = hyp_array_f64(s->array, s->first + a), v = hyp_array_f64(s->array, s->first + b);
    if (isnan(u) || isnan(v)) return (isnan(u) != 0) - (isnan(v) != 0);
    return (v > u) - (v < u);
}

typedef struct box {
    double low[2], high[2];
} box;

static box box_of(const hyp_array *boxes, int64_t at, bool center)
{
    box b;
    for (int i = 0; i < 2; i++) {
        double u = hyp_array_f64(boxes, 4 * at + i), v = hyp_array_f64(boxes, 4 * at + i + 2);
        b.low[i] = center ? u - v / 2 : fmin(u, v);
        b.high[i] = center ? u + v / 2 : fmax(u, v);
    }
    return b;
}

/* Whether they overlap by more than this part of what both cover. */
static bool overlap(const box *a, const box *b, double threshold)
{
    double common = 1, one = 1, other = 1;
    for (int i = 0; i < 2; i++) {
        double side = fmin(a->high[i], b->high[i]) - fmax(a->low[i], b->low[i]);
        if (!(side > 0)) return false;
        common *= side;
        one *= a->high[i] - a->low[i];
        other *= b->high[i] - b->low[i];
    }
    return one > 0 && other > 0 && common / (one + other - common) > threshold;
}

hyp_status hyp_kernel_check_non_max_suppression(const hyp_kernel_call *c)
{
    const hyp_array *boxes = &c->in[0], *score = &c->in[1], *y = &c->out[0];
    HYP_TRY(want_count(c, &c->out[1]));
    if (boxes->rank != 3 || score->rank != 3 || boxes->dims[2] != 4 || score->dims[0] != boxes->dims[0] ||
        score->dims[2] != boxes->dims[1] || !hyp_array_is_float(boxes) || !hyp_array_is_float(score))
        return hyp_kernel_fail(c, "boxes [images, n, 4] and scores [images, classes, n] of floats are wanted");
    if (y->rank != 2 || y->dims[1] != 3 || y->dtype != HYP_I64)
        return hyp_kernel_fail(c, "the result has no rows of an image, a class and a box");
    for (uint32_t i = 2; i < 5; i++) {
        const hyp_array *limit = hyp_kernel_input(c, i);
        if (limit && (limit->count != 1 || hyp_array_is_float(limit) != (i > 2)))
            return hyp_kernel_fail(c, "input %u is no single %s", i, i > 2 ? "float" : "integer");
    }
    return HYP_OK;
}

/* Takes boxes of one class of an image, best first, and none that overlaps one that is taken. */
static hyp_status suppress(const hyp_kernel_call *c, int64_t image, int64_t class, int64_t *order, int64_t *found)
{
    const hyp_array *boxes = &c->in[0], *score = &c->in[1], *y = &c->out[0], *least = hyp_kernel_input(c, 4);
    int64_t n = boxes->dims[1], first = *found, most = hyp_array_i64(hyp_kernel_input(c, 2), 0);
    double threshold = hyp_kernel_input(c, 3) ? hyp_array_f64(&c->in[3], 0) : 0;
    bool center = c->attrs[1].i != 0;
    const scores s = {score, (image * score->dims[1] + class) * n};
    sort(order, order + n, n, compare_scores, &s);
    for (int64_t i = 0; i < n && *found - first < most; i++) {
        if (least && !(hyp_array_f64(score, s.first + order[i]) > hyp_array_f64(least, 0))) continue;
        const box b = box_of(boxes, image * n + order[i], center);
        bool taken = true;
        for (int64_t k = first; k < *found && taken; k++) {
            const box other = box_of(boxes, image * n + hyp_array_i64(y, 3 * k + 2), center);
            taken = !overlap(&b, &other, threshold);
        }
        if (!taken) continue;
        if (*found == y->dims[0]) return want_room(c, *found + 1, y->dims[0]);
        const int64_t row[] = {image, class, order[i]};
        for (int k = 0; k < 3; k++) hyp_array_set_i64(y, 3 * *found + k, row[k]);
        ++*found;
    }
    return HYP_OK;
}

size_t hyp_kernel_scratch_non_max_suppression(const hyp_kernel_call *c)
{
    return lists(c->in[0].rank == 3 ? c->in[0].dims[1] : 0, 2);
}

hyp_status hyp_kernel_non_max_suppression(const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    int64_t found = 0;
    HYP_TRY(hyp_kernel_check_non_max_suppression(c));
    bool any = hyp_kernel_input(c, 2) && c->in[1].count; /* without a number nothing is taken */
    for (int64_t image = 0; any && image < c->in[1].dims[0]; image++)
        for (int64_t class = 0; class < c->in[1].dims[1]; class ++)
            HYP_TRY(suppress(c, image, class, c->scratch, &found));
    for (int64_t i = 3 * found; i < y->count; i++) hyp_array_set_i64(y, i, found ? hyp_array_i64(y, i - 3) : 0);
    hyp_array_set_i64(&c->out[1], 0, found);
    return HYP_OK;
}

/* ---- unique ---------------------------------------------------------------------------------------------------- */

/* The items are what lies at each index of an axis, [outer, items, inner]; without an axis the elements. */
typedef struct items {
    const hyp_array *x;
    int64_t outer, count, inner;
} items;

static int compare_elements(const hyp_array *x, int64_t a, int64_t b)
{
    if (!hyp_array_is_float(x)) {
        int64_t u = hyp_array_i64(x, a), v = hyp_array_i64(x, b);
        if (x->dtype == HYP_U64) return ((uint64_t)u > (uint64_t)v) - ((uint64_t)u < (uint64_t)v);
        return (u > v) - (u < v);
    }
    double u = hyp_array_f64(x, a), v = hyp_array_f64(x, b);
    if (isnan(u) || isnan(v)) return (isnan(u) != 0) - (isnan(v) != 0); /* all alike, behind the others */
    return (u > v) - (u < v);
}

static int compare_items(const void *list, int64_t a, int64_t b)
{
    const items *s = list;
    int difference = 0;
    for (int64_t o = 0; o < s->outer && !difference; o++)
        for (int64_t i = 0; i < s->inner && !difference; i++)
            difference = compare_elements(s->x, (o * s->count + a) * s->inner + i, (o * s->count + b) * s->inner + i);
    return difference;
}

/* The distinct items: where each is first, and for every item which of them it is. */
static int64_t find_distinct(const items *s, bool sorted, int64_t *order, int64_t *first, int64_t *inverse)
{
    int64_t found = 0;
    sort(order, inverse, s->count, compare_items, s);
    for (int64_t i = 0; i < s->count; i++) {
        bool fresh = i == 0 || compare_items(s, order[i - 1], order[i]) != 0;
        if (fresh) first[found++] = order[i];
        inverse[order[i]] = found - 1;
    }
    if (sorted) return found;
    for (int64_t i = 0; i < found; i++) order[i] = -1; /* numbered as they come */
    for (int64_t i = 0, next = 0; i < s->count; i++) {
        int64_t *number = &order[inverse[i]];
        if (*number < 0) first[ *number = next++] = i;
        inverse[i] = *number;
    }
    return found;
}

static hyp_status read_items(const hyp_kernel_call *c, items *out)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    int64_t dims[HYP_MAX_RANK] = {0};
    int32_t axis = 0, rank = 1;
    *out = (items){x, 1, x->count, 1};
    if (c->attrs[0].count != 1) return hyp_kernel_fail(c, "one size is wanted");
    if (c->attrs[1].i >= 0) {
        HYP_TRY(hyp_kernel_axis(c, c->attrs[1].i, x->rank, &axis));
        rank = x->rank;
        for (int32_t a = 0; a < rank; a++) dims[a] = x->dims[a];
        hyp_array_split(x, axis, &out->outer, &out->count, &out->inner);
    }
    dims[axis] = c->attrs[0].ints[0];
    if (y->dtype != x->dtype) return hyp_kernel_fail(c, "the result is of another type");
    HYP_TRY(hyp_kernel_want_shape(c, y, rank, dims, "the result"));
    for (uint32_t i = 1; i < 4; i++) {
        if (c->out[i].dtype != HYP_I64) return hyp_kernel_fail(c, "result %u is not i64", i);
        HYP_TRY(hyp_kernel_want_shape(c, &c->out[i], 1, i == 2 ? &out->count : &dims[axis], "a list of places"));
    }
    return want_count(c, &c->out[4]);
}

size_t hyp_kernel_scratch_unique(const hyp_kernel_call *c)
{
    int64_t n = c->in[0].count, size = c->attrs[0].count == 1 ? c->attrs[0].ints[0] : 0;
    for (int32_t a = 0; a < c->in[0].rank; a++)
        n = c->in[0].dims[a] > n ? c->in[0].dims[a] : n; /* other axes may be 0 */
    return lists(n > size ? n : size, 3);
}

hyp_status hyp_kernel_unique(const hyp_kernel_call *c)
{
    const hyp_array *y = &c->out[0];
    items s;
    HYP_TRY(read_items(c, &s));
    int64_t room = c->out[1].count, *order = c->scratch, *first = order + s.count, *inverse = first + s.count;
    int64_t found = find_distinct(&s, c->attrs[2].i != 0, order, first, inverse);
    HYP_TRY(want_room(c, found, room));
    for (int64_t o = 0; o < s.outer && found; o++)
        for (int64_t k = 0; k < room; k++)
            for (int64_t i = 0; i < s.inner; i++) {
                int64_t item = first[k < found ? k : found - 1];
                hyp_array_copy(y, (o * room + k) * s.inner + i, s.x, (o * s.count + item) * s.inner + i);
            }
    for (int64_t k = 0; k < room; k++) {
        hyp_array_set_i64(&c->out[1], k, found ? first[k < found ? k : found - 1] : 0);
        hyp_array_set_i64(&c->out[3], k, 0);
    }
    for (int64_t i = 0; i < s.count; i++) {
        hyp_array_set_i64(&c->out[2], i, inverse[i]);
        hyp_array_set_i64(&c->out[3], inverse[i], hyp_array_i64(&c->out[3], inverse[i]) + 1);
    }
    for (int64_t k = found; k < room && found; k++)
        hyp_array_set_i64(&c->out[3], k, hyp_array_i64(&c->out[3], found - 1));
    hyp_array_set_i64(&c->out[4], 0, found);
    return HYP_OK;
}
