#!/usr/bin/env python3
"""Checks the style of every text file of the tree.

    tools/tidy.py ROOT

Prints one line for each violation, `path:line: rule: advice`; exit status 1 if there is any. The
layers are read from the table in ARCHITECTURE.md. C++ is not parsed: comments and strings are
blanked, then braces are matched; the functions that do so describe the limits. public_docs.py finds
undocumented symbols, with Doxygen. tests/tidy breaks each rule once.
"""

import ast
import os
import re
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
MAX_LINES_WITHOUT_COMMENT = 40
MAX_ARCHITECTURE_LINES = 200
MAX_DECISION_LINES = 40

CPP = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".inl"}
CODE = CPP | {".py", ".sh", ".cmake", ".js", ".css", ".html"}
TEXT = CODE | {".md", ".json", ".yml", ".yaml", ".in", ".txt"}
NAMED = {"Makefile", ".clang-format", ".clang-tidy", ".gitignore"}
# Not checked: build folders, and the trees that break rules on purpose.
SKIPPED = {"build", "tests/tidy/fixtures"}
HIDDEN_BUT_OURS = {".ci", ".github"}
# Generated at run time; only device code includes it.
GENERATED = "everkernel/handlers.cuh"
DOCUMENTS = ("ARCHITECTURE.md", "README.md", "CONTRIBUTING.md")


@dataclass(frozen=True, order=True)
class Violation:
    path: str
    line: int
    rule: str
    advice: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.advice}"


class File:
    """A file's text, and for C++ the same text with comments and strings blanked."""

    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.lines = text.split("\n")[: None if text and not text.endswith("\n") else -1]
        self.suffix = PurePosixPath(path).suffix
        self.is_cpp = self.suffix in CPP
        self.code = blank_cpp(text) if self.is_cpp else text

    def is_in(self, *folders):
        return self.path.split("/")[0] in folders

    def violation(self, line, rule, advice):
        return Violation(self.path, line, rule, advice)


class Tree:
    """The files of a checkout, by path."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = {}
        self.unreadable = []
        for path in sorted(self._paths()):
            try:
                self.files[path] = File(path, (self.root / path).read_bytes().decode("utf-8"))
            except UnicodeDecodeError:
                self.unreadable.append(path)

    def _paths(self):
        for folder, subfolders, names in os.walk(self.root):
            base = Path(folder).relative_to(self.root)
            subfolders[:] = [name for name in subfolders if self._is_ours(base / name)]
            for name in names:
                if PurePosixPath(name).suffix in TEXT or name in NAMED:
                    yield (base / name).as_posix()

    @staticmethod
    def _is_ours(folder):
        hidden = folder.name.startswith(".") and folder.name not in HIDDEN_BUT_OURS
        return not hidden and folder.name != "__pycache__" and folder.as_posix() not in SKIPPED

    def cpp(self):
        return (file for file in self.files.values() if file.is_cpp)

    def exists(self, path):
        return (self.root / path).exists()


# --- reading C++ ---------------------------------------------------------------------------------

CPP_TOKENS = re.compile(
    r"""(?P<comment>//(?:[^\n]|\\\n)*|/\*.*?\*/)
      | (?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<number>\b\d(?:'?[\w.])*)
      | (?P<char>'(?:\\.|[^'\\\n])+')""",
    re.X | re.S,
)


def spaces(text):
    return re.sub(r"[^\n]", " ", text)


def blank_cpp(text):
    """The text with comments, strings and characters as spaces; every line and column stays."""

    def blank(match):
        found = match.group()
        if match.lastgroup == "number":
            return found
        if match.lastgroup == "string":
            return '"' + spaces(found[1:-1]) + '"'
        return spaces(found)

    return CPP_TOKENS.sub(blank, text)


def blank_directives(code):
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda m: spaces(m.group()), code, flags=re.M)


PARENS = "\x01"  # stands for a pair of parentheses and the text between them


