/*
 * The number of an instance's working threads, counted by BPF programs at the scheduler's tracepoints (bpf(2), perf_event_open(2)).
 *
 * A map has the state of each thread of the user: 1 if it works, 0 if it waits. A thread that is woken up becomes 1, one that is
 * taken from its processor to wait becomes 0; each change of a state changes the count by one, so tracepoints may report a wake-up
 * twice. At sched_waking the thread is counted before it can run, so between a wake-up and its effect the count is never 0.
 * An uninterruptible sleep (a disk) counts as work. New threads appear at sched_wakeup_new, others when they are first taken from
 * their processor; those that exist at the start are read from /proc. The kernel's threads for network packets (ksoftirqd) count as
 * the user's: on a busy host they carry packets between the user's processes, which wait meanwhile.
 */
#define _GNU_SOURCE
#include "runnable.h"
#include "threads.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef BPF_ATOMIC /* headers before Linux 5.12 */
#define BPF_ATOMIC 0xc0
#define BPF_FETCH 0x01
#define BPF_XCHG (0xe0 | BPF_FETCH)
#endif

enum { MOST_THREADS = 1 << 17, RING_SIZE = 4096, LOG_SIZE = 65536, MOST_INSTRUCTIONS = 320 };
enum { KEPT_SURPRISES = 4096, MOST_PROCESSORS = 1024, MOST_ERRANDS = 4096 };
#define OUTSIDE (-1)
#define UNSEEN (-1)

/* What is known of a thread. */
struct thread {
    uint64_t state;
    int64_t since; /* it waits since this real instant (CLOCK_MONOTONIC, ns), but for wake-ups by timers; 0: it works */
};

/* A surprise as the BPF programs note it. */
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

/* Shared with the BPF programs, mapped from an array with one element. */
struct counters {
    _Atomic int64_t working;
    _Atomic uint64_t wakeups;    /* of an instance at rest by something other than this process */
    _Atomic uint64_t is_awaited; /* 1: a wake-up of this process is wanted when `working` becomes 0 */
    _Atomic uint64_t overflows;  /* threads that the map had no room for */
    _Atomic uint64_t is_telling; /* 1: this process wakes threads up */
    _Atomic int64_t last_jump;   /* the real instant of the last jump (CLOCK_MONOTONIC, ns); 0: none */
    _Atomic uint64_t surprises;  /* that were noted */
    struct processor processors[MOST_PROCESSORS];
    struct noted noted[KEPT_SURPRISES]; /* the last surprises: number N at N % KEPT_SURPRISES */
};

static struct counters *counters;
static int threads_map, errands_map, ring_map, ring_data;
static unsigned char *ring_consumer, *ring_producer;
static uid_t counted_user;

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

/* ---- instructions ---- */

static struct bpf_insn program[MOST_INSTRUCTIONS];
static int length;

static int emit(uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t value)
{
    program[length] = (struct bpf_insn){.code = code, .dst_reg = to, .src_reg = from, .off = offset, .imm = value};
    return length++;
}

enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FRAME };

