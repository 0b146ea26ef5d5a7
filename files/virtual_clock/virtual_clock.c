/*
 * virtual_clock.so: a library for LD_PRELOAD (ld.so(8)) that gives a program a clock with SPEED times real time.
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
 * No wrapper takes a lock, allocates memory or uses stdio, because Slurm cancels threads inside them, and forks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "event_clock.h"

#define SECOND INT64_C(1000000000)
#define EXPORT __attribute__((visibility("default")))
#define VARIABLE "SLURM_MIRAGE_CLOCK"
#define SAVES "SLURM_MIRAGE_SAVES"
#define SCRIPT_MODE "SLURMSCRIPTD_MODE" /* slurmctld's child slurmscriptd has it, and slurmctld's name, from Slurm 24.11 on */

enum { MAX_SPEED = 1000000, EXIT_NO_CLOCK = 127 };

/*
 * Nanoseconds and their products: nanoseconds of 64-bit seconds need 94 bits, a speed in billionths 50 bits. So operands that are
 * multiplied by a speed are bounded by FAR, which is a million years.
 */
__extension__ typedef __int128 wide;
#define FAR ((wide)1 << 75)

_Static_assert(sizeof(time_t) == 8, "32-bit systems have other functions to replace");

/* The library is not linked with libmunge; these two are libmunge's interface (munge(3)). */
int munge_encode(char **credential, void *context, const void *payload, int length);
int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid);
enum { EMUNGE_SOCKET = 6, MUNGE_ATTEMPTS = 20 };
#define MUNGE_PAUSE (100 * SECOND / 1000)

/* Called instead of poll and ppoll by programs that are compiled with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size);

/* Missing in older C libraries: added in glibc 2.30, 2.30 and 2.35. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline);
int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline);
int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout, const sigset_t *mask);

/* Called instead of stat and related functions by programs that were compiled with a glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *status);
int __lxstat(int version, const char *path, struct stat *status);
int __fxstat(int version, int descriptor, struct stat *status);
int __fxstatat(int version, int directory, const char *path, struct stat *status, int flags);

/* Null if the C library does not have the function. */
/* clang-format off */
#define REPLACED(X)                                                                                                            \
    X(clock_gettime) X(gettimeofday) X(timespec_get) X(clock_nanosleep) X(ppoll) X(__ppoll_chk) X(pselect) X(epoll_pwait)      \
    X(epoll_pwait2) X(sigtimedwait) X(pthread_cond_timedwait) X(pthread_cond_clockwait) X(pthread_mutex_timedlock)             \
    X(pthread_cond_signal) X(pthread_cond_broadcast) X(sem_timedwait) X(sem_clockwait) X(setitimer) X(getitimer)               \
    X(timer_settime) X(timer_gettime) X(timer_delete) X(fstatat) X(__fxstatat) X(sysinfo) X(socket) X(fsync)
/* clang-format on */

#define DECLARE(name) static __typeof__(name) *real_##name;
REPLACED(DECLARE)

struct moment {
    int64_t real, virtual; /* ns */
};

static struct {
    struct moment calendar; /* the anchor: since the epoch */
    struct moment uptime;   /* the same instant since the host's start; before it both clocks are equal */
    int64_t speed;          /* billionths */
} clocks;

static atomic_bool is_ready; /* `clocks` and the pointers above are initialised */

static bool is_controller; /* this program is slurmctld */
static bool is_step;       /* slurmstepd */

static bool saves_to_memory; /* fsync returns at once */

/* Set while this thread is inside libmunge, or has asked for real time. */
static _Thread_local bool in_real_time __attribute__((tls_model("initial-exec")));

/* ---- lengths and representations ---- */

static wide floored(wide dividend, int64_t divisor)
{
    wide quotient = dividend / divisor;
    return quotient - (quotient * divisor > dividend);
}

static wide virtual_length(wide real)
{
    wide bounded = real > FAR ? FAR : real < -FAR ? -FAR : real;
    return floored(bounded * clocks.speed, SECOND);
}

static wide virtual_length_left(wide real)
{
    return -virtual_length(-real);
}

static wide real_length(wide virtual)
{
    return -floored(-virtual * SECOND, clocks.speed);
}

static wide nanoseconds(struct timespec time)
{
    return (wide)time.tv_sec * SECOND + time.tv_nsec;
}

static wide nanoseconds_of(struct timeval time)
{
    return (wide)time.tv_sec * SECOND + (wide)time.tv_usec * 1000;
}

static struct timespec timespec_of(wide time)
{
    wide seconds = floored(time, SECOND);
    if (seconds > INT64_MAX)
        return (struct timespec){.tv_sec = INT64_MAX, .tv_nsec = SECOND - 1};
    if (seconds < INT64_MIN)
        return (struct timespec){.tv_sec = INT64_MIN};
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(time - seconds * SECOND)};
}

