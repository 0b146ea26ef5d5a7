/*
 * The BPF programs at the tracepoints of the scheduler and of timers, which count the working threads of a user and note surprises
 * (runnable.h), and what they share with runnable_bpf.c, which loads them. They are at raw tracepoints: at others the kernel skips
 * all programs while it runs one on the same processor, or handles bpf(2) there, as in an interrupt.
 *
 * A map has the state of each thread of the user: 0 if it waits, otherwise it works. A thread that is woken up works from then on,
 * one that is taken from its processor to wait does not; each change of a state changes the count by one, so tracepoints may report
 * a wake-up twice. At sched_waking the thread is counted before it can run, so between a wake-up and its effect the count is
 * never 0. An uninterruptible sleep (a disk) counts as work. New threads appear at sched_wakeup_new, others when they are first
 * taken from their processor; those that exist at the start are read from /proc. Where the instance has a network namespace of its
 * own, the threads in it count as the user's, whoever they belong to; they also appear when they are woken up. The kernel's threads
 * for network packets (ksoftirqd) count as the user's: on a busy host they carry packets between the user's processes, which wait
 * meanwhile.
 */
#ifndef BPF_PROGRAMS_H
#define BPF_PROGRAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { KEPT_SURPRISES = 4096, MOST_PROCESSORS = 1024 };
#define OUTSIDE (-1)
#define UNSEEN (-1)

/* States of threads. IS_WOKEN: works, and its wake-up has begun, which may be before it has been taken from its processor. */
enum { WAITS = 0, WORKS = 1, IS_WOKEN = 3 };

/* The state of a thread. */
struct thread {
    uint64_t state;
    int64_t since; /* it waits since this real instant (CLOCK_MONOTONIC, ns), but for wake-ups by timers; 0: it works */
};

/* The entry that the BPF programs write for a surprise. */
struct noted {
    _Atomic uint64_t thread;
    _Atomic int64_t was_working; /* number of threads that worked before; UNSEEN: see `struct surprise` */
    _Atomic int64_t mono, since; /* since OUTSIDE: see `struct surprise` */
    _Atomic uint64_t number;     /* its number + 1; written last */
    uint64_t padding[3];
};

/* Whether a processor is handling the end of a timer, of both kinds of timers. */
struct processor {
    _Atomic uint64_t in_hrtimer, in_timer;
};

/* Shared with the coordinator, mapped from an array with one element. */
struct counters {
    _Atomic int64_t working;
    _Atomic uint64_t wakeups;    /* wake-ups of an instance at rest by something other than the coordinator */
    _Atomic uint64_t is_awaited; /* 1: a wake-up of the coordinator is wanted when `working` becomes 0 */
    _Atomic uint64_t overflows;  /* threads that the map had no room for */
    _Atomic uint64_t is_telling; /* 1: the coordinator wakes threads up */
    _Atomic int64_t last_jump;   /* the real instant of the last jump (CLOCK_MONOTONIC, ns); 0: none */
    _Atomic uint64_t surprises;  /* number of surprises that were noted */
    struct processor processors[MOST_PROCESSORS];
    struct noted noted[KEPT_SURPRISES]; /* the last surprises: number N at N % KEPT_SURPRISES */
};

/*
 * Offsets in bytes of fields in the kernel's struct task_struct; of the field in its namespaces that is its network namespace, and
 * of the number in that.
 */
struct task_fields {
    int32_t pid, comm, state, namespaces, network, number;
};

/* What the programs use; to be set before they are written. */
extern struct program_inputs {
    int counters; /* descriptors of maps; this one has one element, `struct counters` */
    int threads;  /* of `struct thread` by thread */
    int errands;  /* the real instant (CLOCK_MONOTONIC, ns) since when a thread of another user works for the instance, by thread */
    int ring;     /* wakes the coordinator up */
    struct task_fields fields;
    uid_t user;
    uint32_t network; /* the number of the instance's network namespace, whose threads are the instance's, too; 0: it has none */
    pid_t coordinator;
} inputs;

/* Each writes one program (bpf_assembler.h). */
void write_timer(size_t which, bool begins);
void write_wakeup(bool is_new, bool is_beginning);
void write_switch(void);

#endif
