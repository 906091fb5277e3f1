/* hyp_floats where all numbers are floats, which export.c writes; here as a compiler wants it. */
enum hyp_kind { HYP_FLOATS };
#define hyp_floats(kind, x, first, count, room) ((void)(room), (const float *)(x) + (first))
