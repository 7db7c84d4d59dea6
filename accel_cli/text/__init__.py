"""Text: the tokenizer and its vocabulary, the readers and the writers."""
