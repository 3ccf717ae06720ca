"""Which modules of a crate use each other in a circle, read from the sources.

    python tests/structure.py crates/sql          the circles of a crate, with the lines that close them
    python tests/structure.py crates/sql planner  of the modules below src/planner only

Every folder of modules is looked at by itself. Its nodes are the modules directly in it, each with all that
lies below it; an arrow leads from the module that names an item to the module that holds it. The folder's own
`mod.rs` (or `lib.rs`) is no node: what it exports again counts for the module that it comes from, so that an
export cannot hide a circle.

What counts: `use` in all its forms, paths in code and in macros, macros that are in scope by the order of
modules. What does not: comments, strings, visibility (`pub(in …)`), what only tests compile, and calls of
methods, which name no path.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rust_source import Token, after_group, of_the_product, tokens

Name = tuple[str, ...]
"""The path of a module: `()` is the crate itself, `("planner", "join")` is `crate::planner::join`."""

ITEMS = {"fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"}


@dataclass(frozen=True)
class Mention:
    """A path that stands in a module, and its line."""

    path: Name
    line: int


@dataclass
class Module:
    """What one module holds, brings in and mentions."""

    file: Path
    children: set[str] = field(default_factory=set)
    items: set[str] = field(default_factory=set)
    macros: set[str] = field(default_factory=set)
    imports: dict[str, Name] = field(default_factory=dict)
    globs: list[Name] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    called_macros: list[Mention] = field(default_factory=list)


def use_tree(all_tokens: list[Token], start: int, prefix: Name) -> tuple[int, list[tuple[Name, str, int]]]:
    """The place after a `use` tree, and its paths, each with the name that it gets and its line."""
    leaves: list[tuple[Name, str, int]] = []
    path, place = prefix, start
    while True:
        token = all_tokens[place]
        if token.text == "{":
            place += 1
            while all_tokens[place].text != "}":
                place, inner = use_tree(all_tokens, place, path)
                leaves += inner
                place += all_tokens[place].text == ","
            return place + 1, leaves
        if token.text in (",", ";", "}"):
            if len(path) > len(prefix):
                leaves.append((path, path[-1], token.line))
            return place, leaves
        if token.text == "*":
            leaves.append((path, "*", token.line))
            return place + 1, leaves
        if token.text == "as":
            leaves.append((path, all_tokens[place + 1].text, token.line))
            return place + 2, leaves
        if token.text == "self" and path:
            alias = all_tokens[place + 2].text if all_tokens[place + 1].text == "as" else path[-1]
            leaves.append((path, alias, token.line))
            return place + (3 if all_tokens[place + 1].text == "as" else 1), leaves
        if token.text != "::":
            path = (*path, token.text)
        place += 1


class Crate:
    """The modules of a crate, and who names whom."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.modules: dict[Name, Module] = {}
        self._read((), folder / "src" / "lib.rs")

    def _read(self, name: Name, file: Path) -> None:
        """Reads a module and every module that it declares."""
        self._scan(name, file, of_the_product(tokens(file.read_text())))

    def _scan(self, name: Name, file: Path, code: list[Token]) -> None:
        module = self.modules[name] = Module(file)
        place = 0
        while place < len(code):
            place = self._step(name, module, code, place)

    def _step(self, name: Name, module: Module, code: list[Token], place: int) -> int:
        """Takes in what stands at a place, and returns the next place."""
        text, line = code[place].text, code[place].line
        after = code[place + 1].text if place + 1 < len(code) else ""
        if text == "pub" and after == "(":
            return after_group(code, place + 1)
        if text == "use" and after != "<":
            end, leaves = use_tree(code, place + 1, ())
            for path, alias, at in leaves:
                self._import(module, path, alias, at)
            return end
        if text == "mod" and re.match(r"\w", after):
            return self._declare(name, module, code, place)
        if text == "macro_rules" and after == "!":
            module.macros.add(code[place + 2].text)
            return place + 3
        if text in ITEMS and re.match(r"\w", after):
            module.items.add(after)
            return place + 2
        if re.match(r"\w", text):
            if after == "!":
                module.called_macros.append(Mention((text,), line))
                return place + 1
            return self._mention(module, code, place)
        return place + 1

    def _declare(self, name: Name, module: Module, code: list[Token], place: int) -> int:
        """Takes in `mod x;` or `mod x { … }`."""
        child = code[place + 1].text
        module.children.add(child)
        if code[place + 2].text == "{":
            end = after_group(code, place + 2)
            self._scan((*name, child), module.file, code[place + 3 : end - 1])
            return end
        own = module.file
        below = own.parent if own.name in ("lib.rs", "mod.rs") else own.with_suffix("")
        candidates = [below / f"{child}.rs", below / child / "mod.rs"]
        elsewhere = re.search(rf'#\[path = "([^"]+)"\]\s*(?:pub\S* )?mod {child};', own.read_text())
        if elsewhere is not None:
            candidates.insert(0, own.parent / elsewhere[1])
        found = [file for file in candidates if file.exists()]
        assert found, f"{own} declares {child}, which has no file"
        self._read((*name, child), found[0])
        return place + 3

    @staticmethod
    def _import(module: Module, path: Name, alias: str, line: int) -> None:
        if alias == "*":
            module.globs.append(path)
        else:
            module.imports[alias] = path
        module.mentions.append(Mention(path, line))

    @staticmethod
    def _mention(module: Module, code: list[Token], place: int) -> int:
        """Takes in a path such as `super::join::cost`, and single words, which globs may bring in."""
        path = [code[place].text]
        end = place + 1
        while end + 1 < len(code) and code[end].text == "::" and re.match(r"\w", code[end + 1].text):
            path.append(code[end + 1].text)
            end += 2
        behind = code[place - 1].text if place else ""
        imported = len(path) == 1 and path[0] in module.imports
        if behind not in (".", "::") and not imported:
            module.mentions.append(Mention(tuple(path), code[place].line))
        return end

    def holders(self, name: Name, path: Name) -> set[Name]:
        """The modules that a path written in the module `name` names: the item's, and who exports it."""
        start = self._start(name, path)
        return set() if start is None else self._walk(*start, seen=set())

    def _start(self, name: Name, path: Name) -> tuple[Name, Name] | None:
        """The module at which a path begins, and what is left of the path."""
        first, rest = path[0], path[1:]
        if first == "crate":
            return (), rest
        if first == "self":
            return name, rest
        if first == "super":
            here = name[:-1]
            while rest and rest[0] == "super":
                here, rest = here[:-1], rest[1:]
            return here, rest
        module = self.modules[name]
        brought_in = first in module.children or module.imports.get(first, path[:1]) != path[:1]
        if brought_in or self._by_glob(name, first, set()) is not None:
            return name, path
        return None

    def _by_glob(self, name: Name, word: str, seen: set[Name]) -> Name | None:
        """The module whose `*` brings a word in, of those that this module imports all of."""
        seen.add(name)
        for path in self.modules[name].globs:
            start = self._start_of_glob(name, path)
            if start is None or start in seen:
                continue
            module = self.modules[start]
            if word in module.items | module.children | module.macros | set(module.imports):
                return start
            if self._by_glob(start, word, seen) is not None:
                return start
        return None

    def _start_of_glob(self, name: Name, path: Name) -> Name | None:
        """The module that `path::*` takes everything of, if it is one of ours."""
        here = name
        for place, word in enumerate(path):
            if word in ("crate", "self", "super"):
                here = {"crate": (), "self": here, "super": here[:-1]}[word]
            elif word in self.modules[here].children:
                here = (*here, word)
            elif place == 0 and word in self.modules[here].imports:
                found = self._start_of_glob(here, self.modules[here].imports[word])
                if found is None:
                    return None
                here = found
            else:
                return None
        return here

    def _walk(self, here: Name, rest: Name, seen: set[tuple[Name, str]]) -> set[Name]:
        """Follows a path from a module on, through what modules on the way export again."""
        while rest and rest[0] in self.modules[here].children:
            here, rest = (*here, rest[0]), rest[1:]
        if not rest or (here, rest[0]) in seen:
            return {here}
        seen.add((here, rest[0]))
        module = self.modules[here]
        if rest[0] in module.imports:
            start = self._start(here, module.imports[rest[0]])
            return {here} if start is None else {here} | self._walk(start[0], (*start[1], *rest[1:]), seen)
        if rest[0] not in module.items | module.macros:
            exporter = self._by_glob(here, rest[0], set())
            if exporter is not None:
                return {here} | self._walk(exporter, rest, seen)
        return {here}

    @cached_property
    def uses(self) -> list[tuple[Name, Name, Mention]]:
        """Every use of one module by another."""
        owners = {macro: name for name, module in self.modules.items() for macro in module.macros}
        uses = []
        for name, module in self.modules.items():
            for mention in module.mentions:
                uses += [(name, target, mention) for target in self.holders(name, mention.path)]
            for mention in module.called_macros:
                macro = mention.path[0]
                if macro in owners and macro not in module.imports:
                    uses.append((name, owners[macro], mention))
        return uses

    def folders(self) -> list[Name]:
        """The modules that have modules in them."""
        return sorted(name for name, module in self.modules.items() if len(module.children) > 1)

    def arrows(self, folder: Name) -> dict[str, dict[str, list[str]]]:
        """Among the modules of a folder: who uses whom, and the lines in which that is done."""
        arrows: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        depth = len(folder)
        for source, target, mention in self.uses:
            if source[:depth] != folder or target[:depth] != folder or depth in (len(source), len(target)):
                continue
            if source[depth] != target[depth]:
                file = self.modules[source].file.relative_to(self.folder)
                arrows[source[depth]][target[depth]].append(
                    f"{file}:{mention.line} {'::'.join(mention.path)}"
                )
        return arrows

    def circles(self, folder: Name) -> list[list[str]]:
        """The modules of a folder that use each other in a circle."""
        arrows = self.arrows(folder)
        return strongly_connected({source: set(targets) for source, targets in arrows.items()})


