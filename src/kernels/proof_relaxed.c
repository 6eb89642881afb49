/* proof_relaxed: checks relaxed SIMD instructions (proof.h). A JavaScript engine may compile an instruction wrongly for
 * some registers only, so each instruction is tried in several shapes: with operands that are dead afterwards (the
 * result may get their register) or stay live (these are checked, too); with operands that are loaded, splatted,
 * shuffled and masked as in the kernels; and with chained accumulators. */
#include "kernels/proof.h"
#include "kernels/errors.h"
#include "kernels/kernels.h"

#ifdef GW_HAVE_RELAXED

#include "kernels/relaxed.h"

#include <string.h>

/* operands: the operands of the instruction under test. outcome: its result, and the operands afterwards, which it must
 * not change. */
typedef struct {
    int8_t x[16];
    uint8_t c[16]; /* 0 … 127 */
    int32_t sum[4];
} operands;
typedef struct {
    operands after;
    uint8_t result[16];
} outcome;

typedef void shape(const operands *in, outcome *out);

#define X wasm_v128_load(in->x)
#define C wasm_v128_load(in->c)
#define SUM wasm_v128_load(in->sum)
#define RESULT(v) wasm_v128_store(out->result, v)
#define KEEP(field, v) wasm_v128_store(&out->after.field, v)

/* Names of shapes list the operands that stay live: x, c or s; an o stands for an operand that is dead afterwards. */
#define PAIR_SHAPE(name, ...) \
    OUTLINE void pairs_##name(const operands *in, outcome *out) { __VA_ARGS__ }
PAIR_SHAPE(oo, RESULT(PAIRS(X, C));)
PAIR_SHAPE(xo, v128_t x = X; RESULT(PAIRS(x, C)); KEEP(x, x);)
PAIR_SHAPE(oc, v128_t c = C; RESULT(PAIRS(X, c)); KEEP(c, c);)
PAIR_SHAPE(xc, v128_t x = X, c = C; RESULT(PAIRS(x, c)); KEEP(x, x); KEEP(c, c);)
PAIR_SHAPE(later, v128_t c = C, x = X; RESULT(PAIRS(x, c));) /* the second operand is loaded before the first */

#define DOT_SHAPE(name, ...) \
    OUTLINE void dot_##name(const operands *in, outcome *out) { __VA_ARGS__ }
DOT_SHAPE(ooo, RESULT(DOT(X, C, SUM));)
DOT_SHAPE(xoo, v128_t x = X; RESULT(DOT(x, C, SUM)); KEEP(x, x);)
DOT_SHAPE(oco, v128_t c = C; RESULT(DOT(X, c, SUM)); KEEP(c, c);)
DOT_SHAPE(oos, v128_t s = SUM; RESULT(DOT(X, C, s)); KEEP(sum, s);)
DOT_SHAPE(xco, v128_t x = X, c = C; RESULT(DOT(x, c, SUM)); KEEP(x, x); KEEP(c, c);)
DOT_SHAPE(xos, v128_t x = X, s = SUM; RESULT(DOT(x, C, s)); KEEP(x, x); KEEP(sum, s);)
DOT_SHAPE(ocs, v128_t c = C, s = SUM; RESULT(DOT(X, c, s)); KEEP(c, c); KEEP(sum, s);)
DOT_SHAPE(xcs, v128_t x = X, c = C, s = SUM; RESULT(DOT(x, c, s)); KEEP(x, x); KEEP(c, c); KEEP(sum, s);)
DOT_SHAPE(later, v128_t s = SUM, c = C, x = X; RESULT(DOT(x, c, s));)

/* Joins one lane of each of four results, at its own position, for shapes whose operands are made from single lanes:
 * the expected result is the same as for whole vectors. */
INLINE v128_t from_lanes(v128_t a, v128_t b, v128_t c, v128_t d) {
    v128_t low = wasm_i32x4_shuffle(a, b, 0, 5, 0, 5), high = wasm_i32x4_shuffle(c, d, 2, 7, 2, 7);
    return wasm_i32x4_shuffle(low, high, 0, 1, 6, 7);
}

PAIR_SHAPE(lanes, v128_t x = X, c = C, low = unknown(0x7f7f7f7f);
           RESULT(from_lanes(PAIRS(LANE(x, 0), wasm_v128_and(c, low)), PAIRS(LANE(x, 1), wasm_v128_and(c, low)),
                             PAIRS(LANE(x, 2), wasm_v128_and(c, low)), PAIRS(LANE(x, 3), wasm_v128_and(c, low))));
           KEEP(x, x); KEEP(c, c);)
PAIR_SHAPE(splats, v128_t c = C; RESULT(from_lanes(PAIRS(SPLAT(in->x), c), PAIRS(SPLAT(in->x + 4), c),
                                                   PAIRS(SPLAT(in->x + 8), c), PAIRS(SPLAT(in->x + 12), C)));
           KEEP(c, c);)
PAIR_SHAPE(chained, v128_t x = X, c = C, zero = wasm_i32x4_splat(0), sum = PAIRS(x, zero);
           sum = add_pairs(sum, zero, c); sum = add_pairs(sum, x, c); sum = wasm_i16x8_add(PAIRS(zero, C), sum);
           RESULT(sum); KEEP(x, x); KEEP(c, c);)
