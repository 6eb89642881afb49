/* elements: the element-wise operations of the forward pass, between matrix products: norms, rotations, activations.
 * Work is divided among the pool's threads; the order of every sum is the same in every build. */
#ifndef GW_ELEMENTS_H
#define GW_ELEMENTS_H

#include "base/threads.h"
#include "model/arch.h"

/* Normalises groups of `width` columns: computes out = norm(x), or out += norm(x) if `add` is set. w NULL: a norm
 * without a weight. w->weight NULL: the model lacks this norm, so norm(x) is x. x and out may be the same. */
typedef struct {
    int kind; /* GW_NORM_… */
    float eps;
} gw_norm_rule;
void gw_normalise(gw_pool *p, gw_norm_rule rule, const gw_norm *w, uint32_t width, gw_view x, gw_view out, bool add);

/* Computes angles[n][gw_ld(rotated)]: gain times cosines, then sines, of scaled positions pos … pos + n - 1 times
 * base^(-2i/rotated) / factors[i] (Su et al. 2021); factors may be NULL. */
void gw_rope_angles(float *angles, int n, uint32_t pos, const gw_rope *rope, const float *factors);
/* Rotates the first rope->rotated columns of each head by RoPE, then multiplies all columns by scale; if `angles` is
 * NULL, only scales. If `pairs` is set, rotates columns 2 i and 2 i + 1 together, otherwise i and i + rotated / 2. */
void gw_rotate(gw_pool *p, gw_view x, const gw_rope *rope, const float *angles, bool pairs, float scale);

/* Computes gate = act(gate) * up, or up = act(up) if gate.at is NULL. act: GW_ACT_* */
void gw_activate(gw_pool *p, int act, gw_view gate, gw_view up);

void gw_add_bias(gw_pool *p, gw_view x, const float *bias); /* adds bias[columns] to each row; bias may be NULL */

#endif
