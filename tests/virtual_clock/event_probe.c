/*
 * What the tests run under the event-driven clock, besides probe.c. It prints a line for each result, NAME KEY=NUMBER... .
 *
 *   event_probe crowd THREADS ROUNDS      threads that sleep again and again: how much too early or late (see `crowd`)
 *   event_probe readers PROCESSES STOP    processes that read the clock and sleep until the file STOP exists: did time go back
 *   event_probe watch STOP                a process that reads the clock all the time until the file STOP exists: did time go back
 *   event_probe relay ROUNDS              two threads that wake each other up: timed waits that nobody ended
 *   event_probe market ROUNDS             several timed and untimed waiters for one condition variable
 *   event_probe cancel ROUNDS             threads cancelled in nanosleep and pthread_cond_timedwait
 *   event_probe ticks KIND TIMES NS       a periodic timer: setitimer, timer or thread (SIGEV_THREAD)
 *   event_probe timers TIMES              create, set, and delete timers
 *   event_probe spin NS                   read the clock until so much time has passed
 *   event_probe burn NS                   use so much processor time
 *   event_probe workers THREADS NS        threads that use so much processor time each, at the same time
 *   event_probe naps TIMES                usleep(100000) so often, by the main thread and by another one
 *   event_probe polls TIMES FILES MS      poll standard input, and pipes beside it: FILES in all, for so long, so often
 *   event_probe real NAME NS              a thread of this name waits in real time
 *   event_probe kernel_timer NS           wait for a timer that the library does not know
 *   event_probe under_way NS TIMES        the same so often, as for messages: the time that passed in jumps of the clock meanwhile
 *   event_probe forge PAGE NS             write waits that have ended into slots of the page, again and again, with pauses of NS
 *   event_probe fill PAGE                 take all slots of the page that are free
 *   event_probe errno                     what successful waits leave in errno
 *   event_probe save                      what fsync answers for a pipe, which has no disk, and for no file
 */
#define _GNU_SOURCE
#include "../../files/virtual_clock/page.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static long long ns(struct timespec time)
{
    return time.tv_sec * SECOND + time.tv_nsec;
}

static struct timespec spec(long long time)
{
    return (struct timespec){.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return ns(time);
}

static long long real_now(void)
{
    struct timespec time;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return ns(time);
}

static void nap(long long length)
{
    struct timespec time = spec(length);
    nanosleep(&time, NULL);
}

static long long at_random(uint64_t *state, long long most)
{
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (long long)((*state >> 33) % (uint64_t)most);
}

static void raise_to(_Atomic long long *most, long long value)
{
    long long before = *most;
    while (value > before && !atomic_compare_exchange_weak(most, &before, value))
        ;
}

/* ---- sleeping ---- */

static _Atomic long long latest, earliest_by;
static long long rounds;
static pthread_barrier_t barrier;

/*
 * Time passes by jumps to the earliest deadline only, so a sleep ends at its deadline. `beyond` is by what one was too long,
 * `early` by what one was too short.
 */
static void *sleep_in_crowd(void *number)
{
    uint64_t random = (uintptr_t)number;
    for (long long round = 0; round < rounds; round++) {
        if (round % 20 == 0)
            pthread_barrier_wait(&barrier);
        long long wanted = round % 20 == 0 ? SECOND : 1 + at_random(&random, round % 2 ? SECOND : 10000);
        long long before = now();
        nap(wanted);
        long long late = now() - before - wanted;
        raise_to(&latest, late);
        raise_to(&earliest_by, -late);
    }
    return NULL;
}

static void crowd(int threads, long long times)
{
    pthread_t all[512];
    rounds = times;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&all[i], NULL, sleep_in_crowd, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < threads; i++)
        pthread_join(all[i], NULL);
    printf("crowd beyond=%lld early=%lld\n", latest, earliest_by);
}

/* ---- reading the clock ---- */

/* Reads the clock; returns by how much it is behind what any process has read before. */
static long long step_back(_Atomic long long *last)
{
    long long before = *last;
    long long read = now();
    raise_to(last, read);
    return before - read;
}

static void readers(int processes, const char *stop)
{
    struct {
        _Atomic long long last, back, read;
    } *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            uint64_t random = (uint64_t)i;
            while (access(stop, F_OK) != 0) {
                for (int j = 0; j < 200; j++)
                    raise_to(&shared->back, step_back(&shared->last));
                shared->read += 200;
                nap(1 + at_random(&random, SECOND));
            }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    printf("readers back=%lld read=%lld\n", shared->back, shared->read);
}

