"""`python -m ebbtide.pull_requests preview.md > comment.md`: a text as a comment of a pull request holds it.

The first line is a hidden marker, by which the workflow finds the comment again. Where GITHUB_STEP_SUMMARY names a
job's summary, the whole text goes there too. Exit code 2: the file cannot be read, or says nothing.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ebbtide.pull_requests.fitting import COMMENT, append_summary, fitted

MARKER = "<!-- ebbtide:preview -->\n"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    if len(arguments) != 1:
        print("wanted one Markdown file: python -m ebbtide.pull_requests preview.md", file=sys.stderr)
        return 2
    file = Path(arguments[0])
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        print(f"{file}: {error}; wanted a Markdown file (ebbtide preview … > preview.md)", file=sys.stderr)
        return 2
    if not text.strip():
        print(f"{file}: empty, wanted what the comment is to say", file=sys.stderr)
        return 2
    if summary := environment.get("GITHUB_STEP_SUMMARY", ""):
        append_summary(Path(summary), text)
    sys.stdout.write(MARKER + fitted(text, COMMENT - len(MARKER), _rest_line(file, environment)))
    return 0


def _rest_line(file: Path, environment: Mapping[str, str]) -> str:
    """Where the whole text is, for a comment that is cut."""
    server, repo, number = (environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    place = f"[the job's summary]({server}/{repo}/actions/runs/{number})" if number else f"`{file.name}`"
    return f"**The rest is left out here**: a comment holds {COMMENT:,} characters. All of it is in {place}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
