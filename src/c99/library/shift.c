/* To the right copies of the sign come in; by a number that is out of range all bits go. */
static int64_t hyp_shift(int64_t a, int64_t by, int left)
{
    if (by < 0 || by >= 64) return !left && a < 0 ? -1 : 0;
    if (left || a >= 0) return (int64_t)(left ? (uint64_t)a << by : (uint64_t)a >> by);
    return (int64_t) ~(~(uint64_t)a >> by);
}