static struct timeval timeval_of(wide time)
{
    struct timespec exact = timespec_of(time);
    return (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
}

static struct timeval timeval_not_below(wide time)
{
    return timeval_of(time + 999);
}

/* Invalid values are passed unchanged to the real function, which reports the error. */
static bool is_valid(const struct timespec *time)
{
    return time && time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < SECOND;
}

/* ---- instants ---- */

enum kind { OTHER, CALENDAR, UPTIME };

static enum kind kind_of(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
        return CALENDAR;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        return UPTIME;
    default:
        return OTHER; /* CPU time; clocks of devices; alarm clocks, which not every host has */
    }
}

static wide real_now(clockid_t clock)
{
    struct timespec now;
    real_clock_gettime(clock, &now);
    return nanoseconds(now);
}

static wide virtual_instant(enum kind kind, wide real)
{
    const struct moment *anchor = kind == CALENDAR ? &clocks.calendar : &clocks.uptime;
    wide since = real - anchor->real;
    return anchor->virtual + (kind == UPTIME && since < 0 ? since : virtual_length(since));
}

static wide real_instant(enum kind kind, wide virtual)
{
    const struct moment *anchor = kind == CALENDAR ? &clocks.calendar : &clocks.uptime;
    wide since = virtual - anchor->virtual;
    return anchor->real + (kind == UPTIME && since < 0 ? since : real_length(since));
}

static wide virtual_now(clockid_t clock)
{
    if (event_page)
        return event_now() - (kind_of(clock) == UPTIME ? event_page->uptime_offset : 0);
    /* A coarse clock's ticks of 1 to 10 ms would become virtual seconds. */
    clock = clock == CLOCK_REALTIME_COARSE ? CLOCK_REALTIME : clock == CLOCK_MONOTONIC_COARSE ? CLOCK_MONOTONIC : clock;
    return virtual_instant(kind_of(clock), real_now(clock));
}

/* Converts a virtual deadline on `clock` to a real deadline on the same clock. */
static struct timespec real_deadline(clockid_t clock, const struct timespec *deadline)
{
    if (kind_of(clock) == OTHER)
        return *deadline;
    wide real = real_instant(kind_of(clock), nanoseconds(*deadline));
    return timespec_of(real > 0 ? real : 1); /* for deadlines long past: values below 0 are invalid, and 0 would stop a timer */
}

/*
 * For calls that do not name the clock of their virtual deadline: the clock, realtime or monotonic, whose current time is nearer to
 * it. The two clocks are decades apart.
 */
static clockid_t guessed_clock(const struct timespec *deadline)
{
    wide calendar = nanoseconds(*deadline) - virtual_now(CLOCK_REALTIME);
    wide uptime = nanoseconds(*deadline) - virtual_now(CLOCK_MONOTONIC);
    return (uptime < 0 ? -uptime : uptime) < (calendar < 0 ? -calendar : calendar) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static struct timespec guessed_deadline(const struct timespec *deadline)
{
    return real_deadline(guessed_clock(deadline), deadline);
}

/* ---- the event-driven clock: instants of the virtual calendar, in ns ---- */

static int64_t event_deadline(wide calendar)
{
    return calendar >= INT64_MAX ? INT64_MAX - 1 : calendar < 1 ? 1 : (int64_t)calendar;
}

static int64_t event_deadline_on(clockid_t clock, const struct timespec *deadline)
{
    return event_deadline(nanoseconds(*deadline) + (kind_of(clock) == UPTIME ? event_page->uptime_offset : 0));
}

static int64_t event_deadline_in(wide length)
{
    return event_deadline(event_now() + length);
}

/*
 * Makes a call that waits, for a part of its limit at a time until the virtual deadline: `part` is the part's real length, `call`
 * has the value `none` when it is over.
 */
#define IN_PARTS(result, at, none, part, call)                \
    do {                                                      \
        struct event_wait wait;                               \
        event_begin(&wait, at, LOOKS_ITSELF);                 \
        pthread_cleanup_push(event_cancel, &wait);            \
        do {                                                  \
            struct timespec part = event_slice(&wait);        \
            (result) = (call);                                \
        } while ((result) == (none) && event_goes_on(&wait)); \
        pthread_cleanup_pop(1);                               \
    } while (0)

/* ---- set-up ---- */

/* Prints the error as one line in one write, because other processes may write to the same file, and exits. */
static _Noreturn void die(const char *file, const char *why)
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

/* Sets all fields of `clocks` except uptime. */
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
        clocks.speed = SECOND;
        return text + 5 == end || (text[5] == '\n' && text + 6 == end);
    }
    if (!read_whole(&text, MAX_SPEED, &whole) || !read_billionths(&text, &part))
        return false;
    text += *text == '\n';
    clocks.speed = whole * SECOND + part;
    return text == end && clocks.speed > 0 && clocks.speed <= MAX_SPEED * SECOND;
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
__attribute__((constructor)) static void set_up(void)
{
    if (atomic_load_explicit(&is_ready, memory_order_acquire))
        return;
#define RESOLVE(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name);
    REPLACED(RESOLVE)
#define RESOLVE_VERSION(name, version) real_##name = (__typeof__(real_##name))resolved(#name, version)
    RESOLVE_VERSION(pthread_cond_timedwait, "GLIBC_2.3.2");
    RESOLVE_VERSION(timer_settime, "GLIBC_2.3.3");
    RESOLVE_VERSION(timer_gettime, "GLIBC_2.3.3");
    RESOLVE_VERSION(timer_delete, "GLIBC_2.3.3");
    read_clock();
    RESOLVE_VERSION(pthread_cond_signal, "GLIBC_2.3.2");
    RESOLVE_VERSION(pthread_cond_broadcast, "GLIBC_2.3.2");
    clocks.uptime.real = clocks.uptime.virtual = uptime_at_anchor();
    const char *trouble = is_event_clock ? event_map(getenv(VARIABLE), real_clock_gettime) : NULL;
    if (trouble)
        die(getenv(VARIABLE), trouble);
    is_controller = strcmp(program_invocation_short_name, "slurmctld") == 0;
    is_step = strcmp(program_invocation_short_name, "slurmstepd") == 0;
    if (event_page && is_controller && !getenv(SCRIPT_MODE))
        event_page->scheduler = (int32_t)getpid();
    const char *saves = getenv(SAVES);
    saves_to_memory = is_controller && saves && strcmp(saves, "memory") == 0;
    atomic_store_explicit(&is_ready, true, memory_order_release);
}

