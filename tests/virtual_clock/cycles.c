/*
 * A program with the threads and variables of slurmctld by which idle_cycles.c knows that a backfill cycle can decide nothing new,
 * for test_idle_cycles.py: the library with -DLIBRARY, else the program, which must be called slurmctld.
 *
 * slurmctld END TESTS PLANS LEFT_OUT START [SECOND ACTION]...
 *
 * Each cycle tests so many jobs, plans the start of so many of them for START (seconds, with + after bf_window; or a word), and
 * leaves out so many. At each SECOND an action. All seconds are from the start of the program on. It prints the second of each
 * cycle, and those at which a thread that looks for work each second wakes up: the action `watch` has the main thread do so, from
 * the program's start to its end, instead of another one; a third thread then wakes up each 30 s, too, from waits of 29.75 s.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void log_var(int level, const char *format, ...);
int slurm_list_count(const void *list);

#ifdef LIBRARY
void log_var(int level, const char *format, ...)
{
    (void)level, (void)format;
}

int slurm_list_count(const void *list)
{
    return *(const int *)list;
}
#else
enum { INTERVAL = 30, AFTER_WINDOW = '+' };

time_t last_job_update, last_node_update, last_part_update, last_resv_update;
static int number_of_reservations;
static bool are_allocated, are_marked; /* the nodes with planned jobs */
static bool is_updated;                /* each cycle sets last_job_update */
void *resv_list;

static time_t began;
static long end;
static pthread_t main_thread;
static int tests, plans, left_out;
static const char *start;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER, pass = PTHREAD_COND_INITIALIZER;
static int passes;
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;

static const char *text_of_start(void)
{
    static char text[32];
    char *end;
    time_t instant = began + strtol(start, &end, 10);
    if (*end && *end != AFTER_WINDOW)
        return start;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime(&instant));
    return text;
}

static void run_cycle(void)
{
    printf("%ld\n", (long)(time(NULL) - began));
    log_var(3, "beginning");
    for (int i = 0; i < tests; i++)
        log_var(4, "%s: %s: test for %p", "backfill", "cycle", (void *)&tests);
    for (int i = 0; i < plans; i++)
        log_var(4, "%s: %s: %p to start at %s, end at %s", "backfill", "cycle", (void *)&tests, text_of_start(), text_of_start());
    if (strchr(start, AFTER_WINDOW))
        log_var(4, "%s: %p StartTime set to time after current backfill window.", "backfill", (void *)&tests);
    for (int i = 0; i < left_out; i++)
        log_var(4, "%s: have already checked %u jobs", "backfill", 3);
    if (tests > 0 && are_marked)
        last_node_update = time(NULL);
    are_marked = tests > 0 && !are_allocated;
    log_var(4, "%s: %s: %s: %s state is %s", "backfill", "cycle", "set", "n1", are_marked ? "IDLE+PLANNED" : "ALLOCATED");
    if (are_marked)
        last_node_update = time(NULL);
    if (is_updated)
        last_job_update = time(NULL);
}

static void *backfill(void *unused)
{
    prctl(PR_SET_NAME, "bckfl");
    for (;;) {
        struct timespec deadline;
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec += INTERVAL;
        pthread_mutex_lock(&mutex);
        pthread_cond_timedwait(&never, &mutex, &deadline);
        pthread_mutex_unlock(&mutex);
        run_cycle();
    }
    return unused;
}

static bool is_over(void)
{
    return pthread_equal(pthread_self(), main_thread) && time(NULL) - began >= end;
}

static void *look_for_work(void *unused)
{
    while (!is_over()) {
        struct timespec deadline;
        clock_gettime(CLOCK_REALTIME, &deadline);
        deadline.tv_sec++;
        pthread_mutex_lock(&looking);
        pthread_cond_timedwait(&work, &looking, &deadline);
        pthread_mutex_unlock(&looking);
        printf("look %ld\n", (long)(time(NULL) - began));
    }
    return unused;
}

static void *main_scheduler(void *unused)
{
    prctl(PR_SET_NAME, "sched_agent");
    for (int done = 0;; done++) {
        pthread_mutex_lock(&mutex);
        while (done == passes)
            pthread_cond_wait(&pass, &mutex);
        pthread_mutex_unlock(&mutex);
        last_job_update = time(NULL);
    }
    return unused;
}

static void receive_message(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, (struct sockaddr *)&address, length) || listen(server, 1) ||
        getsockname(server, (struct sockaddr *)&address, &length) || connect(client, (struct sockaddr *)&address, length))
        exit(3);
    close(accept(server, NULL, NULL));
    close(client);
    close(server);
}

static void act(const char *action)
{
    time_t now = time(NULL);
    if (strcmp(action, "job") == 0) {
        last_job_update = now;
    } else if (strcmp(action, "node") == 0) {
        last_node_update = now;
    } else if (strcmp(action, "allocated") == 0) {
        are_allocated = true;
        last_node_update = now;
    } else if (strcmp(action, "updates") == 0) {
        is_updated = true;
    } else if (strcmp(action, "partition") == 0) {
        last_part_update = now;
    } else if (strcmp(action, "reservation") == 0) {
        last_resv_update = now;
    } else if (strcmp(action, "reserved") == 0) {
        number_of_reservations = 1;
    } else if (strcmp(action, "message") == 0) {
        receive_message();
    } else if (strcmp(action, "pass") == 0) {
        pthread_mutex_lock(&mutex);
        passes++;
        pthread_cond_signal(&pass);
        pthread_mutex_unlock(&mutex);
    } else {
        log_var(3, action); /* the format of a line */
    }
}

static void sleep_until(double second)
{
    long nanoseconds = (long)((second - (double)(long)second) * 1e9);
    struct timespec instant = {.tv_sec = began + (long)second, .tv_nsec = nanoseconds};
    if (nanoseconds < 0)
        instant = (struct timespec){.tv_sec = instant.tv_sec - 1, .tv_nsec = 1000000000 + nanoseconds};
    clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &instant, NULL);
}

static void *wait_long(void *unused)
{
    for (int second = 0;; second += INTERVAL) {
        sleep_until(second + 0.25);
        sleep_until(second + INTERVAL);
        printf("long %ld\n", (long)(time(NULL) - began));
    }
    return unused;
}

int main(int count, char **words)
{
    pthread_t thread;
    resv_list = &number_of_reservations;
    main_thread = pthread_self();
    end = atol(words[1]);
    began = time(NULL) + 1;
    sleep_until(-0.5); /* in parts, none of which may be prolonged */
    sleep_until(0);
    tests = atoi(words[2]), plans = atoi(words[3]), left_out = atoi(words[4]), start = words[5];
    pthread_create(&thread, NULL, backfill, NULL);
    pthread_create(&thread, NULL, main_scheduler, NULL);
    if (count > 7 && strcmp(words[7], "watch") == 0) {
        pthread_create(&thread, NULL, wait_long, NULL);
        look_for_work(NULL);
        count = 0;
    } else {
        pthread_create(&thread, NULL, look_for_work, NULL);
    }
    for (int i = 6; i + 1 < count; i += 2) {
        sleep_until(atof(words[i]));
        act(words[i + 1]);
    }
    sleep_until((double)end);
    fflush(stdout);
    _exit(0);
}
#endif
