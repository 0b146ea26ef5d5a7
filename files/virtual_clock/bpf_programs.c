/*
 * The BPF programs that bpf_programs.h describes. The comment before each, and before each part of several, has it in pseudo-C:
 * names in lower case are arguments of the tracepoint, and fields of tasks, of the maps and of `struct counters`; those in upper
 * case are registers and places on the stack.
 */
#define _GNU_SOURCE
#include "bpf_programs.h"
#include "bpf_assembler.h"
#include "openpbs_quirks.h"
#include "runnable.h"
#include "slurm_quirks.h"

#include <string.h>

#define OBSERVER "mirage" /* names of threads that observe the instance from outside begin with it */
#define SOFTIRQ "ksof"    /* ksoftirqd */
enum { FIRST = 4 };       /* bytes of a name that are compared at once */

struct program_inputs inputs;

#define COUNTER(name) ((int)offsetof(struct counters, name))
#define NOTED(name) ((int)(offsetof(struct counters, noted) + offsetof(struct noted, name)))
#define SINCE ((int)offsetof(struct thread, since))

/*
 * Places on the stack; VALUE has 16 bytes, NAME the first 8 of a task's name. R6 has the tracepoint's arguments, R7 is the entry of
 * the thread in KEY, whose task is TASK. FOUND has 8 bytes, what `in_network` reads.
 */
enum { KEY = -4, WAKER = -8, VALUE = -24, BEFORE = -32, SINCE_WHEN = -40, NAME = -48, TASK = -56, FOUND = -64 };

/* Numbers of the tracepoints' arguments: of sched_waking, sched_wakeup and sched_wakeup_new, and of sched_switch. */
enum { WOKEN = 0, IS_PREEMPTED = 0, PREVIOUS = 1, NEXT = 2 };

/* ---- parts of programs ---- */

/* R1, R2 = the first two arguments of a function of a map: the map, and a place on the stack. */
static void name_in(int map, int key)
{
    load_map(R1, map);
    copy(R2, FRAME);
    compute(BPF_ADD, R2, key);
}

/* R0 = &map[key], or 0 */
static void look_up(int map, int key)
{
    name_in(map, key);
    call(BPF_FUNC_map_lookup_elem);
}

/* map[KEY] = VALUE, as BPF_ANY or BPF_NOEXIST */
static void update(int map, int32_t how)
{
    name_in(map, KEY);
    copy(R3, FRAME);
    compute(BPF_ADD, R3, VALUE);
    set(R4, how);
    call(BPF_FUNC_map_update_elem);
}

/* TASK = the task that is an argument of the tracepoint */
static void take_task(int argument)
{
    load(BPF_DW, R1, R6, argument * 8);
    store(BPF_DW, FRAME, TASK, R1);
}

/* A place on the stack = so many bytes at this offset from the address in another place there, or 0 if that is none */
static void read_from(int place, int32_t size, int address, int32_t offset)
{
    copy(R1, FRAME);
    compute(BPF_ADD, R1, place);
    set(R2, size);
    load(BPF_DW, R3, FRAME, address);
    compute(BPF_ADD, R3, offset);
    call(BPF_FUNC_probe_read_kernel);
}

/* A place on the stack = so many bytes of the field of TASK at this offset */
static void read_field(int place, int32_t size, int32_t offset)
{
    read_from(place, size, TASK, offset);
}

/* NAME = comm; R1 = its first bytes */
static void read_name(void)
{
    read_field(NAME, 8, inputs.fields.comm);
    load(BPF_W, R1, FRAME, NAME);
}

/*
 * if (the task whose address is in `task` is in the instance's network) goto inside; a task that ends has no namespaces any more.
 *
 *     FOUND = task->namespaces->network->number
 */
static void jump_if_in_network(struct label *inside, int task)
{
    if (inputs.network == 0)
        return;
    read_from(FOUND, 8, task, inputs.fields.namespaces);
    read_from(FOUND, 8, FOUND, inputs.fields.network);
    read_from(FOUND, 4, FOUND, inputs.fields.number);
    load(BPF_W, R1, FRAME, FOUND);
    compute(BPF_SUB, R1, (int32_t)inputs.network);
    copy_lower_half(R1, R1);
    jump_if(inside, BPF_JEQ, R1, 0);
}

