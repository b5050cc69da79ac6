"""One draft in detail: the request, its tokens, where each word attends to."""