static void watch(const char *stop)
{
    _Atomic long long last = 0;
    _Atomic long long back = 0;
    long long read = 0;
    puts("watching");
    fflush(stdout);
    while (access(stop, F_OK) != 0)
        for (int i = 0; i < 10000; i++, read++)
            raise_to(&back, step_back(&last));
    printf("watch back=%lld read=%lld\n", back, read);
}

/* ---- condition variables ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int turn;
static _Atomic long long timeouts;

static int wait_long(void)
{
    struct timespec deadline = spec(now() + 100000 * SECOND);
    int result = pthread_cond_timedwait(&condition, &mutex, &deadline);
    timeouts += result == ETIMEDOUT;
    return result;
}

static void *run_relay(void *given)
{
    int mine = given != NULL;
    for (long long round = 0; round < rounds; round++) {
        pthread_mutex_lock(&mutex);
        while (turn != mine)
            wait_long();
        turn = !mine;
        if (round % 2)
            pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
        if (round % 2 == 0)
            pthread_cond_broadcast(&condition);
    }
    return NULL;
}

static void relay(long long times)
{
    pthread_t other;
    long long before = now();
    rounds = times;
    pthread_create(&other, NULL, run_relay, &turn);
    run_relay(NULL);
    pthread_join(other, NULL);
    printf("relay timeouts=%lld virtual=%lld\n", timeouts, now() - before);
}

static long long goods, sold;
static bool is_closed;

static void *buy(void *is_timed)
{
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (goods == 0 && !is_closed)
            if (is_timed)
                wait_long();
            else
                pthread_cond_wait(&condition, &mutex);
        if (goods == 0)
            break;
        goods--;
        sold++;
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void market(long long times)
{
    pthread_t buyers[8];
    uint64_t random = 1;
    for (int i = 0; i < 8; i++)
        pthread_create(&buyers[i], NULL, buy, i % 2 ? &random : NULL);
    for (long long i = 0; i < times; i++) {
        pthread_mutex_lock(&mutex);
        goods++;
        if (i % 2)
            pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
        if (i % 2 == 0)
            pthread_cond_signal(&condition);
        if (at_random(&random, 3) == 0)
            nap(at_random(&random, SECOND));
    }
    pthread_mutex_lock(&mutex);
    is_closed = true;
    pthread_mutex_unlock(&mutex);
    pthread_cond_broadcast(&condition);
    for (int i = 0; i < 8; i++)
        pthread_join(buyers[i], NULL);
    printf("market timeouts=%lld sold=%lld\n", timeouts, sold);
}

/* ---- cancellation ---- */

static _Atomic long long wrong;

static void *sleep_long(void *unused)
{
    nap(100000 * SECOND);
    return unused;
}

static void check_mutex(void *unused)
{
    (void)unused;
    wrong += pthread_mutex_trylock(&mutex) != EBUSY;
    pthread_mutex_unlock(&mutex);
}

static void *wait_cancelled(void *unused)
{
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(check_mutex, NULL);
    for (;;)
        wait_long();
    pthread_cleanup_pop(1);
    return unused;
}

static void cancel(long long times)
{
    for (long long round = 0; round < times; round++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, round % 2 ? wait_cancelled : sleep_long, NULL);
        if (round % 3) /* now and then while it begins to wait */
            nap(1000000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        wrong += result != PTHREAD_CANCELED;
        wrong += pthread_mutex_trylock(&mutex) != 0;
        pthread_mutex_unlock(&mutex);
    }
    printf("cancel wrong=%lld timeouts=%lld\n", wrong, timeouts);
}

/* ---- timers ---- */

static _Atomic long long notified_at;
static sem_t notified;

static void notify(union sigval unused)
{
    (void)unused;
    notified_at = now();
    sem_post(&notified);
}

static void begin_timer(const char *kind, long long interval)
{
    struct timespec t = spec(interval);
    if (strcmp(kind, "setitimer") == 0) {
        struct timeval v = {t.tv_sec, t.tv_nsec / 1000};
        setitimer(ITIMER_REAL, &(struct itimerval){v, v}, NULL);
        return;
    }
    struct sigevent by_thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify};
    timer_t timer;
    if (timer_create(CLOCK_REALTIME, strcmp(kind, "thread") == 0 ? &by_thread : NULL, &timer) ||
        timer_settime(timer, 0, &(struct itimerspec){t, t}, NULL))
        abort();
}

