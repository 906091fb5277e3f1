/* Truncated toward zero; what does not fit is the nearest that does, NaN is 0. */
static int64_t hyp_whole(float x)
{
    if (x != x) return 0;
    return x >= 9223372036854775808.0f ? INT64_MAX : x < -9223372036854775808.0f ? INT64_MIN : (int64_t)x;
}