/* Whether the caller gets real time. */
static bool is_real(void)
{
    if (__builtin_expect(!atomic_load_explicit(&is_ready, memory_order_acquire), 0))
        set_up();
    return in_real_time;
}

/* For threads that observe the instance from outside: gives the calling thread real time, in all calls, while `on` is not 0. */
void mirage_real_time(int on);

EXPORT void mirage_real_time(int on)
{
    is_real();
    in_real_time = on != 0;
}

/* ---- clocks ---- */

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (is_real() || kind_of(clock) == OTHER)
        return real_clock_gettime(clock, time);
    *time = timespec_of(virtual_now(clock));
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    if (is_real() || zone) {
        int result = real_gettimeofday(time, zone);
        if (result != 0 || in_real_time)
            return result;
    }
    *time = timeval_of(virtual_now(CLOCK_REALTIME));
    return 0;
}

EXPORT time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

EXPORT int timespec_get(struct timespec *time, int base)
{
    if (is_real() || base != TIME_UTC)
        return real_timespec_get(time, base);
    *time = timespec_of(virtual_now(CLOCK_REALTIME));
    return base;
}

EXPORT int sysinfo(struct sysinfo *info)
{
    bool real = is_real();
    int result = real_sysinfo(info);
    /* slurmctld subtracts this from its clock for a node's boot time. Rounded up to seconds, as in the kernel. */
    if (result == 0 && !real)
        info->uptime = timespec_of(virtual_now(CLOCK_BOOTTIME) + SECOND - 1).tv_sec;
    return result;
}

/* ---- sleeping ---- */

/* Other clocks can only be read. */
static bool is_for_sleeping(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_TAI;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
    if (is_real() || kind_of(clock) == OTHER || !is_valid(wanted))
        return real_clock_nanosleep(clock, flags, wanted, left);
    if (event_page && is_for_sleeping(clock)) {
        bool is_instant = flags & TIMER_ABSTIME;
        int64_t deadline = is_instant ? event_deadline_on(clock, wanted) : event_deadline_in(nanoseconds(*wanted));
        int error = event_sleep(deadline);
        if (error == EINTR && left && !is_instant) {
            wide rest = deadline - event_now();
            *left = timespec_of(rest > 0 ? rest : 0);
        }
        return error;
    }
    if (flags & TIMER_ABSTIME) {
        struct timespec deadline = real_deadline(clock, wanted);
        return real_clock_nanosleep(clock, flags, &deadline, NULL);
    }
    wide length = nanoseconds(*wanted);
    struct timespec real = timespec_of(real_length(length));
    int error = real_clock_nanosleep(clock, flags, &real, left ? &real : NULL);
    if (error == EINTR && left) {
        wide rest = virtual_length_left(nanoseconds(real));
        *left = timespec_of(rest < length ? rest : length);
    }
    return error;
}

EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    int error = clock_nanosleep(CLOCK_REALTIME, 0, wanted, left);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

/*
 * The main thread of slurmctld waits for a second by ten naps (slurmctld/controller.c), between which it only looks whether it
 * shall end. On the event-driven clock one nap of a second has the same effect and costs a tenth.
 */
enum { NAP = 100000, NAPS = 10 };

static bool is_nap_of_controller(useconds_t microseconds)
{
    return is_controller && event_page && microseconds == NAP && gettid() == getpid();
}

/*
 * Every slurmstepd has a thread that wakes up each second to check for samples (common/slurm_acct_gather_profile.c, _timer_thread).
 * With a hundred jobs and a speed of 500, that makes 50,000 wake-ups per second, too many for a small host, and sleeping jobs need
 * no samples. So this thread waits for a second of real time. The end of the thread is signalled, so it is not delayed.
 * Before 17.11 it sleeps and is cancelled in the end.
 */
static bool is_sampler(void)
{
    enum { UNKNOWN, NO, YES };
    static _Thread_local char known __attribute__((tls_model("initial-exec")));
    if (known == UNKNOWN) {
        char name[16] = "";
        prctl(PR_GET_NAME, name);
        known = strcmp(name, "acctg_prof") == 0 ? YES : NO;
    }
    return known == YES;
}

