/* Makes the calls that its arguments name, as mirage_extras/malleable/tests/dmr/ask.py does, and prints the answers. */
#include "dmr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    static const char *const actions[] = {"none", "expand", "shrink"};
    for (int i = 1; i < argc; i++) {
        int number[4] = {0}, nodes;
        char call[16] = "";
        const char *list;
        enum dmr_action action;
        sscanf(argv[i], "%15[a-z]:%d:%d:%d:%d", call, &number[0], &number[1], &number[2], &number[3]);
        if (!strcmp(call, "resumed")) {
            dmr_resumed(number[0]);
            continue;
        }
        if (!strcmp(call, "ready"))
            action = dmr_ready(number[0], &nodes, &list);
        else
            action =
                (call[0] == 'i' ? dmr_icheck_status : dmr_check_status)(number[0], number[1], number[2], number[3], &nodes, &list);
        printf("%s %d [%s] has %d: %s\n", actions[action], nodes, list, dmr_nodes(), dmr_reason());
    }
    return 0;
}
