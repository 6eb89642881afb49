/* merge_queue: see merge_queue.h. The binary heap and the scratch memory; the merging itself is inlined from the
 * header. */
#include "text/merge_queue.h"

void gw_word_push(gw_word *w, uint64_t key) {
    uint64_t *keys = w->keys;
    size_t at = w->n_keys++;
    while (at && keys[(at - 1) / 2] > key) {
        keys[at] = keys[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    keys[at] = key;
}

uint64_t gw_word_pop(gw_word *w) {
    uint64_t *keys = w->keys, top = keys[0];
    size_t n = --w->n_keys, at = 0, child = 1;
    uint64_t key = keys[n];
    while (child < n) {
        child += child + 1 < n && keys[child + 1] < keys[child];
        if (keys[child] >= key) break;
        keys[at] = keys[child];
        at = child;
        child = 2 * at + 1;
    }
    keys[at] = key;
    return top;
}

int gw_scratch_word(gw_scratch *s, size_t n, size_t copied, gw_word *w) {
    if (n > GW_MAX_WORD) return GW_E_BAD_COUNT;
    size_t keys = 2 * n * sizeof *w->keys, symbols = (n + 1) * sizeof *w->symbols;
    size_t size = keys + symbols + copied;
    if (size > s->size) {
        size_t grown = gw_max(size, gw_min(2 * s->size, size + (1 << 20)));
        gw_free(s->block);
        s->block = gw_alloc(grown);
        s->size = s->block ? grown : 0;
        if (!s->block) return GW_E_NO_MEMORY;
    }
    w->keys = s->block;
    w->symbols = (gw_symbol *)((uint8_t *)s->block + keys);
    w->copy = (uint8_t *)s->block + keys + symbols;
    w->n = (uint32_t)n;
    return 0;
}

void gw_scratch_trim(gw_scratch *s) {
    enum { KEPT = 1 << 20 };
    if (s->size > KEPT) gw_scratch_free(s);
}

void gw_scratch_free(gw_scratch *s) {
    gw_free(s->block);
    *s = (gw_scratch){ 0 };
}
