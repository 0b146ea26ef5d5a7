/* chain: a computation whose result depends on all of its memory and on every step before.
 *
 *     chain --memory MIB --rounds N --result FILE [--state FILE] [--interval S]
 *
 * An array of 131072 x MIB 64-bit words starts as i x 0x9E3779B97F4A7C15. Each round goes through it once: with the carry of the
 * step before (1 at the begin), x = (a[i] + carry) x 0xBF58476D1CE4E5B9, x ^= x >> 29, and x is the new a[i] and the new carry. The
 * result is the last carry, in 16 hexadecimal digits, in FILE.
 *
 * With --state it saves itself: every S seconds (0, the default: not), and on SIGUSR1, after which it ends with exit code 99. A
 * save is written beside the file, synchronised, and renamed, so it counts as a whole or not at all; a save that fails leaves the
 * one before, and the computation goes on. If the file exists at the start, the computation goes on from there. Signals are looked
 * at between two rounds.
 *
 * Exit code: 0, the result is written and the state removed; 1, the result could not be written; 2, wrong use, or a state that is
 * torn, of another computation, or of another version; 99, saved on request. One line on stderr tells the reason.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VERSION 1
#define WORDS_PER_MIB 131072UL

struct state {
    char magic[8];
    uint64_t version, memory, rounds; /* which computation */
    uint64_t round, carry;            /* how far it is */
    uint64_t sum;                     /* of the members above, without magic and version, and of the array */
};

static const char MAGIC[8] = {'F', 'I', 'L', 'L', 'E', 'R', '\n', 0};
static volatile sig_atomic_t asked;
static uint64_t *array;
static size_t size; /* of the array, in words */

static void on_request(int number)
{
    (void)number;
    asked = 1;
}

/* Prints one line, and ends the program. */
#define fail(code, ...) (fprintf(stderr, "chain: " __VA_ARGS__), fputc('\n', stderr), exit(code))

static uint64_t sum_of(const struct state *state)
{
    uint64_t sum = 0xCBF29CE484222325u ^ state->memory;

    sum = (sum * 0x100000001B3u) ^ state->rounds;
    sum = (sum * 0x100000001B3u) ^ state->round;
    sum = (sum * 0x100000001B3u) ^ state->carry;
    for (size_t i = 0; i < size; i++)
        sum = (sum * 0x100000001B3u) ^ array[i];
    return sum;
}

static int put(int file, const void *data, size_t length)
{
    for (const char *at = data; length > 0;) {
        ssize_t done = write(file, at, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return -1;
        at += done;
        length -= (size_t)done;
    }
    return 0;
}

/* Replaces the file by two pieces of data, as a whole or not at all. Returns 0, or -1 with errno. */
static int replace(const char *path, const void *first, size_t first_size, const void *second, size_t second_size)
{
    char new[PATH_MAX];
    char folder[PATH_MAX];
    int file, place, failed;

    if (snprintf(new, sizeof new, "%s.new", path) >= (int)sizeof new) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return -1;
    failed = put(file, first, first_size) < 0 || put(file, second, second_size) < 0 || fsync(file) < 0;
    failed = close(file) < 0 || failed;
    if (failed || rename(new, path) < 0) {
        int reason = errno;
        unlink(new);
        errno = reason;
        return -1;
    }
    memcpy(folder, path, strlen(path) + 1);
    place = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place >= 0) {
        fsync(place);
        close(place);
    }
    return 0;
}

static int save(const char *path, struct state *state)
{
    state->sum = sum_of(state);
    if (replace(path, state, sizeof *state, array, size * sizeof *array) == 0)
        return 0;
    fprintf(stderr, "chain: not saved: %s: %s\n", path, strerror(errno));
    return -1;
}

/* Reads the state. Returns 0 if there is no file. */
static int load(const char *path, struct state *state)
{
    struct state found;
    FILE *file = fopen(path, "rb");
    size_t whole;

    if (!file) {
        if (errno == ENOENT)
            return 0;
        fail(2, "%s: %s", path, strerror(errno));
    }
    if (fread(&found, sizeof found, 1, file) != 1 || memcmp(found.magic, MAGIC, sizeof MAGIC) != 0)
        fail(2, "%s: torn, or no state of a chain; remove it to start again", path);
    if (found.version != VERSION)
        fail(2, "%s: of version %lu, and this program reads version %d", path, (unsigned long)found.version, VERSION);
    if (found.memory != state->memory || found.rounds != state->rounds)
        fail(2, "%s: of another computation (memory %lu, rounds %lu)", path, (unsigned long)found.memory,
             (unsigned long)found.rounds);
    whole = fread(array, sizeof *array, size, file);
    if (whole != size || fgetc(file) != EOF || found.sum != sum_of(&found))
        fail(2, "%s: torn; remove it to start again", path);
    fclose(file);
    *state = found;
    return 1;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static unsigned long number(const char *name, const char *text, unsigned long least, unsigned long most)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || value < least || value > most)
        fail(2, "wrong use: %s %s: a number from %lu to %lu", name, text, least, most);
    return value;
}

int main(int count, char **words)
{
    struct state state = {.version = VERSION};
    const char *result = NULL;
    const char *path = NULL;
    unsigned long interval = 0;
    double saved;
    char line[32];

    memcpy(state.magic, MAGIC, sizeof MAGIC);
    for (int i = 1; i + 1 < count; i += 2) {
        if (!strcmp(words[i], "--memory"))
            state.memory = number(words[i], words[i + 1], 1, 1048576);
        else if (!strcmp(words[i], "--rounds"))
            state.rounds = number(words[i], words[i + 1], 1, 1000000000000);
        else if (!strcmp(words[i], "--interval"))
            interval = number(words[i], words[i + 1], 0, 1000000000);
        else if (!strcmp(words[i], "--result"))
            result = words[i + 1];
        else if (!strcmp(words[i], "--state"))
            path = words[i + 1];
        else
            fail(2, "wrong use: %s is no option", words[i]);
    }
    if (count % 2 == 0 || !state.memory || !state.rounds || !result)
        fail(2, "wrong use: chain --memory MIB --rounds N --result FILE [--state FILE] [--interval S]");
    size = state.memory * WORDS_PER_MIB;
    array = malloc(size * sizeof *array);
    if (!array)
        fail(1, "%lu MiB: %s", (unsigned long)state.memory, strerror(errno));
    state.carry = 1;
    if (path) {
        struct sigaction action = {.sa_handler = on_request};
        sigaction(SIGUSR1, &action, NULL);
    }
    if (!path || !load(path, &state)) {
        for (size_t i = 0; i < size; i++)
            array[i] = i * 0x9E3779B97F4A7C15u;
    }
    saved = now();
    while (state.round < state.rounds) {
        uint64_t carry = state.carry;

        for (size_t i = 0; i < size; i++) {
            uint64_t x = (array[i] + carry) * 0xBF58476D1CE4E5B9u;
            carry = array[i] = x ^ (x >> 29);
        }
        state.carry = carry;
        state.round++;
        if (!path)
            continue;
        if (asked) {
            asked = 0;
            if (save(path, &state) == 0)
                return 99;
        }
        if (interval && now() - saved >= (double)interval) {
            save(path, &state);
            saved = now();
        }
    }
    snprintf(line, sizeof line, "%016lx\n", (unsigned long)state.carry);
    if (replace(result, line, strlen(line), "", 0) < 0)
        fail(1, "%s: %s", result, strerror(errno));
    if (path && unlink(path) < 0 && errno != ENOENT)
        fprintf(stderr, "chain: %s: %s\n", path, strerror(errno));
    return 0;
}
