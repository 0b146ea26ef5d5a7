/*
 * The library of malleable programs: asks the broker of the cluster whether the job should get more or fewer nodes.
 *
 * One process of the job asks (rank 0), between two iterations. The names and the arguments of the calls are those of the DMR API
 * (docs/references.md). mirage_extras/malleable/files/dmr/README.md shows how a program uses them.
 *
 * From the environment: DMR_BROKER, the path of the broker's socket; SLURM_JOB_ID; DMR_NODES, or else SLURM_JOB_NUM_NODES, the
 * present number of nodes; DMR_INHIBITOR, for how many seconds after a check further checks are skipped (0 without it);
 * DMR_CHECKED, when the processes before a resize checked last (seconds since the epoch). Without DMR_BROKER every check returns
 * DMR_NONE.
 *
 * Nothing here ends the program: where the broker cannot be asked the action is DMR_NONE, and dmr_reason() says why. The next check
 * connects again. A broker that does not answer within ten minutes counts as lost. Not for several threads at a time.
 */
#ifndef DMR_H
#define DMR_H

enum dmr_action { DMR_NONE, DMR_EXPAND, DMR_SHRINK };

/*
 * Decides and acts now: returns when the action is done. minimum, maximum: nodes between which the job may be resized; factor: the
 * new number is a multiple or divisor of the present one by a power of it; preferred: nodes, 0 for none.
 *
 * DMR_EXPAND: the job has *nodes nodes now, and *list has the names of all of them, with commas between them.
 * DMR_SHRINK: the job will have the *nodes nodes of *list: end what runs on the others, then call dmr_ready(). The broker takes the
 * offer back when the connection of the process that asked ends. (If dmr_nodes() is *nodes already, the job had lost the others: no
 * dmr_ready().)
 * DMR_NONE: nothing changes; *nodes is the present number, *list is empty.
 * *list is valid until the next call.
 */
enum dmr_action dmr_check_status(int minimum, int maximum, int factor, int preferred, int *nodes, const char **list);

/* The same, asynchronous: the action is the one that the last call decided, and the broker decides for the next call meanwhile. */
enum dmr_action dmr_icheck_status(int minimum, int maximum, int factor, int preferred, int *nodes, const char **list);

/* To be called after DMR_SHRINK to `to` nodes, when nothing runs on the others any more. DMR_SHRINK: done, as above; DMR_NONE: the
 * job keeps all. */
enum dmr_action dmr_ready(int to, int *nodes, const char **list);

/* To be called when the computation goes on after a resize. seconds: how long it stood still, without the broker's answers. */
void dmr_resumed(double seconds);

/* The present number of nodes. */
int dmr_nodes(void);

/* When the last check that was not skipped began, in seconds since the epoch; 0 if there was none. */
double dmr_checked(void);

/* Why the last answer was DMR_NONE, in the broker's words or this library's; empty if there is nothing to say. */
const char *dmr_reason(void);

#endif
