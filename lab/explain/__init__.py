"""A single draft in detail: the request, its tokens, and the attention of each word."""
