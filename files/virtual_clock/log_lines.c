/*
 * Which lines slurmctld writes to its log: Slurm logs far more for a job than the records of a run are made from.
 *
 * slurmctld and its plug-ins call log_var(LEVEL, FORMAT, ...) of libslurmfull for each line (src/common/log.h). The functions of
 * the same names here look at the level and the format only, and go on to the library's, or return: a line that is left out costs
 * neither its text nor a system call. What slurmctld decides does not depend on it.
 *
 * SLURM_MIRAGE_LOG_LINES has a line KIND:WORDS for each format that is needed, whose words are looked for in the format:
 *
 *   n  needed; d: not needed, whatever its level
 *   s  the submission of a job: allows LINES_A_JOB further lines of the kinds t, k and h
 *   h  said of a job again and again while it waits
 *   c  a backfill cycle begins; e: it has tested all jobs; p: another line about a cycle
 *   k  a cycle leaves out a job
 *   t  a cycle tests a job: where not as many are allowed, written only after a cycle that did not test all
 *   a  a cycle plans the start of a job ("to start at %s, end at %s"): written in the first cycle after a submission, and in the
 *      first one of each hour of the cluster's clock. A submitted job allows PLANS_A_JOB of them
 *   w  a cycle leaves out a job that would start after bf_window, after it has planned its start
 *   r  a job is requeued: needed, as is any line of its level
 *
 * What the cycles say also tells whether one more could decide anything else (idle_cycles.h).
 *
 * Of a cycle that would have more lines than are allowed, as far as the one before tells, nothing is written.
 * Other lines of the level verbose and below it are left out. Without the variable all lines are written.
 */
#define _GNU_SOURCE
#include "log_lines.h"
#include "idle_cycles.h"
#include "virtual_clock.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINES "SLURM_MIRAGE_LOG_LINES"

enum { VERBOSE = 4, LINES_A_JOB = 150, PLANS_A_JOB = 30, FORMATS = 1024 };
enum kind {
    UNKNOWN,
    OF_NO_USE,
    NEEDED = 'n',
    DROPPED = 'd',
    SUBMISSION = 's',
    REPEATED = 'h',
    CYCLE = 'c',
    END = 'e',
    PART = 'p',
    SKIP = 'k',
    TEST = 't',
    PLAN = 'a',
    STATE = 'o',
    WINDOW = 'w',
    REQUEUE = 'r',
};

#define PLANNED_START "to start at "
#define PLANNED_END "end at "
#define STATE_OF_NODE "state is "

static const char *needed; /* the variable; null: all lines are */
static _Atomic int64_t allowed;
/* The backfill cycle, of one thread: whether it is written, and its tests; lines that it had of its jobs; whether it tested all. */
static atomic_bool is_written, has_tests, tests_all = true;
static _Atomic int64_t tests, skips;
/*
 * Planned starts: how many lines are allowed, how many the cycle has, the hour of the last cycle whose plans are written; whether
 * those of this cycle are, and whether a job was submitted since.
 */
static _Atomic int64_t plans_allowed, plans, planned_hour = -1;
static atomic_bool plans_are_written, has_submission;
/* Kinds of formats, which are constants of the programs, by their addresses. */
static struct {
    _Atomic uintptr_t format;
    _Atomic int kind;
} known[FORMATS];

void set_up_log_lines(bool is_controller)
{
    needed = is_controller ? getenv(LINES) : NULL;
}

static enum kind look_up(const char *format)
{
    for (const char *line = needed; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        if (length > 2 && line[1] == ':' && memmem(format, strlen(format), line + 2, length - 2))
            return (enum kind)line[0];
    }
    return OF_NO_USE;
}

static enum kind kind_of(const char *format)
{
    unsigned int entry = (unsigned int)((uintptr_t)format >> 3) % FORMATS;
    if (known[entry].format == (uintptr_t)format && known[entry].kind != UNKNOWN)
        return (enum kind)known[entry].kind;
    enum kind kind = look_up(format);
    uintptr_t none = 0;
    if (atomic_compare_exchange_strong(&known[entry].format, &none, (uintptr_t)format))
        known[entry].kind = (int)kind;
    return kind;
}

static bool is_allowed(void)
{
    return allowed > 0 && atomic_fetch_sub(&allowed, 1) > 0;
}

static void begin_plans(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); /* of this library: the cluster's clock */
    int64_t hour = now.tv_sec / 3600;
    plans_are_written = (has_submission || hour != planned_hour) && plans < plans_allowed;
    if (plans_are_written) {
        planned_hour = hour;
        has_submission = false;
    }
    plans = 0;
}

static bool plan_is_written(void)
{
    plans++;
    if (plans_are_written)
        plans_allowed--;
    return plans_are_written;
}

static void begin_cycle(void)
{
    begin_plans();
    bool is_plenty = skips + tests <= allowed;
    int64_t wanted = skips + (tests_all && !is_plenty ? 0 : tests);
    has_tests = !tests_all || is_plenty;
    is_written = wanted <= allowed;
    if (is_written)
        allowed -= wanted;
    tests_all = false;
    tests = skips = 0;
}

/*
 * An argument after the format, from the registers that the functions below have kept and the stack behind them; null where it is
 * none of those.
 */
static const char *argument(const uintptr_t *kept, unsigned int number)
{
#if defined(__x86_64__)
    enum { IN_REGISTERS = 4, STACK = 8, LAST = 5 }; /* rax, r9, r8, rcx, rdx, rsi, rdi, the return address, the stack */
    uintptr_t value = number > LAST ? 0 : number < IN_REGISTERS ? kept[IN_REGISTERS - number] : kept[STACK + number - IN_REGISTERS];
#else
    enum { FIRST = 2, LAST = 5 }; /* x0, x1, ... */
    uintptr_t value = number > LAST ? 0 : kept[FIRST + number];
#endif
    return (const char *)value;
}

