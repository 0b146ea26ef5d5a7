/* Times of files, which Slurm compares with its clock, and fsync. */
#define _GNU_SOURCE
#include "event_clock.h"
#include "instants.h"
#include "slurm_quirks.h"
#include "virtual_clock.h"

#include <errno.h>
#include <fcntl.h>

/* Called instead of stat and related functions by programs that were compiled with a glibc before 2.33. */
int __xstat(int version, const char *path, struct stat *status);
int __lxstat(int version, const char *path, struct stat *status);
int __fxstat(int version, int descriptor, struct stat *status);

/* Times before the anchor keep their real distance to it. */
static struct timespec file_time(struct timespec real)
{
    wide since = nanoseconds(real) - clocks.calendar.real;
    if (event_page && since >= 0) {
        wide known = nanoseconds(real) < INT64_MAX / 2 ? nanoseconds(real) : INT64_MAX / 2;
        return timespec_of(event_instant_of((int64_t)known, clocks.calendar.real, clocks.calendar.virtual));
    }
    return timespec_of(clocks.calendar.virtual + (since < 0 ? since : virtual_length(since)));
}

EXPORT int fstatat(int directory, const char *restrict path, struct stat *restrict status, int flags)
{
    bool real = is_real();
    int result = real_fstatat ? real_fstatat(directory, path, status, flags) : real___fxstatat(0, directory, path, status, flags);
    if (result == 0 && !real) {
        status->st_atim = file_time(status->st_atim);
        status->st_mtim = file_time(status->st_mtim);
        status->st_ctim = file_time(status->st_ctim);
    }
    return result;
}

EXPORT int stat(const char *restrict path, struct stat *restrict status)
{
    return fstatat(AT_FDCWD, path, status, 0);
}

EXPORT int lstat(const char *restrict path, struct stat *restrict status)
{
    return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

EXPORT int fstat(int descriptor, struct stat *status)
{
    if (descriptor < 0) { /* AT_FDCWD is */
        errno = EBADF;
        return -1;
    }
    return fstatat(descriptor, "", status, AT_EMPTY_PATH);
}

/* The version selects the layout of struct stat; on 64-bit systems there is only one. */
EXPORT int __xstat(int version, const char *path, struct stat *status)
{
    (void)version;
    return stat(path, status);
}

EXPORT int __lxstat(int version, const char *path, struct stat *status)
{
    (void)version;
    return lstat(path, status);
}

EXPORT int __fxstat(int version, int descriptor, struct stat *status)
{
    (void)version;
    return fstat(descriptor, status);
}

EXPORT int __fxstatat(int version, int directory, const char *path, struct stat *status, int flags)
{
    (void)version;
    return fstatat(directory, path, status, flags);
}

/* Called by programs with large-file support. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat has 64-bit fields");
#define SAME_AS(name) __attribute__((alias(#name)))
EXPORT int stat64(const char *restrict path, struct stat64 *restrict status) SAME_AS(stat);
EXPORT int lstat64(const char *restrict path, struct stat64 *restrict status) SAME_AS(lstat);
EXPORT int fstat64(int descriptor, struct stat64 *status) SAME_AS(fstat);
EXPORT int fstatat64(int directory, const char *restrict path, struct stat64 *restrict status, int flags) SAME_AS(fstatat);
EXPORT int __xstat64(int version, const char *path, struct stat64 *status) SAME_AS(__xstat);
EXPORT int __lxstat64(int version, const char *path, struct stat64 *status) SAME_AS(__lxstat);
EXPORT int __fxstat64(int version, int descriptor, struct stat64 *status) SAME_AS(__fxstat);
EXPORT int __fxstatat64(int version, int directory, const char *path, struct stat64 *status, int flags) SAME_AS(__fxstatat);

/* slurm_quirks.c decides which programs' files need not be on the disk. */
EXPORT int fsync(int file)
{
    is_real();
    if (!saves_to_memory)
        return real_fsync(file);
    return fcntl(file, F_GETFD) < 0 ? -1 : 0;
}
