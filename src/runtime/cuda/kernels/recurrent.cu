// recurrent.cu - one step in time of an LSTM, a GRU or an RNN: what comes behind the product of the state; and one step back of
// their gradients: what comes before the product. A thread does one element of the state of one sequence.
//
// Part of image.cu, after kernels.cu.

inline namespace hyp_device
{

// Out of line, and for those activations alone that a recurrence may have: every kernel has its own copy.
template <typename C> __device__ __noinline__ C gate(C clip, uint32_t act, C v)
{
    if (clip > 0) v = v > clip ? clip : v < -clip ? -clip : v;
    return act == HYP_PW_SIGMOID ? sigmoid(v) : act == HYP_PW_TANH ? tanh(v) : relu(v);
}

// Element `column` of the state of sequence `row`, which is element i of all, at this time.
template <typename C> struct cell {
    const hyp_cuda_recurrence &p;
    int64_t row, column, i, time;
    C input[HYP_CUDA_GATES], product[HYP_CUDA_GATES]; // what x says, and what depends on the state alone

    // All at once, so that a thread waits for the memory once.
    __device__ __forceinline__ void read()
    {
        int64_t from = (time * p.batch + row) * p.columns + column;
#pragma unroll
        for (int g = 0; g < HYP_CUDA_GATES; g++)
            if (g < p.gates) product[g] = ((const C *)p.sums)[row * p.columns + g * p.size.size + column];
#pragma unroll
        for (int g = 0; g < HYP_CUDA_GATES; g++)
            if (g < p.gates) input[g] = load_native<C>(p.dtype, p.x, from + g * p.size.size);
    }
    __device__ __forceinline__ C sum(int g) const { return input[g] + product[g]; }
    __device__ __forceinline__ C state() const { return load_native<C>(p.dtype, p.h, i); }
    __device__ __forceinline__ C peephole(int g) const
    {
        return load_native<C>(p.dtype, p.peepholes, g * p.size.size + column);
    }
    __device__ __forceinline__ C f(C v) const { return gate((C)p.clip, p.act[0], v); }
    __device__ __forceinline__ C g(C v) const { return gate((C)p.clip, p.act[1], v); }

    // Gates input, output, forget, cell.
    __device__ __forceinline__ C lstm() const
    {
        C in = sum(0), out = sum(1), forget = sum(2), c = ((const C *)p.c)[i];
        if (p.peepholes) {
            in += peephole(0) * c;
            forget += peephole(2) * c;
        }
        in = f(in);
        forget = p.coupled ? 1 - in : f(forget);
        c = forget * c + in * g(sum(3));
        if (p.peepholes) out += peephole(1) * c;
        ((C *)p.c)[i] = c;
        return f(out) * gate((C)0, p.act[2], c);
    }

    // Gates update, reset, candidate. The product of the last one is of the state, or of what `reset` made of it.
    __device__ __forceinline__ C gru() const
    {
        C update = f(sum(0)), candidate = product[2];
        if (p.bias) candidate += load_native<C>(p.dtype, p.bias, column);
        if (p.reset_after) candidate *= f(sum(1));
        return (1 - update) * g(input[2] + candidate) + update * state();
    }
};

// Behind the length of a sequence results are 0 and the state stays.
template <typename C> __device__ __forceinline__ void recur(const hyp_cuda_recurrence &p)
{
    int64_t total = p.batch * p.size.size;
#pragma unroll 1
    for (int64_t i = first_thread(); i < total; i += thread_count()) {
        cell<C> at = {p, divide(i, p.size), 0, i, p.time, {}, {}};
        at.column = i - at.row * p.size.size;
        if (p.part == HYP_CUDA_RECUR_BEGIN) {
            store_native(p.dtype, p.h, i, p.first_h ? load_native<C>(p.dtype, p.first_h, i) : (C)0);
            if (p.c) ((C *)p.c)[i] = p.first_c ? load_native<C>(p.dtype, p.first_c, i) : (C)0;
        } else {
            int64_t length = p.lengths ? load<int64_t>(p.lengths_dtype, p.lengths, at.row) : p.times;
            if (length < 0 || length > p.times) {
                report_index(p.error, p.step, length);
                length = p.times;
            }
            bool inside = p.time < length;
            if (inside && p.reverse) at.time = length - 1 - p.time;
            at.read();
            if (p.part == HYP_CUDA_RECUR_RESET) {
                store_native(p.dtype, p.reset, i, at.f(at.sum(1)) * at.state());
                continue;
            }
            C h = 0;
            if (inside) {
                h = p.gates == 4 ? at.lstm() : p.gates == 3 ? at.gru() : at.f(at.sum(0));
                store_native(p.dtype, p.h, i, h);
            }
            store_native(p.dtype, p.y, at.time * total + i, h);
            if (p.cells) store_native(p.dtype, p.cells, at.time * total + i, inside ? ((const C *)p.c)[i] : (C)0);
        }
        if (p.last_h) store_native(p.dtype, p.last_h, i, at.state());
        if (p.last_c) store_native(p.dtype, p.last_c, i, ((const C *)p.c)[i]);
    }
}

// ---- gradients ------------------------------------------------------------------------------------------------

// Element `column` of the state of sequence `row`, which is element i of all.
template <typename C> struct back_cell {
    const hyp_cuda_recurrence_back &p;
    int64_t row, column, i;
    C h; // the gradient of the state behind this time

    __device__ __forceinline__ C slope(int which) const
    {
        return p.slope[which] ? load_native<C>(p.dtype, p.slope[which], p.time * p.batch * p.size.size + i) : (C)0;
    }
    // The gradient of gate g, and what the next product reads for it.
    __device__ __forceinline__ void give(int g, C v, C operand) const
    {
        int64_t at = row * p.columns + g * p.size.size + column;
        store_native(p.dtype, p.d, p.time * p.batch * p.columns + at, v);
        store_native(p.dtype, p.operand, at, operand);
    }
    __device__ __forceinline__ void give(int g, C v) const { give(g, v, v); }
    __device__ __forceinline__ void keep(C v) const { ((C *)p.h)[i] = v; }

    __device__ __forceinline__ void lstm() const
    {
        C c = ((const C *)p.c)[i] + slope(HYP_SLOPE_LSTM_A) * h;
        give(0, slope(HYP_SLOPE_LSTM_I) * c);
        give(1, slope(HYP_SLOPE_LSTM_O) * h);
        give(2, slope(HYP_SLOPE_LSTM_F) * c);
        give(3, slope(HYP_SLOPE_N) * c);
        ((C *)p.c)[i] = slope(HYP_SLOPE_LSTM_K) * c;
        keep(0);
    }
    __device__ __forceinline__ void gru() const
    {
        C candidate = slope(HYP_SLOPE_N) * h;
        give(0, slope(HYP_SLOPE_GRU_U) * h);
        if (p.reset_after) give(1, slope(HYP_SLOPE_GRU_S) * h);
        give(2, candidate, p.reset_after ? slope(HYP_SLOPE_GRU_M) * candidate : candidate);
        keep(slope(HYP_SLOPE_GRU_K) * h);
    }
    __device__ __forceinline__ void reset() const
    {
        C e = ((const C *)p.reset)[i];
        give(1, slope(HYP_SLOPE_GRU_S) * e);
        keep(((const C *)p.h)[i] + slope(HYP_SLOPE_GRU_M) * e);
    }
    __device__ __forceinline__ void rnn() const
    {
        give(0, slope(HYP_SLOPE_N) * h);
        keep(0);
    }
};

template <typename C> __device__ __forceinline__ void recur_back(const hyp_cuda_recurrence_back &p)
{
    int64_t total = p.batch * p.size.size;
#pragma unroll 1
    for (int64_t i = first_thread(); i < total; i += thread_count()) {
        back_cell<C> at = {p, divide(i, p.size), 0, i, 0};
        at.column = i - at.row * p.size.size;
        if (p.part == HYP_CUDA_BACK_BEGIN) {
            at.keep(p.last_h ? load_native<C>(p.dtype, p.last_h, i) : (C)0);
            ((C *)p.sums)[i] = 0;
            if (p.c) ((C *)p.c)[i] = p.last_c ? load_native<C>(p.dtype, p.last_c, i) : (C)0;
            continue;
        }
        if (p.part == HYP_CUDA_BACK_END) {
            store_native(p.dtype, p.first_h, i, ((const C *)p.h)[i] + ((const C *)p.sums)[i]);
            if (p.first_c) store_native(p.dtype, p.first_c, i, ((const C *)p.c)[i]);
            continue;
        }
        int64_t length = p.lengths ? load<int64_t>(p.lengths_dtype, p.lengths, at.row) : p.times;
        if (length < 0 || length > p.times) {
            report_index(p.error, p.step, length);
            length = p.times;
        }
        bool inside = p.time < length;
        if (p.part == HYP_CUDA_BACK_RESET) {
            if (inside) at.reset();
            continue;
        }
        at.h = ((const C *)p.h)[i] + ((const C *)p.sums)[i];
        if (!inside) {
            for (int g = 0; g < p.gates; g++) at.give(g, 0);
            at.keep(at.h);
            continue;
        }
        if (p.g) at.h += load_native<C>(p.dtype, p.g, p.time * total + i);
        if (p.gates == 4)
            at.lstm();
        else if (p.gates == 3)
            at.gru();
        else
            at.rnn();
    }
}

} // namespace hyp_device

KERNEL(recurrence_back_f32, hyp_cuda_recurrence_back, recur_back<float>(p))
KERNEL(recurrence_back_f64, hyp_cuda_recurrence_back, recur_back<double>(p))
KERNEL(recurrence_f32, hyp_cuda_recurrence, recur<float>(p))
KERNEL(recurrence_f64, hyp_cuda_recurrence, recur<double>(p))