/* Real time between wake-ups without a purpose on the event-driven clock, where they would hold time up. */
#define LONGEST_IDLE ((wide)3600 * SECOND)

static int sleep_of_sampler(wide length)
{
    wide real = event_page ? LONGEST_IDLE : real_length(length);
    struct timespec wanted = timespec_of(real < SECOND ? SECOND : real);
    errno = real_clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, NULL);
    return errno ? -1 : 0;
}

EXPORT int usleep(useconds_t microseconds)
{
    static int naps; /* of one thread */
    bool real = is_real();
    if (!real && is_nap_of_controller(microseconds)) {
        if (++naps % NAPS != 0)
            return 0;
        microseconds = NAPS * NAP;
    }
    if (!real && __builtin_expect(is_sampler(), 0))
        return sleep_of_sampler((wide)microseconds * 1000);
    struct timespec wanted = timespec_of((wide)microseconds * 1000);
    return nanosleep(&wanted, NULL);
}

EXPORT unsigned int sleep(unsigned int seconds)
{
    struct timespec wanted = {.tv_sec = seconds};
    return nanosleep(&wanted, &wanted) ? (unsigned int)wanted.tv_sec : 0;
}

/* ---- waiting for files and signals ---- */

/* Converts a virtual timeout to a real one. Null (no timeout) and invalid timeouts are returned unchanged. */
static const struct timespec *real_timeout(const struct timespec *timeout, struct timespec *room)
{
    if (!is_valid(timeout))
        return timeout;
    *room = timespec_of(real_length(nanoseconds(*timeout)));
    return room;
}

/* Converts a timeout in milliseconds. A negative value means no timeout. */
static const struct timespec *real_milliseconds(int timeout, struct timespec *room)
{
    if (timeout < 0)
        return NULL;
    wide wanted = (wide)timeout * (SECOND / 1000);
    *room = timespec_of(is_real() ? wanted : real_length(wanted));
    return room;
}

/* Whether a wait with this limit is made in parts: on the event-driven clock, and it can end by time. */
static bool is_in_parts(const struct timespec *timeout)
{
    return !is_real() && event_page && is_valid(timeout) && nanoseconds(*timeout) > 0;
}

static int poll_in_parts(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    int result;
    IN_PARTS(result, event_deadline_in(nanoseconds(*timeout)), 0, part, real_ppoll(fds, count, &part, mask));
    return result;
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec room;
    if (is_in_parts(timeout))
        return poll_in_parts(fds, count, timeout, mask);
    return real_ppoll(fds, count, is_real() ? timeout : real_timeout(timeout, &room), mask);
}

/*
 * From 24.11.6 on slurmstepd, slurmctld and slurmscriptd (a slurmctld, too) poll for messages for 60 s at a time (common/eio.c,
 * _poll_internal), only to close connections that are left over; before, they polled without a limit. With a hundred jobs that
 * would be two wake-ups in each second, and many looks at the clock before each. On the event-driven clock such a poll, which
 * always has a pipe beside its connections, lasts LONGEST_IDLE.
 */
enum { IDLE_POLL = 60000 };

static bool is_idle_poll(nfds_t count, int timeout)
{
    return (is_step || is_controller) && event_page && count > 1 && timeout == IDLE_POLL;
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    struct timespec room = timespec_of((wide)timeout * (SECOND / 1000));
    if (!is_real() && is_idle_poll(count, timeout)) {
        room = timespec_of(LONGEST_IDLE);
        return real_ppoll(fds, count, &room, NULL);
    }
    if (timeout > 0 && is_in_parts(&room))
        return poll_in_parts(fds, count, &room, NULL);
    return real_ppoll(fds, count, real_milliseconds(timeout, &room), NULL);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
    struct timespec room;
    if (is_in_parts(timeout) && count <= size / sizeof *fds)
        return poll_in_parts(fds, count, timeout, mask);
    return real___ppoll_chk(fds, count, is_real() ? timeout : real_timeout(timeout, &room), mask, size);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
    struct timespec room;
    if (count <= size / sizeof *fds)
        return poll(fds, count, timeout);
    return real___ppoll_chk(fds, count, real_milliseconds(timeout, &room), NULL, size);
}

/* select empties the sets at the end of each part. */
struct fd_sets {
    fd_set *given[3];
    char copies[3][sizeof(fd_set)];
    size_t size; /* bytes that select uses */
};

static void copy_sets(struct fd_sets *sets, bool back)
{
    for (int i = 0; i < 3; i++)
        if (sets->given[i])
            memcpy(back ? (void *)sets->given[i] : sets->copies[i], back ? sets->copies[i] : (void *)sets->given[i], sets->size);
}

static int select_part(int count, struct fd_sets *sets, const struct timespec *part, const sigset_t *mask)
{
    copy_sets(sets, true);
    return real_pselect(count, sets->given[0], sets->given[1], sets->given[2], part, mask);
}

