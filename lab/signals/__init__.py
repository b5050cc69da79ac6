"""Ask whether the signals of drafts, combined by a classifier, would make a better policy."""
