/*
 * Measures the duration of calls for benchmarks/clock_calls.py. Prints one line, NAME NS, for each function. Each value is the
 * minimum of many short rounds, some of which are undisturbed even on a busy machine.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 200, CALLS = 1000 };

static struct timespec spec;
static struct timeval val;

/* Reads the clock by a system call, because a preloaded clock replaces the library function. */
static double now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define MEASURE(name, call)                            \
    do {                                               \
        double lowest = 1e9;                           \
        for (int round = 0; round < ROUNDS; round++) { \
            double before = now();                     \
            for (int i = 0; i < CALLS; i++)            \
                call;                                  \
            double took = (now() - before) / CALLS;    \
            lowest = took < lowest ? took : lowest;    \
        }                                              \
        printf(name " %.2f\n", lowest);                \
    } while (0)

int main(void)
{
    MEASURE("clock_gettime", clock_gettime(CLOCK_REALTIME, &spec));
    MEASURE("time", time(NULL));
    MEASURE("gettimeofday", gettimeofday(&val, NULL));
    MEASURE("poll", poll(NULL, 0, 0));
}
