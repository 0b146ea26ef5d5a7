/* A libmunge.so.2 that tells which time it lives in. The first calls, as many as MUNGE_BUSY says, find munged busy. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { EMUNGE_SUCCESS = 0, EMUNGE_SOCKET = 6 };

static int calls;

static long long ns(struct timespec time)
{
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int serve(const char *what)
{
    struct timespec raw[2];
    struct timespec seen[2];
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw[0]);
    clock_gettime(CLOCK_REALTIME, &seen[0]);
    poll(NULL, 0, 20);
    clock_gettime(CLOCK_REALTIME, &seen[1]);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &raw[1]);
    printf("%s call=%d raw_before=%lld seen_before=%lld seen_after=%lld raw_after=%lld\n", what, ++calls, ns(raw[0]), ns(seen[0]),
           ns(seen[1]), ns(raw[1]));
    return calls <= atoi(getenv("MUNGE_BUSY")) ? EMUNGE_SOCKET : EMUNGE_SUCCESS;
}

int munge_encode(char **credential, void *context, const void *payload, int length)
{
    (void)context, (void)payload, (void)length;
    *credential = NULL;
    return serve("encode");
}

int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid)
{
    (void)credential, (void)context, (void)payload, (void)length;
    *uid = 11;
    *gid = 12;
    return serve("decode");
}
