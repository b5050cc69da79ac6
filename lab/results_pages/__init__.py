"""Pages of docs/results, generated from the JSON files in lab/results."""
