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

/* Why a filler writes a record. */
enum cause { READY, INTERVAL, REQUEST, SLOT_END, WORK_DONE, SIGNALLED };

/* In memory that is zero until a filler uses it. */
static struct {
    struct filler filler;
    struct log log;
    struct filler_data data; /* the last record; `before` is the saved progress */
    int64_t worked;          /* since the last save, or since it was ready: of an instant's progress */
    int64_t slot_end;        /* virtual instant */
    int signal;              /* that ended it */
    bool is_recorded;        /* whether the last record was written */
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

static void append(void)
{
    const struct iovec part = {&self.data, sizeof self.data};

    self.is_recorded = append_parts(self.log.file, &part, 1, &self.data.crc32, self.log.option, self.log.path);
}

void describe_filler(const char *option, const struct filler *filler, struct log log)
{
    const struct job_data *job = &record.job;
    struct filler_data *data = &self.data;

    self.filler = *filler;
    self.log = log;
    if (time_for(filler->work) > INT64_MAX - SECOND)
        wrong_use("--runtime", "", "too long at the speed of the clock file and --speed");
    if (read_state(option, filler->state, job->id, filler->work, data)) {
        data->flags |= REPEATED; /* it may have been killed between the save and its record */
        append();
    } else {
        *data = (struct filler_data){.version = FILLER_VERSION, .size = sizeof *data};
    }
    for (size_t i = 0; i < sizeof data->magic; i++)
        data->magic[i] = record_magic[i];
    data->before = data->after;
    data->starts = (data->starts > job->restart ? data->starts : job->restart) + 1;
    data->id = job->id;
    data->slurm_job_id = job->slurm_job_id;
    data->restart = job->restart;
    data->cores = job->cores;
    for (size_t i = 0; i < sizeof data->node; i++)
        data->node[i] = '\0';
    for (size_t i = 0; filler->node && filler->node[i] != '\0' && i + 1 < sizeof data->node; i++)
        data->node[i] = filler->node[i];
    data->work = filler->work;
    data->speed = filler->speed;
    data->start = job->start;
    data->ready = 0;
}

/* The progress if the work since the last save is saved now. */
static int64_t progress_now(void)
{
    wide done = (wide)virtual_length(self.worked) * self.filler.speed / SECOND;

    return least(self.filler.work, clamp(self.data.before + done));
}

/* Describes the stretch up to the virtual instant `to`, of which nothing is saved. */
static void describe_stretch(const struct watch *watch, enum cause cause, int64_t to)
{
    struct filler_data *data = &self.data;

    data->cause = cause;
    data->flags = 0;
    if (data->ready == 0)
        data->from = to;
    data->to = to;
    data->saved = instant(watch);
    data->worked = virtual_length(self.worked);
    data->after = data->before;
}

static void note(const struct watch *watch, enum cause cause, int64_t to)
{
    describe_stretch(watch, cause, to);
    append();
}

/*
 * Saves the progress at the virtual instant `to`, and records it. The state comes before the record, which it contains. If it
 * cannot be written, the work belongs to the next stretch, too; a filler whose work is done completes nevertheless.
 */
static void keep(struct watch *watch, enum cause cause, int64_t to)
{
    struct filler_data *data = &self.data;

    describe_stretch(watch, cause, to);
    data->after = progress_now();
    if (cause == WORK_DONE)
        data->flags = COMPLETED;
    else
        data->saves++;
    long error = write_state(self.filler.state, data);
    watch->last = now();
    data->saved = instant(watch);
    if (error)
        complain("save failed: ", "--state", self.filler.state, error_text(error));
    if (error && cause != WORK_DONE) {
        data->flags = SAVE_FAILED;
        data->after = data->before;
        data->saves--;
    }
    append();
    if (data->flags == SAVE_FAILED)
        return;
    data->before = data->after;
    data->from = data->saved;
    self.worked = 0;
}

/* Records that a signal ended the filler. The work since the last save, up to `to`, is lost. */
static enum cause ended(const struct watch *watch, int64_t to)
{
    note(watch, SIGNALLED, to);
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

/*
 * Lets the time of a save pass, then saves. Without work to save it only waits for the end of a slot, with SLOT_END. Returns the
 * cause, or REQUEST if a request to save came meanwhile, or SIGNALLED.
 */
static enum cause save(struct watch *watch, enum cause cause)
{
    int64_t to = instant(watch);
    bool has_work = self.worked > 0;

    if (has_work) {
        if (!idle(watch, self.filler.save, false))
            return ended(watch, to);
    } else if (cause == SLOT_END) {
        bool goes_on = idle(watch, self.slot_end - to, true);

        to = instant(watch);
        if (!goes_on)
            return ended(watch, to);
    }
    if (watch->is_asked && (cause == INTERVAL || !has_work))
        cause = REQUEST;
    if (has_work)
        keep(watch, cause, to);
    else
        note(watch, cause, to);
    return cause;
}

/* Lets the time of a restore pass, unless the slot has no room for work. Returns READY, or the cause for which no work begins. */
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
    note(watch, READY, self.data.ready);
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
    const int64_t needed = time_for(filler->work - self.data.before);
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

int play_filler(struct watch *watch)
{
    const struct filler *filler = &self.filler;

    if (self.data.before >= filler->work)
        return self.is_recorded ? 0 : EXIT_NO_RECORD;
    if (filler->slot)
        self.slot_end = clamp(((wide)instant(watch) / filler->slot + 1) * filler->slot);

    enum cause cause = start(watch);
    while (cause == READY || cause == INTERVAL) {
        cause = work(watch);
        if (cause == WORK_DONE)
            keep(watch, cause, instant(watch));
        else if (cause != SIGNALLED)
            cause = save(watch, cause);
    }
    if (cause == SLOT_END || cause == REQUEST)
        return EXIT_REQUEUE;
    if (!self.is_recorded)
        return EXIT_NO_RECORD;
    return cause == SIGNALLED ? EXIT_SIGNAL + self.signal : 0;
}
