/* arch: see arch.h. One row per architecture, below its source. */
#include "model/arch.h"

#include <string.h>

#define W(name) (1ull << GW_WEIGHT_##name)
#define ATTENTION (W(ATTN_NORM) | W(Q) | W(K) | W(V) | W(O))
#define QK_NORMS (W(Q_NORM) | W(K_NORM))
#define POST_NORMS (W(POST_ATTN_NORM) | W(POST_FFW_NORM))
#define GATED (W(FFN_NORM) | W(GATE) | W(UP) | W(DOWN))
#define PER_LAYER GW_PER_LAYER_EMBEDDINGS
#define LINEAR_BIASES (W(Q_BIAS) | W(K_BIAS) | W(V_BIAS) | W(O_BIAS) | W(GATE_BIAS) | W(UP_BIAS) | W(DOWN_BIAS))
#define ENDS (W(EMBEDDING) | W(OUTPUT_NORM))

static const gw_policy causal = { .generates = true, .texts = 16 };
static const gw_policy drafting = { .texts = 1, .drafts = true };
static const gw_policy bidirectional = { .bidirectional = true, .by_layer = true, .texts = GW_TEXTS };

#define GEMMA .norm = GW_NORM_RMS, .act = GW_ACT_GELU, .positions = GW_POSITIONS_HALVES, .scales_embedding = true
#define LLAMA .policy = &causal, .norm = GW_NORM_RMS, .act = GW_ACT_SILU

