#include "product.c"
#include "softmax.c"

/* softmax(scale q k^T + mask) v: q[rows, width], k[keys, width], v[keys, columns], y[rows, columns]. Keys from
 * `first_keys` on are those of more_k and more_v. */
struct hyp_operand {
    const float *at;
    long row, column;
};
struct hyp_attention {
    long rows, keys, width, columns, first_keys;
    struct hyp_operand q, k, v, more_k, more_v;
    struct hyp_operand mask;     /* at: NULL where there is none of floats */
    const unsigned char *hidden; /* a mask of bools with the mask's strides, or NULL */
    int shown;                   /* whether a key is seen where that is true */
    int plain;                   /* scores are weights as they are, without a softmax */
    float scale, fill, *y;
    long y_row, y_column;
};

/* [count, columns] -> panels of [count, HYP_TILE]; `turned`: as if it were [columns, count]. */
static void hyp_panels(const struct hyp_operand *x, long first, long count, long rows, long columns, int turned, float *to)
{
    for (long i = 0; i < count; i++)
        for (long j = 0; j < columns; j++) {
            long row = turned ? j : first + i, column = turned ? first + i : j, panel = column / HYP_TILE;
            long all = turned ? rows : columns,
                 width = all - panel * HYP_TILE < HYP_TILE ? all - panel * HYP_TILE : HYP_TILE;
            long depth = turned ? columns : rows;
            to[panel * HYP_TILE * depth + row * width + column % HYP_TILE] = x->at[i * x->row + j * x->column];
        }
}

static void hyp_mask(const struct hyp_attention *s, long row, float *score)
{
    long at = row * s->mask.row, step = s->mask.column;
    if (s->hidden)
        for (long j = 0; j < s->keys; j++) score[j] = (s->hidden[at + j * step] != 0) != s->shown ? s->fill : score[j];
    else if (s->mask.at)
        for (long j = 0; j < s->keys; j++) score[j] += s->mask.at[at + j * step];
}

/* room: of k [width, keys], of v [keys, columns], of scores [HYP_ROWS, keys] and of results [HYP_ROWS, columns] */
static void hyp_attend(const struct hyp_attention *s, float *room)
{
    float *k = room, *v = k + s->width * s->keys, *scores = v + s->keys * s->columns, *y = scores + HYP_ROWS * s->keys;
    hyp_panels(&s->k, 0, s->first_keys, s->keys, s->width, 1, k);
    hyp_panels(&s->v, 0, s->first_keys, s->keys, s->columns, 0, v);
    hyp_panels(&s->more_k, s->first_keys, s->keys - s->first_keys, s->keys, s->width, 1, k);
    hyp_panels(&s->more_v, s->first_keys, s->keys - s->first_keys, s->keys, s->columns, 0, v);
    for (long row = 0; row < s->rows; row += HYP_ROWS) {
        long rows = s->rows - row < HYP_ROWS ? s->rows - row : HYP_ROWS;
        const struct hyp_product first = {.m = rows,
                                          .n = s->keys,
                                          .k = s->width,
                                          .a = s->q.at + row * s->q.row,
                                          .a_row = s->q.row,
                                          .a_step = s->q.column,
                                          .b = k,
                                          .alpha = s->scale,
                                          .y = scores,
                                          .y_row = s->keys};
        const struct hyp_product second = {.m = rows,
                                           .n = s->columns,
                                           .k = s->keys,
                                           .a = scores,
                                           .a_row = s->keys,
                                           .a_step = 1,
                                           .b = v,
                                           .alpha = 1,
                                           .y = y,
                                           .y_row = s->columns};
        hyp_multiply(&first);
        for (long r = 0; r < rows; r++) hyp_mask(s, row + r, scores + r * s->keys);
        if (!s->plain) hyp_softmax(rows, s->keys, 1, scores, scores);
        hyp_multiply(&second);
        for (long r = 0; r < rows; r++)
            for (long j = 0; j < s->columns; j++) s->y[(row + r) * s->y_row + j * s->y_column] = y[r * s->columns + j];
    }
}
