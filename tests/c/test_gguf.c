/* gguf: tests the parser's events for a valid file in chunks of any size, and its error code for every malformed
 * file. */
#include <stdarg.h>

#include "file/gguf.h"
#include "test.h"

static uint8_t file[1 << 16];
static size_t file_size;
static char events[1 << 16];
static size_t events_size;
static gw_gguf parser;
static gw_error error;

static void put(const void *p, size_t n) {
    CHECK(file_size + n <= sizeof file);
    memcpy(file + file_size, p, n);
    file_size += n;
}

static void put_number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) put(&(uint8_t){ (uint8_t)(v >> 8 * i) }, 1);
}

static void put_text(const char *s) {
    put_number(strlen(s), 8);
    put(s, strlen(s));
}

static void put_head(uint32_t version, uint64_t n_tensors, uint64_t n_metadata) {
    file_size = 0;
    put("GGUF", 4);
    put_number(version, 4);
    put_number(n_tensors, 8);
    put_number(n_metadata, 8);
}

static void put_key(const char *key, uint32_t type) {
    put_text(key);
    put_number(type, 4);
}

static void put_scalar(const char *key, uint32_t type, uint64_t v, int bytes) {
    put_key(key, type);
    put_number(v, bytes);
}

static void put_tensor(const char *name, uint32_t n_dims, const uint64_t *shape, uint64_t offset) {
    put_text(name);
    put_number(n_dims, 4);
    for (uint32_t i = 0; i < n_dims && i < 5; i++) put_number(shape[i], 8);
    put_number(8, 4);
    put_number(offset, 8);
}

__attribute__((format(printf, 1, 2))) static int say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(events + events_size, sizeof events - events_size, format, args);
    va_end(args);
    CHECK(n >= 0 && events_size + (size_t)n < sizeof events);
    events_size += (size_t)n;
    return 0;
}

static int say_value(const gw_gguf_value *v) {
    if (v->type == GW_GGUF_STRING) return say("'%.*s'\n", (int)v->len, v->text);
    return say("%d %lld %.9g\n", v->type, (long long)v->i, v->number);
}

static int on_header(void *ctx, uint32_t version, uint64_t n_tensors, uint64_t n_metadata) {
    (void)ctx;
    return say("v%u %d tensors %d metadata\n", version, (int)n_tensors, (int)n_metadata);
}

static int on_value(void *ctx, const char *key, const gw_gguf_value *v) {
    (void)ctx;
    say("%s = ", key);
    return say_value(v);
}

static int on_array(void *ctx, const char *key, int of, uint64_t count) {
    (void)ctx;
    return say("%s = %d of %d\n", key, (int)count, of);
}

static int on_element(void *ctx, const char *key, uint64_t i, const gw_gguf_value *v) {
    (void)ctx;
    say("%s[%d] = ", key, (int)i);
    return say_value(v);
}

static int on_tensor(void *ctx, const gw_gguf_tensor *t) {
    (void)ctx;
    return say("%s %u: %d %d %d %d type %u at %d\n", t->name, t->n_dims, (int)t->shape[0], (int)t->shape[1],
               (int)t->shape[2], (int)t->shape[3], t->type, (int)t->offset);
}

static const gw_gguf_listener listener = { NULL, on_header, on_value, on_array, on_element, on_tensor };

static void begin(void) {
    events_size = 0;
    events[0] = 0;
    memset(&error, 0, sizeof error);
    gw_gguf_init(&parser, listener, &error);
}

/* Parses file[0..size) from a growing prefix: `first` bytes at first, `step` more each time. Each prefix is copied to a
 * heap block of its exact length, so that a sanitizer detects reads past its end. */
static int read_in_steps(size_t size, size_t first, size_t step) {
    begin();
    size_t at = 0, seen = gw_min(first, size);
    for (;;) {
        size_t used;
        uint8_t *view = malloc(seen - at + 1);
        memcpy(view + 1, file + at, seen - at);
        int state = gw_gguf_push(&parser, view + 1, seen - at, &used);
        free(view);
        CHECK(used <= seen - at);
        at += used;
        if (state) {
            CHECK(state < 0 || parser.offset == at);
            return state;
        }
        if (seen == size) return 0;
        seen = gw_min(seen + step, size);
    }
}

