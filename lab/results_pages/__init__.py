"""Write the pages of docs/results from the JSON in lab/results."""
