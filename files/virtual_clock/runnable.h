/* Whether any thread of an instance's user works: can run, or waits for a disk (uninterruptible sleep). */
#ifndef RUNNABLE_H
#define RUNNABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { BY_BPF = 1, BY_SCAN = 2 };

/* Longest time in real ns for which something can be under way in the kernel: TCP's shortest time until a retransmission. */
#define LONGEST_UNDER_WAY INT32_C(200000000)

/* A wake-up of the instance by something that is neither its own work nor this process. */
struct surprise {
    pid_t thread;    /* 0: not known */
    bool is_first;   /* nothing worked before */
    bool is_outside; /* by a task of another user that the instance has not woken up: nothing was under way */
    bool is_unseen;  /* it was noticed only when the thread went to sleep again */
    int64_t mono;    /* its real instant (CLOCK_MONOTONIC, ns) */
    int64_t since;   /* what woke it up may have been under way since this real instant, at most LONGEST_UNDER_WAY before */
};

/* A method to find out. The functions of each method are in one file; `wait` and `verify` may do nothing. */
struct runnable {
    int mode;
    /* Whether a thread works. */
    bool (*any)(void);
    /* Number of wake-ups of an instance at rest by something other than this process. */
    uint64_t (*wakeups)(void);
    /* Gives the next surprise that may have come after a jump; false: there is none. Of very many, the oldest give one together. */
    /* Number of surprises that were noted until now. */
    uint64_t (*surprises)(void);
    /* The next of the first `noted` ones; false: it has given them all. */
    bool (*next_surprise)(struct surprise *found, uint64_t noted);
    /* Time jumps: it was decided at this real instant (CLOCK_MONOTONIC, ns). 0: earlier jumps do not matter any more. */
    void (*jumps)(int64_t mono);
    /* Called before and after system calls of this process that wake threads up: these wake-ups are not surprises. */
    void (*tells)(bool begins);
    /* Waits until nothing works, or for this real time in ns; it may return earlier. `works`: something worked just now. */
    void (*wait)(int64_t longest, bool works);
    /* Compares with /proc, and forgets threads that wait. With `stopped`, stopped daemons do not work either. */
    void (*verify)(bool stopped);
};

/*
 * By BPF programs at tracepoints of the scheduler and of timers. `fields`: where the kernel's struct task_struct has fields, as
 * pid=OFFSET,comm=OFFSET,state=OFFSET in bytes; with ,namespaces=OFFSET,network=OFFSET,number=OFFSET (bpf_programs.h) the threads
 * in this process's network namespace count as the user's. Needs CAP_BPF and CAP_PERFMON, and Linux 5.12. Returns null, or what the
 * kernel refuses (errno is set).
 */
const char *runnable_by_bpf(struct runnable *runnable, uid_t user, const char *fields);

/* By reading the states of all threads in /proc, which takes some 10 us for each of them when none works. */
void runnable_by_scan(struct runnable *runnable, uid_t user);

#endif
