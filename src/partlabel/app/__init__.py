"""What people touch: command line, report, review page, demo, downloads."""
