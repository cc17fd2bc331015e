# moto, on loopback. It ends when its standard input does, which is when whoever started it is gone. It looks and writes in two
# steps, where S3 creates an object once however many ask for it; so requests are taken one by one.
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
import moto.server as moto
lock, run = threading.Lock(), moto.run_simple
def one_by_one(app):
    def serve(environ, start):
        with lock:
            return app(environ, start)
    return serve
moto.run_simple = lambda host, port, app, **rest: run(host, port, one_by_one(app), **rest)
moto.main(['-H', '127.0.0.1', '-p', sys.argv[1]])