static int read_all(void) { return read_in_steps(file_size, file_size, file_size); }

static const char *const good_events = "v3 3 tensors 16 metadata\n"
                                       "general.architecture = 'gemma3'\n"
                                       "u8 = 0 255 255\ni8 = 1 -1 -1\nu16 = 2 65535 65535\ni16 = 3 -2 -2\n"
                                       "u32 = 4 4294967295 4.2949673e+09\ni32 = 5 -3 -3\nf32 = 6 0 1.5\nbool = 7 1 1\n"
                                       "u64 = 10 9223372036854775807 1.84467441e+19\ni64 = 11 -4 -4\nf64 = 12 0 -0.25\n"
                                       "general.alignment = 4 64 64\n"
                                       "none = 0 of 8\n"
                                       "words = 3 of 8\nwords[0] = 'a'\nwords[1] = ''\nwords[2] = 'xyz'\n"
                                       "empty = ''\n"
                                       "token_embd.weight 2: 64 3 1 1 type 8 at 0\n"
                                       "v 1: 7 1 1 1 type 8 at 64\n"
                                       "cube 4: 2 3 4 5 type 8 at 128\n";

static void put_good(uint32_t version) {
    put_head(version, 3, 16);
    put_key("general.architecture", GW_GGUF_STRING);
    put_text("gemma3");
    put_scalar("u8", GW_GGUF_U8, 255, 1);
    put_scalar("i8", GW_GGUF_I8, 255, 1);
    put_scalar("u16", GW_GGUF_U16, 65535, 2);
    put_scalar("i16", GW_GGUF_I16, (uint64_t)-2, 2);
    put_scalar("u32", GW_GGUF_U32, UINT32_MAX, 4);
    put_scalar("i32", GW_GGUF_I32, (uint64_t)-3, 4);
    put_scalar("f32", GW_GGUF_F32, 0x3fc00000, 4);
    put_scalar("bool", GW_GGUF_BOOL, 1, 1);
    put_scalar("u64", GW_GGUF_U64, UINT64_MAX, 8);
    put_scalar("i64", GW_GGUF_I64, (uint64_t)-4, 8);
    put_scalar("f64", GW_GGUF_F64, 0xbfd0000000000000u, 8);
    put_scalar("general.alignment", GW_GGUF_U32, 64, 4);
    put_key("none", GW_GGUF_ARRAY);
    put_number(GW_GGUF_STRING, 4);
    put_number(0, 8);
    put_key("words", GW_GGUF_ARRAY);
    put_number(GW_GGUF_STRING, 4);
    put_number(3, 8);
    put_text("a");
    put_text("");
    put_text("xyz");
    put_key("empty", GW_GGUF_STRING);
    put_text("");
    put_tensor("token_embd.weight", 2, (uint64_t[]){ 64, 3 }, 0);
    put_tensor("v", 1, (uint64_t[]){ 7 }, 64);
    put_tensor("cube", 4, (uint64_t[]){ 2, 3, 4, 5 }, 128);
}

static void check_good(int state, size_t end, const char *expected) {
    CHECK_INT(state, 1);
    CHECK_TEXT(events, expected);
    CHECK_INT(parser.offset, end);
    CHECK_INT(parser.data_offset, (end + 63) / 64 * 64);
    CHECK_INT(parser.alignment, 64);
    CHECK_INT(parser.seen_tensors, 3);
    CHECK_INT(parser.seen_metadata, 16);
}

TEST(gguf_events_in_order) {
    put_good(3);
    size_t end = file_size;
    put("\1\2\3\4 weights", 12);
    check_good(read_all(), end, good_events);
    size_t used = 99;
    CHECK_INT(gw_gguf_push(&parser, file, 4, &used), 1);
    CHECK_INT(used, 0);
}

TEST(gguf_version_2_is_the_same) {
    put_good(2);
    CHECK_INT(read_all(), 1);
    CHECK(!strncmp(events, "v2 3 tensors", 12));
    CHECK_TEXT(events + 2, good_events + 2);
}