static const gw_arch table[] = {
    {
        /* Gemma Team 2024, arXiv 2403.08295 */
        .name = "gemma",
        .policy = &causal,
        .required = ENDS | ATTENTION | GATED,
        .optional = W(OUTPUT),
        GEMMA,
        .rope_base = 1e4,
    },
    {
        /* Gemma Team 2024, arXiv 2408.00118; the 27B has 46 layers */
        .name = "gemma2",
        .policy = &causal,
        .required = ENDS | ATTENTION | GATED | POST_NORMS,
        .optional = W(OUTPUT),
        GEMMA,
        .rope_base = 1e4,
        .rope_base_local = 1e4,
        .pattern = 2,
        .window = 4096,
        .attn_cap = 50,
        .logit_cap = 30,
        .layers_27b = 46,
    },
    {
        /* Gemma Team 2025, arXiv 2503.19786; existing files give neither the window pattern nor the local RoPE base;
         * the 27B has 62 layers */
        .name = "gemma3",
        .policy = &causal,
        .required = ENDS | ATTENTION | QK_NORMS | GATED | POST_NORMS,
        .optional = W(OUTPUT),
        GEMMA,
        .rope_base = 1e6,
        .rope_base_local = 1e4,
        .pattern = 6,
        .layers_27b = 62,
    },
    {
        /* Gemma 4 (2026): transformers 5.23, models/gemma4/modeling_gemma4.py; norm weights are stored as they are, not
         * as 1 + w */
        .name = "gemma4",
        .policy = &causal,
        .required = ENDS | (ATTENTION & ~W(V)) | QK_NORMS | GATED | POST_NORMS | W(LAYER_SCALE) | W(ROPE_FACTORS),
        .optional = W(V) | W(OUTPUT) | PER_LAYER,
        GEMMA,
        .rope_base = 1e6,
        .rope_base_local = 1e4,
        .pattern = 6,
        .logit_cap = 30,
        .unit_scale = true,
        .norms_values = true,
    },
    {
        /* Gemma 4's assistant (2026): transformers 5.23, models/gemma4_assistant/modeling_gemma4_assistant.py */
        .name = "gemma4-assistant",
        .policy = &drafting,
        .required = ENDS | W(ATTN_NORM) | W(Q) | W(Q_NORM) | W(O) | GATED | POST_NORMS | W(LAYER_SCALE) |
                    W(ROPE_FACTORS) | W(PRE_PROJ) | W(POST_PROJ),
        .optional = W(CENTROIDS) | W(ORDERING),
        GEMMA,
        .rope_base = 1e6,
        .rope_base_local = 1e4,
        .pattern = 6,
        .unit_scale = true,
    },
    {
        /* Vera et al. 2025, arXiv 2509.20354: Gemma 3 without a causal mask; some files lack the dense layers */
        .name = "gemma-embedding",
        .policy = &bidirectional,
        .required = ENDS | ATTENTION | QK_NORMS | GATED | POST_NORMS,
        .optional = W(DENSE_2) | W(DENSE_3),
        GEMMA,
        .rope_base = 1e6,
        .rope_base_local = 1e4,
        .pattern = 6,
        .window = 512,
    },
    {
        /* Radford et al. 2019, Language models are unsupervised multitask learners */
        .name = "gpt2",
        .policy = &causal,
        .required = ENDS | W(POSITIONS) | W(OUTPUT_NORM_BIAS) | W(ATTN_NORM) | W(ATTN_NORM_BIAS) | W(QKV) |
                    W(QKV_BIAS) | W(O) | W(O_BIAS) | W(FFN_NORM) | W(FFN_NORM_BIAS) | W(UP) | W(UP_BIAS) | W(DOWN) |
                    W(DOWN_BIAS),
        .optional = W(OUTPUT),
        .norm = GW_NORM_LAYER,
        .act = GW_ACT_GELU,
        .positions = GW_POSITIONS_LEARNED,
        .pre = "gpt-2",
    },
    {
        /* Touvron et al. 2023, arXiv 2302.13971; llama.cpp's converter permutes queries and keys so that RoPE rotates
         * adjacent columns */
        .name = "llama",
        LLAMA,
        .required = ENDS | ATTENTION | GATED,
        .optional = W(OUTPUT) | W(ROPE_FACTORS) | LINEAR_BIASES,
        .positions = GW_POSITIONS_PAIRS,
        .rope_base = 1e4,
        .space_prefix = true,
    },
    {
        /* HuggingFaceTB 2025, SmolLM3: llama without positions in every fourth layer (Yang et al. 2025, arXiv
         * 2501.18795) */
        .name = "smollm3",
        LLAMA,
        .required = ENDS | ATTENTION | GATED,
        .optional = W(OUTPUT),
        .positions = GW_POSITIONS_PAIRS,
        .rope_base = 1e4,
        .unrotated = 4,
    },
    {
        /* IBM 2024, Granite 3.0: llama with four scale factors (Yang et al. 2022, arXiv 2203.03466) */
        .name = "granite",
        LLAMA,
        .required = ENDS | ATTENTION | GATED,
        .optional = W(OUTPUT) | W(ROPE_FACTORS) | LINEAR_BIASES,
        .positions = GW_POSITIONS_PAIRS,
        .rope_base = 1e4,
        .multiplies = true,
    },
    {
        /* Microsoft 2024, Phi-3, arXiv 2404.14219; long RoPE: Ding et al. 2024, arXiv 2402.13753 */
        .name = "phi3",
        LLAMA,
        .required = ENDS | W(ATTN_NORM) | W(QKV) | W(O) | W(FFN_NORM) | W(GATE_UP) | W(DOWN),
        .optional = W(OUTPUT) | W(ROPE_SHORT) | W(ROPE_LONG),
        .positions = GW_POSITIONS_HALVES,
        .rope_base = 1e4,
        .rotates_part = true,
        .same_window = true,
        .space_prefix = true,
    },
    {
        /* Qwen Team 2024, arXiv 2407.10671 and 2412.15115 (Qwen2.5) */
        .name = "qwen2",
        LLAMA,
        .required = ENDS | ATTENTION | W(Q_BIAS) | W(K_BIAS) | W(V_BIAS) | GATED,
        .optional = W(OUTPUT),
        .positions = GW_POSITIONS_HALVES,
        .rope_base = 1e6,
    },
    {
        /* Qwen Team 2025, arXiv 2505.09388 */
        .name = "qwen3",
        LLAMA,
        .required = ENDS | ATTENTION | QK_NORMS | GATED,
        .optional = W(OUTPUT),
        .positions = GW_POSITIONS_HALVES,
        .rope_base = 1e6,
    },
};
enum { ARCHITECTURES = sizeof table / sizeof *table };

const char gw_arch_list[] =
    "gemma, gemma2, gemma3, gemma4, gemma4-assistant, gemma-embedding, gpt2, granite, llama, phi3, qwen2, qwen3 or smollm3";

const gw_arch *gw_arch_of(const char *name) {
    for (int i = 0; i < ARCHITECTURES; i++)
        if (!strcmp(table[i].name, name)) return &table[i];
    return NULL;
}
