/* test: the main program of the C tests, described in test.h. */
#include "test.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>

static gw_test *first, **last = &first;
static jmp_buf escape;
static char message[1024];
enum { FAILED = 1, SKIPPED = 2 };

#ifdef GW_COUNT_THREADS /* the linker calls __wrap_pthread_create() for pthread_create() */
#include <pthread.h>

static int started;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *ctx);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *ctx);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *ctx) {
    started++;
    return __real_pthread_create(thread, attr, run, ctx);
}
#else
enum { started = 0 };
#endif

void gw_test_register(gw_test *t) {
    *last = t;
    last = &t->next;
}

void gw_test_fail(const char *file, int line, const char *format, ...) {
    int n = snprintf(message, sizeof message, "%s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vsnprintf(message + n, sizeof message - n, format, args);
    va_end(args);
    longjmp(escape, FAILED);
}

void gw_test_skip(const char *reason) {
    snprintf(message, sizeof message, "%s", reason);
    longjmp(escape, SKIPPED);
}

uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double heap_in_use(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return -1;
#elif defined(__EMSCRIPTEN__)
    return (double)mallinfo().uordblks;
#elif defined(__GLIBC__)
    struct mallinfo2 i = mallinfo2();
    return (double)i.uordblks + (double)i.hblkhd;
#else
    return -1;
#endif
}

static int wanted(const gw_test *t, int argc, char **argv) {
    int i = 1;
    if (i < argc && !strcmp(argv[i], "--threaded")) {
        if (!t->threaded) return 0;
        i++;
    }
    if (i == argc) return 1;
    for (; i < argc; i++)
        if (strstr(t->name, argv[i]) || strstr(t->file, argv[i])) return 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--list")) {
        for (const gw_test *l = first; l; l = l->next) printf("%s %s\n", l->file, l->name);
        return 0;
    }
    for (int i = 1; i < argc; i++) printf("%s%s%s", i == 1 ? "only " : ", ", argv[i], i == argc - 1 ? "\n" : "");
    static int passed, failed, skipped; /* static variables keep their values across longjmp() */
    static gw_test *t;
    for (t = first; t; t = t->next) {
        if (!wanted(t, argc, argv)) continue;
        static int before;
        before = started;
        int how = setjmp(escape);
        if (how == 0) {
            t->run();
            if (started > before && !t->threaded)
                gw_test_fail(t->file, 0, "starts threads: declare it with THREADED_TEST");
            passed++;
        } else if (how == SKIPPED) {
            skipped++;
            printf("skip %s: %s\n", t->name, message);
        } else {
            failed++;
            printf("FAIL %s: %s\n", t->name, message);
        }
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0 || passed + skipped == 0;
}
