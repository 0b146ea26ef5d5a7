/* Functions that wait for other threads: condition variables, mutexes, semaphores. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "idle_cycles.h"
#include "instants.h"
#include "slurm_quirks.h"
#include "virtual_clock.h"

#include <errno.h>

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict deadline)
{
    if (is_real() || !is_valid(deadline))
        return real_pthread_cond_timedwait(condition, mutex, deadline);
    if (__builtin_expect(is_sampler(), 0))
        return wait_of_sampler(condition, mutex, deadline);
    if (event_page) {
        const int64_t end = event_deadline_on(guessed_clock(deadline), deadline);
        return this_scheduler() == BACKFILL_SCHEDULER ? wait_of_backfill(condition, mutex, end)
                                                      : event_wait_on(condition, mutex, end);
    }
    struct timespec real = guessed_deadline(deadline);
    return real_pthread_cond_timedwait(condition, mutex, &real);
}

EXPORT int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    if (is_real() || this_scheduler() != MAIN_SCHEDULER)
        return real_pthread_cond_wait(condition, mutex);
    end_pass();
    int error = real_pthread_cond_wait(condition, mutex);
    begin_pass();
    return error;
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

/* Not inlined: where it is, gcc takes the length for a variable that the cleanup of a cancelled wait might clobber. */
__attribute__((noinline)) static struct timespec real_instant_in(clockid_t clock, struct timespec length)
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
