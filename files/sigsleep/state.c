/* The state of a filler. state.h describes the functions. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/uio.h>

#include "kernel.h"
#include "text.h"

static uint32_t checksum(struct filler_data state)
{
    state.crc32 = 0;
    return crc32_of(&(struct iovec){&state, sizeof state}, 1);
}

static bool has_magic(const struct filler_data *state)
{
    for (size_t i = 0; i < sizeof record_magic; i++)
        if (state->magic[i] != record_magic[i])
            return false;
    return true;
}

bool read_state(const char *option, const char *path, int64_t id, int64_t work, struct filler_data *state)
{
    int file = (int)kernel(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);

    if (file == -ENOENT)
        return false;
    long length = file < 0 ? file : kernel(SYS_lseek, file, 0, SEEK_END, 0, 0);
    long size = length < 0 ? length : kernel(SYS_pread64, file, (long)state, sizeof *state, 0, 0);
    if (size < 0)
        wrong_use(option, path, error_text(size));
    kernel(SYS_close, file, 0, 0, 0, 0);
    if (size >= (long)offsetof(struct filler_data, cause)) {
        if (!has_magic(state) || state->version < FILLER_VERSION)
            wrong_use(option, path, "is not the state of a filler");
        if (state->version > FILLER_VERSION)
            wrong_use(option, path, "was written by a newer sigsleep");
    }
    if (length != sizeof *state || size != length || state->crc32 != checksum(*state))
        wrong_use(option, path, "is torn; without it the filler starts over");
    if (state->id != id || state->work != work)
        wrong_use(option, path, "is the state of another filler: --id or --runtime differs");
    return true;
}

static long write_new(const char *path, const struct filler_data *state)
{
    int file = (int)kernel(SYS_openat, AT_FDCWD, (long)path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666, 0);

    if (file < 0)
        return file;
    long result = kernel(SYS_write, file, (long)state, sizeof *state, 0, 0);
    if (result >= 0)
        result = result == sizeof *state ? kernel(SYS_fsync, file, 0, 0, 0, 0) : -ENOSPC;
    long closed = kernel(SYS_close, file, 0, 0, 0, 0);
    return result < 0 ? result : closed;
}

long write_state(const char *path, struct filler_data *state)
{
    static const char suffix[] = ".new";
    size_t length = length_of(path);
    char path_of_new[length + sizeof suffix];

    for (size_t i = 0; i < length; i++)
        path_of_new[i] = path[i];
    for (size_t i = 0; i < sizeof suffix; i++)
        path_of_new[length + i] = suffix[i];
    state->crc32 = checksum(*state);
    long error = write_new(path_of_new, state);
    if (error == 0)
        error = kernel(SYS_renameat2, AT_FDCWD, (long)path_of_new, AT_FDCWD, (long)path, 0);
    if (error)
        kernel(SYS_unlinkat, AT_FDCWD, (long)path_of_new, 0, 0, 0);
    return error;
}
