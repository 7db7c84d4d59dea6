"""A large input in parts: shards, whoever runs them, and the folder that their results make."""
