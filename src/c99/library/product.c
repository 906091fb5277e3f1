#include "activate.h"
#include "kinds.h"
#include "tile.c"

/* A product of a[m, k] with b[k, n], and what follows it. */
struct hyp_product {
    long m, n, k;
    const float *a;
    long a_row, a_step;
    const void *b; /* in panels of HYP_TILE columns, each [k, columns], unless it has to be brought there */
    enum hyp_kind kind; /* of numbers; all but floats are in panels */
    long b_row, b_column; /* 0: it is in panels */
    float *room;          /* [k, HYP_TILE], unless panels are there as floats */
    float alpha;
    const float *bias, *added; /* [n] and [m, n]; NULL: nothing */
    int after, act;            /* whether what is added is so after the activation */
    float *y;                  /* may be what is added */
    long y_row;
};

/* Where the panel of so many columns from `first` on is; *step is from one of its rows to the next. */
static const float *hyp_panel(const struct hyp_product *p, long first, long width, long *step)
{
    const float *b = p->b;
    *step = width;
    if (!p->b_column) return hyp_floats(p->kind, p->b, first * p->k, width * p->k, p->room);
    if (p->b_column == 1 && p->m <= HYP_ROWS) {
        *step = p->b_row;
        return b + first;
    }
    for (long i = 0; i < p->k; i++)
        for (long j = 0; j < width; j++) p->room[i * width + j] = b[i * p->b_row + (first + j) * p->b_column];
    return p->room;
}

/* y = alpha a b + bias + added, by the activation. */
static void hyp_multiply(const struct hyp_product *p)
{
    for (long first = 0; first < p->n; first += HYP_TILE) {
        long width = p->n - first < HYP_TILE ? p->n - first : HYP_TILE, step;
        const float *panel = hyp_panel(p, first, width, &step);
        for (long row = 0; row < p->m; row += HYP_ROWS) {
            float c[HYP_ROWS][HYP_TILE];
            long rows = p->m - row < HYP_ROWS ? p->m - row : HYP_ROWS;
            hyp_tile(rows, width, p->k, p->a + row * p->a_row, p->a_row, p->a_step, panel, step, c);
            for (long r = 0; r < rows; r++) {
                float *y = p->y + (row + r) * p->y_row + first;
                const float *added = p->added ? p->added + (row + r) * p->n + first : 0;
                if (p->alpha != 1)
                    for (long j = 0; j < width; j++) c[r][j] *= p->alpha;
                if (p->bias)
                    for (long j = 0; j < width; j++) c[r][j] += p->bias[first + j];
                if (added && !p->after)
                    for (long j = 0; j < width; j++) c[r][j] += added[j];
                hyp_activate(p->act, c[r], width, 0);
                for (long j = 0; j < width; j++) y[j] = added && p->after ? c[r][j] + added[j] : c[r][j];
            }
        }
    }
}