static void set(uint8_t to, int32_t value)
{
    emit(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}

static void copy(uint8_t to, uint8_t from)
{
    emit(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

static void add(uint8_t to, int32_t value)
{
    emit(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}

static void load(uint8_t size, uint8_t to, uint8_t from, int16_t offset)
{
    emit(BPF_LDX | BPF_MEM | size, to, from, offset, 0);
}

static void store(uint8_t size, uint8_t to, int16_t offset, uint8_t from)
{
    emit(BPF_STX | BPF_MEM | size, to, from, offset, 0);
}

/* from = exchange(*(to + offset), from), or fetch-and-add */
static void atomic(uint8_t to, int16_t offset, uint8_t from, int32_t operation)
{
    emit(BPF_STX | BPF_ATOMIC | BPF_DW, to, from, offset, operation);
}

static void call(int32_t function)
{
    emit(BPF_JMP | BPF_CALL, 0, 0, 0, function);
}

static void load_map(uint8_t to, int map, uint8_t kind, int32_t offset)
{
    emit(BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, map);
    emit(0, 0, 0, 0, offset);
}

static void load_counters(uint8_t to, int map)
{
    load_map(to, map, BPF_PSEUDO_MAP_VALUE, 0);
}

/* A jump forward, whose end is set by `land`. */
static int jump(uint8_t condition, uint8_t left, int32_t right)
{
    return emit(BPF_JMP | condition | BPF_K, left, 0, 0, right);
}

static void land(int from)
{
    program[from].off = (int16_t)(length - from - 1);
}

static int always(void)
{
    return emit(BPF_JMP | BPF_JA, 0, 0, 0, 0);
}

static void leave(void)
{
    set(R0, 0);
    emit(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

/* States of threads in the map. IS_WOKEN: works, and its wake-up has begun, perhaps before it was taken from its processor. */
enum { WAITS = 0, WORKS = 1, IS_WOKEN = 3 };

#define COUNTER(name) ((int16_t)offsetof(struct counters, name))
#define NOTED(name) ((int16_t)(offsetof(struct counters, noted) + offsetof(struct noted, name)))
#define SINCE ((int16_t)offsetof(struct thread, since))
enum { KEY = -4, WAKER = -8, VALUE = -24, BEFORE = -32, SINCE_WHEN = -40 }; /* places on the stack; VALUE has 16 bytes */

/* The first two arguments of a function of a map: the map, and the thread in KEY or WAKER. */
static void name_in(int map, int key)
{
    load_map(R1, map, BPF_PSEUDO_MAP_FD, 0);
    copy(R2, FRAME);
    add(R2, key);
}

static void name_thread(void)
{
    name_in(threads_map, KEY);
}

/* R0 = the user of the present task. */
static void get_user(void)
{
    call(BPF_FUNC_get_current_uid_gid);
    emit(BPF_ALU | BPF_MOV | BPF_X, R0, R0, 0, 0); /* the lower half */
}

/* R0 = 1: this processor handles the end of a timer. */
static void find_timer(int counters_map)
{
    call(BPF_FUNC_get_smp_processor_id);
    emit(BPF_ALU64 | BPF_AND | BPF_K, R0, 0, 0, MOST_PROCESSORS - 1);
    emit(BPF_ALU64 | BPF_MUL | BPF_K, R0, 0, 0, sizeof(struct processor));
    load_counters(R1, counters_map);
    emit(BPF_ALU64 | BPF_ADD | BPF_X, R1, R0, 0, 0);
    load(BPF_DW, R0, R1, COUNTER(processors) + (int16_t)offsetof(struct processor, in_hrtimer));
    load(BPF_DW, R2, R1, COUNTER(processors) + (int16_t)offsetof(struct processor, in_timer));
    emit(BPF_ALU64 | BPF_OR | BPF_X, R0, R2, 0, 0);
}

/* hrtimer_expire_entry, timer_expire_entry, and their ends. */
static void write_timer(int counters_map, int16_t which, bool begins)
{
    length = 0;
    call(BPF_FUNC_get_smp_processor_id);
    emit(BPF_ALU64 | BPF_AND | BPF_K, R0, 0, 0, MOST_PROCESSORS - 1);
    emit(BPF_ALU64 | BPF_MUL | BPF_K, R0, 0, 0, sizeof(struct processor));
    load_counters(R1, counters_map);
    emit(BPF_ALU64 | BPF_ADD | BPF_X, R1, R0, 0, 0);
    set(R2, begins);
    store(BPF_DW, R1, (int16_t)(COUNTER(processors) + which), R2);
    leave();
}

/* R7 = the state of the thread in KEY; a new entry of state 0 if it has none. Returns the jump that is taken without room. */
static int find_or_add(int counters_map)
{
    name_thread();
    call(BPF_FUNC_map_lookup_elem);
    int found = jump(BPF_JNE, R0, 0);
    set(R1, 0);
    store(BPF_DW, FRAME, VALUE, R1);
    store(BPF_DW, FRAME, VALUE + SINCE, R1);
    name_thread();
    copy(R3, FRAME);
    add(R3, VALUE);
    set(R4, BPF_NOEXIST);
    call(BPF_FUNC_map_update_elem);
    name_thread();
    call(BPF_FUNC_map_lookup_elem);
    int added = jump(BPF_JNE, R0, 0);
    load_counters(R1, counters_map);
    set(R2, 1);
    atomic(R1, COUNTER(overflows), R2, BPF_ADD | BPF_FETCH);
    int no_room = always();
    land(found);
    land(added);
    copy(R7, R0);
    return no_room;
}

/*
 * Sets the state at R7 to WORKS or IS_WOKEN. Returns the jump that is taken if it worked already; otherwise R2 = the former number
 * of working threads.
 */
static int begin_work(int counters_map, int state)
{
    set(R1, state);
    atomic(R7, 0, R1, BPF_XCHG);
    int already = jump(BPF_JNE, R1, 0);
    load_counters(R1, counters_map);
    set(R2, 1);
    atomic(R1, COUNTER(working), R2, BPF_ADD | BPF_FETCH);
    return already;
}

/* Notes since when a thread of another user works for the instance: the present task of the instance has woken it up. */
static void note_errand(int counters_map)
{
    find_timer(counters_map);
    int by_timer = jump(BPF_JNE, R0, 0);
    get_user();
    int other_user = jump(BPF_JNE, R0, (int32_t)counted_user);
    call(BPF_FUNC_ktime_get_ns);
    store(BPF_DW, FRAME, VALUE, R0);
    name_in(errands_map, KEY);
    copy(R3, FRAME);
    add(R3, VALUE);
    set(R4, BPF_ANY);
    call(BPF_FUNC_map_update_elem);
    land(other_user);
    land(by_timer);
}

/*
 * Notes a surprise of the thread in KEY, unless it is an observer or nothing can have been under way during a jump. R8 = 0,
 * OUTSIDE, or since when it may have been under way; R9 = since when the thread waits; BEFORE = the number of threads that worked
 * before, or UNSEEN.
 */
static void note(int counters_map, int comm)
{
    load(BPF_W, R1, R6, (int16_t)comm);
    int softirq = jump(BPF_JEQ, R1, 0x666f736b); /* its name begins with "ksof" */
    /* an observer: its name begins with "mirage" */
    int other_name = jump(BPF_JNE, R1, 0x6172696d);
    load(BPF_H, R1, R6, (int16_t)(comm + 4));
    int observer = jump(BPF_JEQ, R1, 0x6567);
    land(other_name);
    load_counters(R3, counters_map);
    load(BPF_DW, R1, FRAME, BEFORE);
    int not_first = jump(BPF_JNE, R1, 0);
    set(R2, 1);
    atomic(R3, COUNTER(wakeups), R2, BPF_ADD | BPF_FETCH);
    land(not_first);
    int no_wait = jump(BPF_JEQ, R9, 0);
    int from_outside = jump(BPF_JEQ, R8, OUTSIDE);
    int later_errand = emit(BPF_JMP | BPF_JGT | BPF_X, R8, R9, 0, 0); /* the later of the two instants */
    copy(R8, R9);
    land(later_errand);
    load_counters(R3, counters_map);
    load(BPF_DW, R4, R3, COUNTER(last_jump));
    int no_jump = emit(BPF_JMP | BPF_JGE | BPF_X, R8, R4, 0, 0);
    land(from_outside);
    store(BPF_DW, FRAME, SINCE_WHEN, R8);
    call(BPF_FUNC_ktime_get_ns);
    copy(R8, R0);
    load_counters(R3, counters_map);
    load(BPF_DW, R4, R3, COUNTER(last_jump));
    add(R4, LONGEST_UNDER_WAY);
    int long_ago = emit(BPF_JMP | BPF_JGT | BPF_X, R8, R4, 0, 0);
    set(R2, 1);
    atomic(R3, COUNTER(surprises), R2, BPF_ADD | BPF_FETCH);
    copy(R9, R2);
    emit(BPF_ALU64 | BPF_AND | BPF_K, R2, 0, 0, KEPT_SURPRISES - 1);
    emit(BPF_ALU64 | BPF_MUL | BPF_K, R2, 0, 0, sizeof(struct noted));
    emit(BPF_ALU64 | BPF_ADD | BPF_X, R3, R2, 0, 0);
    load(BPF_W, R1, FRAME, KEY);
    store(BPF_DW, R3, NOTED(thread), R1);
    load(BPF_DW, R1, FRAME, BEFORE);
    store(BPF_DW, R3, NOTED(was_working), R1);
    store(BPF_DW, R3, NOTED(mono), R8);
    load(BPF_DW, R1, FRAME, SINCE_WHEN);
    store(BPF_DW, R3, NOTED(since), R1);
    add(R9, 1);
    store(BPF_DW, R3, NOTED(number), R9);
    land(softirq);
    land(observer);
    land(no_wait);
    land(no_jump);
    land(long_ago);
}

/*
 * Notes a wake-up of the thread at R7 that is a surprise; BEFORE = the number of threads that worked before it. Whom the instance
 * or this process wakes up is none, unless nothing worked. What a timer wakes up, or an interrupt, may have been under way for as
 * long as the thread waits; what another task wakes up, since the instance has woken up that task, if that was not too long ago.
 */
static void note_surprise(int counters_map, int comm)
{
    set(R8, 0);
    find_timer(counters_map);
    int by_timer = jump(BPF_JNE, R0, 0);
    call(BPF_FUNC_get_current_pid_tgid);
    store(BPF_W, FRAME, WAKER, R0);
    copy(R1, R0);
    emit(BPF_ALU64 | BPF_RSH | BPF_K, R1, 0, 0, 32);
    int by_other = jump(BPF_JNE, R1, getpid());
    load_counters(R1, counters_map); /* an interrupt may have come while the coordinator ran */
    load(BPF_DW, R0, R1, COUNTER(is_telling));
    int while_coordinator = jump(BPF_JEQ, R0, 0);
    int by_coordinator = always();
    land(by_other);
    load(BPF_W, R1, FRAME, WAKER);
    int at_rest = jump(BPF_JEQ, R1, 0); /* the processor's idle task */
    get_user();
    int by_user = jump(BPF_JEQ, R0, (int32_t)counted_user);
    name_in(threads_map, WAKER);
    call(BPF_FUNC_map_lookup_elem);
    int by_known = jump(BPF_JNE, R0, 0); /* ksoftirqd */
    set(R8, OUTSIDE);
    name_in(errands_map, WAKER);
    call(BPF_FUNC_map_lookup_elem);
    int by_outside = jump(BPF_JEQ, R0, 0);
    load(BPF_DW, R8, R0, 0);
    call(BPF_FUNC_ktime_get_ns);
    emit(BPF_ALU64 | BPF_SUB | BPF_X, R0, R8, 0, 0);
    int on_errand = jump(BPF_JLE, R0, LONGEST_UNDER_WAY);
    land(by_user);
    land(by_known);
    set(R8, OUTSIDE);
    land(by_outside);
    land(by_coordinator);
    set(R1, 0);
    load(BPF_DW, R9, R7, SINCE);
    store(BPF_DW, R7, SINCE, R1);
    load(BPF_DW, R0, FRAME, BEFORE);
    int explained = jump(BPF_JNE, R0, 0);
    int not_told = jump(BPF_JEQ, R8, OUTSIDE);
    int told = always(); /* by this process */
    land(on_errand);
    load(BPF_DW, R9, R7, SINCE);
    set(R1, 0);
    store(BPF_DW, R7, SINCE, R1);
    int bounded = always();
    land(by_timer);
    land(while_coordinator);
    land(at_rest);
    load(BPF_DW, R9, R7, SINCE);
    land(bounded);
    land(not_told);
    note(counters_map, comm);
    land(explained);
    land(told);
}

/*
 * sched_waking, sched_wakeup: a known thread can run. sched_wakeup_new: so can a new one, if its parent is the user's, and the
 * parent works, which was not known yet if it has not waited since its process became the user's.
 */
static void write_wakeup(int counters_map, int comm, int pid, bool is_new, bool is_beginning)
{
    int other_user = 0;
    length = 0;
    copy(R6, R1);
    if (is_new) {
        get_user();
        other_user = jump(BPF_JNE, R0, (int32_t)counted_user);
    }
    load(BPF_W, R1, R6, (int16_t)pid);
    store(BPF_W, FRAME, KEY, R1);
    int unknown;
    if (is_new) {
        unknown = find_or_add(counters_map);
    } else {
        name_thread();
        call(BPF_FUNC_map_lookup_elem);
        unknown = jump(BPF_JEQ, R0, 0);
        copy(R7, R0);
    }
    int already = begin_work(counters_map, is_beginning ? IS_WOKEN : WORKS);
    store(BPF_DW, FRAME, BEFORE, R2);
    note_surprise(counters_map, comm);
    land(already);
    if (is_new) {
        land(unknown);
        call(BPF_FUNC_get_current_pid_tgid); /* the lower half: the thread */
        store(BPF_W, FRAME, KEY, R0);
        int no_room = find_or_add(counters_map);
        int known = begin_work(counters_map, WORKS);
        land(no_room);
        land(known);
        land(other_user);
        leave();
        return;
    }
    leave();
    land(unknown);
    if (is_beginning)
        note_errand(counters_map);
    leave();
}

/* States in sched_switch: 1 interruptible sleep, 2 uninterruptible, 4 stopped, 8 traced, 16 dead, 32 zombie, 64 parked, 128 idle */
enum { DOES_NOT_WORK = 0xfd, IS_STOPPED = 0x0c, IS_DEAD = 0x30 };

/* sched_switch: the thread of this user, or the known one of another, that had the processor waits, or is only preempted. */
static void write_switch(int counters_map, int comm, int pid, int state)
{
    length = 0;
    copy(R6, R1);
    load(BPF_W, R1, R6, (int16_t)pid);
    store(BPF_W, FRAME, KEY, R1);
    load(BPF_DW, R8, R6, (int16_t)state);
    emit(BPF_ALU64 | BPF_AND | BPF_K, R8, 0, 0, DOES_NOT_WORK);
    call(BPF_FUNC_get_current_uid_gid);
    emit(BPF_ALU | BPF_MOV | BPF_X, R0, R0, 0, 0);
    int own_user = jump(BPF_JEQ, R0, (int32_t)counted_user);
    name_thread();
    call(BPF_FUNC_map_lookup_elem);
    int unknown = jump(BPF_JEQ, R0, 0);
    copy(R7, R0);
    int known = always();
    land(own_user);
    call(BPF_FUNC_get_current_pid_tgid);
    emit(BPF_ALU64 | BPF_RSH | BPF_K, R0, 0, 0, 32);
    int coordinator = jump(BPF_JEQ, R0, getpid());
    int no_room = find_or_add(counters_map);
    land(known);
    int works = jump(BPF_JEQ, R8, 0);
    int not_stopped = jump(BPF_JSET, R8, IS_DEAD);
    int sleeps = jump(BPF_JSET, R8, DOES_NOT_WORK & ~IS_STOPPED);
    load(BPF_W, R1, R6, (int16_t)comm); /* stopped: a daemon's name begins with "slurm" */
    int other_name = jump(BPF_JNE, R1, 0x72756c73);
    load(BPF_B, R1, R6, (int16_t)(comm + 4));
    int stopped_daemon = jump(BPF_JEQ, R1, 'm');
    land(not_stopped);
    land(sleeps);
    land(other_name);
    load(BPF_DW, R1, R7, SINCE);
    store(BPF_DW, FRAME, SINCE_WHEN, R1);
    int woken_by_timer = jump(BPF_JNE, R1, 0);
    call(BPF_FUNC_ktime_get_ns);
    store(BPF_DW, R7, SINCE, R0);
    land(woken_by_timer);
    set(R1, WAITS);
    atomic(R7, 0, R1, BPF_XCHG);
    copy(R9, R1);
    int not_woken = jump(BPF_JNE, R9, IS_WOKEN);
    set(R1, IS_WOKEN); /* nobody else writes it before the wake-up goes on */
    store(BPF_DW, R7, 0, R1);
    set(R1, 0);
    store(BPF_DW, R7, SINCE, R1);
    int woken = always();
    land(not_woken);
    int dead = jump(BPF_JSET, R8, IS_DEAD);
    int alive = always();
    land(dead);
    name_thread();
    call(BPF_FUNC_map_delete_elem);
    land(alive);
    int waited_before = jump(BPF_JEQ, R9, 0);
    load_counters(R8, counters_map);
    set(R2, -1);
    atomic(R8, COUNTER(working), R2, BPF_ADD | BPF_FETCH);
    int not_last = jump(BPF_JNE, R2, 1);
    set(R2, 0);
    atomic(R8, COUNTER(is_awaited), R2, BPF_XCHG);
    int not_awaited = jump(BPF_JEQ, R2, 0);
    set(R1, 0);
    store(BPF_DW, FRAME, VALUE, R1);
    load_map(R1, ring_map, BPF_PSEUDO_MAP_FD, 0);
    copy(R2, FRAME);
    add(R2, VALUE);
    set(R3, 8);
    set(R4, BPF_RB_FORCE_WAKEUP);
    call(BPF_FUNC_ringbuf_output);
    int done = always();
    land(waited_before); /* its wake-up was not seen, or it was not known */
    set(R1, UNSEEN);
    store(BPF_DW, FRAME, BEFORE, R1);
    set(R8, 0);
    load(BPF_DW, R9, FRAME, SINCE_WHEN);
    note(counters_map, comm);
    int noted = always();
    land(works);
    land(stopped_daemon);
    int already = begin_work(counters_map, WORKS);
    land(already);
    land(noted);
    land(not_last);
    land(not_awaited);
    land(done);
    land(no_room);
    land(woken);
    land(unknown);
    land(coordinator);
    leave();
}

/* ---- the kernel's part ---- */

static int create_map(uint32_t type, uint32_t key, uint32_t value, uint32_t entries, uint32_t flags)
{
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_type = type;
    attributes.key_size = key;
    attributes.value_size = value;
    attributes.max_entries = entries;
    attributes.map_flags = flags;
    return bpf(BPF_MAP_CREATE, &attributes);
}

/* Loads `program` and attaches it to a tracepoint for as long as this process lives. */
static bool attach(uint64_t tracepoint)
{
    static char log[LOG_SIZE];
    union bpf_attr attributes;
    struct perf_event_attr event = {
        .size = sizeof event, .type = PERF_TYPE_TRACEPOINT, .config = tracepoint, .sample_period = 1, .wakeup_events = 1};
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = BPF_PROG_TYPE_TRACEPOINT;
    attributes.insns = (uintptr_t)program;
    attributes.insn_cnt = (uint32_t)length;
    attributes.license = (uintptr_t)"GPL";
    int loaded = bpf(BPF_PROG_LOAD, &attributes);
    if (loaded < 0 && errno != EPERM) { /* again, for the verifier's reason */
        attributes.log_buf = (uintptr_t)log;
        attributes.log_size = sizeof log;
        attributes.log_level = 1;
        loaded = bpf(BPF_PROG_LOAD, &attributes);
        if (loaded < 0)
            (void)fprintf(stderr, "%s\n", log);
    }
    if (loaded < 0)
        return false;
    int attached = (int)syscall(SYS_perf_event_open, &event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
    return attached >= 0 && ioctl(attached, PERF_EVENT_IOC_SET_BPF, loaded) == 0 && ioctl(attached, PERF_EVENT_IOC_ENABLE, 0) == 0;
}

static bool map_memory(int counters_map)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *shared = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, counters_map, 0);
    void *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, ring_map, 0);
    void *producer = mmap(NULL, page + 2 * (size_t)ring_data, PROT_READ, MAP_SHARED, ring_map, (off_t)page);
    counters = shared;
    ring_consumer = consumer;
    ring_producer = producer;
    return shared != MAP_FAILED && consumer != MAP_FAILED && producer != MAP_FAILED;
}

/* ---- the user's part ---- */

static bool any(void)
{
    int64_t working = atomic_load(&counters->working);
    /* No thread can wait more often than it works: `verify` and the programs have both taken one away. */
    if (working < 0)
        atomic_compare_exchange_strong(&counters->working, &working, 0);
    return working > 0;
}

static uint64_t wakeups(void)
{
    /* A thread that the map has no room for is not seen to work. */
    return atomic_load(&counters->wakeups) + atomic_load(&counters->overflows);
}

static int64_t monotonic(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void jumps(int64_t mono)
{
    atomic_store(&counters->last_jump, mono);
}

static bool next_surprise(struct surprise *found)
{
    static uint64_t asked; /* surprises that were given before */
    static uint64_t overflows_before;
    uint64_t total = atomic_load(&counters->surprises);
    uint64_t overflows = atomic_load(&counters->overflows);
    if (total - asked > KEPT_SURPRISES || overflows != overflows_before) {
        asked = total - asked > KEPT_SURPRISES ? total : asked;
        overflows_before = overflows;
        *found = (struct surprise){.thread = 0, .is_first = true, .mono = monotonic(), .since = monotonic() - LONGEST_UNDER_WAY};
        return true;
    }
    const struct noted *noted = &counters->noted[asked % KEPT_SURPRISES];
    if (asked == total || noted->number != asked + 1) /* a program is just writing it */
        return false;
    asked++;
    found->thread = (pid_t)noted->thread;
    found->is_first = noted->was_working == 0;
    found->is_unseen = noted->was_working == UNSEEN;
    found->is_outside = noted->since == OUTSIDE;
    found->mono = noted->mono;
    found->since = noted->since > noted->mono - LONGEST_UNDER_WAY ? noted->since : noted->mono - LONGEST_UNDER_WAY;
    return true;
}

static void tells(bool begins)
{
    atomic_store(&counters->is_telling, begins);
}

static void wait_for_quiet(int64_t longest, bool works)
{
    struct pollfd ring = {.fd = ring_map, .events = POLLIN};
    struct timespec limit = {.tv_sec = longest / 1000000000, .tv_nsec = longest % 1000000000};
    atomic_store(&counters->is_awaited, 1);
    /* What has ended before this is not told. */
    bool has_ended = works && atomic_load(&counters->working) <= 0;
    if (longest > 0 && !has_ended)
        (void)ppoll(&ring, 1, &limit, NULL);
    atomic_store(&counters->is_awaited, 0);
    /* What the ring contains says nothing more. */
    atomic_store((_Atomic uint64_t *)(void *)ring_consumer, atomic_load((_Atomic uint64_t *)(void *)ring_producer));
}

static int element(int command, uint32_t thread, struct thread *value, uint64_t flags)
{
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_fd = (uint32_t)threads_map;
    attributes.key = (uintptr_t)&thread;
    attributes.value = (uintptr_t)value;
    attributes.flags = flags;
    return bpf(command, &attributes);
}

static bool enter(pid_t thread, char state, const char *name)
{
    bool works = is_work(state, name, true);
    struct thread entry = {.state = works ? WORKS : WAITS, .since = works ? 0 : monotonic()};
    if (works)
        atomic_fetch_add(&counters->working, 1);
    if (element(BPF_MAP_UPDATE_ELEM, (uint32_t)thread, &entry, BPF_NOEXIST) != 0 && works)
        atomic_fetch_sub(&counters->working, 1); /* the programs know it already */
    return true;
}

static bool is_stopped_ignored;

static bool waits(pid_t thread)
{
    char name[16] = "";
    long threads;
    char state = thread_state(thread, thread, name, &threads);
    bool is_going_to_sleep = state == 'S' && is_preempted(thread, counted_user);
    return !is_going_to_sleep && !is_work(state, name, !is_stopped_ignored);
}

static void verify(bool stopped)
{
    uint32_t thread = 0;
    struct thread entry;
    union bpf_attr attributes;
    bool has_previous = false;
    is_stopped_ignored = stopped;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_fd = (uint32_t)threads_map;
    attributes.next_key = (uintptr_t)&thread;
    for (int seen = 0; seen < MOST_THREADS; seen++) {
        uint32_t previous = thread;
        attributes.key = has_previous ? (uintptr_t)&previous : 0;
        if (bpf(BPF_MAP_GET_NEXT_KEY, &attributes) != 0)
            return;
        has_previous = true;
        struct timespec pause = {.tv_nsec = 2000000};
        if (element(BPF_MAP_LOOKUP_ELEM, thread, &entry, 0) != 0 || entry.state == WAITS || !waits((pid_t)thread))
            continue;
        nanosleep(&pause, NULL);
        if (!waits((pid_t)thread) || element(BPF_MAP_LOOKUP_ELEM, thread, &entry, 0) != 0 || entry.state == WAITS)
            continue;
        entry = (struct thread){.state = WAITS, .since = monotonic()};
        if (element(BPF_MAP_UPDATE_ELEM, thread, &entry, BPF_EXIST) == 0)
            atomic_fetch_sub(&counters->working, 1);
    }
}

/* The tracepoints have the kernel's process ids, which differ from those of a container. */
static bool has_the_kernels_process_ids(void)
{
    enum { INITIAL_NAMESPACE = 0xEFFFFFFC }; /* PROC_PID_INIT_INO of Linux */
    struct stat namespace;
    return stat("/proc/self/ns/pid", &namespace) == 0 && namespace.st_ino == (ino_t)INITIAL_NAMESPACE;
}

const char *runnable_by_bpf(struct runnable *runnable, uid_t user, const char *tracepoints)
{
    unsigned int ids[8];
    int at[9];
    if (sscanf(tracepoints,
               "switch=%u:%d:%d:%d,waking=%u:%d:%d,wakeup=%u:%d:%d,wakeup_new=%u:%d:%d,"
               "hrtimer_expire_entry=%u,hrtimer_expire_exit=%u,timer_expire_entry=%u,timer_expire_exit=%u",
               &ids[0], &at[0], &at[1], &at[2], &ids[1], &at[3], &at[4], &ids[2], &at[5], &at[6], &ids[3], &at[7], &at[8], &ids[4],
               &ids[5], &ids[6], &ids[7]) != 17)
        return "the tracepoints are not known";
    if (!has_the_kernels_process_ids()) {
        errno = ENOTSUP;
        return "this process is in a process id namespace";
    }
    counted_user = user;
    ring_data = RING_SIZE;
    int counters_map = create_map(BPF_MAP_TYPE_ARRAY, 4, sizeof *counters, 1, BPF_F_MMAPABLE);
    threads_map = create_map(BPF_MAP_TYPE_HASH, 4, sizeof(struct thread), MOST_THREADS, 0);
    errands_map = create_map(BPF_MAP_TYPE_LRU_HASH, 4, 8, MOST_ERRANDS, 0);
    ring_map = create_map(BPF_MAP_TYPE_RINGBUF, 0, 0, RING_SIZE, 0);
    if (counters_map < 0 || threads_map < 0 || errands_map < 0 || ring_map < 0)
        return "no BPF maps";
    if (!map_memory(counters_map))
        return "no memory of BPF maps";
    for (int i = 0; i < 4; i++) {
        write_timer(counters_map, i < 2 ? offsetof(struct processor, in_hrtimer) : offsetof(struct processor, in_timer),
                    i % 2 == 0);
        if (!attach(ids[4 + i]))
            return "no BPF program at the kernel's timers";
    }
    write_switch(counters_map, at[0], at[1], at[2]);
    if (!attach(ids[0]))
        return "no BPF program at sched_switch";
    for (int i = 1; i < 4; i++) {
        write_wakeup(counters_map, at[2 * i + 1], at[2 * i + 2], i == 3, i == 1);
        if (!attach(ids[i]))
            return "no BPF program at sched_wakeup";
    }
    for_each_thread(user, thread_state, enter);
    for_each_softirq_thread(enter);
    *runnable = (struct runnable){BY_BPF, any, wakeups, next_surprise, jumps, tells, wait_for_quiet, verify};
    return NULL;
}