DOT_SHAPE(lanes, v128_t x = X, c = C, s = SUM, low = unknown(0x7f7f7f7f);
          RESULT(from_lanes(DOT(LANE(x, 0), wasm_v128_and(c, low), s), DOT(LANE(x, 1), wasm_v128_and(c, low), s),
                            DOT(LANE(x, 2), wasm_v128_and(c, low), s), DOT(LANE(x, 3), wasm_v128_and(c, low), s)));
          KEEP(x, x); KEEP(c, c); KEEP(sum, s);)
DOT_SHAPE(splats, v128_t c = C, s = SUM;
          RESULT(from_lanes(DOT(SPLAT(in->x), c, s), DOT(SPLAT(in->x + 4), c, s), DOT(SPLAT(in->x + 8), c, SUM),
                            DOT(SPLAT(in->x + 12), C, s)));
          KEEP(c, c); KEEP(sum, s);)
DOT_SHAPE(chained, v128_t x = X, c = C, zero = wasm_i32x4_splat(0);
          RESULT(DOT(zero, C, DOT(x, c, DOT(X, zero, DOT(zero, c, SUM))))); KEEP(x, x); KEEP(c, c);)

/* These shapes look up bytes of the table x by the low nibbles of c. */
#define SWIZZLE_SHAPE(name, ...) \
    OUTLINE void swizzle_##name(const operands *in, outcome *out) { __VA_ARGS__ }
#define INDEX wasm_v128_and(C, unknown(0x0f0f0f0f))
SWIZZLE_SHAPE(oo, RESULT(SWIZZLE(X, INDEX));)
SWIZZLE_SHAPE(xo, v128_t x = X; RESULT(SWIZZLE(x, INDEX)); KEEP(x, x);)
SWIZZLE_SHAPE(oc, v128_t c = INDEX; RESULT(wasm_v128_or(SWIZZLE(X, c), wasm_v128_andnot(c, unknown(0x0f0f0f0f))));)
SWIZZLE_SHAPE(xc, v128_t x = X, c = C, low = unknown(0x0f0f0f0f), i = wasm_v128_and(c, low);
              v128_t values = SWIZZLE(x, i); RESULT(wasm_v128_or(values, wasm_v128_andnot(i, low))); KEEP(x, x);
              KEEP(c, c);)

typedef void plain(const operands *in, uint8_t *result);

static void plain_pairs(const operands *in, uint8_t *result) {
    for (int i = 0; i < 8; i++) {
        int16_t sum = (int16_t)(in->x[2 * i] * in->c[2 * i] + in->x[2 * i + 1] * in->c[2 * i + 1]);
        memcpy(result + 2 * i, &sum, sizeof sum);
    }
}

static void plain_dot(const operands *in, uint8_t *result) {
    for (int i = 0; i < 4; i++) {
        int32_t sum = in->sum[i];
        for (int j = 4 * i; j < 4 * i + 4; j++) sum += in->x[j] * in->c[j];
        memcpy(result + 4 * i, &sum, sizeof sum);
    }
}

static void plain_swizzle(const operands *in, uint8_t *result) {
    for (int i = 0; i < 16; i++) result[i] = (uint8_t)in->x[in->c[i] & 15];
}

static shape *const pair_shapes[] = { pairs_oo,    pairs_xo,     pairs_oc,      pairs_xc, pairs_later,
                                      pairs_lanes, pairs_splats, pairs_chained, NULL };
static shape *const dot_shapes[] = { dot_ooo, dot_xoo,   dot_oco,   dot_oos,    dot_xco,     dot_xos, dot_ocs,
                                     dot_xcs, dot_later, dot_lanes, dot_splats, dot_chained, NULL };
static shape *const swizzle_shapes[] = { swizzle_oo, swizzle_xo, swizzle_oc, swizzle_xc, NULL };

enum { ROUNDS = 8 };

static void choose_operands(operands *in, int round, uint32_t *seed) {
    for (int i = 0; i < 16; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        bool extreme = round % 2, minus = *seed >> 31;
        in->x[i] = (int8_t)(extreme ? (minus ? -127 : 127) : (int)(*seed >> 24) - 128);
        in->c[i] = (uint8_t)(extreme ? 127 : *seed >> 9 & 127);
        if (i < 4) in->sum[i] = (int32_t)*seed >> 8;
    }
}

static bool holds(shape *const *shapes, plain *expect) {
    uint32_t seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        operands in;
        choose_operands(&in, round, &seed);
        outcome want = { .after = in };
        expect(&in, want.result);
        for (int i = 0; shapes[i]; i++) {
            outcome got = { .after = in };
            shapes[i](&in, &got);
            if (memcmp(&got, &want, sizeof got)) return false;
        }
    }
    return true;
}

static int wrong(gw_error *e, const char *name) { return gw_fail(e, MSG_WRONG_INSTRUCTION, name); }

int gw_prove_instructions(gw_error *e) {
    if (!holds(dot_shapes, plain_dot)) return wrong(e, "i32x4.relaxed_dot_i8x16_i7x16_add_s");
    if (!holds(swizzle_shapes, plain_swizzle)) return wrong(e, "i8x16.relaxed_swizzle");
    if (gw_relaxed_pairs != 0 && !holds(pair_shapes, plain_pairs)) {
        gw_relaxed_pairs = 0;
        gw_proof_note_add("i16x8.relaxed_dot_i8x16_i7x16_s gives wrong results and is not used");
    }
    return 0;
}

#else

int gw_prove_instructions(gw_error *e) {
    (void)e;
    return 0;
}

#endif