TEST(gguf_any_chunking) {
    put_good(3);
    for (size_t step = 1; step < file_size; step++)
        check_good(read_in_steps(file_size, step, step), file_size, good_events);
}

TEST(gguf_every_split) {
    put_good(3);
    for (size_t cut = 0; cut <= file_size; cut++)
        check_good(read_in_steps(file_size, cut, file_size), file_size, good_events);
}

TEST(gguf_every_truncation_asks_for_more) {
    put_good(3);
    for (size_t size = 0; size < file_size; size++) {
        CHECK_INT(read_in_steps(size, size, 1), 0);
        CHECK(!strncmp(events, good_events, events_size));
    }
}

TEST(gguf_empty_file_of_nothing) {
    put_head(3, 0, 0);
    CHECK_INT(read_all(), 1);
    CHECK_INT(parser.data_offset, 32);
}

TEST(gguf_callbacks_may_be_null) {
    put_good(3);
    gw_gguf_init(&parser, (gw_gguf_listener){ 0 }, &error);
    size_t used;
    CHECK_INT(gw_gguf_push(&parser, file, file_size, &used), 1);
    CHECK_INT(used, file_size);
}

static int refuse_tensor(void *ctx, const gw_gguf_tensor *t) {
    *(int *)ctx += 1;
    return strcmp(t->name, "v") ? 0 : gw_fail(&error, GW_E_UNSUPPORTED_TYPE, "tensor %s", t->name);
}

TEST(gguf_listener_stops_the_parser) {
    put_good(3);
    int calls = 0;
    gw_gguf_init(&parser, (gw_gguf_listener){ .ctx = &calls, .tensor = refuse_tensor }, &error);
    size_t used;
    CHECK_INT(gw_gguf_push(&parser, file, file_size, &used), GW_E_UNSUPPORTED_TYPE);
    CHECK_INT(gw_gguf_push(&parser, file + used, file_size - used, &used), GW_E_UNSUPPORTED_TYPE);
    CHECK_INT(calls, 2);
    CHECK_SAYS(error.what, "tensor v ");
}

TEST(gguf_longest_items_fit_the_window) {
    static uint8_t big[GW_GGUF_ITEM];
    memset(big, 'k', sizeof big);
    put_head(3, 0, 1);
    begin();
    size_t used;
    CHECK_INT(gw_gguf_push(&parser, file, file_size, &used), 0);
    file_size = 0;
    put_number(GW_MAX_KEY, 8);
    memcpy(big, file, 8);
    memset(big + 8 + GW_MAX_KEY, 0, 4);
    big[8 + GW_MAX_KEY] = GW_GGUF_STRING;
    CHECK_INT(gw_gguf_push(&parser, big, GW_GGUF_ITEM, &used), GW_E_BAD_METADATA); /* the length field is 'kkkkkkkk' */
    begin();
    put_head(3, 0, 1);
    CHECK_INT(gw_gguf_push(&parser, file, file_size, &used), 0);
    CHECK_INT(gw_gguf_push(&parser, big, 8 + GW_MAX_KEY + 3, &used), 0);
    CHECK_INT(used, 0);
    parser.on = (gw_gguf_listener){ 0 };
    CHECK_INT(gw_gguf_push(&parser, big, 8 + GW_MAX_KEY + 4, &used), 0);
    CHECK_INT(strlen(parser.key), GW_MAX_KEY);
    file_size = 0;
    put_number(GW_MAX_STRING, 8);
    memcpy(big, file, 8);
    CHECK_INT(gw_gguf_push(&parser, big, GW_GGUF_ITEM, &used), 1);
    CHECK_INT(used, 8 + GW_MAX_STRING);
}

/* Checks that a malformed file is rejected with its code and message, in one piece and byte by byte. */
static void check_bad(int line, int code, const char *sentence) {
    for (size_t step = 1; step <= file_size; step += file_size - 1) {
        int state = read_in_steps(file_size, step, step);
        if (state != code)
            gw_test_fail(__FILE__, line, "expected %s, got %s", gw_error_name(code), gw_error_name(state));
        CHECK_INT(error.code, code);
        CHECK_SAYS(error.what, sentence);
        size_t used;
        CHECK_INT(gw_gguf_push(&parser, file, file_size, &used), code);
        CHECK_INT(used, 0);
    }
}
#define BAD(code, sentence) check_bad(__LINE__, code, sentence)

