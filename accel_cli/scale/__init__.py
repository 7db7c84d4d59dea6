"""Planning: what a large text needs, from measured figures."""