EXPORT int pselect(int count, fd_set *restrict read, fd_set *restrict write, fd_set *restrict except,
                   const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
    struct timespec room;
    if (is_in_parts(timeout) && count >= 0 && count <= FD_SETSIZE) {
        struct fd_sets sets = {{read, write, except}, .size = ((size_t)count + 63) / 64 * 8};
        int result;
        copy_sets(&sets, false);
        IN_PARTS(result, event_deadline_in(nanoseconds(*timeout)), 0, part, select_part(count, &sets, &part, mask));
        return result;
    }
    return real_pselect(count, read, write, except, is_real() ? timeout : real_timeout(timeout, &room), mask);
}

/* Linux stores the remaining time in `timeout`, and some programs continue to wait with it. */
EXPORT int select(int count, fd_set *restrict read, fd_set *restrict write, fd_set *restrict except,
                  struct timeval *restrict timeout)
{
    if (!timeout)
        return pselect(count, read, write, except, NULL, NULL);
    if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
        errno = EINVAL;
        return -1;
    }
    struct timespec wanted = timespec_of(nanoseconds_of(*timeout));
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int result = pselect(count, read, write, except, &wanted, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after);
    wide left = nanoseconds(wanted) - (nanoseconds(after) - nanoseconds(before));
    *timeout = timeval_not_below(result == 0 || left < 0 ? 0 : left);
    return result;
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec room;
    const struct timespec *real = is_real() ? timeout : real_timeout(timeout, &room);
    if (!real_epoll_pwait2) {
        errno = ENOSYS;
        return -1;
    }
    if (is_in_parts(timeout)) {
        int result;
        IN_PARTS(result, event_deadline_in(nanoseconds(*timeout)), 0, part, real_epoll_pwait2(epoll, events, count, &part, mask));
        return result;
    }
    return real_epoll_pwait2(epoll, events, count, real, mask);
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout, const sigset_t *mask)
{
    if (is_real() || timeout <= 0)
        return real_epoll_pwait(epoll, events, count, timeout, mask);
    struct timespec wanted = timespec_of((wide)timeout * (SECOND / 1000));
    int result = epoll_pwait2(epoll, events, count, &wanted, mask);
    if (result >= 0 || (errno != ENOSYS && errno != EPERM))
        return result;
    if (event_page) {
        IN_PARTS(result, event_deadline_in(nanoseconds(wanted)), 0, part,
                 real_epoll_pwait(epoll, events, count, part.tv_nsec ? (int)(part.tv_nsec / 1000000) + 1 : 0, mask));
        return result;
    }
    /* For a kernel before Linux 5.11, or a container's system call filter without it: whole milliseconds, at least one. */
    wide milliseconds = floored(real_length(nanoseconds(wanted)) + SECOND / 1000 - 1, SECOND / 1000);
    return real_epoll_pwait(epoll, events, count, milliseconds > INT32_MAX ? INT32_MAX : (int)milliseconds, mask);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    return epoll_pwait(epoll, events, count, timeout, NULL);
}

/* Returns 0 if the time is over. */
static int sigtimedwait_part(const sigset_t *set, siginfo_t *info, const struct timespec *part)
{
    int result = real_sigtimedwait(set, info, part);
    return result < 0 && errno == EAGAIN ? 0 : result;
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout)
{
    struct timespec room;
    if (is_in_parts(timeout)) {
        int result;
        IN_PARTS(result, event_deadline_in(nanoseconds(*timeout)), 0, part, sigtimedwait_part(set, info, &part));
        if (result != 0)
            return result;
        errno = EAGAIN;
        return -1;
    }
    return real_sigtimedwait(set, info, is_real() ? timeout : real_timeout(timeout, &room));
}

/* ---- waiting for other threads ---- */

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_cond_timedwait(condition, mutex, deadline);
    if (event_page && !is_sampler())
        return event_wait_on(condition, mutex, event_deadline_on(guessed_clock(deadline), deadline));
    if (event_page) { /* an early end is a spurious one */
        struct timespec later = timespec_of(real_now(CLOCK_REALTIME) + LONGEST_IDLE);
        int error = real_pthread_cond_timedwait(condition, mutex, &later);
        return error == ETIMEDOUT && virtual_now(CLOCK_REALTIME) < nanoseconds(*deadline) ? 0 : error;
    }
    struct timespec real = guessed_deadline(deadline);
    if (__builtin_expect(is_sampler(), 0) && nanoseconds(real) < real_now(CLOCK_REALTIME) + SECOND)
        real = timespec_of(real_now(CLOCK_REALTIME) + SECOND);
    return real_pthread_cond_timedwait(condition, mutex, &real);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                                  const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_cond_clockwait(condition, mutex, clock, deadline);
    if (event_page && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC)) /* the C library refuses all others */
        return event_wait_on(condition, mutex, event_deadline_on(clock, deadline));
    struct timespec real = real_deadline(clock, deadline);
    return real_pthread_cond_clockwait(condition, mutex, clock, &real);
}

/* A signal reaches both the waits of the C library and those of the event-driven clock. */
EXPORT int pthread_cond_signal(pthread_cond_t *condition)
{
    is_real();
    event_signal(condition);
    return real_pthread_cond_signal(condition);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *condition)
{
    is_real();
    event_signal(condition);
    return real_pthread_cond_broadcast(condition);
}

