"""The protocols of clients; each has one file with its ``PATHS``, messages and handler.

``serve(connection, service)`` serves a client until it stops. If it fails, the server calls
``refuse(connection, service, error)``, which sends the error in the form of the protocol and
closes the connection.
"""

from alignatt_agent.serve.wires import mt, own, realtime

WIRES = (own, realtime, mt)
