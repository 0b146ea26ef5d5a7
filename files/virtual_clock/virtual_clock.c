/*
 * virtual_clock.so: preloaded into a program (ld.so(8), LD_PRELOAD), it makes time pass SPEED times faster for it.
 *
 *   SLURM_MIRAGE_CLOCK=FILE LD_PRELOAD=/path/virtual_clock.so PROGRAM
 *
 * FILE has one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED: an instant on both clocks (ns since the epoch) and how much faster the
 * virtual one runs. It is read once, when the program starts. Every process with the same line has the same time, on every
 * host with the same real time: nothing is shared, so nothing can be left locked by a process that is killed.
 *
 * The program reads virtual clocks, and waits for virtual lengths and until virtual instants. Rates of rounding: what is read is
 * rounded down, what is waited for up, so that a program which was to wait until an instant never finds that it is before it.
 * CPU clocks stay real, and so does all that happens inside munge_encode(3) and munge_decode(3): munged lives in real time.
 * README.md lists what is scaled and what is not.
 *
 * No wrapper takes a lock, allocates memory or uses stdio: slurmctld cancels threads in the middle of them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define EXPORT __attribute__((visibility("default")))
#define VARIABLE "SLURM_MIRAGE_CLOCK"

enum { MAX_SPEED = 1000000, EXIT_NO_CLOCK = 127 };

typedef __int128 wide; /* products of nanoseconds and a speed in billionths need up to 113 bits */

/* libmunge is not linked with; these two are its interface (munge(3)). */
int munge_encode(char **credential, void *context, const void *payload, int length);
int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid);
enum { EMUNGE_SOCKET = 6, MUNGE_ATTEMPTS = 20 };
#define MUNGE_PAUSE (100 * SECOND / 1000)

/* What a program compiled with _FORTIFY_SOURCE calls instead of poll and ppoll. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size);

#define REPLACED(X)                                                                                                            \
    X(clock_gettime) X(gettimeofday) X(clock_nanosleep) X(ppoll) X(__ppoll_chk) X(pselect) X(epoll_pwait) X(epoll_pwait2)       \
    X(pthread_cond_timedwait) X(pthread_cond_clockwait) X(pthread_mutex_timedlock) X(sem_timedwait) X(sem_clockwait)            \
    X(setitimer) X(getitimer) X(timer_settime) X(timer_gettime) X(sigtimedwait) X(stat) X(lstat) X(fstat) X(fstatat) X(sysinfo)

#define DECLARE(name) static __typeof__(name) *real_##name;
REPLACED(DECLARE)

static struct {
    int64_t real, virtual; /* the anchor: one moment on both clocks, ns */
    int64_t speed;         /* billionths; 0: not read yet */
} anchor;

/* Set while this thread is inside libmunge. */
static _Thread_local bool in_real_time __attribute__((tls_model("initial-exec")));

/* ---- the clock file ---- */