static void put_start(const char *first8) {
    file_size = 0;
    put(first8, 8);
}

TEST(gguf_wrong_magic) {
    put_start("GGML\1\0\0\0");
    BAD(GW_E_BAD_MAGIC, "This is not a GGUF file: it begins with the bytes 47 47 4d 4c.");
    put_start("<!doctyp");
    BAD(GW_E_BAD_MAGIC, "This is not a GGUF file but a web page.");
    put_start("PK\3\4\0\0\0\0");
    BAD(GW_E_BAD_MAGIC, "This is not a GGUF file but a zip archive or PyTorch file.");
    put_start("version ");
    BAD(GW_E_BAD_MAGIC, "This is not a GGUF file but a Git LFS pointer.");
    put_start("tjgg\1\0\0\0");
    BAD(GW_E_BAD_MAGIC, "This is not a GGUF file but a GGML file from before GGUF.");
    put_start("\0\0\0\0\0\0\0\0");
    BAD(GW_E_BAD_MAGIC, "This is not a GGUF file: it begins with the bytes 00 00 00 00.");
}

TEST(gguf_wrong_version) {
    put_head(0, 0, 0);
    BAD(GW_E_BAD_VERSION, "The GGUF version must be 2 or 3 (got 0).");
    put_head(1, 0, 0);
    BAD(GW_E_BAD_VERSION, "The GGUF version must be 2 or 3 (got 1).");
    put_head(4, 0, 0);
    BAD(GW_E_BAD_VERSION, "The GGUF version must be 2 or 3 (got 4).");
    put_head(3u << 24, 0, 0);
    BAD(GW_E_BAD_VERSION, "The GGUF version must be 2 or 3, little-endian (got 3, big-endian).");
}

TEST(gguf_impossible_counts) {
    put_head(3, UINT64_MAX, 0);
    BAD(GW_E_BAD_COUNT, "The number of tensors must be at most 65536 (got 18446744073709551615).");
    put_head(3, 0, 65537);
    BAD(GW_E_BAD_COUNT, "The number of metadata entries must be at most 65536 (got 65537).");
    put_head(3, 0, 1);
    put_key("tokens", GW_GGUF_ARRAY);
    put_number(GW_GGUF_U8, 4);
    put_number((1 << 24) + 1, 8);
    BAD(GW_E_BAD_COUNT, "The number of elements of the metadata key tokens must be at most 16777216 (got 16777217).");
}

TEST(gguf_bad_keys) {
    put_head(3, 0, 1);
    put_number(UINT64_MAX, 8);
    BAD(GW_E_BAD_METADATA, "The length of a metadata key must be at most 65535 bytes (got 18446744073709551615).");
    put_head(3, 0, 1);
    put_number(65536, 8);
    BAD(GW_E_BAD_METADATA, "The length of a metadata key must be at most 65535 bytes (got 65536).");
    put_head(3, 0, 1);
    put_scalar("", GW_GGUF_U8, 1, 1);
    BAD(GW_E_BAD_METADATA, "Metadata key 0 must be printable text (got an empty string).");
    put_head(3, 0, 1);
    put_number(3, 8);
    put("a\0b\0\0\0\0\0", 8);
    BAD(GW_E_BAD_METADATA, "Metadata key 0 must be printable text (got control characters).");
    put_head(3, 0, 1);
    put_scalar("a\nb", GW_GGUF_U8, 1, 1);
    BAD(GW_E_BAD_METADATA, "Metadata key 0 must be printable text (got control characters).");
}

