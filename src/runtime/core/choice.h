/* choice.h - one way to decide how a step is done, for every backend and every kind of step.
 *
 * A backend offers the alternatives of a step: a name, what the alternative is predicted to take (its prior), and where it
 * cannot do the step, why. The chooser takes what tuning found for the step's key, else what is predicted to take least,
 * and of equals what was offered first. All alternatives stay in the list, for those who ask what else was possible.
 *
 *   hyp_choice c;
 *   hyp_choice_init(&c);
 *   snprintf(c.key, sizeof c.key, ...);                   types, sizes: everything that the choice depends on
 *   hyp_choice_offer(&c, "cublaslt", LIBRARY, seconds, NULL);
 *   hyp_choice_offer(&c, "few-rows", OWN, seconds, rows > 16 ? "more than 16 rows" : NULL);
 *   switch (hyp_choose(&c, tuning)->form) ...
 *
 * Tuning measures the alternatives that can, in turns, and keeps the winner by hyp_choice_keep.
 */
#ifndef HYP_RUNTIME_CORE_CHOICE_H
#define HYP_RUNTIME_CORE_CHOICE_H

#include "runtime/core/tuning.h"

enum { HYP_CHOICE_KEY = 1024, HYP_CHOICE_NAME = 48, HYP_CHOICE_ALTERNATIVES = 16 };

typedef struct hyp_alternative {
    char name[HYP_CHOICE_NAME]; /* "few-rows", "split 4": unique in the list; what tuning keeps */
    const char *cannot;         /* static: why it does not do this step; NULL: it does */
    double seconds;             /* the prior */
    uint32_t form;              /* the backend's own: what it builds the alternative by */
} hyp_alternative;

/* A value: copied freely, owns nothing. */
typedef struct hyp_choice {
    char key[HYP_CHOICE_KEY]; /* empty: tuning does not know the step */
    /* Where the key has a size, and up to which larger one what was measured holds for this one, too. 0 = nowhere. */
    size_t size_at;
    int64_t size_most;
    hyp_alternative list[HYP_CHOICE_ALTERNATIVES];
    size_t count, taken;
    hyp_choice_by by;
    double measured; /* seconds that tuning found; 0 = not tuned */
} hyp_choice;

void hyp_choice_init(hyp_choice *c);
/* Appends an alternative; one too many is left out, and so is a name that is there. `name` is copied and cut to its room. */
void hyp_choice_offer(hyp_choice *c, const char *name, uint32_t form, double seconds, const char *cannot);
/* Decides, and notes how. `known` may be NULL. What tuning found is taken only if it is in the list and can. NULL when no
 * alternative can. Borrowed from c. */
const hyp_alternative *hyp_choose(hyp_choice *c, const hyp_tuning *known);
/* How many alternatives can. */
size_t hyp_choice_open(const hyp_choice *c);
/* Keeps in `known` that alternative `taken` was measured to take so many seconds, the one by priors `first_seconds`. */
HYP_NODISCARD hyp_status hyp_choice_keep(const hyp_choice *c, size_t taken, double seconds, double first_seconds,
                                         hyp_tuning *known, hyp_diag *diag);

#endif
