#!/usr/bin/env python3
"""Takes a picture (SVG) of a terminal program as it really draws itself, for the README.

    screenshot.py --size 120x40 --keys "t" --wait 12 --out overview.svg -- dashcam --config …

Runs the command in tmux, presses the keys, reads the screen with its colours (`capture-pane -e`) and writes each
cell run as SVG text on its background. `--keys` is a list of tmux key names, pressed half a second apart; `Wait:3`
waits three seconds. Needs python3 and tmux; root when the command does.
"""

import argparse
import html
import re
import subprocess
import time
import unicodedata
import uuid

CELL_W, CELL_H, FONT = 8.4, 18, 14
NO_BREAK = "\u00a0"  # plain spaces collapse in some SVG renderers
FOREGROUND, BACKGROUND = "#d8dee9", "#14171c"
BASE16 = ("#20242b", "#d9534f", "#57b36a", "#d9a441", "#5b8dd9", "#b76fc9", "#4fb3bf", "#c9ced6",
          "#5a626e", "#f0736e", "#7fd18f", "#f0c05f", "#86aef0", "#d295e0", "#78d3de", "#ffffff")


def palette(n: int) -> str:
    if n < 16:
        return BASE16[n]
    if n < 232:
        n -= 16
        steps = (0, 95, 135, 175, 215, 255)
        return "#%02x%02x%02x" % (steps[n // 36], steps[n // 6 % 6], steps[n % 6])
    grey = 8 + (n - 232) * 10
    return "#%02x%02x%02x" % (grey, grey, grey)


class Style:
    def __init__(self):
        self.reset()

    def reset(self):
        self.fg = self.bg = None
        self.bold = self.dim = self.reverse = self.underline = False

    def apply(self, codes):
        it = iter(codes)
        for code in it:
            if code == 0: self.reset()
            elif code == 1: self.bold = True
            elif code == 2: self.dim = True
            elif code == 4: self.underline = True
            elif code == 7: self.reverse = True
            elif code == 22: self.bold = self.dim = False
            elif code == 24: self.underline = False
            elif code == 27: self.reverse = False
            elif 30 <= code <= 37: self.fg = palette(code - 30)
            elif 90 <= code <= 97: self.fg = palette(code - 82)
            elif 40 <= code <= 47: self.bg = palette(code - 40)
            elif 100 <= code <= 107: self.bg = palette(code - 92)
            elif code == 39: self.fg = None
            elif code == 49: self.bg = None
            elif code in (38, 48):
                kind = next(it, None)
                if kind == 5: colour = palette(next(it, 0))
                elif kind == 2: colour = "#%02x%02x%02x" % (next(it, 0), next(it, 0), next(it, 0))
                else: continue
                if code == 38: self.fg = colour
                else: self.bg = colour

    def key(self):
        fg, bg = self.fg or FOREGROUND, self.bg
        if self.reverse:
            fg, bg = bg or BACKGROUND, fg
        return fg, bg, self.bold, self.dim, self.underline


def cells(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def runs(line: str):
    """(column, text, style key) of each run of equally styled cells."""
    style, column, out = Style(), 0, []
    for part in re.split(r"(\x1b\[[0-9;:]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()].|[\x0e\x0f])", line):
        if part.startswith("\x1b[") and part.endswith("m"):
            style.apply([int(c or 0) for c in re.split("[;:]", part[2:-1])])
            continue
        if not part or part[0] in "\x1b\x0e\x0f":
            continue
        out.append((column, part, style.key()))
        column += cells(part)
    return out


def svg(lines, columns: int, rows: int) -> str:
    width, height = columns * CELL_W + 24, rows * CELL_H + 24
    body = []
    for row, line in enumerate(lines[:rows]):
        top = 12 + row * CELL_H
        for column, text, (fg, bg, bold, dim, underline) in runs(line):
            left, length = 12 + column * CELL_W, cells(text) * CELL_W
            if bg:
                body.append(f'<rect x="{left:.1f}" y="{top}" width="{length:.1f}" height="{CELL_H}" fill="{bg}"/>')
            more = (' font-weight="bold"' if bold else "") + (' opacity=".6"' if dim else "")
            more += ' text-decoration="underline"' if underline else ""
            # Renderers trim spaces at the ends of a text, so each stretch without a wide space stands by itself.
            for stretch in re.finditer(r"\S+(?: \S+)*", text):
                x, words = left + cells(text[:stretch.start()]) * CELL_W, stretch.group()
                body.append(f'<text x="{x:.1f}" y="{top + 13}" textLength="{cells(words) * CELL_W:.1f}" fill="{fg}"{more}>'
                            f"{html.escape(words).replace(' ', NO_BREAK)}</text>")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">\n<style>text{{font-family:"DejaVu Sans Mono","Menlo",monospace;'
            f"font-size:{FONT}px;white-space:pre}}</style>\n"
            f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n' + "\n".join(body) + "\n</svg>\n")


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--size", default="120x40")
    args.add_argument("--keys", default="")
    args.add_argument("--wait", type=float, default=5.0, help="seconds before the first key")
    args.add_argument("--out", required=True)
    args.add_argument("command", nargs="+")
    args = args.parse_args()
    columns, rows = map(int, args.size.split("x"))
    session = f"picture-{uuid.uuid4().hex[:8]}"
    tmux = lambda *words: subprocess.run(["tmux", "-L", session, *words], check=True, capture_output=True, text=True)
    tmux("-f", "/dev/null", "new-session", "-d", "-s", session, "-x", str(columns), "-y", str(rows),
         "env", "TERM=tmux-256color", "COLORTERM=truecolor", "LC_ALL=C.UTF-8", *args.command)
    try:
        tmux("set-option", "-g", "status", "off")
        tmux("resize-window", "-t", session, "-x", str(columns), "-y", str(rows))
        time.sleep(args.wait)
        for key in args.keys.split():
            if key.startswith("Wait:"):
                time.sleep(float(key[5:]))
                continue
            tmux("send-keys", "-t", session, key)
            time.sleep(0.5)
        screen = tmux("capture-pane", "-e", "-p", "-t", session).stdout
    finally:
        subprocess.run(["tmux", "-L", session, "kill-server"], capture_output=True)
    with open(args.out, "w", encoding="utf-8") as out:
        out.write(svg(screen.split("\n"), columns, rows))


if __name__ == "__main__":
    main()
