/* Split models: the parts give the same bits as the whole file, in chunks of any size; parts that do not belong together,
 * are missing or are in the wrong order are rejected with errors that name them. */
#include "api.h"
#include "model/load.h"
#include "file/types.h"
#include "run/session.h"
#include "rig.h"
#include "test.h"

static void whole_logits(const tiny_config *c, gw_pool *pool, float *out) {
    scoped_file f = tiny_make(c);
    scoped_model *m = fresh(pool);
    CHECK_INT(tiny_feed(m, f.data, f.size, 0, 0), GW_LOAD_READY);
    logits_of(m, out, small.n_vocab);
}

static void check_split(const tiny_config *c, uint32_t n, gw_pool *pool, const float *expected) {
    static const size_t chunks[] = { 1 << 30, 1, 4096, 0 };
    scoped_parts files = { 0 };
    make_parts(*c, n, files);
    for (int i = 0; i < 4; i++) {
        float logits[64];
        scoped_model *m = fresh(pool);
        CHECK_INT(tiny_feed_parts(m, files, n, chunks[i], 0), GW_LOAD_READY);
        CHECK_INT(gw_load_end(m), 0);
        CHECK_INT(gw_load_room(m), 0);
        CHECK_NEAR(gw_model_number(m, "parts"), n, 0);
        logits_of(m, logits, small.n_vocab);
        CHECK(!memcmp(logits, expected, small.n_vocab * sizeof(float)));
    }
}

THREADED_TEST(split_parts_give_the_bits_of_the_whole) {
    scoped_pool *pool = gw_pool_new(2);
    float expected[64];
    tiny_config f16 = small;
    f16.ffn = GW_F16;
    whole_logits(&f16, pool, expected);
    for (uint32_t n = 1; n <= 7; n += n < 3 ? 1 : 4) {
        tiny_config c = f16;
        check_split(&c, n, pool, expected);
        c.alignment = 128;
        check_split(&c, n, pool, expected);
        c.bare_first = n > 1;
        check_split(&c, n, pool, expected);
    }
}

TEST(split_asks_for_all_headers_then_for_all_weights) {
    scoped_parts files = { 0 };
    make_parts(small, 3, files);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(gw_load_parts(m, 3), 0);
    CHECK(isnan(gw_model_number(m, "parts")) && isnan(gw_part_bytes(m, 0)));
    for (int i = 0; i < 3; i++) {
        CHECK_INT(gw_load_part(m), i);
        CHECK_NEAR(gw_load_offset(m), 0, 0);
        CHECK(gw_load_room(m) >= 65536 && (i == 0 || gw_load_room(m) == 65536));
        memcpy(gw_load_window(m), files[i].data, files[i].header + 5 * (size_t)i); /* a few bytes beyond the header */
        CHECK_INT(gw_load_commit(m, files[i].header + 5 * (size_t)i), i < 2 ? GW_LOAD_HEADER : GW_LOAD_PLAN);
        CHECK_NEAR(gw_model_number(m, "parts"), 3, 0);
    }
    CHECK_INT(gw_load_parts(m, 3), GW_E_BAD_STATE);
    CHECK_INT(gw_load_reserve(m, 0), 0);
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        const tiny_tensor *last = &files[i].tensors[files[i].n_tensors - 1];
        size_t at = files[i].header + 5 * (size_t)i, n = files[i].size - at;
        CHECK_INT(gw_load_part(m), i);
        CHECK_NEAR(gw_load_offset(m), (double)at, 0);
        CHECK_NEAR(gw_part_bytes(m, i), (double)(files[i].header + last->offset + last->bytes), 0);
        sum += gw_part_bytes(m, i);
        memcpy(gw_load_window(m), files[i].data + at, n);
        CHECK_INT(gw_load_commit(m, n), i < 2 ? GW_LOAD_WEIGHTS : GW_LOAD_READY);
    }
    CHECK_NEAR(gw_model_number(m, "file_bytes"), sum, 0);
    CHECK_NEAR(gw_model_number(m, "n_tensors"), 28, 0);
    CHECK(isnan(gw_part_bytes(m, 3)) && isnan(gw_part_bytes(m, -1)));
    CHECK(!strstr(gw_tensor_json(m, 0), "part") && strstr(gw_tensor_json(m, 27), ",\"part\":2}"));
    char offset[40];
    snprintf(offset, sizeof offset, "\"offset\":%zu,", files[1].header);
    CHECK(strstr(gw_tensor_json(m, files[0].n_tensors), offset));
}

