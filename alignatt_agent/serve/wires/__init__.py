"""The protocols of clients, a file each: its ``PATHS``, its messages and its handler.

``serve(connection, service)`` serves a client to its end; ``refuse(connection, service, error)``
reports an exception in the form of the protocol. The server closes the connection.
"""

from alignatt_agent.serve.wires import mt, own, realtime

WIRES = (own, realtime, mt)
