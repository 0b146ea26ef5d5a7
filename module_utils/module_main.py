"""The `main` of an Ansible module: its options from DOCUMENTATION, its errors as messages, its result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.doc_fragments.shared import ModuleDocFragment
from ansible.module_utils.slurm_mirage.base.errors import WrongUse

__all__ = ["AnsibleModule", "Result", "module_main"]

Result = Mapping[str, Any]
"""What a module returns; without `changed` it has not changed anything."""
Call = Callable[[AnsibleModule], Result]
IN_SPEC = ("type", "required", "default", "choices", "elements")


def module_main(documentation: str, secrets: Sequence[str] = (), **rules: Any) -> Callable[[Call], Callable[[], None]]:
    """Decorator that makes `main` of a function, which does what the module does and returns its result.

    documentation: DOCUMENTATION of the module, as `read` takes it
    secrets: options whose values are not logged
    rules: further arguments of AnsibleModule, such as `required_if`

    The function supports check mode. Its WrongUse, RuntimeError and OSError become messages.
    """

    def with_call(call: Call) -> Callable[[], None]:
        def main() -> None:
            spec = argument_spec(documentation)
            for name in secrets:
                spec[name]["no_log"] = True
            module = AnsibleModule(argument_spec=spec, supports_check_mode=True, **rules)
            try:
                result = call(module)
            except WrongUse as error:
                module.fail_json(msg=error.module_message())
            except RuntimeError as error:
                module.fail_json(msg=str(error))
            except OSError as error:
                module.fail_json(msg=f"failed: {error}")
            module.exit_json(**{"changed": False, **result})

        return main

    return with_call


def argument_spec(documentation: str) -> dict[str, dict[str, Any]]:
    """The options of a module, with those of the fragments that it extends, as AnsibleModule takes them."""
    own = read(documentation.splitlines())
    options: dict[str, Any] = own.get("options", {})
    for name in own["extends_documentation_fragment"]:
        text: str = getattr(ModuleDocFragment, name.partition(".")[2].upper() or "DOCUMENTATION")
        for option, content in read(text.splitlines()).get("options", {}).items():
            options[option] = {**content, **options.get(option, {})}
    return spec_of(options)


def spec_of(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Options of DOCUMENTATION as AnsibleModule takes them."""
    spec = {name: {key: option[key] for key in IN_SPEC if key in option} for name, option in options.items()}
    for name, option in options.items():
        if "suboptions" in option:
            spec[name]["options"] = spec_of(option["suboptions"])
    return spec


def read(lines: Sequence[str]) -> dict[str, Any]:
    """A mapping in the YAML of DOCUMENTATION, because hosts have no YAML reader.

    A value is a mapping that is indented, or on the line of its key: a word, a list in brackets, or as in JSON. Lists of lines
    and what else follows a value (descriptions) are left out. tests/unit/project/test_docs.py compares it with what Ansible reads.
    """
    blocks: dict[str, list[str]] = {}
    lines = [line for line in lines if line.strip()]
    depth = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    key = ""
    for line in lines:
        if line[depth] != " ":
            key, _, value = line.strip().partition(":")
            blocks[key] = [value.strip()]
        else:
            blocks[key].append(line)
    return {
        key: scalar(value) if value else read(inner)
        for key, (value, *inner) in blocks.items()
        if value or not inner[0].lstrip().startswith("-")
    }


def scalar(text: str) -> Any:
    """The value behind a key."""
    if text.startswith("["):
        return [scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'")