/* if (the present task is the instance's) goto own */
static void jump_if_own(struct label *own)
{
    call(BPF_FUNC_get_current_uid_gid);
    copy_lower_half(R0, R0);
    jump_if(own, BPF_JEQ, R0, (int32_t)inputs.user);
    if (inputs.network == 0)
        return;
    call(BPF_FUNC_get_current_task);
    store(BPF_DW, FRAME, FOUND, R0);
    jump_if_in_network(own, FOUND);
}

/* R1 = where processors[the present one] would be if `processors` were the first member of `struct counters` */
static void get_processor(void)
{
    call(BPF_FUNC_get_smp_processor_id);
    compute(BPF_AND, R0, MOST_PROCESSORS - 1);
    compute(BPF_MUL, R0, sizeof(struct processor));
    load_element(R1, inputs.counters);
    compute_with(BPF_ADD, R1, R0);
}

/* R0 = in_hrtimer | in_timer of this processor: it handles the end of a timer. */
static void find_timer(void)
{
    get_processor();
    load(BPF_DW, R0, R1, COUNTER(processors) + (int)offsetof(struct processor, in_hrtimer));
    load(BPF_DW, R2, R1, COUNTER(processors) + (int)offsetof(struct processor, in_timer));
    compute_with(BPF_OR, R0, R2);
}

static int32_t bytes_of(const char *text, size_t count)
{
    int32_t bytes = 0;
    memcpy(&bytes, text, count);
    return bytes;
}

/* if (NAME begins with `name`, of 4 to 6 bytes) goto same; R1 has the first bytes of NAME, unless it begins as `name` does. */
static void jump_if_named(struct label *same, const char *name)
{
    struct label other = {0};
    size_t rest = strlen(name) - FIRST;
    if (rest == 0) {
        jump_if(same, BPF_JEQ, R1, bytes_of(name, FIRST));
        return;
    }
    jump_if(&other, BPF_JNE, R1, bytes_of(name, FIRST));
    load(rest == 1 ? BPF_B : BPF_H, R1, FRAME, NAME + FIRST);
    jump_if(same, BPF_JEQ, R1, bytes_of(name + FIRST, rest));
    land(&other);
}

/*
 * The entry of the thread in KEY, a new one if it has none:
 *
 *     R7 = &threads[KEY];
 *     if (!R7) {
 *         threads[KEY] = {WAITS, 0};
 *         R7 = &threads[KEY];
 *         if (!R7) {
 *             overflows++;
 *             goto no_room;
 *         }
 *     }
 */
static void find_or_add(struct label *no_room)
{
    struct label is_there = {0};
    look_up(inputs.threads, KEY);
    jump_if(&is_there, BPF_JNE, R0, 0);
    set(R1, 0);
    store(BPF_DW, FRAME, VALUE, R1);
    store(BPF_DW, FRAME, VALUE + SINCE, R1);
    update(inputs.threads, BPF_NOEXIST);
    look_up(inputs.threads, KEY);
    jump_if(&is_there, BPF_JNE, R0, 0);
    load_element(R1, inputs.counters);
    set(R2, 1);
    atomic(R1, COUNTER(overflows), R2, BPF_ADD | BPF_FETCH);
    jump(no_room);
    land(&is_there);
    copy(R7, R0);
}

/*
 *     if (exchange(R7->state, state) != WAITS)
 *         goto already;
 *     R2 = working++;
 */
static void begin_work(struct label *already, int state)
{
    set(R1, state);
    atomic(R7, 0, R1, BPF_XCHG);
    jump_if(already, BPF_JNE, R1, 0);
    load_element(R1, inputs.counters);
    set(R2, 1);
    atomic(R1, COUNTER(working), R2, BPF_ADD | BPF_FETCH);
}

/*
 * The thread in KEY, of another user, works for the instance from now on: the present task of the instance has woken it up.
 *
 *     if (!timer && the present task is the instance's)
 *         errands[KEY] = now;
 */
static void note_errand(void)
{
    struct label end = {0}, own = {0};
    find_timer();
    jump_if(&end, BPF_JNE, R0, 0);
    jump_if_own(&own);
    jump(&end);
    land(&own);
    call(BPF_FUNC_ktime_get_ns);
    store(BPF_DW, FRAME, VALUE, R0);
    update(inputs.errands, BPF_ANY);
    land(&end);
}

