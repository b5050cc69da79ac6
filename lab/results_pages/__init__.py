"""Pages of docs/results, written from the JSON in lab/results."""
