/* Loading through the API: chunks of any size give the same model, each truncated or malformed file gives its error and
 * can be freed, and the memory plan is exact. */
#include "api.h"
#include "model/config.h"
#include "model/load.h"
#include "file/types.h"
#include "run/session.h"
#include "rig.h"
#include "test.h"

static const tiny_config one_layer = {
    .n_embd = 32,
    .n_layer = 1,
    .n_ff = 32,
    .n_head = 2,
    .n_head_kv = 1,
    .head_dim = 16,
    .window = 8,
    .n_ctx = 32,
    .n_vocab = 20,
    .pattern = 1,
    .embd = GW_Q8_0,
    .attn = GW_Q8_0,
    .ffn = GW_Q8_0,
    .head = -1,
    .seed = 1,
};

static void check_chunks(const tiny_config *c, gw_pool *pool) {
    static const size_t chunks[] = { 1 << 30, 1, 7, 4096, 0 };
    scoped_file f = tiny_make(c);
    float first[64], logits[64];
    for (int i = 0; i < 5; i++) {
        scoped_model *m = fresh(pool);
        CHECK_INT(tiny_feed(m, f.data, f.size, chunks[i], 0), GW_LOAD_READY);
        CHECK_INT(gw_load_end(m), 0);
        CHECK_INT(gw_load_room(m), 0);
        logits_of(m, i ? logits : first, c->n_vocab);
        if (i) CHECK(!memcmp(first, logits, c->n_vocab * sizeof(float)));
    }
}

THREADED_TEST(load_any_chunks_give_the_same_bits) {
    static const int types[] = { GW_F32, GW_F16, GW_BF16, GW_Q8_0, GW_Q4_0 };
    scoped_pool *pool = gw_pool_new(2);
    for (int i = 0; i < 5; i++) {
        tiny_config c = small;
        c.embd = types[i], c.attn = types[(i + 1) % 5], c.ffn = types[(i + 2) % 5];
        c.head = i % 2 ? types[(i + 3) % 5] : -1;
        c.alignment = i % 2 ? 64 : 0;
        check_chunks(&c, pool);
    }
}

TEST(load_ready_comes_with_the_last_weight_and_ignores_what_follows) {
    scoped_file f = tiny_make(&small);
    scoped_model *m = fresh(one_thread());
    const tiny_tensor *last = &f.tensors[f.n_tensors - 1];
    double end = (double)(f.header + last->offset + last->bytes);
    CHECK_INT(tiny_feed(m, f.data, (size_t)end - 1, 0, 0), GW_LOAD_WEIGHTS);
    CHECK_NEAR(gw_model_number(m, "file_bytes"), end, 0);
    CHECK_INT(gw_load_end(m), GW_E_TRUNCATED);
    char bytes[64];
    snprintf(bytes, sizeof bytes, "%.0f bytes", end);
    CHECK_SAYS(gw_error_text(m, "what"), bytes);
    snprintf(bytes, sizeof bytes, "%.0f bytes", end - 1);
    CHECK_SAYS(gw_error_text(m, "what"), bytes);
    ((uint8_t *)gw_load_window(m))[0] = f.data[(size_t)end - 1];
    CHECK_INT(gw_load_commit(m, 1), GW_LOAD_READY);
    CHECK_INT(gw_load_end(m), 0);
}

TEST(load_truncated_anywhere) {
    scoped_file f = tiny_make(&small);
    size_t end = f.header + f.tensors[f.n_tensors - 1].offset + f.tensors[f.n_tensors - 1].bytes;
    for (size_t size = 0; size < end; size += size < f.header ? 1 : 97) {
        scoped_model *m = fresh(one_thread());
        int state = tiny_feed(m, f.data, size, 1 << 30, 16);
        if (state < 0) gw_test_fail(__FILE__, __LINE__, "%zu bytes: %s", size, gw_error_name(state));
        CHECK(state != GW_LOAD_READY);
        CHECK_INT(gw_load_end(m), GW_E_TRUNCATED);
        CHECK_TEXT(gw_error_text(m, "code"), "truncated");
        const int32_t id = 2;
        CHECK_INT(gw_sync(m, &id, 1), GW_E_BAD_STATE);
        CHECK_INT(gw_run(m, 0), GW_E_BAD_STATE);
        CHECK_INT(gw_append(m, 1), GW_E_BAD_STATE);
    }
}

typedef struct {
    tiny_damage damage;
    const char *victim;
    double number;
    const char *text;
    int code;
    const char *says;
} bad_file;

