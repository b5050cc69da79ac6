"""The protocols of clients, a file each: its ``PATHS``, its messages and its handler.

``serve(connection, service)`` serves a client until it is done; ``refuse(connection, service,
error)`` tells it what was raised, in the form of its protocol. The server closes the connection.
"""

from alignatt_agent.serve.wires import mt, own, realtime

WIRES = (own, realtime, mt)
