/* Timers, and the time that is left of them. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "instants.h"
#include "virtual_clock.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

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
 * On the event-driven clock the kernel cannot know when a timer ends. A thread waits for the deadlines (event_timer). Then it sends
 * SIGALRM, or lets the kernel's timer end at once, which signals as the program has asked for.
 */
enum { KEY_OF_ITIMER = 2, FIRST_KEY = 3 }; /* ids of timers are small numbers, or half an address with the topmost bit set */
#define KEY_OF(timer) ((uintptr_t)(timer) + FIRST_KEY)
#define TIMER_OF(key) ((timer_t)((key) - FIRST_KEY))

/*
 * Not by a timer of the kernel: it would wake up a thread that has waited since before the clock's last jump by something that is
 * not the instance's, which is counted as a false quiet.
 */
static void fire_itimer(uintptr_t key)
{
    (void)key;
    (void)kill(getpid(), SIGALRM);
}

/* Returns when the kernel's timer has ended: in between nothing would work, and time could jump. */
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
