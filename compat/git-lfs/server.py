"""giftless on 127.0.0.1: server.py PORT (0 takes a free one). Its settings are in GIFTLESS_CONFIG_FILE."""

import sys

from giftless.app import init_app
from werkzeug.serving import make_server

server = make_server("127.0.0.1", int(sys.argv[1]), init_app(), threaded=True)
print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
