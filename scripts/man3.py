#!/usr/bin/env python3
"""Writes the manual pages of section 3 from the public headers, whose comments are their one source.

    man3.py VERSION FOLDER HEADER.h...

A page is of the functions that stand together in a header, without an empty line between them: their prototypes, the types among them, and
what the comments say. The functions behind the first have pages that lead to it. One page more, hypatia_HEADER.h, has what the header says
of itself, and its types. A function that no comment stands with is an error."""
import os
import re
import sys

TOKEN = re.compile(r"""(?P<blank>\n[ \t]*\n)|(?P<comment>/\*.*?\*/)|(?P<macro>\#(?:[^\n\\]|\\.)*)|(?P<open>extern\ "C"\ \{)
    |(?P<by_value>HYP_BY_VALUE\((?P<type>\w+),\s*(?P<read_name>\w+),\s*\w+,\s*(?P<args>\([^)]*\)).*?\)(?=\n))
    |(?P<inline>(?:HYP_NODISCARD\ )?HYP_INLINE\b(?P<head>[^{]*)\{.*?\n\})
    |(?P<function>HYP_API\b[^;]*;)|(?P<other>(?:typedef|struct|enum)\b(?:[^;{]|\{(?:[^{}]|\{[^{}]*\})*\})*;)""", re.X | re.S)


def words(comment):
    """The text of a comment, its lines without what frames them; a row of dashes stands in for no words."""
    text = re.sub(r"^/\*|\*/$", "", comment)
    lines = [re.sub(r"^\s*\* ?", "", line) if i else line.strip() for i, line in enumerate(text.split("\n"))]
    return "\n".join(re.sub(r"^-{3,}(.*?)-*$", r"\1", line).rstrip() for line in lines).strip("\n")


def prototype(text):
    text = re.sub(r"HYP_(API|NODISCARD|INLINE)\b|HYP_PRINTF\([^)]*\)|/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\s+", " ", text).strip().rstrip(";").strip()
    return re.sub(r"\s+\)", ")", text) + ";"


def name_of(proto):
    return re.search(r"\b(hyp_\w+)\s*\(", proto)[1]


def items(text):
    """(kind, text) of what a header has: comment, trailing (one behind something in its line), function, other, blank."""
    for found in TOKEN.finditer(text):
        kind = found.lastgroup if found.lastgroup in ("blank", "comment", "function", "other") else None
        if found["by_value"]:
            yield "function", f"{found['type']} {found['read_name']}{found['args']};"
        elif found["inline"]:
            yield "function", prototype(found["head"])
        elif kind == "comment":
            alone = not text[text.rfind("\n", 0, found.start()) + 1:found.start()].strip()
            yield ("comment" if alone else "trailing"), words(found["comment"])
        elif kind:
            yield kind, prototype(found[0]) if kind == "function" else found[0]


def paragraphs(header):
    """Lists of items; the first is what the header says of itself."""
    part = []
    for kind, text in [*items(header), ("blank", "")]:
        if kind != "blank":
            part.append((kind, text))
        elif part:
            yield part
            part = []


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def prose(text):
    """Words to fill lines with; lines that are indented, and tables, as they are."""
    out, kept = [], False
    for line in text.split("\n"):
        keep = line.startswith("  ")
        if keep != kept:
            out.append(".nf" if keep else ".fi")
            kept = keep
        out.append(escape(line) if line.strip() else ".PP" if not kept else "")
    return "\n".join(out + [".fi"] * kept)


def code(text):
    return f".nf\n{escape(text)}\n.fi"


def first_sentence(text, fallback):
    found = re.match(r"(.*?[^.])(?:\.(?:\s|$)|[;:]\s|$)", " ".join(text.split()))
    return (found[1] if found else "")[:100].rsplit(" (", 1)[0] or fallback


def described(part):
    """The DESCRIPTION of a paragraph: comments, and what stands behind a function in its line."""
    out = []
    for i, (kind, text) in enumerate(part):
        if kind == "comment" and text:
            names = []
            for later, line in part[i + 1:]:
                if later == "comment":
                    break
                names += [name_of(line)] if later == "function" else []
            out += [".PP", f".B {', '.join(n + '()' for n in names)}", ".br"] * bool(names) + ["" if names else ".PP", prose(text)]
        elif kind == "trailing" and i and part[i - 1][0] == "function":
            out += [".TP", f".B {name_of(part[i - 1][1])}()", prose(text)]
    return "\n".join(line for line in out if line)


def page(title, version, names, summary, sections):
    head = f'.TH {title} 3 "" "Hypatia {version}" "Hypatia\'s libraries"\n.SH NAME\n{", ".join(names)} \\- {escape(summary)}\n'
    return head + "".join(f".SH {name}\n{text}\n" for name, text in sections if text)


def write(folder, name, text):
    with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
        file.write(text)


def write_header(version, folder, path):
    header = os.path.basename(path)
    with open(path, encoding="utf-8") as file:
        parts = list(paragraphs(file.read()))
    about = parts[0][0][1]
    summary = re.sub(r"^\S+ - ", "", about.split("\n\n")[0])
    include = f"#include <hypatia/{header}>"
    overview, functions, bad = "hypatia_" + header, [], []
    for part in parts[1:]:
        protos = [text for kind, text in part if kind == "function"]
        if not protos:
            continue
        names = [name_of(proto) for proto in protos]
        text = described(part)
        if not text:
            bad += names
        kinds = "\n".join([include, ""] + [text for kind, text in part if kind in ("function", "other")])
        said = next((text for kind, text in part if kind in ("comment", "trailing") and text), "")
        write(folder, names[0], page(names[0], version, names, first_sentence(said, "of " + header),
                                     [("SYNOPSIS", code(kinds)), ("DESCRIPTION", text), ("SEE ALSO", f".BR {overview} (3)")]))
        for other in names[1:]:
            write(folder, other, f".so man3/{names[0]}.3\n")
        functions += names
    types = [f"/* {before} */\n{text}" if kind == "other" and before else text for part in parts[1:]
             for kind, text, before in [(k, t, part[i - 1][1] if i and part[i - 1][0] == "comment" else "") for i, (k, t) in enumerate(part)] if kind == "other"]
    write(folder, overview, page(overview, version, [overview], first_sentence(summary, header),
                                 [("SYNOPSIS", code(include)), ("DESCRIPTION", prose(about)), ("FUNCTIONS", "\n.br\n".join(f".BR {n} (3)" for n in functions)),
                                  ("TYPES", code("\n\n".join(types)))]))
    return bad


def main():
    version, folder, *headers = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    bad = [f"{header}: no comment says what {name} does" for header in headers for name in write_header(version, folder, header)]
    sys.exit("\n".join(bad) or 0)


if __name__ == "__main__":
    main()
