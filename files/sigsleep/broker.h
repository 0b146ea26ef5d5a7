/* Requests of a malleable job to the broker of its cluster, over a Unix socket. README.md describes the protocol. */
#ifndef BROKER_H
#define BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "waits.h"

enum { LARGEST_PATH = 107 }; /* bytes of a socket's path */

enum answer {
    NO_ANSWER, /* no broker, a broken connection, or nonsense */
    ANSWER_NONE,
    ANSWER_EXPANDED,
    ANSWER_SHRINK,
    ANSWER_SHRUNK,
    ANSWER_REFUSED, /* also: the broker has aborted the resize */
};

/* What was asked, and the state of the connection. */
struct exchange {
    struct watch *watch;
    const char *path;
    int socket;     /* NO_SOCKET: not connected */
    int64_t waited; /* so far, on an instant's progress */
    enum answer answer;
    int64_t size; /* that the answer names; 0: none */
};

/*
 * Sends the request KIND with these numbers (mirage 1 KIND NUMBER ...), connects before if need be, and waits for the answer.
 * Returns a signal that ends the job, or 0. Without an answer the connection is closed.
 */
int ask(struct exchange *exchange, const char *kind, const int64_t *numbers, int count);

/* Tells that the job goes on after a resize of this cost (virtual ns). There is no answer. */
void tell_resumed(struct exchange *exchange, int64_t job, int64_t cost);

void close_exchange(struct exchange *exchange);

#endif