def collapse(head):
    """The text before a brace, without attributes and template parameters."""
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.S)
    before = None
    while head != before:
        before, head = head, re.sub(r"\([^()]*\)", PARENS, head)
    while match := re.search(r"\btemplate\s*<", head):
        depth, end = 1, match.end()
        while depth and end < len(head):
            depth += {"<": 1, ">": -1}.get(head[end], 0)
            end += 1
        head = head[: match.start()] + " " + head[end:]
    qualifiers = r"\b(?:alignas|__attribute__|requires|decltype|noexcept|explicit)\s*"
    head = re.sub(qualifiers + PARENS, " ", head)
    return re.sub(rf"\boperator\s*(?:{PARENS}|[^\s\w{PARENS}]+|\w+)", "operator", head)


def brace_kind(head):
    """The kind of block that the brace behind `head` opens, outside functions and initialisers."""
    if re.search(r'\bnamespace\b|\bextern\s*"\s*"\s*$', head):
        return "namespace"
    if re.search(r"(?<![<>=!])=(?!=)", head):
        return "function" if re.search(r"=\s*\[[^\]]*\]", head) else "initialiser"
    if re.search(rf"\b(?:class|struct|union|enum)\b[^{PARENS}]*$", head):
        return "type"
    if PARENS not in head:
        return "initialiser"
    # `Foo(int a) : a_{a} {` has two braces; the first belongs to a member.
    in_member_list = re.search(rf"{PARENS}[^:]*(?<!:):(?!:)", head)
    if in_member_list and re.search(r"[\w>]\s*$", head):
        return "initialiser"
    return "function"


def cpp_functions(code):
    """Yields (name, first line, last line) of each function with a body.

    A lambda counts as part of the function around it; lambdas inside a table are not measured. Code
    whose braces do not pair because of #if branches is measured up to where they stop pairing.
    """
    code = blank_directives(code)
    stack = []  # (kind, name, where its statement starts, parentheses open there) of each brace
    parens = 0
    start = 0
    for match in re.finditer(r"[(){};]|\b(?:public|private|protected)\s*:(?!:)", code):
        token, at = match.group(), match.start()
        if token == "(":
            parens += 1
        elif token == ")":
            parens = max(parens - 1, 0)
        elif token == "{":
            kind, name = "block", ""
            if not parens and all(entry[0] in ("namespace", "type") for entry in stack):
                head = collapse(code[start:at])
                kind = brace_kind(head)
                found = re.search(rf"([\w~][\w:~]*)\s*{PARENS}", head)
                name = found.group(1) if found else "lambda"
            stack.append((kind, name, start, parens))
            if kind != "initialiser":
                start = match.end()
            parens = 0
        elif token == "}":
            if not stack:
                return
            kind, name, start, parens = stack.pop()
            if kind == "function":
                opening = re.compile(r"\S").search(code, start).start()
                first = code.count("\n", 0, opening) + 1
                yield name, first, code.count("\n", 0, at) + 1
            if kind in ("namespace", "type", "function"):
                start = match.end()
        elif not parens:
            start = match.end()


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


# --- layers --------------------------------------------------------------------------------------


@dataclass
class Layer:
    line: int
    below: set  # names it may include; "*" is everything


def read_layers(tree, violations):
    """The rows of the block marked `text layers` in ARCHITECTURE.md, lowest first."""
    document = tree.files.get("ARCHITECTURE.md")
    lines = document.lines if document else []
    opening = next((i for i, line in enumerate(lines) if line.strip() == "```text layers"), None)
    if opening is None:
        advice = "state the layers in a block that opens with ```text layers"
        violations.append(Violation("ARCHITECTURE.md", 1, "layers-table", advice))
        return None
    layers = {}
    for number, line in enumerate(lines[opening + 1 :], opening + 2):
        if line.startswith("```"):
            break
        if not line.strip():
            continue
        match = re.fullmatch(r"\s*([\w/]+)\s*->\s*((?:[\w/]+|\*|\s)*)", line)
        if not match:
            advice = "write a row as `module -> module module`"
            violations.append(document.violation(number, "layers-table", advice))
            continue
        name, below = match.group(1), set(match.group(2).split())
        for other in sorted(below - layers.keys() - {"*"}):
            advice = f"`{other}` has no row above `{name}`; arrows point down, lowest row first"
            violations.append(document.violation(number, "layers-table", advice))
        if not any(tree.exists(f"{base}{name}") for base in ("include/everkernel/", "src/", "")):
            advice = f"`{name}` is no folder of the tree; remove the row"
            violations.append(document.violation(number, "layers-table", advice))
        layers[name] = Layer(number, below)
    return layers


