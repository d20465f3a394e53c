"""ClickHouse's engine (chDB) behind as much of its HTTP interface as reading takes: `python
serve.py PORT FOLDER`.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlsplit

_QUOTED = {"output_format_json_quote_64bit_integers": "1"}
"""As ClickHouse before version 25.8 has it, unless a request has another value."""


def main() -> None:
    from chdb import session

    engine = session.Session(sys.argv[2])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, "Ok.\n")

        def do_POST(self) -> None:
            statement = self.rfile.read(int(self.headers["Content-Length"])).decode()
            given = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            given.pop("database", None)
            of_statement = {k[6:]: v for k, v in given.items() if k.startswith("param_")}
            settings = {k: v for k, v in given.items() if not k.startswith("param_")}
            try:
                for name, value in (_QUOTED | settings).items():
                    engine.query(f"SET {name} = {value}")
                self._answer(200, engine.query(statement, params=of_statement).data())
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


if __name__ == "__main__":
    main()
