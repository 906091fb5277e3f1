/* slopes.h - which inputs of the gradients of recurrences the slopes are: of the rows of ir/ops.def. An RNN has the
 * first of them alone. Device code has this file, too.
 */
#ifndef HYP_KERNELS_SLOPES_H
#define HYP_KERNELS_SLOPES_H

enum {
    HYP_SLOPE_N = 0,
    HYP_SLOPE_LSTM_I = 6,
    HYP_SLOPE_LSTM_O,
    HYP_SLOPE_LSTM_F,
    HYP_SLOPE_LSTM_A,
    HYP_SLOPE_LSTM_K,
    HYP_SLOPE_GRU_U = 5,
    HYP_SLOPE_GRU_S,
    HYP_SLOPE_GRU_K,
    HYP_SLOPE_GRU_M,
    HYP_SLOPES = 11
};

#endif