static void check_refused(const tiny_file *files, uint32_t n, int code, const char *sentence) {
    static const size_t chunks[] = { 1 << 30, 3 };
    for (int i = 0; i < 2; i++) {
        scoped_model *m = fresh(one_thread());
        CHECK_INT(tiny_feed_parts(m, files, n, chunks[i], 0), code);
        CHECK_TEXT(gw_error_text(m, "code"), gw_error_name(code));
        CHECK_SAYS(gw_error_text(m, "what"), sentence);
        CHECK_INT(gw_load_end(m), code);
        CHECK_INT(gw_load_room(m), 0);
    }
}

TEST(split_missing_and_misplaced_parts) {
    scoped_parts f = { 0 };
    tiny_file swapped[3];
    make_parts(small, 3, f);
    check_refused(f, 1, GW_E_BAD_SPLIT,
                  "Pass all 3 files of the split model, …-00001-of-00003.gguf to …-00003-of-00003.gguf (got 1).");
    check_refused(f, 2, GW_E_BAD_SPLIT,
                  "Pass all 3 files of the split model, …-00001-of-00003.gguf to …-00003-of-00003.gguf (got 2).");
    check_refused(f + 1, 1, GW_E_BAD_SPLIT,
                  "File 1 must be part 1, named like …-00001-of-00003.gguf (got part 2, …-00002-of-00003.gguf).");
    memcpy(swapped, f, sizeof swapped);
    swapped[1] = f[2], swapped[2] = f[1];
    check_refused(swapped, 3, GW_E_BAD_SPLIT,
                  "File 2 must be part 2, named like …-00002-of-00003.gguf (got part 3, …-00003-of-00003.gguf).");
    swapped[1] = f[0];
    check_refused(swapped, 3, GW_E_BAD_SPLIT,
                  "File 2 must be part 2, named like …-00002-of-00003.gguf (got part 1, …-00001-of-00003.gguf).");
}

TEST(split_files_of_different_models) {
    scoped_parts f = { 0 }, other = { 0 }, deep = { 0 };
    tiny_file mixed[3];
    tiny_config deeper = small;
    deeper.n_layer = 3;
    make_parts(small, 3, f);
    make_parts(small, 2, other);
    memcpy(mixed, f, sizeof mixed);
    mixed[1] = other[1];
    check_refused(mixed, 3, GW_E_BAD_SPLIT,
                  "File 2 must have split.count 3 and split.tensors.count 28, like the first file (got 2 and 28). "
                  "Pass the parts of one model.");
    make_parts(deeper, 3, deep);
    mixed[1] = deep[1];
    check_refused(mixed, 3, GW_E_BAD_SPLIT,
                  "File 2 must have split.count 3 and split.tensors.count 28, like the first file (got 3 and 41). "
                  "Pass the parts of one model.");
    scoped_file whole = tiny_make(&small);
    mixed[1] = whole;
    check_refused(mixed, 3, GW_E_BAD_SPLIT,
                  "File 2 must have split.count 3 and split.tensors.count 28, like the first file (got 1 and -1). "
                  "Pass the parts of one model.");
    mixed[0] = mixed[2] = whole;
    check_refused(mixed, 3, GW_E_BAD_SPLIT, "The model is not split, so it has one file (got 3). Pass only that file.");
}

TEST(split_tensor_twice_or_nowhere) {
    static const char *const victims[] = { "blk.0.attn_q.weight", "blk.0.ffn_norm.weight", "blk.1.attn_k.weight",
                                           "blk.1.post_ffw_norm.weight", "output_norm.weight" };
    bool apart = false;
    for (int i = 0; i < 10; i++) {
        tiny_config c = small;
        scoped_parts f = { 0 };
        c.damage = i % 2 ? TINY_DROP_TENSOR : TINY_TWICE, c.victim = victims[i / 2];
        make_parts(c, 7, f);
        for (int k = 0; k < 6; k++) apart |= i % 2 == 0 && tiny_find(&f[k], c.victim) && tiny_find(&f[k + 1], c.victim);
        scoped_model *m = fresh(one_thread());
        CHECK_INT(tiny_feed_parts(m, f, 7, 0, 0), i % 2 ? GW_E_MISSING_TENSOR : GW_E_DUPLICATE);
        CHECK_SAYS(gw_error_text(m, "what"), c.victim);
    }
    CHECK(apart); /* in at least one case the two duplicates were in different files */
}

static void check_key(tiny_damage damage, const char *key, double number, const char *sentence) {
    tiny_config c = small;
    scoped_parts f = { 0 };
    c.damage = damage, c.victim = key, c.number = number;
    make_parts(c, 3, f);
    check_refused(f, 3, GW_E_BAD_SPLIT, sentence);
}