static void complain(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static _Noreturn void die(const char *file, const char *why)
{
    complain("virtual clock: " VARIABLE "=");
    complain(file ? file : "");
    complain(": ");
    complain(why);
    complain("\n");
    _exit(EXIT_NO_CLOCK);
}

/* Digits, to the first other byte. False if there is none, or the value is above `most`. */
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

/* Up to nine digits after a point, as billionths; 0 without a point. */
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

static bool parse(const char *text)
{
    static const char head[] = "mirage-clock 1 ";
    int64_t whole;
    int64_t part;
    if (strncmp(text, head, sizeof head - 1) != 0)
        return false;
    text += sizeof head - 1;
    if (!read_whole(&text, INT64_MAX, &anchor.real) || *text++ != ' ' || !read_whole(&text, INT64_MAX, &anchor.virtual) ||
        *text++ != ' ' || !read_whole(&text, MAX_SPEED, &whole) || !read_billionths(&text, &part))
        return false;
    text += *text == '\n';
    anchor.speed = whole * SECOND + part;
    return *text == '\0' && anchor.speed > 0 && anchor.speed <= MAX_SPEED * SECOND;
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
    if (length < 0 || !parse(text))
        die(file, "is not one line, mirage-clock 1 REAL_NS VIRTUAL_NS SPEED");
}

/* Also called by the first wrapper that is used, because other libraries' constructors may run before this one. */
__attribute__((constructor)) static void set_up(void)
{
    if (anchor.speed)
        return;
#define RESOLVE(name) real_##name = (__typeof__(real_##name))dlsym(RTLD_NEXT, #name);
    REPLACED(RESOLVE)
    /* Two generations of condition variables have this name; without a version the older one is found. */
    void *current = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (current)
        real_pthread_cond_timedwait = (__typeof__(real_pthread_cond_timedwait))current;
    read_clock();
}

/* Whether the caller is to have real time. */
static bool is_real(void)
{
    if (__builtin_expect(!anchor.speed, 0))
        set_up();
    return in_real_time;
}

/* ---- conversions, in ns ---- */

static int64_t clamped(wide value)
{
    return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

static wide floored(wide dividend, wide divisor)
{
    return dividend / divisor - (dividend % divisor < 0);
}

static int64_t virtual_length(wide real)
{
    return clamped(floored(real * anchor.speed, SECOND));
}

static int64_t real_length(wide virtual)
{
    return clamped(-floored(-virtual * SECOND, anchor.speed));
}

static int64_t virtual_instant(int64_t real)
{
    return clamped((wide)anchor.virtual + virtual_length((wide)real - anchor.real));
}

static int64_t real_instant(int64_t virtual)
{
    return clamped((wide)anchor.real + real_length((wide)virtual - anchor.virtual));
}

static int64_t nanoseconds(struct timespec time)
{
    return clamped((wide)time.tv_sec * SECOND + time.tv_nsec);
}

static struct timespec timespec_of(int64_t time)
{
    wide seconds = floored(time, SECOND);
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(time - (int64_t)seconds * SECOND)};
}

static struct timeval timeval_of(int64_t time)
{
    struct timespec exact = timespec_of(time);
    return (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
}

static bool is_valid(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < SECOND;
}

/* ---- clocks ---- */

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
        return OTHER; /* CPU time */
    }
}

static int64_t real_now(clockid_t clock)
{
    struct timespec now;
    real_clock_gettime(clock, &now);
    return nanoseconds(now);
}

/* Clocks that count from the host's start run faster from there on: so they are the same in all processes, without an anchor. */
static int64_t virtual_now(clockid_t clock)
{
    /* The coarse clocks' ticks of 1 to 10 ms would become seconds. */
    clock = clock == CLOCK_REALTIME_COARSE ? CLOCK_REALTIME : clock == CLOCK_MONOTONIC_COARSE ? CLOCK_MONOTONIC : clock;
    int64_t now = real_now(clock);
    return kind_of(clock) == CALENDAR ? virtual_instant(now) : virtual_length(now);
}

/* The real instant of a deadline on `clock`, which stays the clock of the real call. */
static struct timespec real_deadline(clockid_t clock, const struct timespec *deadline)
{
    int64_t virtual = nanoseconds(*deadline);
    return timespec_of(kind_of(clock) == CALENDAR ? real_instant(virtual) : real_length(virtual));
}

/*
 * The same where the call does not say which clock the deadline is on: that of the two on which it is nearer. They are decades
 * apart, and deadlines are not.
 */
static struct timespec guessed_deadline(const struct timespec *deadline)
{
    wide calendar = (wide)nanoseconds(*deadline) - virtual_now(CLOCK_REALTIME);
    wide uptime = (wide)nanoseconds(*deadline) - virtual_now(CLOCK_MONOTONIC);
    bool is_uptime = (uptime < 0 ? -uptime : uptime) < (calendar < 0 ? -calendar : calendar);
    return real_deadline(is_uptime ? CLOCK_MONOTONIC : CLOCK_REALTIME, deadline);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (is_real() || kind_of(clock) == OTHER)
        return real_clock_gettime(clock, time);
    *time = timespec_of(virtual_now(clock));
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    if (is_real())
        return real_gettimeofday(time, zone);
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
    if (base != TIME_UTC)
        return 0;
    clock_gettime(CLOCK_REALTIME, time);
    return base;
}

