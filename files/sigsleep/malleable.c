/* Malleable jobs. malleable.h describes the functions. */
#define _GNU_SOURCE
#include "malleable.h"

#include <stddef.h>

#include "broker.h"
#include "kernel.h"
#include "record.h"
#include "text.h"
#include "words.h"

/* In memory that is zero until a malleable job uses it. Lengths are of an instant's progress. */
static struct {
    struct words words;
    const char *socket;
    int64_t submitted, present; /* nodes */
    int64_t waited, paid;
    int64_t last_check; /* an instant's progress */
} self;

void describe_malleable(const char *const options[3], const char *words, const char *socket, int64_t submitted, int64_t at_start)
{
    size_t length = length_of(socket);

    read_words(options[0], words, &self.words);
    if (length == 0 || length > LARGEST_PATH)
        wrong_use(options[1], socket, "must be the path of a socket, of up to 107 bytes");
    if (submitted > LARGEST_SIZE)
        wrong_use(options[2], "", "must be 1000000 or less");
    self.socket = socket;
    self.submitted = submitted;
    self.present = at_start > 0 && at_start <= LARGEST_SIZE ? at_start : submitted;
    record.job.version = 2;
    record.job.header_size = sizeof record.job + sizeof record.malleable;
}

/* Time in which the present size does so much work, rounded up. */
static int64_t time_for(int64_t work)
{
    int64_t rate = speedup(&self.words, self.present);

    return clamp(((wide)work * speedup(&self.words, self.submitted) + rate - 1) / rate);
}

/* Work that the present size does in this time. */
static int64_t work_in(int64_t time)
{
    return clamp((wide)time * speedup(&self.words, self.present) / speedup(&self.words, self.submitted));
}

/* Takes the size that an answer names, which is that of the job in Slurm: it differs if an earlier answer was lost. */
static void take_size(const struct exchange *exchange)
{
    bool grows = exchange->size > self.present;

    if (exchange->size == 0 || exchange->size == self.present)
        return;
    if (grows)
        record.malleable.expansions++;
    else
        record.malleable.shrinks++;
    self.present = exchange->size;
    note_size(exchange->watch->last.calendar, (uint32_t)self.present, grows ? EXPANDED : SHRUNK);
}

/* Waits for the time that a resize costs. Returns a signal that ends the job, or 0. */
static int pay(struct watch *watch, int64_t cost)
{
    int64_t passed;

    if (cost == 0)
        return 0;
    note_size(watch->last.calendar, (uint32_t)self.present, COST_BEGAN);
    int end = pass_time(watch, real_length(cost), NO_SOCKET, &passed);
    self.paid += passed;
    note_size(watch->last.calendar, (uint32_t)self.present, COST_ENDED);
    return end;
}

static int ask_and_wait(struct exchange *exchange, const char *kind, const int64_t *numbers, int count)
{
    int end = ask(exchange, kind, numbers, count);

    self.waited += exchange->waited;
    if (end == 0 && exchange->answer == NO_ANSWER)
        record.malleable.unanswered++;
    return end;
}

static int expand(struct exchange *exchange, int64_t job)
{
    int64_t cost = cost_of_resize(&self.words, self.present, exchange->size);

    take_size(exchange);
    int end = pay(exchange->watch, cost);
    if (end == 0)
        tell_resumed(exchange, job, cost);
    return end;
}

static int shrink(struct exchange *exchange, int64_t job)
{
    const int64_t ready[] = {job, exchange->size};
    int64_t cost = cost_of_resize(&self.words, self.present, exchange->size);
    int end = pay(exchange->watch, cost);

    if (end == 0)
        end = ask_and_wait(exchange, "ready", ready, 2);
    if (end)
        return end;
    if (exchange->answer != NO_ANSWER && exchange->answer != ANSWER_SHRUNK)
        record.malleable.refused++;
    if (exchange->answer != ANSWER_SHRINK)
        take_size(exchange);
    tell_resumed(exchange, job, cost);
    return 0;
}

/* Asks the broker for a resize, and does what it answers. Returns a signal that ends the job, or 0. */
static int check(struct watch *watch)
{
    const struct words *words = &self.words;
    const int64_t job = record.job.slurm_job_id;
    const int64_t request[] = {job, self.present, words->minimum, words->maximum, words->factor, words->preferred};
    struct exchange exchange = {.watch = watch, .path = self.socket, .socket = NO_SOCKET};

    record.malleable.checks++;
    self.last_check = watch->last.progress;
    int end = ask_and_wait(&exchange, words->asynchronous ? "icheck" : "check", request, sizeof request / sizeof *request);
    if (end == 0) {
        if (exchange.answer == ANSWER_REFUSED)
            record.malleable.refused++;
        if (exchange.answer == ANSWER_EXPANDED && exchange.size > self.present)
            end = expand(&exchange, job);
        else if (exchange.answer != ANSWER_SHRINK)
            take_size(&exchange);
        else if (exchange.size < self.present)
            end = shrink(&exchange, job);
        else
            record.malleable.unanswered++; /* no shrink */
    }
    close_exchange(&exchange);
    return end;
}

static bool is_inhibited(const struct watch *watch)
{
    return record.malleable.checks > 0 && watch->last.progress - self.last_check < real_length(self.words.inhibitor);
}

int play_malleable(struct watch *watch, int64_t wanted, int64_t *executed)
{
    const int64_t between = real_length(self.words.check);
    int64_t before = 0; /* work done at earlier sizes */
    int64_t since = 0;  /* executed at the present size */
    int64_t point = between;
    int64_t work;
    int end;

    *executed = 0;
    note_size(watch->last.calendar, (uint32_t)self.present, STARTED);
    for (;;) {
        int64_t to_end = time_for(wanted - before) - since;
        int64_t to_point = point - *executed;
        int64_t passed;

        end = pass_time(watch, to_end < to_point ? to_end : to_point, NO_SOCKET, &passed);
        *executed += passed;
        since += passed;
        work = clamp((wide)before + work_in(since));
        if (end || work >= wanted)
            break;
        if (*executed < point)
            continue;
        point = clamp(((wide)*executed / between + 1) * between);
        if (is_inhibited(watch))
            continue;
        int64_t size = self.present;
        end = check(watch);
        if (self.present != size) {
            before = work;
            since = 0;
        }
        if (end)
            break;
    }
    record.malleable.work = virtual_length(work);
    record.malleable.waited = virtual_length(self.waited);
    record.malleable.paid = virtual_length(self.paid);
    return end;
}
