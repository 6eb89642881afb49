/* pure: see pure.h; the states of a helper thread are in threads_impl.h. While a helper computes an item, it does not
 * count as working on the task; then it enters the task again to store the result. When no item is left, the caller
 * waits some tens of microseconds for each helper that is still computing, then marks the helper as late and computes
 * its item itself. */
#include "base/pure.h"
#include "base/threads_impl.h"

typedef struct {
    const gw_pure *f;
    void *place;
} task;

static void do_item(const task *t, int i, float *out) {
    t->f->work(t->place, i, out);
    t->f->put(t->place, i, out);
}

/* Computes one item while the helper is outside the task, that is, not counted by gw_pool.inside. When the helper
 * re-enters, the next task may already be open. */
static bool take_item(gw_pool *p, gw_helper *h, const void *ctx) {
    float out[GW_PURE_FLOATS];
    task t = *(const task *)ctx; /* a copy of the task, because the caller's struct is gone if this thread is late */
    int i = atomic_fetch_add(&p->next, 1);
    if (i >= p->n) return false;
    uint32_t away = AWAY + (uint32_t)i;
    atomic_store(&h->at, away);
    gw_leave(p);
    t.f->work(t.place, i, out);
    gw_beat(h);
    if (atomic_compare_exchange_strong(&h->at, &away, PUTTING)) t.f->put(t.place, i, out);
    atomic_store(&h->at, HERE);
    if (atomic_load(&p->caller_sleeps)) gw_wake(p, &h->at);
    atomic_fetch_add(&p->inside, 1);
    return true;
}

static bool is_late(const gw_helper *h) { return atomic_load(&h->at) == LATE; }

static int count_late(const gw_pool *p) {
    int late = 0;
    for (int h = 1; h < p->n_threads; h++) late += is_late(&p->helper[h]);
    return late;
}

static void await_here(gw_pool *p, gw_helper *h) {
    for (uint32_t at; (at = atomic_load(&h->at)) != HERE;)
        if (!gw_await_helpers(p, &h->at, at)) return;
}

/* Waits until a helper has finished its item, for a bounded time if another place (pure.h) is free. Returns the item's
 * number if the caller must compute the item, otherwise -1. */
static int item_of_late(gw_pool *p, gw_helper *h, const void *place) {
    uint32_t at = atomic_load(&h->at);
    if (at == HERE || at == LATE) return -1; /* LATE: the helper still works on an item of an earlier task */
    for (int i = 0; i < GW_SPINS && at != PUTTING; i++)
        if (atomic_load_explicit(&h->at, memory_order_acquire) != at) break;
    h->place = place;
    bool may = at != PUTTING && count_late(p) < GW_PLACES - 1;
    if (may && atomic_compare_exchange_strong(&h->at, &at, LATE)) return (int)(at - AWAY);
    await_here(p, h);
    return -1;
}

void gw_parallel_pure(gw_pool *p, const gw_pure *f, void *place, int n) {
    float out[GW_PURE_FLOATS];
    task t = { f, place };
    int i;
    if (gw_alone(p, n)) {
        for (i = 0; i < n; i++) do_item(&t, i, out);
        return;
    }
    gw_open(p, take_item, &t, n);
    while ((i = atomic_fetch_add(&p->next, 1)) < n) do_item(&t, i, out);
    gw_close(p);
    for (int h = 1; h < p->n_threads; h++)
        if ((i = item_of_late(p, &p->helper[h], place)) >= 0) do_item(&t, i, out);
}

static bool is_read(const gw_pool *p, const void *place) {
    for (int h = 1; h < p->n_threads; h++)
        if (is_late(&p->helper[h]) && p->helper[h].place == place) return true;
    return false;
}

void *gw_pure_place(const gw_pool *p, void *places, size_t bytes) {
    uint8_t *place = places, *last = place + (GW_PLACES - 1) * bytes;
    while (place < last && is_read(p, place)) place += bytes;
    return place;
}

void gw_pure_settle(gw_pool *p) {
    for (int h = 1; h < p->n_threads; h++)
        if (is_late(&p->helper[h])) await_here(p, &p->helper[h]);
}
