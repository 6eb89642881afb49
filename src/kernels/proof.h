/* proof: checks that this JavaScript engine, with this processor, computes what the kernels rely on. A known fault: V8
 * 12.4 and 13.6 (Node 22 and 24) on x86 without AVX, whose baseline compiler gives i16x8.relaxed_dot_i8x16_i7x16_s a
 * wrong first operand if the result gets that operand's register. */
#ifndef GW_PROOF_H
#define GW_PROOF_H

#include "base/base.h"

/* Checks every relaxed instruction, in the forms in which kernels use it, against plain C. Call it at the start, when
 * another build can still be loaded. Returns 0, or GW_E_ENGINE if this build cannot give correct results here. If an
 * instruction gives wrong results, but kernels can avoid it, it is switched off (gw_proof_note). */
int gw_prove_instructions(gw_error *e);

/* The kernels that a model needs. Sets of GGML types have bit 1 << type. */
typedef struct {
    uint32_t int8;    /* GGML types of matrices multiplied by int8 activations (kernels.h) */
    uint32_t int15;   /* GGML types of matrices multiplied by int15 activations */
    uint32_t rounded; /* GGML types of floats rounded to Q8_0 */
    uint32_t caches;  /* types of the KV cache, a set of GW_PROVE_… */
    bool planes;      /* the output head has two stages (model/topk.c) */
} gw_kernel_list;
enum { GW_PROVE_F32 = 1, GW_PROVE_I16 = 2, GW_PROVE_Q8 = 4 };

/* Compares small products of each listed kernel, for one row of activations and for several, bit for bit with those of
 * ref.c. If a result is wrong, switches off the next instruction that kernels can avoid, and checks everything again.
 * Returns 0, or GW_E_ENGINE with a message that names the kernel. */
int gw_prove_kernels(const gw_kernel_list *list, gw_error *e);

/* Returns which instructions are switched off and why; "" if none are. */
const char *gw_proof_note(void);
void gw_proof_note_add(const char *text); /* adds a text to gw_proof_note(); for proof*.c only */
void gw_proof_note_clear(void);           /* empties gw_proof_note(); for tests */

#endif
