/* See dmr.h. The protocol with the broker: lines of ASCII (mirage_extras/malleable/README.md). */
#define _GNU_SOURCE
#include "dmr.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST = 256, ANSWER = 1 << 17, PATIENCE = 600 /* seconds until a broker counts as lost */ };

static int present;         /* nodes; 0: not known yet */
static int connection = -1; /* kept: the broker takes back a shrink whose connection ends */
static double checked;
static char reason[512];
static char answer[ANSWER];

static void because(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void because(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vsnprintf(reason, sizeof reason, format, words);
    va_end(words);
}

/* Returns the text as a number, at least `least`, or -1. */
static int whole(const char *text, int least)
{
    if (!text || *text < '0' || *text > '9')
        return -1;
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return errno || *end || value < least || value > 1000000000 ? -1 : (int)value;
}

static double seconds_of(const char *name)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return 0;
    char *end;
    double value = strtod(text, &end);
    return *end || !(value >= 0 && value < 1e12) ? 0 : value;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int dmr_nodes(void)
{
    if (!present) {
        int given = whole(getenv("DMR_NODES"), 1);
        present = given > 0 ? given : whole(getenv("SLURM_JOB_NUM_NODES"), 1);
        if (present < 1)
            present = 1;
    }
    return present;
}

double dmr_checked(void)
{
    if (checked <= 0)
        checked = seconds_of("DMR_CHECKED");
    return checked;
}

const char *dmr_reason(void)
{
    return reason;
}

static void disconnect(void)
{
    close(connection);
    connection = -1;
}

static bool connected(void)
{
    const char *path = getenv("DMR_BROKER");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (connection >= 0)
        return true;
    if (!path || !*path) {
        because("there is no broker: DMR_BROKER is not set");
        return false;
    }
    if (strlen(path) >= sizeof address.sun_path) {
        because("DMR_BROKER: the path of a socket has at most %zu bytes", sizeof address.sun_path - 1);
        return false;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    struct timeval patience = {.tv_sec = PATIENCE};
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
        because("%s: %s", path, strerror(errno));
        if (connection >= 0)
            disconnect();
        return false;
    }
    return true;
}

static bool sent(const char *line)
{
    size_t left = strlen(line);
    while (left > 0) {
        ssize_t count = send(connection, line, left, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            because("the broker is lost: %s", strerror(errno));
            return false;
        }
        line += count;
        left -= (size_t)count;
    }
    return true;
}

/* Reads a line into `answer`, without its end. */
static bool received(void)
{
    size_t length = 0;
    while (length < sizeof answer - 1) {
        ssize_t count = recv(connection, answer + length, sizeof answer - 1 - length, 0);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            because("the broker is lost: %s", count == 0 ? "it closed the connection" : strerror(errno));
            return false;
        }
        length += (size_t)count;
        if (answer[length - 1] == '\n') {
            answer[length - 1] = '\0';
            return true;
        }
    }
    because("the broker's answer is too long");
    return false;
}

/*
 * Sends a request. If that fails on a connection of an earlier request, the broker was restarted, and the request has not arrived:
 * connects again and sends it once more.
 */
static bool delivered(const char *line)
{
    bool kept = connection >= 0;
    if (!connected())
        return false;
    if (sent(line))
        return true;
    disconnect();
    return kept && delivered(line);
}

static bool asked(const char *line)
{
    if (!delivered(line))
        return false;
    if (received())
        return true;
    disconnect();
    return false;
}

/* The number of names in a list with commas between them; -1 if one is empty. */
static int names(const char *list)
{
    int count = 1;
    if (!*list || *list == ',')
        return -1;
    for (const char *at = list; *at; at++)
        if (*at == ',') {
            if (at[1] == ',' || !at[1])
                return -1;
            count++;
        }
    return count;
}

/* Parses `answer`. `done` is the answer that says that the action is complete. */
static enum dmr_action understood(int *nodes, const char **list)
{
    static const struct {
        const char *word;
        enum dmr_action action;
        bool complete; /* the job has its new nodes */
    } actions[] = {{"expanded", DMR_EXPAND, true}, {"shrink", DMR_SHRINK, false}, {"shrunk", DMR_SHRINK, true}};
    char *rest = answer;
    const char *word = strsep(&rest, " ");
    if (!strcmp(word, "refused")) {
        because("refused: %.480s", rest ? rest : "");
        return DMR_NONE;
    }
    int to = whole(strsep(&rest, " "), 1);
    if (to > 0 && (!strcmp(word, "none") || !strcmp(word, "aborted"))) {
        present = to;
        *nodes = to;
        because("%.500s", rest ? rest : "");
        return DMR_NONE;
    }
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(word, actions[i].word) && to > 0 && rest && names(rest) == to) {
            if (actions[i].complete)
                present = to;
            *nodes = to;
            *list = rest;
            return actions[i].action;
        }
    because("the broker's answer cannot be understood");
    return DMR_NONE;
}

static enum dmr_action answered(const char *line, int *nodes, const char **list)
{
    reason[0] = '\0';
    *nodes = dmr_nodes();
    *list = "";
    return asked(line) ? understood(nodes, list) : DMR_NONE;
}

static const char *job(void)
{
    const char *id = getenv("SLURM_JOB_ID");
    return id && whole(id, 1) > 0 ? id : "0";
}

static enum dmr_action check(const char *mode, int minimum, int maximum, int factor, int preferred, int *nodes, const char **list)
{
    double inhibitor = seconds_of("DMR_INHIBITOR");
    double last = dmr_checked();
    double instant = now();
    if (inhibitor > 0 && last > 0 && instant >= last && instant < last + inhibitor) {
        reason[0] = '\0';
        *nodes = dmr_nodes();
        *list = "";
        return DMR_NONE;
    }
    checked = instant;
    char line[REQUEST];
    snprintf(line, sizeof line, "mirage 1 %s %s %d %d %d %d %d\n", mode, job(), dmr_nodes(), minimum, maximum, factor, preferred);
    return answered(line, nodes, list);
}

enum dmr_action dmr_check_status(int minimum, int maximum, int factor, int preferred, int *nodes, const char **list)
{
    return check("check", minimum, maximum, factor, preferred, nodes, list);
}

enum dmr_action dmr_icheck_status(int minimum, int maximum, int factor, int preferred, int *nodes, const char **list)
{
    return check("icheck", minimum, maximum, factor, preferred, nodes, list);
}

enum dmr_action dmr_ready(int to, int *nodes, const char **list)
{
    char line[REQUEST];
    snprintf(line, sizeof line, "mirage 1 ready %s %d\n", job(), to);
    return answered(line, nodes, list);
}

void dmr_resumed(double seconds)
{
    char line[REQUEST];
    snprintf(line, sizeof line, "mirage 1 resumed %s %.6f\n", job(), seconds);
    delivered(line);
}
