/* Functions that read clocks. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "instants.h"
#include "virtual_clock.h"

/* The virtual instant for the program. */
static wide reading(clockid_t clock)
{
    if (event_page)
        event_count_reading();
    return virtual_now(clock);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (is_real() || kind_of(clock) == OTHER)
        return real_clock_gettime(clock, time);
    *time = timespec_of(reading(clock));
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    if (is_real() || zone) {
        int result = real_gettimeofday(time, zone);
        if (result != 0 || in_real_time)
            return result;
    }
    *time = timeval_of(reading(CLOCK_REALTIME));
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
    *time = timespec_of(reading(CLOCK_REALTIME));
    return base;
}

EXPORT int sysinfo(struct sysinfo *info)
{
    bool real = is_real();
    int result = real_sysinfo(info);
    /* The scheduler subtracts this from its clock for a node's boot time. Rounded up to seconds, as in the kernel. */
    if (result == 0 && !real)
        info->uptime = timespec_of(virtual_now(CLOCK_BOOTTIME) + SECOND - 1).tv_sec;
    return result;
}
