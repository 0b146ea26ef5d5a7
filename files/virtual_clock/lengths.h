/* Lengths of time on both clocks, in ns, and how programs write them. The virtual clock runs `clock_speed` times as fast as real
 * time. */
#ifndef LENGTHS_H
#define LENGTHS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

__extension__ typedef __int128 wide;

#pragma GCC visibility push(hidden)

extern int64_t clock_speed; /* billionths; of an event-driven clock SECOND */

wide floored(wide dividend, int64_t divisor);

/* Lengths that programs read are rounded down; lengths of waits, and what is left of them, are rounded up. */
wide virtual_length(wide real);
wide virtual_length_left(wide real);
wide real_length(wide virtual);

/* timespec_of and timeval_of round down; values that do not fit become the last or the first one that does. */
wide nanoseconds(struct timespec time);
wide nanoseconds_of(struct timeval time);
struct timespec timespec_of(wide time);
struct timeval timeval_of(wide time);
struct timeval timeval_not_below(wide time);

/* Invalid values, and null, are passed unchanged to the real function, which reports the error. */
static inline bool is_valid(const struct timespec *time)
{
    return time && time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < SECOND;
}

#pragma GCC visibility pop

#endif
