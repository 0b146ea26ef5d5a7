/* Instants of the clocks. instants.h describes the functions. */
#define _GNU_SOURCE
#include "instants.h"
#include "event_clock.h"
#include "virtual_clock.h"

struct clocks clocks;

enum kind kind_of(clockid_t clock)
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

wide real_now(clockid_t clock)
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

wide virtual_now(clockid_t clock)
{
    if (event_page)
        return event_now() - (kind_of(clock) == UPTIME ? event_page->uptime_offset : 0);
    /* A coarse clock's ticks of 1 to 10 ms would become virtual seconds. */
    clock = clock == CLOCK_REALTIME_COARSE ? CLOCK_REALTIME : clock == CLOCK_MONOTONIC_COARSE ? CLOCK_MONOTONIC : clock;
    return virtual_instant(kind_of(clock), real_now(clock));
}

struct timespec real_deadline(clockid_t clock, const struct timespec *deadline)
{
    if (kind_of(clock) == OTHER)
        return *deadline;
    wide real = real_instant(kind_of(clock), nanoseconds(*deadline));
    return timespec_of(real > 0 ? real : 1); /* for deadlines long past: values below 0 are invalid, and 0 would stop a timer */
}

clockid_t guessed_clock(const struct timespec *deadline)
{
    wide calendar = nanoseconds(*deadline) - virtual_now(CLOCK_REALTIME);
    wide uptime = nanoseconds(*deadline) - virtual_now(CLOCK_MONOTONIC);
    return (uptime < 0 ? -uptime : uptime) < (calendar < 0 ? -calendar : calendar) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

struct timespec guessed_deadline(const struct timespec *deadline)
{
    return real_deadline(guessed_clock(deadline), deadline);
}

/* ---- the event-driven clock ---- */

static int64_t event_deadline(wide calendar)
{
    return calendar >= INT64_MAX ? INT64_MAX - 1 : calendar < 1 ? 1 : (int64_t)calendar;
}

int64_t event_deadline_on(clockid_t clock, const struct timespec *deadline)
{
    return event_deadline(nanoseconds(*deadline) + (kind_of(clock) == UPTIME ? event_page->uptime_offset : 0));
}

int64_t event_deadline_in(wide length)
{
    return event_deadline(event_now() + length);
}
