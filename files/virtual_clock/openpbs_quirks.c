/* The quirks of OpenPBS's daemons. openpbs_quirks.h describes the functions. */
#define _GNU_SOURCE
#include "openpbs_quirks.h"
#include "event_clock.h"
#include "instants.h"
#include "slurm_quirks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define JOB "PBS_JOBID" /* NUMBER.SERVER */

static enum { NONE, SERVER, SCHEDULER, COMMUNICATION, NODE, OUTPUT, DATABASE } this_daemon;

/*
 * By their programs: pbs_server.bin, pbs_sched, pbs_comm, pbs_mom, the one that collects the output of a job on several nodes
 * (cmds/pbs_demux.c), and the database server.
 */
static int daemon_of(const char *program)
{
    static const char *const names[] = {[SERVER] = "pbs_server", [SCHEDULER] = "pbs_sched", [COMMUNICATION] = "pbs_comm",
                                        [NODE] = "pbs_mom",      [OUTPUT] = "pbs_demux",    [DATABASE] = "postgres"};
    for (int kind = SERVER; kind <= DATABASE; kind++)
        if (strncmp(program, names[kind], strlen(names[kind])) == 0)
            return kind;
    return NONE;
}

void set_up_openpbs(void)
{
    const char *job = getenv(JOB);
    if (!event_page)
        return;
    this_daemon = daemon_of(program_invocation_short_name);
    if (this_daemon == NODE)
        event_name_program(OF_NODE, number_in(DAEMON));
    else if (this_daemon != NONE && this_daemon != OUTPUT)
        event_name_program(OF_CONTROLLER, this_daemon);
    else if (job)
        event_name_program(OF_JOB, (uint32_t)strtoul(job, NULL, 10));
}

bool has_signalled_waits(void)
{
    return this_daemon != NONE && this_daemon != DATABASE;
}

/*
 * Server and nodes wait for messages and signals, for BASIC_CYCLE at most (Libutil/work_task.c, default_next_task), and then look
 * whether something is to be done at this instant. A node has nothing of the kind but the limits of its jobs, which it looks at
 * each 10 to 120 s. So during a run its pass comes each NODE_CYCLE: with a thousand nodes there would be 500 of them in a second.
 * All passes are at multiples of their cycle since the epoch, so that they are the same in each run, and after a daemon was started
 * again.
 */
#define BASIC_CYCLE (2 * SECOND)
#define NODE_CYCLE (120 * SECOND)

/*
 * pbs_demux, one for each job on several nodes, looks each OUTPUT_CYCLE whether its node's daemon is there (cmds/pbs_demux.c): with
 * the nodes' passes, too, or every job would add instants at which the clock stops.
 */
#define OUTPUT_CYCLE (10 * SECOND)

/*
 * Processes of PostgreSQL wait for so long only to do in advance what others would do later (bgwriter, walwriter, checkpointer), or
 * to look whether their files are there (postmaster).
 */
#define DATABASE_CYCLE SECOND

/*
 * Server and nodes read the time in each pass, and take it for the present one when they handle the messages that end the next wait
 * (time_now): a node would write it as the start of a job, up to NODE_CYCLE too early. So they make another pass first.
 */
bool passes_before_message(int64_t since)
{
    return (this_daemon == NODE || this_daemon == SERVER) && event_now() / SECOND != since / SECOND;
}

/*
 * What a node has to tell the server waits for its next pass (resmom/mom_main.c, send_pending_updates). It comes after AFTER_END if
 * a process has ended (resmom/linux/mom_func.c, finish_loop), else after BASIC_CYCLE; any message in between makes it come earlier,
 * so that the end of a job on several nodes would have another second in each run, as the answers of its nodes come. So after each
 * message and each signal PASSES come at once: the first may find that the job has ended, the second tells it.
 */
#define AFTER_END SECOND
#define PASSES 2

static _Thread_local int passes_to_come __attribute__((tls_model("initial-exec")));

static bool pass_comes_at_once(int64_t limit)
{
    if (this_daemon != NODE || (limit != AFTER_END && limit != BASIC_CYCLE) || !event_stands() || syscall(SYS_gettid) != getpid())
        return false;
    if (passes_to_come == 0)
        return false;
    passes_to_come--;
    return true;
}

void note_message(void)
{
    passes_to_come = PASSES;
}

int64_t deadline_of_pass(int64_t limit)
{
    if (pass_comes_at_once(limit))
        return event_now();
    int64_t cycle = this_daemon != SERVER && event_stands() ? NODE_CYCLE : BASIC_CYCLE;
    if (this_daemon == DATABASE && limit >= DATABASE_CYCLE)
        return INT64_MAX;
    if (((this_daemon == NODE || this_daemon == SERVER) && limit == BASIC_CYCLE) ||
        (this_daemon == OUTPUT && limit == OUTPUT_CYCLE && event_stands()))
        return event_deadline_in(cycle - event_now() % cycle);
    return event_deadline_in(limit);
}
