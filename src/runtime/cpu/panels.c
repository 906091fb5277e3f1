/* panels.c - what a run computes as the weights of a layer: its panels, made in the run. */
#include "runtime/cpu/panels.h"

void hyp_panels_pack(const hyp_cpu_kernels *kernels, const hyp_panels_part *p, int64_t n, int64_t k, float *out)
{
    const int64_t panel = (int64_t)kernels->panel * kernels->width, depth = p->depth_end - p->depth;
    for (int64_t first = p->column / panel * panel; first < p->column_end; first += panel) {
        int64_t begin = first > p->column ? first : p->column, end = first + panel;
        if (end > p->column_end) end = p->column_end;
        int64_t room = n - first < panel ? hyp_panels_vectors(kernels, n - first) : panel;
        const float *from = p->from + (begin - p->column) * p->column_step;
        float *to = out + first * k + p->depth * room + (begin - first);
        if (p->column_step == 1)
            kernels->copy_rows(from, depth, end - begin, p->depth_step, to, room);
        else if (p->depth_step == 1)
            kernels->transpose(from, end - begin, depth, p->column_step, to, room);
        else
            for (int64_t i = 0; i < depth; i++)
                for (int64_t j = 0; j < end - begin; j++) to[i * room + j] = from[j * p->column_step + i * p->depth_step];
    }
}

void hyp_panels_clear_rest(const hyp_cpu_kernels *kernels, int64_t n, int64_t k, float *out)
{
    const int64_t panel = (int64_t)kernels->panel * kernels->width, first = n / panel * panel;
    const int64_t room = hyp_panels_vectors(kernels, n - first);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = n - first; j < room; j++) out[first * k + i * room + j] = 0;
}

void hyp_panels_multiply(const hyp_cpu_kernels *kernels, const hyp_mlp_layer *layer, int64_t rows, const float *x,
                         int64_t x_stride, float *y, int64_t y_stride)
{
    int64_t panel = (int64_t)kernels->panel * kernels->width;
    kernels->panels(layer, rows, x, x_stride, NULL, y, y_stride, 0, (layer->n + panel - 1) / panel);
}
