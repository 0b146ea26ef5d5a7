/* What the files of the library share: the functions that it replaces, and whether their caller gets real time. */
#ifndef VIRTUAL_CLOCK_H
#define VIRTUAL_CLOCK_H

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define VARIABLE "SLURM_MIRAGE_CLOCK"

/* Called instead of poll and ppoll by programs that are compiled with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t size);
int __ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask, size_t size);

/* Missing in older C libraries: added in glibc 2.30, 2.30 and 2.35. */
int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline);
int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *deadline);
int epoll_pwait2(int epoll, struct epoll_event *events, int count, const struct timespec *timeout, const sigset_t *mask);

/* Called instead of fstatat by programs that were compiled with a glibc before 2.33. */
int __fxstatat(int version, int directory, const char *path, struct stat *status, int flags);

#pragma GCC visibility push(hidden)

/* The functions of the C library, real_NAME; null if it does not have the function. */
/* clang-format off */
#define REPLACED(X)                                                                                                            \
    X(clock_gettime) X(gettimeofday) X(timespec_get) X(clock_nanosleep) X(ppoll) X(__ppoll_chk) X(pselect) X(epoll_pwait)      \
    X(epoll_pwait2) X(sigtimedwait) X(pthread_cond_timedwait) X(pthread_cond_wait) X(pthread_cond_clockwait)                   \
    X(pthread_mutex_timedlock) X(pthread_cond_signal) X(pthread_cond_broadcast) X(sem_timedwait) X(sem_clockwait)              \
    X(setitimer) X(getitimer) X(timer_settime) X(timer_gettime) X(timer_delete) X(fstatat) X(__fxstatat) X(sysinfo)            \
    X(socket) X(connect) X(fsync) X(accept) X(accept4) X(getnameinfo)
/* clang-format on */
#define DECLARE(name) extern __typeof__(name) *real_##name;
REPLACED(DECLARE)

/* Prints an error of the clock file, or without one if `file` is null, as one line, and exits. */
_Noreturn void die(const char *file, const char *why);

/* Reads the clock file, and initialises what this header declares. Called by the constructor, and by `is_real` before it. */
void set_up(void);
extern atomic_bool is_ready; /* `set_up` is done */

/* Set while this thread is inside libmunge, or has asked for real time. */
extern _Thread_local bool in_real_time __attribute__((tls_model("initial-exec")));

/* Whether the caller gets real time. */
static inline bool is_real(void)
{
    if (__builtin_expect(!atomic_load_explicit(&is_ready, memory_order_acquire), 0))
        set_up();
    return in_real_time;
}

#pragma GCC visibility pop

#endif
