/* Whether any thread of an instance's user works: can run, or waits for a disk (uninterruptible sleep). */
#ifndef RUNNABLE_H
#define RUNNABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { BY_BPF = 1, BY_SCAN = 2 };

/* A way to know it. The functions of one way are in one file; `wait` and `verify` may do nothing. */
struct runnable {
    int mode;
    /* Whether a thread works. */
    bool (*any)(void);
    /* Number of wake-ups of an instance at rest by something other than this process. */
    uint64_t (*surprises)(void);
    /*
     * Number of those among the first `total` wake-ups of `surprises` that were not asked for before, and that `explains` does not explain
     * from the thread and the real instant (CLOCK_MONOTONIC, ns). The oldest of very many are not explained.
     */
    uint64_t (*unexplained)(uint64_t total, bool (*explains)(pid_t thread, int64_t mono));
    /* Called before and after system calls of this process that wake threads up: these wake-ups are no surprises. */
    void (*tells)(bool begins);
    /* Waits until nothing works, or for this real time in ns; it may return earlier. `works`: something worked just now. */
    void (*wait)(int64_t longest, bool works);
    /* Compares with /proc, and forgets threads that wait. With `stopped`, stopped daemons do not work either. */
    void (*verify)(bool stopped);
};

/*
 * By BPF programs at the scheduler's tracepoints. `tracepoints` names each with its id and the byte offsets of its fields:
 * switch=ID:PREV_COMM:PREV_PID:PREV_STATE,waking=ID:COMM:PID,wakeup=ID:COMM:PID,wakeup_new=ID:COMM:PID
 * Needs CAP_BPF and CAP_PERFMON, and Linux 5.12. Returns null, or what the kernel refuses (errno is set).
 */
const char *runnable_by_bpf(struct runnable *runnable, uid_t user, const char *tracepoints);

/* By reading the states of all threads in /proc, which takes some 10 us for each of them when none works. */
void runnable_by_scan(struct runnable *runnable, uid_t user);

#endif