def module_folder(path):
    """`protocol` for include/everkernel/protocol/ring.hpp and src/protocol/ring.cpp."""
    folder = PurePosixPath(path).parent.as_posix()
    for base in ("include/everkernel", "src"):
        if folder == base or folder.startswith(base + "/"):
            return folder[len(base) + 1 :]
    return folder


def layer_of(folder, layers):
    """The row of a folder: its own, or that of the nearest folder above it."""
    parts = folder.split("/")
    for length in range(len(parts), 0, -1):
        if (name := "/".join(parts[:length])) in layers:
            return name
    return None


def includes(file):
    """Yields (line, named path) of the includes that are not inside a comment or string."""
    for number, (line, code) in enumerate(zip(file.lines, file.code.split("\n")), 1):
        match = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
        if match and code.lstrip().startswith("#"):
            yield number, match.group(1)


def included_file(tree, file, named):
    """The path in the tree that an include names, or None for a header outside the tree."""
    if named == GENERATED:
        return None
    if named.startswith("everkernel/"):
        return "include/" + named
    beside = os.path.normpath(PurePosixPath(file.path).parent / named)
    for candidate in (beside, f"src/{named}", f"tests/{named}", named):
        if candidate in tree.files:
            return candidate
    return None


def check_layers(tree, violations):
    layers = read_layers(tree, violations)
    if layers is None:
        return
    homeless = set()
    for file in tree.cpp():
        folder = module_folder(file.path)
        own = layer_of(folder, layers)
        if own is None:
            if folder not in homeless:
                advice = f"give `{folder or 'this folder'}` a row in ARCHITECTURE.md's layers"
                violations.append(file.violation(1, "layering", advice))
            homeless.add(folder)
            continue
        for line, named in includes(file):
            path = included_file(tree, file, named)
            if path is None:
                continue
            other = layer_of(module_folder(path), layers)
            if other is None:
                advice = f"`{named}` belongs to no layer of ARCHITECTURE.md"
            elif other == own or not layers[own].below.isdisjoint({other, "*"}):
                continue
            else:
                advice = f"`{own}` may not include `{other}`; move the code down, or the row up"
            violations.append(file.violation(line, "layering", advice))


# --- CMake ---------------------------------------------------------------------------------------


def check_cmake(tree, violations):
    """Sources are listed by hand: a file that no CMakeLists.txt lists would not be built."""
    lists = tree.files.get("CMakeLists.txt")
    listed = set(re.findall(r"[^\s()\"]+", re.sub(r"#.*", "", lists.text))) if lists else set()
    for file in tree.cpp():
        if file.is_in("include", "src"):
            short = re.sub(r"^(?:include/everkernel|src)/", "", file.path)
            if short not in listed and file.path not in listed:
                advice = f"list `{short}` in CMakeLists.txt"
                violations.append(file.violation(1, "cmake-list", advice))
        if file.suffix == ".hpp" and not re.search(r"^#pragma once$", file.code, re.M):
            violations.append(file.violation(1, "pragma-once", "add `#pragma once`"))


# --- shape ---------------------------------------------------------------------------------------


def may_be_long(file, line):
    """Markdown cannot break a table row or an address; JSON and data are not for reading."""
    if file.suffix == ".md":
        return line.startswith("|") or "://" in line
    return file.suffix not in CODE and PurePosixPath(file.path).name != "CMakeLists.txt"


