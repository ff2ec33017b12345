"""Refuses sentences that readers have to read twice.

CONTRIBUTING.md asks for plain words: subject, verb, object, in the words of the field. These rules refuse the two
habits that confused readers most: sentences that open with a clause in place of their subject, and private idioms.
They refuse no long sentences. `check(root)` reads comments, docstrings, Markdown, texts that programs and scripts print
(log lines, errors, help), and the names of functions and tests under root. It returns the violations as "file:line: the
violation: the sentence's beginning", with the number of files.
"""

import ast
import re
from bisect import bisect
from pathlib import Path

ROOTS = ("app", "lib", "kernels", "tools", "tests", "conf", "docs", "README.md", "CONTRIBUTING.md", "results/README.md",
         "meson.build", "meson_options.txt", ".ci/run")
SKIPPED = ("tests/data/", "tests/fuzz/corpus/")
# Strings are read in these places only, because strings of tests are often data.
PROGRAMS = ("app/", "lib/", "kernels/", "tools/", "meson.build", "meson_options.txt", ".ci/run")

OPENER = re.compile(r"(Of|What|Whatever|Where|Whether|Which|Who|Whoever|Whose|That|Likewise|Nobody|Nothing|Nor"
                    r"|None(?![:,]| if\b| means\b))\b(?!\()")  # "None:" names the value in Python
IDIOMS = (
    r"of late", r"told by", r"comes? again", r"let go", r"lets? those go",
    r"stands? (?:where|apart|beside|behind|there)", r"(?:is|are) made ready", r"make ready", r"at once with",
    r"is said once", r"what (?:comes|stands|waits|runs|was|it takes)", r"of its own account", r"whose turn", r"the like of",
    r"has it that", r"would have it", r"nothing but", r"anew", r"ere", r"beforehand", r"one of it",
    r"(?:all the same|for good)(?=[.,;:)]|$)",  # "all the same size" is plain
)
IDIOM = re.compile(rf"\b(?:{'|'.join(IDIOMS)})(?!\w)", re.I)

SENTENCE_END = re.compile(r"[.:;!?][)\"']?\s+(?=[A-Z`(])")
QUOTED = re.compile(r"`[^`]*`|\"[^\"]{0,80}\"|“[^”]*”")
MIN_WORDS = 3

# Comments of C++, and literals, in which "//" begins no comment.
CPP = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*\"
                     |(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)*'""", re.S | re.X)
HASH = re.compile(r"(^\s*|.*?\s)#+!?\s(.*)")
QUESTION = re.compile(r"^(?:[\d.]+ )?((?:What|Where|Who|Whose)\b.*[^?])$")
ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")
# Comments, strings and here-documents of a shell, and comments and strings of Meson.
SHELL = re.compile(r"""(?:^|(?<=\s))\#[^\n]*|\\.|"((?:[^"\\]|\\.)*)"|'([^']*)'
                       |<<-?\s*['"]?(\w+)['"]?[^\n]*\n(.*?)\n\s*\3(?=\n|$)""", re.S | re.M | re.X)
MESON = re.compile(r"""\#[^\n]*|'((?:[^'\\\n]|\\.)*)'""")
DOCSTRING = re.compile(r'^\s*(?:r?""")(.*?)"""', re.S | re.M)
# Names: a GoogleTest case, or an identifier of several words.
TEST_NAME = re.compile(r"\bTEST(?:_F|_P)?\(\s*\w+,\s*(\w+)\)")
IDENTIFIER = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
NAME_IDIOM = re.compile(r"(?:^| )(?:of late|let go|told by|comes? again|say begun|made ready|make ready|roomily)(?: |$)")


class Blocks:
    """Collects prose as blocks of (line, text). A sentence may continue in its block, but not in the next."""

    def __init__(self):
        self.blocks = []
        self._open = False

    def add(self, line, text):
        item = ITEM.match(text)
        if not text or item:
            self._open = False
        if not text:
            return
        if not self._open:
            self.blocks.append([])
            self._open = True
        self.blocks[-1].append((line, text[item.end():] if item else text))

    def end(self):
        self._open = False


def read_cpp(text, with_strings):
    prose, strings = Blocks(), Blocks()
    line, at, last_line, last_column, string_end = 1, 0, 0, 0, -1
    for match in CPP.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        token = match.group(0)
        if token.startswith("/"):
            line_start = text.rfind("\n", 0, at) + 1
            column = at - line_start
            if line != last_line + 1 or column != last_column or text[line_start:at].strip():
                prose.end()  # a comment after code begins a new text
            last_line, last_column = line, column
            for number, part in enumerate(token.split("\n")):
                prose.add(line + number, part.strip("/* \t"))
            last_line += token.count("\n")
        elif with_strings and not token.startswith("'"):
            if text[string_end:at].strip() or string_end < 0:
                strings.end()
            content = token[1:-1] if token.startswith('"') else token[token.index("(") + 1:token.rindex(")")]
            for number, part in enumerate(re.sub(r"\\n", " ", content).split("\n")):
                strings.add(line + number, part.strip())
            string_end = match.end()
    return prose.blocks + strings.blocks


def read_hash_comments(text, _=False):
    prose, last_line, last_column = Blocks(), 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        match = HASH.match(line) if "#" in line else None
        if not match or match.group(1).count('"') % 2:  # in a string
            continue
        if number != last_line + 1 or match.end(1) != last_column or match.group(1).strip():
            prose.end()
        last_line, last_column = number, match.end(1)
        prose.add(number, match.group(2).strip())
    return prose.blocks


