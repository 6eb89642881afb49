/* proof: that this engine (the compiler and processor that a module meets) computes what kernels rely on: a fast kernel
 * that is wrong on somebody's machine is worth nothing. Known faults: V8 12.4 and 13.6 (Node 22 and 24) on x86 without
 * AVX: their baseline compiler gives i16x8.relaxed_dot_i8x16_i7x16_s a wrong first operand where the result takes that
 * operand's register. */
#ifndef GW_PROOF_H
#define GW_PROOF_H

#include "base/base.h"

/* Every relaxed instruction that kernels use, in the shapes in which they use it, against plain C. For the start, when
 * another build can still be taken. 0, or GW_E_ENGINE: this build cannot be right here. What kernels can do without is
 * done without from then on, and gw_proof_note says so. Builds without relaxed instructions: 0. */
int gw_prove_instructions(gw_error *e);

/* What a model's kernels are of: bits 1 << n. */
typedef struct {
    uint32_t narrow;    /* GGML types of matrices that are multiplied with narrow activations (kernels.h) */
    uint32_t wide;      /* the same with wide ones */
    uint32_t rounded;   /* GGML types of floats that are rounded to Q8_0 */
    uint32_t caches;    /* GW_PROVE_…, of keys and values */
    bool planes;        /* an output head in two planes */
} gw_kernel_list;
enum { GW_PROVE_F32 = 1, GW_PROVE_I16 = 2, GW_PROVE_Q8 = 4 };

/* A small product by each of these kernels, with one row of activations and several, against the plain C ones, bit for
 * bit. Where one is wrong, relaxed products are done without what not every engine has, step by step, and all is tried
 * again. 0, or GW_E_ENGINE, which names the kernel. */
int gw_prove_kernels(const gw_kernel_list *list, gw_error *e);

/* What is done without, and why, in words; "" if nothing is. */
const char *gw_proof_note(void);
void gw_proof_note_add(const char *text);   /* of these files */
void gw_proof_note_clear(void);             /* for tests */

#endif
