"""The error for wrong input. Every entry point turns it into one line that begins with `wrong use:`, and exit code 2."""

from __future__ import annotations

from .printing import one_line


class WrongUse(Exception):
    """A parameter, a file or a host that cannot be used as requested. Nothing has been changed on any host when it is raised.

    message: one line that says what is wrong and which values are allowed.
    parameter: the parameter that is wrong, if it is one that a user sets, in lower case: `nodes`; or several, separated by `, `.
    Without one the message itself names what is wrong: a file with its line, or a variable.
    value: the value of the parameter, for messages like `nodes=5: ...`.
    """

    def __init__(self, message: str, parameter: str = "", value: object = None) -> None:
        super().__init__(message)
        self.message = one_line(message, None)
        self.parameter = parameter
        self.value = value

    def __str__(self) -> str:
        return self.with_name(self.parameter)

    def with_name(self, name: str) -> str:
        """The message with the given name of the parameter; without a name the message alone."""
        if not name:
            return self.message
        return f"{name}: {self.message}" if self.value is None else one_line(f"{name}={self.value}: {self.message}", None)

    def module_message(self) -> str:
        """The message of an Ansible module. Parameters are in upper case, as they are when they are given to make."""
        return f"wrong use: {self.with_name(self.parameter.upper())}"