TEST(gguf_bad_values) {
    put_head(3, 0, 1);
    put_scalar("k", 13, 1, 1);
    BAD(GW_E_BAD_METADATA, "The value type of the metadata key k must be 0 to 12 (got 13).");
    put_head(3, 0, 1);
    put_scalar("k", UINT32_MAX, 1, 1);
    BAD(GW_E_BAD_METADATA, "The value type of the metadata key k must be 0 to 12 (got 4294967295).");
    put_head(3, 0, 1);
    put_scalar("k", GW_GGUF_BOOL, 2, 1);
    BAD(GW_E_BAD_METADATA, "The metadata key k is a bool and must be 0 or 1 (got 2).");
    put_head(3, 0, 1);
    put_scalar("k", GW_GGUF_STRING, (1 << 20) + 1, 8);
    BAD(GW_E_BAD_METADATA, "The length of k must be at most 1048576 bytes (got 1048577).");
    put_head(3, 0, 1);
    put_scalar("k", GW_GGUF_STRING, (uint64_t)-8, 8); /* 8 + the string's length wraps to 0 */
    BAD(GW_E_BAD_METADATA, "The length of k must be at most 1048576 bytes (got 18446744073709551608).");
}

static void put_array(uint32_t of, uint64_t count) {
    put_head(3, 0, 1);
    put_key("list", GW_GGUF_ARRAY);
    put_number(of, 4);
    put_number(count, 8);
}

TEST(gguf_bad_arrays) {
    put_array(GW_GGUF_ARRAY, 1);
    BAD(GW_E_BAD_METADATA, "The metadata key list is an array of arrays, which is not supported.");
    put_array(77, 1);
    BAD(GW_E_BAD_METADATA, "The value type of the metadata key list must be 0 to 12 (got 77).");
    put_array(GW_GGUF_BOOL, 2);
    put_number(0x0301, 2);
    BAD(GW_E_BAD_METADATA, "The metadata key list is a bool and must be 0 or 1 (got 3).");
    put_array(GW_GGUF_STRING, 2);
    put_text("fine");
    put_number(1ull << 40, 8);
    BAD(GW_E_BAD_METADATA, "The length of list must be at most 1048576 bytes (got 1099511627776).");
}

TEST(gguf_bad_alignment) {
    uint32_t wrong[] = { 0, 3, 33, UINT32_MAX };
    const char *says[] = { "power of two of the type u32 (got 0).", "power of two of the type u32 (got 3).",
                           "power of two of the type u32 (got 33).", "power of two of the type u32 (got 4294967295)." };
    for (int i = 0; i < 4; i++) {
        put_head(3, 0, 1);
        put_scalar("general.alignment", GW_GGUF_U32, wrong[i], 4);
        BAD(GW_E_BAD_METADATA, says[i]);
    }
    put_head(3, 0, 1);
    put_scalar("general.alignment", GW_GGUF_I32, 32, 4);
    BAD(GW_E_BAD_METADATA,
        "The metadata key general.alignment must be a power of two of the type u32 (got 32 of another type).");
    put_head(3, 0, 1);
    put_key("general.alignment", GW_GGUF_ARRAY);
    put_number(GW_GGUF_U32, 4);
    put_number(1, 8);
    BAD(GW_E_BAD_METADATA, "The metadata key general.alignment must be a u32 (got an array).");
}

static void put_one_tensor(const char *name, uint32_t n_dims, const uint64_t *shape, uint64_t offset) {
    put_head(3, 1, 0);
    put_tensor(name, n_dims, shape, offset);
}

TEST(gguf_bad_tensors) {
    uint64_t shape[] = { 64, 2, 1, 1, 1 };
    put_head(3, 1, 0);
    put_number(65, 8);
    BAD(GW_E_BAD_METADATA, "The length of a tensor name must be at most 64 bytes (got 65).");
    put_one_tensor("", 2, shape, 0);
    BAD(GW_E_BAD_METADATA, "The name of tensor 0 must be printable text (got an empty string).");
    put_one_tensor("a\tb", 2, shape, 0);
    BAD(GW_E_BAD_METADATA, "The name of tensor 0 must be printable text (got control characters).");
    put_one_tensor("t", 0, shape, 0);
    BAD(GW_E_BAD_SHAPE, "Tensor t must have 1 to 4 dimensions (got 0).");
    put_one_tensor("t", 5, shape, 0);
    BAD(GW_E_BAD_SHAPE, "Tensor t must have 1 to 4 dimensions (got 5).");
    put_one_tensor("t", 1000000, shape, 0);
    BAD(GW_E_BAD_SHAPE, "Tensor t must have 1 to 4 dimensions (got 1000000).");
    put_one_tensor("t", 2, shape, 8);
    BAD(GW_E_TENSOR_RANGE, "The offset of tensor t must be a multiple of the alignment, 32, and at most 2^53 (got 8).");
    put_one_tensor("t", 2, shape, 1ull << 63);
    BAD(GW_E_TENSOR_RANGE,
        "The offset of tensor t must be a multiple of the alignment, 32, and at most 2^53 (got 9223372036854775808).");
}

