/* The record of a job, which is appended to the log at its end. README.md describes the layout. */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifndef MAX_SUSPENSIONS
#define MAX_SUSPENSIONS 4096
#endif
#ifndef MAX_SIZES
#define MAX_SIZES 4096
#endif

/* Flags of a job. */
enum { COMPLETED = 1, INFERRED = 2, OVERFLOWED = 4, SIZES_OVERFLOWED = 8, SAVE_FAILED = 16, REPEATED = 32 };

/* Kinds of entries of the sizes: what happened at that instant. */
enum { STARTED = 0, EXPANDED = 1, SHRUNK = 2, COST_BEGAN = 3, COST_ENDED = 4 };

struct job_data {
    char magic[4];
    uint16_t version, header_size;
    uint32_t n_suspensions, flags;
    int64_t id;
    uint32_t slurm_job_id, restart, cores, crc32;
    char priority[32];
    int64_t submission, start, end;
    int64_t runtime, executed;
};

/* The rest of the header of a malleable job's record. Numbers of what happened, and lengths in ns. */
struct malleable_data {
    uint32_t n_sizes, checks, expansions, shrinks, unanswered, refused;
    int64_t work, waited, paid;
};

/* The record of a save, or of another event, of a filler. The state of a filler is that of its last save. */
struct filler_data {
    char magic[4];
    uint16_t version, size;
    uint32_t cause, flags;
    int64_t id;
    uint32_t slurm_job_id, restart, cores, crc32;
    char node[64];
    int64_t work, speed;
    int64_t start, ready, from, to, saved; /* virtual CLOCK_REALTIME, ns */
    int64_t worked, before, after;
    uint32_t starts, saves;
};

struct suspend_period {
    int64_t suspend, resume; /* virtual CLOCK_REALTIME, ns */
};

struct job_size {
    int64_t instant; /* virtual CLOCK_REALTIME, ns */
    uint32_t nodes, kind;
};

struct record {
    struct job_data job;
    struct malleable_data malleable;
    struct suspend_period periods[MAX_SUSPENSIONS];
    struct job_size sizes[MAX_SIZES];
};

extern struct record record;

/* Each record begins with it. */
extern const char record_magic[4];

/* Adds a suspension. The instants are those of a calendar. */
void note_suspension(int64_t suspend, int64_t resume, uint32_t flag);

/* Adds an entry of the sizes. The instant is that of a calendar. */
void note_size(int64_t calendar, uint32_t nodes, uint32_t kind);

/* CRC-32 of IEEE 802.3, as in zlib. */
uint32_t crc32_of(const struct iovec *parts, size_t count);

/*
 * Appends a record in parts to the log, which `option` names, with its checksum in *crc32, which lies in the parts. Prints why if
 * it cannot.
 */
bool append_parts(int log, const struct iovec *parts, size_t count, uint32_t *crc32, const char *option, const char *path);

/* Appends the record of a job. */
bool append_record(int log, const char *option, const char *path);

#endif
