/* What the clock does for single daemons of Slurm, because of how they wait. Their names are known here only. */
#ifndef SLURM_QUIRKS_H
#define SLURM_QUIRKS_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define SLURM_DAEMONS "slurm" /* their names begin with it */

#pragma GCC visibility push(hidden)

/* Looks which daemon this program is. On the event-driven clock the page must be mapped. */
void set_up_quirks(void);

#define DAEMON "SLURM_MIRAGE_DAEMON" /* the farm's name of a daemon, which ends with the number of the node */

/* The number at the end of the value of a variable of the environment; 0 without one. */
uint32_t number_in(const char *variable);

/* Whether this is slurmctld, slurmd or slurmstepd. */
bool is_daemon(void);

/* Whether fsync returns at once. */
extern bool saves_to_memory;

/* Of several short sleeps one long one is made. Returns true if this one is left out; makes the last one longer. */
bool leaves_nap_out(useconds_t *microseconds);

/* Whether this thread looks each second for samples. Its sleeps and waits have functions of their own. */
bool is_sampler(void);
int sleep_of_sampler(useconds_t microseconds);
int wait_of_sampler(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *deadline);

/* Whether nothing of importance happens when a poll of `count` files ends after `timeout` ms. Such a poll has a limit of its own.
 */
bool is_idle_poll(nfds_t count, int timeout);
int poll_idly(struct pollfd *fds, nfds_t count);

#pragma GCC visibility pop

#endif
