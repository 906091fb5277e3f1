/* winograd_kernel.h - the transforms of convolutions by 3x3 in fewer multiplications. Included by kernels_<isa>.c
 * alone, after mlp_kernel.h.
 *
 * Results of a tile of 4x4 are sums over products of polynomials (Winograd, "Arithmetic Complexity of Computations",
 * 1980; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016): 36 multiplications for each pair of
 * channels in place of 144. Polynomials are evaluated at 0, +-HYP_TILE_A, +-HYP_TILE_B and infinity, of which the
 * four are exact in binary and lose fewer digits than +-1 and +-2.
 */
#ifndef HYP_RUNTIME_CPU_WINOGRAD_KERNEL_H
#define HYP_RUNTIME_CPU_WINOGRAD_KERNEL_H

#include "runtime/cpu/vector_kernels.h"

/* Six numbers of a line, `step` apart, at the six points. */
INLINE void line_in(const vf *x, const int step, vf *out, const int out_step)
{
    const float aa = HYP_TILE_A * HYP_TILE_A, bb = HYP_TILE_B * HYP_TILE_B;
    vf x1 = x[step], x2 = x[2 * step], x3 = x[3 * step], x4 = x[4 * step];
    vf even_a = x4 - bb * x2, odd_a = HYP_TILE_A * (x3 - bb * x1);
    vf even_b = x4 - aa * x2, odd_b = HYP_TILE_B * (x3 - aa * x1);
    out[0] = aa * bb * x[0] + (x4 - (aa + bb) * x2);
    out[out_step] = even_a + odd_a;
    out[2 * out_step] = even_a - odd_a;
    out[3 * out_step] = even_b + odd_b;
    out[4 * out_step] = even_b - odd_b;
    out[5 * out_step] = aa * bb * x1 + (x[5 * step] - (aa + bb) * x3);
}

/* Back to four results. */
INLINE void line_out(const vf *m, const int step, vf *out, const int out_step)
{
    const float aa = HYP_TILE_A * HYP_TILE_A, bb = HYP_TILE_B * HYP_TILE_B;
    vf even_a = m[step] + m[2 * step], odd_a = HYP_TILE_A * (m[step] - m[2 * step]);
    vf even_b = m[3 * step] + m[4 * step], odd_b = HYP_TILE_B * (m[3 * step] - m[4 * step]);
    out[0] = m[0] + even_a + even_b;
    out[out_step] = odd_a + odd_b;
    out[2 * out_step] = aa * even_a + bb * even_b;
    out[3 * out_step] = aa * odd_a + bb * odd_b + m[5 * step];
}

static void tiles_in(const hyp_tiles *g, const float *x, float *made)
{
    int64_t room = (g->channels + W - 1) / W * W;
    for (int64_t t = 0; t < g->tiles; t++, x += HYP_TILE * g->channels, made += HYP_TILE_PLACES * room)
        for (int64_t c = 0; c < g->channels; c += W) {
            vf lines[HYP_TILE_PLACES], column[HYP_TILE_IN], row[HYP_TILE_IN];
            for (int j = 0; j < HYP_TILE_IN; j++) {
                UNROLL
                for (int i = 0; i < HYP_TILE_IN; i++) column[i] = load(x + i * g->line + j * g->channels + c);
                line_in(column, 1, lines + j, HYP_TILE_IN);
            }
            for (int i = 0; i < HYP_TILE_IN; i++) {
                line_in(lines + i * HYP_TILE_IN, 1, row, 1);
                UNROLL
                for (int j = 0; j < HYP_TILE_IN; j++) store(made + (i * HYP_TILE_IN + j) * room + c, row[j]);
            }
        }
}

/* Up to `left` channels of one place, from c on. */
INLINE void put_place(vf v, const float *added, float *y, int64_t left, bool relu)
{
    if (added) v += left >= W ? load(added) : load_some(added, left, 0);
    if (relu) v = vrelu(v);
    if (left >= W)
        store(y, v);
    else
        store_some(y, v, left);
}

static void tiles_out(const hyp_tiles *g, const float *made, const float *bias, const float *added, float *y,
                      const hyp_block_instr *act)
{
    int64_t room = (g->channels + W - 1) / W * W;
    for (int64_t t = 0; t < g->tiles; t++, made += HYP_TILE_PLACES * room) {
        int64_t places = g->places - t * HYP_TILE < HYP_TILE ? g->places - t * HYP_TILE : HYP_TILE;
        for (int64_t c = 0; c < g->channels; c += W) {
            vf lines[HYP_TILE * HYP_TILE_IN], column[HYP_TILE_IN], row[HYP_TILE], start = splat(0);
            int64_t left = g->channels - c;
            if (bias) start = left >= W ? load(bias + c) : load_some(bias + c, left, 0);
            for (int j = 0; j < HYP_TILE_IN; j++) {
                UNROLL
                for (int i = 0; i < HYP_TILE_IN; i++) column[i] = load(made + (i * HYP_TILE_IN + j) * room + c);
                line_out(column, 1, lines + j, HYP_TILE_IN);
            }
            for (int64_t i = 0; i < g->lines; i++) {
                line_out(lines + i * HYP_TILE_IN, 1, row, 1);
                for (int64_t j = 0; j < places; j++) {
                    int64_t place = t * HYP_TILE + j;
                    const float *more = added ? added + i * g->line + place * g->channels + c : NULL;
                    put_place(row[j] + start, more, y + i * g->y_line + place * g->y_place + c, left, is_relu(act));
                }
            }
        }
    }
    for (int64_t i = 0; i < g->lines; i++) activate_rows(act, y + i * g->y_line, g->places, g->channels, g->y_place);
}

#endif
