/*
 * Preloaded behind virtual_clock.so: reads the clock before that has been set up, and takes the place of a clock_nanosleep of the
 * C library that tells what it is asked for, to the nanosecond, instead of sleeping. Who wants to know what is left is interrupted
 * at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((constructor)) static void early(void)
{
    struct timespec before;
    struct timespec seen;
    struct timespec after;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &before);
    clock_gettime(CLOCK_REALTIME, &seen);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &after);
    printf("early before=%ld%09ld value=%ld%09ld after=%ld%09ld\n", before.tv_sec, before.tv_nsec, seen.tv_sec, seen.tv_nsec,
           after.tv_sec, after.tv_nsec);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
    printf("asked clock=%d absolute=%d seconds=%ld nanoseconds=%ld\n", clock, flags, wanted->tv_sec, wanted->tv_nsec);
    if (!left)
        return 0;
    *left = *wanted;
    return EINTR;
}
