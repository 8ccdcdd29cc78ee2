"""Write the ids of the policies for `ebbtide.settings`, which may not import `ebbtide.policies`.

`make schema` runs it first, in a process of its own: the schemas of stack files list the ids.
"""

from pathlib import Path

from ebbtide.policies import RULES
from ebbtide.text.files import write_file

FILE = Path(__file__).parents[2] / "ebbtide" / "settings" / "sections" / "policy_ids.txt"

if __name__ == "__main__":
    write_file(FILE, "".join(f"{rule.code}\n" for rule in RULES))