EXPORT int sysinfo(struct sysinfo *info)
{
    bool real = is_real();
    int result = real_sysinfo(info);
    /* slurmctld takes its clock less this for the start of a node. */
    if (result == 0 && !real)
        info->uptime = virtual_length((wide)info->uptime * SECOND) / SECOND;
    return result;
}

/* ---- sleeping ---- */

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
    if (is_real() || kind_of(clock) == OTHER || !is_valid(wanted))
        return real_clock_nanosleep(clock, flags, wanted, left);
    if (flags & TIMER_ABSTIME) {
        struct timespec deadline = real_deadline(clock, wanted);
        return real_clock_nanosleep(clock, flags, &deadline, NULL);
    }
    struct timespec real = timespec_of(real_length(nanoseconds(*wanted)));
    int error = real_clock_nanosleep(clock, flags, &real, left ? &real : NULL);
    if (error == EINTR && left)
        *left = timespec_of(virtual_length(nanoseconds(real)));
    return error;
}

EXPORT int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    int error = clock_nanosleep(CLOCK_REALTIME, 0, wanted, left);
    if (error)
        errno = error;
    return error ? -1 : 0;
}

EXPORT int usleep(useconds_t microseconds)
{
    struct timespec wanted = timespec_of((int64_t)microseconds * 1000);
    return nanosleep(&wanted, NULL);
}

EXPORT unsigned int sleep(unsigned int seconds)
{
    struct timespec wanted = {.tv_sec = seconds};
    return nanosleep(&wanted, &wanted) ? (unsigned int)wanted.tv_sec : 0;
}

/* ---- waiting for files and signals ---- */

/* The real timeout for a virtual one: null for none, and an invalid one as it is, so that the kernel refuses it. */
static const struct timespec *real_timeout(const struct timespec *timeout, struct timespec *room)
{
    if (!timeout || !is_valid(timeout))
        return timeout;
    *room = timespec_of(real_length(nanoseconds(*timeout)));
    return room;
}

/* A timeout in milliseconds, of which a negative one means none. */
static const struct timespec *real_milliseconds(int timeout, struct timespec *room)
{
    if (timeout < 0)
        return NULL;
    int64_t wanted = (int64_t)timeout * (SECOND / 1000);
    *room = timespec_of(is_real() ? wanted : real_length(wanted));
    return room;
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec room;
    return real_ppoll(fds, count, is_real() ? timeout : real_timeout(timeout, &room), mask);
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    struct timespec room;
    is_real();
    return real_ppoll(fds, count, real_milliseconds(timeout, &room), NULL);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
    struct timespec room;
    return real___ppoll_chk(fds, count, is_real() ? timeout : real_timeout(timeout, &room), mask, size);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size)
{
    struct timespec room;
    is_real();
    return real___ppoll_chk(fds, count, real_milliseconds(timeout, &room), NULL, size);
}

EXPORT int pselect(int count, fd_set *restrict read, fd_set *restrict write, fd_set *restrict except,
                   const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
    struct timespec room;
    return real_pselect(count, read, write, except, is_real() ? timeout : real_timeout(timeout, &room), mask);
}

/* Linux tells in `timeout` how much of it was left, and some programs wait on with that. */
EXPORT int select(int count, fd_set *restrict read, fd_set *restrict write, fd_set *restrict except,
                  struct timeval *restrict timeout)
{
    if (!timeout)
        return pselect(count, read, write, except, NULL, NULL);
    if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
        errno = EINVAL;
        return -1;
    }
    struct timespec wanted = timespec_of(clamped((wide)timeout->tv_sec * SECOND + (wide)timeout->tv_usec * 1000));
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int result = pselect(count, read, write, except, &wanted, NULL);
    int error = errno;
    clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t left = nanoseconds(wanted) - (nanoseconds(after) - nanoseconds(before));
    *timeout = timeval_of(result == 0 || left < 0 ? 0 : left);
    errno = error;
    return result;
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec room;
    return real_epoll_pwait2(epoll, events, count, is_real() ? timeout : real_timeout(timeout, &room), mask);
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout, const sigset_t *mask)
{
    struct timespec room;
    if (is_real() || timeout <= 0)
        return real_epoll_pwait(epoll, events, count, timeout, mask);
    const struct timespec *real = real_milliseconds(timeout, &room);
    int result = real_epoll_pwait2 ? real_epoll_pwait2(epoll, events, count, real, mask) : -1;
    if (result >= 0 || (real_epoll_pwait2 && errno != ENOSYS))
        return result;
    /* A kernel before Linux 5.11: whole milliseconds, at least one. */
    int64_t milliseconds = (nanoseconds(room) + SECOND / 1000 - 1) / (SECOND / 1000);
    return real_epoll_pwait(epoll, events, count, milliseconds > INT32_MAX ? INT32_MAX : (int)milliseconds, mask);
}

