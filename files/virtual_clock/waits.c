/* Functions that sleep, and that wait for files and signals. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "instants.h"
#include "openpbs_quirks.h"
#include "signalled_waits.h"
#include "slurm_quirks.h"
#include "virtual_clock.h"

#include <errno.h>
#include <string.h>

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

EXPORT int usleep(useconds_t microseconds)
{
    if (!is_real() && leaves_nap_out(&microseconds))
        return 0;
    if (!is_real() && __builtin_expect(is_sampler(), 0))
        return sleep_of_sampler(microseconds);
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

/* Whether a wait with this limit is one until an instant of the event-driven clock: it is on that clock, and can end by time. */
static bool has_deadline(const struct timespec *timeout)
{
    return !is_real() && event_page && is_valid(timeout) && nanoseconds(*timeout) > 0;
}

/* A wait for files on the event-driven clock: `call` makes it, with a real limit and a mask, and returns 0 when that is over. */
struct fd_sets;
struct file_wait {
    int (*call)(const struct file_wait *wait, const struct timespec *limit, const sigset_t *mask);
    struct pollfd *fds;
    nfds_t count; /* of `fds` or `events`, or select's; 0: the call is a sleep */
    struct fd_sets *sets;
    int epoll;
    struct epoll_event *events;
};

/* Waits for `length` ns of virtual time at most. */
static int wait_for_files(const struct file_wait *files, wide length, const sigset_t *mask)
{
    int result;
    struct signalled_wait signalled;
    const int64_t since = event_now();
    const int64_t limit = length < INT64_MAX ? (int64_t)length : INT64_MAX - 1;
    const int64_t deadline = files->count > 0 ? deadline_of_pass(limit) : event_deadline_in(limit);
    if (deadline == INT64_MAX)
        return files->call(files, NULL, mask);
    if (deadline <= since) {
        result = files->call(files, &(const struct timespec){0}, mask);
        if (result != 0)
            note_message();
        return result;
    }
    if (!has_signalled_waits() || !signalled_begin(&signalled, deadline, mask)) {
        IN_PARTS(result, deadline, 0, part, files->call(files, &part, mask));
        return result;
    }
    pthread_cleanup_push(signalled_end, &signalled);
    do
        result = files->call(files, NULL, &signalled.mask);
    while (signalled_goes_on(&signalled, &result));
    pthread_cleanup_pop(1);
    if (result != 0)
        note_message();
    return result > 0 && files->events && passes_before_message(since) ? 0 : result;
}

static int call_ppoll(const struct file_wait *wait, const struct timespec *limit, const sigset_t *mask)
{
    return real_ppoll(wait->fds, wait->count, limit, mask);
}

static int poll_until(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    const struct file_wait wait = {.call = call_ppoll, .fds = fds, .count = count};
    return wait_for_files(&wait, nanoseconds(*timeout), mask);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec room;
    if (has_deadline(timeout))
        return poll_until(fds, count, timeout, mask);
    return real_ppoll(fds, count, is_real() ? timeout : real_timeout(timeout, &room), mask);
}

EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    struct timespec room = timespec_of((wide)timeout * (SECOND / 1000));
    if (!is_real() && is_idle_poll(count, timeout))
        return poll_idly(fds, count);
    if (timeout > 0 && has_deadline(&room))
        return poll_until(fds, count, &room, NULL);
    return real_ppoll(fds, count, real_milliseconds(timeout, &room), NULL);
}

EXPORT int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
    struct timespec room;
    if (has_deadline(timeout) && count <= size / sizeof *fds)
        return poll_until(fds, count, timeout, mask);
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
    int count;
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

static int call_pselect(const struct file_wait *wait, const struct timespec *limit, const sigset_t *mask)
{
    struct fd_sets *sets = wait->sets;
    copy_sets(sets, true);
    return real_pselect(sets->count, sets->given[0], sets->given[1], sets->given[2], limit, mask);
}

EXPORT int pselect(int count, fd_set *restrict read, fd_set *restrict write, fd_set *restrict except,
                   const struct timespec *restrict timeout, const sigset_t *restrict mask)
{
    struct timespec room;
    if (has_deadline(timeout) && count >= 0 && count <= FD_SETSIZE) {
        struct fd_sets sets = {count, {read, write, except}, .size = ((size_t)count + 63) / 64 * 8};
        const struct file_wait wait = {.call = call_pselect, .count = (nfds_t)count, .sets = &sets};
        copy_sets(&sets, false);
        int result = wait_for_files(&wait, nanoseconds(*timeout), mask);
        for (int i = 0; i < 3 && result == 0; i++) /* a wait that a signal has ended leaves them as they were */
            if (sets.given[i])
                memset(sets.given[i], 0, sets.size);
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

static int call_epoll_pwait2(const struct file_wait *wait, const struct timespec *limit, const sigset_t *mask)
{
    return real_epoll_pwait2(wait->epoll, wait->events, (int)wait->count, limit, mask);
}

EXPORT int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec room;
    const struct timespec *real = is_real() ? timeout : real_timeout(timeout, &room);
    if (!real_epoll_pwait2) {
        errno = ENOSYS;
        return -1;
    }
    if (has_deadline(timeout) && count > 0) {
        const struct file_wait wait = {.call = call_epoll_pwait2, .epoll = epoll, .events = events, .count = (nfds_t)count};
        return wait_for_files(&wait, nanoseconds(*timeout), mask);
    }
    return real_epoll_pwait2(epoll, events, count, real, mask);
}

/* Whole milliseconds, at least one. */
static int call_epoll_pwait(const struct file_wait *wait, const struct timespec *limit, const sigset_t *mask)
{
    int part = !limit ? -1 : limit->tv_nsec ? (int)(limit->tv_nsec / 1000000) + 1 : 0;
    return real_epoll_pwait(wait->epoll, wait->events, (int)wait->count, part, mask);
}

EXPORT int epoll_pwait(int epoll, struct epoll_event *events, int count, int timeout, const sigset_t *mask)
{
    if (is_real() || timeout <= 0)
        return real_epoll_pwait(epoll, events, count, timeout, mask);
    struct timespec wanted = timespec_of((wide)timeout * (SECOND / 1000));
    int result = epoll_pwait2(epoll, events, count, &wanted, mask);
    if (result >= 0 || (errno != ENOSYS && errno != EPERM))
        return result;
    if (event_page && count > 0) {
        const struct file_wait wait = {.call = call_epoll_pwait, .epoll = epoll, .events = events, .count = (nfds_t)count};
        return wait_for_files(&wait, nanoseconds(wanted), mask);
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
    if (has_deadline(timeout)) {
        int result;
        IN_PARTS(result, event_deadline_in(nanoseconds(*timeout)), 0, part, sigtimedwait_part(set, info, &part));
        if (result != 0)
            return result;
        errno = EAGAIN;
        return -1;
    }
    return real_sigtimedwait(set, info, is_real() ? timeout : real_timeout(timeout, &room));
}
