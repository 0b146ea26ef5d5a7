/*
 * Whether any thread of an instance's user works, as the BPF programs of bpf_programs.h count it (bpf(2), perf_event_open(2)):
 * their maps, their attachment to tracepoints, and what the coordinator reads of them.
 */
#define _GNU_SOURCE
#include "bpf_assembler.h"
#include "bpf_programs.h"
#include "runnable.h"
#include "threads.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 1 << 17, MOST_ERRANDS = 4096, RING_SIZE = 4096, LOG_SIZE = 65536 };

static struct counters *counters;
static unsigned char *ring_consumer, *ring_producer;

static int bpf(int command, union bpf_attr *attributes)
{
    return (int)syscall(SYS_bpf, command, attributes, sizeof *attributes);
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

/* Loads the program that was just written, and attaches it to a tracepoint for as long as this process lives. */
static bool attach(const char *tracepoint)
{
    static char log[LOG_SIZE];
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
    attributes.insns = (uintptr_t)finished_program(&attributes.insn_cnt);
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
    memset(&attributes, 0, sizeof attributes);
    attributes.raw_tracepoint.name = (uintptr_t)tracepoint;
    attributes.raw_tracepoint.prog_fd = (uint32_t)loaded;
    return bpf(BPF_RAW_TRACEPOINT_OPEN, &attributes) >= 0;
}

static bool map_memory(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *shared = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, inputs.counters, 0);
    void *consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, inputs.ring, 0);
    void *producer = mmap(NULL, page + 2 * (size_t)RING_SIZE, PROT_READ, MAP_SHARED, inputs.ring, (off_t)page);
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

static uint64_t surprises(void)
{
    return atomic_load(&counters->surprises);
}

static bool next_surprise(struct surprise *found, uint64_t total)
{
    static uint64_t asked; /* surprises that were given before */
    static uint64_t overflows_before;
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
    struct pollfd ring = {.fd = inputs.ring, .events = POLLIN};
    struct timespec limit = {.tv_sec = longest / 1000000000, .tv_nsec = longest % 1000000000};
    atomic_store(&counters->is_awaited, 1);
    /* An end before this is not reported. */
    bool has_ended = works && atomic_load(&counters->working) <= 0;
    if (longest > 0 && !has_ended)
        (void)ppoll(&ring, 1, &limit, NULL);
    atomic_store(&counters->is_awaited, 0);
    /* The content of the ring has no further information. */
    atomic_store((_Atomic uint64_t *)(void *)ring_consumer, atomic_load((_Atomic uint64_t *)(void *)ring_producer));
}

static int element(int command, uint32_t thread, struct thread *value, uint64_t flags)
{
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_fd = (uint32_t)inputs.threads;
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
    bool is_going_to_sleep = state == 'S' && is_preempted(thread, inputs.user);
    return !is_going_to_sleep && !is_work(state, name, !is_stopped_ignored);
}

/* Whether the programs know a thread as one that works. */
static bool counts_as_working(uint32_t thread)
{
    struct thread entry;
    return element(BPF_MAP_LOOKUP_ELEM, thread, &entry, 0) == 0 && entry.state != WAITS;
}

/* Whether a thread waits, and has waited since it had given up its processor so often. */
static bool has_waited_since(pid_t thread, long switches)
{
    return waits(thread) && switches_of(thread) == switches;
}

