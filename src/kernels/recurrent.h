/* recurrent.h - what a call of a recurrence asks for: read once, for the plain kernel and for those of the backends. */
#ifndef HYP_KERNELS_RECURRENT_H
#define HYP_KERNELS_RECURRENT_H

#include "base/elementwise.h"
#include "kernels/kernels.h"
#include "kernels/slopes.h"

typedef enum hyp_cell {
    HYP_CELL_RNN,
    HYP_CELL_GRU,
    HYP_CELL_LSTM
} hyp_cell;

typedef struct hyp_recurrence {
    hyp_cell cell;
    /* x[time, batch, gates*size] and r[size, gates*size]. NULL where absent: lengths[batch], the first h and c
     * [batch, size], bias[size] of a GRU's candidate, peepholes[3*size] of an LSTM. */
    const hyp_array *x, *r, *lengths, *h0, *c0, *bias, *peepholes;
    uint32_t lengths_at; /* which input of the call lengths are; h and, of an LSTM, c and the peepholes follow */
    int64_t time, batch, gates, size;
    bool reverse;     /* from the last time to the first */
    bool coupled;     /* LSTM: the forget gate is 1 - the input gate */
    bool reset_after; /* GRU: the reset gate takes the product with the state, not the state */
    double clip;      /* what activations get is brought into -clip .. clip; 0: is not */
    int f, g, h;      /* activations, HYP_PW_SIGMOID, _TANH or _RELU; as many as the cell has */
} hyp_recurrence;

/* Reads a call of lstm, gru or rnn and checks types and shapes; data may be NULL. */
HYP_NODISCARD hyp_status hyp_recurrence_read(const hyp_kernel_call *c, hyp_recurrence *out);
/* Every length is within 0 .. time; NULL: there are none. Reads them. */
HYP_NODISCARD hyp_status hyp_recurrence_check_lengths(const hyp_kernel_call *c, const hyp_array *lengths, int64_t time);

typedef struct hyp_recurrence_gradient {
    hyp_cell cell;
    /* r[size, gates*size]; the others NULL where absent: lengths[batch], g[time, batch, size], h and c [batch, size], and
     * slopes[time, batch, size] by input. */
    const hyp_array *r, *lengths, *g, *h, *c, *slope[HYP_SLOPES];
    int64_t time, batch, gates, size;
    bool reverse, reset_after; /* as of the recurrence, whose last time comes first here */
} hyp_recurrence_gradient;

/* Reads a call of lstm-gradient, gru-gradient or rnn-gradient and checks types and shapes; data may be NULL. */
HYP_NODISCARD hyp_status hyp_recurrence_gradient_read(const hyp_kernel_call *c, hyp_recurrence_gradient *out);

#endif
