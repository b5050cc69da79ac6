"""Shared state of a process is in a ``Runtime``; modules and classes hold constants."""

import ast

from alignatt_agent.config.resources import PACKAGE_ROOT

KNOWN = {
    "agent.py: AlignAttAgent.runtime",  # Simulstream instantiates the class by its name
    "engine/row_requests.py: REQUESTS",  # in an engine; vLLM makes worker and processors itself
    "engine/served_model.py: _importing",  # vLLM can be imported by one thread at a time
}
MUTABLE = {
    *("Condition", "Counter", "Event", "Lock", "OrderedDict", "RLock", "Runtime", "Semaphore"),
    *("WeakSet", "WeakValueDictionary", "defaultdict", "deque", "dict", "list", "local", "set"),
}


def mutable(value):
    """Whether a value is mutable: a lock, a runtime, an empty collection."""
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).rpartition(".")[2] in MUTABLE and not value.args
    return value is not None and ast.unparse(value) in ("{}", "[]")


def test_state_has_one_owner():
    found = set()
    for path in PACKAGE_ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not any(isinstance(node, ast.Global) for node in ast.walk(tree)), path
        classes = [item for item in tree.body if isinstance(item, ast.ClassDef)]
        for scope in (tree, *classes):
            for node in scope.body:
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and mutable(node.value):
                    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                    owner = f"{scope.name}." if isinstance(scope, ast.ClassDef) else ""
                    found.add(f"{path.relative_to(PACKAGE_ROOT)}: {owner}{ast.unparse(target)}")
    constants = {item for item in found if item.endswith(".renamed")}
    assert found - constants == KNOWN