/*
 * Counts a wake-up while nothing worked, and notes it as a surprise of the thread in KEY, unless that is an observer or nothing can
 * have been under way during a jump. R8 = 0, OUTSIDE, or since when it may have been under way; R9 = since when the thread waits;
 * BEFORE = the number of threads that worked before, or UNSEEN.
 *
 *     if (BEFORE == 0)
 *         wakeups++;
 *     if (comm is SOFTIRQ || comm is OBSERVER)
 *         goto end;
 *     if (R9 == 0)
 *         goto end;
 *     if (R8 != OUTSIDE) {
 *         R8 = max(R8, R9);
 *         if (R8 >= last_jump)
 *             goto end;
 *     }
 *     SINCE_WHEN = R8;
 *     R8 = now;
 *     if (R8 > last_jump + LONGEST_UNDER_WAY)
 *         goto end;
 *     R9 = surprises++;
 *     noted[R9 % KEPT_SURPRISES] = {KEY, BEFORE, R8, SINCE_WHEN, R9 + 1};
 * end:
 */
static void note(void)
{
    struct label end = {0}, not_first = {0}, from_outside = {0}, is_later = {0};
    load_element(R3, inputs.counters);
    load(BPF_DW, R1, FRAME, BEFORE);
    jump_if(&not_first, BPF_JNE, R1, 0);
    set(R2, 1);
    atomic(R3, COUNTER(wakeups), R2, BPF_ADD | BPF_FETCH);
    land(&not_first);
    read_name();
    jump_if(&end, BPF_JEQ, R1, bytes_of(SOFTIRQ, FIRST));
    jump_if_named(&end, OBSERVER);
    jump_if(&end, BPF_JEQ, R9, 0);
    jump_if(&from_outside, BPF_JEQ, R8, OUTSIDE);
    jump_if_registers(&is_later, BPF_JGT, R8, R9);
    copy(R8, R9);
    land(&is_later);
    load_element(R3, inputs.counters);
    load(BPF_DW, R4, R3, COUNTER(last_jump));
    jump_if_registers(&end, BPF_JGE, R8, R4);
    land(&from_outside);
    store(BPF_DW, FRAME, SINCE_WHEN, R8);
    call(BPF_FUNC_ktime_get_ns);
    copy(R8, R0);
    load_element(R3, inputs.counters);
    load(BPF_DW, R4, R3, COUNTER(last_jump));
    compute(BPF_ADD, R4, LONGEST_UNDER_WAY);
    jump_if_registers(&end, BPF_JGT, R8, R4);
    set(R2, 1);
    atomic(R3, COUNTER(surprises), R2, BPF_ADD | BPF_FETCH);
    copy(R9, R2);
    compute(BPF_AND, R2, KEPT_SURPRISES - 1);
    compute(BPF_MUL, R2, sizeof(struct noted));
    compute_with(BPF_ADD, R3, R2);
    load(BPF_W, R1, FRAME, KEY);
    store(BPF_DW, R3, NOTED(thread), R1);
    load(BPF_DW, R1, FRAME, BEFORE);
    store(BPF_DW, R3, NOTED(was_working), R1);
    store(BPF_DW, R3, NOTED(mono), R8);
    load(BPF_DW, R1, FRAME, SINCE_WHEN);
    store(BPF_DW, R3, NOTED(since), R1);
    compute(BPF_ADD, R9, 1);
    store(BPF_DW, R3, NOTED(number), R9);
    land(&end);
}

