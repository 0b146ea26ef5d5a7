/*
 * Backfill cycles that can decide nothing new are left out; idle_cycles.c says which. The functions here are called for the lines
 * that slurmctld logs (log_lines.c) and by the calls that the clock replaces.
 */
#ifndef IDLE_CYCLES_H
#define IDLE_CYCLES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/*
 * Lines about a cycle: it begins, tests a job, plans its start and end (as 2026-01-31T12:00:00; null: not known), leaves it out
 * because that is after bf_window, or leaves a job out before that.
 */
void begin_plan(void);
void test_job(void);
void plan_job(const char *start, const char *end);
void leave_out_after_window(void);
void leave_job_out(void);

/* The state of a node (null: not known) that the cycle has marked as planned, or no longer. */
void note_state(const char *state);

/* Jobs or nodes may have changed at this instant. */
void state_changed(void);

/* A job waits for an instant, not for processors, as after it was requeued. */
void job_has_to_wait(void);

/* In slurmctld on the event-driven clock, whose page must be mapped. Returns false where all cycles are to be run. */
bool set_up_idle_cycles(void);

/* Notes whether jobs, nodes, partitions or reservations have changed, for idle_seconds.h. */
void look_at_times(void);

/* Whether the backfill scheduler has something to do when it looks the next time: something has changed since its last cycle. */
bool has_more_work(void);

/* Whether time alone may change what slurmctld decides. */
bool may_change_by_itself(void);

/* Which of slurmctld's schedulers the calling thread is; NEITHER without an event-driven clock. */
enum scheduler { UNKNOWN_SCHEDULER, NEITHER, MAIN_SCHEDULER, BACKFILL_SCHEDULER };
enum scheduler this_scheduler(void);

/* A timed wait of the backfill scheduler. */
int wait_of_backfill(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t deadline);

/* A wait of the main scheduler begins or has ended. */
void end_pass(void);
void begin_pass(void);

#pragma GCC visibility pop

#endif