EXPORT int epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
    return epoll_pwait(epoll, events, count, timeout, NULL);
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout)
{
    struct timespec room;
    return real_sigtimedwait(set, info, is_real() ? timeout : real_timeout(timeout, &room));
}

/* ---- waiting for other threads ---- */

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_cond_timedwait(condition, mutex, deadline);
    struct timespec real = guessed_deadline(deadline);
    return real_pthread_cond_timedwait(condition, mutex, &real);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                                  const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_cond_clockwait(condition, mutex, clock, deadline);
    struct timespec real = real_deadline(clock, deadline);
    return real_pthread_cond_clockwait(condition, mutex, clock, &real);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_mutex_timedlock(mutex, deadline);
    struct timespec real = real_deadline(CLOCK_REALTIME, deadline);
    return real_pthread_mutex_timedlock(mutex, &real);
}

EXPORT int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_sem_timedwait(semaphore, deadline);
    struct timespec real = real_deadline(CLOCK_REALTIME, deadline);
    return real_sem_timedwait(semaphore, &real);
}

EXPORT int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_sem_clockwait(semaphore, clock, deadline);
    struct timespec real = real_deadline(clock, deadline);
    return real_sem_clockwait(semaphore, clock, &real);
}

/* ---- timers ---- */

static int64_t microseconds_to_real(struct timeval time)
{
    /* Rounded up to microseconds, so that a short time does not become 0, which stops a timer. */
    int64_t real = real_length(((wide)time.tv_sec * SECOND) + (wide)time.tv_usec * 1000);
    return real > INT64_MAX - 999 ? real : real + 999;
}

static struct timeval microseconds_to_virtual(struct timeval time)
{
    return timeval_of(virtual_length(((wide)time.tv_sec * SECOND) + (wide)time.tv_usec * 1000));
}

static struct itimerval virtual_timer(struct itimerval real)
{
    return (struct itimerval){microseconds_to_virtual(real.it_interval), microseconds_to_virtual(real.it_value)};
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *restrict new, struct itimerval *restrict old)
{
    if (is_real() || which != ITIMER_REAL || !new)
        return real_setitimer(which, new, old);
    struct itimerval real = *new;
    if (real.it_value.tv_usec >= 0 && real.it_value.tv_usec < 1000000 && real.it_value.tv_sec >= 0)
        real.it_value = timeval_of(real.it_value.tv_sec || real.it_value.tv_usec ? microseconds_to_real(real.it_value) : 0);
    if (real.it_interval.tv_sec || real.it_interval.tv_usec)
        real.it_interval = timeval_of(microseconds_to_real(real.it_interval));
    int result = real_setitimer(which, &real, old);
    if (result == 0 && old)
        *old = virtual_timer(*old);
    return result;
}

EXPORT int getitimer(__itimer_which_t which, struct itimerval *value)
{
    bool real = is_real();
    int result = real_getitimer(which, value);
    if (result == 0 && !real && which == ITIMER_REAL)
        *value = virtual_timer(*value);
    return result;
}

EXPORT unsigned int alarm(unsigned int seconds)
{
    struct itimerval timer = {.it_value = {.tv_sec = seconds}};
    struct itimerval old = {0};
    setitimer(ITIMER_REAL, &timer, &old);
    /* As alarm(2): what is left is told in whole seconds, and is not 0 while there is something left. */
    return (unsigned int)old.it_value.tv_sec + (old.it_value.tv_usec >= 500000 || (!old.it_value.tv_sec && old.it_value.tv_usec));
}

