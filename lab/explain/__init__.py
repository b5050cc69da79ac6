"""One draft in detail: the request, its tokens, the attention of each word."""
