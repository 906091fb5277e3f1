// emulator_epilogues.hpp - what the emulated cuBLASLt does to results of products. Included by emulator.cpp alone.
//
// RELU_AUX leaves a bit for each result that is not below 0, as on an H100, the lowest first, GELU_AUX the sum; rows of D, which are neighbours, have neighbours there,
// columns are the leading dimension apart, in bits or elements. D*_BGRAD adds up what it has written, along columns of D,
// BGRADA and BGRADB what they have read of op(A) and op(B), along k.

enum { WITH_SUMS = CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB };
enum { WITH_AUX = 128, WITH_GRADIENT = 16, WITH_RELU = 2, WITH_DRELU = 8, WITH_GELU = 32, WITH_DGELU = 64 };

static bool wants_bias(cublasLtEpilogue_t e) { return e & (CUBLASLT_EPILOGUE_BIAS | WITH_GRADIENT | WITH_SUMS); }

// What the library says of a product before it has seen it: whether it has algorithms for the epilogue; what is wrong with how
// it is described ends the program.
static bool has_epilogue(const product *p, const layout *d)
{
    cublasLtEpilogue_t e = epilogue_of(p);
    bool ta = get<int32_t>(p->set, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
    if (is_mode("plain") && e != CUBLASLT_EPILOGUE_DEFAULT) return false;
    if (is_mode("no gradients") && (e & (WITH_GRADIENT | WITH_SUMS))) return false;
    if (wants_bias(e) && !get<uint64_t>(p->set, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 0))
        give_up("an algorithm was asked for before the bias was set");
    if ((e & WITH_SUMS) && ta) return false;
    if (!(e & WITH_AUX)) return true;
    int64_t ld = get<int64_t>(p->set, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0);
    if (!get<uint64_t>(p->set, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 0))
        give_up("an algorithm was asked for before the auxiliary memory was set");
    bool relu = e & (WITH_RELU | WITH_DRELU);
    return ld >= d->rows && ld % (relu ? 128 : 8) == 0;
}

static double gelu_slope(double v)
{
    double c = 0.79788456080286535588, t = tanh(c * (v + 0.044715 * v * v * v));
    return 0.5 * (1 + t) + 0.5 * v * (1 - t * t) * c * (1 + 3 * 0.044715 * v * v);
}

// What becomes of the results of a product. Attributes are looked up once.
struct finisher {
    cublasLtEpilogue_t epilogue;
    cudaDataType type;
    void *aux;
    int64_t aux_ld;

    finisher(const product &p, const layout &d)
        : epilogue(epilogue_of(&p)), type(d.type),
          aux((void *)get<uint64_t>(p.set, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 0)),
          aux_ld(get<int64_t>(p.set, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 0))
    {
    }

    // A result of D after the epilogue, which may write or read its auxiliary.
    double result(int64_t row, int64_t column, double v) const
    {
        int64_t at = column * aux_ld + row;
        uint8_t *byte = (uint8_t *)aux + at / 8, bit = (uint8_t)(1 << at % 8);
        if (epilogue & WITH_DRELU) return *byte & bit ? v : 0;
        if (epilogue & WITH_DGELU) return v * gelu_slope(read(type, aux, at));
        if ((epilogue & WITH_AUX) && (epilogue & WITH_RELU)) *byte = (uint8_t)(v >= 0 ? *byte | bit : *byte & ~bit);
        if ((epilogue & WITH_AUX) && (epilogue & WITH_GELU)) write(type, aux, at, v);
        if (epilogue & WITH_RELU) return v < 0 ? 0 : v;
        if (epilogue & WITH_GELU) return activation(HYP_PW_GELU_TANH, v);
        return v;
    }
};

// The gradient of a bias: sums of results, of rows of op(A), or of columns of op(B).
static void sum_bias(const queued_product &q, const std::vector<double> &sums)
{
    cublasLtEpilogue_t e = epilogue_of(&q.p);
    void *bias = (void *)get<uint64_t>(q.p.set, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 0);
    bool tb = get<int32_t>(q.p.set, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N) == CUBLAS_OP_T;
    if (e & WITH_GRADIENT)
        for (int64_t row = 0; row < q.d_at.rows; row++) write(q.d_at.type, bias, row, sums[(size_t)row]);
    bool ta = get<int32_t>(q.p.set, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N) == CUBLAS_OP_T;
    for (int64_t row = 0; (e & CUBLASLT_EPILOGUE_BGRADA) && row < q.d_at.rows; row++) {
        double sum = 0;
        for (int64_t j = 0; j < (ta ? q.a_at.rows : q.a_at.columns); j++)
            sum += read(q.a_at.type, q.a, ta ? row * q.a_at.ld + j : j * q.a_at.ld + row);
        write(q.d_at.type, bias, row, sum);
    }
    for (int64_t column = 0; (e & CUBLASLT_EPILOGUE_BGRADB) && column < q.d_at.columns; column++) {
        double sum = 0;
        for (int64_t j = 0; j < (tb ? q.b_at.columns : q.b_at.rows); j++)
            sum += read(q.b_at.type, q.b, tb ? j * q.b_at.ld + column : column * q.b_at.ld + j);
        write(q.d_at.type, bias, column, sum);
    }
}