def check_lines(tree, violations):
    for file in tree.files.values():
        for number, line in enumerate(file.lines, 1):
            if len(line) > MAX_COLUMNS and not may_be_long(file, line):
                advice = f"{len(line)} columns; break the line at {MAX_COLUMNS}"
                violations.append(file.violation(number, "line-length", advice))
            if "\t" in line and PurePosixPath(file.path).name != "Makefile":
                violations.append(file.violation(number, "tab", "indent with spaces"))
            if line != line.rstrip():
                violations.append(file.violation(number, "trailing-blank", "remove it"))
        if file.text and not re.search(r"[^\n]\n\Z", file.text):
            advice = "end the file with one newline"
            violations.append(file.violation(len(file.lines), "final-newline", advice))


def check_file_comment(tree, violations):
    for file in tree.cpp():
        if not file.is_in("include", "src", "apps"):
            continue
        opening = re.match(r"(?:[ \t]*//[^\n]*\n)+|/\*.*?\*/", file.text, re.S)
        words = re.findall(r"\w+", opening.group()) if opening else []
        if len(file.lines) > MAX_LINES_WITHOUT_COMMENT and len(words) < 3:
            advice = "open the file with a comment that says its job and its neighbours"
            violations.append(file.violation(1, "file-comment", advice))


def check_function_length(tree, violations):
    for file in tree.files.values():
        if file.is_cpp:
            functions = cpp_functions(file.code)
        elif file.suffix == ".py":
            functions = python_functions(file.text)
        else:
            continue
        for name, first, last in functions:
            if (count := last - first + 1) > MAX_FUNCTION_LINES:
                advice = f"`{name}` has {count} lines; split it, {MAX_FUNCTION_LINES} fit a screen"
                violations.append(file.violation(first, "function-length", advice))


# --- banned words --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ban:
    rule: str
    pattern: str
    where: str  # "text": every file as it stands; "code": C++ outside comments and strings
    advice: str
    folders: tuple = ()  # empty: everywhere


# A class of one letter keeps the table from finding itself.
BANS = [
    Ban("machine-path", r"(?:(?<![\w.~)}\]/*-])|(?<=-[IL]))/(?:work|root|home|farm)(?![\w-])",
        "text", "a path of one machine; make it relative, or a variable"),
    Ban("unfinished", r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b", "text",
        "finish it now, or write an issue"),
    Ban("nolint-reason", r"NO[L]INT(?:NEXTLINE|BEGIN)?+\b(?:\([^)]*\))?+(?!\s*:\s*\w)", "text",
        "say why, behind a colon"),
    Ban("volatile", r"(?<!asm )(?<!__asm__ )\bvolatile\b", "code",
        "orders nothing between threads; use an atomic with a named order", ("include", "src")),
    Ban("endl", r"\bstd::endl\b", "code",
        "flushes each line; write '\\n'"),
    Ban("using-namespace-std", r"\busing\s+namespace\s+std\b", "code",
        "name what is used"),
    Ban("assert", r"\bassert\s*\(", "code",
        "vanishes in release; use EVERKERNEL_ASSERT, or return an Error"),
]


