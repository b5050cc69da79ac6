"""Use a Ray cluster and its workers; needs the extra ``alignatt_agent[ray]``."""
