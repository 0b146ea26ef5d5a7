/* The state of a filler. state.h describes the functions. */
#define _GNU_SOURCE
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "kernel.h"
#include "record.h"
#include "text.h"

enum { STATE_VERSION = 1 };

struct state {
    char magic[4];
    uint16_t version, size;
    struct saved saved;
    int64_t id, work;
    uint32_t crc32, spare;
};

_Static_assert(sizeof(struct state) == 48, "the state's layout has no padding");

static const char magic[] = "SSLS";

static uint32_t checksum(struct state state)
{
    state.crc32 = 0;
    return crc32_of(&(struct iovec){&state, sizeof state}, 1);
}

static bool has_magic(const struct state *state)
{
    for (size_t i = 0; i < sizeof state->magic; i++)
        if (state->magic[i] != magic[i])
            return false;
    return true;
}

void read_state(const char *option, const char *path, int64_t id, int64_t work, struct saved *saved)
{
    struct {
        struct state state;
        char more; /* a byte after it is too much */
    } found = {.more = 0};
    int file = (int)kernel(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);

    *saved = (struct saved){0, 0, 0};
    if (file == -ENOENT)
        return;
    long size = file < 0 ? file : kernel(SYS_read, file, (long)&found, offsetof(struct state, spare) + 5, 0, 0);
    if (size < 0)
        wrong_use(option, path, error_text(size));
    kernel(SYS_close, file, 0, 0, 0, 0);
    if (size >= (long)offsetof(struct state, saved)) {
        if (!has_magic(&found.state))
            wrong_use(option, path, "is not the state of a filler");
        if (found.state.version > STATE_VERSION)
            wrong_use(option, path, "was written by a newer sigsleep");
    }
    if (size != sizeof found.state || found.state.version != STATE_VERSION ||
        found.state.size != sizeof found.state || found.state.crc32 != checksum(found.state))
        wrong_use(option, path, "is torn; without it the filler starts over");
    if (found.state.id != id || found.state.work != work)
        wrong_use(option, path, "is the state of another filler: --id or --runtime differs");
    *saved = found.state.saved;
}

static long write_new(const char *path, const struct state *state)
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

long write_state(const char *path, int64_t id, int64_t work, const struct saved *saved)
{
    static const char suffix[] = ".new";
    size_t length = length_of(path);
    char path_of_new[length + sizeof suffix];
    struct state state = {.version = STATE_VERSION, .size = sizeof state, .saved = *saved, .id = id, .work = work};

    for (size_t i = 0; i < sizeof state.magic; i++)
        state.magic[i] = magic[i];
    state.crc32 = checksum(state);
    for (size_t i = 0; i < length; i++)
        path_of_new[i] = path[i];
    for (size_t i = 0; i < sizeof suffix; i++)
        path_of_new[length + i] = suffix[i];
    long error = write_new(path_of_new, &state);
    if (error == 0)
        error = kernel(SYS_renameat2, AT_FDCWD, (long)path_of_new, AT_FDCWD, (long)path, 0);
    if (error)
        kernel(SYS_unlinkat, AT_FDCWD, (long)path_of_new, 0, 0, 0);
    return error;
}
