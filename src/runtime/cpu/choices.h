/* choices.h - how each kind of step can be done on the CPU. */
#ifndef HYP_RUNTIME_CPU_CHOICES_H
#define HYP_RUNTIME_CPU_CHOICES_H

#include "runtime/cpu/cpu.h"

/* Every alternative of a step under these dims, with its price, and the key; nothing is chosen yet. channels_last as
 * hyp_choose_layouts found it, or NULL where it is not known yet. */
void hyp_cpu_offer(const hyp_cpu_model *model, uint32_t step, const int64_t *values, const bool *channels_last,
                   hyp_choice *out);

#endif