static struct timespec real_instant_in(clockid_t clock, struct timespec length)
{
    return timespec_of(real_now(clock) + nanoseconds(length));
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_mutex_timedlock(mutex, deadline);
    if (event_page) {
        int error;
        IN_PARTS(error, event_deadline_on(CLOCK_REALTIME, deadline), ETIMEDOUT, part,
                 (part = real_instant_in(CLOCK_REALTIME, part), real_pthread_mutex_timedlock(mutex, &part)));
        return error;
    }
    struct timespec real = real_deadline(CLOCK_REALTIME, deadline);
    return real_pthread_mutex_timedlock(mutex, &real);
}

/* Returns 1 if the time is over. */
static int sem_wait_part(sem_t *semaphore, struct timespec part)
{
    struct timespec real = real_instant_in(CLOCK_REALTIME, part);
    int result = real_sem_timedwait(semaphore, &real);
    return result < 0 && errno == ETIMEDOUT ? 1 : result;
}

static int sem_wait_in_parts(sem_t *semaphore, int64_t deadline)
{
    int result;
    IN_PARTS(result, deadline, 1, part, sem_wait_part(semaphore, part));
    if (result != 1)
        return result;
    errno = ETIMEDOUT;
    return -1;
}

EXPORT int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_sem_timedwait(semaphore, deadline);
    if (event_page)
        return sem_wait_in_parts(semaphore, event_deadline_on(CLOCK_REALTIME, deadline));
    struct timespec real = real_deadline(CLOCK_REALTIME, deadline);
    return real_sem_timedwait(semaphore, &real);
}

EXPORT int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_sem_clockwait(semaphore, clock, deadline);
    if (event_page && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC))
        return sem_wait_in_parts(semaphore, event_deadline_on(clock, deadline));
    struct timespec real = real_deadline(clock, deadline);
    return real_sem_clockwait(semaphore, clock, &real);
}

/* ---- timers ---- */

static struct itimerval virtual_timer(struct itimerval real)
{
    return (struct itimerval){timeval_not_below(virtual_length_left(nanoseconds_of(real.it_interval))),
                              timeval_not_below(virtual_length_left(nanoseconds_of(real.it_value)))};
}

static bool is_valid_timeval(struct timeval time)
{
    return time.tv_sec >= 0 && time.tv_usec >= 0 && time.tv_usec < 1000000;
}

/*
 * On the event-driven clock no timer of the kernel knows when it ends. A thread waits for the deadlines (event_timer), and then
 * lets the kernel's timer end at once, which signals as the program has asked for.
 */
enum { KEY_OF_ITIMER = 2, FIRST_KEY = 3 }; /* ids of timers are small numbers, or half an address with the topmost bit set */
#define KEY_OF(timer) ((uintptr_t)(timer) + FIRST_KEY)
#define TIMER_OF(key) ((timer_t)((key) - FIRST_KEY))

/* They return when the kernel's timer has ended: in between nothing would work, and time could jump. */
static void fire_itimer(uintptr_t key)
{
    struct itimerval timer = {.it_value = {.tv_usec = 1}};
    (void)key;
    for (int error = real_setitimer(ITIMER_REAL, &timer, NULL); !error && timer.it_value.tv_usec + timer.it_value.tv_sec;)
        error = real_getitimer(ITIMER_REAL, &timer);
}

static void fire_timer(uintptr_t key)
{
    struct itimerspec timer = {.it_value = {.tv_nsec = 1}};
    for (int error = real_timer_settime(TIMER_OF(key), 0, &timer, NULL); !error && timer.it_value.tv_nsec + timer.it_value.tv_sec;)
        error = real_timer_gettime(TIMER_OF(key), &timer);
}

static struct itimerspec event_timer_value(uintptr_t key)
{
    int64_t interval;
    int64_t left = event_timer_left(key, &interval);
    return (struct itimerspec){timespec_of(interval), timespec_of(left)};
}

static struct itimerval event_itimer_value(void)
{
    struct itimerspec value = event_timer_value(KEY_OF_ITIMER);
    return (struct itimerval){timeval_not_below(nanoseconds(value.it_interval)), timeval_not_below(nanoseconds(value.it_value))};
}

static int set_event_timer(uintptr_t key, wide value, int64_t deadline, wide interval, void (*fire)(uintptr_t key))
{
    if (event_timer(key, value == 0 ? 0 : deadline, interval > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t)interval, fire))
        return 0;
    errno = EAGAIN;
    return -1;
}

