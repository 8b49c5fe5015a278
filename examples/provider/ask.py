"""``python -m examples.provider.ask METHOD PATH [BODY] [--only a.0.b]``: a request, and its answer.

The provider is at PROVIDER_URL. BODY is a JSON object. Exits with 1 where it was refused.
"""

import argparse
import json
import os
import sys
from typing import Any

import httpx2


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.provider.ask", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("method")
    parser.add_argument("path")
    parser.add_argument("body", nargs="?", help="a JSON object")
    parser.add_argument("--only", help="print this of the answer alone, like effects.0.id")
    arguments = parser.parse_args()
    with httpx2.Client(base_url=os.environ["PROVIDER_URL"], trust_env=False) as http:
        answer = http.request(arguments.method, arguments.path, content=arguments.body)
    if answer.is_error:
        sys.stderr.write(answer.text + "\n")
        return 1
    found: Any = answer.json()
    for name in arguments.only.split(".") if arguments.only else ():
        found = found[int(name)] if name.isdecimal() else found[name]
    sys.stdout.write((found if isinstance(found, str) else json.dumps(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
