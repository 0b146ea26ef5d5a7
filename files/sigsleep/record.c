/* The record of a job. record.h describes the functions. */
#define _GNU_SOURCE
#include "record.h"

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>

#include "clock.h"
#include "kernel.h"
#include "text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the log is little-endian");
_Static_assert(sizeof(struct job_data) == 112, "the log's layout has no padding");
_Static_assert(sizeof(struct malleable_data) == 48, "the log's layout has no padding");
_Static_assert(offsetof(struct record, malleable) == 112, "the header is one piece");
_Static_assert(sizeof(struct job_size) == 16, "the log's layout has no padding");
_Static_assert(sizeof(struct filler_data) == 192, "the log's layout has no padding");

/* Zero pages until they are written, so that the arrays need no memory in a job without suspensions and sizes. */
struct record record;

const char record_magic[4] = {'S', 'S', 'L', 'P'};

void note_suspension(int64_t suspend, int64_t resume, uint32_t flag)
{
    struct job_data *job = &record.job;

    job->flags |= flag;
    if (job->n_suspensions == MAX_SUSPENSIONS) {
        job->flags |= OVERFLOWED;
        return;
    }
    record.periods[job->n_suspensions++] = (struct suspend_period){virtual_instant(suspend), virtual_instant(resume)};
}

void note_size(int64_t calendar, uint32_t nodes, uint32_t kind)
{
    struct malleable_data *malleable = &record.malleable;

    if (malleable->n_sizes == MAX_SIZES) {
        record.job.flags |= SIZES_OVERFLOWED;
        return;
    }
    record.sizes[malleable->n_sizes++] = (struct job_size){virtual_instant(calendar), nodes, kind};
}

/* Computed bit by bit: it runs seldom, and a table would need a page. */
uint32_t crc32_of(const struct iovec *parts, size_t count)
{
    uint32_t crc = UINT32_MAX;

    for (size_t part = 0; part < count; part++) {
        const unsigned char *byte = parts[part].iov_base;

        for (size_t i = 0; i < parts[part].iov_len; i++) {
            crc ^= byte[i];
            for (int bit = 0; bit < 8; bit++)
                crc = (crc >> 1) ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
        }
    }
    return ~crc;
}

/*
 * One write, so that concurrent records are not mixed. A short write is not repaired, because other processes may have appended
 * records since. Readers skip incomplete records.
 */
bool append_parts(int log, const struct iovec *parts, size_t count, uint32_t *crc32, const char *option, const char *path)
{
    long size = 0, written;

    for (size_t i = 0; i < count; i++)
        size += (long)parts[i].iov_len;
    *crc32 = 0;
    *crc32 = crc32_of(parts, count);
    do
        written = kernel(SYS_writev, log, (long)parts, (long)count, 0, 0);
    while (written == -EINTR);
    if (written == size)
        return true;
    complain("record not written: ", option, path, written < 0 ? error_text(written) : "cut short, is the disk full?");
    return false;
}

bool append_record(int log, const char *option, const char *path)
{
    const struct iovec parts[] = {
        {&record, record.job.header_size},
        {record.periods, record.job.n_suspensions * sizeof *record.periods},
        {record.sizes, record.malleable.n_sizes * sizeof *record.sizes},
    };

    return append_parts(log, parts, sizeof parts / sizeof *parts, &record.job.crc32, option, path);
}
