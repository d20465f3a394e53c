"""ClickHouse's engine (chDB) behind as much of its HTTP interface as reading takes: `python
serve.py PORT FOLDER`.
"""

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlsplit

_PARAMETER = re.compile(r"\{(\w+):(\w+)\}")


def main() -> None:
    from chdb import session

    engine = session.Session(sys.argv[2])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, "Ok.\n")

        def do_POST(self) -> None:
            statement = self.rfile.read(int(self.headers["Content-Length"])).decode()
            given = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            try:
                self._answer(200, engine.query(_bound(statement, given)).data())
            except RuntimeError as error:
                self._answer(404 if "UNKNOWN_TABLE" in str(error) else 400, str(error))

        def _answer(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()


def _bound(statement: str, given: dict[str, str]) -> str:
    """The statement with its parameters, which the HTTP interface takes beside it, as literals of
    their types.
    """

    def literal(found: re.Match[str]) -> str:
        text = json.dumps(given[f"param_{found[1]}"], ensure_ascii=False)[1:-1].replace("'", "\\'")
        return f"CAST('{text}' AS {found[2]})"

    return _PARAMETER.sub(literal, statement)


if __name__ == "__main__":
    main()
