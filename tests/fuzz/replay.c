/* main() of a fuzz harness without libFuzzer: `fuzz_x FILE…` replays files, `fuzz_x [-runs=N]`
 * makes N inputs from a fixed seed (random bytes, small numbers, runs and repeats, because random bytes alone rarely
 * get past a magic number). Prints the number of inputs; a finding aborts. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t state = 0x9E3779B97F4A7C15u;

static uint32_t next_random(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* Copies the input to a block of the exact size, so that a sanitizer detects reads past the end. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static void fill(uint8_t *data, size_t size) {
    for (size_t at = 0; at < size;) {
        uint32_t kind = next_random() % 4, value = next_random();
        size_t n = 1 + next_random() % 16;
        for (; n && at < size; n--, at++)
            data[at] = kind == 0              ? (uint8_t)next_random()
                       : kind == 1            ? (uint8_t)(next_random() % 8)
                       : kind == 2 || at == 0 ? (uint8_t)value
                                              : data[value % at];
    }
}

static int replay(const char *path) {
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 24);
    if (!file || !data) {
        fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    size_t size = fread(data, 1, 1 << 24, file);
    fclose(file);
    run(data, size);
    free(data);
    return 0;
}

int main(int argc, char **argv) {
    static uint8_t data[4096];
    long runs = 2000, done = 0;
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "-runs=", 6)) runs = atol(argv[i] + 6);
        else failed |= replay(argv[i]), done++;
    }
    for (; done < runs && (argc == 1 || !strncmp(argv[1], "-runs=", 6)); done++) {
        size_t size = next_random() % (done % 8 ? 256 : sizeof data);
        fill(data, size);
        run(data, size);
    }
    printf("%ld inputs\n", done);
    return failed;
}