def matched_strings(pattern, text):
    """A block for each string that one of the pattern's groups holds."""
    strings = Blocks()
    for match in pattern.finditer(text):
        group = match.lastindex
        if group:
            line = text.count("\n", 0, match.start(group)) + 1
            for number, part in enumerate(match.group(group).split("\n"), line):
                strings.add(number, part.strip())
            strings.end()
    return strings.blocks


def read_shell(text, with_strings):
    return read_hash_comments(text) + (matched_strings(SHELL, text) if with_strings else [])


def read_meson(text, with_strings):
    return read_hash_comments(text) + (matched_strings(MESON, text) if with_strings else [])


def python_strings(text):
    """A block for each string that is no docstring. "{}" replaces what an f-string inserts."""
    tree = ast.parse(text)
    read = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = Blocks()
    for node in ast.walk(tree):  # an f-string comes before its parts
        if isinstance(node, ast.JoinedStr):
            read.update(map(id, node.values))
            content = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in read:
            content = node.value
        else:
            continue
        for part in content.split("\n"):
            strings.add(node.lineno, part.strip())
        strings.end()
    return strings.blocks


def read_python(text, with_strings):
    prose = Blocks()
    for match in DOCSTRING.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        for number, part in enumerate(match.group(1).split("\n"), line):
            prose.add(number, part.strip())
        prose.end()
    return read_hash_comments(text) + prose.blocks + (python_strings(text) if with_strings else [])


def read_markdown(text, _=False):
    """Paragraphs, list items, headings and table cells, without code. A heading may be a question without its mark."""
    prose, fenced, after_blank = Blocks(), False, True
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            fenced = not fenced
        if not fenced and stripped.startswith("|"):
            prose.end()
            for cell in stripped.strip("|").split(" | "):
                prose.add(number, cell.strip())
                prose.end()
            continue
        code = fenced or stripped.startswith("```") or (after_blank and line.startswith("    "))
        if not code:
            after_blank = not stripped
        if code:
            prose.end()
        elif stripped.startswith("#"):
            prose.end()
            prose.add(number, QUESTION.sub(r"\1?", stripped.lstrip("# ")))
            prose.end()
        else:
            prose.add(number, stripped.lstrip("> "))
    return prose.blocks


def sentences(block):
    """(line, sentence) of a block."""
    starts, text = [], ""
    for _, part in block:
        starts.append(len(text))
        text += part + " "
    begin = 0
    for end in [match.end() for match in SENTENCE_END.finditer(text)] + [len(text)]:
        yield block[bisect(starts, begin) - 1][0], text[begin:end].strip()
        begin = end


def check_blocks(path, blocks):
    for block in blocks:
        for line, sentence in sentences(block):
            if len(sentence.split()) < MIN_WORDS or sentence.endswith("?"):
                continue
            beginning = sentence if len(sentence) <= 70 else sentence[:70] + "…"
            opener, idiom = OPENER.match(sentence), IDIOM.search(QUOTED.sub("``", sentence))
            if opener:
                yield f"{path}:{line}: opens with '{opener.group(1)}', say the subject first: {beginning}"
            elif idiom:
                yield f"{path}:{line}: '{idiom.group(0)}' is an idiom, use a plain word: {beginning}"


def check_names(path, text):
    """Names of tests may not open as sentences may not; no name may hold an idiom."""
    for number, line in enumerate(text.split("\n"), 1):
        for name in TEST_NAME.findall(line):
            words = CAMEL.sub(" ", name)
            opener = OPENER.match(words)
            if opener:
                yield f"{path}:{number}: opens with '{opener.group(1)}', say the subject first: {name}"
            elif IDIOM.search(words):
                yield f"{path}:{number}: '{IDIOM.search(words).group(0)}' is an idiom, use a plain word: {name}"
        for name in IDENTIFIER.findall(line):
            idiom = NAME_IDIOM.search(name.replace("_", " "))
            if idiom:
                yield f"{path}:{number}: '{idiom.group(0).strip()}' is an idiom, use a plain word: {name}"


def reader_of(file):
    """The function that finds a file's prose, or None."""
    if file.suffix in (".h", ".c", ".cc", ".cu", ".cuh"):
        return read_cpp
    if file.suffix == ".md":
        return read_markdown
    if file.suffix == ".py":
        return read_python
    if file.name in ("meson.build", "meson_options.txt"):
        return read_meson
    if file.suffix in (".conf", ".cfg") or file.name.endswith(".service.in"):
        return read_hash_comments
    if file.suffix == ".sh":
        return read_shell
    if not file.suffix and file.is_file():
        with open(file, "rb") as script:
            program = re.match(rb"#!.*\b(bash|sh|python3?)\b", script.readline(80))
        if program:
            return read_python if program.group(1).startswith(b"python") else read_shell
    return None


def check(root):
    """All violations under root, in path order, and how many files were read."""
    root = Path(root)
    violations, count = [], 0
    for name in ROOTS:
        for file in [root / name] if "." in name else sorted((root / name).rglob("*")):
            path = file.relative_to(root).as_posix()
            reader = None if path.startswith(SKIPPED) or not file.is_file() else reader_of(file)
            if reader is None:
                continue
            count += 1
            text = file.read_text(encoding="utf-8")
            violations += check_blocks(path, reader(text, path.startswith(PROGRAMS)))
            if reader is read_cpp or reader is read_python and not path.startswith("tests/unit/layers/"):
                violations += check_names(path, text)
    return violations, count
