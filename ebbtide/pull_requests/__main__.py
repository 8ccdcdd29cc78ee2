"""`python -m ebbtide.pull_requests preview.md > comment.md`: cut a text to the size of a pull request's comment.

The first line is a hidden marker, by which the workflow finds its comment. If GITHUB_STEP_SUMMARY names a job's
summary, the entire text is added there too. Exit code 2: the file cannot be read, or is empty.
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
        print(f"{file}: empty, wanted the text of the comment", file=sys.stderr)
        return 2
    if summary := environment.get("GITHUB_STEP_SUMMARY", ""):
        append_summary(Path(summary), text)
    sys.stdout.write(MARKER + fitted(text, COMMENT - len(MARKER), _rest_line(file, environment)))
    return 0


def _rest_line(file: Path, environment: Mapping[str, str]) -> str:
    """The last line of a cut comment: where the entire text is."""
    server, repo, number = (environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    place = f"[the job's summary]({server}/{repo}/actions/runs/{number})" if number else f"`{file.name}`"
    return f"**The rest is left out here**: a comment holds {COMMENT:,} characters. All of it is in {place}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
