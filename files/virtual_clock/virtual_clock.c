/*
 * virtual_clock.so: a library for LD_PRELOAD (ld.so(8)) that gives a program a clock that runs SPEED times as fast as real time.
 *
 *   SLURM_MIRAGE_CLOCK=FILE LD_PRELOAD=/path/virtual_clock.so PROGRAM
 *
 * FILE has one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED: an instant on both clocks (ns since the epoch) and the speed of the
 * virtual clock. It is read once, when the program starts. All processes with the same line have the same virtual time, on all
 * hosts with the same real time. There is no shared state, so a killed process cannot leave a lock behind.
 *
 * If SPEED is the word "event", the clock is event-driven: a coordinator (coordinator.c) writes it to a page that all processes
 * share (event_clock.c).
 *
 * The program reads virtual clocks, and waits for virtual durations and until virtual instants. Clock readings are rounded down and
 * waits are rounded up, so that a program that has waited until an instant never reads an earlier time.
 * CPU clocks stay real, and so do all calls inside munge_encode(3) and munge_decode(3), because munged runs in real time.
 * README.md lists what is scaled and what is not.
 *
 * The functions that it replaces are in one file for each subject. None takes a lock, allocates memory or uses stdio, because Slurm
 * cancels threads inside them, and forks.
 */
#define _GNU_SOURCE
#include "virtual_clock.h"
#include "event_clock.h"
#include "instants.h"
#include "openpbs_quirks.h"
#include "slurm_quirks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum { MAX_SPEED = 1000000, EXIT_NO_CLOCK = 127 };

_Static_assert(sizeof(time_t) == 8, "32-bit systems have other functions to replace");

#define DEFINE(name) __typeof__(name) *real_##name;
REPLACED(DEFINE)

atomic_bool is_ready;
_Thread_local bool in_real_time __attribute__((tls_model("initial-exec")));

/* Prints the error as one line in one write, because other processes may write to the same file, and exits. */
_Noreturn void die(const char *file, const char *why)
{
    const char *const parts[] = {"virtual clock: ", VARIABLE, file ? "=" : "", file ? file : "", ": ", why, "\n"};
    struct iovec line[sizeof parts / sizeof *parts];
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        line[part] = (struct iovec){.iov_base = (void *)(uintptr_t)parts[part], .iov_len = strlen(parts[part])};
    (void)!writev(STDERR_FILENO, line, sizeof line / sizeof *line);
    _exit(EXIT_NO_CLOCK);
}