static void verify(bool stopped)
{
    uint32_t thread = 0;
    struct thread entry;
    union bpf_attr attributes;
    bool has_previous = false;
    const struct timespec pause = {.tv_nsec = 2000000};
    is_stopped_ignored = stopped;
    memset(&attributes, 0, sizeof attributes);
    attributes.map_fd = (uint32_t)inputs.threads;
    attributes.next_key = (uintptr_t)&thread;
    for (int seen = 0; seen < MOST_THREADS; seen++) {
        uint32_t previous = thread;
        attributes.key = has_previous ? (uintptr_t)&previous : 0;
        if (bpf(BPF_MAP_GET_NEXT_KEY, &attributes) != 0)
            return;
        has_previous = true;
        if (!counts_as_working(thread))
            continue;
        long switches = switches_of((pid_t)thread);
        if (!has_waited_since((pid_t)thread, switches))
            continue;
        nanosleep(&pause, NULL);
        /* It may wait again, and have worked meanwhile. */
        if (!counts_as_working(thread) || !has_waited_since((pid_t)thread, switches))
            continue;
        entry = (struct thread){.state = WAITS, .since = monotonic()};
        if (element(BPF_MAP_UPDATE_ELEM, thread, &entry, BPF_EXIST) != 0)
            continue;
        atomic_fetch_sub(&counters->working, 1);
        if (has_waited_since((pid_t)thread, switches) || element(BPF_MAP_LOOKUP_ELEM, thread, &entry, 0) != 0 ||
            entry.state != WAITS)
            continue;
        /* It was woken up before the update: better twice than not at all. */
        entry = (struct thread){.state = WORKS, .since = 0};
        if (element(BPF_MAP_UPDATE_ELEM, thread, &entry, BPF_EXIST) == 0)
            atomic_fetch_add(&counters->working, 1);
    }
}

/* The tracepoints have the kernel's process ids, which differ from those of a container. */
static bool has_the_kernels_process_ids(void)
{
    enum { INITIAL_NAMESPACE = 0xEFFFFFFC }; /* PROC_PID_INIT_INO of Linux */
    struct stat namespace;
    return stat("/proc/self/ns/pid", &namespace) == 0 && namespace.st_ino == (ino_t)INITIAL_NAMESPACE;
}

/* The number of this process's network namespace; 0: not known. */
static uint32_t own_network(void)
{
    struct stat namespace;
    return stat("/proc/self/ns/net", &namespace) == 0 ? (uint32_t)namespace.st_ino : 0;
}

const char *runnable_by_bpf(struct runnable *runnable, uid_t user, const char *fields)
{
    struct task_fields at = {0};
    int found = sscanf(fields, "pid=%d,comm=%d,state=%d,namespaces=%d,network=%d,number=%d", &at.pid, &at.comm, &at.state,
                       &at.namespaces, &at.network, &at.number);
    if (found != 3 && found != 6)
        return "the fields of tasks are not known";
    uint32_t network = found == 6 ? own_network() : 0;
    if (found == 6 && network == 0)
        return "this process's network namespace is not known";
    if (!has_the_kernels_process_ids()) {
        errno = ENOTSUP;
        return "this process is in a process id namespace";
    }
    inputs = (struct program_inputs){
        .counters = create_map(BPF_MAP_TYPE_ARRAY, 4, sizeof *counters, 1, BPF_F_MMAPABLE),
        .threads = create_map(BPF_MAP_TYPE_HASH, 4, sizeof(struct thread), MOST_THREADS, 0),
        .errands = create_map(BPF_MAP_TYPE_LRU_HASH, 4, 8, MOST_ERRANDS, 0),
        .ring = create_map(BPF_MAP_TYPE_RINGBUF, 0, 0, RING_SIZE, 0),
        .fields = at,
        .user = user,
        .network = network,
        .coordinator = getpid(),
    };
    if (inputs.counters < 0 || inputs.threads < 0 || inputs.errands < 0 || inputs.ring < 0)
        return "no BPF maps";
    if (!map_memory())
        return "no memory of BPF maps";
    for (int i = 0; i < 4; i++) {
        static const char *const timers[] = {"hrtimer_expire_entry", "hrtimer_expire_exit", "timer_expire_entry",
                                             "timer_expire_exit"};
        write_timer(i < 2 ? offsetof(struct processor, in_hrtimer) : offsetof(struct processor, in_timer), i % 2 == 0);
        if (!attach(timers[i]))
            return "no BPF program at the kernel's timers";
    }
    write_switch();
    if (!attach("sched_switch"))
        return "no BPF program at sched_switch";
    for (int i = 0; i < 3; i++) {
        static const char *const wakeups[] = {"sched_waking", "sched_wakeup", "sched_wakeup_new"};
        write_wakeup(i == 2, i == 0);
        if (!attach(wakeups[i]))
            return "no BPF program at sched_wakeup";
    }
    for_each_thread(user, thread_state, enter);
    for_each_softirq_thread(enter);
    *runnable = (struct runnable){BY_BPF, any, wakeups, surprises, next_surprise, jumps, tells, wait_for_quiet, verify};
    return NULL;
}