static struct itimerspec virtual_timerspec(struct itimerspec real)
{
    return (struct itimerspec){timespec_of(virtual_length(nanoseconds(real.it_interval))),
                               timespec_of(virtual_length(nanoseconds(real.it_value)))};
}

EXPORT int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict new, struct itimerspec *restrict old)
{
    if (is_real() || !is_valid(&new->it_value) || !is_valid(&new->it_interval))
        return real_timer_settime(timer, flags, new, old);
    struct itimerspec real = {.it_interval = timespec_of(real_length(nanoseconds(new->it_interval)))};
    if (nanoseconds(new->it_value) == 0)
        real.it_value = new->it_value; /* stops it */
    else if (flags & TIMER_ABSTIME)
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
        *value = virtual_timerspec(*value);
    return result;
}

/* ---- times of files, which slurmctld compares with its clock ---- */

/* What is older than the anchor keeps its distance to it. */
static struct timespec file_time(struct timespec real)
{
    int64_t time = nanoseconds(real);
    return timespec_of(time >= anchor.real ? virtual_instant(time) : clamped((wide)anchor.virtual - anchor.real + time));
}

static int with_file_times(int result, struct stat *status)
{
    if (result == 0 && !in_real_time) {
        status->st_atim = file_time(status->st_atim);
        status->st_mtim = file_time(status->st_mtim);
        status->st_ctim = file_time(status->st_ctim);
    }
    return result;
}

EXPORT int stat(const char *restrict path, struct stat *restrict status)
{
    is_real();
    return with_file_times(real_stat(path, status), status);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict status)
{
    is_real();
    return with_file_times(real_lstat(path, status), status);
}

EXPORT int fstat(int descriptor, struct stat *status)
{
    is_real();
    return with_file_times(real_fstat(descriptor, status), status);
}

EXPORT int fstatat(int directory, const char *restrict path, struct stat *restrict status, int flags)
{
    is_real();
    return with_file_times(real_fstatat(directory, path, status, flags), status);
}

/* Programs with large-file support call these. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat has 64-bit fields");
EXPORT int stat64(const char *restrict path, struct stat64 *restrict status) __attribute__((alias("stat")));
EXPORT int lstat64(const char *restrict path, struct stat64 *restrict status) __attribute__((alias("lstat")));
EXPORT int fstat64(int descriptor, struct stat64 *status) __attribute__((alias("fstat")));
EXPORT int fstatat64(int directory, const char *restrict path, struct stat64 *restrict status, int flags)
    __attribute__((alias("fstatat")));

/* ---- munge, in real time ---- */

/* Slurm's plugin brings libmunge along, where RTLD_NEXT does not look. */
static void *in_libmunge(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    void *library = found ? NULL : dlopen("libmunge.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        found = dlsym(library, name);
    if (!found) {
        complain("virtual clock: there is no libmunge.so.2 that could be asked for ");
        die(getenv(VARIABLE), name);
    }
    return found;
}

/*
 * While munged is busy libmunge's own patience of 2 s ends with EMUNGE_SOCKET, and Slurm tries again 20 times, a tenth of a second
 * apart: a tenth of its own second. So the same is done here first.
 */
static bool once_more(int error, int *attempts)
{
    if (error != EMUNGE_SOCKET || ++*attempts > MUNGE_ATTEMPTS)
        return false;
    struct timespec pause = timespec_of(MUNGE_PAUSE);
    real_clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return true;
}

EXPORT int munge_encode(char **credential, void *context, const void *payload, int length)
{
    static _Atomic(__typeof__(&munge_encode)) real;
    int attempts = 0;
    int error;
    is_real();
    if (!real)
        real = (__typeof__(&munge_encode))in_libmunge("munge_encode");
    in_real_time = true;
    do
        error = real(credential, context, payload, length);
    while (once_more(error, &attempts));
    in_real_time = false;
    return error;
}

EXPORT int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid)
{
    static _Atomic(__typeof__(&munge_decode)) real;
    int attempts = 0;
    int error;
    is_real();
    if (!real)
        real = (__typeof__(&munge_decode))in_libmunge("munge_decode");
    in_real_time = true;
    do
        error = real(credential, context, payload, length, uid, gid);
    while (once_more(error, &attempts));
    in_real_time = false;
    return error;
}
