"""The token of a cache that AWS runs: what ElastiCache takes, told without the token or any part of it.

Nobody but Pulumi can read a `secure:` value, so `ebbtide check` says nothing of it. The program does, before its first
resource, and so does a preview: AWS looks at the token only once the network and the cluster are made.

Source: ElastiCache User Guide, "Authenticating with the AUTH command".
"""

import re

TOKEN_WANTED = "the token that the cache asks for: 16 to 128 letters, digits or ! & # $ ^ < > -"
SET_TOKEN = "pulumi config set --secret ebbtide:redisPassword"
_FEWEST, _MOST = 16, 128


def token_fault(token: str) -> str:
    """What ElastiCache would refuse about a token; "" for a sound one."""
    faults = [
        *(["is too short"] if len(token) < _FEWEST else []),
        *(["is too long"] if len(token) > _MOST else []),
        *(["has other characters"] if re.search(r"[^A-Za-z0-9!&#$^<>-]", token) else []),
    ]
    return f"a secret that {' and '.join(faults)}" if faults else ""