TEST(split_impossible_keys) {
    check_key(TINY_SET_KEY, "split.count", 0, "The model is not split, so it has one file (got 3).");
    check_key(TINY_SET_KEY, "split.count", 65535, "(got split.no 0, split.count 65535).");
    check_key(TINY_SET_KEY, "split.no", 3, "(got split.no 3, split.count 3).");
    check_key(TINY_DROP_KEY, "split.no", 0, "(got split.no -1, split.count 3).");
    check_key(TINY_DROP_KEY, "split.count", 0, "(got split.no 0, split.count -1).");
    check_key(TINY_SET_KEY, "split.count", 2,
              "Pass all 2 files of the split model, …-00001-of-00002.gguf to …-00002-of-00002.gguf (got 3).");
    check_key(TINY_SET_KEY, "split.tensors.count", 27,
              "All parts together must have 27 tensors, as split.tensors.count says (got 28). "
              "Download or convert the file again.");
}

/* llama.cpp's gguf-split --merge leaves these keys in the merged file, with split.count 0. */
TEST(split_parts_that_were_merged_are_a_whole_file) {
    tiny_config c = small;
    c.n_parts = 1, c.damage = TINY_SET_KEY, c.victim = "split.count", c.number = 0;
    scoped_file f = tiny_make(&c);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(tiny_feed(m, f.data, f.size, 0, 0), GW_LOAD_READY);
}

TEST(split_without_a_tensor_count_is_taken) {
    tiny_config c = small;
    scoped_parts f = { 0 };
    c.damage = TINY_DROP_KEY, c.victim = "split.tensors.count";
    make_parts(c, 3, f);
    scoped_model *m = fresh(one_thread());
    CHECK_INT(tiny_feed_parts(m, f, 3, 0, 0), GW_LOAD_READY);
}

TEST(split_number_of_files_is_checked) {
    scoped_model *m = fresh(one_thread());
    CHECK_INT(gw_load_parts(m, 0), GW_E_BAD_SPLIT);
    CHECK_INT(gw_load_parts(m, -1), GW_E_BAD_SPLIT);
    CHECK_INT(gw_load_parts(m, 1025), GW_E_BAD_SPLIT);
    CHECK_INT(gw_load_parts(m, 1024), 0);
    memcpy(gw_load_window(m), "GG", 2);
    CHECK_INT(gw_load_commit(m, 2), GW_LOAD_HEADER);
    CHECK_INT(gw_load_parts(m, 2), GW_E_BAD_STATE);
}

TEST(split_truncated_anywhere) {
    scoped_parts f = { 0 };
    make_parts(small, 3, f);
    for (uint32_t part = 0; part < 3; part++) {
        size_t size = f[part].size, end = f[part].header + f[part].tensors[f[part].n_tensors - 1].offset +
                                          f[part].tensors[f[part].n_tensors - 1].bytes;
        for (f[part].size = 0; f[part].size < end; f[part].size += f[part].size < 300 ? 1 : 97) {
            scoped_model *m = fresh(one_thread());
            char name[32];
            snprintf(name, sizeof name, "File %u of 3", part + 1);
            CHECK(tiny_feed_parts(m, f, 3, 1 << 30, 16) != GW_LOAD_READY);
            CHECK_INT(gw_load_end(m), GW_E_TRUNCATED);
            CHECK_SAYS(gw_error_text(m, "what"), name);
        }
        f[part].size = size;
    }
}

/* A tensor of 5 GB with arbitrary bytes precedes the last tensor, whose offset exceeds 32 bits. */
TEST(split_part_larger_than_4_gb) {
    static const double far = 5e9;
    tiny_config c = small;
    float expected[64], logits[64];
    whole_logits(&c, one_thread(), expected);
    c.damage = TINY_FAR, c.victim = "output_norm.weight", c.number = far;
    scoped_file f = tiny_make(&c);
    const tiny_tensor *last = &f.tensors[f.n_tensors - 1];
    scoped_model *m = fresh(one_thread());
    CHECK_INT(tiny_feed(m, f.data, f.size - 128, 0, 0), GW_LOAD_WEIGHTS);
    double at = gw_load_offset(m), end = (double)(f.header + last->offset);
    CHECK_NEAR(gw_model_number(m, "file_bytes"), end + 128, 0);
    CHECK_NEAR(at, (double)(f.size - 128), 0);
    for (size_t n; at < end; at += (double)n) {
        n = (size_t)fmin((double)gw_load_room(m), end - at);
        CHECK_INT(gw_load_commit(m, n), GW_LOAD_WEIGHTS);
    }
    CHECK_NEAR(gw_load_offset(m), end, 0);
    memcpy(gw_load_window(m), f.data + f.size - 128, 128);
    CHECK_INT(last->bytes, 128);
    CHECK_INT(gw_load_commit(m, 128), GW_LOAD_READY);
    logits_of(m, logits, small.n_vocab);
    CHECK(!memcmp(logits, expected, small.n_vocab * sizeof(float)));
}
