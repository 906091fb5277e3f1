/* egraph_proof.c - proofs as text and as JSON. */
#include "egraph_tool.h"

/* The steps of a proof, and of the proofs of the parts of a multi-pattern. */
static void print_steps_json(const hyp_proof *proof)
{
    printf("[");
    for (size_t i = 0; i < proof->count; i++) {
        const hyp_proof_step *step = &proof->steps[i];
        printf("%s\n  {\"rule\": ", i ? "," : "");
        print_text(step->rule);
        printf(", \"stated\": %s, \"forward\": %s, \"term\": ", step->stated ? "true" : "false",
               step->forward ? "true" : "false");
        print_text(step->term);
        for (size_t part = 0; part < step->part_count; part++) {
            printf(part ? ", " : ", \"parts\": [");
            print_steps_json(&step->parts[part]);
        }
        printf(step->part_count ? "]}" : "}");
    }
    printf("]");
}

static void print_steps(const hyp_proof *proof, int indent)
{
    for (size_t i = 0; i < proof->count; i++) {
        const hyp_proof_step *step = &proof->steps[i];
        if (step->rule) printf("%*s  = by %s%s\n", indent, "", step->forward ? "" : "reversed ", step->rule);
        for (size_t part = 0; part < step->part_count; part++) {
            printf("%*s    where\n", indent, "");
            print_steps(&step->parts[part], indent + 6);
        }
        printf("%*s%s\n", indent, "", step->term);
    }
}

static void print_use_json(hyp_lemma_use use)
{
    printf("[%u, %u, ", use.from, use.to);
    if (use.lemma == UINT32_MAX)
        printf("null]");
    else
        printf("%u]", use.lemma);
}

/* Terms as [operator, child...]; uses as [from, to, lemma]. The rules of this tool ask nothing, so there are no
 * queries. */
static void print_shared_json(const hyp_shared_proof *proof)
{
    static const char *const kinds[] = {"rule", "stated", "congruence", "chain"};
    printf("{\"terms\": [");
    for (size_t i = 0; i < proof->term_count; i++) {
        printf("%s\n  [", i ? "," : "");
        print_text(proof->terms[i].op);
        for (uint32_t j = 0; j < proof->terms[i].count; j++) printf(", %u", proof->terms[i].kids[j]);
        printf("]");
    }
    printf("],\n \"lemmas\": [");
    for (size_t i = 0; i < proof->lemma_count; i++) {
        const hyp_lemma *l = &proof->lemmas[i];
        printf("%s\n  {\"kind\": \"%s\", \"from\": %u, \"to\": %u", i ? "," : "", kinds[l->kind], l->from, l->to);
        if (l->rule) {
            printf(", \"rule\": ");
            print_text(l->rule);
        }
        printf(", \"uses\": [");
        for (size_t k = 0; k < l->use_count; k++) {
            if (k) printf(", ");
            print_use_json(l->uses[k]);
        }
        printf("]}");
    }
    printf("],\n \"claim\": ");
    print_use_json(proof->claim);
    printf("}");
}

/* A term of a proof: leaves by their symbols, others by their numbers. */
static void print_shared_term(const hyp_shared_proof *proof, uint32_t term)
{
    if (proof->terms[term].count)
        printf("t%u", term);
    else
        printf("%s", proof->terms[term].op);
}

/* The terms once, then the lemmas, each of which may use those before it. */
static void print_shared(const hyp_shared_proof *proof)
{
    static const char *const kinds[] = {"rule", "stated:", "congruence", "chain"};
    for (uint32_t i = 0; i < proof->term_count; i++) {
        const hyp_shared_term *t = &proof->terms[i];
        if (t->count) printf("let t%u = (%s", i, t->op);
        for (uint32_t j = 0; j < t->count; j++) {
            printf(" ");
            print_shared_term(proof, t->kids[j]);
        }
        if (t->count) printf(")\n");
    }
    for (size_t i = 0; i < proof->lemma_count; i++) {
        const hyp_lemma *l = &proof->lemmas[i];
        printf("lemma %zu: ", i);
        print_shared_term(proof, l->from);
        printf(" = ");
        print_shared_term(proof, l->to);
        printf(" by %s%s%s", kinds[l->kind], l->rule ? " " : "", l->rule ? l->rule : "");
        for (size_t k = 0, said = 0; k < l->use_count; k++)
            if (l->uses[k].lemma != UINT32_MAX) printf("%s%u", said++ ? ", " : " of ", l->uses[k].lemma);
        printf("\n");
    }
}

hyp_status print_checked(const hyp_shared_proof *shared, bool json, hyp_diag *diag)
{
    hyp_proof proof;
    hyp_status status = hyp_shared_proof_flatten(shared, &proof, diag);
    bool fits = status == HYP_OK;
    if (status != HYP_OK && status != HYP_ERR_LIMIT) return status;
    if (json) {
        printf(",\n \"checked\": true,\n \"shared_proof\": ");
        print_shared_json(shared);
        printf(",\n \"proof\": ");
        if (fits)
            print_steps_json(&proof);
        else
            printf("null");
    } else if (fits) {
        print_steps(&proof, 0);
        printf("checked: %zu steps\n", proof.count - 1);
    } else {
        print_shared(shared);
        printf("checked: %zu lemmas over %zu terms\n", shared->lemma_count, shared->term_count);
    }
    hyp_proof_dispose(&proof);
    return HYP_OK;
}