static int set_event_itimer(const struct itimerval *new, struct itimerval *old)
{
    struct itimerval before = event_itimer_value();
    wide value = new ? nanoseconds_of(new->it_value) : 0; /* null stops the timer */
    wide interval = new ? nanoseconds_of(new->it_interval) : 0;
    int result = set_event_timer(KEY_OF_ITIMER, value, event_deadline_in(value), interval, fire_itimer);
    if (result == 0 && old)
        *old = before;
    return result;
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *restrict new, struct itimerval *restrict old)
{
    struct itimerval real;
    bool is_scaled = !is_real() && which == ITIMER_REAL;
    if (is_scaled && event_page && (!new || (is_valid_timeval(new->it_value) && is_valid_timeval(new->it_interval))))
        return set_event_itimer(new, old);
    if (is_scaled && new && is_valid_timeval(new->it_value) && is_valid_timeval(new->it_interval)) {
        real.it_interval = timeval_not_below(real_length(nanoseconds_of(new->it_interval)));
        real.it_value = timeval_not_below(real_length(nanoseconds_of(new->it_value)));
        new = &real;
    }
    int result = real_setitimer(which, new, old);
    if (result == 0 && is_scaled && old)
        *old = virtual_timer(*old);
    return result;
}

EXPORT int getitimer(__itimer_which_t which, struct itimerval *value)
{
    bool is_scaled = !is_real() && which == ITIMER_REAL;
    int result = real_getitimer(which, value);
    if (result == 0 && is_scaled)
        *value = event_page ? event_itimer_value() : virtual_timer(*value);
    return result;
}

EXPORT unsigned int alarm(unsigned int seconds)
{
    struct itimerval timer = {.it_value = {.tv_sec = seconds}};
    struct itimerval old = {0};
    setitimer(ITIMER_REAL, &timer, &old);
    /* As in the kernel: the remaining time is rounded to whole seconds, and is at least 1 while the timer runs. */
    return (unsigned int)old.it_value.tv_sec + (old.it_value.tv_usec >= 500000 || (!old.it_value.tv_sec && old.it_value.tv_usec));
}

static struct itimerspec virtual_timerspec(struct itimerspec real)
{
    return (struct itimerspec){timespec_of(virtual_length_left(nanoseconds(real.it_interval))),
                               timespec_of(virtual_length_left(nanoseconds(real.it_value)))};
}

static const struct itimerspec stopped;

EXPORT int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict new, struct itimerspec *restrict old)
{
    if (is_real() || !new || !is_valid(&new->it_value) || !is_valid(&new->it_interval))
        return real_timer_settime(timer, flags, new, old);
    if (event_page) {
        struct itimerspec before = event_timer_value(KEY_OF(timer));
        wide value = nanoseconds(new->it_value);
        int64_t deadline = flags & TIMER_ABSTIME && value ? event_deadline_on(guessed_clock(&new->it_value), &new->it_value)
                                                          : event_deadline_in(value);
        int result = real_timer_settime(timer, 0, &stopped, old);
        if (result == 0)
            result = set_event_timer(KEY_OF(timer), value, deadline, nanoseconds(new->it_interval), fire_timer);
        if (result == 0 && old)
            *old = before;
        return result;
    }
    struct itimerspec real = {.it_interval = timespec_of(real_length(nanoseconds(new->it_interval)))};
    if (flags & TIMER_ABSTIME && nanoseconds(new->it_value) != 0) /* 0 stops the timer */
        real.it_value = guessed_deadline(&new->it_value);
    else
        real.it_value = timespec_of(real_length(nanoseconds(new->it_value)));
    int result = real_timer_settime(timer, flags, &real, old);
    if (result == 0 && old)
        *old = virtual_timerspec(*old);
    return result;
}

EXPORT int timer_gettime(timer_t timer, struct itimerspec *value)
{
    bool real = is_real();
    int result = real_timer_gettime(timer, value);
    if (result == 0 && !real)
        *value = event_page ? event_timer_value(KEY_OF(timer)) : virtual_timerspec(*value);
    return result;
}

EXPORT int timer_delete(timer_t timer)
{
    if (!is_real() && event_page)
        (void)event_timer(KEY_OF(timer), 0, 0, fire_timer);
    return real_timer_delete(timer);
}

/* ---- times of files, which Slurm compares with its clock ---- */

/* Times before the anchor keep their real distance to it. */
static struct timespec file_time(struct timespec real)
{
    wide since = nanoseconds(real) - clocks.calendar.real;
    if (event_page && since >= 0) {
        wide known = nanoseconds(real) < INT64_MAX / 2 ? nanoseconds(real) : INT64_MAX / 2;
        return timespec_of(event_instant_of((int64_t)known, clocks.calendar.real, clocks.calendar.virtual));
    }
    return timespec_of(clocks.calendar.virtual + (since < 0 ? since : virtual_length(since)));
}

EXPORT int fstatat(int directory, const char *restrict path, struct stat *restrict status, int flags)
{
    bool real = is_real();
    int result = real_fstatat ? real_fstatat(directory, path, status, flags) : real___fxstatat(0, directory, path, status, flags);
    if (result == 0 && !real) {
        status->st_atim = file_time(status->st_atim);
        status->st_mtim = file_time(status->st_mtim);
        status->st_ctim = file_time(status->st_ctim);
    }
    return result;
}

