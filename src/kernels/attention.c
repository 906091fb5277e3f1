/* attention-gradient: after FlashAttention-2 (Dao 2023), section 3.1. The probabilities of a row are computed again
 * from the scores; no more than a row of them is ever there. */
#include "kernels/attention.h"

#include <math.h>

hyp_kernel_fn hyp_kernel_attention_gradient;
hyp_kernel_scratch_fn hyp_kernel_scratch_attention_gradient;

/* ---- shapes --------------------------------------------------------------------------------------- */

/* [batch heads rows columns], or [batch rows heads columns], where what is in front may be missing. */
static hyp_attention_matrix place(int64_t heads, int64_t rows, int64_t columns, bool rows_first)
{
    if (rows_first) return (hyp_attention_matrix){rows * heads * columns, columns, heads * columns};
    return (hyp_attention_matrix){heads * rows * columns, rows * columns, columns};
}

static hyp_status want(const hyp_kernel_call *c, const hyp_array *a, const hyp_attention_gradient *s, bool rows_first,
                       int64_t rows, int64_t columns, const char *what)
{
    int32_t rank = c->in[0].rank;
    const int64_t dims[] = {s->batch, rows_first ? rows : s->heads, rows_first ? s->heads : rows, columns};
    if (a->dtype != c->in[0].dtype) return hyp_kernel_fail(c, "%s is of another type than q", what);
    return hyp_kernel_want_shape(c, a, rank, dims + 4 - rank, what);
}

static hyp_status read_mask(const hyp_kernel_call *c, hyp_attention_gradient *s)
{
    const hyp_array *mask = hyp_kernel_input(c, HYP_ATTENTION_MASK);
    const int64_t dims[] = {s->batch, s->heads, s->rows, s->keys};
    int64_t *const to[] = {&s->mask.batch, &s->mask.head, &s->mask.row, &s->mask_column}, stride = 1;
    s->masked = mask != NULL;
    if (!mask) return HYP_OK;
    s->hides = mask->dtype == HYP_BOOL;
    if ((!s->hides && mask->dtype != c->in[0].dtype) || mask->rank > c->in[0].rank)
        return hyp_kernel_fail(c, "the mask is of another type or rank");
    for (int32_t a = mask->rank, i = 3; a-- > 0; i--) {
        if (mask->dims[a] != 1 && mask->dims[a] != dims[i])
            return hyp_kernel_fail(c, "the mask has %lld elements along axis %d, wanted 1 or %lld",
                                   (long long)mask->dims[a], a, (long long)dims[i]);
        *to[i] = mask->dims[a] == 1 ? 0 : stride;
        stride *= mask->dims[a];
    }
    return HYP_OK;
}

hyp_status hyp_kernel_attention_gradient_read(const hyp_kernel_call *c, hyp_attention_gradient *out)
{
    const hyp_array *q = &c->in[HYP_ATTENTION_Q], *k = &c->in[HYP_ATTENTION_K], *v = &c->in[HYP_ATTENTION_V];
    bool rows_first = c->attrs[0].i != 0;
    int32_t rank = q->rank;
    *out = (hyp_attention_gradient){.scale = c->attrs[1].f, .fill = c->attrs[2].f, .hidden = c->attrs[3].i == 0};
    if (rank < 2 + rows_first || rank > 4 || k->rank != rank || v->rank != rank || !hyp_array_is_float(q))
        return hyp_kernel_fail(c, "q, k and v of one rank up to 4, and of floats, are wanted");
    int32_t row = rank - 2 - rows_first;
    out->batch = rank == 4 ? q->dims[0] : 1;
    out->heads = rows_first ? q->dims[rank - 2] : rank > 2 ? q->dims[rank - 3] : 1;
    out->rows = q->dims[row];
    out->width = q->dims[rank - 1];
    out->keys = v->dims[row];
    out->columns = v->dims[rank - 1];
    const hyp_array *const of_q[] = {q, &c->out[0]}, *const of_k[] = {k, &c->out[1]}, *const of_v[] = {v, &c->out[2]};
    const hyp_array *const of_y[] = {&c->in[HYP_ATTENTION_Y], &c->in[HYP_ATTENTION_G]};
    for (int i = 0; i < 2; i++) {
        HYP_TRY(want(c, of_q[i], out, rows_first, out->rows, out->width, i ? "the gradient by q" : "q"));
        HYP_TRY(want(c, of_k[i], out, rows_first, out->keys, out->width, i ? "the gradient by k" : "k"));
        HYP_TRY(want(c, of_v[i], out, rows_first, out->keys, out->columns, i ? "the gradient by v" : "v"));
        HYP_TRY(want(c, of_y[i], out, rows_first, out->rows, out->columns, i ? "g" : "y"));
    }
    out->q = place(out->heads, out->rows, out->width, rows_first);
    out->k = place(out->heads, out->keys, out->width, rows_first);
    out->v = place(out->heads, out->keys, out->columns, rows_first);
    out->y = place(out->heads, out->rows, out->columns, rows_first);
    return read_mask(c, out);
}

/* ---- computing ------------------------------------------------------------------------------------ */

typedef struct sums {
    double *p;     /* by key: the probabilities of a row */
    double *q;     /* of the row */
    double *k, *v; /* [keys, width], [keys, columns] of the head */
} sums;

