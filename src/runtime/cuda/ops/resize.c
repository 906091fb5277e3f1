/* resize.c - axes of other sizes: two at a time, in the order of the axes, each by a launch that lists where its
 * elements come from and one that makes them. Lists, and what lies between two such steps, are in the session's room.
 */
#include <string.h>

#include "base/dtype.h"
#include "kernels/resize.h"
#include "runtime/cuda/kernels/resize_args.h"
#include "runtime/cuda/ops/boxes.h"
#include "runtime/cuda/ops/steps.h"

hyp_cuda_call_fn hyp_cuda_add_resize;

enum { MOST_STAGES = HYP_MAX_RANK / 2 };

typedef struct resize {
    hyp_cuda_resize stage[MOST_STAGES]; /* addresses in the room are offsets until they run */
    hyp_cuda_grid lists[MOST_STAGES], makes[MOST_STAGES];
    uint32_t count, x, y;
    size_t between[2]; /* in the room: what is made by one stage and read by the next, by turns */
} resize;

static hyp_status resize_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    resize *p = data;
    for (uint32_t i = 0; i < p->count; i++) {
        hyp_cuda_resize stage = p->stage[i];
        stage.x = i == 0 ? s->at[p->x] : s->room + p->between[(i - 1) % 2];
        stage.y = i + 1 == p->count ? s->at[p->y] : s->room + p->between[i % 2];
        for (int k = 0; k < 2; k++) {
            stage.axis[k].first += s->room;
            stage.axis[k].weights += s->room;
        }
        HYP_TRY(hyp_cuda_launch(s, &p->lists[i], &stage, diag));
        HYP_TRY(hyp_cuda_launch(s, &p->makes[i], &stage, diag));
    }
    return HYP_OK;
}

bool hyp_cuda_can_resize(const HypPlan__Program *program, const HypPlan__Call *k)
{
    for (size_t i = 1; i < k->n_inputs_plus1; i++) {
        if (!k->inputs_plus1[i]) continue;
        const HypPlan__Tensor *t = program->tensors[k->inputs_plus1[i] - 1];
        const uint32_t root = hyp_plan_root(program, k->inputs_plus1[i] - 1);
        if (program->tensors[root]->place != HYP_PLAN__PLACE__PLACE_WEIGHT || hyp_plan_is_window(t)) return false;
    }
    return true;
}

/* Scales and regions are the plan's own, and known here. */
static void read_constants(const hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *c, hyp_array in[3])
{
    const hyp_plan *plan = b->session->model->plan;
    for (uint32_t i = 0; i < c->in_count; i++) {
        in[i] = c->in[i];
        if (i == 0 || !hyp_kernel_input(c, i)) continue;
        in[i].data =
            (void *)(uintptr_t)hyp_plan_weight(plan, hyp_plan_root(plan->program, hyp_plan_call_input(k, i) - 1));
    }
}

/* The axes that change. */
static hyp_status read_lines(const hyp_kernel_call *c, hyp_resize_line *lines, int32_t *axes, uint32_t *count)
{
    *count = 0;
    for (int32_t a = 0; a < c->in[0].rank; a++) {
        hyp_resize_line line;
        HYP_TRY(hyp_resize_read(c, a, c->in[0].dims[a], c->out[0].dims[a], &line));
        if (line.taps == 0) continue;
        lines[*count] = line;
        axes[(*count)++] = a;
    }
    return HYP_OK;
}

/* The sizes between the axes of a stage, of x as the stages before it have left it; false: more elements than there can
 * be, which neither x nor the result need have. */
