/* Texts, numbers and messages. text.h describes the functions. */
#define _GNU_SOURCE
#include "text.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernel.h"

_Noreturn void leave(int status)
{
    for (;;)
        kernel(SYS_exit_group, status, 0, 0, 0, 0);
}

size_t length_of(const char *text)
{
    size_t length = 0;

    while (text[length] != '\0')
        length++;
    return length;
}

const char *after(const char *text, const char *head)
{
    while (*head != '\0')
        if (*text++ != *head++)
            return NULL;
    return text;
}

bool same(const char *text, const char *other)
{
    const char *rest = after(text, other);

    return rest && *rest == '\0';
}

const char *environment_text(char **environment, const char *name)
{
    for (; *environment; environment++) {
        const char *text = after(*environment, name);
        if (text && *text++ == '=')
            return text;
    }
    return NULL;
}

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool scan_whole(const char **text, int64_t max, int64_t *value)
{
    int64_t sum = 0;

    if (!is_digit(**text))
        return false;
    for (; is_digit(**text); (*text)++) {
        int digit = **text - '0';
        if (sum > (max - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

bool scan_decimal(const char **text, int64_t *billionths)
{
    int64_t whole;

    if (!scan_whole(text, INT64_MAX / SECOND - 1, &whole))
        return false;
    *billionths = whole * SECOND;
    if (**text != '.')
        return true;
    (*text)++;
    if (!is_digit(**text))
        return false;
    for (int64_t unit = SECOND / 10; is_digit(**text); (*text)++, unit /= 10)
        *billionths += (**text - '0') * unit;
    return true;
}

/* ---- messages ---- */

const char *error_text(long error)
{
    static const struct {
        int number;
        const char *text;
    } known[] = {
        {EACCES, "permission denied"},
        {EDQUOT, "disk quota exceeded"},
        {EFBIG, "file size limit reached"},
        {EIO, "input/output error"},
        {EISDIR, "is a directory"},
        {ELOOP, "too many symbolic links"},
        {ENAMETOOLONG, "name is too long"},
        {ENOENT, "no such file or directory"},
        {ENOSPC, "no space left on the disk"},
        {ENOTDIR, "a part of the path is not a directory"},
        {EPERM, "operation not permitted"},
        {EROFS, "the file system is read-only"},
    };
    static char other[] = "system error 000";

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == -error)
            return known[i].text;
    for (size_t digit = sizeof other - 2; error != 0 && other[digit] != ' '; digit--, error /= 10)
        other[digit] = (char)('0' - error % 10);
    return other;
}

void complain(const char *kind, const char *what, const char *value, const char *why)
{
    const char *const parts[] = {"sigsleep: ", kind, what, *value ? " " : "", value, ": ", why, "\n"};
    struct iovec line[sizeof parts / sizeof *parts];

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        line[i].iov_base = (void *)(uintptr_t)parts[i];
        line[i].iov_len = length_of(parts[i]);
    }
    kernel(SYS_writev, STDERR_FILENO, (long)line, sizeof parts / sizeof *parts, 0, 0);
}

_Noreturn void wrong_use(const char *option, const char *value, const char *why)
{
    complain("wrong use: ", option, value, why);
    leave(EXIT_WRONG_USE);
}
