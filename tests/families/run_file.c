/* run_file: evaluates token ids with a model file, and writes logits to the standard output as floats. With it,
 * families.test.js runs every architecture under the sanitizers.
 *
 *   gw_run_file FILE THREADS N
 *
 * Tables that are only read by row stay in the file. The ids are (i * i + 5) % 320 for i from 0 to N - 1. The program
 * writes [n_vocab] logits after the first N - 4 ids, after each of the next three, and twice after the last id: once
 * evaluated after a restored state, once in a copied sequence.
 */
#include "api.h"
#include "base/base.h"
#include "model/load.h"
#include "run/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 128, STEPS = 4 };

static gw_model *m;

static void fail(const char *what, int code) {
    fprintf(stderr, "%s: %s: %s\n", what, gw_error_name(code), gw_error_text(m, "what"));
    exit(1);
}

static void expect(const char *what, int code) {
    if (code) fail(what, code);
}

static uint8_t *read_file(const char *name, size_t *size) {
    FILE *f = fopen(name, "rb");
    if (!f || fseek(f, 0, SEEK_END)) fail(name, 0);
    *size = (size_t)ftell(f);
    uint8_t *bytes = malloc(*size);
    rewind(f);
    if (!bytes || fread(bytes, 1, *size, f) != *size) fail(name, 0);
    fclose(f);
    return bytes;
}

static void load(const uint8_t *file, size_t size) {
    expect("option tables", gw_load_option(m, "tables", "file"));
    expect("option sequences", gw_load_option(m, "sequences", "2"));
    int state = GW_LOAD_HEADER;
    while (state == GW_LOAD_HEADER || state == GW_LOAD_WEIGHTS) {
        size_t at = (size_t)gw_load_offset(m), n = gw_min(gw_load_room(m), size - at);
        memcpy(gw_load_window(m), file + at, n);
        state = gw_load_commit(m, n);
        if (state != GW_LOAD_PLAN) continue;
        expect("reserve", gw_load_reserve(m, CONTEXT));
        state = gw_load_commit(m, 0);
    }
    if (state != GW_LOAD_READY) fail("load", state);
}

/* Copies the rows that the engine requests from the file. */
static void give_rows(const uint8_t *file) {
    const int32_t *wanted = gw_rows_wanted(m);
    const char *json = gw_tensor_json(m, (uint32_t)wanted[0]);
    double width, height, offset, bytes;
    if (!json || sscanf(strstr(json, "\"shape\":"), "\"shape\":[%lf,%lf]", &width, &height) != 2 ||
        sscanf(strstr(json, "\"offset\":"), "\"offset\":%lf,\"bytes\":%lf", &offset, &bytes) != 2)
        fail("tensor", 0);
    size_t row = (size_t)(bytes / height);
    for (int i = 0; i < wanted[1]; i++)
        memcpy(gw_rows_room(m, i), file + (size_t)offset + (size_t)wanted[2 + i] * row, row);
    expect("rows", gw_rows_commit(m));
}

/* Evaluates the pending ids of a sequence, and writes its logits. step: with gw_step, not gw_run. */
static void run(const uint8_t *file, int sequence, bool step) {
    expect("select", gw_select(m, (uint32_t)sequence));
    int state;
    do {
        state = step ? gw_step(m, 1u << sequence, 3) : gw_run(m, 3);
        if (state == GW_RUN_ROWS) give_rows(file);
    } while (state == GW_RUN_ROWS || state == GW_RUN_MORE || (state == GW_RUN_DONE && gw_pending(m) > 0));
    expect("run", state);
    expect("logits", gw_check_logits(m));
    fwrite(gw_logits(m), sizeof(float), (size_t)gw_model_number(m, "n_vocab"), stdout);
}

/* Saves the state of the evaluated ids, empties the context, and restores the state. */
static void save_and_restore(const int32_t *ids, uint32_t n) {
    expect("save", gw_save(m, ids, n));
    size_t size = (size_t)gw_save_bytes(m);
    uint8_t *bytes = malloc(size), *to = bytes;
    if (!bytes) fail("memory", 0);
    for (size_t part; (part = gw_save_next(m)) > 0; to += part) memcpy(to, gw_state_window(m), part);
    gw_clear(m);
    int state = gw_restore(m, (double)size);
    for (size_t at = 0, part; state >= 0; at += part) {
        part = gw_min(gw_state_left(m), size - at);
        memcpy(gw_state_window(m), bytes + at, part);
        if ((state = gw_restore_commit(m, part)) == 0) break;
    }
    expect("restore", state);
    free(bytes);
}

int main(int n_args, char **args) {
    int n = n_args == 4 ? atoi(args[3]) : 0;
    int32_t ids[CONTEXT];
    if (n <= STEPS || n > CONTEXT) return 2;
    for (int i = 0; i < n; i++) ids[i] = (i * i + 5) % 320;
    size_t size;
    uint8_t *file = read_file(args[1], &size);
    gw_pool *pool = gw_pool_new(atoi(args[2]));
    m = gw_model_new(pool);
    load(file, size);

    uint32_t all = (uint32_t)n, prompt = all - STEPS;
    gw_sync(m, ids, prompt);
    run(file, 0, false);
    for (uint32_t i = prompt; i < all - 1; i++) {
        expect("append", gw_append(m, ids[i]));
        run(file, 0, false);
    }
    save_and_restore(ids, all - 1);
    gw_select(m, 1);
    if (gw_copy(m, 0, all - 1) != n - 1) fail("copy", 0);
    for (int sequence = 0; sequence < 2; sequence++) {
        gw_select(m, (uint32_t)sequence);
        if (gw_sync(m, ids, all) != n - 1) fail("sync", 0);
        run(file, sequence, true);
    }
    gw_model_free(m);
    gw_pool_free(pool);
    free(file);
    return 0;
}
