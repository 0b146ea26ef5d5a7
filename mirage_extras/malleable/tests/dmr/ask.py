"""Makes the calls that its arguments name, as ask.c does, and prints the answers."""

import sys

from dmr import Broker

broker = Broker()
for word in sys.argv[1:]:
    call, *numbers = word.split(":")
    if call == "resumed":
        broker.resumed(float(numbers[0]))
        continue
    name = call if call == "ready" else f"{call}_status"
    answer = getattr(broker, name)(*map(int, numbers))
    print(f"{answer.action} {answer.nodes} [{','.join(answer.names)}] has {broker.nodes}: {answer.reason}")