static void ticks(const char *kind, int times, long long interval)
{
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    sem_init(&notified, 0, 0);
    long long real = real_now();
    long long begin = now();
    begin_timer(kind, interval);
    for (int tick = 1; tick <= times; tick++) {
        if (strcmp(kind, "thread") == 0)
            sem_wait(&notified);
        else
            sigwaitinfo(&alarms, NULL);
        long long late = (strcmp(kind, "thread") == 0 ? notified_at : now()) - begin - tick * interval;
        printf("tick late=%lld real=%lld\n", late, real_now() - real);
    }
}

static void make_timers(long long times)
{
    long long refused = 0;
    signal(SIGALRM, SIG_IGN);
    for (long long i = 0; i < times; i++) {
        timer_t timer;
        struct itimerspec setting = {.it_value = spec(i % 2 ? 1000000 : 100000 * SECOND)};
        if (timer_create(CLOCK_REALTIME, NULL, &timer))
            abort();
        refused += timer_settime(timer, 0, &setting, NULL) != 0;
        nap(i % 4 == 1 ? 2000000 : 1);
        timer_delete(timer);
    }
    printf("timers refused=%lld\n", refused);
}

/* ---- others ---- */

static void spin(long long length)
{
    long long real = real_now();
    long long begin = now();
    while (now() - begin < length)
        ;
    long long virtual = now() - begin;
    printf("spin virtual=%lld real=%lld\n", virtual, real_now() - real);
}

static void burn(long long length)
{
    struct timespec used_before;
    struct timespec used;
    nap(SECOND / 1000); /* the coordinator looks, before and after */
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used_before);
    long long real = real_now();
    long long begin = now();
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (ns(used) < ns(used_before) + length);
    long long virtual = now() - begin;
    real = real_now() - real;
    nap(SECOND / 1000);
    printf("burn virtual=%lld real=%lld burnt=%lld used=%lld charged=%lld\n", virtual, real, ns(used) - ns(used_before), ns(used),
           now() - begin);
}

static void *work(void *given)
{
    struct timespec used;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (ns(used) < *(long long *)given);
    return NULL;
}

enum { MOST_WORKERS = 16 };

static void workers(int count, long long length)
{
    pthread_t threads[MOST_WORKERS];
    for (int i = 0; i < count && i < MOST_WORKERS; i++)
        pthread_create(&threads[i], NULL, work, &length);
    for (int i = 0; i < count && i < MOST_WORKERS; i++)
        pthread_join(threads[i], NULL);
}

static void *take_naps(void *given)
{
    int times = *(int *)given;
    long long begin = now();
    for (int i = 0; i < times; i++)
        usleep(100000);
    printf("naps virtual=%lld main=%d\n", now() - begin, getpid() == gettid());
    return NULL;
}

static void naps(int times)
{
    pthread_t other;
    take_naps(&times);
    fflush(stdout);
    pthread_create(&other, NULL, take_naps, &times);
    pthread_join(other, NULL);
}

static void in_real_time(const char *name, long long length)
{
    void (*set_real)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "mirage_real_time");
    prctl(PR_SET_NAME, name);
    long long begin = now();
    set_real(1);
    long long real = now();
    nap(length);
    real = now() - real;
    set_real(0);
    printf("real slept=%lld virtual=%lld\n", real, now() - begin);
}

static void kernel_timer(long long length)
{
    sigset_t alarms;
    struct itimerval setting = {.it_value = {length / SECOND, length % SECOND / 1000}};
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    syscall(SYS_setitimer, ITIMER_REAL, &setting, NULL);
    sigwaitinfo(&alarms, NULL);
}

static void under_way(long long length, long long times)
{
    long long virtual = 0;
    uint64_t ends;
    for (long long i = 0; i < times; i++) {
        int timer = timerfd_create(CLOCK_MONOTONIC, 0);
        struct itimerspec setting = {.it_value = spec(length)};
        timerfd_settime(timer, 0, &setting, NULL);
        long long begin = now();
        if (read(timer, &ends, sizeof ends) != sizeof ends)
            abort();
        virtual += now() - begin;
        close(timer);
        nap(SECOND);
    }
    printf("under_way jumped=%lld\n", virtual);
}

static struct page *open_page(const char *path)
{
    int file = open(path, O_RDWR);
    struct page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED)
        abort();
    return page;
}

