#include "triton_types.h"

static const struct {
    hyp_dtype dtype;
    TRITONSERVER_DataType type;
    const char *name;
} types[] = {
    {HYP_F32, TRITONSERVER_TYPE_FP32, "TYPE_FP32"},     {HYP_F64, TRITONSERVER_TYPE_FP64, "TYPE_FP64"},
    {HYP_F16, TRITONSERVER_TYPE_FP16, "TYPE_FP16"},     {HYP_BF16, TRITONSERVER_TYPE_BF16, "TYPE_BF16"},
    {HYP_U8, TRITONSERVER_TYPE_UINT8, "TYPE_UINT8"},    {HYP_U16, TRITONSERVER_TYPE_UINT16, "TYPE_UINT16"},
    {HYP_U32, TRITONSERVER_TYPE_UINT32, "TYPE_UINT32"}, {HYP_U64, TRITONSERVER_TYPE_UINT64, "TYPE_UINT64"},
    {HYP_I8, TRITONSERVER_TYPE_INT8, "TYPE_INT8"},      {HYP_I16, TRITONSERVER_TYPE_INT16, "TYPE_INT16"},
    {HYP_I32, TRITONSERVER_TYPE_INT32, "TYPE_INT32"},   {HYP_I64, TRITONSERVER_TYPE_INT64, "TYPE_INT64"},
    {HYP_BOOL, TRITONSERVER_TYPE_BOOL, "TYPE_BOOL"},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

TRITONSERVER_DataType triton_type(hyp_dtype dtype)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == dtype) return types[i].type;
    return TRITONSERVER_TYPE_INVALID;
}

const char *triton_type_name(hyp_dtype dtype)
{
    for (int i = 0; i < TYPE_COUNT; i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}
