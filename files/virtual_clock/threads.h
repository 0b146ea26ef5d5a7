/* The threads of a user and their states, from /proc (proc(5)). */
#ifndef THREADS_H
#define THREADS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A reader of a thread's state ('S', 'R', ...): 0 if there is no such thread. `name` of 16 bytes gets the thread's name, `*threads`
 * the number of threads of its process, or 0 if it is not known.
 */
typedef char (*state_reader)(pid_t process, pid_t thread, char *name, long *threads);

char thread_state(pid_t process, pid_t thread, char *name, long *threads);

/*
 * The same for threads that are looked at again and again: the file stays open, because opening it takes longer than reading it.
 * Needs two files for each thread with those of is_preempted; opens them each time when RLIMIT_NOFILE allows no more.
 */
char kept_thread_state(pid_t process, pid_t thread, char *name, long *threads);

/*
 * Whether a thread in the state of a sleep still has its processor or waits for one: the state is set before the thread looks for
 * the last time whether it has to sleep at all, and it may be preempted there. The kernel then shows no function in which it waits.
 * It never shows one of a process that `user` may not trace, such as the farm, whose files in /proc are root's: that one counts as
 * asleep.
 */
bool is_preempted(pid_t thread, uid_t user);

/* The id that a thread has in its own process id namespace; 0 if it has ended. */
pid_t innermost_id(pid_t thread);

/* How often a thread has given up its processor, for another one or to wait; -1: not known, or it has ended. */
long switches_of(pid_t thread);

/* Whether the thread's process has mapped the file with this number (st_ino), or has ended. */
bool has_mapped(pid_t thread, ino_t file);

/* Whether a thread of this state and name works; `with_stopped`: also a stopped one of a daemon. */
bool is_work(char state, const char *name, bool with_stopped);

/* Calls found(thread, state, name) for each thread of the user's processes but this one; stops when it returns false. */
void for_each_thread(uid_t user, state_reader state_of, bool (*found)(pid_t thread, char state, const char *name));

/* Calls found(thread, state, name) for the kernel's threads that process packets when processors are busy (ksoftirqd). */
void for_each_softirq_thread(bool (*found)(pid_t thread, char state, const char *name));

#endif