static void forge(struct page *page, long long pause)
{
    struct timespec real = spec(pause);
    for (uint64_t token = UINT64_C(1) << 40;; token += SLOTS_OF_A_BLOCK) {
        int block = BLOCKS - 1;
        for (int i = 0; i < SLOTS_OF_A_BLOCK; i++) {
            struct slot *slot = &page->slots[block * SLOTS_OF_A_BLOCK + i];
            slot->token = token + (uint64_t)i;
            slot->kind = WAITS_ON_FUTEX;
            slot->deadline = 1;
        }
        page->versions[block]++;
        syscall(SYS_nanosleep, &real, NULL);
    }
}

static void fill(struct page *page)
{
    for (int i = 0; i < SLOTS; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&page->slots[i].token, &none, (UINT64_C(1) << 40) + (uint64_t)i)) {
            page->slots[i].kind = WAITS_ON_FUTEX;
            page->slots[i].deadline = INT64_MAX;
        }
    }
    puts("filled");
    fflush(stdout);
    pause();
}

static void *signal_soon(void *unused)
{
    nap(1000000);
    pthread_cond_signal(&condition);
    return unused;
}

static void keep_errno(void)
{
    pthread_t other;
    struct timespec deadline = spec(now() + SECOND);
    errno = 4711;
    nap(SECOND);
    printf("nanosleep errno=%d\n", errno);
    pthread_mutex_lock(&mutex);
    deadline = spec(now() + SECOND);
    pthread_cond_timedwait(&condition, &mutex, &deadline);
    printf("timeout errno=%d\n", errno);
    pthread_create(&other, NULL, signal_soon, NULL);
    deadline = spec(now() + SECOND);
    pthread_cond_timedwait(&condition, &mutex, &deadline);
    printf("signalled errno=%d\n", errno);
    pthread_mutex_unlock(&mutex);
    pthread_join(other, NULL);
    poll(NULL, 0, 1000);
    printf("poll errno=%d\n", errno);
}

enum { MOST_FILES = 8 };

/* Prints how many files were ready in the last poll, and the virtual time of all. */
static void polls(long long times, long long files, int limit)
{
    struct pollfd polled[MOST_FILES] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    int ready = 0;
    for (long long file = 1; file < files && file < MOST_FILES; file++) {
        int ends[2];
        if (pipe(ends) != 0)
            _exit(1);
        polled[file] = (struct pollfd){.fd = ends[0], .events = POLLIN};
    }
    long long before = now();
    while (times-- > 0)
        ready = poll(polled, (nfds_t)files, limit);
    printf("polls ready=%d virtual=%lld\n", ready, now() - before);
}

static void save(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        _exit(1);
    errno = 0;
    int result = fsync(ends[0]);
    printf("pipe result=%d errno=%d\n", result, errno);
    errno = 0;
    result = fsync(-1);
    printf("none result=%d errno=%d\n", result, errno);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *name = argc > 2 ? argv[2] : "";
    long long first = argc > 2 ? atoll(argv[2]) : 0;
    long long value = argc > 2 ? atoll(argv[argc - 1]) : 0;
    if (strcmp(what, "crowd") == 0)
        crowd((int)first, value);
    else if (strcmp(what, "readers") == 0)
        readers((int)first, argv[3]);
    else if (strcmp(what, "watch") == 0)
        watch(name);
    else if (strcmp(what, "relay") == 0)
        relay(value);
    else if (strcmp(what, "market") == 0)
        market(value);
    else if (strcmp(what, "cancel") == 0)
        cancel(value);
    else if (strcmp(what, "ticks") == 0)
        ticks(name, atoi(argv[3]), value);
    else if (strcmp(what, "timers") == 0)
        make_timers(value);
    else if (strcmp(what, "spin") == 0)
        spin(value);
    else if (strcmp(what, "burn") == 0)
        burn(value);
    else if (strcmp(what, "workers") == 0)
        workers((int)first, value);
    else if (strcmp(what, "naps") == 0)
        naps((int)value);
    else if (strcmp(what, "polls") == 0)
        polls(first, atoll(argv[3]), (int)value);
    else if (strcmp(what, "real") == 0)
        in_real_time(name, value);
    else if (strcmp(what, "kernel_timer") == 0)
        kernel_timer(value);
    else if (strcmp(what, "under_way") == 0)
        under_way(first, value);
    else if (strcmp(what, "forge") == 0)
        forge(open_page(name), value);
    else if (strcmp(what, "fill") == 0)
        fill(open_page(name));
    else if (strcmp(what, "errno") == 0)
        keep_errno();
    else if (strcmp(what, "save") == 0)
        save();
    else
        return 2;
    return 0;
}
