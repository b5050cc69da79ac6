"""Quality-latency curves of every policy, on the same transcripts and drafts."""