EXPORT int stat(const char *restrict path, struct stat *restrict status)
{
    return fstatat(AT_FDCWD, path, status, 0);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict status)
{
    return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstat(int descriptor, struct stat *status)
{
    if (descriptor < 0) { /* AT_FDCWD is */
        errno = EBADF;
        return -1;
    }
    return fstatat(descriptor, "", status, AT_EMPTY_PATH);
}

/* The version selects the layout of struct stat; on 64-bit systems there is only one. */
EXPORT int __xstat(int version, const char *path, struct stat *status)
{
    (void)version;
    return stat(path, status);
}

EXPORT int __lxstat(int version, const char *path, struct stat *status)
{
    (void)version;
    return lstat(path, status);
}

EXPORT int __fxstat(int version, int descriptor, struct stat *status)
{
    (void)version;
    return fstat(descriptor, status);
}

EXPORT int __fxstatat(int version, int directory, const char *path, struct stat *status, int flags)
{
    (void)version;
    return fstatat(directory, path, status, flags);
}

/* Called by programs with large-file support. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat has 64-bit fields");
#define SAME_AS(name) __attribute__((alias(#name)))
EXPORT int stat64(const char *restrict path, struct stat64 *restrict status) SAME_AS(stat);
EXPORT int lstat64(const char *restrict path, struct stat64 *restrict status) SAME_AS(lstat);
EXPORT int fstat64(int descriptor, struct stat64 *status) SAME_AS(fstat);
EXPORT int fstatat64(int directory, const char *restrict path, struct stat64 *restrict status, int flags) SAME_AS(fstatat);
EXPORT int __xstat64(int version, const char *path, struct stat64 *status) SAME_AS(__xstat);
EXPORT int __lxstat64(int version, const char *path, struct stat64 *status) SAME_AS(__lxstat);
EXPORT int __fxstat64(int version, int descriptor, struct stat64 *status) SAME_AS(__fxstat);
EXPORT int __fxstatat64(int version, int directory, const char *path, struct stat64 *status, int flags) SAME_AS(__fxstatat);

/* ---- messages ---- */

/*
 * TCP delays the second of two short writes until the first one is acknowledged, which takes the other side up to 40 ms: the
 * kernel's own time, in which nothing of the instance runs. slurmctld and slurmdbd write the length of a message, then the message.
 * So each connection sends at once; accepted ones inherit it from the socket that listens.
 */
EXPORT int socket(int domain, int type, int protocol)
{
    is_real();
    int file = real_socket(domain, type, protocol);
    if (file >= 0 && (domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM) {
        int error = errno, on = 1;
        (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        errno = error;
    }
    return file;
}

/* ---- files ---- */

/*
 * slurmctld writes its state every 5 s of its time when it has changed, and waits until each of its files is on the disk, while
 * jobs can neither start nor end. With SLURM_MIRAGE_SAVES=memory they are with the kernel, which a killed slurmctld does not lose.
 */
EXPORT int fsync(int file)
{
    is_real();
    if (!saves_to_memory)
        return real_fsync(file);
    return fcntl(file, F_GETFD) < 0 ? -1 : 0;
}

/* ---- munge, in real time ---- */

/* libmunge is loaded with Slurm's plugin, where RTLD_NEXT does not search. */
static void *in_libmunge(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    void *library = found ? NULL : dlopen("libmunge.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        found = dlsym(library, name);
    if (!found)
        die(getenv(VARIABLE), "libmunge.so.2 is not loaded");
    return found;
}

/*
 * When munged is busy, libmunge fails with EMUNGE_SOCKET after 2 s, and Slurm retries 20 times at intervals of 0.1 s of virtual
 * time. So the wrapper first retries in real time.
 */
static bool once_more(int error, volatile int *attempts)
{
    if (error != EMUNGE_SOCKET || ++*attempts > MUNGE_ATTEMPTS)
        return false;
    struct timespec pause = timespec_of(MUNGE_PAUSE);
    real_clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return true;
}

/* The calling thread is inside libmunge: in real time, for which the virtual clock waits. */
static void enter_munge(struct event_hold *hold)
{
    event_hold_begin(hold);
    in_real_time = true;
}

static void leave_munge(void *hold)
{
    in_real_time = false;
    event_hold_end(hold);
}

EXPORT int munge_encode(char **credential, void *context, const void *payload, int length)
{
    static _Atomic(__typeof__(&munge_encode)) real;
    struct event_hold hold;
    volatile int attempts = 0; /* pthread_cleanup_push may be a setjmp(3) */
    volatile int error;
    is_real();
    if (!real)
        real = (__typeof__(&munge_encode))in_libmunge("munge_encode");
    enter_munge(&hold);
    pthread_cleanup_push(leave_munge, &hold);
    do
        error = real(credential, context, payload, length);
    while (once_more(error, &attempts));
    pthread_cleanup_pop(1);
    return error;
}

EXPORT int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid)
{
    static _Atomic(__typeof__(&munge_decode)) real;
    struct event_hold hold;
    volatile int attempts = 0; /* pthread_cleanup_push may be a setjmp(3) */
    volatile int error;
    is_real();
    if (!real)
        real = (__typeof__(&munge_decode))in_libmunge("munge_decode");
    enter_munge(&hold);
    pthread_cleanup_push(leave_munge, &hold);
    do
        error = real(credential, context, payload, length, uid, gid);
    while (once_more(error, &attempts));
    pthread_cleanup_pop(1);
    return error;
}
