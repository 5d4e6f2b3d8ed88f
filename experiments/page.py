"""Put what the experiments found into the documentation: tables, figures and circumstances.

In docs/evidence.md, docs/evidence-trees.md and docs/torch.md, what stands between
``<!-- results: NAME -->`` and ``<!-- end -->`` is replaced by the tables of results/NAME.json, and
results/NAME.svg is copied to docs/figures. Blocks without a results file stay as they are. Nothing
between the marks is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from protocol import ROOT

DOCS = ROOT / "docs"
PAGES = (DOCS / "evidence.md", DOCS / "evidence-trees.md", DOCS / "torch.md")
BLOCK = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(report: dict[str, Any], figure: Path | None) -> str:
    """Tables, figure and circumstances of one experiment."""
    about = report["about"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    circumstances = (
        f"`{about['command']}` at commit {', '.join(about['pieces_of_commits'])}, {about['date']}: "
        f"{about['seconds'] / 60:.1f} min with {about['jobs']} processes, "
        f"{about['cpu_seconds'] / 60:.1f} min of processor time; {about['machine']}; {versions}."
    )
    image = [f"![{report['experiment']}]({figure.relative_to(DOCS)})"] if figure else []
    return "\n\n".join([*(table.strip() for table in report["tables"]), *image, circumstances])


def filled(page: str, results: Path) -> str:
    """The page with every block for which there are results replaced."""

    def block(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        file = results / f"{name}.json"
        if not file.exists():
            return match.group()
        drawn, figure = file.with_suffix(".svg"), DOCS / "figures" / f"{name}.svg"
        if drawn.exists():
            figure.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn, figure)
        report = json.loads(file.read_text(encoding="utf-8"))
        return f"{start}\n{rendered(report, figure if drawn.exists() else None)}\n\n{end}"

    return BLOCK.sub(block, page)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results are")
    args = parser.parse_args()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text, args.results), encoding="utf-8")


if __name__ == "__main__":
    main()
