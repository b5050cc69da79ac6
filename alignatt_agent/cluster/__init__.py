"""Use a Ray cluster and its workers; requires the extra ``alignatt_agent[ray]``."""