#define KEY(name) "gemma3." name
static const bad_file bad_files[] = {
    { TINY_DROP_TENSOR, "blk.1.ffn_up.weight", 0, 0, GW_E_MISSING_TENSOR,
      "The tensor blk.1.ffn_up.weight is missing." },
    { TINY_DROP_TENSOR, "blk.0.attn_q_norm.weight", 0, 0, GW_E_MISSING_TENSOR,
      "The tensor blk.0.attn_q_norm.weight is missing." },
    { TINY_DROP_TENSOR, "token_embd.weight", 0, 0, GW_E_MISSING_TENSOR, "The tensor token_embd.weight is missing." },
    { TINY_DROP_TENSOR, "output_norm.weight", 0, 0, GW_E_MISSING_TENSOR, "The tensor output_norm.weight is missing." },
    { TINY_TWICE, "blk.0.attn_v.weight", 0, 0, GW_E_DUPLICATE, "The tensor blk.0.attn_v.weight occurs twice." },
    { TINY_TWICE, "blk.1.ffn_norm.weight", 0, 0, GW_E_DUPLICATE, "The tensor blk.1.ffn_norm.weight occurs twice." },
    { TINY_SHAPE, "blk.0.attn_k.weight", 12, 0, GW_E_BAD_SHAPE,
      "Tensor blk.0.attn_k.weight must have the shape [32, 16] (got [32, 12, 1, 1])." },
    { TINY_SHAPE, "blk.1.attn_norm.weight", 31, 0, GW_E_BAD_SHAPE,
      "Tensor blk.1.attn_norm.weight must have the shape [32] (got [31, 1, 1, 1])." },
    { TINY_SHAPE, "token_embd.weight", 41, 0, GW_E_BAD_SHAPE,
      "Tensor token_embd.weight must have the shape [32, 40] (got [32, 41, 1, 1])." },
    { TINY_TYPE, "blk.0.ffn_down.weight", 16, 0, GW_E_BAD_SHAPE,
      "The row length of tensor blk.0.ffn_down.weight must be a multiple of 256, the block size of its type IQ2_XXS (got 64)." },
    { TINY_TYPE, "blk.0.ffn_down.weight", 9, 0, GW_E_UNSUPPORTED_TYPE,
      "Tensor blk.0.ffn_down.weight has the unsupported type Q8_1; it can be F32, F16, " },
    { TINY_TYPE, "blk.0.attn_norm.weight", 39, 0, GW_E_UNSUPPORTED_TYPE,
      "Tensor blk.0.attn_norm.weight has the unsupported type MXFP4; it can be F32." },
    { TINY_TYPE, "blk.1.attn_q.weight", 9999, 0, GW_E_UNSUPPORTED_TYPE,
      "Tensor blk.1.attn_q.weight has the unknown GGML type 9999." },
    { TINY_OFFSET, "blk.0.ffn_gate.weight", 0, 0, GW_E_TENSOR_RANGE,
      "The offset of tensor blk.0.ffn_gate.weight must be 1376, where the tensor before it ends (got 0)." },
    { TINY_OFFSET, "blk.0.ffn_gate.weight", 1 << 20, 0, GW_E_TENSOR_RANGE,
      "The offset of tensor blk.0.ffn_up.weight must be 2656, where the tensor before it ends (got 3808)." },
    { TINY_OFFSET, "blk.0.ffn_gate.weight", 33, 0, GW_E_TENSOR_RANGE,
      "The offset of tensor blk.0.ffn_gate.weight must be a multiple of the alignment, 32, and at most 2^53 (got 33)." },
    { TINY_OFFSET, "blk.0.ffn_gate.weight", 1e18, 0, GW_E_TENSOR_RANGE,
      "The offset of tensor blk.0.ffn_gate.weight must be a multiple of the alignment, 32, and at most 2^53 (got 1000000000000000000)." },
    { TINY_DROP_KEY, "general.architecture", 0, 0, GW_E_MISSING_KEY,
      "The metadata key general.architecture is missing. It must be gemma, gemma2, gemma3, gemma4, gemma4-assistant, gemma-embedding, gpt2, granite, llama, phi3, qwen2, qwen3 or smollm3." },
    { TINY_SET_KEY, "general.architecture", 0, "mamba", GW_E_UNSUPPORTED_ARCH,
      "The metadata key general.architecture must be gemma, gemma2, gemma3, gemma4, gemma4-assistant, gemma-embedding, gpt2, granite, llama, phi3, qwen2, qwen3 or smollm3 (got mamba)." },
    { TINY_SET_KEY, "general.architecture", 0, "gemma3n", GW_E_UNSUPPORTED_ARCH,
      "The metadata key general.architecture must be gemma, gemma2, gemma3, gemma4, gemma4-assistant, gemma-embedding, gpt2, granite, llama, phi3, qwen2, qwen3 or smollm3 (got gemma3n)." },
    { TINY_DROP_KEY, KEY("embedding_length"), 0, 0, GW_E_MISSING_KEY,
      "The metadata key gemma3.embedding_length is missing." },
    { TINY_SET_KEY, KEY("embedding_length"), 0, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.embedding_length must be a whole number from 8 to 65536 (got 0)." },
    { TINY_SET_KEY, KEY("embedding_length"), 32.5, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.embedding_length must be a whole number from 8 to 65536 (got 32.5)." },
    { TINY_SET_KEY, KEY("block_count"), 4e9, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.block_count must be a whole number from 1 to 512 (got 4e+09)." },
    { TINY_SET_KEY, KEY("block_count"), -1, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.block_count must be a whole number from 1 to 512 (got -1)." },
    { TINY_SET_KEY, KEY("block_count"), 3, 0, GW_E_MISSING_TENSOR, "The tensor blk.2.attn_norm.weight is missing." },
    { TINY_SET_KEY, KEY("feed_forward_length"), NAN, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.feed_forward_length must be a whole number from 1 to 1048576, but is not a number." },
    { TINY_SET_KEY, KEY("feed_forward_length"), 96, 0, GW_E_BAD_SHAPE,
      "Tensor blk.0.ffn_down.weight must have the shape [96, 32] (got [64, 32, 1, 1])." },
    { TINY_SET_KEY, KEY("context_length"), 1e9, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.context_length must be a whole number from 1 to 1048576 (got 1e+09)." },
    { TINY_KEY_AS_TEXT, KEY("context_length"), 0, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.context_length must be a whole number from 1 to 1048576, but is not a number." },
    { TINY_SET_KEY, KEY("attention.head_count"), 3, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.attention.head_count must be a multiple of head_count_kv = 2 (got 3)." },
    { TINY_SET_KEY, KEY("attention.key_length"), 12, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.attention.key_length must be a multiple of 8 (got 12)." },
    { TINY_SET_KEY, KEY("attention.value_length"), 16, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.attention.value_length must be 8, like key_length (got 16)." },
    { TINY_SET_KEY, KEY("attention.layer_norm_rms_epsilon"), -1, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.attention.layer_norm_rms_epsilon must be a positive number (got -1)." },
    { TINY_SET_KEY, KEY("rope.freq_base"), INFINITY, 0, GW_E_BAD_METADATA,
      "The metadata key gemma3.rope.freq_base must be a positive number (got inf)." },
    { TINY_DROP_KEY, "tokenizer.ggml.model", 0, 0, GW_E_MISSING_TOKENIZER,
      "The file has no tokenizer: the metadata key tokenizer.ggml.model is missing." },
    { TINY_DROP_KEY, "tokenizer.ggml.tokens", 0, 0, GW_E_MISSING_TOKENIZER,
      "The file has no tokenizer: the metadata key tokenizer.ggml.tokens is missing." },
    { TINY_EMPTY_ARRAY, "tokenizer.ggml.tokens", 0, 0, GW_E_MISSING_TOKENIZER,
      "The file has no tokenizer: the metadata key tokenizer.ggml.tokens is missing." },
    { TINY_SET_KEY, "tokenizer.ggml.model", 0, "bert", GW_E_BAD_TOKENIZER,
      "The metadata key tokenizer.ggml.model must be llama, gpt2 or gemma4 (got bert)." },
    { TINY_DROP_KEY, "tokenizer.ggml.scores", 0, 0, GW_E_BAD_TOKENIZER,
      "The metadata key tokenizer.ggml.scores must have 40 elements, one per token (got 0)." },
    { TINY_SHORT_ARRAY, "tokenizer.ggml.scores", 0, 0, GW_E_BAD_TOKENIZER,
      "The metadata key tokenizer.ggml.scores must have 40 elements, one per token (got 39)." },
    { TINY_SHORT_ARRAY, "tokenizer.ggml.token_type", 0, 0, GW_E_BAD_TOKENIZER,
      "The metadata key tokenizer.ggml.token_type must have 40 elements, one per token (got 39)." },
    { TINY_SET_KEY, "tokenizer.ggml.bos_token_id", 40, 0, GW_E_BAD_METADATA,
      "The metadata key tokenizer.ggml.bos_token_id must be a number below 40 (got 40)." },
    { TINY_SET_KEY, "tokenizer.ggml.eos_token_id", 4294967294., 0, GW_E_BAD_METADATA,
      "The metadata key tokenizer.ggml.eos_token_id must be a number below 40 (got 4294967294)." },
    { TINY_SET_KEY, "tokenizer.ggml.eos_token_id", -2, 0, GW_E_BAD_METADATA,
      "The metadata key tokenizer.ggml.eos_token_id must be a number below 40 (got -2)." },
    { TINY_SET_KEY, "tokenizer.ggml.eot_token_id", NAN, 0, GW_E_BAD_METADATA,
      "The metadata key tokenizer.ggml.eot_token_id must be a number below 40, but is not a number." },
    { TINY_KEY_AS_TEXT, "tokenizer.ggml.eos_token_id", 0, 0, GW_E_BAD_METADATA,
      "The metadata key tokenizer.ggml.eos_token_id must be a number below 40, but is not a number." },
    { TINY_SET_KEY, "tokenizer.ggml.eom_token_id", 1e6, 0, GW_E_BAD_METADATA,
      "The metadata key tokenizer.ggml.eom_token_id must be a number below 40 (got 1000000)." },
    { TINY_SHORT_ARRAY, KEY("attention.sliding_window_pattern"), 0, 0, GW_E_BAD_METADATA,
      "sliding_window_pattern must have a bool or whole number for each of the 2 layers (got an array of 1, of GGUF type 7)." },
};

static void check_bad(const bad_file *b, size_t chunk) {
    tiny_config c = small;
    c.damage = b->damage, c.victim = b->victim, c.number = b->number, c.text = b->text;
    c.pattern_as_bools = strstr(b->victim, "pattern") != NULL;
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    int code = tiny_feed(m, f.data, f.size, chunk, 0);
    if (code != b->code)
        gw_test_fail(__FILE__, __LINE__, "%s: expected %s, got %s (%s)", b->victim, gw_error_name(b->code),
                     gw_error_name(code), gw_error_text(m, "what"));
    CHECK_TEXT(gw_error_text(m, "code"), gw_error_name(b->code));
    CHECK_SAYS(gw_error_text(m, "what"), b->says);
    CHECK_INT(gw_load_commit(m, 0), code);
    CHECK_INT(gw_load_end(m), code);
    CHECK_INT(gw_load_room(m), 0);
    const int32_t id = 2;
    CHECK_INT(gw_sync(m, &id, 1), GW_E_BAD_STATE);
}

TEST(load_every_damage_has_its_code_and_names_the_thing) {
    for (size_t i = 0; i < COUNT(bad_files); i++) {
        check_bad(&bad_files[i], 1 << 30);
        check_bad(&bad_files[i], 5);
    }
}

TEST(load_refuses_two_names_of_the_same_weight) {
    tiny_config c = small;
    c.n_layer = 11, c.damage = TINY_TWICE, c.victim = "blk.10.attn_q.weight";
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    uint8_t *name = f.data;
    while (memcmp(name, c.victim, strlen(c.victim))) name++;
    memcpy(name, "blk.01", 6);
    CHECK_INT(tiny_feed(m, f.data, f.size, 0, 0), GW_E_DUPLICATE);
    CHECK_SAYS(gw_error_text(m, "what"), ".attn_q.weight occurs twice.");
}

static int config_of_embedding_model(uint32_t heads_of_last_layer, double global, double local, double shared) {
    static const char *const keys[] = {
        "context_length",         "embedding_length",         "block_count",
        "feed_forward_length",    "attention.head_count",     "attention.key_length",
        "attention.value_length", "attention.key_length_swa", "attention.shared_kv_layers"
    };
    const double values[] = { 64, 32, 7, 64, 4, global, global, local, shared };
    gw_store s = { 0 };
    gw_error e = { 0 };
    gw_gguf_value arch = { .type = GW_GGUF_STRING, .text = "gemma-embedding", .len = 15 };
    gw_config *c = malloc(sizeof *c);
    char key[80];
    CHECK_INT(gw_store_value(&s, "general.architecture", &arch, &e), 0);
    for (size_t i = 0; i < COUNT(keys); i++) {
        gw_gguf_value v = { .type = GW_GGUF_U32, .number = values[i] };
        snprintf(key, sizeof key, "gemma-embedding.%s", keys[i]);
        CHECK_INT(gw_store_value(&s, key, &v, &e), 0);
    }
    CHECK_INT(gw_store_array(&s, "gemma-embedding.attention.head_count_kv", GW_GGUF_U32, 7, &e), 0);
    for (int l = 0; l < 7; l++) {
        gw_gguf_value v = { .type = GW_GGUF_U32, .number = l < 6 ? 2 : heads_of_last_layer };
        CHECK_INT(gw_store_element(&s, &v, &e), 0);
    }
    int bad = gw_config_read(c, &s, &e);
    free(c);
    gw_store_free(&s);
    return bad;
}

TEST(load_refuses_layers_that_cannot_share_a_cache) {
    CHECK_INT(config_of_embedding_model(2, 16, 16, 0), 0);
    CHECK_INT(config_of_embedding_model(4, 16, 16, 0), GW_E_BAD_METADATA);
    CHECK_INT(config_of_embedding_model(2, 512, 16, 0), GW_E_BAD_METADATA);
    CHECK_INT(config_of_embedding_model(2, 16, 16, 1), GW_E_BAD_METADATA);
}

TEST(load_takes_minus_one_and_an_unknown_padding_token_for_none) {
    static const struct {
        const char *key, *number;
        double value;
    } files[] = {
        { "tokenizer.ggml.bos_token_id", "bos_id", -1 },
        { "tokenizer.ggml.eos_token_id", "eos_id", -1 },
        { "tokenizer.ggml.padding_token_id", "pad_id", -1 },
        { "tokenizer.ggml.padding_token_id", "pad_id", 40 },
        { "tokenizer.ggml.eos_token_id", "eos_id", UINT32_MAX },
        { "tokenizer.ggml.padding_token_id", "pad_id", UINT32_MAX },
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        tiny_config c = small;
        c.damage = TINY_SET_KEY, c.victim = files[i].key, c.number = files[i].value;
        scoped_file f = tiny_make(&c);
        scoped_model *m = fresh(one_thread());
        CHECK_INT(tiny_feed(m, f.data, f.size, 0, 0), GW_LOAD_READY);
        CHECK(isnan(gw_model_number(m, files[i].number)));
    }
}

TEST(load_calls_out_of_order_are_refused) {
    scoped_file f = tiny_make(&small);
    scoped_model *m = fresh(one_thread());
    int32_t ids[8] = { 2 };
    CHECK_INT(gw_load_reserve(m, 0), GW_E_BAD_STATE);
    CHECK(isnan(gw_plan_bytes(m, 0, "total")) && isnan(gw_model_number(m, "n_embd")));
    CHECK(!gw_model_text(m, "architecture"));
    CHECK(gw_encode(m, "ab", 2, 0, ids, 8) < 0);
    CHECK(gw_decode(m, -1, 2, 0, (char *)ids, 8) < 0);
    CHECK_INT(gw_set_option(m, "temperature", 1), GW_E_BAD_STATE);
    CHECK_INT(gw_set_bias(m, 1, 1), GW_E_BAD_STATE);
    CHECK(!gw_sampler_of(m) && !gw_metadata_json(m, 0) && !gw_tensor_json(m, 0));
    gw_clear(m);
    CHECK_INT(gw_load_commit(m, (size_t)1 << 30), GW_E_BAD_STATE);
    memcpy(gw_load_window(m), f.data, f.size);
    CHECK_INT(gw_load_commit(m, f.size), GW_LOAD_PLAN);
    CHECK_INT(gw_load_commit(m, 0), GW_LOAD_PLAN);
    CHECK_INT(gw_sync(m, ids, 1), GW_E_BAD_STATE);
    CHECK(isnan(gw_model_number(m, "n_ctx")));
    CHECK_INT(gw_load_reserve(m, 129), GW_E_BAD_OPTION);
    CHECK_SAYS(gw_error_text(m, "what"), "`contextLength` must be 1 to 128, ");
    CHECK_INT(gw_load_reserve(m, UINT32_MAX), GW_E_BAD_OPTION);
    CHECK_INT(gw_load_reserve(m, 128), 0);
    CHECK_INT(gw_load_reserve(m, 128), GW_E_BAD_STATE);
    CHECK_INT(gw_load_commit(m, 0), GW_LOAD_READY);
    CHECK_NEAR(gw_model_number(m, "n_ctx"), 128, 0);
    CHECK_INT(gw_set_option(m, "temperature", 1), 0);
}

TEST(load_reads_what_the_file_says) {
    tiny_config c = small;
    c.alignment = 128, c.attn = GW_BF16, c.ffn = GW_F16, c.n_vocab = 261;
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(tiny_feed(m, f.data, f.size, 0, 77), GW_LOAD_READY);
    static const struct {
        const char *key;
        double value;
    } numbers[] = {
        { "context_length", 128 }, { "n_ctx", 77 }, { "n_vocab", 261 },   { "n_layer", 2 },
        { "n_embd", 32 },          { "n_ff", 64 },  { "n_head", 4 },      { "n_head_kv", 2 },
        { "head_dim", 8 },         { "window", 8 }, { "alignment", 128 }, { "gguf_version", 3 },
        { "bos_id", 2 },           { "eos_id", 1 }, { "eot_id", 4 },      { "add_bos", 1 },
        { "n_tensors", 28 },
    };
    for (size_t i = 0; i < COUNT(numbers); i++) CHECK_NEAR(gw_model_number(m, numbers[i].key), numbers[i].value, 0);
    CHECK(isnan(gw_model_number(m, "pad_id")) && isnan(gw_model_number(m, "nonsense")));
    CHECK_TEXT(gw_model_text(m, "architecture"), "gemma3");
    CHECK_TEXT(gw_model_text(m, "quantisation"), "F16");
    CHECK(!gw_model_text(m, "chat_template"));
    CHECK(gw_is_end(m, 1) && gw_is_end(m, 4) && !gw_is_end(m, 2) && !gw_is_end(m, -1) && gw_is_control(m, 2));
    CHECK(strstr(gw_tensor_json(m, 0), "\"token_embd.weight\",\"type\":\"Q8_0\",\"shape\":[32,261]"));
    CHECK(strstr(gw_metadata_json(m, 0), "\"general.architecture\",\"type\":\"string\",\"value\":\"gemma3\""));
    CHECK(!gw_tensor_json(m, 28) && !gw_metadata_json(m, 1000));
}

TEST(load_without_a_window_makes_all_layers_global) {
    tiny_config c = small;
    c.damage = TINY_DROP_KEY, c.victim = KEY("attention.sliding_window");
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(tiny_feed(m, f.data, f.size, 0, 64), GW_LOAD_READY);
    CHECK_NEAR(gw_model_number(m, "window"), 0, 0);
    CHECK_INT(gw_sync(m, (const int32_t[]){ 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, 12), 0);
    CHECK_INT(gw_run(m, 0), GW_RUN_DONE);
}

static const tiny_config one_b = {
    /* The shape of Gemma 3 1B. */
    .n_embd = 1152,  .n_layer = 26,  .n_ff = 6912,   .n_head = 4,         .n_head_kv = 1,
    .head_dim = 256, .window = 512,  .n_ctx = 32768, .n_vocab = 262144,   .embd = GW_Q8_0,
    .attn = GW_Q4_0, .ffn = GW_Q4_0, .head = -1,     .header_only = true,
};

TEST(load_plan_is_what_reserve_takes) {
    tiny_config c = small;
    c.n_ctx = 4096, c.n_embd = 256, c.n_ff = 512, c.head_dim = 64, c.n_vocab = 3000;
    tiny_file f = tiny_make(&c);
    gw_model *m = fresh(one_thread());
    feed_header(m, &f);
    double weights = gw_plan_bytes(m, 4096, "weights"), kv = gw_plan_bytes(m, 4096, "kv"), before = heap_in_use();
    double scratch = gw_plan_bytes(m, 4096, "scratch"), total = gw_plan_bytes(m, 4096, "total");
    CHECK_NEAR(total, weights + kv + scratch, 0);
    CHECK(isnan(gw_plan_bytes(m, 4096, "nonsense")));
    CHECK_NEAR(gw_plan_bytes(m, 0, "total"), total, 0);
    CHECK_INT(gw_load_reserve(m, 4096), 0);
    double taken = heap_in_use() - before;
    size_t matrices = 0;
    for (uint32_t i = 0; i < f.n_tensors; i++) matrices += f.tensors[i].bytes;
    CHECK(weights >= (double)matrices && weights < (double)matrices * 1.02);
    /* The plan's scratch space includes the tokenizer and the metadata, which are already allocated. */
    if (before >= 0 && !(taken <= total + 20000 && taken >= total - 200000))
        gw_test_fail(__FILE__, __LINE__, "reserve: expected about %.0f bytes, got %.0f", total, taken);
    gw_model_free(m);
    tiny_free(&f);
    if (before < 0) gw_test_skip("under a sanitizer the heap is not counted");
}

TEST(load_one_b_shape_with_its_whole_context) {
    scoped_file f = tiny_make(&one_b);
    scoped_model *m = fresh(one_thread());
    feed_header(m, &f);
    CHECK_NEAR(gw_model_number(m, "parameters"), 999885952, 0);
    CHECK(gw_plan_bytes(m, 32768, "kv") < 200e6);
    CHECK(gw_plan_bytes(m, 4096, "kv") < gw_plan_bytes(m, 32768, "kv"));
    CHECK(gw_plan_bytes(m, 4096, "weights") < 730e6);
}

/* Checks that sizes beyond a 32-bit address space do not wrap to small ones, which would be accepted. */
static void check_too_large(tiny_config c, const char *part, double least) {
    c.header_only = true;
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    feed_header(m, &f);
    double bytes = gw_plan_bytes(m, c.n_ctx, part);
    if (!(bytes >= least && bytes < least * 1.2))
        gw_test_fail(__FILE__, __LINE__, "%s: expected at least %.0f, got %.0f", part, least, bytes);
    CHECK(gw_plan_bytes(m, c.n_ctx, "heap") > gw_plan_bytes(m, c.n_ctx, "total"));
    if (sizeof(size_t) > 4) gw_load_limit(m, 4294967296.0);
    for (int i = 0; i < 2; i++) {
        char number[40];
        snprintf(number, sizeof number, "%.0f bytes", gw_plan_bytes(m, c.n_ctx, "heap"));
        CHECK_INT(gw_load_reserve(m, c.n_ctx), GW_E_NO_MEMORY);
        CHECK_SAYS(gw_error_text(m, "what"), number);
        CHECK_SAYS(gw_error_text(m, "what"), "at most 4294967296 are available");
    }
}

TEST(load_sizes_beyond_32_bits) {
    tiny_config c = small;
    c.n_ctx = 8192, c.n_head = c.n_head_kv = 1024, c.head_dim = 512, c.window = 4096;
    /* KV cache: i16 rows of a global layer, f32 rows of a ring and their saved copies. */
    check_too_large(c, "kv", 1024.0 * 512 * 2 * (8192 * 2 + (4096 + 64 + 4096) * 4));
    c = small, c.n_ctx = 1 << 20, c.n_head = 1024, c.n_head_kv = 1, c.head_dim = 512;
    check_too_large(c, "scratch", 8192.0 * 1024 * 514 * 4);
    c = small, c.n_embd = 65536, c.n_ff = 1 << 20, c.ffn = GW_F32;
    check_too_large(c, "weights", 65536.0 * 4 * (1 << 20) * 3 * 2);
    c.ffn = GW_Q8_0;
    check_too_large(c, "weights", 65536.0 * 1.0625 * (1 << 20) * 3 * 2);
}

TEST(load_limit_says_what_would_fit) {
    tiny_config c = small;
    c.n_ctx = 32768;
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(gw_largest_context(m, 1e12), 0);
    memcpy(gw_load_window(m), f.data, f.size);
    CHECK_INT(gw_load_commit(m, f.size), GW_LOAD_PLAN);
    for (uint32_t n = 1; n < 32768; n += 1 + n / 3) {
        double bytes = gw_plan_bytes(m, n, "heap");
        uint32_t fits = gw_largest_context(m, bytes); /* a slightly longer context may need no more memory */
        CHECK(fits >= n && gw_plan_bytes(m, fits, "heap") <= bytes);
        CHECK(fits == 32768 || gw_plan_bytes(m, fits + 1, "heap") > bytes);
    }
    CHECK_INT(gw_largest_context(m, 1e12), 32768);
    CHECK_INT(gw_largest_context(m, gw_plan_bytes(m, 1, "heap") - 1), 0);
    CHECK_INT(gw_largest_context(m, NAN), 0);
    gw_load_limit(m, gw_plan_bytes(m, 2048, "heap"));
    CHECK_INT(gw_load_reserve(m, 30000), GW_E_NO_MEMORY);
    CHECK_SAYS(gw_error_text(m, "what"), "A context of 30000 tokens needs");
    char expected[64];
    snprintf(expected, sizeof expected, "Set contextLength to %u or less.",
             gw_largest_context(m, gw_plan_bytes(m, 2048, "heap")));
    CHECK_SAYS(gw_error_text(m, "what"), expected);
    gw_load_limit(m, 1000);
    CHECK_INT(gw_load_reserve(m, 1), GW_E_NO_MEMORY);
    CHECK_SAYS(gw_error_text(m, "what"), "The model needs");
    CHECK_SAYS(gw_error_text(m, "what"), "at most 1000 are available");
    gw_load_limit(m, gw_plan_bytes(m, 2048, "heap"));
    CHECK_INT(gw_load_reserve(m, 2048), 0);
    CHECK_INT(gw_load_commit(m, 0), GW_LOAD_READY);
}

TEST(load_plan_of_an_impossible_context_is_no_number) {
    scoped_file f = tiny_make(&small);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(tiny_feed(m, f.data, f.size, 0, 0), GW_LOAD_READY);
    CHECK(isnan(gw_plan_bytes(m, UINT32_MAX, "kv")) && isnan(gw_plan_bytes(m, 129, "total")));
    CHECK(gw_plan_bytes(m, 128, "kv") > 0);
}

THREADED_TEST(load_refuses_what_is_not_finite) {
    static const struct {
        int type;
        uint32_t at, bytes;
        uint32_t value;
    } wild[] = { { GW_F32, 0, 4, 0x7fc00000 }, { GW_F32, 1020, 4, 0xff800000 }, { GW_F16, 2, 2, 0x7c00 },
                 { GW_F16, 510, 2, 0xfe00 },   { GW_BF16, 0, 2, 0x7f80 },       { GW_Q4_0, 18, 2, 0x7c00 },
                 { GW_Q8_0, 34, 2, 0xfc01 },   { GW_Q4_1, 0, 2, 0x7c00 },       { GW_Q4_1, 22, 2, 0x7e00 },
                 { GW_Q5_0, 22, 2, 0x7c00 },   { GW_Q5_1, 2, 2, 0x7c00 },       { GW_Q2_K, 80, 2, 0x7c00 },
                 { GW_Q2_K, 82, 2, 0xfc00 },   { GW_Q3_K, 108, 2, 0x7c00 },     { GW_Q4_K, 0, 2, 0x7c00 },
                 { GW_Q4_K, 2, 2, 0x7e00 },    { GW_Q5_K, 2, 2, 0x7c00 },       { GW_Q6_K, 208, 2, 0x7c00 },
                 { GW_IQ4_NL, 18, 2, 0x7c00 }, { GW_IQ4_XS, 0, 2, 0x7c00 } };
    for (size_t i = 0; i < COUNT(wild); i++) {
        tiny_config c = one_layer;
        c.n_embd = c.n_ff = 256, c.head_dim = 128, c.ffn = wild[i].type;
        scoped_file f = tiny_make(&c);
        const tiny_tensor *t = tiny_find(&f, "blk.0.ffn_up.weight");
        const gw_type *type = gw_type_of(wild[i].type);
        uint8_t *data = f.data + f.header + t->offset;
        scoped_pool *pool = gw_pool_new(2);
        for (int floats = 0; floats < 2; floats++) {
            scoped_model *m = gw_model_new(pool), *sound = gw_model_new(pool);
            CHECK_INT(gw_load_option(m, "quantizeFloats", floats ? "q8_0" : "auto"), 0);
            CHECK_INT(tiny_feed(sound, f.data, f.size, 0, 16), GW_LOAD_READY);
            uint8_t *at = data + 7 * gw_row_bytes(type, 256) + wild[i].at, before[4];
            memcpy(before, at, 4);
            memcpy(at, &wild[i].value, wild[i].bytes);
            CHECK_INT(tiny_feed(m, f.data, f.size, 0, 16), GW_E_NOT_FINITE);
            CHECK_SAYS(gw_error_text(m, "what"), "blk.0.ffn_up.weight");
            CHECK_SAYS(gw_error_text(m, "what"), "at row ");
            memcpy(at, before, 4);
        }
    }
}

TEST(load_refuses_vectors_and_planes_that_are_not_finite) {
    static const struct {
        const char *name;
        uint32_t at, value;
    } wild[] = { { "output_norm.weight", 8, 0x7fc00000 },
                 { "blk.0.attn_q_norm.weight", 0, 0xff800000 },
                 { "token_embd.weight", 34, 0x00007c00 } };
    for (size_t i = 0; i < COUNT(wild); i++) {
        scoped_file f = tiny_make(&one_layer);
        scoped_model *m = fresh(one_thread());
        CHECK_INT(gw_load_option(m, "output", "stages"), 0);
        memcpy(f.data + f.header + tiny_find(&f, wild[i].name)->offset + wild[i].at, &wild[i].value, 4);
        CHECK_INT(tiny_feed(m, f.data, f.size, 0, 16), GW_E_NOT_FINITE);
        CHECK_SAYS(gw_error_text(m, "what"), wild[i].name);
    }
}
