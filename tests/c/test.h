/* The C test runner. A test file contains TEST(name) { … } blocks, which register themselves. One program runs them
 * all: `gw_tests [--list] [--threaded] [substring …]`. The same files build natively (under sanitizers) and to wasm.
 * Assertions show both sides and end the test. */
#ifndef GW_TEST_H
#define GW_TEST_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gw_test {
    const char *file, *name;
    void (*run)(void);
    int threaded;
    struct gw_test *next;
} gw_test;

void gw_test_register(gw_test *t);
void gw_test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
/* Ends the test as skipped, with the reason in the summary. */
void gw_test_skip(const char *reason) __attribute__((noreturn));

/* Returns the next random number of the generator splitmix64 (Steele, Lea, Flood). */
uint64_t splitmix(uint64_t *state);

/* Returns the bytes in use on the heap, or -1 if they cannot be counted. */
double heap_in_use(void);

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define TEST(id) GW_TEST(id, 0)
/* Declares a test that starts threads. Only such tests run under TSan. On Linux, a thread in any other test is a
 * failure. */
#define THREADED_TEST(id) GW_TEST(id, 1)
#define GW_TEST(id, threaded)                                                                  \
    static void test_##id(void);                                                               \
    static gw_test entry_##id = { __FILE__, #id, test_##id, threaded, NULL };                  \
    __attribute__((constructor)) static void add_##id(void) { gw_test_register(&entry_##id); } \
    static void test_##id(void)

/* Under TSan, which only looks for races, loops over many numbers run one iteration in four; other builds run all. */
#if defined(__SANITIZE_THREAD__)
#define TSAN_LEAVES_OUT(i) ((i) % 4 != 0)
#else
#define TSAN_LEAVES_OUT(i) ((void)(i), 0)
#endif

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) gw_test_fail(__FILE__, __LINE__, "%s", #condition); \
    } while (0)
#define CHECK_INT(got, expected)                                                                     \
    do {                                                                                             \
        long long g_ = (long long)(got), e_ = (long long)(expected);                                 \
        if (g_ != e_) gw_test_fail(__FILE__, __LINE__, "%s: expected %lld, got %lld", #got, e_, g_); \
    } while (0)
#define CHECK_NEAR(got, expected, tolerance)                                               \
    do {                                                                                   \
        double g_ = (got), e_ = (expected);                                                \
        if (!(fabs(g_ - e_) <= (tolerance)))                                               \
            gw_test_fail(__FILE__, __LINE__, "%s: expected %.9g, got %.9g", #got, e_, g_); \
    } while (0)
#define CHECK_TEXT(got, expected)                                                                              \
    do {                                                                                                       \
        const char *g_ = (got), *e_ = (expected);                                                              \
        if (!g_ || strcmp(g_, e_))                                                                             \
            gw_test_fail(__FILE__, __LINE__, "%s: expected \"%s\", got \"%s\"", #got, e_, g_ ? g_ : "(null)"); \
    } while (0)

#define CHECK_SAYS(text, part)                                                                           \
    do {                                                                                                 \
        const char *t_ = (text), *p_ = (part);                                                           \
        if (!strstr(t_, p_)) gw_test_fail(__FILE__, __LINE__, "%s: no \"%s\" in \"%s\"", #text, p_, t_); \
    } while (0)

#endif
