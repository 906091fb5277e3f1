/* pitch.c - copies of matrices whose rows are longer, or shorter. */
#include "runtime/cuda/ops/linear.h"

typedef struct pitch {
    hyp_cuda_pitch args;
    hyp_cuda_grid grid;
    hyp_cuda_operand x, y;
} pitch;

static hyp_status pitch_run(hyp_cuda_session *s, void *data, hyp_diag *diag)
{
    pitch *p = data;
    p->args.x = hyp_cuda_operand_at(s, &p->x);
    p->args.y = hyp_cuda_operand_at(s, &p->y);
    return hyp_cuda_launch(s, &p->grid, &p->args, diag);
}

hyp_status hyp_cuda_add_pitch(hyp_cuda_build *b, const hyp_cuda_pitch *from, hyp_cuda_operand x, int64_t row, int64_t rows,
                              hyp_cuda_operand y, size_t element)
{
    enum { PIECE = 16 };
    void *data;
    HYP_TRY(hyp_cuda_add_op(b, pitch_run, sizeof(pitch), &data));
    pitch *p = data;
    *p = (pitch){.args = *from, .x = x, .y = y};
    p->args.columns = from->x_row < row ? from->x_row : row;
    p->args.y_row = hyp_cuda_extent_of(row);
    p->args.total = row * rows;
    int64_t pieces = (p->args.total * (int64_t)element + PIECE - 1) / PIECE;
    p->grid.kernel = element == 2 ? HYP_CUDA_KERNEL_pitch_16 : HYP_CUDA_KERNEL_pitch_32;
    hyp_cuda_spread(b->session->model->device, pieces, &p->grid);
    return hyp_cuda_need_kernel(b, p->grid.kernel);
}
