"""Beyond one machine: a Ray cluster and workers on it, with the extra ``alignatt_agent[ray]``."""
