/* lines.c - see lines.h */
#include "runtime/cpu/lines.h"

enum { MOST_PARTS = 1 << 24 };

bool hyp_lines_can(const hyp_window *w)
{
    int64_t last = w->n - 1;
    return w->kernel_count / w->kernel[last] <= HYP_LINES_MOST && w->kernel[last] <= MOST_PARTS / w->out[last];
}

hyp_status hyp_lines_init(hyp_lines *l, const hyp_window *w, int64_t channels, int64_t place, hyp_diag *diag)
{
    int32_t i = w->n - 1;
    size_t most = (size_t)(w->out[i] * w->kernel[i]);
    *l = (hyp_lines){.window = *w, .across = *w, .channels = channels, .place = place, .length = w->out[i]};
    l->along = (hyp_window){.n = 1,
                            .in = {w->in[i]},
                            .kernel = {w->kernel[i]},
                            .stride = {w->stride[i]},
                            .dilation = {w->dilation[i]},
                            .before = {w->before[i]},
                            .after = {w->after[i]}};
    l->across.n = i;
    l->across.kernel_count /= w->kernel[i];
    l->count = w->out_count / w->out[i];
    l->first = hyp_malloc((size_t)(l->length + 1) * sizeof *l->first);
    l->offsets = hyp_malloc(most * sizeof *l->offsets);
    l->taps = hyp_malloc(most * sizeof *l->taps);
    if (!l->first || !l->offsets || !l->taps) return hyp_fail_memory(diag, most * sizeof *l->offsets);
    int64_t count = 0;
    for (int64_t o = 0; o < l->length; o++) {
        l->first[o] = count;
        for (int64_t k = 0; k < w->kernel[i]; k++) {
            int64_t source = hyp_window_source(&l->along, &o, &k);
            if (source < 0) continue;
            l->taps[count] = k;
            l->offsets[count++] = source * place;
        }
    }
    l->first[l->length] = count;
    return HYP_OK;
}

void hyp_lines_dispose(hyp_lines *l)
{
    hyp_free(l->first);
    hyp_free(l->offsets);
    hyp_free(l->taps);
}

int64_t hyp_lines_find(const hyp_lines *l, int64_t i, const float *image, const float **rows, int64_t *taps, int64_t *o)
{
    int64_t at[HYP_SPATIAL] = {0}, k[HYP_SPATIAL], count = 0;
    hyp_window_position(l->across.n, l->across.out, i, at);
    for (int64_t t = 0; t < l->across.kernel_count; t++) {
        hyp_window_position(l->across.n, l->across.kernel, t, k);
        int64_t source = hyp_window_source(&l->across, at, k);
        if (source < 0) continue;
        if (taps) taps[count] = t;
        rows[count++] = image + source * l->along.in[0] * l->place;
    }
    if (o) memcpy(o, at, sizeof at);
    return count;
}

void hyp_lines_take(const hyp_lines *l, int64_t i, const float *image, const float *weights, int64_t each,
                    hyp_line *out)
{
    int64_t taps[HYP_LINES_MOST];
    out->parts = (hyp_parts){.rows = out->rows, .first = l->first, .offsets = l->offsets};
    out->parts.count = hyp_lines_find(l, i, image, out->rows, taps, NULL);
    for (int64_t t = 0; t < out->parts.count; t++) out->weights[t] = weights + taps[t] * l->along.kernel[0] * each;
}
