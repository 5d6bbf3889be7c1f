"""Finds places in Python by its syntax tree. Input: a JSON list of texts; output: a list of places for each of them."""
import ast
import json
import re
import sys

COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}
OPERATORS = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}


def other_number(value):
    if isinstance(value, float) and not value.is_integer():
        return repr(value * 2)
    return str(value + 1 if value < 8 else value * 2)


def places_in(text):
    tree = ast.parse(text)
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line.encode("utf-16-le")) // 2 + 1)

    def offset(line, column):
        # Columns count UTF-8 bytes, places UTF-16 units.
        before = lines[line - 1].encode()[:column].decode()
        return starts[line - 1] + len(before.encode("utf-16-le")) // 2

    units = text.encode("utf-16-le")

    def span(node):
        return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)

    def piece(start, end):
        return units[2 * start:2 * end].decode("utf-16-le")

    found = []

    def add(start, end, bug, kind):
        found.append({"start": start, "end": end, "bug": bug, "kind": kind})

    def replace(node, bug, kind):
        add(*span(node), bug, kind)

    def between(left, right, pair, kind):
        start, end = span(left)[1], span(right)[0]
        match = re.search(r"(?<![\w])" + re.escape(pair[0]).replace(r"\ ", r"\s+"), piece(start, end))
        if match:
            add(start + match.start(), start + match.end(), pair[1], kind)

    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators):
                if type(op) in COMPARED:
                    between(left, right, COMPARED[type(op)], "compare")
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                replace(node, f"({piece(*span(value))})", "operator")
            for left, right in zip(node.values, node.values[1:]):
                between(left, right, OPERATORS[type(node.op)], "operator")
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            is_text = any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), (str, bytes))
                          for side in (node.left, node.right))
            if not is_text:
                for side in (node.left, node.right):
                    replace(node, f"({piece(*span(side))})", "operator")
                between(node.left, node.right, OPERATORS[type(node.op)], "operator")
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            if not isinstance(node, ast.While):
                replace(node.test, f"not ({piece(*span(node.test))})", "condition")
            replace(node.test, "False", "condition")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            replace(node, f"({piece(*span(node.operand))})", "condition")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            replace(node, str(not node.value), "constant")
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            replace(node, other_number(node.value), "constant")
        elif isinstance(node, ast.Await):
            replace(node, f"({piece(*span(node.value))})", "await")
        elif isinstance(node, ast.Expr):
            called = node.value.value if isinstance(node.value, ast.Await) else node.value
            if isinstance(called, ast.Call):
                replace(node, "pass", "call")
        elif isinstance(node, (ast.Assign, ast.AugAssign)) and isinstance(
                getattr(node, "target", None) or node.targets[0], (ast.Attribute, ast.Subscript)):
            replace(node, "pass", "call")
        # The arguments of these mean the same in any order.
        if isinstance(node, ast.Call) and piece(*span(node.func)) not in ("max", "min"):
            for first, second in zip(node.args, node.args[1:]):
                if isinstance(first, ast.Starred) or isinstance(second, ast.Starred):
                    continue
                (a, b), (c, d) = span(first), span(second)
                if piece(a, b) != piece(c, d):
                    add(a, d, piece(c, d) + piece(b, c) + piece(a, b), "swap")
    return sorted(found, key=lambda place: (place["start"], place["end"]))


print(json.dumps([places_in(text) for text in json.load(sys.stdin)]))