/* Parses digits up to the first other byte. Returns false if there are none, or if the value exceeds `most`. */
static bool read_whole(const char **text, int64_t most, int64_t *value)
{
    const char *begin = *text;
    *value = 0;
    for (; **text >= '0' && **text <= '9'; ++*text) {
        int64_t digit = **text - '0';
        if (*value > (most - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    return *text > begin;
}

/* Parses up to nine digits after a decimal point as billionths; 0 without a decimal point. */
static bool read_billionths(const char **text, int64_t *value)
{
    *value = 0;
    if (**text != '.')
        return true;
    const char *begin = ++*text;
    for (int64_t unit = SECOND / 10; **text >= '0' && **text <= '9'; ++*text, unit /= 10)
        *value += (**text - '0') * unit;
    return *text > begin && *text <= begin + 9;
}

static bool is_event_clock; /* the clock file has the word "event" instead of a speed */

/* Sets `clock_speed` and the calendar of `clocks`. */
static bool parse(const char *text, size_t length)
{
    static const char head[] = "mirage-clock 1 ";
    const char *const end = text + length;
    int64_t whole;
    int64_t part;
    if (strncmp(text, head, sizeof head - 1) != 0)
        return false;
    text += sizeof head - 1;
    if (!read_whole(&text, INT64_MAX, &clocks.calendar.real) || *text++ != ' ' ||
        !read_whole(&text, INT64_MAX, &clocks.calendar.virtual) || *text++ != ' ')
        return false;
    is_event_clock = strncmp(text, "event", 5) == 0;
    if (is_event_clock) {
        clock_speed = SECOND;
        return text + 5 == end || (text[5] == '\n' && text + 6 == end);
    }
    if (!read_whole(&text, MAX_SPEED, &whole) || !read_billionths(&text, &part))
        return false;
    text += *text == '\n';
    clock_speed = whole * SECOND + part;
    return text == end && clock_speed > 0 && clock_speed <= MAX_SPEED * SECOND;
}

static void read_clock(void)
{
    const char *file = getenv(VARIABLE);
    char text[128] = "";
    if (!file)
        die(file, "is not set");
    int descriptor = open(file, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        die(file, "cannot be opened");
    ssize_t length = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    if (length < 0 || !parse(text, (size_t)length))
        die(file, "is not one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED");
}

/*
 * Returns the host's uptime at the anchor, or 0 if the host started later. It is in whole seconds, so that all processes compute
 * the same value although the two clocks cannot be read at the same instant. Monotonic clocks run faster from the anchor on. If
 * they ran faster since the host's start, they would exceed 64-bit nanoseconds, or Slurm's 32-bit seconds, after months of uptime.
 */
static int64_t uptime_at_anchor(void)
{
    wide started = INT64_MAX;
    for (int attempt = 0; attempt < 3; attempt++) { /* the process may be preempted between the two readings */
        wide uptime = real_now(CLOCK_MONOTONIC);
        wide difference = real_now(CLOCK_REALTIME) - uptime;
        started = difference < started ? difference : started;
    }
    wide uptime = floored(clocks.calendar.real - started, SECOND) * SECOND;
    return uptime > 0 && uptime <= real_now(CLOCK_MONOTONIC) ? (int64_t)uptime : 0;
}

/*
 * A glibc before 2.36 resolves the older one of two versions of a symbol unless the version is given. On other processors than
 * x86_64, the older version does not exist.
 */
static void *resolved(const char *name, const char *version)
{
    void *found = dlvsym(RTLD_NEXT, name, version);
    return found ? found : dlsym(RTLD_NEXT, name);
}

/* Also called by the first used wrapper, because constructors of other libraries may run before this one. */
__attribute__((constructor)) void set_up(void)
{
    if (atomic_load_explicit(&is_ready, memory_order_acquire))
        return;
#define RESOLVE(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name);
    REPLACED(RESOLVE)
#define RESOLVE_VERSION(name, version) real_##name = (__typeof__(real_##name))resolved(#name, version)
    RESOLVE_VERSION(pthread_cond_timedwait, "GLIBC_2.3.2");
    RESOLVE_VERSION(pthread_cond_wait, "GLIBC_2.3.2");
    RESOLVE_VERSION(pthread_cond_signal, "GLIBC_2.3.2");
    RESOLVE_VERSION(pthread_cond_broadcast, "GLIBC_2.3.2");
    RESOLVE_VERSION(timer_settime, "GLIBC_2.3.3");
    RESOLVE_VERSION(timer_gettime, "GLIBC_2.3.3");
    RESOLVE_VERSION(timer_delete, "GLIBC_2.3.3");
    read_clock();
    clocks.uptime.real = clocks.uptime.virtual = uptime_at_anchor();
    const char *trouble = is_event_clock ? event_map(getenv(VARIABLE), real_clock_gettime) : NULL;
    if (trouble)
        die(getenv(VARIABLE), trouble);
    set_up_quirks();
    set_up_openpbs();
    atomic_store_explicit(&is_ready, true, memory_order_release);
}

/* For threads that observe the instance from outside: gives the calling thread real time, in all calls, while `on` is not 0. */
void mirage_real_time(int on);

EXPORT void mirage_real_time(int on)
{
    is_real();
    in_real_time = on != 0;
}