static bool set_stage(hyp_cuda_resize *stage, const hyp_resize_line *lines, const int32_t *axes, uint32_t count,
                      const int64_t *dims, int32_t rank)
{
    int64_t middle = 1, inner = 1, outer = 1;
    for (int32_t a = 0; a < rank; a++) {
        const bool behind = a > axes[count - 1], before = a < axes[0];
        *(behind ? &inner : before ? &outer : &middle) *= a == axes[0] || a == axes[count - 1] ? 1 : dims[a];
    }
    stage->axis[0].line = count > 1 ? lines[0] : (hyp_resize_line){.in = 1, .out = 1};
    stage->axis[1].line = lines[count - 1];
    for (int k = 0; k < 2; k++) stage->out[k] = hyp_cuda_extent_of(stage->axis[k].line.out);
    stage->middle = hyp_cuda_extent_of(middle);
    stage->inner = hyp_cuda_extent_of(inner);
    return hyp_mul_i64(outer * middle * inner, stage->axis[0].line.out, &stage->total) &&
           hyp_mul_i64(stage->total, stage->axis[1].line.out, &stage->total);
}

/* Room for the lists of a stage; false: more than there can be. */
static bool take_lists(hyp_cuda_resize *stage, size_t *room)
{
    for (int k = 0; k < 2; k++) {
        hyp_cuda_resize_list *list = &stage->axis[k];
        size_t first, weights, count;
        if (!hyp_mul_size((size_t)list->line.out, (size_t)list->line.taps, &count) ||
            !hyp_cuda_take_room((size_t)list->line.out, sizeof(int64_t), room, &first) ||
            !hyp_cuda_take_room(count, sizeof(double), room, &weights))
            return false;
        list->first = first;
        list->weights = weights;
    }
    return true;
}

/* The kernel that makes so many neighbours of each axis into an element by rows, HYP_CUDA_KERNEL_COUNT if there is
 * none. */
static hyp_cuda_kernel rows_kernel(const hyp_cuda_resize *stage)
{
    const int64_t taps = stage->axis[1].line.taps, other = stage->axis[0].line.taps;
    const bool native = stage->x_dtype != HYP_F8E4M3 && stage->y_dtype != HYP_F8E4M3;
    const bool near = stage->axis[1].line.in <= UINT32_MAX / stage->inner.size;
    if (!native || !near || (other != 0 && other != taps)) return HYP_CUDA_KERNEL_COUNT;
    return taps == 2   ? HYP_CUDA_KERNEL_resize_rows_2
           : taps == 4 ? HYP_CUDA_KERNEL_resize_rows_4
                       : HYP_CUDA_KERNEL_COUNT;
}

/* Blocks for tiles of columns, as wide as there are some, and so many for the rows of each that the device is full. */
static void deal_rows(const hyp_cuda_device *device, hyp_cuda_resize *stage, hyp_cuda_grid *grid)
{
    enum { THREADS = 256, LINE = 8, PER_MULTIPROCESSOR = 16 }; /* LINE: neighbours that are written at once, at least */
    stage->columns = stage->axis[1].line.out * stage->inner.size;
    stage->rows = stage->total / stage->columns;
    grid->block_x = stage->columns > LINE ? LINE : 1;
    while (grid->block_x < THREADS && (int64_t)grid->block_x * HYP_CUDA_RESIZE_EACH < stage->columns)
        grid->block_x *= 2;
    grid->block_y = THREADS / grid->block_x;
    const int64_t width = (int64_t)grid->block_x * HYP_CUDA_RESIZE_EACH, tiles = (stage->columns + width - 1) / width;
    const int64_t most = (stage->rows + grid->block_y - 1) / grid->block_y,
                  wanted = (int64_t)device->multiprocessors * PER_MULTIPROCESSOR / tiles;
    stage->tiles = hyp_cuda_extent_of(tiles);
    stage->groups = wanted < 1 ? 1 : wanted < most ? wanted : most;
    grid->blocks = hyp_cuda_blocks(device, tiles * stage->groups, 1);
}