/* The argument for the conversion at these words of the format; null if it is not known. */
static const char *text_at(const char *words, const char *format, const uintptr_t *kept)
{
    const char *place = strstr(format, words);
    unsigned int number = 0;
    for (const char *at = format; place && at < place; at++)
        number += *at == '%';
    return place ? argument(kept, number) : NULL;
}

/* Called by the functions below. Returns 0 for a line that is left out. */
__attribute__((used, visibility("hidden"))) int log_line_is_needed(int level, const char *format, const uintptr_t *kept)
{
    if (!needed || !format)
        return 1;
    switch (kind_of(format)) {
    case NEEDED:
        state_changed();
        return 1;
    case DROPPED:
        return 0;
    case SUBMISSION:
        state_changed();
        allowed += LINES_A_JOB;
        plans_allowed += PLANS_A_JOB;
        has_submission = true;
        return 1;
    case REPEATED:
        return is_allowed();
    case CYCLE:
        begin_plan();
        begin_cycle();
        return is_written;
    case END:
        tests_all = true;
        return is_written;
    case PART:
        return is_written;
    case PLAN:
        plan_job(text_at(PLANNED_START, format, kept), text_at(PLANNED_END, format, kept));
        return plan_is_written();
    case STATE:
        note_state(text_at(STATE_OF_NODE, format, kept));
        return 0;
    case WINDOW:
        leave_out_after_window();
        skips++;
        return is_written;
    case SKIP:
        leave_job_out();
        skips++;
        return is_written;
    case REQUEUE:
        job_has_to_wait();
        return level < VERBOSE;
    case TEST:
        test_job();
        tests++;
        return is_written && has_tests;
    default:
        return level < VERBOSE;
    }
}

/*
 * The arguments after the format are not known here: the registers that may hold some are kept, and the library's function gets
 * them and the stack as they came.
 */
#if defined(__x86_64__) || defined(__aarch64__)
__attribute__((used, visibility("hidden"))) void *next_log_var, *next_slurm_log_var;

static void ignore(void)
{
}

static void *next_of(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    return found ? found : (void *)(uintptr_t)ignore;
}

__attribute__((constructor)) static void find_next(void)
{
    next_log_var = next_of("log_var");
    next_slurm_log_var = next_of("slurm_log_var");
}
#endif

#if defined(__x86_64__)
#define PASS_ON(name)                                                                                           \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                                 \
            "endbr64\n"                                                                                         \
            "pushq %rdi\npushq %rsi\npushq %rdx\npushq %rcx\npushq %r8\npushq %r9\npushq %rax\n"                \
            "subq $128, %rsp\n"                                                                                 \
            "movups %xmm0, (%rsp)\nmovups %xmm1, 16(%rsp)\nmovups %xmm2, 32(%rsp)\nmovups %xmm3, 48(%rsp)\n"    \
            "movups %xmm4, 64(%rsp)\nmovups %xmm5, 80(%rsp)\nmovups %xmm6, 96(%rsp)\nmovups %xmm7, 112(%rsp)\n" \
            "leaq 128(%rsp), %rdx\n"                                                                            \
            "call log_line_is_needed\n"                                                                         \
            "movl %eax, %r11d\n"                                                                                \
            "movups (%rsp), %xmm0\nmovups 16(%rsp), %xmm1\nmovups 32(%rsp), %xmm2\nmovups 48(%rsp), %xmm3\n"    \
            "movups 64(%rsp), %xmm4\nmovups 80(%rsp), %xmm5\nmovups 96(%rsp), %xmm6\nmovups 112(%rsp), %xmm7\n" \
            "addq $128, %rsp\n"                                                                                 \
            "popq %rax\npopq %r9\npopq %r8\npopq %rcx\npopq %rdx\npopq %rsi\npopq %rdi\n"                       \
            "testl %r11d, %r11d\n"                                                                              \
            "je 1f\n"                                                                                           \
            "jmp *next_" #name "(%rip)\n"                                                                       \
            "1: ret\n"                                                                                          \
            ".size " #name ", . - " #name "\n")
#elif defined(__aarch64__)
#define PASS_ON(name)                                                                                         \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n"                               \
            "stp x29, x30, [sp, #-208]!\n"                                                                    \
            "stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\nstp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n"    \
            "stp q0, q1, [sp, #80]\nstp q2, q3, [sp, #112]\nstp q4, q5, [sp, #144]\nstp q6, q7, [sp, #176]\n" \
            "add x2, sp, #16\n"                                                                               \
            "bl log_line_is_needed\n"                                                                         \
            "mov w16, w0\n"                                                                                   \
            "ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\nldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n"    \
            "ldp q0, q1, [sp, #80]\nldp q2, q3, [sp, #112]\nldp q4, q5, [sp, #144]\nldp q6, q7, [sp, #176]\n" \
            "ldp x29, x30, [sp], #208\n"                                                                      \
            "cbz w16, 1f\n"                                                                                   \
            "adrp x17, next_" #name "\nldr x17, [x17, :lo12:next_" #name "]\nbr x17\n"                        \
            "1: ret\n"                                                                                        \
            ".size " #name ", . - " #name "\n")
#endif

#ifdef PASS_ON
PASS_ON(log_var);
PASS_ON(slurm_log_var);
#endif
