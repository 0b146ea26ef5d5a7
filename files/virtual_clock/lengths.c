/* Lengths of time. lengths.h describes the functions. */
#include "lengths.h"

/*
 * Nanoseconds of 64-bit seconds need 94 bits, a speed in billionths 50 bits. So operands that are multiplied by a speed are bounded
 * by FAR, which is a million years.
 */
#define FAR ((wide)1 << 75)

int64_t clock_speed;

wide floored(wide dividend, int64_t divisor)
{
    wide quotient = dividend / divisor;
    return quotient - (quotient * divisor > dividend);
}

wide virtual_length(wide real)
{
    wide bounded = real > FAR ? FAR : real < -FAR ? -FAR : real;
    return floored(bounded * clock_speed, SECOND);
}

wide virtual_length_left(wide real)
{
    return -virtual_length(-real);
}

wide real_length(wide virtual)
{
    return -floored(-virtual * SECOND, clock_speed);
}

wide nanoseconds(struct timespec time)
{
    return (wide)time.tv_sec * SECOND + time.tv_nsec;
}

wide nanoseconds_of(struct timeval time)
{
    return (wide)time.tv_sec * SECOND + (wide)time.tv_usec * 1000;
}

struct timespec timespec_of(wide time)
{
    wide seconds = floored(time, SECOND);
    if (seconds > INT64_MAX)
        return (struct timespec){.tv_sec = INT64_MAX, .tv_nsec = SECOND - 1};
    if (seconds < INT64_MIN)
        return (struct timespec){.tv_sec = INT64_MIN};
    return (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(time - seconds * SECOND)};
}

struct timeval timeval_of(wide time)
{
    struct timespec exact = timespec_of(time);
    return (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
}

struct timeval timeval_not_below(wide time)
{
    return timeval_of(time + 999);
}
