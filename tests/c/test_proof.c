/* The kernels' self-tests (proof.h): they pass in this build, and fail if an instruction is wrong. */
#include "kernels/kernels.h"
#include "kernels/proof.h"
#include "test.h"

static const gw_kernel_list everything = {
    .int8 = UINT32_MAX, .int15 = UINT32_MAX, .rounded = UINT32_MAX, .caches = UINT32_MAX, .planes = true
};

TEST(proofs_hold) {
    gw_error e = { 0 };
    CHECK_INT(gw_prove_instructions(&e), 0);
    CHECK_INT(gw_prove_kernels(&everything, &e), 0);
    CHECK_TEXT(gw_proof_note(), "");
}

#ifdef GW_RELAXED_SIMDE

static void as_at_first(void) {
    gw_relaxed_fault = GW_FAULT_NONE;
    gw_relaxed_engine = GW_ENGINE_PAIRS;
    gw_relaxed_pairs = GW_PAIRS_ASK;
    gw_relaxed_only_7_bits = false;
    gw_proof_note_clear();
}

TEST(proofs_hold_on_other_engines) {
    gw_error e = { 0 };
    for (gw_relaxed_engine = GW_ENGINE_PAIRS; gw_relaxed_engine <= GW_ENGINE_SIGNED; gw_relaxed_engine++) {
        CHECK_INT(gw_prove_instructions(&e), 0);
        CHECK_INT(gw_prove_kernels(&everything, &e), 0);
    }
    CHECK_TEXT(gw_proof_note(), "");
    as_at_first();
}

TEST(proof_does_without_wrong_pairs) {
    gw_error e = { 0 };
    gw_relaxed_fault = GW_FAULT_PAIRS;
    CHECK_INT(gw_prove_instructions(&e), 0);
    CHECK(gw_relaxed_pairs == 0 && strstr(gw_proof_note(), "i16x8.relaxed_dot_i8x16_i7x16_s"));
    CHECK_INT(gw_prove_kernels(&everything, &e), 0);
    as_at_first();
    gw_relaxed_fault = GW_FAULT_PAIRS; /* gw_prove_kernels() avoids the fault without gw_prove_instructions() */
    CHECK_INT(gw_prove_kernels(&everything, &e), 0);
    CHECK(gw_relaxed_pairs == 0 && strstr(gw_proof_note(), "pairs"));
    as_at_first();
}

TEST(proof_refuses_wrong_dots_and_swizzles) {
    for (int fault = GW_FAULT_DOT; fault <= GW_FAULT_SWIZZLE; fault++) {
        gw_error e = { 0 };
        gw_relaxed_fault = fault;
        CHECK_INT(gw_prove_instructions(&e), GW_E_ENGINE);
        CHECK(strstr(e.what, fault == GW_FAULT_DOT ? "i32x4.relaxed_dot" : "relaxed_swizzle"));
        if (fault == GW_FAULT_DOT) CHECK_INT(gw_prove_kernels(&everything, &e), GW_E_ENGINE);
        as_at_first();
    }
}

/* If an instruction is wrong only for bytes above 127, only products of 8-bit values avoid that instruction. */
TEST(proof_does_without_wrong_8_bits) {
    gw_error e = { 0 };
    gw_relaxed_engine = GW_ENGINE_UNSIGNED;
    gw_relaxed_fault = GW_FAULT_8_BITS;
    CHECK_INT(gw_prove_instructions(&e), 0);
    CHECK_INT(gw_prove_kernels(&everything, &e), 0);
    CHECK(gw_relaxed_only_7_bits && strstr(gw_proof_note(), "products of 8 bits"));
    as_at_first();
}

#endif
