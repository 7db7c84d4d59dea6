"""`accel serve`: an inference server over HTTP. Needs the extra `serve`."""
