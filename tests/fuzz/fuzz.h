/* fuzz: code that all harnesses share. REQUIRE() aborts the process if a condition is false. fuzz_byte() reads the
 * choices of a test case from the fuzz input. fuzz_forbid() marks memory that the code under test must not read. */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Unlike assert(), REQUIRE stays active with NDEBUG. */
#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static inline void fuzz_check_error(const gw_error *e, int code) {
    REQUIRE(code < 0 && strcmp(gw_error_name(code), "unknown"));
    REQUIRE(e->code == code && strchr(e->what, '.'));
}

/* Bytes of a fuzz input in order, then zeros. */
typedef struct {
    const uint8_t *at;
    size_t left;
} fuzz_input;

static inline uint8_t fuzz_byte(fuzz_input *in) {
    if (!in->left) return 0;
    in->left--;
    return *in->at++;
}

static inline uint32_t fuzz_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* With AddressSanitizer, reading memory after fuzz_forbid() is an error until fuzz_allow(). */
#if defined(__SANITIZE_ADDRESS__)
#define FUZZ_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_ASAN 1
#endif
#endif

#ifdef FUZZ_ASAN
void __asan_poison_memory_region(void const volatile *at, size_t size);
void __asan_unpoison_memory_region(void const volatile *at, size_t size);
static inline void fuzz_forbid(const void *at, size_t size) { __asan_poison_memory_region(at, size); }
static inline void fuzz_allow(const void *at, size_t size) { __asan_unpoison_memory_region(at, size); }
#else
static inline void fuzz_forbid(const void *at, size_t size) { (void)at, (void)size; }
static inline void fuzz_allow(const void *at, size_t size) { (void)at, (void)size; }
#endif

#endif