/*
 * Notes a wake-up of the thread at R7 that is a surprise; BEFORE = the number of threads that worked before it. A wake-up by the
 * instance or the coordinator is not a surprise, unless nothing worked. The cause of a wake-up by a timer or an interrupt may have
 * been under way for as long as the thread waits; that of a wake-up by another task, since the instance has woken up that task, if
 * that was not too long ago.
 *
 *     R8 = 0;
 *     if (timer)
 *         goto not_by_task;
 *     WAKER = the present thread;
 *     if (the present process == coordinator) {
 *         if (!is_telling)               // an interrupt has come while it ran
 *             goto not_by_task;
 *     } else if (WAKER == 0) {           // the processor's idle task
 *         goto not_by_task;
 *     } else if (the present task is the instance's || threads[WAKER]) {  // known and of another user: ksoftirqd
 *         R8 = OUTSIDE;
 *     } else {
 *         R8 = OUTSIDE;
 *         if (errands[WAKER]) {
 *             R8 = *errands[WAKER];
 *             if (now - R8 <= LONGEST_UNDER_WAY)
 *                 goto on_errand;
 *             R8 = OUTSIDE;
 *         }
 *     }
 *     R9 = exchange(R7->since, 0);
 *     if (BEFORE == 0 && R8 == OUTSIDE)  // else by the coordinator, or by the instance's own work
 *         note();
 *     goto end;
 * on_errand:
 *     R9 = exchange(R7->since, 0);
 *     note();
 *     goto end;
 * not_by_task:
 *     R9 = R7->since;
 *     note();
 * end:
 */
static void note_surprise(void)
{
    struct label end = {0}, not_by_task = {0}, by_task = {0}, by_other = {0}, by_instance = {0}, on_errand = {0}, noted = {0};
    set(R8, 0);
    find_timer();
    jump_if(&not_by_task, BPF_JNE, R0, 0);
    call(BPF_FUNC_get_current_pid_tgid);
    store(BPF_W, FRAME, WAKER, R0);
    copy(R1, R0);
    compute(BPF_RSH, R1, 32);
    jump_if(&by_other, BPF_JNE, R1, inputs.coordinator);
    load_element(R1, inputs.counters);
    load(BPF_DW, R0, R1, COUNTER(is_telling));
    jump_if(&not_by_task, BPF_JEQ, R0, 0);
    jump(&by_task);
    land(&by_other);
    load(BPF_W, R1, FRAME, WAKER);
    jump_if(&not_by_task, BPF_JEQ, R1, 0);
    jump_if_own(&by_instance);
    look_up(inputs.threads, WAKER);
    jump_if(&by_instance, BPF_JNE, R0, 0);
    set(R8, OUTSIDE);
    look_up(inputs.errands, WAKER);
    jump_if(&by_task, BPF_JEQ, R0, 0);
    load(BPF_DW, R8, R0, 0);
    call(BPF_FUNC_ktime_get_ns);
    compute_with(BPF_SUB, R0, R8);
    jump_if(&on_errand, BPF_JLE, R0, LONGEST_UNDER_WAY);
    land(&by_instance);
    set(R8, OUTSIDE);
    land(&by_task);
    set(R1, 0);
    load(BPF_DW, R9, R7, SINCE);
    store(BPF_DW, R7, SINCE, R1);
    load(BPF_DW, R0, FRAME, BEFORE);
    jump_if(&end, BPF_JNE, R0, 0);
    jump_if(&noted, BPF_JEQ, R8, OUTSIDE);
    jump(&end);
    land(&on_errand);
    load(BPF_DW, R9, R7, SINCE);
    set(R1, 0);
    store(BPF_DW, R7, SINCE, R1);
    jump(&noted);
    land(&not_by_task);
    load(BPF_DW, R9, R7, SINCE);
    land(&noted);
    note();
    land(&end);
}

/* ---- programs ---- */

/*
 * hrtimer_expire_entry, timer_expire_entry, and their ends. `which`: the offset of the member of `struct processor`.
 *
 *     processors[the present one].WHICH = begins;
 */
void write_timer(size_t which, bool begins)
{
    begin_program();
    get_processor();
    set(R2, begins);
    store(BPF_DW, R1, COUNTER(processors) + (int)which, R2);
    leave();
}

/*
 * sched_waking (is_beginning), sched_wakeup: a known thread can run.
 *
 *     KEY = pid;
 *     R7 = &threads[KEY];
 *     if (!R7 && KEY == coordinator)     // it has one thread
 *         return;
 *     if (!R7 && TASK is in the instance's network)
 *         R7 = find_or_add() or return;
 *     if (!R7) {
 *         if (is_beginning)
 *             note_errand();
 *         return;
 *     }
 *     R2 = begin_work(is_beginning ? IS_WOKEN : WORKS) or return;
 *     BEFORE = R2;
 *     note_surprise();
 *
 * sched_wakeup_new (is_new): so can a new one, if its parent is the instance's, and the parent works, which was not known yet if it
 * has not waited since its process became the user's.
 *
 *     if (the present task is not the instance's)
 *         return;
 *     KEY = pid;
 *     R7 = find_or_add() or goto parent;
 *     BEFORE = begin_work(WORKS) or goto parent;
 *     note_surprise();
 * parent:
 *     KEY = the present thread;
 *     R7 = find_or_add() or return;
 *     begin_work(WORKS);
 */