def check_bans(tree, violations):
    for file in tree.files.values():
        for ban in BANS:
            if ban.folders and not file.is_in(*ban.folders):
                continue
            if ban.where == "code" and not file.is_cpp:
                continue
            text = file.code if ban.where == "code" else file.text
            if file.suffix == ".md" and ban.rule != "machine-path":
                text = re.sub(r"`[^`\n]*`", lambda m: spaces(m.group()), text)  # a rule may be told
            for match in re.finditer(ban.pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                violations.append(file.violation(line, ban.rule, ban.advice))


# --- documents -----------------------------------------------------------------------------------


def prose(file):
    """Yields (line number, line) outside fenced blocks."""
    fenced = False
    for number, line in enumerate(file.lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def claimed_path(tree, word):
    """The path a word in backticks claims to exist, or None if it does not look like one."""
    if not re.fullmatch(r"[\w.*/-]+", word) or word.startswith(("/", "-")):
        return None
    top = word.split("/")[0]
    if "/" in word and top not in SKIPPED and (tree.root / top).is_dir():
        return word
    if word.startswith("everkernel/") and word.endswith(".hpp"):
        return "include/" + word
    return word if re.search(r"\w\.(?:md|txt|json|sh)$", word) and top not in SKIPPED else None


def check_paths(tree, violations):
    for name in DOCUMENTS:
        if name not in tree.files:
            continue
        file = tree.files[name]
        for number, line in prose(file):
            for word in re.findall(r"`([^`]+)`", line):
                path = claimed_path(tree, re.sub(r":\d+$", "", word))
                if path and not any(tree.root.glob(path.rstrip("/"))):
                    advice = f"`{word}` does not exist; name what does"
                    violations.append(file.violation(number, "doc-path", advice))


def check_links(tree, violations):
    for file in tree.files.values():
        if file.suffix != ".md":
            continue
        for number, line in prose(file):
            line = re.sub(r"`[^`]*`", "", line)
            for target in re.findall(r"\]\(<?([^)\s>]+)", line):
                target = target.split("#")[0]
                if not target or re.match(r"[a-z][a-z+.-]*:", target):
                    continue
                path = (tree.root / file.path).parent / target
                if target.startswith("/") or not path.exists():
                    advice = f"`{target}` leads nowhere; link a file by its relative path"
                    violations.append(file.violation(number, "doc-link", advice))


def check_document_size(tree, violations):
    for file in tree.files.values():
        folder, _, name = file.path.rpartition("/")
        limit = MAX_ARCHITECTURE_LINES if file.path == "ARCHITECTURE.md" else None
        if folder == "docs/decisions" and file.suffix == ".md":
            limit = MAX_DECISION_LINES
            if not re.fullmatch(r"\d{4}-[a-z0-9]+(?:-[a-z0-9]+)*\.md", name):
                advice = "name it NNNN-title.md, in lower case with hyphens"
                violations.append(file.violation(1, "decision-name", advice))
        if limit and len(file.lines) > limit:
            advice = f"{len(file.lines)} lines; at most {limit}"
            violations.append(file.violation(limit + 1, "doc-length", advice))


def example_region(tree, path):
    """The lines of a source between its readme marks, without common indentation."""
    if path not in tree.files:
        return None
    lines = tree.files[path].lines
    marks = [line.strip() for line in lines]
    if "// [readme]" not in marks or "// [/readme]" not in marks:
        return None
    region = lines[marks.index("// [readme]") + 1 : marks.index("// [/readme]")]
    return textwrap.dedent("\n".join(region)).split("\n")


def check_readme_example(tree, violations):
    """The program in the README equals the marked lines of an example, which a test runs."""
    file = tree.files.get("README.md")
    for index, line in enumerate(file.lines if file else []):
        match = re.fullmatch(r"<!-- example: (\S+) -->", line.strip())
        if not match:
            continue
        region = example_region(tree, match.group(1))
        if region is None:
            advice = f"{match.group(1)} has no lines between `// [readme]` and `// [/readme]`"
            violations.append(file.violation(index + 1, "readme-example", advice))
            continue
        block = file.lines[index + 1 :]
        is_block = bool(block) and block[0].startswith("```") and "```" in block[1:]
        shown = block[1 : block.index("```", 1)] if is_block else []
        if shown != region:
            advice = f"copy the code block below from the region of {match.group(1)}"
            violations.append(file.violation(index + 1, "readme-example", advice))


CHECKS = [
    check_layers,
    check_cmake,
    check_lines,
    check_file_comment,
    check_function_length,
    check_bans,
    check_paths,
    check_links,
    check_document_size,
    check_readme_example,
]


def find_violations(tree):
    violations = [Violation(path, 1, "encoding", "save it as UTF-8") for path in tree.unreadable]
    for check in CHECKS:
        check(tree, violations)
    return sorted(violations)


def main(arguments):
    if len(arguments) != 1:
        print("usage: tidy.py ROOT", file=sys.stderr)
        return 2
    tree = Tree(arguments[0])
    if not tree.files:
        print(f"error: no text files under {arguments[0]}", file=sys.stderr)
        return 2
    violations = find_violations(tree)
    for violation in violations:
        print(violation)
    print(f"tidy: {len(tree.files)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