TEST(gguf_bad_shapes) {
    put_one_tensor("t", 3, (uint64_t[]){ 64, 0, 2 }, 0);
    BAD(GW_E_BAD_SHAPE, "Tensor t must have 1 to 2^53 elements (got the shape [64, 0, 2, 1]).");
    put_one_tensor("t", 1, (uint64_t[]){ UINT64_MAX }, 0);
    BAD(GW_E_BAD_SHAPE, "Tensor t must have 1 to 2^53 elements (got the shape [18446744073709551615, 1, 1, 1]).");
    put_one_tensor("t", 2, (uint64_t[]){ 1ull << 32, 1ull << 32 }, 0); /* the shape's product wraps to 0 */
    BAD(GW_E_BAD_SHAPE, "Tensor t must have 1 to 2^53 elements (got the shape [4294967296, 4294967296, 1, 1]).");
    put_one_tensor("t", 3, (uint64_t[]){ 4194305, 4194305, 211106198978564u }, 0); /* the shape's product wraps to 4 */
    BAD(GW_E_BAD_SHAPE,
        "Tensor t must have 1 to 2^53 elements (got the shape [4194305, 4194305, 211106198978564, 1]).");
    put_one_tensor("t", 2, (uint64_t[]){ 1ull << 52, 2 }, 0);
    CHECK_INT(read_all(), 1);
}

TEST(gguf_offset_follows_the_alignment) {
    put_head(3, 1, 1);
    put_scalar("general.alignment", GW_GGUF_U32, 8, 4);
    put_tensor("t", 1, (uint64_t[]){ 32 }, 24);
    CHECK_INT(read_all(), 1);
    put_head(3, 1, 1);
    put_scalar("general.alignment", GW_GGUF_U32, 4096, 4);
    put_tensor("t", 1, (uint64_t[]){ 32 }, 64);
    BAD(GW_E_TENSOR_RANGE,
        "The offset of tensor t must be a multiple of the alignment, 4096, and at most 2^53 (got 64).");
}

/* Metadata strings of the maximum length and number would be 64 GB, so a header larger than that of any real file is
 * rejected. */
TEST(gguf_endless_header) {
    static uint8_t item[GW_GGUF_ITEM];
    put_head(3, 1, GW_MAX_METADATA);
    gw_gguf_init(&parser, (gw_gguf_listener){ 0 }, &error);
    size_t used;
    CHECK_INT(gw_gguf_push(&parser, file, file_size, &used), 0);
    file_size = 0;
    put_key("a", GW_GGUF_STRING);
    put_number(GW_MAX_STRING, 8);
    memcpy(item, file, file_size);
    memset(item + file_size, 'x', GW_MAX_STRING);
    size_t size = file_size + GW_MAX_STRING;
    int state = 0, rounds = 0;
    while (state == 0 && ++rounds < GW_MAX_METADATA)
        for (size_t at = 0; state == 0 && at < size; at += used) {
            state = gw_gguf_push(&parser, item + at, size - at, &used);
            if (!state) CHECK(used > 0);
        }
    CHECK_INT(state, GW_E_BAD_COUNT);
    CHECK(parser.offset <= GW_GGUF_MAX_HEADER + size);
    CHECK_SAYS(error.what, "The header (metadata and list of tensors) must have at most 134217728 bytes.");
    CHECK_INT(gw_gguf_push(&parser, item, size, &used), GW_E_BAD_COUNT);
}
