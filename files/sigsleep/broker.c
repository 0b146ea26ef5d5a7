/* Requests to the broker. broker.h describes the functions. */
#define _GNU_SOURCE
#include "broker.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "event.h"
#include "kernel.h"
#include "text.h"
#include "words.h"

/* An answer that takes longer than both is given up. On the event clock only the virtual time counts. */
#define VIRTUAL_PATIENCE (600 * SECOND)
#define REAL_PATIENCE (30 * SECOND)

/* In real time: how long a connection waits for a place in the broker's queue between two looks at the signals. */
#define CONNECTING_US 100000

/* Bytes of an answer that are read at most (its last word names all nodes), and that are kept. */
#define LONGEST_ANSWER (1 << 20)
enum { KEPT = 128, LONGEST_REQUEST = 256 };

struct request {
    char text[LONGEST_REQUEST];
    size_t length;
};

static void add_text(struct request *request, const char *text)
{
    while (*text != '\0' && request->length < LONGEST_REQUEST)
        request->text[request->length++] = *text++;
}

static void add_number(struct request *request, int64_t number)
{
    char digits[20];
    size_t first = sizeof digits - 1;

    digits[first] = '\0';
    do
        digits[--first] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    add_text(request, digits + first);
}

static void add_numbers(struct request *request, const char *kind, const int64_t *numbers, int count)
{
    add_text(request, "mirage 1 ");
    add_text(request, kind);
    for (int i = 0; i < count; i++) {
        add_text(request, " ");
        add_number(request, numbers[i]);
    }
}

static bool send_request(int socket, const struct request *request)
{
    return kernel_with_six(SYS_sendto, socket, (long)request->text, (long)request->length, MSG_NOSIGNAL, 0, 0) ==
           (long)request->length;
}

void close_exchange(struct exchange *exchange)
{
    if (exchange->socket != NO_SOCKET)
        kernel(SYS_close, exchange->socket, 0, 0, 0, 0);
    exchange->socket = NO_SOCKET;
}

static int64_t patience(void)
{
    int64_t length = real_length(VIRTUAL_PATIENCE);

    return on_event_clock || length > REAL_PATIENCE ? length : REAL_PATIENCE;
}

/* Waits for the socket, or only for signals if there is no socket. Returns a signal that ends the job, or 0. */
static int wait_for_broker(struct exchange *exchange, int64_t length, int socket)
{
    int64_t passed;
    int end = pass_time(exchange->watch, length, socket, &passed);

    exchange->waited += passed;
    return end;
}

/* Connects; leaves NO_SOCKET if there is no broker. Returns a signal that ends the job, or 0. */
static int open_connection(struct exchange *exchange)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const struct timeval limit = {0, CONNECTING_US};
    const size_t length = length_of(exchange->path);

    for (size_t i = 0; i < length; i++)
        address.sun_path[i] = exchange->path[i];
    int socket = (int)kernel(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0);
    if (socket < 0)
        return 0;
    exchange->socket = socket;
    kernel(SYS_setsockopt, socket, SOL_SOCKET, SO_SNDTIMEO, (long)&limit, sizeof limit);
    for (;;) {
        long error = kernel(SYS_connect, socket, (long)&address, sizeof address, 0, 0);
        bool is_full = error == -EAGAIN || error == -EINTR;

        if (error == 0)
            return 0;
        int end = is_full ? wait_for_broker(exchange, 0, NO_SOCKET) : 0;
        if (end || !is_full || exchange->waited >= patience()) {
            close_exchange(exchange);
            return end;
        }
    }
}

static enum answer parse_answer(const char *line, int64_t *size)
{
    static const struct {
        const char *word;
        enum answer answer;
    } known[] = {
        {"none ", ANSWER_NONE},     {"expanded ", ANSWER_EXPANDED}, {"shrink ", ANSWER_SHRINK},
        {"shrunk ", ANSWER_SHRUNK}, {"aborted ", ANSWER_REFUSED},   {"refused", ANSWER_REFUSED},
    };

    *size = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *rest = after(line, known[i].word);

        if (!rest)
            continue;
        if (known[i].word[0] == 'r')
            return *rest == '\0' || *rest == ' ' ? known[i].answer : NO_ANSWER;
        if (!scan_whole(&rest, LARGEST_SIZE, size) || *size == 0 || (*rest != '\0' && *rest != ' ')) {
            *size = 0;
            return NO_ANSWER;
        }
        return known[i].answer;
    }
    return NO_ANSWER;
}

/* Reads a line and sets the answer, NO_ANSWER if it does not come. Returns a signal that ends the job, or 0. */
static int read_answer(struct exchange *exchange)
{
    char line[KEPT], piece[512] = {0};
    size_t kept = 0;
    int64_t seen = 0;

    while (seen < LONGEST_ANSWER) {
        long got = kernel_with_six(SYS_recvfrom, exchange->socket, (long)piece, sizeof piece, MSG_DONTWAIT, 0, 0);

        if (got == -EAGAIN) {
            int end = wait_for_broker(exchange, patience() - exchange->waited, exchange->socket);
            if (end || exchange->waited >= patience())
                return end;
            continue;
        }
        if (got <= 0)
            return 0;
        for (long i = 0; i < got; i++) {
            if (piece[i] == '\n') {
                line[kept] = '\0';
                /* Bytes after the line were not asked for. */
                exchange->answer = i + 1 == got ? parse_answer(line, &exchange->size) : NO_ANSWER;
                return 0;
            }
            if (kept < sizeof line - 1)
                line[kept++] = piece[i];
        }
        seen += got;
    }
    return 0;
}

int ask(struct exchange *exchange, const char *kind, const int64_t *numbers, int count)
{
    struct request request = {.length = 0};
    int end = 0;

    exchange->answer = NO_ANSWER;
    exchange->size = 0;
    exchange->waited = 0;
    if (exchange->socket == NO_SOCKET)
        end = open_connection(exchange);
    if (end || exchange->socket == NO_SOCKET)
        return end;
    add_numbers(&request, kind, numbers, count);
    add_text(&request, "\n");
    if (send_request(exchange->socket, &request))
        end = read_answer(exchange);
    if (exchange->answer == NO_ANSWER)
        close_exchange(exchange);
    return end;
}

void tell_resumed(struct exchange *exchange, int64_t job, int64_t cost)
{
    struct request request = {.length = 0};

    if (exchange->socket == NO_SOCKET)
        return;
    add_numbers(&request, "resumed", (const int64_t[]){job, cost / SECOND}, 2);
    add_text(&request, ".");
    for (int64_t unit = SECOND / 10; unit > 0; unit /= 10)
        add_number(&request, cost / unit % 10);
    add_text(&request, "\n");
    send_request(exchange->socket, &request);
}
