/* Fillers. filler.h describes the functions. */
#define _GNU_SOURCE
#include "filler.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "event.h"
#include "kernel.h"
#include "record.h"
#include "state.h"
#include "text.h"

enum { FILLER_VERSION = 3 };

/* Why a filler writes a record. */
enum cause { READY, INTERVAL, REQUEST, SLOT_END, WORK_DONE, SIGNALLED };

/* A filler's record. README.md describes the layout. */
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

_Static_assert(sizeof(struct filler_data) == 192, "the log's layout has no padding");

/* In memory that is zero until a filler uses it. */
static struct {
    struct filler filler;
    struct log log;
    struct filler_data data;
    struct saved saved;
    int64_t worked;   /* since the last save, or since it was ready: of an instant's progress */
    int64_t slot_end; /* virtual instant */
    int signal;       /* that ended it */
    bool is_recorded; /* whether the last record was written */
} self;

static int64_t instant(const struct watch *watch)
{
    return virtual_instant(watch->last.calendar);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Time in which so much work is done, an instant's progress, rounded up. */
static int64_t time_for(int64_t work)
{
    return real_length(clamp(((wide)work * SECOND + self.filler.speed - 1) / self.filler.speed));
}

void describe_filler(const char *option, const struct filler *filler, struct log log)
{
    const struct job_data *job = &record.job;
    struct filler_data *data = &self.data;

    self.filler = *filler;
    self.log = log;
    read_state(option, filler->state, job->id, filler->work, &self.saved);
    if (self.saved.starts < job->restart)
        self.saved.starts = job->restart;
    self.saved.starts++;
    for (size_t i = 0; i < sizeof data->magic; i++)
        data->magic[i] = "SSLP"[i];
    data->version = FILLER_VERSION;
    data->size = sizeof *data;
    data->id = job->id;
    data->slurm_job_id = job->slurm_job_id;
    data->restart = job->restart;
    data->cores = job->cores;
    for (size_t i = 0; filler->node && filler->node[i] != '\0' && i + 1 < sizeof data->node; i++)
        data->node[i] = filler->node[i];
    data->work = filler->work;
    data->speed = filler->speed;
    data->start = job->start;
    data->before = self.saved.progress;
    if (time_for(filler->work) > INT64_MAX - SECOND)
        wrong_use("--runtime", "", "too long at the speed of the clock file and --speed");
}

/* The progress if what was worked since the last save is saved now. */
static int64_t progress_now(void)
{
    wide done = (wide)virtual_length(self.worked) * self.filler.speed / SECOND;

    return least(self.filler.work, clamp(self.saved.progress + done));
}

/* Appends a record of the stretch up to the virtual instant `to`. After a save, the next stretch begins at the last look. */
static void note(const struct watch *watch, enum cause cause, int64_t to, uint32_t flags)
{
    struct filler_data *data = &self.data;
    const struct iovec part = {data, sizeof *data};
    bool is_save = (cause == INTERVAL || cause == REQUEST || cause == SLOT_END) && self.worked > 0;
    bool is_saved = (is_save || cause == WORK_DONE) && !(flags & SAVE_FAILED);

    data->cause = cause;
    data->flags = flags;
    if (data->ready == 0)
        data->from = to;
    data->to = to;
    data->saved = instant(watch);
    data->worked = virtual_length(self.worked);
    data->after = is_saved ? progress_now() : data->before;
    data->starts = self.saved.starts;
    data->saves = self.saved.saves;
    self.is_recorded = append_parts(self.log.file, &part, 1, &data->crc32, self.log.option, self.log.path);
    if (!is_saved)
        return;
    data->before = self.saved.progress = data->after;
    data->from = data->saved;
    self.worked = 0;
}

/* Records that a signal ended the filler. What was worked up to `to` since the last save is lost. */
static enum cause ended(const struct watch *watch, int64_t to)
{
    note(watch, SIGNALLED, to, 0);
    return SIGNALLED;
}

/* Lets virtual time pass without work. A request to save ends it only if `until_asked`. Returns false if a signal ends the job. */
static bool idle(struct watch *watch, int64_t time, bool until_asked)
{
    int64_t left = least(real_length(time), INT64_MAX - SECOND), passed;

    while (left > 0 && !(until_asked && watch->is_asked)) {
        self.signal = pass_time(watch, left, NO_SOCKET, &passed);
        if (self.signal)
            return false;
        left -= passed;
    }
    return true;
}

/* Writes the progress to the state. The state comes before the record: what is recorded as saved can be restored. */
static long save_progress(uint32_t saves)
{
    struct saved saved = {self.saved.starts, saves, progress_now()};
    long error = write_state(self.filler.state, self.data.id, self.filler.work, &saved);

    if (error)
        complain("save failed: ", "--state", self.filler.state, error_text(error));
    else
        self.saved.saves = saves;
    return error;
}

/*
 * Pays for a save and saves. If there is nothing to save, it does neither, but lets the rest of a slot pass. Returns the cause, which
 * is REQUEST too if the request came meanwhile, or SIGNALLED.
 */
static enum cause save(struct watch *watch, enum cause cause)
{
    uint32_t flags = 0;
    int64_t to = instant(watch);

    if (self.worked > 0) {
        if (!idle(watch, self.filler.save, false))
            return ended(watch, to);
        if (save_progress(self.saved.saves + 1))
            flags = SAVE_FAILED;
        watch->last = now();
    } else if (cause == SLOT_END) {
        bool goes_on = idle(watch, self.slot_end - to, true);

        to = instant(watch);
        if (!goes_on)
            return ended(watch, to);
    }
    if (watch->is_asked && (cause == INTERVAL || self.worked == 0))
        cause = REQUEST;
    note(watch, cause, to, flags);
    return cause;
}

/* Pays for the start, unless the slot has no room for any work. Returns READY, or why it does not come to that. */
static enum cause start(struct watch *watch)
{
    const struct filler *filler = &self.filler;

    if (filler->slot && self.slot_end - instant(watch) <= filler->restore + filler->save)
        return save(watch, SLOT_END);
    if (!idle(watch, filler->restore, true))
        return ended(watch, instant(watch));
    if (watch->is_asked)
        return save(watch, REQUEST);
    self.data.ready = self.data.from = instant(watch);
    note(watch, READY, self.data.ready, 0);
    return READY;
}

/*
 * Works up to the next save or the end of the work, and returns why it stops. The save of a slot ends with the slot; it is left out
 * if the work ends in the slot. A periodic save is left out if it would not be over when that of the slot begins.
 */
static enum cause work(struct watch *watch)
{
    const struct filler *filler = &self.filler;
    const int64_t cost = real_length(filler->save);
    const int64_t needed = time_for(filler->work - self.saved.progress);
    const int64_t point = filler->interval ? clamp((wide)self.worked + real_length(filler->interval)) : NEVER;

    for (;;) {
        int64_t to_end = needed - self.worked;
        int64_t to_save = point - self.worked;
        int64_t to_slot = filler->slot ? real_length(self.slot_end - instant(watch)) - cost : NEVER;
        int64_t passed;

        if (to_slot <= to_save || to_slot - to_save <= cost)
            to_save = NEVER;
        if (to_end - cost <= to_slot)
            to_slot = NEVER;
        int64_t wait = least(to_end, least(to_save, to_slot));

        self.signal = pass_time(watch, wait, NO_SOCKET, &passed);
        self.worked = least(self.worked + passed, needed); /* not more if it wakes up late */
        if (self.signal)
            return ended(watch, instant(watch));
        if (self.worked == needed)
            return WORK_DONE;
        if (passed >= wait)
            return to_slot < to_save ? SLOT_END : INTERVAL;
        if (watch->is_asked)
            return REQUEST;
    }
}

/* Records the end of the work. The state says so first, and stays: a filler that is started again does no work twice. */
static int finish(struct watch *watch)
{
    save_progress(self.saved.saves);
    note(watch, WORK_DONE, instant(watch), COMPLETED);
    return self.is_recorded ? 0 : EXIT_NO_RECORD;
}

int play_filler(struct watch *watch)
{
    const struct filler *filler = &self.filler;

    if (self.saved.progress >= filler->work)
        return finish(watch);
    if (filler->slot)
        self.slot_end = clamp(((wide)instant(watch) / filler->slot + 1) * filler->slot);

    enum cause cause = start(watch);
    while (cause == READY || cause == INTERVAL) {
        cause = work(watch);
        if (cause == WORK_DONE)
            return finish(watch);
        if (cause != SIGNALLED)
            cause = save(watch, cause);
    }
    if (cause != SIGNALLED)
        return EXIT_REQUEUE;
    return self.is_recorded ? EXIT_SIGNAL + self.signal : EXIT_NO_RECORD;
}