void write_wakeup(bool is_new, bool is_beginning)
{
    struct label end = {0}, own = {0}, unknown = {0}, inside = {0}, known = {0}, already = {0};
    begin_program();
    copy(R6, R1);
    if (is_new) {
        jump_if_own(&own);
        jump(&end);
        land(&own);
    }
    take_task(WOKEN);
    read_field(KEY, 4, inputs.fields.pid);
    if (is_new) {
        find_or_add(&unknown);
    } else {
        look_up(inputs.threads, KEY);
        copy(R7, R0);
        jump_if(&known, BPF_JNE, R7, 0);
        load(BPF_W, R1, FRAME, KEY);
        jump_if(&end, BPF_JEQ, R1, inputs.coordinator);
        jump_if_in_network(&inside, TASK);
        jump(&unknown);
        if (inputs.network) { /* the kernel refuses a program with a part that nothing leads to */
            land(&inside);
            find_or_add(&end);
        }
        land(&known);
    }
    begin_work(&already, is_beginning ? IS_WOKEN : WORKS);
    store(BPF_DW, FRAME, BEFORE, R2);
    note_surprise();
    land(&already);
    if (!is_new)
        leave();
    land(&unknown);
    if (is_beginning)
        note_errand();
    if (is_new) {
        call(BPF_FUNC_get_current_pid_tgid); /* the lower half: the thread */
        store(BPF_W, FRAME, KEY, R0);
        find_or_add(&end);
        begin_work(&end, WORKS);
    }
    land(&end);
    leave();
}

/*
 * Bits of a task's state (linux/sched.h): 0x01 interruptible sleep, 0x04 stopped, 0x08 traced, 0x40 parked, 0x80 dead, 0x400 an
 * uninterruptible sleep that is no load (idle). The others are of states in which it works: 0x02 is any uninterruptible sleep.
 */
enum { DOES_NOT_WORK = 0x4cd, IS_STOPPED = 0x0c, IS_DEAD = 0x80 };

/*
 * In sched_switch: a known thread gets the processor whose wake-up no program has seen.
 *
 *     TASK = next;
 *     KEY = pid;
 *     R7 = &threads[KEY] or goto end;
 *     BEFORE = begin_work(WORKS) or goto end;
 *     R8 = 0;
 *     R9 = R7->since;
 *     note();
 * end:
 */
static void begin_unseen_work(void)
{
    struct label end = {0};
    take_task(NEXT);
    read_field(KEY, 4, inputs.fields.pid);
    look_up(inputs.threads, KEY);
    jump_if(&end, BPF_JEQ, R0, 0);
    copy(R7, R0);
    begin_work(&end, WORKS);
    store(BPF_DW, FRAME, BEFORE, R2);
    set(R8, 0);
    load(BPF_DW, R9, R7, SINCE);
    note();
    land(&end);
}

/*
 * sched_switch: the thread of this user, or the known one of another, that had the processor waits, or is only preempted.
 *
 *     begin_unseen_work();
 *     TASK = prev;
 *     KEY = pid;
 *     R8 = preempt ? 0 : state & DOES_NOT_WORK;
 *     if (the present task is the instance's) {
 *         if (the present process == coordinator)
 *             return;
 *         R7 = find_or_add() or return;
 *     } else {
 *         R7 = &threads[KEY] or return;
 *     }
 *     if (R8 == 0 || (R8 has only bits of IS_STOPPED && comm is a daemon's)) {
 *         begin_work(WORKS);
 *         return;
 *     }
 *     SINCE_WHEN = R7->since;
 *     if (R7->since == 0)                // else woken up by a timer
 *         R7->since = now;
 *     R9 = exchange(R7->state, WAITS);
 *     if (R9 == IS_WOKEN) {              // nobody else writes it before the wake-up goes on
 *         R7->state = IS_WOKEN;
 *         R7->since = 0;
 *         return;
 *     }
 *     if (R8 & IS_DEAD)
 *         delete threads[KEY];
 *     if (R9 != WAITS) {
 *         if (working-- == 1 && exchange(is_awaited, 0))
 *             output(ring, 0);
 *         return;
 *     }
 *     BEFORE = UNSEEN;                   // its wake-up was not seen, or it was not known
 *     R8 = 0;
 *     R9 = SINCE_WHEN;
 *     note();
 */
