"""Reports: they read a Compilation or a file and decide nothing."""
