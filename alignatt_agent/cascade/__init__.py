"""The cascade (Figure 1 of the paper): engines and streams."""