size_t hyp_kernel_scratch_attention_gradient(const hyp_kernel_call *c)
{
    hyp_attention_gradient s;
    hyp_kernel_call quiet = *c;
    hyp_diag said;
    size_t of_keys, of_row, all;
    quiet.diag = &said;
    if (hyp_kernel_attention_gradient_read(&quiet, &s) != HYP_OK) return 0;
    if (!hyp_mul_size((size_t)s.keys, (size_t)s.width + (size_t)s.columns + 1, &of_keys) ||
        !hyp_add_size(of_keys, (size_t)s.width, &of_row) || !hyp_mul_size(of_row, sizeof(double), &all))
        return SIZE_MAX;
    return all;
}

static double dot(const hyp_array *a, int64_t at, const hyp_array *b, int64_t b_at, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += hyp_array_f64(a, at + i) * hyp_array_f64(b, b_at + i);
    return sum;
}

/* Whether the score that stands at `at` of the mask is `fill`, which hangs on neither q nor k. */
static bool is_hidden(const hyp_kernel_call *c, const hyp_attention_gradient *s, int64_t at)
{
    return s->hides && (hyp_array_i64(&c->in[HYP_ATTENTION_MASK], at) != 0) == s->hidden;
}

/* Probabilities of the row that begins at q, and at `mask` of the mask. */
static void attend(const hyp_kernel_call *c, const hyp_attention_gradient *s, int64_t q, int64_t k, int64_t mask,
                   double *p)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->keys; j++) {
        int64_t at = mask + j * s->mask_column;
        p[j] = s->scale * dot(&c->in[HYP_ATTENTION_Q], q, &c->in[HYP_ATTENTION_K], k + j * s->k.row, s->width);
        if (is_hidden(c, s, at))
            p[j] = s->fill;
        else if (s->masked && !s->hides)
            p[j] += hyp_array_f64(&c->in[HYP_ATTENTION_MASK], at);
        top = p[j] > top ? p[j] : top;
    }
    for (int64_t j = 0; j < s->keys; j++) sum += p[j] = exp(p[j] - top);
    for (int64_t j = 0; j < s->keys; j++) p[j] /= sum;
}

/* What row i of a head gives to all sums. */
static void add_row(const hyp_kernel_call *c, const hyp_attention_gradient *s, int64_t batch, int64_t head, int64_t i,
                    sums *t)
{
    const hyp_array *in = c->in, *g = &in[HYP_ATTENTION_G];
    int64_t q = hyp_attention_at(&s->q, batch, head) + i * s->q.row,
            y = hyp_attention_at(&s->y, batch, head) + i * s->y.row;
    int64_t k = hyp_attention_at(&s->k, batch, head), v = hyp_attention_at(&s->v, batch, head);
    int64_t mask = hyp_attention_at(&s->mask, batch, head) + i * s->mask.row;
    attend(c, s, q, k, mask, t->p);
    double along = dot(&in[HYP_ATTENTION_Y], y, g, y, s->columns);
    for (int64_t l = 0; l < s->width; l++) t->q[l] = 0;
    for (int64_t j = 0; j < s->keys; j++) {
        double by_p = dot(g, y, &in[HYP_ATTENTION_V], v + j * s->v.row, s->columns);
        double ds = is_hidden(c, s, mask + j * s->mask_column) ? 0 : s->scale * t->p[j] * (by_p - along);
        for (int64_t l = 0; l < s->width; l++) {
            t->q[l] += ds * hyp_array_f64(&in[HYP_ATTENTION_K], k + j * s->k.row + l);
            t->k[j * s->width + l] += ds * hyp_array_f64(&in[HYP_ATTENTION_Q], q + l);
        }
        for (int64_t l = 0; l < s->columns; l++) t->v[j * s->columns + l] += t->p[j] * hyp_array_f64(g, y + l);
    }
    for (int64_t l = 0; l < s->width; l++) hyp_array_set_f64(&c->out[0], q + l, t->q[l]);
}

static void store(const hyp_array *to, int64_t at, const hyp_attention_matrix *m, int64_t rows, int64_t columns,
                  const double *from)
{
    for (int64_t j = 0; j < rows; j++)
        for (int64_t l = 0; l < columns; l++) hyp_array_set_f64(to, at + j * m->row + l, from[j * columns + l]);
}

hyp_status hyp_kernel_attention_gradient(const hyp_kernel_call *c)
{
    hyp_attention_gradient s;
    HYP_TRY(hyp_kernel_attention_gradient_read(c, &s));
    sums t = {.p = c->scratch};
    t.q = t.p + s.keys;
    t.k = t.q + s.width;
    t.v = t.k + s.keys * s.width;
    for (int64_t m = 0; m < s.batch * s.heads; m++) {
        int64_t batch = m / s.heads, head = m % s.heads;
        for (int64_t i = 0; i < s.keys * (s.width + s.columns); i++) t.k[i] = 0;
        for (int64_t i = 0; i < s.rows; i++) add_row(c, &s, batch, head, i, &t);
        store(&c->out[1], hyp_attention_at(&s.k, batch, head), &s.k, s.keys, s.width, t.k);
        store(&c->out[2], hyp_attention_at(&s.v, batch, head), &s.v, s.keys, s.columns, t.v);
    }
    return HYP_OK;
}
