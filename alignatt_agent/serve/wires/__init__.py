"""The client protocols, each in one file with its ``PATHS``, messages, and handler.

``serve(connection, service)`` serves a client until the client stops. If ``serve`` fails, the
server calls ``refuse(connection, service, error)``, which sends the error in the format of the
protocol. Then the server closes the connection.
"""

from alignatt_agent.serve.wires import mt, own, realtime

WIRES = (own, realtime, mt)