void write_switch(void)
{
    struct label end = {0}, own = {0}, known = {0}, works = {0}, does_not_work = {0}, has_since = {0}, not_woken = {0};
    struct label dead = {0}, alive = {0}, waited_before = {0}, preempted = {0};
    begin_program();
    copy(R6, R1);
    begin_unseen_work();
    take_task(PREVIOUS);
    read_field(KEY, 4, inputs.fields.pid);
    set(R8, 0);
    load(BPF_DW, R1, R6, IS_PREEMPTED * 8);
    jump_if(&preempted, BPF_JNE, R1, 0);
    read_field(VALUE, 4, inputs.fields.state);
    load(BPF_W, R8, FRAME, VALUE);
    compute(BPF_AND, R8, DOES_NOT_WORK);
    land(&preempted);
    jump_if_own(&own);
    look_up(inputs.threads, KEY);
    jump_if(&end, BPF_JEQ, R0, 0);
    copy(R7, R0);
    jump(&known);
    land(&own);
    call(BPF_FUNC_get_current_pid_tgid);
    compute(BPF_RSH, R0, 32);
    jump_if(&end, BPF_JEQ, R0, inputs.coordinator);
    find_or_add(&end);
    land(&known);
    jump_if(&works, BPF_JEQ, R8, 0);
    jump_if(&does_not_work, BPF_JSET, R8, IS_DEAD);
    jump_if(&does_not_work, BPF_JSET, R8, DOES_NOT_WORK & ~IS_STOPPED);
    read_name();
    jump_if_named(&works, SLURM_DAEMONS);
    load(BPF_W, R1, FRAME, NAME);
    jump_if_named(&works, OPENPBS_DAEMONS);
    land(&does_not_work);
    load(BPF_DW, R1, R7, SINCE);
    store(BPF_DW, FRAME, SINCE_WHEN, R1);
    jump_if(&has_since, BPF_JNE, R1, 0);
    call(BPF_FUNC_ktime_get_ns);
    store(BPF_DW, R7, SINCE, R0);
    land(&has_since);
    set(R1, WAITS);
    atomic(R7, 0, R1, BPF_XCHG);
    copy(R9, R1);
    jump_if(&not_woken, BPF_JNE, R9, IS_WOKEN);
    set(R1, IS_WOKEN);
    store(BPF_DW, R7, 0, R1);
    set(R1, 0);
    store(BPF_DW, R7, SINCE, R1);
    jump(&end);
    land(&not_woken);
    jump_if(&dead, BPF_JSET, R8, IS_DEAD);
    jump(&alive);
    land(&dead);
    name_in(inputs.threads, KEY);
    call(BPF_FUNC_map_delete_elem);
    land(&alive);
    jump_if(&waited_before, BPF_JEQ, R9, 0);
    load_element(R8, inputs.counters);
    set(R2, -1);
    atomic(R8, COUNTER(working), R2, BPF_ADD | BPF_FETCH);
    jump_if(&end, BPF_JNE, R2, 1);
    set(R2, 0);
    atomic(R8, COUNTER(is_awaited), R2, BPF_XCHG);
    jump_if(&end, BPF_JEQ, R2, 0);
    set(R1, 0);
    store(BPF_DW, FRAME, VALUE, R1);
    load_map(R1, inputs.ring);
    copy(R2, FRAME);
    compute(BPF_ADD, R2, VALUE);
    set(R3, 8);
    set(R4, BPF_RB_FORCE_WAKEUP);
    call(BPF_FUNC_ringbuf_output);
    jump(&end);
    land(&waited_before);
    set(R1, UNSEEN);
    store(BPF_DW, FRAME, BEFORE, R1);
    set(R8, 0);
    load(BPF_DW, R9, FRAME, SINCE_WHEN);
    note();
    jump(&end);
    land(&works);
    begin_work(&end, WORKS);
    land(&end);
    leave();
}
