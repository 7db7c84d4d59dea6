"""Training a model on a user's own labels; PyTorch is imported only where it is trained."""