def strongly_connected(arrows: dict[str, set[str]]) -> list[list[str]]:
    """The groups of two and more nodes that all reach each other."""
    reached = {node: reachable(arrows, node) for node in arrows}
    groups = {
        tuple(sorted({other for other in ends if node in reached.get(other, set())}))
        for node, ends in reached.items()
        if node in ends
    }
    return sorted(list(group) for group in groups)


def reachable(arrows: dict[str, set[str]], start: str) -> set[str]:
    """The nodes to which arrows lead from a node."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = arrows.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def describe(crate: Crate, folder: Name, places: int = 4) -> str:
    """The circles of a folder in words, the thinnest arrows first: they are the ones to cut."""
    arrows = crate.arrows(folder)
    paragraphs = []
    for circle in crate.circles(folder):
        lines = [f"{'::'.join(('crate', *folder))}: {len(circle)} modules in a circle: {', '.join(circle)}"]
        inside = [(a, b, arrows[a][b]) for a in circle for b in circle if b in arrows[a]]
        for source, target, uses in sorted(inside, key=lambda each: len(each[2])):
            lines.append(f"  {source} -> {target}, {len(uses)} uses")
            lines += [f"      {use}" for use in uses[:places]]
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


def main(arguments: list[str]) -> int:
    """Prints the circles of a crate, and fails if there are some."""
    if not arguments:
        print(__doc__)
        return 2
    crate = Crate(Path(arguments[0]))
    below = tuple(arguments[1].split("/")) if len(arguments) > 1 else ()
    folders = [folder for folder in crate.folders() if folder[: len(below)] == below]
    found = [text for folder in folders if (text := describe(crate, folder))]
    print("\n\n".join(found) or f"{arguments[0]}: no circles in {len(folders)} folders of modules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
