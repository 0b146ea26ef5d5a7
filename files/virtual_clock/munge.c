/* Calls of libmunge, in real time, as munged. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "lengths.h"
#include "virtual_clock.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The library is not linked with libmunge; these two are libmunge's interface (munge(3)). */
int munge_encode(char **credential, void *context, const void *payload, int length);
int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid);
enum { EMUNGE_SOCKET = 6, MUNGE_ATTEMPTS = 20 };
#define MUNGE_PAUSE (100 * SECOND / 1000)

/* libmunge is loaded with Slurm's plugin, where RTLD_NEXT does not search. */
static void *in_libmunge(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    void *library = found ? NULL : dlopen("libmunge.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        found = dlsym(library, name);
    if (!found)
        die(getenv(VARIABLE), "libmunge.so.2 is not loaded");
    return found;
}

/*
 * When munged is busy, libmunge fails with EMUNGE_SOCKET after 2 s, and Slurm retries 20 times at intervals of 0.1 s of virtual
 * time. So the wrapper first retries in real time.
 */
static bool once_more(int error, volatile int *attempts)
{
    if (error != EMUNGE_SOCKET || ++*attempts > MUNGE_ATTEMPTS)
        return false;
    struct timespec pause = timespec_of(MUNGE_PAUSE);
    real_clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return true;
}

/* The calling thread is inside libmunge: in real time, for which the virtual clock waits. */
static void enter_munge(struct event_hold *hold)
{
    event_hold_begin(hold);
    in_real_time = true;
}

static void leave_munge(void *hold)
{
    in_real_time = false;
    event_hold_end(hold);
}

EXPORT int munge_encode(char **credential, void *context, const void *payload, int length)
{
    static _Atomic(__typeof__(&munge_encode)) real;
    struct event_hold hold;
    volatile int attempts = 0; /* pthread_cleanup_push may be a setjmp(3) */
    volatile int error;
    is_real();
    if (!real)
        real = (__typeof__(&munge_encode))in_libmunge("munge_encode");
    enter_munge(&hold);
    pthread_cleanup_push(leave_munge, &hold);
    do
        error = real(credential, context, payload, length);
    while (once_more(error, &attempts));
    pthread_cleanup_pop(1);
    return error;
}

EXPORT int munge_decode(const char *credential, void *context, void **payload, int *length, uid_t *uid, gid_t *gid)
{
    static _Atomic(__typeof__(&munge_decode)) real;
    struct event_hold hold;
    volatile int attempts = 0; /* pthread_cleanup_push may be a setjmp(3) */
    volatile int error;
    is_real();
    if (!real)
        real = (__typeof__(&munge_decode))in_libmunge("munge_decode");
    enter_munge(&hold);
    pthread_cleanup_push(leave_munge, &hold);
    do
        error = real(credential, context, payload, length, uid, gid);
    while (once_more(error, &attempts));
    pthread_cleanup_pop(1);
    return error;
}