static hyp_status plan_stages(const hyp_cuda_device *device, const hyp_kernel_call *c, const hyp_resize_line *lines,
                              const int32_t *axes, uint32_t count, resize *p, size_t *room)
{
    const hyp_array *x = &c->in[0], *y = &c->out[0];
    const bool nearest = lines[0].reach == 0, wide = x->dtype == HYP_F64 || !hyp_array_is_float(x);
    const hyp_dtype between = nearest ? x->dtype : wide ? HYP_F64 : HYP_F32;
    size_t most = 0;
    int64_t dims[HYP_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    for (uint32_t i = 0; 2 * i < count; i++, p->count++) {
        hyp_cuda_resize *stage = &p->stage[i];
        const uint32_t first = 2 * i, some = count - first < 2 ? 1 : 2;
        const bool last = first + some == count;
        if (!set_stage(stage, lines + first, axes + first, some, dims, x->rank) || !take_lists(stage, room))
            return hyp_kernel_fail(c, "the sizes are too large");
        for (uint32_t k = first; k < first + some; k++) dims[axes[k]] = lines[k].out;
        stage->x_dtype = i == 0 ? x->dtype : between;
        stage->y_dtype = last ? y->dtype : between;
        stage->size = (uint32_t)hyp_dtype_size(x->dtype);
        stage->extrapolation = c->attrs[HYP_RESIZE_EXTRAPOLATION].f;
        hyp_store_f64(x->dtype, &stage->outside, 0, stage->extrapolation);
        if (!last && (size_t)stage->total > most) most = (size_t)stage->total;
        p->lists[i].kernel = HYP_CUDA_KERNEL_resize_lists;
        hyp_cuda_spread(device, stage->axis[0].line.out + stage->axis[1].line.out, &p->lists[i]);
        const hyp_cuda_kernel rows = rows_kernel(stage);
        p->makes[i].kernel = nearest                         ? HYP_CUDA_KERNEL_resize_nearest
                             : wide                          ? HYP_CUDA_KERNEL_resize_f64
                             : rows != HYP_CUDA_KERNEL_COUNT ? rows
                                                             : HYP_CUDA_KERNEL_resize_f32;
        if (nearest || p->makes[i].kernel == rows)
            deal_rows(device, stage, &p->makes[i]);
        else
            hyp_cuda_spread(device, stage->total, &p->makes[i]);
    }
    for (uint32_t i = 0; i + 1 < p->count && i < 2; i++)
        if (!hyp_cuda_take_room(most, hyp_dtype_size(between), room, &p->between[i]))
            return hyp_kernel_fail(c, "the sizes are too large");
    return HYP_OK;
}

hyp_status hyp_cuda_add_resize(hyp_cuda_build *b, const HypPlan__Call *k, const hyp_kernel_call *call)
{
    hyp_resize_line lines[HYP_MAX_RANK];
    int32_t axes[HYP_MAX_RANK];
    hyp_array in[3];
    hyp_kernel_call c = *call;
    uint32_t count, x = hyp_plan_call_input(k, 0) - 1;
    size_t room = 0;
    void *data;
    read_constants(b, k, call, in);
    c.in = in;
    HYP_TRY(hyp_resize_check(&c));
    if (c.out[0].count == 0) return HYP_OK;
    HYP_TRY(read_lines(&c, lines, axes, &count));
    const hyp_cuda_box box = {.rank = 1, .lanes = 2, .extent = {c.out[0].count}, .stride = {{1}, {1}}};
    if (count == 0) return hyp_cuda_add_box(b, &box, x, k->outputs[0], 0, 0);
    HYP_TRY(hyp_cuda_add_op(b, resize_run, sizeof(resize), &data));
    resize *p = data;
    p->x = x;
    p->y = k->outputs[0];
    HYP_TRY(plan_stages(b->session->model->device, &c, lines, axes, count, p, &room));
    HYP_TRY(hyp_cuda_want_room(b, room));
    HYP_TRY(hyp_cuda_need_kernel(b, HYP_CUDA_KERNEL_resize_lists));
    for (uint32_t i = 0; i < p->count; i++) HYP_TRY(hyp_cuda_need_kernel(b, p->makes[i].kernel));
    return HYP_OK;
}
